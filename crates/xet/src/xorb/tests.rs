//! Xorbs that are built and read back.

mod damage;

use proptest::prelude::*;
use testkit::corpus;

use super::*;
use crate::compress::{Decompressor, Policy};
use crate::merkle;

const POLICIES: [Policy; 4] = [
    Policy::Auto,
    Policy::Always(Scheme::Raw),
    Policy::Always(Scheme::Lz4),
    Policy::Always(Scheme::GroupedLz4),
];
const FORMS: [Form; 3] = [Form::Footerless, Form::V0, Form::V1];

fn seal(policy: Policy, form: Form, chunks: &[Vec<u8>]) -> SealedXorb {
    let mut builder = XorbBuilder::new(policy);
    for chunk in chunks {
        builder.push(ChunkHash::of(chunk), chunk).unwrap();
    }
    builder.seal(form).unwrap()
}

/// Three chunks, one of each kind: as text, as numbers, as noise.
fn three() -> Vec<Vec<u8>> {
    vec![corpus::text(1, 300), corpus::f32_ramp(1.0, 0.25, 400), corpus::noise(2, 33)]
}

fn small(form: Form) -> SealedXorb {
    seal(Policy::Auto, form, &three())
}

fn scan(bytes: &[u8]) -> Result<ScannedXorb, FormatError> {
    verify(bytes, None, false)
}

#[test]
fn a_header_encodes_and_parses() {
    for scheme in [Scheme::Raw, Scheme::Lz4, Scheme::GroupedLz4] {
        let header = ChunkHeader { stored_len: 0x01_02_03, scheme, chunk_len: 0x01_02_03 };
        let bytes = header.encode();
        assert_eq!(bytes, [0, 3, 2, 1, scheme.byte(), 3, 2, 1]);
        assert_eq!(ChunkHeader::parse(&mut Reader::new(&bytes)).unwrap(), header);
    }
}

#[test]
fn what_was_sealed_is_scanned_in_every_form_and_scheme() {
    let chunks = [three(), vec![vec![7; 128 * 1024], vec![0]]].concat();
    for policy in POLICIES {
        for form in FORMS {
            let sealed = seal(policy, form, &chunks);
            let scanned = verify(&sealed.bytes, Some(sealed.info.hash()), form != Form::Footerless).unwrap();
            assert_eq!(scanned, ScannedXorb { info: sealed.info.clone(), form, nonce: [0; 4] });

            let footer_bytes = form.footer_bytes(5);
            assert_eq!(sealed.bytes.len() as u64, sealed.info.stored_bytes() + footer_bytes);
            assert_eq!(sealed.info.raw_bytes(), chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>());
            let leaves = chunks.iter().map(|chunk| (ChunkHash::of(chunk), chunk.len() as u64));
            assert_eq!(sealed.info.hash(), merkle::xorb_hash(leaves));
        }
    }
}

#[test]
fn the_hash_does_not_depend_on_compression() {
    let hashes = POLICIES.map(|policy| seal(policy, Form::V1, &three()).info.hash());
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
}

#[test]
fn ranges_of_chunks_lie_between_their_ends() {
    let info = small(Form::Footerless).info;
    let [a, b, c] = info.chunks() else { panic!("three chunks") };
    let (a, b, c) = (u64::from(a.stored_end), u64::from(b.stored_end), u64::from(c.stored_end));
    assert_eq!(info.stored_range(0..3), Some(0..c));
    assert_eq!(info.stored_range(1..2), Some(a..b));
    assert_eq!(info.stored_range(2..3), Some(b..c));
    assert_eq!(info.stored_range(3..3), Some(c..c));
    assert_eq!(info.raw_range(1..3), Some(300..733));
    assert_eq!(
        [0, 1, 2, 3, u32::MAX].map(|i| info.chunk_len(i)),
        [Some(300), Some(400), Some(33), None, None]
    );
    assert_eq!((info.chunk_count(), info.stored_bytes(), info.raw_bytes()), (3, c, 733));
    #[allow(clippy::reversed_empty_ranges, reason = "that is the point")]
    for none in [2..4, 4..4, 2..1, 0..u32::MAX] {
        assert_eq!(info.stored_range(none), None);
    }
}

#[test]
fn a_builder_refuses_what_is_no_chunk_and_seals_no_empty_xorb() {
    let mut builder = XorbBuilder::new(Policy::Auto);
    assert_eq!(builder.seal(Form::V1), Err(BuildError::Empty));
    for found in [0, 128 * 1024 + 1] {
        let chunk = vec![0; found];
        assert_eq!(builder.push(ChunkHash::of(&chunk), &chunk), Err(BuildError::ChunkLength { found }));
    }
    assert!(builder.is_empty());
}

#[test]
fn a_builder_goes_on_after_a_seal_in_the_same_buffer() {
    let mut builder = XorbBuilder::new(Policy::Auto);
    let chunk = corpus::text(3, 5000);
    builder.push(ChunkHash::of(&chunk), &chunk).unwrap();
    let first = builder.seal(Form::V1).unwrap();
    assert_eq!((builder.is_empty(), builder.raw_bytes(), builder.stored_bytes()), (true, 0, 0));

    let (again, place) = (first.clone(), first.bytes.as_ptr());
    builder.recycle(first.bytes);
    builder.push(ChunkHash::of(&chunk), &chunk).unwrap();
    let second = builder.seal(Form::V1).unwrap();
    assert_eq!(second, again);
    assert_eq!(second.bytes.as_ptr(), place);
}

#[test]
fn a_xorb_is_full_at_64_mib_of_raw_bytes() {
    let chunk = vec![0; 128 * 1024];
    let hash = ChunkHash::of(&chunk);
    let mut builder = XorbBuilder::new(Policy::Always(Scheme::Lz4));
    for _ in 0..512 {
        builder.push(hash, &chunk).unwrap();
    }
    assert_eq!(builder.push(ChunkHash::of(&[1]), &[1]), Err(BuildError::Full));
    assert_eq!((builder.raw_bytes(), builder.chunk_count()), (limits::XORB_BYTES_MAX, 512));
    let full = builder.seal(Form::V1).unwrap();
    assert_eq!(verify(&full.bytes, Some(full.info.hash()), true).unwrap().info, full.info);

    let mut scanner = XorbScanner::new(None);
    scanner.push(&full.bytes[..full.info.stored_bytes() as usize]).unwrap();
    let over = ChunkHeader { stored_len: 1, scheme: Scheme::Raw, chunk_len: 1 }.encode();
    let (at, found) = (full.info.stored_bytes() + 5, limits::XORB_BYTES_MAX + 1);
    let error = scanner.push(&over).unwrap_err();
    assert!(matches!(error, FormatError::Range { at: a, found: f, .. } if (a, f) == (at, found)), "{error}");
}

#[test]
fn a_xorb_is_full_at_8192_chunks() {
    let mut builder = XorbBuilder::new(Policy::Auto);
    for _ in 0..8192 {
        builder.push(ChunkHash::of(b"x"), b"x").unwrap();
    }
    assert_eq!(builder.push(ChunkHash::of(b"x"), b"x"), Err(BuildError::Full));
    let full = builder.seal(Form::V1).unwrap();
    assert_eq!(full.bytes.len() as u64, 9 * 8192 + Footer::BYTES_MAX);
    assert_eq!(verify(&full.bytes, Some(full.info.hash()), true).unwrap().info, full.info);
    assert_eq!(Footer::parse(&full.bytes, 0).unwrap().into_info(), Some(full.info.clone()));

    let chunks = &full.bytes[..9 * 8192];
    let one_more = [chunks, &chunks[..9]].concat();
    let error = scan(&one_more).unwrap_err();
    assert!(matches!(error, FormatError::Range { at: 73_728, found: 8193, .. }), "{error}");
}

/// Tools unpack with this.
#[test]
fn a_scan_shows_each_chunk_and_its_place() {
    for step in [1, 9, 100, 10_000] {
        let sealed = small(Form::V1);
        let mut scanner = XorbScanner::new(None);
        let (mut raw, mut ends, mut schemes) = (Vec::new(), Vec::new(), Vec::new());
        for piece in sealed.bytes.chunks(step) {
            let each = &mut |chunk: DecodedChunk<'_>| {
                assert_eq!(chunk.hash, ChunkHash::of(chunk.raw));
                assert_eq!(chunk.stored.end - chunk.stored.start, chunk.header.total_len() as u64);
                raw.push(chunk.raw.to_vec());
                ends.push(chunk.stored.end);
                schemes.push(chunk.header.scheme);
            };
            scanner.push_with(piece, each).unwrap();
        }
        assert_eq!(raw, three());
        assert_eq!(ends, sealed.info.chunks().iter().map(|c| u64::from(c.stored_end)).collect::<Vec<_>>());
        assert_eq!(schemes.last(), Some(&Scheme::Raw));
    }
}

/// A published file ends so.
#[test]
fn a_footer_is_found_from_the_end() {
    for form in [Form::V0, Form::V1] {
        let sealed = small(form);
        let end = sealed.bytes.len();
        let start = sealed.info.stored_bytes();
        let needed = Footer::tail_bytes(&sealed.bytes[end - 4..], end as u64 - 4).unwrap();
        assert_eq!(needed, form.footer_bytes(3));
        assert_eq!(start + needed, end as u64);

        let footer = Footer::parse(&sealed.bytes[start as usize..], start).unwrap();
        assert_eq!(Footer::parse(&sealed.bytes, 0).unwrap(), footer);
        assert_eq!((footer.form, footer.hash, footer.nonce), (form, sealed.info.hash(), [0; 4]));
        for (parsed, is) in footer.chunks.iter().zip(sealed.info.chunks()) {
            let raw_end = (form == Form::V1).then_some(is.raw_end);
            let expected = FooterChunk { hash: is.hash, stored_end: is.stored_end, raw_end };
            assert_eq!(*parsed, expected);
        }
        assert_eq!(footer.into_info(), (form == Form::V1).then_some(sealed.info));

        let short = Footer::parse(&sealed.bytes[start as usize + 1..], start + 1).unwrap_err();
        assert!(matches!(short, FormatError::Truncated { what: "xorb footer", .. }), "{short}");
        // The same bytes parsed to lie elsewhere: then the chunks do not reach the footer.
        assert!(Footer::parse(&sealed.bytes, 1).is_err());
    }
}

#[test]
fn a_run_of_chunks_ends_at_the_first_error() {
    let sealed = small(Form::V1);
    let mut decoder = ChunkDecoder::new();
    let mut reader = ChunkReader::new(&sealed.bytes, 0, &mut decoder);
    for _ in 0..3 {
        assert!(reader.next_chunk().unwrap().is_some());
    }
    // The footer is no stored chunk.
    let at = sealed.info.stored_bytes();
    let error = reader.next_chunk().unwrap_err();
    assert!(matches!(error, FormatError::Version { at: a, .. } if a == at), "{error}");
    assert_eq!(reader.next_chunk(), Ok(None));
}

/// Chunks of mixed kinds and lengths.
fn any_chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let chunk = (0..4u8, any::<u64>(), 1..6000usize).prop_map(|(kind, seed, len)| match kind {
        0 => corpus::noise(seed, len),
        1 => corpus::text(seed, len),
        2 => corpus::f32_noise(seed, 0.1, len),
        _ => corpus::constant(seed as u8, len),
    });
    proptest::collection::vec(chunk, 1..12)
}

fn any_policy() -> impl Strategy<Value = Policy> {
    proptest::sample::select(&POLICIES)
}

fn any_form() -> impl Strategy<Value = Form> {
    proptest::sample::select(&FORMS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A verdict depends on the bytes alone, never on how they arrive; nor does an error.
    #[test]
    fn a_scan_ignores_arrival(
        chunks in any_chunks(),
        policy in any_policy(),
        form in any_form(),
        steps in proptest::collection::vec(1..3000usize, 1..20),
        damage in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let sealed = seal(policy, form, &chunks);
        let mut bytes = sealed.bytes;
        if let Some(at) = damage {
            let at = at.index(bytes.len());
            bytes[at] ^= 0x10;
        }
        let mut scanner = XorbScanner::new(Some(sealed.info.hash()));
        let mut rest = bytes.as_slice();
        let mut pushed = Ok(());
        for step in steps.iter().cycle() {
            let (piece, after) = rest.split_at((*step).min(rest.len()));
            pushed = pushed.and_then(|()| scanner.push(piece));
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let in_pieces = pushed.and_then(|()| scanner.finish());
        let mut at_once = verify(&bytes, Some(sealed.info.hash()), false);
        if let (Err(FormatError::Trailing { bytes, .. }), Err(FormatError::Trailing { bytes: same, .. }))
            = (&in_pieces, &mut at_once) {
            *same = *bytes; // only as many as have arrived
        }
        prop_assert_eq!(&in_pieces, &at_once);
        if let Ok(scanned) = at_once {
            prop_assert_eq!(scanned.info, sealed.info);
        }
    }

    /// A range of chunks is a slice of the whole, with and without knowing the hashes.
    #[test]
    fn a_range_equals_a_slice(
        chunks in any_chunks(),
        policy in any_policy(),
        ends in any::<(proptest::sample::Index, proptest::sample::Index)>(),
        before in 0..50u64,
    ) {
        let sealed = seal(policy, Form::V1, &chunks);
        let (a, b) = (ends.0.index(chunks.len() + 1), ends.1.index(chunks.len() + 1));
        let range = a.min(b) as u32..a.max(b) as u32;
        let raw: Vec<u8> = chunks.concat();
        let raw_range = sealed.info.raw_range(range.clone()).unwrap();
        let expected = &raw[raw_range.start as usize..raw_range.end as usize];

        let info = Footer::parse(&sealed.bytes, 0).unwrap().into_info().unwrap();
        let stored = info.stored_range(range.clone()).unwrap();
        let at = stored.start.saturating_sub(before);
        let mut out = Vec::new();
        read_chunks(&info, range.clone(), &sealed.bytes[at as usize..], at, &mut Decompressor::new(), &mut out)
            .unwrap();
        prop_assert_eq!(out, expected);

        let run = &sealed.bytes[stored.start as usize..stored.end as usize];
        let mut decoder = ChunkDecoder::new();
        let mut reader = ChunkReader::new(run, stored.start, &mut decoder);
        let (mut out, mut index) = (Vec::<u8>::new(), range.start as usize);
        while let Some(chunk) = reader.next_chunk().unwrap() {
            prop_assert_eq!(chunk.hash, info.chunks()[index].hash);
            prop_assert_eq!(chunk.stored.end, u64::from(info.chunks()[index].stored_end));
            out.extend(chunk.raw);
            index += 1;
        }
        prop_assert_eq!(out, expected);
        prop_assert_eq!(index, range.end as usize);
    }

    #[test]
    fn noise_is_never_a_xorb_and_never_a_panic(bytes: Vec<u8>, at in 0..1u64 << 40) {
        let _ = scan(&bytes);
        let _ = Footer::parse(&bytes, at);
        let mut decoder = ChunkDecoder::new();
        let mut reader = ChunkReader::new(&bytes, at, &mut decoder);
        while let Ok(Some(_)) = reader.next_chunk() {}
    }
}

#[test]
fn chunks_stored_in_pieces_are_the_xorb_made_at_once() {
    let data = testkit::corpus::noise(9, 300_000);
    let chunks: Vec<&[u8]> = data.chunks(50_000).collect();
    let mut builder = XorbBuilder::new(crate::compress::Policy::Auto);
    let mut writers = [0, 1].map(|_| ChunkWriter::new(crate::compress::Policy::Auto));
    let (mut bytes, mut stored) = (Vec::new(), Vec::new());
    for (n, chunk) in chunks.iter().enumerate() {
        let hash = ChunkHash::of(chunk);
        builder.push(hash, chunk).unwrap();
        let stored_bytes = writers[n % 2].push(chunk, &mut bytes).unwrap();
        stored.push(StoredChunk { hash, raw_bytes: chunk.len() as u32, stored_bytes });
    }
    let sealed = builder.seal(Form::Footerless).unwrap();
    assert_eq!(XorbInfo::from_chunks(stored.clone()).unwrap(), sealed.info);
    assert_eq!(bytes, sealed.bytes);
    assert_eq!(XorbInfo::from_chunks([]), Err(BuildError::Empty));
    let many = std::iter::repeat_n(stored[0], limits::XORB_CHUNKS_MAX as usize + 1);
    assert_eq!(XorbInfo::from_chunks(many), Err(BuildError::Full));
}

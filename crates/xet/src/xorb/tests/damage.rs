//! Xorbs that are not what they claim to be.

use testkit::{corpus, damage};

use super::{FORMS, scan, small};
use crate::compress::Decompressor;
use crate::xorb::*;

#[test]
fn a_header_beyond_the_limits_is_refused_where_it_lies() {
    let parse = |bytes: [u8; 8]| ChunkHeader::parse(&mut Reader::at(&bytes, 100)).unwrap_err();
    assert!(matches!(parse([1, 1, 0, 0, 0, 1, 0, 0]), FormatError::Version { at: 100, found: 1, .. }));
    assert!(matches!(parse([0, 1, 0, 0, 3, 1, 0, 0]), FormatError::Scheme { at: 104, found: 3 }));
    assert!(matches!(parse([0, 0, 0, 0, 1, 1, 0, 0]), FormatError::Range { at: 101, found: 0, .. }));
    assert!(matches!(parse([0, 1, 0, 4, 1, 1, 0, 0]), FormatError::Range { at: 101, found: 0x4_0001, .. }));
    assert!(matches!(parse([0, 1, 0, 0, 1, 0, 0, 0]), FormatError::Range { at: 105, found: 0, .. }));
    assert!(matches!(parse([0, 1, 0, 0, 1, 1, 0, 2]), FormatError::Range { at: 105, found: 0x2_0001, .. }));
    assert!(matches!(parse([0, 2, 0, 0, 0, 1, 0, 0]), FormatError::Number { at: 105, found: 1, .. }));
    // The largest lengths there are.
    ChunkHeader::parse(&mut Reader::new(&[0, 0, 0, 4, 1, 0, 0, 2])).unwrap();
}

#[test]
fn an_empty_xorb_is_refused_with_and_without_a_footer() {
    assert!(matches!(scan(&[]), Err(FormatError::Range { at: 0, found: 0, .. })));
    let mut footer = Vec::new();
    XorbInfo { hash: XorbHash::ZERO, chunks: Vec::new() }.encode_footer(Form::V1, &mut footer);
    assert_eq!(footer.len() as u64, Form::V1.footer_bytes(0));
    assert!(matches!(scan(&footer), Err(FormatError::Range { at: 0, found: 0, .. })));
    assert!(Footer::parse(&footer, 0).is_err());
}

#[test]
fn another_xorb_than_the_requested_one_is_refused() {
    for form in FORMS {
        let sealed = small(form);
        let expected = XorbHash::new([9; 32]);
        let error = verify(&sealed.bytes, Some(expected), false).unwrap_err();
        let found = sealed.info.hash().0;
        assert_eq!(error, FormatError::Hash { at: 0, what: "xorb", expected: expected.0, found });
    }
}

#[test]
fn what_is_stored_must_have_a_footer() {
    let sealed = small(Form::Footerless);
    let error = verify(&sealed.bytes, None, true).unwrap_err();
    let at = sealed.bytes.len() as u64;
    assert_eq!(error, FormatError::Truncated { at, what: "xorb footer", needed: 216, left: 0 });
}

#[test]
fn the_first_letters_of_a_footer_are_a_footer_cut_short() {
    let mut bytes = small(Form::Footerless).bytes;
    let at = bytes.len() as u64;
    bytes.extend(b"XETB");
    assert_eq!(
        scan(&bytes).unwrap_err(),
        FormatError::Truncated { at, what: "xorb footer", needed: 60 + 36 * 3 + 4, left: 4 }
    );
}

/// It was one byte late when the pieces ended with the header, and said that the stored chunk was cut short.
#[test]
fn a_bad_header_is_refused_when_its_last_byte_arrives() {
    for step in [1, 3, 8] {
        let mut scanner = XorbScanner::new(None);
        let error = [7; 8].chunks(step).try_for_each(|piece| scanner.push(piece)).unwrap_err();
        assert!(matches!(error, FormatError::Version { at: 0, found: 7, .. }), "{error}");
    }
}

#[test]
fn an_error_is_not_forgotten() {
    let mut bytes = small(Form::V1).bytes;
    bytes[0] = 1;
    let mut scanner = XorbScanner::new(None);
    let error = scanner.push(&bytes).unwrap_err();
    assert_eq!(scanner.push(&small(Form::V1).bytes), Err(error.clone()));
    assert_eq!(scanner.finish(), Err(error));
}

#[test]
fn a_truncated_xorb_is_refused() {
    for form in FORMS {
        let sealed = small(form);
        let ends: Vec<_> = sealed.info.chunks().iter().map(|place| place.stored_end as usize).collect();
        for (what, cut) in damage::truncations(&sealed.bytes) {
            assert!(Footer::parse(&cut, 0).is_err(), "{form:?}: {what}");
            // Without its footer it is the same xorb as uploaded; nothing tells it apart but the demand for a footer.
            let whole = cut.len() == ends[2];
            assert_eq!(verify(&cut, Some(sealed.info.hash()), false).is_ok(), whole, "{form:?}: {what}");
            assert!(verify(&cut, Some(sealed.info.hash()), true).is_err(), "{form:?}: {what}");
            // Fewer chunks are another xorb, and a good one.
            assert_eq!(scan(&cut).is_ok(), ends.contains(&cut.len()), "{form:?}: {what}");
        }
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    for form in FORMS {
        let sealed = small(form);
        for (what, extended) in damage::extensions(&sealed.bytes) {
            assert!(verify(&extended, Some(sealed.info.hash()), false).is_err(), "{form:?}: {what}");
        }
    }
    let mut bytes = small(Form::V1).bytes;
    let at = bytes.len() as u64;
    bytes.extend([0; 3]);
    assert_eq!(scan(&bytes).unwrap_err(), FormatError::Trailing { at, what: "xorb", bytes: 3 });
}

#[test]
fn a_flipped_byte_is_refused_unless_it_changes_nothing() {
    for form in FORMS {
        let sealed = small(form);
        let end = sealed.bytes.len();
        let ignored = if form == Form::Footerless { end..end } else { end - 20..end - 4 };
        for (at, mask) in (0..end).flat_map(|at| [0x01, 0x80, 0xff].map(|mask| (at, mask))) {
            let mut bytes = sealed.bytes.clone();
            bytes[at] ^= mask;
            // Compressed bytes may say the same thing in another way: an earlier copy of the same word, for one.
            match verify(&bytes, Some(sealed.info.hash()), false) {
                Err(_) => assert!(!ignored.contains(&at), "{form:?}: byte {at} xor {mask:#x}"),
                Ok(scanned) => {
                    assert_eq!(scanned.info, sealed.info);
                    assert_eq!(
                        scanned.nonce != [0; 4],
                        (end - 20..end - 16).contains(&at) && !ignored.is_empty()
                    );
                    let payload = payloads(&sealed).any(|payload| payload.contains(&at));
                    assert!(payload || ignored.contains(&at), "{form:?}: byte {at} xor {mask:#x}");
                }
            }
        }
    }
}

/// Where the compressed bytes of each chunk lie.
fn payloads(sealed: &SealedXorb) -> impl Iterator<Item = Range<usize>> {
    (0..3)
        .filter_map(|chunk| sealed.info.stored_range(chunk..chunk + 1))
        .map(|r| r.start as usize + 8..r.end as usize)
}

#[test]
fn every_lie_of_a_footer_is_refused() {
    for form in [Form::V0, Form::V1] {
        let sealed = small(form);
        let start = sealed.info.stored_bytes() as usize;
        let (inner_ends, fields): (_, &[usize]) = match form {
            Form::V0 => ([44, 48], &[40, 44, 48, 52, 168]),
            _ => ([160, 164], &[48, 156, 160, 164, 168, 172, 176, 180, 184, 188, 192, 212]),
        };
        for &at in fields {
            for (what, lie) in damage::lies_u32(&sealed.bytes, start + at) {
                assert!(scan(&lie).is_err(), "{form:?}: {what}");
                // Where a chunk within the xorb ends only the stored chunks can tell.
                let by_footer = Footer::parse(&lie, 0).is_err();
                assert!(by_footer || inner_ends.contains(&at), "{form:?}: {what}");
            }
        }
    }
}

#[test]
fn a_footer_without_the_right_root_is_refused_before_any_chunk_is_read() {
    let sealed = small(Form::V1);
    let start = sealed.info.stored_bytes();
    let mut bytes = sealed.bytes.clone();
    bytes[start as usize + 52] ^= 1;
    let error = Footer::parse(&bytes, 0).unwrap_err();
    assert!(matches!(error, FormatError::Hash { at, .. } if at == start + 8), "{error}");
    // A scan knows better which hash is wrong.
    let error = scan(&bytes).unwrap_err();
    assert!(matches!(error, FormatError::Hash { at, .. } if at == start + 52), "{error}");
}

#[test]
fn wrong_bytes_for_a_range_are_refused_and_nothing_is_left_behind() {
    let sealed = small(Form::V1);
    let info = &sealed.info;
    let decompressor = &mut Decompressor::new();
    let mut out = b"kept".to_vec();
    let mut read = |chunks: Range<u32>, bytes: &[u8], at: u64| {
        let error = read_chunks(info, chunks, bytes, at, decompressor, &mut out).unwrap_err();
        assert_eq!(out, b"kept");
        error
    };
    let Range { start, end } = info.stored_range(1..2).unwrap();
    let bytes = &sealed.bytes[start as usize..end as usize];
    let needed = end - start;

    let what = "range of chunks";
    assert_eq!(read(0..1, bytes, start), FormatError::Truncated { at: 0, what, needed: start, left: 0 });
    let short = &bytes[..bytes.len() - 1];
    assert_eq!(
        read(1..2, short, start),
        FormatError::Truncated { at: start, what, needed, left: needed - 1 }
    );
    assert!(matches!(read(1..4, bytes, start), FormatError::Range { found: 4, .. }));
    #[allow(clippy::reversed_empty_ranges, reason = "that is the point")]
    let backwards = 2..1;
    assert!(matches!(read(backwards, bytes, start), FormatError::Range { found: 2, .. }));
    // The stored chunks of another chunk.
    assert!(matches!(read(1..2, &sealed.bytes, start), FormatError::Number { .. }));
    for (what, flipped) in damage::flips_in(bytes, 0..8) {
        let error = read(1..2, &flipped, start);
        assert!((start..end).contains(&error.at()), "{what}: {error}");
    }
    let noise = [&sealed.bytes[..end as usize + 8], &corpus::noise(5, 33)].concat();
    assert!(matches!(read(2..3, &noise, 0), FormatError::Hash { at, .. } if at == end));
}

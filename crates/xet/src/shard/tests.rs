use proptest::collection::vec;
use proptest::prelude::*;

use super::row::{CHUNK_DEDUP_ELIGIBLE, ROW_LEN};
use super::*;
use crate::error::FormatError;
use crate::hash::{Hash, HashKey};
use crate::{limits, merkle};

/// Two xorbs of chunks with made-up hashes, and files over both; everything true.
pub(crate) fn sample() -> (Vec<FileEntry>, Vec<XorbEntry>) {
    let xorbs = vec![xorb(1, &[1000, 2000, 500, 131_072]), xorb(2, &[1, 70_000, 9])];
    let files = vec![
        file(&xorbs, &[(0, 0..4), (1, 1..3)]),
        file(&xorbs, &[(1, 0..1)]),
        file(&xorbs, &[]),
        file(&xorbs, &[(0, 2..3), (0, 2..3)]),
    ];
    (files, xorbs)
}

fn xorb(seed: u8, lens: &[u32]) -> XorbEntry {
    let mut raw_bytes = 0;
    let mut chunks = Vec::new();
    for (n, len) in lens.iter().enumerate() {
        let hash = ChunkHash::of(&[seed, n as u8]);
        chunks.push(ChunkEntry { hash, raw_start: raw_bytes, raw_bytes: *len, flags: 0 });
        raw_bytes += len;
    }
    let hash = merkle::xorb_hash(chunks.iter().map(|chunk| (chunk.hash, u64::from(chunk.raw_bytes))));
    XorbEntry { hash, flags: 0, raw_bytes, stored_bytes: 0, chunks }
}

fn file(xorbs: &[XorbEntry], parts: &[(usize, Range<u32>)]) -> FileEntry {
    let chunks_of =
        |(n, range): &(usize, Range<u32>)| &xorbs[*n].chunks[range.start as usize..range.end as usize];
    let terms = parts.iter().map(|part| Term {
        xorb: xorbs[part.0].hash,
        flags: 0,
        raw_bytes: chunks_of(part).iter().map(|chunk| chunk.raw_bytes).sum(),
        chunks: part.1.clone(),
    });
    let leaves = parts.iter().flat_map(chunks_of).map(|chunk| (chunk.hash, u64::from(chunk.raw_bytes)));
    FileEntry {
        hash: merkle::file_hash(leaves),
        terms: terms.collect(),
        verification: Some(
            parts.iter().map(|part| RangeHash::of(chunks_of(part).iter().map(|chunk| &chunk.hash))).collect(),
        ),
        sha256: Some(Sha256::new([parts.len() as u8; 32])),
    }
}

fn upload() -> Vec<u8> {
    let (files, xorbs) = sample();
    build::encode(&files, &xorbs, &Form::Upload).unwrap()
}

fn stored() -> Vec<u8> {
    let (files, xorbs) = sample();
    build::encode(&files, &xorbs, &Form::Stored(StoredOptions::LOCAL)).unwrap()
}

fn words(first: u64, last: u64) -> Hash {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[24..].copy_from_slice(&last.to_le_bytes());
    Hash::new(bytes)
}

/// A few first words only, so that tables have equal keys.
fn any_hash() -> impl Strategy<Value = Hash> {
    (0..4u64, any::<u64>()).prop_map(|(first, last)| words(first, last))
}

fn any_file(verified: bool) -> impl Strategy<Value = FileEntry> {
    let term = (any_hash(), any::<u32>(), any::<u32>(), 0..u32::MAX, 1..=u32::MAX).prop_map(
        |(xorb, flags, raw_bytes, start, len)| Term {
            xorb: XorbHash(xorb),
            flags,
            raw_bytes,
            chunks: start..start.saturating_add(len),
        },
    );
    let terms = vec((term, any_hash()), 0..5);
    (any_hash(), terms, any::<Option<[u8; 32]>>()).prop_map(move |(hash, terms, sha256)| {
        let (terms, hashes): (Vec<_>, Vec<_>) =
            terms.into_iter().map(|(term, hash)| (term, RangeHash(hash))).unzip();
        FileEntry {
            hash: FileHash(hash),
            terms,
            verification: verified.then_some(hashes),
            sha256: sha256.map(Sha256::new),
        }
    })
}

fn any_xorb() -> impl Strategy<Value = XorbEntry> {
    let chunk = (any_hash(), any::<[u32; 3]>()).prop_map(|(hash, [raw_start, raw_bytes, flags])| {
        ChunkEntry { hash: ChunkHash(hash), raw_start, raw_bytes, flags }
    });
    (any_hash(), any::<[u32; 3]>(), vec(chunk, 0..6)).prop_map(
        |(hash, [flags, raw_bytes, stored_bytes], chunks)| XorbEntry {
            hash: XorbHash(hash),
            flags,
            raw_bytes,
            stored_bytes,
            chunks,
        },
    )
}

fn any_content() -> impl Strategy<Value = (Vec<FileEntry>, Vec<XorbEntry>)> {
    let files = any::<bool>().prop_flat_map(|verified| vec(any_file(verified), 0..5));
    (files, vec(any_xorb(), 0..4))
}

fn any_footing() -> impl Strategy<Value = StoredOptions> {
    any::<([bool; 3], [u8; 32], u64, u64)>().prop_map(
        |([files, xorbs, chunks], key, created_s, expires_s)| StoredOptions {
            tables: LookupTables { files, xorbs, chunks },
            key: HashKey::new(key),
            created_s,
            expires_s,
        },
    )
}

/// Reads bytes in every way there is; only panics matter here.
fn read_every_way(bytes: &[u8]) {
    let _ = verify_upload(bytes);
    let _ = verify_stored(bytes);
    let Ok(view) = ShardView::new(bytes) else { return };
    let (_, xorbs) = sample();
    for xorb in &xorbs {
        let _ = view.chunk_count(&xorb.hash);
        let _ = view.dedup(&xorb.chunks.iter().map(|chunk| chunk.hash).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_parsed_again((files, xorbs) in any_content(), footing in any_footing()) {
        let bytes = build::encode(&files, &xorbs, &Form::Upload).unwrap();
        let shard = Shard::parse_upload(&bytes).unwrap();
        prop_assert_eq!((&shard.files, &shard.xorbs), (&files, &xorbs));
        prop_assert_eq!(shard.encode().unwrap(), bytes);

        let form = Form::Stored(footing.clone());
        let bytes = build::encode(&files, &xorbs, &form).unwrap();
        let shard = Shard::parse_stored(&bytes).unwrap();
        prop_assert_eq!((&shard.files, &shard.xorbs), (&files, &xorbs));
        prop_assert_eq!(shard.encode().unwrap(), bytes.clone());
        let expected = Tables::of(&files, &xorbs).chosen(footing.tables);
        prop_assert_eq!(shard.tables.clone().unwrap_or_default(), expected);
        let upload = Shard::parse_upload(&bytes).unwrap();
        prop_assert_eq!((&upload.files, &upload.xorbs), (&files, &xorbs));
    }

    /// With tables and without, also where first words are equal.
    #[test]
    fn a_view_finds_what_is_there((files, xorbs) in any_content(), mut footing in any_footing()) {
        footing.key = HashKey::ZERO;
        let bytes = build::encode(&files, &xorbs, &Form::Stored(footing)).unwrap();
        let view = ShardView::new(&bytes).unwrap();
        for xorb in &xorbs {
            prop_assert_eq!(view.chunk_count(&xorb.hash).unwrap(), Some(xorb.chunks.len() as u32));
            let hashes: Vec<_> = xorb.chunks.iter().map(|chunk| chunk.hash).collect();
            if let Some(found) = view.dedup(&hashes).unwrap() {
                prop_assert_eq!(found.matched, hashes.len());
            }
        }
        prop_assert_eq!(view.chunk_count(&XorbHash(words(2, 0))).unwrap(), None);
        prop_assert_eq!(view.chunk(&ChunkHash(words(9, 9))).unwrap(), None);
    }

    #[test]
    fn noise_is_refused_or_read_but_never_more(bytes in vec(any::<u8>(), 0..900), keep in 0..48_usize) {
        let mut bytes = bytes;
        let header = Header::STORED.encode();
        let keep = keep.min(bytes.len());
        bytes[..keep].copy_from_slice(&header[..keep]);
        read_every_way(&bytes);
    }
}

#[test]
fn every_truncation_is_refused() {
    let (upload, stored) = (upload(), stored());
    for len in 0..upload.len() {
        let error = Shard::parse_upload(&upload[..len]).unwrap_err();
        assert!(matches!(error, FormatError::Truncated { .. }), "{len}: {error}");
        assert_eq!(error.at(), (len - len % ROW_LEN) as u64);
    }
    for len in 0..stored.len() {
        assert!(Shard::parse_stored(&stored[..len]).is_err(), "{len}");
        assert!(ShardView::new(&stored[..len]).is_err(), "{len}");
    }
}

#[test]
fn every_flipped_byte_is_survived_and_those_that_matter_are_refused() {
    let bytes = stored();
    let footer = bytes.len() - Footer::LEN;
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            read_every_way(&bytes);
            // Key, times, reserved bytes and totals are whatever they are; all else in header and footer is decided.
            let free = (footer + 72..footer + 192).contains(&at);
            if at < ROW_LEN || at >= footer && !free {
                assert!(Shard::parse_stored(&bytes).is_err(), "byte {at} mask {mask}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_table_is_refused() {
    let bytes = stored();
    let footer = Shard::parse_stored(&bytes).unwrap().footer.unwrap();
    for at in footer.file_table_offset..footer.footer_offset {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at as usize] ^= 1 << bit;
            let error = Shard::parse_stored(&bytes).unwrap_err();
            assert!((footer.file_table_offset..footer.footer_offset).contains(&error.at()), "{error}");
        }
    }
}

#[test]
fn every_lying_count_is_refused() {
    let bytes = upload();
    let (_, xorbs) = sample();
    let shard = Shard::parse_upload(&bytes).unwrap();
    let heads = shard.files_at().map(|(at, file)| (at, file.terms.len() as u32));
    let heads: Vec<_> =
        heads.chain(shard.xorbs_at().map(|(at, xorb)| (at, xorb.chunks.len() as u32))).collect();
    assert_eq!(heads.len(), 4 + xorbs.len());
    for (at, count) in heads {
        let at = at as usize + 36;
        assert_eq!(bytes[at..at + 4], count.to_le_bytes());
        for lie in [0, count.wrapping_sub(1), count + 1, 1 << 20, u32::MAX / 2, u32::MAX / 2 + 2, u32::MAX] {
            if lie == count {
                continue;
            }
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&lie.to_le_bytes());
            let verdict = verify_upload(&bytes);
            assert!(verdict.is_err(), "{count} at {at} as {lie}");
            if lie >= u32::MAX / 2 {
                let error = verdict.unwrap_err();
                assert!(matches!(error, FormatError::Range { .. }), "{error}");
                assert_eq!(error.at(), at as u64);
            }
        }
    }
}

#[test]
fn an_endless_row_of_empty_files_ends_at_the_limit() {
    let (files, _) = sample();
    let empty = build::encode(&files[2..3], &[], &Form::Upload).unwrap();
    let (header, block) = (&empty[..48], &empty[48..48 + 96]);
    let blocks = usize::try_from(limits::SHARD_BYTES_MAX).unwrap() / block.len() + 1;
    let error = Shard::parse_upload(&[header, &block.repeat(blocks)].concat()).unwrap_err();
    assert!(matches!(error, FormatError::Range { .. }), "{error}");
    assert!(error.at() <= limits::SHARD_BYTES_MAX && error.at() + 96 > limits::SHARD_BYTES_MAX);
}

#[test]
fn an_announced_footer_is_not_believed_and_what_follows_is_not_read() {
    let mut bytes = upload();
    bytes[40] = 200;
    let shard = verify_upload(&bytes).unwrap();
    assert_eq!(shard.header.footer_bytes, 200);
    bytes.extend(b"anything");
    assert_eq!(verify_upload(&bytes).unwrap(), shard);
    assert_eq!(verify_upload(&stored()).unwrap(), shard);
    assert!(Shard::parse_stored(&bytes).is_err());
}

#[test]
fn some_files_verified_and_some_not_is_refused_both_ways() {
    let (mut files, xorbs) = sample();
    files[1].verification = None;
    let error = build::encode(&files, &xorbs, &Form::Upload).unwrap_err();
    assert_eq!(error.at(), 48 * (1 + files[0].rows()) + 32);
    files[1].verification = Some(vec![]);
    assert!(build::encode(&files, &xorbs, &Form::Upload).is_err());

    let mut bytes = upload();
    let (at, _) = Shard::parse_upload(&bytes)
        .unwrap()
        .files_at()
        .last()
        .map(|(at, file)| (at + 32, file.hash))
        .unwrap();
    bytes[at as usize + 3] ^= 0x80;
    let error = Shard::parse_upload(&bytes).unwrap_err();
    assert_eq!(error, FormatError::Number { at, what: "verification flag", expected: 1, found: 0 });
}

#[test]
fn what_no_reader_takes_back_is_not_encoded() {
    let (files, xorbs) = sample();
    let mut bad = files.clone();
    bad[0].terms[0].chunks = 4..4;
    assert_eq!(build::encode(&bad, &xorbs, &Form::Upload).unwrap_err().at(), 48 + 48 + 44);
    let mut bad = files;
    bad[0].hash = FileHash::new([0xff; 32]);
    assert_eq!(build::encode(&bad, &xorbs, &Form::Upload).unwrap_err().at(), 48);
    let mut bad = xorbs;
    bad[0].hash = XorbHash::new([0xff; 32]);
    assert_eq!(build::encode(&[], &bad, &Form::Upload).unwrap_err().at(), 96);
}

#[test]
fn a_builder_sorts_and_keeps_the_first_of_equal_hashes() {
    let (files, xorbs) = sample();
    let mut builder = ShardBuilder::default();
    let mut second = files[0].clone();
    second.terms.clear();
    second.verification = Some(vec![]);
    for file in files.iter().rev().chain([&second]) {
        assert_eq!(builder.push_file(file.clone()), file != &second);
    }
    for xorb in xorbs.iter().chain(&xorbs) {
        builder.push_xorb(xorb.clone());
    }
    let expected = build::encode(&files, &xorbs, &Form::Upload).unwrap().len() as u64;
    assert_eq!(builder.upload_bytes(), expected);
    builder.flag_file_starts();
    let (built, flagged) = builder.finish();
    assert!(built.is_sorted_by_key(|file| file.hash) && flagged.is_sorted_by_key(|xorb| xorb.hash));
    assert_eq!(built.len(), files.len());
    assert!(files.iter().all(|file| built.contains(file)));
    let flags = |n: usize| {
        let xorb = flagged.iter().find(|xorb| xorb.hash == xorbs[n].hash).unwrap();
        xorb.chunks.iter().map(|chunk| chunk.flags).collect::<Vec<_>>()
    };
    assert_eq!(flags(0), [CHUNK_DEDUP_ELIGIBLE, 0, CHUNK_DEDUP_ELIGIBLE, 0]);
    assert_eq!(flags(1), [CHUNK_DEDUP_ELIGIBLE, 0, 0]);
}

/// Four chunks with one first word, in two xorbs; the longest run wins wherever it stands.
#[test]
fn a_dedup_query_finds_the_longest_run_under_any_key() {
    let chunk = |n: u64| ChunkHash(words(5, n));
    let holding = |hash: u8, chunks: &[u64]| {
        let entry = |n: &u64| ChunkEntry { hash: chunk(*n), raw_start: 0, raw_bytes: 10, flags: 0 };
        let chunks = chunks.iter().map(entry).collect();
        XorbEntry { hash: XorbHash::new([hash; 32]), flags: 0, raw_bytes: 0, stored_bytes: 0, chunks }
    };
    let xorbs = [holding(1, &[1, 2, 9]), holding(2, &[7, 1, 2, 3]), holding(3, &[1, 2])];
    let query = [1, 2, 3, 4].map(chunk);
    for tables in [true, false] {
        for key in [HashKey::ZERO, HashKey::new([3; 32])] {
            let options = dedup_response::DedupResponseOptions { key, created_s: 5, expires_s: 9, tables };
            let bytes = dedup_response::encode(xorbs.clone(), &options).unwrap();
            let shard = verify_keyed(&bytes, key);
            assert!(shard.files.is_empty() && shard.tables.is_some() == tables);
            let view = ShardView::new(&bytes).unwrap();
            let found = view.dedup(&query).unwrap().unwrap();
            assert_eq!((found.xorb, found.chunks), (XorbHash::new([2; 32]), 1..4));
            assert_eq!((found.raw_bytes, found.matched), (30, 3));
            assert_eq!(view.chunk(&chunk(9)).unwrap(), Some((XorbHash::new([1; 32]), 2)));
            assert_eq!(view.chunk(&chunk(8)).unwrap(), None);
            let two = XorbHash::new([2; 32]);
            assert_eq!(
                (view.chunk_count(&two).unwrap(), view.chunk_count(&XorbHash::ZERO).unwrap()),
                (Some(4), None)
            );
            assert_eq!(
                [0, 1, 2, 4, 5].map(|start| view.follow(&two, start, &query).unwrap()),
                [0, 3, 0, 0, 0]
            );
            assert_eq!(view.dedup(&[]).unwrap(), None);
            assert!(!view.footer().is_expired(9) && view.footer().is_expired(10));
        }
    }
}

fn verify_keyed(bytes: &[u8], key: HashKey) -> Shard {
    let shard = Shard::parse_stored(bytes).unwrap();
    assert_eq!(shard.key(), key);
    shard
}

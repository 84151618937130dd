use proptest::prelude::*;
use testkit::corpus::noise;

use super::*;
use crate::merkle::file_hash;
use crate::shard::{Form as ShardForm, verify_upload};
use crate::xorb::verify;

fn pack(packer: &mut Packer, chunks: &[Vec<u8>], xorbs: &mut Vec<Vec<u8>>) -> PackedFile {
    let mut file = FilePacker::default();
    for chunk in chunks {
        let hash = ChunkHash::of(chunk);
        let location = packer.find(&hash).unwrap_or_else(|| {
            if packer.is_full(chunk.len()) {
                let sealed = packer.seal(Form::Footerless).unwrap();
                let bytes = u32::try_from(sealed.bytes.len()).unwrap();
                xorbs.push(sealed.bytes.clone());
                packer.recycle(sealed.bytes, bytes);
            }
            packer.add(hash, chunk).unwrap()
        });
        file.push(location, hash, u32::try_from(chunk.len()).unwrap());
    }
    file.finish()
}

#[test]
fn neighbours_become_one_term() {
    let hashes: Vec<_> = (0..4_u8).map(|n| ChunkHash::of(&[n])).collect();
    let (new, stored) = (XorbRef::New(1), XorbRef::Stored(XorbHash::new([7; 32])));
    let mut packer = FilePacker::default();
    for (hash, location) in hashes.iter().zip([(new, 5), (new, 6), (stored, 7), (stored, 7)]) {
        packer.push(location, *hash, 100);
    }
    let file = packer.finish();
    let term = |xorb, chunks: Range<u32>, hashes: &[ChunkHash]| PackedTerm {
        xorb,
        raw_bytes: 100 * (chunks.end - chunks.start),
        chunks,
        hash: RangeHash::of(hashes),
    };
    let expected =
        [term(new, 5..7, &hashes[..2]), term(stored, 7..8, &hashes[2..3]), term(stored, 7..8, &hashes[3..])];
    assert_eq!(file.terms, expected);
    assert_eq!((file.bytes, file.hash), (400, file_hash(hashes.iter().map(|hash| (*hash, 100)))));
    assert_eq!((file.new_xorbs(), file.has_stored()), (vec![1], true));
    let entry = file.into_entry(None, |number| (XorbHash::new([9; 32]), 10 * u32::try_from(number).unwrap()));
    assert_eq!(
        entry.terms[0].chunks,
        15..17,
        "the first chunk of the new xorb is the tenth of the sealed one"
    );
    assert_eq!((entry.terms[0].xorb, entry.terms[1].chunks.clone()), (XorbHash::new([9; 32]), 7..8));
}

#[test]
fn an_empty_file_has_no_terms() {
    let file = FilePacker::default().finish();
    assert_eq!((file.bytes, file.hash, file.terms.len()), (0, FileHash::ZERO, 0));
}

#[test]
fn chunks_of_a_stored_xorb_are_not_packed_again() {
    let chunks: Vec<_> = (0..3).map(|n| noise(n, 5000)).collect();
    let mut first = Packer::new(Policy::Auto, u64::MAX);
    pack(&mut first, &chunks, &mut Vec::new());
    let stored = first.seal(Form::Footerless).unwrap();

    let mut packer = Packer::new(Policy::Auto, u64::MAX);
    packer.learn(&stored.info);
    let file = pack(&mut packer, &chunks[1..], &mut Vec::new());
    assert!(packer.seal(Form::Footerless).is_none());
    let [term] = &file.terms[..] else { panic!("{:?}", file.terms) };
    assert_eq!((term.xorb, term.chunks.clone()), (XorbRef::Stored(stored.info.hash()), 1..3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever repeats in the files, each chunk is in one xorb, and the shard proves every file.
    #[test]
    fn a_shard_of_packed_files_is_proven_by_its_xorbs(
        files in prop::collection::vec(prop::collection::vec((0..12_u64, 1..3000_usize), 0..20), 1..5),
        xorb_bytes_max in 1..20_000_u64,
    ) {
        let mut packer = Packer::new(Policy::Auto, xorb_bytes_max);
        let mut xorbs = Vec::new();
        let mut packed = Vec::new();
        for file in &files {
            let chunks: Vec<_> = file.iter().map(|(seed, len)| noise(*seed, *len)).collect();
            packed.push((pack(&mut packer, &chunks, &mut xorbs), None));
        }
        xorbs.extend(packer.seal(Form::Footerless).map(|sealed| sealed.bytes));
        let infos: Vec<_> = packed.iter().map(|(file, _)| (file.hash, file.bytes)).collect();
        let shard = verify_upload(&packer.finish(packed).encode(&ShardForm::Upload).unwrap()).unwrap();
        for (hash, bytes) in infos {
            let entry = shard.files.iter().find(|file| file.hash == hash).unwrap();
            prop_assert_eq!(entry.raw_bytes(), bytes);
        }
        prop_assert_eq!(shard.xorbs.len(), xorbs.len());
        let mut chunks: Vec<_> = shard.xorbs.iter().flat_map(|xorb| &xorb.chunks).map(|chunk| chunk.hash).collect();
        let all = chunks.len();
        chunks.sort_unstable();
        chunks.dedup();
        prop_assert_eq!(chunks.len(), all, "no chunk is stored twice");
        for bytes in xorbs {
            verify(&bytes, None, false).unwrap();
        }
    }
}

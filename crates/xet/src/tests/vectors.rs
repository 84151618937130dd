//! Hashes and Merkle trees against the golden vectors.

use crate::merkle::MerkleBuilder;
use crate::{ChunkHash, FileHash, Hash, HashKey, RangeHash, Sha256, XorbHash};
use testkit::twin;
use testkit::vectors::Vectors;
use testkit::vectors::model::Chunk;
use testkit::{hex, unhex32};

fn leaves(chunks: &[Chunk]) -> Vec<(ChunkHash, u64)> {
    chunks.iter().map(|(hash, bytes)| (hash.parse().expect("a hash"), *bytes)).collect()
}

fn tree(leaves: &[(ChunkHash, u64)]) -> MerkleBuilder {
    let mut builder = MerkleBuilder::default();
    for (chunk, bytes) in leaves {
        builder.push(*chunk, *bytes);
    }
    builder
}

#[test]
fn merkle_trees_are_those_of_the_reference() {
    for case in &Vectors::open().manifest.merkle {
        let name = &case.name;
        let leaves = leaves(&case.leaves);
        let tree = tree(&leaves);
        let salt = unhex32(&case.salt_raw_hex);
        assert_eq!(tree.clone().finish().to_string(), case.root, "{name}");
        assert_eq!(tree.clone().finish_file().to_string(), case.file_hash, "{name}");
        assert_eq!(tree.finish_file_salted(&salt).to_string(), case.file_hash_salted, "{name}");

        let range = RangeHash::of(leaves.iter().map(|leaf| &leaf.0));
        assert_eq!(range.to_string(), case.verification_hash, "{name}");
        let eligible: Vec<_> = leaves.iter().map(|leaf| leaf.0.is_dedup_eligible()).collect();
        assert_eq!(eligible, case.eligible, "{name}");
    }
}

#[test]
fn published_merkle_trees_hold() {
    let Some(published) = Vectors::open().published() else { return };
    for case in &published.merkle {
        let tree = tree(&leaves(&case.leaves));
        assert_eq!(tree.clone().finish().to_string(), case.root);
        for salted in &case.file_hashes {
            let salt: Hash = salted.salt.parse().unwrap();
            let found = tree.clone().finish_file_salted(salt.as_bytes());
            assert_eq!(found.to_string(), salted.file_hash, "salt {salt}");
        }
    }
}

#[test]
fn the_published_table_of_electric_vehicles_hashes_as_published() {
    let vectors = Vectors::open();
    let Some(official) = &vectors.manifest.official else { return };
    let expected = &official.ev_population;
    let leaves = leaves(&vectors.chunks_file(&expected.chunks_file));
    assert_eq!(leaves.iter().map(|leaf| leaf.1).sum::<u64>(), expected.size);
    assert_eq!(crate::merkle::xorb_hash(leaves.iter().copied()).to_string(), expected.xorb_hash);
    assert_eq!(crate::merkle::file_hash(leaves.iter().copied()).to_string(), expected.file_hash);
    let range = RangeHash::of(leaves.iter().map(|leaf| &leaf.0));
    assert_eq!(range.to_string(), expected.range_hash_all_chunks);
}

#[test]
fn keyed_chunk_hashes_are_those_of_the_reference() {
    for case in &Vectors::open().manifest.keyed_hash {
        let hash: ChunkHash = case.hash.parse().unwrap();
        let key = HashKey::new(unhex32(&case.key_raw_hex));
        let keyed = hash.keyed(&key);
        if key.is_zero() {
            // We take a zero key as no protection, as the footer does; the vector only shows the arithmetic.
            assert_eq!(keyed, hash);
            continue;
        }
        assert_eq!(keyed.to_string(), case.keyed);
        assert_eq!(hex(keyed.as_bytes()), case.keyed_raw_hex);
    }
}

#[test]
fn string_and_raw_forms_name_the_same_hash() {
    for case in &Vectors::open().manifest.keyed_hash {
        for (text, raw) in [
            (&case.hash, &case.hash_raw_hex),
            (&case.key, &case.key_raw_hex),
            (&case.keyed, &case.keyed_raw_hex),
        ] {
            let hash: Hash = text.parse().unwrap();
            assert_eq!(hex(hash.as_bytes()), *raw);
            assert_eq!(Hash::new(unhex32(raw)).to_string(), *text);
        }
    }
}

/// Every hash the manifest prints, read and printed again, against the specification's own procedure.
#[test]
fn every_hash_of_an_input_survives_reading_and_printing() {
    let vectors = Vectors::open();
    for input in &vectors.manifest.inputs {
        let file: FileHash = input.file_hash.parse().unwrap();
        assert_eq!((file.to_string(), *file.as_bytes()), twin_forms(&input.file_hash));
        let root: XorbHash = input.merkle_root.parse().unwrap();
        assert_eq!((root.to_string(), *root.as_bytes()), twin_forms(&input.merkle_root));
        for (text, _) in vectors.chunks(input) {
            let chunk: ChunkHash = text.parse().unwrap();
            assert_eq!((chunk.to_string(), *chunk.as_bytes()), twin_forms(&text));
        }
    }
}

fn twin_forms(text: &str) -> (String, [u8; 32]) {
    (text.to_owned(), twin::string_to_hash(text))
}

#[test]
fn a_sha256_field_is_stored_as_the_reference_stores_it() {
    let vectors = Vectors::open();
    let mut seen = 0;
    for shard in &vectors.manifest.shards {
        let digests: Vec<_> = shard
            .inputs
            .iter()
            .map(|input| Sha256::new(testkit::sha256(&vectors.make(&input.recipe))))
            .collect();
        for file in shard.files.iter().flat_map(|file| &file.files) {
            let (Some(field), Some(text)) = (&file.sha256_field_raw_hex, &file.sha256_hash_string) else {
                continue;
            };
            let digest = Sha256::from_field(unhex32(field));
            assert_eq!(digest.to_string(), *text);
            assert_eq!(hex(digest.as_bytes()), *text);
            assert_eq!(hex(&digest.to_field()), *field);
            assert_eq!(text.parse::<Sha256>().unwrap(), digest);
            assert!(digests.contains(&digest), "{}: {digest} is the digest of one of the inputs", shard.name);
            seen += 1;
        }
    }
    assert!(seen > 0);
}

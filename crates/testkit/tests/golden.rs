//! Recipes and twins against the golden vectors: other tests rely on them.

use testkit::twin;
use testkit::vectors::Vectors;
use testkit::vectors::model::Chunk;
use testkit::{hex, sha256, unhex, unhex32};

/// Larger inputs are left to the fast code; the twins are slow on purpose.
const INPUT_BYTES_MAX: u64 = 12 * 1024 * 1024;

fn leaves(chunks: &[Chunk]) -> Vec<(twin::Bytes32, u64)> {
    chunks.iter().map(|(hash, len)| (twin::string_to_hash(hash), *len)).collect()
}

#[test]
fn recipes_and_twins_give_the_inputs_of_the_reference() {
    let vectors = Vectors::open();
    for input in vectors.manifest.inputs.iter().filter(|input| input.size <= INPUT_BYTES_MAX) {
        let name = &input.name;
        let data = vectors.make(&input.recipe);
        assert_eq!(data.len() as u64, input.size, "{name}");
        assert_eq!(hex(&sha256(&data)), input.sha256, "{name}");

        let found = twin::leaves(&data);
        assert_eq!(found, leaves(&vectors.chunks(input)), "{name}");
        assert_eq!(twin::hash_to_string(&twin::compute_file_hash(&found)), input.file_hash, "{name}");
        assert_eq!(twin::hash_to_string(&twin::compute_merkle_root(&found)), input.merkle_root, "{name}");
        let hashes: Vec<_> = found.iter().map(|leaf| leaf.0).collect();
        let range = twin::compute_verification_hash(&hashes, 0, hashes.len());
        assert_eq!(twin::hash_to_string(&range), input.verification_hash_all_chunks, "{name}");
        let eligible = |(at, hash)| twin::is_eligible(hash).then_some(at);
        let eligible: Vec<_> = hashes.iter().enumerate().filter_map(eligible).collect();
        assert_eq!(eligible, input.eligible_by_hash, "{name}");
    }
}

#[test]
fn the_merkle_twin_gives_the_trees_of_the_reference() {
    let vectors = Vectors::open();
    for case in &vectors.manifest.merkle {
        let name = &case.name;
        let entries = leaves(&case.leaves);
        let salt = unhex32(&case.salt_raw_hex);
        assert_eq!(twin::hash_to_string(&twin::compute_merkle_root(&entries)), case.root, "{name}");
        assert_eq!(twin::hash_to_string(&twin::compute_file_hash(&entries)), case.file_hash, "{name}");
        let salted = twin::compute_file_hash_salted(&entries, &salt);
        assert_eq!(twin::hash_to_string(&salted), case.file_hash_salted, "{name}");
        let eligible: Vec<_> = entries.iter().map(|entry| twin::is_eligible(&entry.0)).collect();
        assert_eq!(eligible, case.eligible, "{name}");
    }
}

#[test]
fn the_grouping_twin_gives_the_bytes_of_the_reference() {
    for case in &Vectors::open().manifest.byte_grouping {
        let raw = unhex(&case.raw);
        let grouped = unhex(&case.grouped);
        assert_eq!(twin::byte_group_4(&raw), grouped);
        assert_eq!(twin::byte_ungroup_4(&grouped, raw.len()), raw);
    }
}

/// Every test runs with only the repository.
#[test]
fn the_committed_set_is_whole_and_says_the_same() {
    let (full, part) = (Vectors::open(), Vectors::committed());
    files_are_whole(&part);
    assert!(part.manifest.official.is_none(), "files of others are not ours to commit");
    for input in &part.manifest.inputs {
        let same = full.manifest.inputs.iter().find(|other| other.name == input.name).unwrap();
        assert_eq!(same.file_hash, input.file_hash, "{}", input.name);
        assert_eq!(full.chunks(same), part.chunks(input), "{}", input.name);
    }
    for case in &part.manifest.adversarial {
        assert_eq!(full.read(&case.file), part.read(&case.file), "{}", case.file);
    }
}

#[test]
fn every_file_of_the_manifest_is_there_in_its_size() {
    files_are_whole(&Vectors::open());
}

fn files_are_whole(vectors: &Vectors) {
    let manifest = &vectors.manifest;
    for record in &manifest.chunk_records {
        assert_eq!(vectors.read(&record.file).len() as u64, record.serialized_size, "{}", record.file);
        let raw = vectors.make(&record.recipe);
        assert_eq!(hex(&sha256(&raw)), record.raw_sha256, "{}", record.file);
        assert_eq!(
            twin::hash_to_string(&twin::compute_chunk_hash(&raw)),
            record.chunk_hash,
            "{}",
            record.file
        );
    }
    for xorb in &manifest.xorbs {
        let raw: Vec<u8> = xorb.sources.iter().flat_map(|source| vectors.make(&source.recipe)).collect();
        assert_eq!(hex(&sha256(&raw)), xorb.raw_sha256, "{}", xorb.name);
        for file in &xorb.files {
            assert_eq!(vectors.read(&file.file).len() as u64, file.size, "{}", file.file);
        }
    }
    for file in manifest.shards.iter().flat_map(|shard| &shard.files) {
        assert_eq!(vectors.read(&file.file).len() as u64, file.size, "{}", file.file);
    }
    for case in &manifest.adversarial {
        assert!(!vectors.read(&case.file).is_empty(), "{}", case.file);
    }
}

#[test]
fn the_published_values_read_where_they_are_present() {
    let vectors = Vectors::open();
    let Some(published) = vectors.published() else { return };
    assert_eq!(published.merkle.len(), 18);
    for case in &published.merkle {
        let entries = leaves(&case.leaves);
        assert_eq!(twin::hash_to_string(&twin::compute_merkle_root(&entries)), case.root);
    }
    for case in &published.chunk_boundaries {
        assert_eq!(twin::cuts(&vectors.make(&case.recipe)), case.boundaries, "{}", case.name);
    }
    let official = vectors.manifest.official.as_ref().unwrap();
    assert_eq!(
        vectors.chunks_file(&official.ev_population.chunks_file).len(),
        official.ev_population.num_chunks
    );
}

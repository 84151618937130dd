//! The tree over any leaves is that of the draft, built all at once.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use testkit::twin;
use xet::merkle::{self, MerkleBuilder};
use xet::{ChunkHash, RangeHash};

/// Three levels at least; the twin is slow.
const LEAVES_MAX: usize = 100;

fuzz_target!(|input: &[u8]| {
    let mut u = Unstructured::new(input);
    let salt: [u8; 32] = u.arbitrary().unwrap_or_default();
    let mut leaves = Vec::new();
    while !u.is_empty() && leaves.len() < LEAVES_MAX {
        // The last word of a hash decides where groups end, so it comes from the input; the rest makes it differ.
        let word: u8 = u.arbitrary().unwrap_or_default();
        let bytes: u64 = u.arbitrary().unwrap_or_default();
        let times: u8 = u.arbitrary().unwrap_or_default();
        for _ in 0..=times % 32 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&(leaves.len() as u64).to_le_bytes());
            hash[24] = word;
            leaves.push((hash, bytes));
        }
    }

    let chunks = || leaves.iter().map(|(hash, bytes)| (ChunkHash::new(*hash), *bytes));
    assert_eq!(merkle::xorb_hash(chunks()).as_bytes(), &twin::compute_merkle_root(&leaves));

    let mut builder = MerkleBuilder::default();
    chunks().for_each(|(chunk, bytes)| builder.push(chunk, bytes));
    let salted = twin::compute_file_hash_salted(&leaves, &salt);
    assert_eq!(builder.finish_file_salted(&salt).as_bytes(), &salted);

    let hashes: Vec<_> = leaves.iter().map(|(hash, _)| *hash).collect();
    let range = RangeHash::of(&hashes.iter().map(|hash| ChunkHash::new(*hash)).collect::<Vec<_>>());
    assert_eq!(range.as_bytes(), &twin::compute_verification_hash(&hashes, 0, hashes.len()));
});

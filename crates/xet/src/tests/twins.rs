//! The fast code against its slow twins, on made-up input.

use crate::chunk::{self, Chunker};
use crate::merkle::{self, MerkleBuilder};
use crate::{ChunkHash, Hash, HashKey, RangeHash};
use proptest::prelude::*;
use testkit::{corpus, twin};

/// How the last word of each leaf is chosen, since it alone decides where groups end.
#[derive(Debug, Clone, Copy)]
enum Suffix {
    /// As it falls: one in four ends a group.
    Free,
    /// Never a multiple of four: groups of nine.
    Never,
    /// Always: groups of three.
    Always,
    /// At one place in each run of this many.
    Every(usize),
}

fn leaves(seed: u64, count: usize, suffix: Suffix) -> Vec<(twin::Bytes32, u64)> {
    let mut random = corpus::SplitMix64::new(seed);
    let leaf = |at: usize| {
        let mut hash: twin::Bytes32 = corpus::noise(random.word(), 32).try_into().expect("32 bytes");
        let ends = match suffix {
            Suffix::Free => None,
            Suffix::Never => Some(false),
            Suffix::Always => Some(true),
            Suffix::Every(run) => Some(at.is_multiple_of(run)),
        };
        match ends {
            Some(true) => hash[24] &= 0xfc,
            Some(false) => hash[24] |= 1,
            None => {}
        }
        (hash, random.below(131_073))
    };
    (0..count).map(leaf).collect()
}

fn suffix() -> impl Strategy<Value = Suffix> {
    prop_oneof![
        3 => Just(Suffix::Free),
        1 => Just(Suffix::Never),
        1 => Just(Suffix::Always),
        2 => (1..12_usize).prop_map(Suffix::Every),
    ]
}

fn same_tree(entries: &[(twin::Bytes32, u64)], salt: &[u8; 32]) {
    let chunks = entries.iter().map(|(hash, bytes)| (ChunkHash::new(*hash), *bytes));
    let mut builder = MerkleBuilder::default();
    for (chunk, bytes) in chunks.clone() {
        builder.push(chunk, bytes);
    }
    let salted = builder.clone().finish_file_salted(salt);
    assert_eq!(*builder.finish().as_bytes(), twin::compute_merkle_root(entries));
    assert_eq!(*salted.as_bytes(), twin::compute_file_hash_salted(entries, salt));
    assert_eq!(*merkle::xorb_hash(chunks.clone()).as_bytes(), twin::compute_merkle_root(entries));
    assert_eq!(*merkle::file_hash(chunks).as_bytes(), twin::compute_file_hash(entries));
}

/// Every count up to three levels of groups of three, for each way groups may end.
#[test]
fn small_trees_are_those_of_the_draft() {
    for count in 0..100 {
        for suffix in [
            Suffix::Free,
            Suffix::Never,
            Suffix::Always,
            Suffix::Every(2),
            Suffix::Every(3),
            Suffix::Every(9),
        ] {
            same_tree(&leaves(count as u64, count, suffix), &[7; 32]);
        }
    }
}

/// Sums of lengths of untrusted input may wrap; they must wrap as the reference does.
#[test]
fn a_tree_of_enormous_lengths_is_that_of_the_draft() {
    let entries: Vec<_> = leaves(1, 40, Suffix::Free).into_iter().map(|(hash, _)| (hash, u64::MAX)).collect();
    same_tree(&entries, &[0; 32]);
}

proptest! {
    #[test]
    fn trees_are_those_of_the_draft(seed: u64, count in 0..200_usize, suffix in suffix(), salt: [u8; 32]) {
        same_tree(&leaves(seed, count, suffix), &salt);
    }

    #[test]
    fn string_forms_are_those_of_the_draft(bytes: [u8; 32]) {
        let hash = Hash::new(bytes);
        let text = twin::hash_to_string(&bytes);
        prop_assert_eq!(hash.to_string(), &text[..]);
        prop_assert_eq!(hash.hex(), text.as_bytes());
        prop_assert_eq!(text.parse::<Hash>().unwrap(), hash);
        prop_assert_eq!(twin::string_to_hash(&text), bytes);
    }

    #[test]
    fn no_text_but_64_digits_is_a_hash(text in "[0-9a-fA-F]{60,68}|\\PC{0,70}|[0-9a-f]{63}\\PC") {
        let is_hash = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        prop_assert_eq!(text.parse::<Hash>().is_ok(), is_hash);
    }

    #[test]
    fn order_is_the_order_of_string_forms(a: [u8; 32], b: [u8; 32]) {
        let text = twin::hash_to_string(&a).cmp(&twin::hash_to_string(&b));
        prop_assert_eq!(Hash::new(a).cmp(&Hash::new(b)), text);
    }

    #[test]
    fn range_hashes_are_those_of_the_draft(seed: u64, count in 0..60_usize, a in 0..60_usize, b in 0..60_usize) {
        let hashes: Vec<_> = leaves(seed, count, Suffix::Free).into_iter().map(|leaf| leaf.0).collect();
        let (start, end) = (a.min(b).min(count), a.max(b).min(count));
        let chunks: Vec<_> = hashes.iter().copied().map(ChunkHash::new).collect();
        let expected = twin::compute_verification_hash(&hashes, start, end);
        prop_assert_eq!(*RangeHash::of(&chunks[start..end]).as_bytes(), expected);
    }

    #[test]
    fn chunk_hashes_and_keyed_hashes_are_those_of_the_draft(seed: u64, len in 0..5000_usize, key: [u8; 32]) {
        let data = corpus::noise(seed, len);
        let hash = ChunkHash::of(&data);
        prop_assert_eq!(*hash.as_bytes(), twin::compute_chunk_hash(&data));
        prop_assert_eq!(hash.is_dedup_eligible(), twin::is_eligible(hash.as_bytes()));
        prop_assume!(key != [0; 32]);
        let keyed = hash.keyed(&HashKey::new(key));
        prop_assert_eq!(*keyed.as_bytes(), twin::blake3_keyed_hash(&key, hash.as_bytes()));
    }
}

fn data(kind: usize, seed: u64, len: usize) -> Vec<u8> {
    match kind {
        0 => corpus::noise(seed, len),
        1 => corpus::text(seed, len),
        2 => corpus::bf16_gaussian(seed, 0.02, len),
        3 => corpus::f32_ramp(0.0, 0.001, len),
        4 => corpus::period(1 + (seed % 300) as usize, seed, len),
        _ => [corpus::constant(seed as u8, len / 2), corpus::noise(seed, len - len / 2)].concat(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Cuts are those of the draft, and depend on the bytes alone, never on how they arrive.
    #[test]
    fn cuts_are_those_of_the_draft(kind in 0..6_usize, seed: u64, len in 0..600_000_usize, step in 1..200_000_usize) {
        let data = data(kind, seed, len);
        let expected = twin::cuts(&data);
        prop_assert_eq!(chunk::cut(&data), &expected[..]);

        let mut chunker = Chunker::new();
        let mut cuts = Vec::new();
        for piece in data.chunks(step) {
            chunker.push(piece, &mut cuts);
        }
        cuts.extend(chunker.finish());
        prop_assert_eq!(cuts, expected.iter().map(|end| *end as u64).collect::<Vec<_>>());
    }
}

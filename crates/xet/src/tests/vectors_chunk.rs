//! The chunker against the golden vectors: cuts, chunk hashes, file hashes, and how a file falls into xorbs.

use std::collections::BTreeMap;

use crate::chunk::{self, Chunker};
use crate::{ChunkHash, RangeHash, merkle};
use testkit::vectors::Vectors;
use testkit::vectors::model::{Input, UploadPlan};
use testkit::{hex, sha256};

#[test]
fn inputs_are_cut_and_hashed_as_the_reference_does() {
    let vectors = Vectors::open();
    for input in &vectors.manifest.inputs {
        let data = vectors.make(&input.recipe);
        assert_eq!(data.len() as u64, input.size, "{}", input.name);
        assert_eq!(hex(&sha256(&data)), input.sha256, "{}", input.name);

        let leaves = leaves(&data, &chunk::cut(&data));
        let listed: Vec<_> = leaves.iter().map(|(hash, bytes)| (hash.to_string(), *bytes)).collect();
        assert_eq!(listed, vectors.chunks(input), "{}", input.name);
        hashes_agree(input, &leaves);
    }
}

#[test]
fn a_stream_is_cut_where_the_whole_is() {
    let vectors = Vectors::open();
    for input in vectors.manifest.inputs.iter().filter(|input| input.size <= 4 << 20) {
        let data = vectors.make(&input.recipe);
        let expected: Vec<u64> = vectors
            .chunks(input)
            .iter()
            .scan(0, |end, chunk| {
                *end += chunk.1;
                Some(*end)
            })
            .collect();
        for step in [8191, 65_536, 131_073] {
            let mut chunker = Chunker::new();
            let mut cuts = Vec::new();
            for piece in data.chunks(step) {
                chunker.push(piece, &mut cuts);
            }
            cuts.extend(chunker.finish());
            assert_eq!(cuts, expected, "{} in pieces of {step}", input.name);
        }
    }
}

#[test]
fn published_cuts_hold() {
    let vectors = Vectors::open();
    let Some(published) = vectors.published() else { return };
    for case in &published.chunk_boundaries {
        assert_eq!(chunk::cut(&vectors.make(&case.recipe)), case.boundaries, "{}", case.name);
    }
}

/// Terms cover the file in order; the xorbs they name hash to their names once filled with those chunks.
#[test]
fn upload_plans_of_the_reference_agree_with_our_hashes() {
    let vectors = Vectors::open();
    let mut plans = 0;
    for input in &vectors.manifest.inputs {
        let Some(plan) = &input.upload_plan else { continue };
        let parse = |(hash, bytes): (String, u64)| (hash.parse().unwrap(), bytes);
        let leaves: Vec<_> = vectors.chunks(input).into_iter().map(parse).collect();
        plan_agrees(&input.name, plan, &leaves);
        plans += 1;
    }
    assert!(plans > 0);
}

fn leaves(data: &[u8], cuts: &[usize]) -> Vec<(ChunkHash, u64)> {
    let starts = std::iter::once(&0).chain(cuts);
    starts.zip(cuts).map(|(start, end)| (ChunkHash::of(&data[*start..*end]), (end - start) as u64)).collect()
}

fn hashes_agree(input: &Input, leaves: &[(ChunkHash, u64)]) {
    let name = &input.name;
    assert_eq!(merkle::xorb_hash(leaves.iter().copied()).to_string(), input.merkle_root, "{name}");
    assert_eq!(merkle::file_hash(leaves.iter().copied()).to_string(), input.file_hash, "{name}");
    let range = RangeHash::of(leaves.iter().map(|leaf| &leaf.0));
    assert_eq!(range.to_string(), input.verification_hash_all_chunks, "{name}");
    let eligible = |(at, leaf): (usize, &(ChunkHash, u64))| leaf.0.is_dedup_eligible().then_some(at);
    let eligible: Vec<_> = leaves.iter().enumerate().filter_map(eligible).collect();
    assert_eq!(eligible, input.eligible_by_hash, "{name}");
}

fn plan_agrees(name: &str, plan: &UploadPlan, leaves: &[(ChunkHash, u64)]) {
    let mut xorbs: BTreeMap<&str, BTreeMap<u32, (ChunkHash, u64)>> = BTreeMap::new();
    let mut rest = leaves;
    assert_eq!(plan.terms.len(), plan.verification.len(), "{name}");
    for (term, verification) in plan.terms.iter().zip(&plan.verification) {
        let range = term.chunk_index_start..term.chunk_index_end;
        let (chunks, after) = rest.split_at(range.len());
        rest = after;
        let bytes: u64 = chunks.iter().map(|leaf| leaf.1).sum();
        assert_eq!(bytes, u64::from(term.unpacked_segment_bytes), "{name}");
        let proof = RangeHash::of(chunks.iter().map(|leaf| &leaf.0));
        assert_eq!(proof.to_string(), *verification, "{name}");
        let xorb = xorbs.entry(&term.xorb_hash).or_default();
        for (index, leaf) in range.zip(chunks) {
            let first = *xorb.entry(index).or_insert(*leaf);
            assert_eq!(first, *leaf, "{name}: two terms disagree about a chunk");
        }
    }
    assert!(rest.is_empty(), "{name}: the terms cover the file");

    assert_eq!(xorbs.len(), plan.xorbs.len(), "{name}");
    for expected in &plan.xorbs {
        let chunks: Vec<_> = xorbs[expected.xorb_hash.as_str()].values().copied().collect();
        assert_eq!(chunks.len(), expected.num_chunks, "{name}");
        assert_eq!(chunks.iter().map(|leaf| leaf.1).sum::<u64>(), expected.raw_bytes, "{name}");
        assert_eq!(merkle::xorb_hash(chunks).to_string(), expected.xorb_hash, "{name}");
    }
}

//! Subtree over a run of chunks: the part of the Merkle tree that no unknown neighbour can change.
//!
//! Where a group of the tree begins depends on what stands before it, and where it ends may depend on what follows. But
//! a hash that ends groups, with another such hash three to seven places before it and one as far behind, ends one
//! whatever the rest is. Between the first and the last place of that kind groups are certain and are merged into the
//! level above; what is left of and right of them stays as it is. So a run of any length takes a few nodes a level.

use serde::{Deserialize, Serialize};

use super::{constants, merge};
use crate::hash::{ChunkHash, Hash};

/// A run of chunks, as the nodes of the tree that no neighbour of the run can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MerkleHashSubtree {
    /// The nodes on the left from the lowest level up, then those on the right from the highest down.
    pub nodes: Vec<SubtreeNode>,
    /// For each level from the chunks up, how many of its nodes stand on the left and on the right.
    pub levels: Vec<[u64; 2]>,
    /// Whether the run begins with the file's first chunk.
    pub at_start: bool,
    /// Whether the run ends with the file's last chunk.
    pub at_end: bool,
}

/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtreeNode {
    /// Its hash: of a chunk on the lowest level, of nodes above.
    pub hash: Hash,
    /// Raw bytes beneath it.
    pub size: u64,
}

type Node = (Hash, u64);

/// Sums up a run of chunks with their raw lengths. `at_start` and `at_end` say that nothing comes before it, or after.
/// `None` for a run of none.
pub fn subtree(chunks: Vec<(ChunkHash, u64)>, at_start: bool, at_end: bool) -> Option<MerkleHashSubtree> {
    if chunks.is_empty() {
        return None;
    }
    let (mut lefts, mut rights) = (Vec::<Vec<Node>>::new(), Vec::<Vec<Node>>::new());
    let mut level: Vec<Node> = chunks.into_iter().map(|(chunk, bytes)| (chunk.0, bytes)).collect();
    loop {
        // What is left over below stands at the edge of every level above.
        let is_first = at_start && lefts.iter().all(Vec::is_empty);
        let is_last = at_end && rights.iter().all(Vec::is_empty);
        let (above, right) = promote(&mut level, is_first, is_last);
        lefts.push(level);
        rights.push(right);
        match above.len() {
            0 => break,
            1 => {
                lefts.push(above);
                rights.push(Vec::new());
                break;
            }
            _ => level = above,
        }
    }
    let levels =
        lefts.iter().zip(&rights).map(|(left, right)| [left.len() as u64, right.len() as u64]).collect();
    let nodes = lefts.into_iter().flatten().chain(rights.into_iter().rev().flatten());
    let nodes = nodes.map(|(hash, size)| SubtreeNode { hash, size }).collect();
    Some(MerkleHashSubtree { nodes, levels, at_start, at_end })
}

/// Takes the certain groups out of a level: gives the nodes over them, and what stands right of them. What stands left
/// stays in the level; all of it, where no group is certain.
fn promote(level: &mut Vec<Node>, is_first: bool, is_last: bool) -> (Vec<Node>, Vec<Node>) {
    let certain = match level.len() {
        0 | 1 => None,
        len => {
            let start = if is_first { Some(0) } else { certain_end(level.iter()) };
            start.and_then(|start| {
                let rest = level.get(start..).unwrap_or_default();
                // Found from behind, the place is counted from the end, and lies after the node and not before it.
                let end =
                    if is_last { Some(len) } else { certain_end(rest.iter().rev()).map(|end| len - end + 1) };
                end.filter(|end| *end > start).map(|end| start..end)
            })
        }
    };
    let Some(certain) = certain else { return (Vec::new(), Vec::new()) };
    let right = level.split_off(certain.end);
    let middle = level.split_off(certain.start);
    let mut above = Vec::new();
    let mut open = Vec::with_capacity(constants::NODE_CHILDREN_MAX);
    for node in middle {
        open.push(node);
        if super::ends_group(&open) {
            above.push(merge(&open));
            open.clear();
        }
    }
    if !open.is_empty() {
        above.push(merge(&open));
    }
    (above, right)
}

/// How many nodes come before the end of the first group that ends for certain: up to and with the second of three nodes
/// in a row that may end one, when the steps between them are neither too short nor so long that a group is full before.
fn certain_end<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<usize> {
    let mut last_two = [None, None];
    for (place, (hash, _)) in nodes.enumerate() {
        if !hash.suffix().is_multiple_of(constants::NODE_CHILDREN_MEAN) {
            continue;
        }
        if let [Some(first), Some(second)] = last_two
            && is_step(second - first)
            && is_step(place - second)
        {
            return Some(second + 1);
        }
        last_two = [last_two[1], Some(place)];
    }
    None
}

fn is_step(nodes: usize) -> bool {
    (constants::NODE_CHILDREN_MIN..constants::NODE_CHILDREN_MAX - 1).contains(&nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::xorb_hash;

    /// The chunks of `testdata/subtrees.json`.
    fn chunks(from: u32, to: u32) -> Vec<(ChunkHash, u64)> {
        let chunk = |i: u32| {
            (ChunkHash::new(testkit::sha256(&i.to_le_bytes())), 8192 + u64::from(i) * 7919 % 100_000)
        };
        (from..to).map(chunk).collect()
    }

    #[derive(serde::Deserialize)]
    struct Case {
        from: u32,
        to: u32,
        subtree: MerkleHashSubtree,
    }

    #[test]
    fn runs_are_summed_up_as_published_clients_do_it() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../../../testdata/subtrees.json")).unwrap();
        assert!(cases.len() > 5);
        for Case { from, to, subtree: expected } in cases {
            let found = subtree(chunks(from, to), expected.at_start, expected.at_end);
            assert_eq!(found.as_ref(), Some(&expected), "{from}..{to}");
        }
        assert_eq!(subtree(Vec::new(), true, true), None);
    }

    #[test]
    fn a_run_that_is_everything_is_one_node_and_a_long_one_is_few() {
        for count in [1, 2, 3, 9, 10, 500] {
            let whole = subtree(chunks(0, count), true, true).unwrap();
            let [root] = whole.nodes.as_slice() else { panic!("{count}: {} nodes", whole.nodes.len()) };
            assert_eq!(root.hash, xorb_hash(chunks(0, count)).0, "{count}");
        }
        assert!(subtree(chunks(3, 20_000), false, false).unwrap().nodes.len() < 500);
    }
}

//! The Merkle tree over chunk hashes: xorb hash, file hash.
//!
//! Groups end where a hash says so, so that an edit moves few nodes. A group closes after a child (the third or later)
//! whose last word is a multiple of 4, or after nine children, or where the level ends. Levels repeat until one node
//! is left. A level of one node is the root itself, unhashed; a last group of one node in a longer level is hashed alone.

mod subtree;

use std::io::Write;

use crate::constants;
use crate::hash::{ChunkHash, FileHash, Hash, XorbHash};

pub use subtree::{MerkleHashSubtree, SubtreeNode, subtree};

/// Builds the tree while leaves arrive, keeping at most nine nodes a level.
#[derive(Debug, Clone, Default)]
pub struct MerkleBuilder {
    levels: Vec<Level>,
}

#[derive(Debug, Clone, Default)]
struct Level {
    /// Nodes of the group that is still open.
    open: Vec<(Hash, u64)>,
    /// Whether a group of this level was closed already.
    closed_any: bool,
}

impl MerkleBuilder {
    /// Adds the next chunk.
    pub fn push(&mut self, chunk: ChunkHash, bytes: u64) {
        self.push_at(0, (chunk.0, bytes));
    }

    /// The root, which is the xorb hash of these chunks. No chunks: zeros. One chunk: its own hash.
    pub fn finish(mut self) -> XorbHash {
        let mut depth = 0;
        while let Some(level) = self.levels.get_mut(depth) {
            if let ([(root, _)], false) = (level.open.as_slice(), level.closed_any) {
                return XorbHash(*root);
            }
            if !level.open.is_empty() {
                let node = merge(&level.open);
                level.open.clear();
                level.closed_any = true;
                self.push_at(depth + 1, node);
            }
            depth += 1;
        }
        XorbHash::ZERO
    }

    /// The hash of the file made of these chunks.
    pub fn finish_file(self) -> FileHash {
        self.finish_file_salted(&constants::FILE_KEY)
    }

    /// The file hash in a deployment with its own salt. An empty file is zeros whatever the salt.
    pub fn finish_file_salted(self, salt: &[u8; 32]) -> FileHash {
        if self.levels.is_empty() {
            return FileHash::ZERO;
        }
        FileHash::new(*blake3::keyed_hash(salt, self.finish().as_bytes()).as_bytes())
    }

    fn push_at(&mut self, depth: usize, node: (Hash, u64)) {
        let mut carried = Some(node);
        for depth in depth.. {
            let Some(node) = carried.take() else { return };
            if self.levels.len() == depth {
                self.levels.push(Level::default());
            }
            let Some(level) = self.levels.get_mut(depth) else { return };
            level.open.push(node);
            if ends_group(&level.open) {
                carried = Some(merge(&level.open));
                level.open.clear();
                level.closed_any = true;
            }
        }
    }
}

/// The hash of a xorb of these chunks, each with its raw length.
pub fn xorb_hash(chunks: impl IntoIterator<Item = (ChunkHash, u64)>) -> XorbHash {
    build(chunks).finish()
}

/// The hash of a file of these chunks, each with its raw length.
pub fn file_hash(chunks: impl IntoIterator<Item = (ChunkHash, u64)>) -> FileHash {
    build(chunks).finish_file()
}

fn build(chunks: impl IntoIterator<Item = (ChunkHash, u64)>) -> MerkleBuilder {
    let mut builder = MerkleBuilder::default();
    for (chunk, bytes) in chunks {
        builder.push(chunk, bytes);
    }
    builder
}

fn ends_group(open: &[(Hash, u64)]) -> bool {
    let by_hash =
        open.last().is_some_and(|(hash, _)| hash.suffix().is_multiple_of(constants::NODE_CHILDREN_MEAN));
    open.len() >= constants::NODE_CHILDREN_MAX || open.len() >= constants::NODE_CHILDREN_MIN && by_hash
}

/// One node over a group: the keyed hash of a line `<hash> : <bytes>` per child, and the sum of the bytes.
fn merge(group: &[(Hash, u64)]) -> (Hash, u64) {
    // 64 digits, three characters, at most 20 digits, a line end.
    let mut text = [0; constants::NODE_CHILDREN_MAX * 88];
    let mut rest = text.as_mut_slice();
    let mut total = 0u64;
    for (hash, bytes) in group {
        rest.write_all(&hash.hex())
            .and_then(|()| writeln!(rest, " : {bytes}"))
            .expect("a group fits its buffer");
        // Lengths of real chunks cannot overflow; untrusted sizes may, and the reference wraps.
        total = total.wrapping_add(*bytes);
    }
    let left = rest.len();
    let lines = text.get(..text.len() - left).unwrap_or_default();
    (Hash::new(*blake3::keyed_hash(&constants::NODE_KEY, lines).as_bytes()), total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(text: &str, bytes: u64) -> (ChunkHash, u64) {
        (text.parse().unwrap(), bytes)
    }

    #[test]
    fn no_leaves_are_zeros_and_one_leaf_is_itself() {
        assert_eq!(xorb_hash([]), XorbHash::ZERO);
        assert_eq!(file_hash([]), FileHash::ZERO);
        let one = leaf("cfc5d07f6f03c29bbf424132963fe08d19a37d5757aaf520bf08119f05cd56d6", 100);
        assert_eq!(xorb_hash([one]).0, one.0.0);
        assert_eq!(
            file_hash([one]).to_string(),
            "8e16257caa3fe079d484d872a8975264b2ff683b0d6db9028cc7c0f968a45661"
        );
    }

    /// The zero hash is a legal leaf, and a tree of it is not the empty tree.
    #[test]
    fn a_zero_leaf_is_not_an_empty_file() {
        let zero = (ChunkHash::ZERO, 0);
        assert_eq!(xorb_hash([zero]), XorbHash::ZERO);
        assert_eq!(
            file_hash([zero]).to_string(),
            "638a6bc391964a85939d48f008e8bdbae6a7975e7ca2d87a3ce2492f4e4d8a4c"
        );
    }

    #[test]
    fn two_leaves_make_one_node() {
        let one = leaf("cfc5d07f6f03c29bbf424132963fe08d19a37d5757aaf520bf08119f05cd56d6", 100);
        assert_eq!(
            xorb_hash([one, (ChunkHash::ZERO, 0)]).to_string(),
            "e8660f81494ca836a58e395c1395ef97870ed71e2b113eec1fab6b3361f46dd6"
        );
    }
}

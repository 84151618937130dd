//! The answer to `file-chunk-hashes`: what a client must know to replace ranges of a file it does not have.
//!
//! The dirty ranges of the request, widened to where cutting the new bytes will be back in step, are the windows. Around them lie the gaps, which stay
//! as they are; each is summed up in a piece of the Merkle tree, so that the new file's hash can be computed.

use serde::{Deserialize, Serialize};

use crate::hash::{Hash, RangeHash};

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChunkHashes {
    /// Chunks in the file.
    pub total_chunks: u64,
    /// Raw bytes of the file.
    pub file_size: u64,
    /// What the client will replace, in file order.
    pub windows: Vec<DirtyWindow>,
    /// What stays: before, between and after the windows, so one more than those; `None` where nothing stays.
    pub hash_ranges: Vec<Option<MerkleHashSubtree>>,
    /// One hash for each term that stays whole.
    pub gap_verification: Vec<RangeHash>,
}

/// Bytes to be replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirtyWindow {
    /// Start and end, half-open, both on chunk borders.
    pub dirty_byte_range: [u64; 2],
}

/// A run of chunks, as the nodes of the tree that whatever stands beside the run cannot change.
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

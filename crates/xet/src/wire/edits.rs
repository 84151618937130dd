//! Response of `file-chunk-hashes`: all that a client needs to replace ranges of a file it does not have.
//!
//! The dirty ranges of the request, widened to where cutting the new bytes will be back in step, are the windows. Around them lie the gaps, which stay
//! as they are; each is summed up in a piece of the Merkle tree, so that the new file's hash can be computed.

use serde::{Deserialize, Serialize};

use crate::hash::RangeHash;
use crate::merkle::MerkleHashSubtree;

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChunkHashes {
    /// Chunks in the file.
    pub total_chunks: u64,
    /// Raw bytes of the file.
    pub file_size: u64,
    /// Windows that the client will replace, in file order.
    pub windows: Vec<DirtyWindow>,
    /// Subtrees of the parts that stay: before, between and after the windows, so one more than those; `None` where nothing stays.
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

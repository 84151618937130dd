//! Wire types of client and server: JSON bodies, response streams, byte ranges, paths and error codes.
//!
//! Fields have the names real clients use. Unknown fields are ignored, so that either side may learn more first;
//! hashes are read in either case and written in lower case.

pub mod answers;
pub mod chunk_list;
pub mod code;
pub mod edits;
pub mod multipart;
pub mod range;
pub mod reconstruction;
pub mod repo;
pub mod routes;
pub mod shards;

pub use answers::{Telemetry, TokenAnswer, XorbUploaded};
pub use code::{ErrorBody, ErrorCode};
pub use edits::{DirtyWindow, FileChunkHashes};
pub use range::{ContentRange, HttpRange, RangeSpec};
pub use reconstruction::{Batch, Reconstruction, ReconstructionV1, ReconstructionV2};
pub use repo::{RepoKind, RepoName};
pub use shards::{Frame, FrameReader, ShardUploaded};

use crate::error::FormatError;
pub use crate::merkle::{MerkleHashSubtree, SubtreeNode};

/// Parses one JSON value. The caller has limited their number.
pub fn parse_json<'de, T: serde::Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, FormatError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // The reason may quote untrusted input, so it is cut.
        let reason = error.to_string().chars().take(200).collect();
        FormatError::Payload { at: offset_of(bytes, &error), reason }
    })
}

/// Encodes one of the types here, or an own one as simple, as JSON.
///
/// # Panics
///
/// On types that JSON cannot hold, such as maps whose keys are not text. None here is.
pub fn encode_json<T: serde::Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("wire types are structs with text keys")
}

/// The offset of a JSON error, which names a line and a column, both from 1.
fn offset_of(bytes: &[u8], error: &serde_json::Error) -> u64 {
    let before = error.line().saturating_sub(1);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(before);
    let start: usize = lines.map(<[u8]>::len).sum();
    (start + error.column().saturating_sub(1)) as u64
}

#[cfg(test)]
mod tests;

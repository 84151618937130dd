//! The XET protocol: hashes, chunking, compression, xorbs, shards, reconstruction plans and wire types.
//!
//! Pure: bytes in, values out. Nothing here knows a clock, a file, a socket, a thread or the environment. The one thing that
//! a process chooses for all of it is which implementation of its [`kernels`] runs, which changes no result.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod chunk;
pub mod compress;
pub mod constants;
pub mod cursor;
pub mod error;
pub mod hash;
mod kernel_choice;
pub mod kernels;
pub mod limits;
pub mod merkle;
pub mod pack;
pub mod plan;
mod raw_hash;
pub mod sha256;
pub mod shard;
#[cfg(test)]
mod tests;
pub mod wire;
pub mod xorb;

pub use error::FormatError;
pub use hash::{ChunkHash, FileHash, Hash, HashKey, RangeHash, Sha256, ShardHash, XorbHash};

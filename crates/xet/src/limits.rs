//! Limits of untrusted input. Every number from outside is compared with one of these before it sizes
//! anything.

use crate::constants;

/// Raw bytes of one chunk.
pub const CHUNK_BYTES_MAX: u32 = 128 * 1024;
const _: () = assert!(CHUNK_BYTES_MAX as usize == constants::CHUNK_BYTES_MAX);

/// Stored bytes of one chunk. The draft says 128 KiB; the reference reads up to twice that, because an encoder that
/// does not fall back to raw storage may expand what it cannot shrink. We write less than the raw length.
pub(crate) const CHUNK_STORED_BYTES_MAX: u32 = 256 * 1024;

/// Raw bytes of all chunks of one xorb. Counting raw bytes, not stored ones, is what genuine clients do.
pub const XORB_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Chunks in one xorb.
pub const XORB_CHUNKS_MAX: u32 = 8192;

/// A whole stored xorb of incompressible data, headers and version 1 footer included.
pub const XORB_STORED_BYTES_MAX: u64 =
    XORB_BYTES_MAX + 8 * XORB_CHUNKS_MAX as u64 + 92 + 4 + 40 * XORB_CHUNKS_MAX as u64;

/// A whole shard; larger ones must be split before upload.
pub const SHARD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Chunks looked at while checking the files of one shard. A small term may name a whole xorb and be repeated, so a
/// shard's length alone does not bound the work; this is 4 TiB of files at the mean chunk length.
pub const SHARD_CHECK_CHUNKS_MAX: u64 = 1 << 26;

/// One line of a shard upload's answer stream.
pub(crate) const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Ranges behind one signed URL of a reconstruction. More would make URLs that proxies refuse.
pub const URL_RANGES_MAX: usize = 500;

/// Ranges in one `Range` or `X-Range-Dirty` header: those of a full URL, and some more.
pub const HEADER_RANGES_MAX: usize = 1024;

/// Files in one batch reconstruction.
pub const BATCH_FILES_MAX: usize = 1024;

/// Limit of the bytes before a part in a multipart answer: boundary line and headers, or the preamble.
pub(crate) const PART_HEADER_BYTES_MAX: usize = 4096;

/// One telemetry report.
pub const TELEMETRY_BYTES_MAX: usize = 1024 * 1024;

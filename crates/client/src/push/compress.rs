//! Compression of raw chunks to the stored chunks of a xorb.

use xet::xorb::ChunkWriter;

use super::buffer_pool::BufferPool;
use super::open_xorb::CompressedChunks;

/// The stored chunks of these chunks, one after another, in place of what was in `segment`, or in memory of `pool`.
pub(super) fn compress_chunks<'a>(
    writer: &mut ChunkWriter,
    pool: &BufferPool,
    chunks: impl IntoIterator<Item = &'a [u8]> + Clone,
    segment: &mut CompressedChunks,
) {
    let raw_bytes: usize = chunks.clone().into_iter().map(|chunk| chunk.len() + 16).sum();
    pool.reserve(&mut segment.bytes, raw_bytes);
    let stored_bytes = chunks.into_iter().map(|chunk| {
        let written = writer.push(chunk, &mut segment.bytes);
        written.expect("the cutter makes no chunk that is empty or too long")
    });
    segment.stored_bytes = stored_bytes.collect();
}

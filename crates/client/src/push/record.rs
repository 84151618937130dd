//! Compressing: raw chunks to the records of a xorb.

use xet::xorb::RecordWriter;

use super::bins::Segment;

/// The records of these chunks, one after another.
pub(super) fn records<'a>(
    writer: &mut RecordWriter,
    chunks: impl IntoIterator<Item = &'a [u8]> + Clone,
) -> Segment {
    let raw_bytes: usize = chunks.clone().into_iter().map(|chunk| chunk.len() + 16).sum();
    let mut bytes = Vec::with_capacity(raw_bytes);
    let record_bytes = chunks.into_iter().map(|chunk| {
        let written = writer.push(chunk, &mut bytes);
        written.expect("the cutter makes no chunk that is empty or too long")
    });
    let record_bytes = record_bytes.collect();
    // Segments wait until their xorb is sent, so what compressed well must not keep the room of what it was.
    if bytes.len() < bytes.capacity() / 8 * 7 {
        bytes.shrink_to_fit();
    }
    Segment { bytes: bytes.into(), record_bytes }
}

//! Cuts blocks into chunks and hashes them while they are in the cache.

use std::ops::Range;

use xet::ChunkHash;
use xet::chunk::Chunker;

/// A chunk in a buffer.
#[derive(Debug, Clone)]
pub(crate) struct BlockChunk {
    pub(crate) hash: ChunkHash,
    pub(crate) bytes: Range<usize>,
}

impl BlockChunk {
    fn new(buffer: &[u8], bytes: Range<usize>) -> Self {
        Self { hash: ChunkHash::of(&buffer[bytes.clone()]), bytes }
    }

    /// Raw bytes of the chunk.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a chunk is at most 128 KiB")
    }
}

/// Cuts a stream that comes in blocks.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    chunker: Chunker,
    cuts: Vec<u64>,
    /// Offset of the open chunk in the stream.
    chunk_start: u64,
}

impl Cutter {
    /// Whether no chunk has ended yet.
    pub(crate) fn is_at_start(&self) -> bool {
        self.chunk_start == 0
    }

    /// The chunks that end in this block, which begins with the `open` bytes of the open chunk. Each is hashed when it is taken,
    /// and all must be taken unless the stream is given up.
    pub(crate) fn cut<'b>(
        &'b mut self,
        buffer: &'b [u8],
        open: usize,
        at_end: bool,
    ) -> impl Iterator<Item = BlockChunk> {
        let Self { chunker, cuts, chunk_start } = self;
        cuts.clear();
        chunker.push(&buffer[open..], cuts);
        if at_end {
            cuts.extend(std::mem::take(chunker).finish());
        }
        let mut done = 0;
        cuts.iter().map(move |cut| {
            let len = usize::try_from(cut - *chunk_start).expect("a chunk is at most 128 KiB");
            let bytes = done..done + len;
            (done, *chunk_start) = (bytes.end, *cut);
            BlockChunk::new(buffer, bytes)
        })
    }
}

/// The chunks of a file that is in the buffer as a whole.
pub(crate) fn cut_whole(buffer: &[u8], file: Range<usize>) -> Vec<BlockChunk> {
    let mut start = file.start;
    let chunk = |cut: usize| {
        let end = file.start + cut;
        BlockChunk::new(buffer, std::mem::replace(&mut start, end)..end)
    };
    xet::chunk::cut(&buffer[file.clone()]).into_iter().map(chunk).collect()
}

//! Open xorbs: xorbs being filled. Chunk numbers are given out in file order; any worker may compress any segment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use xet::xorb::{StoredChunk, XorbInfo};
use xet::{ChunkHash, limits};

use super::buffer_pool::BufferPool;
use super::lock::lock;
use crate::cas::StreamingXorb;

/// Chunks that will be a xorb, or a part of one.
#[derive(Debug)]
pub(super) struct OpenXorb {
    id: u64,
    chunks: Vec<(ChunkHash, u32)>,
    raw_bytes: u64,
    /// Lengths of the stored chunks of each segment, in order; those of a missing one are not known yet.
    segments: Vec<Option<Vec<u32>>>,
    missing: usize,
    closed: bool,
    /// Has a lock of its own: writing may take as long as a disk.
    segments_in_order: Arc<Mutex<SegmentQueue>>,
}

/// Compressed stored chunks of some consecutive chunks of an open xorb.
#[derive(Debug, Default)]
pub(super) struct CompressedChunks {
    pub(super) bytes: Vec<u8>,
    /// Bytes of each stored chunk.
    pub(super) stored_bytes: Vec<u32>,
}

/// An open xorb that one worker fills and others complete.
pub(super) type SharedXorb = Arc<Mutex<OpenXorb>>;

/// Stores the stored chunks of the segment `slot`, and takes the memory they are in if they stay there. Returns the xorb when it is
/// closed and these were the last. `grow` starts a xorb outside of memory.
pub(super) fn fill(
    open: &SharedXorb,
    slot: usize,
    segment: &mut CompressedChunks,
    grow: impl Fn() -> Option<Box<dyn StreamingXorb>>,
) -> Option<CompleteXorb> {
    let segments_in_order = lock(open).segments_in_order.clone();
    lock(&segments_in_order).insert(slot, &mut segment.bytes, grow);
    let mut open = lock(open);
    open.segments[slot] = Some(std::mem::take(&mut segment.stored_bytes));
    open.missing -= 1;
    open.take_if_done()
}

impl OpenXorb {
    /// An empty xorb. Stored chunks that wait in memory are in buffers of `pool`.
    pub(super) fn new(id: u64, pool: BufferPool) -> SharedXorb {
        let segments_in_order =
            SegmentQueue { body: XorbBody::default(), next: 0, waiting: BTreeMap::new(), pool };
        Arc::new(Mutex::new(Self {
            id,
            chunks: Vec::new(),
            raw_bytes: 0,
            segments: Vec::new(),
            missing: 0,
            closed: false,
            segments_in_order: Arc::new(Mutex::new(segments_in_order)),
        }))
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a chunk and returns its place; `None` when the xorb is full.
    pub(super) fn push(&mut self, hash: ChunkHash, raw_bytes: u32) -> Option<u32> {
        let fits = self.raw_bytes + u64::from(raw_bytes) <= limits::XORB_BYTES_MAX
            && self.chunks.len() < limits::XORB_CHUNKS_MAX as usize;
        if !fits {
            return None;
        }
        let place = u32::try_from(self.chunks.len()).expect("a xorb has few chunks");
        self.chunks.push((hash, raw_bytes));
        self.raw_bytes += u64::from(raw_bytes);
        Some(place)
    }

    /// Reserves a segment for the stored chunks of the chunks added since the last one.
    pub(super) fn reserve_segment(&mut self) -> usize {
        self.segments.push(None);
        self.missing += 1;
        self.segments.len() - 1
    }

    /// Closes the xorb: no more chunks are added. Returns it when no stored chunk is missing.
    pub(super) fn close(&mut self) -> Option<CompleteXorb> {
        self.closed = true;
        self.take_if_done()
    }

    fn take_if_done(&mut self) -> Option<CompleteXorb> {
        if !self.closed || self.missing > 0 || self.chunks.is_empty() {
            return None;
        }
        Some(CompleteXorb {
            open_xorbs: vec![(self.id, 0)],
            chunks: std::mem::take(&mut self.chunks),
            raw_bytes: self.raw_bytes,
            stored_bytes: self.segments.drain(..).flat_map(|lens| lens.expect("none is missing")).collect(),
            body: std::mem::take(&mut lock(&self.segments_in_order).body),
        })
    }
}

/// The stored chunks of an open xorb, put in order.
#[derive(Debug)]
struct SegmentQueue {
    body: XorbBody,
    /// The segment that is next.
    next: usize,
    /// Segments after it.
    waiting: BTreeMap<usize, Segment>,
    pool: BufferPool,
}

impl SegmentQueue {
    fn insert(
        &mut self,
        slot: usize,
        bytes: &mut Vec<u8>,
        grow: impl Fn() -> Option<Box<dyn StreamingXorb>>,
    ) {
        if slot == self.next
            && let XorbBody::Streaming(growing) = &mut self.body
        {
            growing.write(bytes);
            self.next += 1;
        } else {
            let held_bytes = bytes.capacity() as u64;
            let bytes = self.pool.freeze(std::mem::take(bytes));
            self.waiting.insert(slot, Segment { bytes, held_bytes });
        }
        while let Some(segment) = self.waiting.remove(&self.next) {
            self.body.append(segment, &grow);
            self.next += 1;
        }
    }
}

/// Stored chunks in a buffer that may be larger than they are.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) bytes: Bytes,
    held_bytes: u64,
}

/// The stored chunks of a xorb, one after another, until it is complete.
#[derive(Debug)]
pub(super) enum XorbBody {
    Memory(Vec<Segment>),
    Streaming(Box<dyn StreamingXorb>),
}

impl Default for XorbBody {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl XorbBody {
    fn append(&mut self, segment: Segment, grow: impl Fn() -> Option<Box<dyn StreamingXorb>>) {
        match self {
            Self::Streaming(growing) => growing.write(&segment.bytes),
            Self::Memory(parts) => {
                parts.push(segment);
                // Not at once: what is left at the end can be joined into one xorb as long as it is in memory.
                if self.memory_bytes() >= GROW_BYTES
                    && let Some(growing) = grow()
                {
                    let parts = std::mem::replace(self, Self::Streaming(growing));
                    let _ = self.join(parts);
                }
            }
        }
    }

    /// Appends other stored chunks, unless they are outside of memory and stay there; then returns them.
    fn join(&mut self, other: Self) -> Result<(), Self> {
        let parts = match other {
            Self::Memory(parts) => parts,
            Self::Streaming(growing) => {
                let bytes = growing.reclaim().map_err(Self::Streaming)?;
                vec![Segment { held_bytes: bytes.capacity() as u64, bytes: bytes.into() }]
            }
        };
        match self {
            Self::Streaming(growing) => parts.iter().for_each(|part| growing.write(&part.bytes)),
            Self::Memory(all) => all.extend(parts),
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Memory(parts) => parts.iter().map(|part| part.held_bytes).sum(),
            Self::Streaming(_) => 0,
        }
    }
}

/// A xorb with all the stored chunks.
#[derive(Debug)]
pub(super) struct CompleteXorb {
    /// The open xorbs in it, and the place of the first chunk of each.
    open_xorbs: Vec<(u64, u32)>,
    chunks: Vec<(ChunkHash, u32)>,
    raw_bytes: u64,
    stored_bytes: Vec<u32>,
    body: XorbBody,
}

/// A sealed xorb, and the open xorbs in it.
#[derive(Debug)]
pub(super) struct ReadyXorb {
    pub(super) open_xorbs: Vec<(u64, u32)>,
    pub(super) info: Arc<XorbInfo>,
    pub(super) body: XorbBody,
}

impl CompleteXorb {
    /// Appends the chunks of another xorb, if both fit into one; else returns it.
    pub(super) fn append(&mut self, mut other: Self) -> Result<(), Self> {
        let fits = self.raw_bytes + other.raw_bytes <= limits::XORB_BYTES_MAX
            && self.chunks.len() + other.chunks.len() <= limits::XORB_CHUNKS_MAX as usize;
        if !fits {
            return Err(other);
        }
        if let Err(body) = self.body.join(other.body) {
            other.body = body;
            return Err(other);
        }
        let base = u32::try_from(self.chunks.len()).expect("a xorb has few chunks");
        self.open_xorbs.extend(other.open_xorbs.into_iter().map(|(open, start)| (open, base + start)));
        self.chunks.extend(other.chunks);
        self.raw_bytes += other.raw_bytes;
        self.stored_bytes.extend(other.stored_bytes);
        Ok(())
    }

    /// Memory that the stored chunks take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.body.memory_bytes()
    }

    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// The xorb.
    pub(super) fn seal(self) -> ReadyXorb {
        let chunks = self.chunks.iter().zip(self.stored_bytes);
        let info = XorbInfo::from_chunks(chunks.map(|(&(hash, raw_bytes), stored_bytes)| StoredChunk {
            hash,
            raw_bytes,
            stored_bytes,
        }));
        let info = Arc::new(info.expect("an open xorb keeps the limits of a xorb and is not empty"));
        ReadyXorb { open_xorbs: self.open_xorbs, info, body: self.body }
    }
}

/// Bytes of stored chunks in memory from which on a local store takes them as they come.
const GROW_BYTES: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use xet::compress::Policy;
    use xet::xorb::{ChunkWriter, Form, SealedXorb, XorbBuilder};

    use super::super::compress::compress_chunks;
    use super::*;
    use crate::error::Result;

    fn noise(n: u64, len: usize) -> Vec<u8> {
        testkit::corpus::noise(n, len)
    }

    fn open(id: u64) -> SharedXorb {
        OpenXorb::new(id, BufferPool::new(0))
    }

    fn segment(chunk: &[u8]) -> CompressedChunks {
        let mut segment = CompressedChunks::default();
        compress_chunks(&mut ChunkWriter::new(Policy::Auto), &BufferPool::new(0), [chunk], &mut segment);
        segment
    }

    fn expected(chunks: &[Vec<u8>]) -> SealedXorb {
        let mut builder = XorbBuilder::new(Policy::Auto);
        chunks.iter().for_each(|chunk| builder.push(ChunkHash::of(chunk), chunk).unwrap());
        builder.seal(Form::Footerless).unwrap()
    }

    fn push_chunk(open: &SharedXorb, chunk: &[u8]) -> Option<u32> {
        let place = lock(open).push(ChunkHash::of(chunk), u32::try_from(chunk.len()).unwrap());
        lock(open).reserve_segment();
        place
    }

    #[test]
    fn segments_filled_in_any_order_and_joined_are_one_xorb() {
        let chunks: Vec<_> = (0..4).map(|n| noise(n, 10_000)).collect();
        let [one, two] = [open(7), open(9)];
        for (n, chunk) in chunks.iter().enumerate() {
            let open = if n < 3 { &one } else { &two };
            assert_eq!(push_chunk(open, chunk), Some(n as u32 % 3));
        }
        assert!(lock(&one).close().is_none() && lock(&two).close().is_none(), "chunks are missing");
        let fill = |open, slot, n: usize| fill(open, slot, &mut segment(&chunks[n]), || None);
        assert!(fill(&one, 2, 2).is_none());
        assert!(fill(&one, 0, 0).is_none());
        let mut sealing = fill(&one, 1, 1).unwrap();
        sealing.append(fill(&two, 0, 3).unwrap()).unwrap();
        let sealed = sealing.seal();
        assert_eq!(sealed.open_xorbs, [(7, 0), (9, 3)]);
        let expected = expected(&chunks);
        assert_eq!(*sealed.info, expected.info);
        let XorbBody::Memory(segments) = sealed.body else { panic!("nothing grows") };
        let stored: Vec<_> = segments.into_iter().map(|held| held.bytes).collect();
        assert_eq!(stored.concat(), expected.bytes);
    }

    /// Writes into memory that the test can see.
    #[derive(Debug, Clone, Default)]
    struct XorbInMemory {
        bytes: Arc<Mutex<Vec<u8>>>,
        keeps: bool,
    }

    #[async_trait]
    impl StreamingXorb for XorbInMemory {
        fn write(&mut self, stored: &[u8]) {
            lock(&self.bytes).extend_from_slice(stored);
        }

        fn reclaim(self: Box<Self>) -> std::result::Result<Vec<u8>, Box<dyn StreamingXorb>> {
            if self.keeps { Err(self) } else { Ok(lock(&self.bytes).clone()) }
        }

        async fn finish(self: Box<Self>, _info: Arc<XorbInfo>) -> Result<bool> {
            Ok(true)
        }
    }

    #[test]
    fn what_grows_gets_the_same_bytes_in_order_and_takes_what_is_in_memory() {
        let chunks: Vec<_> = (0..60).map(|n| noise(n, 100_000)).collect();
        let (written, open, rest) = (XorbInMemory::default(), self::open(1), self::open(2));
        let grow = || Some(Box::new(written.clone()) as Box<dyn StreamingXorb>);
        chunks[..59].iter().for_each(|chunk| _ = push_chunk(&open, chunk));
        push_chunk(&rest, &chunks[59]);
        // Each pair the wrong way round, and the last segment last.
        let mut given_back = 0;
        for slot in (0..58).map(|n| n ^ 1) {
            let mut segment = segment(&chunks[slot]);
            assert!(fill(&open, slot, &mut segment, grow).is_none());
            given_back += usize::from(segment.bytes.capacity() > 0);
        }
        assert_eq!(lock(&written.bytes).len() as u64, expected(&chunks[..58]).info.stored_bytes());
        assert!(given_back > 5, "what is written leaves its memory to the worker: {given_back}");
        assert!(lock(&open).close().is_none());
        let mut sealing = fill(&open, 58, &mut segment(&chunks[58]), grow).unwrap();
        lock(&rest).close();
        let rest = fill(&rest, 0, &mut segment(&chunks[59]), grow).unwrap();
        assert_eq!(
            (sealing.memory_bytes(), rest.memory_bytes()),
            (0, segment(&chunks[59]).bytes.capacity() as u64)
        );
        sealing.append(rest).unwrap();
        let expected = expected(&chunks);
        assert_eq!(*sealing.seal().info, expected.info);
        assert!(*lock(&written.bytes) == expected.bytes);
    }

    #[test]
    fn what_grows_is_put_behind_another_if_it_is_given_back() {
        let grown = |id, written: &XorbInMemory| {
            let chunks: Vec<_> = (0..50).map(|n| noise(id * 100 + n, 100_000)).collect();
            let open = open(id);
            chunks.iter().for_each(|chunk| _ = push_chunk(&open, chunk));
            lock(&open).close();
            let fill =
                |slot| fill(&open, slot, &mut segment(&chunks[slot]), || Some(Box::new(written.clone())));
            ((0..50).find_map(fill).unwrap(), chunks)
        };
        let (first, second) = (XorbInMemory::default(), XorbInMemory::default());
        let ((mut one, mut chunks), (two, more)) = (grown(1, &first), grown(2, &second));
        one.append(two).unwrap();
        chunks.extend(more);
        let expected = expected(&chunks);
        let sealed = one.seal();
        assert_eq!((sealed.open_xorbs, &*sealed.info), (vec![(1, 0), (2, 50)], &expected.info));
        assert!(*lock(&first.bytes) == expected.bytes);

        let (first, second) =
            (XorbInMemory::default(), XorbInMemory { keeps: true, ..XorbInMemory::default() });
        let ((mut one, _), (two, _)) = (grown(1, &first), grown(2, &second));
        let two = one.append(two).unwrap_err();
        assert_eq!((one.seal().open_xorbs, two.seal().open_xorbs), (vec![(1, 0)], vec![(2, 0)]));
    }
}

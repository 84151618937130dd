//! Xorbs being filled. Places are given out in file order; the records may be compressed in any order, by anyone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use xet::xorb::{RecordInfo, XorbInfo};
use xet::{ChunkHash, limits};

use super::buffer_pool::Rooms;
use crate::cas::Growing;

/// Chunks that will be a xorb, or a part of one.
#[derive(Debug)]
pub(super) struct Bin {
    id: u64,
    chunks: Vec<(ChunkHash, u32)>,
    raw_bytes: u64,
    /// Lengths of the records of each segment, in order; those of a missing one are not known yet.
    segments: Vec<Option<Vec<u32>>>,
    missing: usize,
    closed: bool,
    /// Has a lock of its own: it may take as long as a disk.
    shelf: Arc<Mutex<Shelf>>,
}

/// Records of some consecutive chunks of a bin.
#[derive(Debug, Default)]
pub(super) struct Segment {
    pub(super) bytes: Vec<u8>,
    /// Of each record.
    pub(super) record_bytes: Vec<u32>,
}

/// A bin that one worker fills and others complete.
pub(super) type SharedBin = Arc<Mutex<Bin>>;

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("nobody panics with the lock")
}

/// Takes the records that were announced as `slot`, and the memory they are in if they stay there. The bin itself, when it is
/// closed and these were the last. `grow` opens what takes records out of memory.
pub(super) fn fill(
    bin: &SharedBin,
    slot: usize,
    segment: &mut Segment,
    grow: impl Fn() -> Option<Box<dyn Growing>>,
) -> Option<Sealing> {
    let shelf = lock(bin).shelf.clone();
    lock(&shelf).take(slot, &mut segment.bytes, grow);
    let mut bin = lock(bin);
    bin.segments[slot] = Some(std::mem::take(&mut segment.record_bytes));
    bin.missing -= 1;
    bin.take_if_done()
}

impl Bin {
    /// An empty bin. What waits in memory is in that of `rooms`.
    pub(super) fn new(id: u64, rooms: Rooms) -> SharedBin {
        let shelf = Shelf { records: Records::default(), next: 0, waiting: BTreeMap::new(), rooms };
        Arc::new(Mutex::new(Self {
            id,
            chunks: Vec::new(),
            raw_bytes: 0,
            segments: Vec::new(),
            missing: 0,
            closed: false,
            shelf: Arc::new(Mutex::new(shelf)),
        }))
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Gives the chunk the next place; `None` when the bin is full.
    pub(super) fn place(&mut self, hash: ChunkHash, raw_bytes: u32) -> Option<u32> {
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

    /// Announces the records of the chunks placed since the last segment.
    pub(super) fn announce(&mut self) -> usize {
        self.segments.push(None);
        self.missing += 1;
        self.segments.len() - 1
    }

    /// Nothing more will be placed. The bin itself, when nothing is missing.
    pub(super) fn close(&mut self) -> Option<Sealing> {
        self.closed = true;
        self.take_if_done()
    }

    fn take_if_done(&mut self) -> Option<Sealing> {
        if !self.closed || self.missing > 0 || self.chunks.is_empty() {
            return None;
        }
        Some(Sealing {
            bins: vec![(self.id, 0)],
            chunks: std::mem::take(&mut self.chunks),
            raw_bytes: self.raw_bytes,
            record_bytes: self.segments.drain(..).flat_map(|lens| lens.expect("none is missing")).collect(),
            records: std::mem::take(&mut lock(&self.shelf).records),
        })
    }
}

/// The records of a bin, put in order.
#[derive(Debug)]
struct Shelf {
    records: Records,
    /// The segment that is next.
    next: usize,
    /// Segments after it.
    waiting: BTreeMap<usize, Held>,
    rooms: Rooms,
}

impl Shelf {
    fn take(&mut self, slot: usize, bytes: &mut Vec<u8>, grow: impl Fn() -> Option<Box<dyn Growing>>) {
        if slot == self.next
            && let Records::Growing(growing) = &mut self.records
        {
            growing.write(bytes);
            self.next += 1;
        } else {
            let held_bytes = bytes.capacity() as u64;
            let bytes = self.rooms.freeze(std::mem::take(bytes));
            self.waiting.insert(slot, Held { bytes, held_bytes });
        }
        while let Some(segment) = self.waiting.remove(&self.next) {
            self.records.append(segment, &grow);
            self.next += 1;
        }
    }
}

/// Records in memory, which may be more than they are.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    held_bytes: u64,
}

/// Records one after another, where they wait for the xorb to be complete.
#[derive(Debug)]
pub(super) enum Records {
    Memory(Vec<Held>),
    Growing(Box<dyn Growing>),
}

impl Default for Records {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Records {
    fn append(&mut self, segment: Held, grow: impl Fn() -> Option<Box<dyn Growing>>) {
        match self {
            Self::Growing(growing) => growing.write(&segment.bytes),
            Self::Memory(parts) => {
                parts.push(segment);
                // Not at once: what is left at the end can be joined into one xorb as long as it is in memory.
                if self.memory_bytes() >= GROW_BYTES
                    && let Some(growing) = grow()
                {
                    let parts = std::mem::replace(self, Self::Growing(growing));
                    let _ = self.join(parts);
                }
            }
        }
    }

    /// Puts others behind these, unless they are out of memory and stay there; then gives them back.
    fn join(&mut self, other: Self) -> Result<(), Self> {
        let parts = match other {
            Self::Memory(parts) => parts,
            Self::Growing(growing) => {
                let records = growing.take_back().map_err(Self::Growing)?;
                vec![Held { held_bytes: records.capacity() as u64, bytes: records.into() }]
            }
        };
        match self {
            Self::Growing(growing) => parts.iter().for_each(|part| growing.write(&part.bytes)),
            Self::Memory(all) => all.extend(parts),
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Memory(parts) => parts.iter().map(|part| part.held_bytes).sum(),
            Self::Growing(_) => 0,
        }
    }
}

/// A bin with all its records.
#[derive(Debug)]
pub(super) struct Sealing {
    /// The bins in it, and where the chunks of each begin.
    bins: Vec<(u64, u32)>,
    chunks: Vec<(ChunkHash, u32)>,
    raw_bytes: u64,
    record_bytes: Vec<u32>,
    records: Records,
}

/// A sealed xorb, and which bins it was.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) bins: Vec<(u64, u32)>,
    pub(super) info: Arc<XorbInfo>,
    pub(super) records: Records,
}

impl Sealing {
    /// Puts the chunks of another behind these, if both fit into one xorb; else gives it back.
    pub(super) fn append(&mut self, mut other: Self) -> Result<(), Self> {
        let fits = self.raw_bytes + other.raw_bytes <= limits::XORB_BYTES_MAX
            && self.chunks.len() + other.chunks.len() <= limits::XORB_CHUNKS_MAX as usize;
        if !fits {
            return Err(other);
        }
        if let Err(records) = self.records.join(other.records) {
            other.records = records;
            return Err(other);
        }
        let base = u32::try_from(self.chunks.len()).expect("a xorb has few chunks");
        self.bins.extend(other.bins.into_iter().map(|(bin, start)| (bin, base + start)));
        self.chunks.extend(other.chunks);
        self.raw_bytes += other.raw_bytes;
        self.record_bytes.extend(other.record_bytes);
        Ok(())
    }

    /// Memory that the records take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.records.memory_bytes()
    }

    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// The xorb.
    pub(super) fn seal(self) -> Sealed {
        let records = self.chunks.iter().zip(self.record_bytes);
        let info = XorbInfo::from_records(records.map(|(&(hash, raw_bytes), record_bytes)| RecordInfo {
            hash,
            raw_bytes,
            record_bytes,
        }));
        let info = Arc::new(info.expect("a bin keeps the limits of a xorb and is not empty"));
        Sealed { bins: self.bins, info, records: self.records }
    }
}

/// So many bytes of records are kept in memory before a store is asked to take them as they come.
const GROW_BYTES: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use xet::compress::Policy;
    use xet::xorb::{Form, RecordWriter, SealedXorb, XorbBuilder};

    use super::super::compress::records;
    use super::*;
    use crate::error::Result;

    fn noise(n: u64, len: usize) -> Vec<u8> {
        testkit::corpus::noise(n, len)
    }

    fn bin(id: u64) -> SharedBin {
        Bin::new(id, Rooms::new(0))
    }

    fn segment(chunk: &[u8]) -> Segment {
        let mut segment = Segment::default();
        records(&mut RecordWriter::new(Policy::Auto), &Rooms::new(0), [chunk], &mut segment);
        segment
    }

    fn expected(chunks: &[Vec<u8>]) -> SealedXorb {
        let mut builder = XorbBuilder::new(Policy::Auto);
        chunks.iter().for_each(|chunk| builder.push(ChunkHash::of(chunk), chunk).unwrap());
        builder.seal(Form::Footerless).unwrap()
    }

    fn place(bin: &SharedBin, chunk: &[u8]) -> Option<u32> {
        let place = lock(bin).place(ChunkHash::of(chunk), u32::try_from(chunk.len()).unwrap());
        lock(bin).announce();
        place
    }

    #[test]
    fn records_filled_in_any_order_and_bins_joined_are_one_xorb() {
        let chunks: Vec<_> = (0..4).map(|n| noise(n, 10_000)).collect();
        let [one, two] = [bin(7), bin(9)];
        for (n, chunk) in chunks.iter().enumerate() {
            let bin = if n < 3 { &one } else { &two };
            assert_eq!(place(bin, chunk), Some(n as u32 % 3));
        }
        assert!(lock(&one).close().is_none() && lock(&two).close().is_none(), "records are missing");
        let fill = |bin, slot, n: usize| fill(bin, slot, &mut segment(&chunks[n]), || None);
        assert!(fill(&one, 2, 2).is_none());
        assert!(fill(&one, 0, 0).is_none());
        let mut sealing = fill(&one, 1, 1).unwrap();
        sealing.append(fill(&two, 0, 3).unwrap()).unwrap();
        let sealed = sealing.seal();
        assert_eq!(sealed.bins, [(7, 0), (9, 3)]);
        let expected = expected(&chunks);
        assert_eq!(*sealed.info, expected.info);
        let Records::Memory(records) = sealed.records else { panic!("nothing grows") };
        let records: Vec<_> = records.into_iter().map(|held| held.bytes).collect();
        assert_eq!(records.concat(), expected.bytes);
    }

    /// Writes into memory that the test can see.
    #[derive(Debug, Clone, Default)]
    struct Seen {
        bytes: Arc<Mutex<Vec<u8>>>,
        keeps: bool,
    }

    #[async_trait]
    impl Growing for Seen {
        fn write(&mut self, records: &[u8]) {
            lock(&self.bytes).extend_from_slice(records);
        }

        fn take_back(self: Box<Self>) -> std::result::Result<Vec<u8>, Box<dyn Growing>> {
            if self.keeps { Err(self) } else { Ok(lock(&self.bytes).clone()) }
        }

        async fn finish(self: Box<Self>, _info: Arc<XorbInfo>) -> Result<bool> {
            Ok(true)
        }
    }

    #[test]
    fn what_grows_gets_the_same_bytes_in_order_and_takes_what_is_in_memory() {
        let chunks: Vec<_> = (0..60).map(|n| noise(n, 100_000)).collect();
        let (seen, bin, rest) = (Seen::default(), self::bin(1), self::bin(2));
        let grow = || Some(Box::new(seen.clone()) as Box<dyn Growing>);
        chunks[..59].iter().for_each(|chunk| _ = place(&bin, chunk));
        place(&rest, &chunks[59]);
        // Each pair the wrong way round, and the last segment last.
        let mut given_back = 0;
        for slot in (0..58).map(|n| n ^ 1) {
            let mut segment = segment(&chunks[slot]);
            assert!(fill(&bin, slot, &mut segment, grow).is_none());
            given_back += usize::from(segment.bytes.capacity() > 0);
        }
        assert_eq!(lock(&seen.bytes).len() as u64, expected(&chunks[..58]).info.stored_bytes());
        assert!(given_back > 5, "what is written leaves its memory to the worker: {given_back}");
        assert!(lock(&bin).close().is_none());
        let mut sealing = fill(&bin, 58, &mut segment(&chunks[58]), grow).unwrap();
        lock(&rest).close();
        let rest = fill(&rest, 0, &mut segment(&chunks[59]), grow).unwrap();
        assert_eq!(
            (sealing.memory_bytes(), rest.memory_bytes()),
            (0, segment(&chunks[59]).bytes.capacity() as u64)
        );
        sealing.append(rest).unwrap();
        let expected = expected(&chunks);
        assert_eq!(*sealing.seal().info, expected.info);
        assert!(*lock(&seen.bytes) == expected.bytes);
    }

    #[test]
    fn what_grows_is_put_behind_another_if_it_is_given_back() {
        let grown = |id, seen: &Seen| {
            let chunks: Vec<_> = (0..50).map(|n| noise(id * 100 + n, 100_000)).collect();
            let bin = bin(id);
            chunks.iter().for_each(|chunk| _ = place(&bin, chunk));
            lock(&bin).close();
            let fill = |slot| fill(&bin, slot, &mut segment(&chunks[slot]), || Some(Box::new(seen.clone())));
            ((0..50).find_map(fill).unwrap(), chunks)
        };
        let (first, second) = (Seen::default(), Seen::default());
        let ((mut one, mut chunks), (two, more)) = (grown(1, &first), grown(2, &second));
        one.append(two).unwrap();
        chunks.extend(more);
        let expected = expected(&chunks);
        let sealed = one.seal();
        assert_eq!((sealed.bins, &*sealed.info), (vec![(1, 0), (2, 50)], &expected.info));
        assert!(*lock(&first.bytes) == expected.bytes);

        let (first, second) = (Seen::default(), Seen { keeps: true, ..Seen::default() });
        let ((mut one, _), (two, _)) = (grown(1, &first), grown(2, &second));
        let two = one.append(two).unwrap_err();
        assert_eq!((one.seal().bins, two.seal().bins), (vec![(1, 0)], vec![(2, 0)]));
    }
}

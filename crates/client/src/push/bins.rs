//! Xorbs being filled. Places are given out in file order; the records may be compressed in any order, by anyone.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use xet::xorb::{RecordInfo, XorbInfo};
use xet::{ChunkHash, limits};

use crate::cas::Xorb;

/// Chunks that will be a xorb, or a part of one.
#[derive(Debug)]
pub(super) struct Bin {
    id: u64,
    chunks: Vec<(ChunkHash, u32)>,
    raw_bytes: u64,
    /// Records in order; a missing segment is being compressed.
    segments: Vec<Option<Segment>>,
    missing: usize,
    closed: bool,
}

/// Records of some consecutive chunks of a bin.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) bytes: Bytes,
    /// Of each record.
    pub(super) record_bytes: Vec<u32>,
}

/// A bin that one worker fills and others complete.
pub(super) type SharedBin = Arc<Mutex<Bin>>;

pub(super) fn lock(bin: &SharedBin) -> MutexGuard<'_, Bin> {
    bin.lock().expect("nobody panics with the lock")
}

impl Bin {
    pub(super) fn new(id: u64) -> SharedBin {
        Arc::new(Mutex::new(Self {
            id,
            chunks: Vec::new(),
            raw_bytes: 0,
            segments: Vec::new(),
            missing: 0,
            closed: false,
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

    /// Takes the records that were announced. The bin itself, when it is closed and these were the last.
    pub(super) fn fill(&mut self, slot: usize, segment: Segment) -> Option<Sealing> {
        self.segments[slot] = Some(segment);
        self.missing -= 1;
        self.take_if_done()
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
            segments: self.segments.drain(..).map(|segment| segment.expect("none is missing")).collect(),
        })
    }
}

/// A bin with all its records.
#[derive(Debug)]
pub(super) struct Sealing {
    /// The bins in it, and where the chunks of each begin.
    bins: Vec<(u64, u32)>,
    chunks: Vec<(ChunkHash, u32)>,
    raw_bytes: u64,
    segments: Vec<Segment>,
}

/// A sealed xorb, and which bins it was.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) bins: Vec<(u64, u32)>,
    pub(super) xorb: Xorb,
}

impl Sealing {
    /// Puts the chunks of another behind these, if both fit into one xorb; else gives it back.
    pub(super) fn append(&mut self, other: Self) -> Result<(), Self> {
        let fits = self.raw_bytes + other.raw_bytes <= limits::XORB_BYTES_MAX
            && self.chunks.len() + other.chunks.len() <= limits::XORB_CHUNKS_MAX as usize;
        if !fits {
            return Err(other);
        }
        let base = u32::try_from(self.chunks.len()).expect("a xorb has few chunks");
        self.bins.extend(other.bins.into_iter().map(|(bin, start)| (bin, base + start)));
        self.chunks.extend(other.chunks);
        self.raw_bytes += other.raw_bytes;
        self.segments.extend(other.segments);
        Ok(())
    }

    /// Bytes of the records.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes.len() as u64).sum()
    }

    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// The xorb.
    pub(super) fn seal(self) -> Sealed {
        let record_bytes = self.segments.iter().flat_map(|segment| segment.record_bytes.iter().copied());
        let records = self.chunks.iter().zip(record_bytes);
        let info = XorbInfo::from_records(records.map(|(&(hash, raw_bytes), record_bytes)| RecordInfo {
            hash,
            raw_bytes,
            record_bytes,
        }));
        let info = Arc::new(info.expect("a bin keeps the limits of a xorb and is not empty"));
        let records = self.segments.into_iter().map(|segment| segment.bytes).collect();
        Sealed { bins: self.bins, xorb: Xorb { info, records } }
    }
}

#[cfg(test)]
mod tests {
    use xet::compress::Policy;
    use xet::xorb::{Form, XorbBuilder};

    use super::super::record::records;
    use super::*;

    fn noise(n: u64) -> Vec<u8> {
        testkit::corpus::noise(n, 10_000)
    }

    #[test]
    fn records_filled_in_any_order_and_bins_joined_are_one_xorb() {
        let chunks: Vec<_> = (0..4).map(noise).collect();
        let [one, two] = [Bin::new(7), Bin::new(9)];
        for (n, chunk) in chunks.iter().enumerate() {
            let bin = if n < 3 { &one } else { &two };
            assert_eq!(lock(bin).place(ChunkHash::of(chunk), 10_000), Some(n as u32 % 3));
            lock(bin).announce();
        }
        assert!(lock(&one).close().is_none() && lock(&two).close().is_none(), "records are missing");
        let segment = |n: usize| records(&mut xet::xorb::RecordWriter::new(Policy::Auto), [&chunks[n][..]]);
        assert!(lock(&one).fill(2, segment(2)).is_none());
        assert!(lock(&one).fill(0, segment(0)).is_none());
        let mut sealing = lock(&one).fill(1, segment(1)).unwrap();
        sealing.append(lock(&two).fill(0, segment(3)).unwrap()).unwrap();
        let sealed = sealing.seal();
        assert_eq!(sealed.bins, [(7, 0), (9, 3)]);
        let mut builder = XorbBuilder::new(Policy::Auto);
        chunks.iter().for_each(|chunk| builder.push(ChunkHash::of(chunk), chunk).unwrap());
        let expected = builder.seal(Form::Footerless).unwrap();
        assert_eq!(*sealed.xorb.info, expected.info);
        assert_eq!(sealed.xorb.records.concat(), expected.bytes);
    }
}

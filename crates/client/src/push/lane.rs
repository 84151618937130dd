//! One file from start to end: read a block, digest, cut, hash and place it while it is in the cache.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::Digest as _;
use xet::chunk::Chunker;
use xet::{ChunkHash, Sha256, suite};

use super::bins::{Sealing, SharedBin, lock};
use super::draft::{Drafter, Home};
use super::known::Known;
use super::pool::{Compress, Pool, Stopped, Worker};
use crate::error::Error;

/// Why a file was not read to its end.
pub(super) enum LaneError {
    Unread(Error),
    Stopped,
}

impl From<Stopped> for LaneError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// A chunk in a block.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) hash: ChunkHash,
    pub(super) bytes: Range<usize>,
}

impl Chunk {
    fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a chunk is at most 128 KiB")
    }
}

/// Reads the file at `path` and hands it over.
pub(super) fn read(pool: &Pool, worker: &mut Worker, index: usize, path: PathBuf) -> Result<(), LaneError> {
    let unread = |error| LaneError::Unread(Error::io(&path, error));
    let mut file = open(&path).map_err(unread)?;
    let mut lane = Lane {
        bin: pool.take_bin(),
        drafter: Drafter::default(),
        chunker: Chunker::new(),
        chunk_start: 0,
        is_first: true,
    };
    let mut digest = pool.options.sha256.then(sha2::Sha256::new);
    let mut open = 0; // bytes of the open chunk, at the front of the buffer

    let read = loop {
        worker.buffer.resize(BUFFER_BYTES, 0);
        let filled = match fill(&mut worker.buffer[open..open + BLOCK_BYTES], &mut file) {
            Ok(bytes) => open + bytes,
            Err(error) => break Err(unread(error)),
        };
        let at_end = filled < open + BLOCK_BYTES;
        let block = &worker.buffer[open..filled];
        if let Some(digest) = &mut digest {
            digest.update(block);
        }
        pool.progress.done_bytes.add(block.len() as u64);
        let chunks = lane.cut(&worker.buffer[..filled], open, at_end, &mut worker.cuts);
        let done = chunks.last().map_or(0, |chunk| chunk.bytes.end);
        lane.ask(pool, &chunks);
        let (jobs, full) = lane.place(pool, &chunks);
        if let Err(stopped) = full.into_iter().try_for_each(|sealing| pool.ship(sealing)) {
            break Err(stopped.into());
        }
        if let Err(stopped) = pool.compress_or_offer(worker, jobs, done..filled) {
            break Err(stopped.into());
        }
        open = filled - done;
        if at_end {
            break Ok(());
        }
    };
    pool.return_bin(lane.bin);
    read?;
    let sha256 = digest.map(|digest| Sha256::new(digest.finalize().into()));
    Ok(pool.hand_over(lane.drafter.finish(index, path, sha256))?)
}

struct Lane {
    bin: SharedBin,
    drafter: Drafter,
    chunker: Chunker,
    /// In the file, as the chunker counts.
    chunk_start: u64,
    is_first: bool,
}

impl Lane {
    /// The chunks that end in this block, of which `open` bytes are old.
    fn cut(&mut self, buffer: &[u8], open: usize, at_end: bool, cuts: &mut Vec<u64>) -> Vec<Chunk> {
        cuts.clear();
        self.chunker.push(&buffer[open..], cuts);
        let last = if at_end { std::mem::take(&mut self.chunker).finish() } else { None };
        let mut done = 0;
        let chunk = |cut: u64| {
            let len = usize::try_from(cut - self.chunk_start).expect("a chunk is at most 128 KiB");
            let bytes = done..done + len;
            (done, self.chunk_start) = (bytes.end, cut);
            Chunk { hash: ChunkHash::of(&buffer[bytes.clone()]), bytes }
        };
        cuts.iter().copied().chain(last).map(chunk).collect()
    }

    /// Asks the other side for the chunks it may be asked for.
    fn ask(&mut self, pool: &Pool, chunks: &[Chunk]) {
        let starts_file = std::mem::replace(&mut self.is_first, false);
        let read_bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.len())).sum();
        let eligible = |(n, chunk): (usize, &Chunk)| {
            (starts_file && n == 0 || chunk.hash.is_dedup_eligible()).then_some(chunk.hash)
        };
        let mut asked: Vec<_> = chunks.iter().enumerate().filter_map(eligible).collect();
        asked.extend(self.behind_ends(&pool.known(), chunks));
        pool.ask(asked, read_bytes);
    }

    /// Unknown chunks behind the end of a stored xorb. A file is in its xorbs in order, so they may begin the next one, and
    /// servers may know a xorb by its first chunk.
    fn behind_ends(&self, known: &Known, chunks: &[Chunk]) -> Vec<ChunkHash> {
        if !known.has_stored() {
            return Vec::new();
        }
        let hashes: Vec<_> = chunks.iter().map(|chunk| chunk.hash).collect();
        let (mut next, mut n, mut found) = (self.drafter.next_place(), 0, Vec::new());
        while n < hashes.len() {
            match known.find(&hashes[n..], next) {
                Some(run) => {
                    let last = u32::try_from(run.chunks).expect("a block has few chunks");
                    (next, n) = (Some((run.home, run.first + last)), n + run.chunks);
                }
                None => {
                    found.extend(next.take().filter(|next| known.is_end(*next)).map(|_| hashes[n]));
                    n += 1;
                }
            }
        }
        found
    }

    /// Gives every chunk its place: where it is already, or in the bin. Returns what is to be compressed, and bins that
    /// were complete when they became full.
    fn place(&mut self, pool: &Pool, chunks: &[Chunk]) -> (Vec<Compress>, Vec<Sealing>) {
        let hashes: Vec<_> = chunks.iter().map(|chunk| chunk.hash).collect();
        let (mut jobs, mut full): (Vec<Compress>, Vec<Sealing>) = (Vec::new(), Vec::new());
        let mut fresh: Vec<Range<usize>> = Vec::new();
        let (mut known_bytes, mut new_bytes) = (0, 0);
        // Nobody else may look while a chunk is between unknown and placed, or it would be stored twice.
        let mut known = pool.known();
        let mut n = 0;
        while n < chunks.len() {
            let run = self.allowed_run(&known, &hashes[n..]);
            if let Some((home, first, count)) = run {
                for (place, chunk) in (first..).zip(&chunks[n..n + count]) {
                    self.drafter.push(home, place, chunk.hash, chunk.len());
                    known_bytes += u64::from(chunk.len());
                }
                n += count;
                continue;
            }
            let chunk = &chunks[n];
            let place = lock(&self.bin).place(chunk.hash, chunk.len());
            let Some(place) = place else {
                jobs.extend(announce(&self.bin, &mut fresh));
                full.extend(lock(&self.bin).close());
                self.bin = pool.new_bin();
                continue;
            };
            let bin = lock(&self.bin).id();
            known.placed(chunk.hash, bin, place);
            self.drafter.push(Home::Bin(bin), place, chunk.hash, chunk.len());
            fresh.push(chunk.bytes.clone());
            new_bytes += u64::from(chunk.len());
            n += 1;
        }
        drop(known);
        jobs.extend(announce(&self.bin, &mut fresh));
        pool.progress.known_bytes.add(known_bytes);
        pool.progress.new_bytes.add(new_bytes);
        (jobs, full)
    }

    /// A run of known chunks that is worth a term.
    fn allowed_run(&mut self, known: &Known, hashes: &[ChunkHash]) -> Option<(Home, u32, usize)> {
        let run = known.find(hashes, self.drafter.next_place())?;
        let goes_on = self.drafter.continues(run.home, run.first);
        (goes_on || self.drafter.guard.allows(run.chunks)).then_some((run.home, run.first, run.chunks))
    }
}

fn announce(bin: &SharedBin, fresh: &mut Vec<Range<usize>>) -> Option<Compress> {
    let chunks = std::mem::take(fresh);
    (!chunks.is_empty()).then(|| Compress { bin: bin.clone(), slot: lock(bin).announce(), chunks })
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(path)?))
}

/// Reads until `buffer` is full or there is no more.
fn fill(buffer: &mut [u8], file: &mut dyn Read) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Small enough that a block stays in a core's second-level cache from reading to compressing.
const BLOCK_BYTES: usize = 512 * 1024;
/// An open chunk is shorter than the longest, or it would be closed.
pub(super) const BUFFER_BYTES: usize = BLOCK_BYTES + suite::CHUNK_BYTES_MAX;

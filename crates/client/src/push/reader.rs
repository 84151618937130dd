//! What one worker reads: a file from start to end, or many short ones at once. Each block is digested, cut, hashed and
//! placed while it is in the cache.

use std::ops::Range;
use std::path::PathBuf;

use sha2::Digest;
use xet::pack::{ChunkLocation, XorbRef};
use xet::sha256;
use xet::{ChunkHash, Sha256, constants};

use super::dedup_index::Known;
use super::file_draft::{Draft, Drafter};
use super::open_xorb::{Sealing, SharedBin, lock};
use super::workers::{Compress, Pool, Stopped, Worker};
use crate::cut::cutter::{BlockChunk, Cutter, cut_whole};
use crate::cut::reader::{BLOCK_BYTES, Source, fill};
use crate::error::Error;

/// Reads the file at `path` and hands it over; with it the files after it, while they are short.
pub(super) fn read(pool: &Pool, worker: &mut Worker, index: usize, path: PathBuf) -> Result<(), Stopped> {
    let (short, long) = gather(pool, worker, index, path);
    let mut lane = Lane { bin: pool.take_bin() };
    let done = lane.read_short(pool, worker, short).and_then(|()| match long {
        Some(long) => lane.read_long(pool, worker, long),
        None => Ok(()),
    });
    pool.return_bin(lane.bin);
    done
}

/// A file that is in the buffer as a whole.
struct Short {
    index: usize,
    path: PathBuf,
    bytes: Range<usize>,
}

/// A file whose first block is in the buffer.
struct Long {
    index: usize,
    path: PathBuf,
    file: Source,
    block: Range<usize>,
}

/// Fills the buffer with short files, this one and those after it, until it is full or one is not short.
fn gather(pool: &Pool, worker: &mut Worker, index: usize, path: PathBuf) -> (Vec<Short>, Option<Long>) {
    worker.buffer.resize(BUFFER_BYTES, 0);
    let (mut short, mut filled) = (Vec::new(), 0);
    let mut next = Some((index, path));
    while let Some((index, path)) = next {
        let room = &mut worker.buffer[filled..filled + SHORT_BYTES];
        match Source::open(&path).and_then(|mut file| Ok((fill(room, &mut file)?, file))) {
            Ok((SHORT_BYTES, file)) => {
                let block = filled..filled + SHORT_BYTES;
                return (short, Some(Long { index, path, file, block }));
            }
            Ok((len, _)) => {
                short.push(Short { index, path, bytes: filled..filled + len });
                filled += len;
            }
            Err(error) => pool.unread(index, Error::io(&path, error)),
        }
        next = if filled + SHORT_BYTES <= BUFFER_BYTES { pool.next_path() } else { None };
    }
    (short, None)
}

/// Fills bins with the chunks of one file after another.
struct Lane {
    bin: SharedBin,
}

impl Lane {
    fn read_short(&mut self, pool: &Pool, worker: &mut Worker, files: Vec<Short>) -> Result<(), Stopped> {
        if files.is_empty() {
            return Ok(());
        }
        let buffer = &worker.buffer;
        let contents: Vec<_> = files.iter().map(|file| &buffer[file.bytes.clone()]).collect();
        let digests = pool.options.sha256.then(|| sha256::digest_all(&contents));
        let chunks: Vec<_> = files.iter().map(|file| cut_whole(buffer, file.bytes.clone())).collect();
        let read_bytes = contents.iter().map(|content| content.len() as u64).sum();
        pool.progress.done_bytes.add(read_bytes);

        let known = pool.known();
        let asked = chunks.iter().flat_map(|chunks| worth_asking(&known, None, chunks, true)).collect();
        drop(known);
        pool.ask(asked, read_bytes);

        let mut placing = Placing::default();
        // Nobody else may look while a chunk is between unknown and placed, or it would be stored twice.
        let mut known = pool.known();
        let drafts = files.into_iter().zip(&chunks).enumerate().map(|(n, (file, chunks))| {
            let mut drafter = Drafter::default();
            self.place(pool, &mut known, &mut drafter, chunks, &mut placing);
            drafter.finish(file.index, file.path, digests.as_ref().map(|digests| digests[n]))
        });
        let drafts: Vec<Draft> = drafts.collect();
        drop(known);
        let jobs = self.placed(pool, placing)?;
        pool.compress(worker, jobs)?;
        pool.hand_over(drafts)
    }

    fn read_long(&mut self, pool: &Pool, worker: &mut Worker, long: Long) -> Result<(), Stopped> {
        let Long { index, path, mut file, block } = long;
        let (mut drafter, mut cutter) = (Drafter::default(), Cutter::default());
        let mut digest = pool.options.sha256.then(sha2::Sha256::new);
        worker.buffer.copy_within(block, 0);
        // The open chunk is at the front of the buffer.
        let (mut open, mut filled, mut at_end) = (0, SHORT_BYTES, false);
        loop {
            pool.progress.done_bytes.add((filled - open) as u64);
            let starts_file = cutter.is_at_start();
            if let Some(digest) = &mut digest {
                digest.update(&worker.buffer[open..filled]);
            }
            let chunks: Vec<_> = cutter.cut(&worker.buffer[..filled], open, at_end).collect();
            let asked = worth_asking(&pool.known(), drafter.next_location(), &chunks, starts_file);
            pool.ask(asked, chunks.iter().map(|chunk| u64::from(chunk.len())).sum());
            let mut placing = Placing::default();
            self.place(pool, &mut pool.known(), &mut drafter, &chunks, &mut placing);
            let jobs = self.placed(pool, placing)?;
            let done = chunks.last().map_or(0, |chunk| chunk.bytes.end);
            pool.compress_or_offer(worker, jobs, done..filled)?;
            open = filled - done;
            if at_end {
                break;
            }
            match fill(&mut worker.buffer[open..open + BLOCK_BYTES], &mut file) {
                Ok(bytes) => (filled, at_end) = (open + bytes, bytes < BLOCK_BYTES),
                Err(error) => {
                    pool.unread(index, Error::io(&path, error));
                    return Ok(());
                }
            }
        }
        let sha256 = digest.map(|digest| Sha256::new(digest.finalize().into()));
        pool.hand_over(vec![drafter.finish(index, path, sha256)])
    }

    /// Gives every chunk its place: where it is already, or in the bin.
    fn place(
        &mut self,
        pool: &Pool,
        known: &mut Known,
        drafter: &mut Drafter,
        chunks: &[BlockChunk],
        placing: &mut Placing,
    ) {
        let hashes: Vec<_> = chunks.iter().map(|chunk| chunk.hash).collect();
        let mut n = 0;
        while n < chunks.len() {
            if let Some(((xorb, first), count)) = allowed_run(known, drafter, &hashes[n..]) {
                for (place, chunk) in (first..).zip(&chunks[n..n + count]) {
                    drafter.push((xorb, place), chunk.hash, chunk.len());
                    placing.known_bytes += u64::from(chunk.len());
                }
                n += count;
                continue;
            }
            let chunk = &chunks[n];
            let mut bin = lock(&self.bin);
            let Some(place) = bin.place(chunk.hash, chunk.len()) else {
                drop(bin);
                placing.announce(&self.bin);
                placing.full.extend(lock(&self.bin).close());
                self.bin = pool.new_bin();
                continue;
            };
            known.placed(chunk.hash, bin.id(), place);
            drafter.push((XorbRef::New(bin.id()), place), chunk.hash, chunk.len());
            placing.fresh.push(chunk.bytes.clone());
            placing.new_bytes += u64::from(chunk.len());
            n += 1;
        }
    }

    /// Counts what was placed and ships what was full and complete. Returns what is to be compressed.
    fn placed(&self, pool: &Pool, mut placing: Placing) -> Result<Vec<Compress>, Stopped> {
        placing.announce(&self.bin);
        pool.progress.known_bytes.add(placing.known_bytes);
        pool.progress.new_bytes.add(placing.new_bytes);
        placing.full.into_iter().try_for_each(|sealing| pool.ship(sealing))?;
        Ok(placing.jobs)
    }
}

/// What giving places comes to.
#[derive(Default)]
struct Placing {
    /// To be compressed.
    jobs: Vec<Compress>,
    /// Chunks placed in the open bin that no job has yet.
    fresh: Vec<Range<usize>>,
    /// Bins that were complete when they became full.
    full: Vec<Sealing>,
    known_bytes: u64,
    new_bytes: u64,
}

impl Placing {
    fn announce(&mut self, bin: &SharedBin) {
        let chunks = std::mem::take(&mut self.fresh);
        if !chunks.is_empty() {
            self.jobs.push(Compress { bin: bin.clone(), slot: lock(bin).announce(), chunks });
        }
    }
}

/// The chunks the other side may be asked for.
fn worth_asking(
    known: &Known,
    next: Option<ChunkLocation>,
    chunks: &[BlockChunk],
    starts_file: bool,
) -> Vec<ChunkHash> {
    let eligible = |(n, chunk): (usize, &BlockChunk)| {
        (starts_file && n == 0 || chunk.hash.is_dedup_eligible()).then_some(chunk.hash)
    };
    let mut asked: Vec<_> = chunks.iter().enumerate().filter_map(eligible).collect();
    asked.extend(behind_ends(known, next, chunks));
    asked
}

/// Unknown chunks behind the end of a stored xorb. A file is in its xorbs in order, so they may begin the next one, and
/// servers may know a xorb by its first chunk.
fn behind_ends(known: &Known, mut next: Option<ChunkLocation>, chunks: &[BlockChunk]) -> Vec<ChunkHash> {
    if !known.has_stored() {
        return Vec::new();
    }
    let hashes: Vec<_> = chunks.iter().map(|chunk| chunk.hash).collect();
    let (mut n, mut found) = (0, Vec::new());
    while n < hashes.len() {
        match known.find(&hashes[n..], next) {
            Some(run) => {
                let last = u32::try_from(run.chunks).expect("a block has few chunks");
                let (xorb, first) = run.first;
                (next, n) = (Some((xorb, first + last)), n + run.chunks);
            }
            None => {
                found.extend(next.take().filter(|next| known.is_end(*next)).map(|_| hashes[n]));
                n += 1;
            }
        }
    }
    found
}

/// A run of known chunks that is worth a term.
fn allowed_run(known: &Known, drafter: &mut Drafter, hashes: &[ChunkHash]) -> Option<(ChunkLocation, usize)> {
    let run = known.find(hashes, drafter.next_location())?;
    drafter.allows(run.first, run.chunks).then_some((run.first, run.chunks))
}

/// Files of fewer bytes are taken together: their digests, compressed records and messages cost less by the dozen.
const SHORT_BYTES: usize = 1024 * 1024;
/// Room for short files, and for a block behind an open chunk. That is shorter than the longest, or it would be closed.
pub(super) const BUFFER_BYTES: usize = 3 * 1024 * 1024;
const _: () =
    assert!(BUFFER_BYTES >= SHORT_BYTES && BUFFER_BYTES >= BLOCK_BYTES + constants::CHUNK_BYTES_MAX);

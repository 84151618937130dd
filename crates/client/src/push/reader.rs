//! Reader: a worker reads one long file from start to end, or many short ones at once. Each block is digested, cut, hashed
//! and stored in an open xorb, or found in the dedup index, while it is in the processor cache.

use std::ops::Range;
use std::path::PathBuf;

use sha2::Digest;
use xet::pack::{ChunkLocation, XorbRef};
use xet::sha256;
use xet::{ChunkHash, Sha256, constants};

use super::dedup_index::DedupIndex;
use super::file_draft::{DraftedFile, FileDraft};
use super::lock::lock;
use super::open_xorb::{CompleteXorb, SharedXorb};
use super::packer::{BUFFER_BYTES, CompressTask, Packer, ReceiverDropped, Worker};
use crate::cut::cutter::{BlockChunk, Cutter, cut_whole};
use crate::cut::reader::{BLOCK_BYTES, Source, fill};
use crate::error::Error;

/// Reads the file at `path` and hands it over; with it the files after it, while they are short.
pub(super) fn read(
    packer: &Packer,
    worker: &mut Worker,
    index: usize,
    path: PathBuf,
) -> Result<(), ReceiverDropped> {
    let (short, long) = read_short_files(packer, worker, index, path);
    let mut reader = FileReader { open: packer.take_open_xorb() };
    let done = reader.read_short(packer, worker, short).and_then(|()| match long {
        Some(long) => reader.read_long(packer, worker, long),
        None => Ok(()),
    });
    packer.return_open_xorb(reader.open);
    done
}

/// A file that is in the buffer as a whole.
struct ShortFile {
    index: usize,
    path: PathBuf,
    bytes: Range<usize>,
}

/// A file whose first block is in the buffer.
struct LongFile {
    index: usize,
    path: PathBuf,
    file: Source,
    block: Range<usize>,
}

/// Fills the buffer with short files, this one and those after it, until it is full or one is not short.
fn read_short_files(
    packer: &Packer,
    worker: &mut Worker,
    index: usize,
    path: PathBuf,
) -> (Vec<ShortFile>, Option<LongFile>) {
    worker.buffer.resize(BUFFER_BYTES, 0);
    let (mut short, mut filled) = (Vec::new(), 0);
    let mut next = Some((index, path));
    while let Some((index, path)) = next {
        let room = &mut worker.buffer[filled..filled + SHORT_BYTES];
        match Source::open(&path).and_then(|mut file| Ok((fill(room, &mut file)?, file))) {
            Ok((SHORT_BYTES, file)) => {
                let block = filled..filled + SHORT_BYTES;
                return (short, Some(LongFile { index, path, file, block }));
            }
            Ok((len, _)) => {
                short.push(ShortFile { index, path, bytes: filled..filled + len });
                filled += len;
            }
            Err(error) => packer.report_unread(index, Error::io(&path, error)),
        }
        next = if filled + SHORT_BYTES <= BUFFER_BYTES { packer.next_path() } else { None };
    }
    (short, None)
}

/// Fills open xorbs with the chunks of one file after another.
struct FileReader {
    open: SharedXorb,
}

impl FileReader {
    fn read_short(
        &mut self,
        packer: &Packer,
        worker: &mut Worker,
        files: Vec<ShortFile>,
    ) -> Result<(), ReceiverDropped> {
        if files.is_empty() {
            return Ok(());
        }
        let buffer = &worker.buffer;
        let contents: Vec<_> = files.iter().map(|file| &buffer[file.bytes.clone()]).collect();
        let digests = packer.options.sha256.then(|| sha256::digest_all(&contents));
        let chunks: Vec<_> = files.iter().map(|file| cut_whole(buffer, file.bytes.clone())).collect();
        let read_bytes = contents.iter().map(|content| content.len() as u64).sum();
        packer.progress.done_bytes.add(read_bytes);

        let known = packer.index();
        let queries = chunks.iter().flat_map(|chunks| worth_querying(&known, None, chunks, true)).collect();
        drop(known);
        packer.query_dedup(queries, read_bytes);

        let mut placement = Placement::default();
        // Holds the lock while a chunk is between unknown and placed, or another worker would store it twice.
        let mut known = packer.index();
        let drafts = files.into_iter().zip(&chunks).enumerate().map(|(n, (file, chunks))| {
            let mut draft = FileDraft::default();
            self.place_chunks(packer, &mut known, &mut draft, chunks, &mut placement);
            draft.finish(file.index, file.path, digests.as_ref().map(|digests| digests[n]))
        });
        let drafts: Vec<DraftedFile> = drafts.collect();
        drop(known);
        let jobs = self.ship_full(packer, placement)?;
        packer.compress(worker, jobs)?;
        packer.send_files(drafts)
    }

    fn read_long(
        &mut self,
        packer: &Packer,
        worker: &mut Worker,
        long: LongFile,
    ) -> Result<(), ReceiverDropped> {
        let LongFile { index, path, mut file, block } = long;
        let (mut draft, mut cutter) = (FileDraft::default(), Cutter::default());
        let mut digest = packer.options.sha256.then(sha2::Sha256::new);
        worker.buffer.copy_within(block, 0);
        // The open chunk is at the front of the buffer.
        let (mut open, mut filled, mut at_end) = (0, SHORT_BYTES, false);
        loop {
            packer.progress.done_bytes.add((filled - open) as u64);
            let starts_file = cutter.is_at_start();
            if let Some(digest) = &mut digest {
                digest.update(&worker.buffer[open..filled]);
            }
            let chunks: Vec<_> = cutter.cut(&worker.buffer[..filled], open, at_end).collect();
            let queries = worth_querying(&packer.index(), draft.next_location(), &chunks, starts_file);
            packer.query_dedup(queries, chunks.iter().map(|chunk| u64::from(chunk.len())).sum());
            let mut placement = Placement::default();
            self.place_chunks(packer, &mut packer.index(), &mut draft, &chunks, &mut placement);
            let jobs = self.ship_full(packer, placement)?;
            let done = chunks.last().map_or(0, |chunk| chunk.bytes.end);
            packer.compress_or_offer(worker, jobs, done..filled)?;
            open = filled - done;
            if at_end {
                break;
            }
            match fill(&mut worker.buffer[open..open + BLOCK_BYTES], &mut file) {
                Ok(bytes) => (filled, at_end) = (open + bytes, bytes < BLOCK_BYTES),
                Err(error) => {
                    packer.report_unread(index, Error::io(&path, error));
                    return Ok(());
                }
            }
        }
        let sha256 = digest.map(|digest| Sha256::new(digest.finalize().into()));
        packer.send_files(vec![draft.finish(index, path, sha256)])
    }

    /// Gives every chunk its place: where it is already, or in the open xorb.
    fn place_chunks(
        &mut self,
        packer: &Packer,
        known: &mut DedupIndex,
        draft: &mut FileDraft,
        chunks: &[BlockChunk],
        placement: &mut Placement,
    ) {
        let hashes: Vec<_> = chunks.iter().map(|chunk| chunk.hash).collect();
        let mut n = 0;
        while n < chunks.len() {
            if let Some(((xorb, first), count)) = allowed_run(known, draft, &hashes[n..]) {
                for (place, chunk) in (first..).zip(&chunks[n..n + count]) {
                    draft.push((xorb, place), chunk.hash, chunk.len());
                    placement.known_bytes += u64::from(chunk.len());
                }
                n += count;
                continue;
            }
            let chunk = &chunks[n];
            let mut open = lock(&self.open);
            let Some(place) = open.push(chunk.hash, chunk.len()) else {
                drop(open);
                placement.reserve(&self.open);
                placement.full.extend(lock(&self.open).close());
                self.open = packer.new_open_xorb();
                continue;
            };
            known.insert(chunk.hash, open.id(), place);
            draft.push((XorbRef::New(open.id()), place), chunk.hash, chunk.len());
            placement.fresh.push(chunk.bytes.clone());
            placement.new_bytes += u64::from(chunk.len());
            n += 1;
        }
    }

    /// Counts the chunks of a block and ships full xorbs. Returns what is to be compressed.
    fn ship_full(
        &self,
        packer: &Packer,
        mut placement: Placement,
    ) -> Result<Vec<CompressTask>, ReceiverDropped> {
        placement.reserve(&self.open);
        packer.progress.known_bytes.add(placement.known_bytes);
        packer.progress.new_bytes.add(placement.new_bytes);
        placement.full.into_iter().try_for_each(|sealing| packer.ship(sealing))?;
        Ok(placement.jobs)
    }
}

/// Result of placing the chunks of a block.
#[derive(Default)]
struct Placement {
    /// To be compressed.
    jobs: Vec<CompressTask>,
    /// Chunks added to the open xorb that no job has yet.
    fresh: Vec<Range<usize>>,
    /// Xorbs that were complete when they became full.
    full: Vec<CompleteXorb>,
    known_bytes: u64,
    new_bytes: u64,
}

impl Placement {
    fn reserve(&mut self, open: &SharedXorb) {
        let chunks = std::mem::take(&mut self.fresh);
        if !chunks.is_empty() {
            self.jobs.push(CompressTask { open: open.clone(), slot: lock(open).reserve_segment(), chunks });
        }
    }
}

/// The chunks that are worth a dedup query.
fn worth_querying(
    known: &DedupIndex,
    next: Option<ChunkLocation>,
    chunks: &[BlockChunk],
    starts_file: bool,
) -> Vec<ChunkHash> {
    let eligible = |(n, chunk): (usize, &BlockChunk)| {
        (starts_file && n == 0 || chunk.hash.is_dedup_eligible()).then_some(chunk.hash)
    };
    let mut queries: Vec<_> = chunks.iter().enumerate().filter_map(eligible).collect();
    queries.extend(behind_ends(known, next, chunks));
    queries
}

/// Unknown chunks behind the end of a stored xorb. A file is in its xorbs in order, so they may begin the next one, and
/// servers may know a xorb by its first chunk.
fn behind_ends(known: &DedupIndex, mut next: Option<ChunkLocation>, chunks: &[BlockChunk]) -> Vec<ChunkHash> {
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
fn allowed_run(
    known: &DedupIndex,
    draft: &mut FileDraft,
    hashes: &[ChunkHash],
) -> Option<(ChunkLocation, usize)> {
    let run = known.find(hashes, draft.next_location())?;
    draft.allows(run.first, run.chunks).then_some((run.first, run.chunks))
}

/// Files of fewer bytes are taken together: their digests, compressed stored chunks and messages cost less by the dozen.
const SHORT_BYTES: usize = 1024 * 1024;
const _: () =
    assert!(BUFFER_BYTES >= SHORT_BYTES && BUFFER_BYTES >= BLOCK_BYTES + constants::CHUNK_BYTES_MAX);

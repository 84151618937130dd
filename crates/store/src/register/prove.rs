//! Proves files: walks the terms of a shard in order, beside the footers of the stored xorbs.
//!
//! At most a window of footers is held at a time, whatever the shard refers to, and the work is bounded by the chunks
//! that may be looked at: a small term may name a whole xorb, and be repeated.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::try_join_all;
use xet::merkle::MerkleBuilder;
use xet::shard::record::RECORD_LEN;
use xet::shard::{FileEntry, Shard, Term};
use xet::xorb::XorbInfo;
use xet::{ChunkHash, FileHash, FormatError, Hash, RangeHash, XorbHash};

use super::{Progress, refuse};
use crate::Store;
use crate::catalog::rows::{DedupRow, FileRow, XorbRow};
use crate::error::Result;
use crate::layout::LayoutBuilder;

/// What the shard's files turned out to be.
#[derive(Debug, Default)]
pub(super) struct Proven {
    pub(super) files: Vec<FileRow>,
    pub(super) dedup: Vec<DedupRow>,
}

type Infos = HashMap<XorbHash, Arc<XorbInfo>>;

impl Store {
    /// Proves every file of a shard whose xorbs are all in `rows`.
    pub(super) async fn prove(
        &self,
        shard: &Arc<Shard>,
        rows: &Arc<HashMap<XorbHash, XorbRow>>,
        progress: &Progress,
    ) -> Result<Proven> {
        let now_s = self.clock.now_s();
        let total = shard.files.iter().map(|file| file.terms.len() as u64).sum();
        progress.total.store(total, Ordering::Relaxed);

        let mut prover = Prover::new(shard.clone(), rows.clone(), now_s, self.shard_chunks_max);
        while let Some(xorbs) = prover.window() {
            let load = xorbs.iter().filter_map(|hash| rows.get(hash)).map(|row| {
                let laid = row.laid();
                async move { Ok::<_, crate::Error>((laid.key.hash, self.footers.of(&laid).await?)) }
            });
            let infos: Infos = try_join_all(load).await?.into_iter().collect();
            let step = move || prover.step(&infos).map(|()| prover);
            prover = self.workers.run(step).await?.map_err(refuse)?;
            progress.verified.store(prover.verified, Ordering::Relaxed);
        }
        self.workers.run(move || prover.finish()).await?.map_err(refuse)
    }
}

/// Where the walk is, and what it has found.
struct Prover {
    shard: Arc<Shard>,
    rows: Arc<HashMap<XorbHash, XorbRow>>,
    now_s: u64,
    /// The file at hand, where its block begins, and its next term.
    file: usize,
    at: u64,
    term: usize,
    merkle: MerkleBuilder,
    layout: LayoutBuilder,
    chunks_left: u64,
    verified: u64,
    seen_files: HashSet<FileHash>,
    seen_chunks: HashSet<ChunkHash>,
    proven: Proven,
}

/// Footers held at once: of so many xorbs.
const WINDOW_XORBS: usize = 32;
/// Terms looked at for those xorbs. Terms of small files name few.
const WINDOW_TERMS: usize = 4096;
/// A step ends behind so many chunks: as many as so many full xorbs have, since a thread cannot do anything else meanwhile.
const STEP_CHUNKS: u64 = WINDOW_XORBS as u64 * xet::limits::XORB_CHUNKS_MAX as u64;

impl Prover {
    fn new(shard: Arc<Shard>, rows: Arc<HashMap<XorbHash, XorbRow>>, now_s: u64, chunks_left: u64) -> Self {
        Self {
            shard,
            rows,
            now_s,
            file: 0,
            at: RECORD_LEN as u64,
            term: 0,
            merkle: MerkleBuilder::default(),
            layout: LayoutBuilder::default(),
            chunks_left,
            verified: 0,
            seen_files: HashSet::new(),
            seen_chunks: HashSet::new(),
            proven: Proven::default(),
        }
    }

    /// The xorbs of the next terms; `None` when there are no more terms.
    fn window(&self) -> Option<HashSet<XorbHash>> {
        let (file, later) = self.shard.files.get(self.file..)?.split_first()?;
        let rest = file.terms.get(self.term..).unwrap_or_default();
        let terms = rest.iter().chain(later.iter().flat_map(|file| &file.terms));
        let mut xorbs = HashSet::new();
        for term in terms.take(WINDOW_TERMS) {
            if xorbs.len() == WINDOW_XORBS && !xorbs.contains(&term.xorb) {
                break;
            }
            xorbs.insert(term.xorb);
        }
        (!xorbs.is_empty()).then_some(xorbs)
    }

    /// Proves terms of the window, at least one.
    fn step(&mut self, infos: &Infos) -> std::result::Result<(), FormatError> {
        let shard = self.shard.clone();
        let chunks_left = self.chunks_left;
        for n in 0..WINDOW_TERMS {
            while let Some(file) = shard.files.get(self.file).filter(|file| file.terms.len() == self.term) {
                self.close(file)?;
            }
            let Some(file) = shard.files.get(self.file) else { return Ok(()) };
            let Some(term) = file.terms.get(self.term) else { return Ok(()) };
            if n > 0 && (!infos.contains_key(&term.xorb) || chunks_left - self.chunks_left >= STEP_CHUNKS) {
                return Ok(());
            }
            self.take(file, term, infos)?;
            self.term += 1;
            self.verified += 1;
        }
        Ok(())
    }

    /// Closes what has no terms left.
    fn finish(mut self) -> std::result::Result<Proven, FormatError> {
        let shard = self.shard.clone();
        while let Some(file) = shard.files.get(self.file) {
            self.close(file)?;
        }
        Ok(self.proven)
    }

    fn take(&mut self, file: &FileEntry, term: &Term, infos: &Infos) -> std::result::Result<(), FormatError> {
        let record = RECORD_LEN as u64;
        let at = self.at + record * (1 + self.term as u64);
        let missing = || FormatError::Missing { at, what: "xorb", hash: term.xorb.0 };
        let info = infos.get(&term.xorb).ok_or_else(missing)?;
        let row = self.rows.get(&term.xorb).ok_or_else(missing)?;

        let places = usize::try_from(term.chunks.start).ok().zip(usize::try_from(term.chunks.end).ok());
        let places = places.and_then(|(start, end)| info.chunks().get(start..end));
        let ranges = info.raw_range(term.chunks.clone()).zip(info.stored_range(term.chunks.clone()));
        let Some((places, (raw, stored))) = places.zip(ranges) else {
            let (min, max) = (u64::from(term.chunks.start) + 1, u64::from(info.chunk_count()));
            let (what, found) = ("end of a term's chunks", u64::from(term.chunks.end));
            return Err(FormatError::Range { at: at + 44, what, min, max, found });
        };
        let count = places.len() as u64;
        let Some(chunks_left) = self.chunks_left.checked_sub(count) else {
            let (what, max) = ("chunks of all files of a shard", self.chunks_left);
            return Err(FormatError::Range { at, what, min: 0, max, found: count });
        };
        self.chunks_left = chunks_left;
        let (expected, found) = (raw.end - raw.start, u64::from(term.raw_bytes));
        if expected != found {
            return Err(FormatError::Number { at: at + 36, what: "raw bytes of a term", expected, found });
        }

        // Whoever knows the file's hash, and where its parts lie, does not yet know its chunks: this proves it.
        let hash_at = at + record * file.terms.len() as u64;
        let said = file.verification.as_ref().and_then(|hashes| hashes.get(self.term));
        let said = said.ok_or(FormatError::Missing {
            at: hash_at,
            what: "range hash of a term of file",
            hash: file.hash.0,
        })?;
        let is = RangeHash::of(places.iter().map(|place| &place.hash));
        expect_hash(hash_at, "range hash", said.0, is.0)?;

        let mut raw_start = u64::from(
            term.chunks
                .start
                .checked_sub(1)
                .map_or(0, |before| info.chunks().get(before as usize).map_or(0, |place| place.raw_end)),
        );
        for ((n, place), chunk_index) in places.iter().enumerate().zip(term.chunks.start..) {
            self.merkle.push(place.hash, u64::from(place.raw_end) - raw_start);
            raw_start = u64::from(place.raw_end);
            let begins_file = self.term == 0 && n == 0;
            if (begins_file || place.hash.is_dedup_eligible()) && self.seen_chunks.insert(place.hash) {
                self.proven.dedup.push(DedupRow { chunk: place.hash, xorb: term.xorb, chunk_index });
            }
        }
        let narrow = |end: u64| u32::try_from(end).expect("a xorb is far less than 4 GiB");
        let stored = narrow(stored.start)..narrow(stored.end);
        self.layout.push(row.laid(), term.chunks.clone(), term.raw_bytes, stored);
        Ok(())
    }

    /// The file at hand has no more terms: its hash must be that of its chunks.
    fn close(&mut self, file: &FileEntry) -> std::result::Result<(), FormatError> {
        let found = std::mem::take(&mut self.merkle).finish_file();
        expect_hash(self.at, "file hash", file.hash.0, found.0)?;
        let layout = std::mem::take(&mut self.layout).finish();
        if self.seen_files.insert(file.hash) {
            self.proven.files.push(FileRow { hash: file.hash, layout, created_s: self.now_s });
        }
        self.at += file.records() * RECORD_LEN as u64;
        self.file += 1;
        self.term = 0;
        Ok(())
    }
}

fn expect_hash(
    at: u64,
    what: &'static str,
    expected: Hash,
    found: Hash,
) -> std::result::Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(FormatError::Hash { at, what, expected, found }) }
}

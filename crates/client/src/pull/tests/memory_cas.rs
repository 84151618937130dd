//! A hub in memory with fault injection.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use xet::compress::Policy;
use xet::plan::{PlanTerm, Planned, XorbEnds, plan};
use xet::wire::{Reconstruction, ReconstructionV2};
use xet::xorb::{Form, XorbBuilder, XorbInfo};
use xet::{ChunkHash, FileHash, XorbHash};

use crate::cas::{Batch, Cas, Xorb};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// What happens to the next fetch.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The connection breaks after this many bytes.
    Cut(usize),
    /// The connection stalls for ever after this many bytes.
    Stall(usize),
    /// The byte at this place is another one.
    Flip(usize),
    /// Refused with this kind of error.
    Refuse(ErrorKind),
    /// A byte in so long.
    Trickle(Duration),
}

type ChunkList = Vec<(ChunkHash, u32)>;

#[derive(Debug, Default)]
pub(super) struct StoredFiles {
    xorbs: HashMap<XorbHash, (XorbInfo, Bytes)>,
    known: HashMap<ChunkHash, (XorbHash, u32)>,
    files: HashMap<FileHash, (Vec<PlanTerm>, ChunkList)>,
    faults: VecDeque<Fault>,
    always: Option<Fault>,
}

#[derive(Debug, Default)]
pub(super) struct MemoryCas {
    pub(super) contents: Mutex<StoredFiles>,
    pub(super) lists_chunks: bool,
    pub(super) answers_batches: bool,
    pub(super) fetches: AtomicU64,
    pub(super) fetched_bytes: AtomicU64,
    pub(super) plans: AtomicU64,
}

impl MemoryCas {
    /// Stores a file, its new chunks in xorbs of at most `chunks_max`.
    pub(super) fn add(&self, data: &[u8], chunks_max: usize) -> FileHash {
        let mut contents = self.contents.lock().unwrap();
        let (mut list, mut fresh, mut start) = (Vec::new(), Vec::new(), 0);
        for cut in xet::chunk::cut(data) {
            let raw = &data[start..cut];
            let hash = ChunkHash::of(raw);
            list.push((hash, raw.len() as u32));
            if !contents.known.contains_key(&hash) && !fresh.iter().any(|(known, _)| *known == hash) {
                fresh.push((hash, raw));
            }
            start = cut;
        }
        for group in fresh.chunks(chunks_max) {
            let mut builder = XorbBuilder::new(Policy::Auto);
            group.iter().for_each(|(hash, raw)| builder.push(*hash, raw).unwrap());
            let sealed = builder.seal(Form::Footerless).unwrap();
            for (number, (hash, _)) in (0..).zip(group) {
                contents.known.insert(*hash, (sealed.info.hash(), number));
            }
            contents.xorbs.insert(sealed.info.hash(), (sealed.info, sealed.bytes.into()));
        }
        let mut terms: Vec<PlanTerm> = Vec::new();
        for (hash, bytes) in &list {
            let (xorb, number) = contents.known[hash];
            match terms.last_mut() {
                Some(last) if last.xorb == xorb && last.chunks.end == number => {
                    last.chunks.end += 1;
                    last.raw_bytes += bytes;
                }
                _ => terms.push(PlanTerm { xorb, chunks: number..number + 1, raw_bytes: *bytes }),
            }
        }
        let file = xet::merkle::file_hash(list.iter().map(|(hash, bytes)| (*hash, u64::from(*bytes))));
        contents.files.insert(file, (terms, list));
        file
    }

    pub(super) fn fault(&self, fault: Fault) {
        self.contents.lock().unwrap().faults.push_back(fault);
    }

    pub(super) fn always(&self, fault: Option<Fault>) {
        self.contents.lock().unwrap().always = fault;
    }

    /// Damages a stored xorb of a file for good: a byte of the chunk in the middle of its first term.
    pub(super) fn rot(&self, file: &FileHash) {
        let mut contents = self.contents.lock().unwrap();
        let term = contents.files[file].0[0].clone();
        let (info, bytes) = contents.xorbs.get_mut(&term.xorb).unwrap();
        let middle = info.stored_range(term.chunks.start..term.chunks.start + 1).unwrap();
        let mut damaged = bytes.to_vec();
        damaged[middle.end as usize - 1] ^= 0x10;
        *bytes = damaged.into();
    }

    pub(super) fn fetched(&self) -> u64 {
        self.fetched_bytes.load(Ordering::Relaxed)
    }

    fn unknown(file: FileHash) -> Error {
        Error::new(ErrorKind::NotFound, format!("no file {file}"))
    }
}

fn with_ends<T>(
    contents: &StoredFiles,
    use_ends: impl FnOnce(&dyn Fn(&XorbHash) -> (Vec<u32>, Vec<u32>)) -> T,
) -> T {
    let ends = |xorb: &XorbHash| {
        let chunks = contents.xorbs[xorb].0.chunks();
        (
            chunks.iter().map(|place| place.stored_end).collect(),
            chunks.iter().map(|place| place.raw_end).collect(),
        )
    };
    use_ends(&ends)
}

fn reconstruct(
    contents: &StoredFiles,
    terms: &[PlanTerm],
    range: Option<Range<u64>>,
) -> Option<Reconstruction> {
    let all: HashMap<XorbHash, (Vec<u32>, Vec<u32>)> =
        with_ends(contents, |ends| terms.iter().map(|term| (term.xorb, ends(&term.xorb))).collect());
    let ends = |xorb: &XorbHash| all.get(xorb).map(|(stored, raw)| XorbEnds { stored, raw });
    match plan(terms, range, ends).unwrap() {
        Planned::PastEnd { .. } => None,
        Planned::Covered(plan) => {
            let v2 = ReconstructionV2::from_plan(&plan, 500, |xorb, _| xorb.to_string());
            Some(v2.try_into().unwrap())
        }
    }
}

#[async_trait]
impl Cas for MemoryCas {
    async fn reconstruction(
        &self,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Option<Reconstruction>> {
        self.plans.fetch_add(1, Ordering::Relaxed);
        let contents = self.contents.lock().unwrap();
        let (terms, _) = contents.files.get(&file).ok_or_else(|| Self::unknown(file))?;
        Ok(reconstruct(&contents, terms, range))
    }

    async fn reconstructions(&self, files: &[FileHash]) -> Result<Option<Batch>> {
        if !self.answers_batches {
            return Ok(None);
        }
        self.plans.fetch_add(1, Ordering::Relaxed);
        let contents = self.contents.lock().unwrap();
        let terms = files
            .iter()
            .map(|file| Ok(contents.files.get(file).ok_or_else(|| Self::unknown(*file))?.0.clone()));
        let files: Vec<Vec<PlanTerm>> = terms.collect::<Result<_>>()?;
        let all = files.concat();
        Ok(Some(Batch { files, fetches: reconstruct(&contents, &all, None).unwrap() }))
    }

    async fn fetch(&self, url: &str, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let (mut bytes, fault) = {
            let mut contents = self.contents.lock().unwrap();
            let fault = contents.faults.pop_front().or(contents.always.clone());
            let bytes =
                contents.xorbs[&url.parse().unwrap()].1.slice(range.start as usize..range.end as usize);
            (bytes, fault)
        };
        self.fetched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let pieces = |bytes: &Bytes| -> Vec<Result<Bytes>> {
            bytes.chunks(50_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
        };
        Ok(match fault {
            None => stream::iter(pieces(&bytes)).boxed(),
            Some(Fault::Cut(len)) => {
                bytes.truncate(len);
                let broken =
                    Error::new(ErrorKind::Unavailable, "cut on purpose").with_request_id(Some("r-7".into()));
                stream::iter(pieces(&bytes)).chain(stream::iter([Err(broken)])).boxed()
            }
            Some(Fault::Stall(len)) => {
                bytes.truncate(len);
                stream::iter(pieces(&bytes)).chain(stream::pending()).boxed()
            }
            Some(Fault::Flip(place)) => {
                let mut damaged = bytes.to_vec();
                let place = place % damaged.len();
                damaged[place] ^= 1;
                stream::iter(pieces(&damaged.into())).boxed()
            }
            Some(Fault::Refuse(kind)) => return Err(Error::new(kind, "refused on purpose")),
            Some(Fault::Trickle(wait)) => {
                let bytes: Vec<_> = bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
                stream::iter(bytes)
                    .then(move |byte| async move {
                        tokio::time::sleep(wait).await;
                        Ok(byte)
                    })
                    .boxed()
            }
        })
    }

    async fn dedup(&self, _: ChunkHash) -> Result<Option<Bytes>> {
        Ok(None)
    }

    async fn put_xorb(&self, _: &Xorb) -> Result<bool> {
        Err(Error::new(ErrorKind::Denied, "a shelf is filled otherwise"))
    }

    async fn put_shard(&self, _: Bytes, _: &Progress) -> Result<()> {
        Err(Error::new(ErrorKind::Denied, "a shelf is filled otherwise"))
    }

    async fn chunk_list(&self, file: FileHash) -> Result<Option<Vec<(ChunkHash, u32)>>> {
        let contents = self.contents.lock().unwrap();
        Ok(contents.files.get(&file).map(|(_, list)| list.clone()).filter(|_| self.lists_chunks))
    }
}

//! A store for tests, what clients would send it, and a way to read files back.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]
#![allow(dead_code, reason = "no test file needs all of it")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, Stream, TryStreamExt};
use object_store::local::LocalFileSystem;
use store::clock::ManualClock;
use store::content::{BodyError, Planned, Progress, Reconstruction, Registered, StoredXorb};
use store::objects::Folder;
use store::upkeep::Counts;
use store::{Catalog, DedupOptions, Grant, Objects, Options, Result, Store, testing};
use tempfile::TempDir;
use testkit::faulty::{Faults, FaultyObjects, faulty_catalog};
pub(crate) use testkit::upload::Upload;
use xet::xorb::{ChunkDecoder, ChunkReader};
use xet::{FileHash, XorbHash};

/// A store in a temporary folder, with faults and a clock to set.
pub(crate) struct TestStore {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) faults: Faults,
    pub(crate) catalog: Arc<Catalog>,
    folder: TempDir,
}

pub(crate) const NOW_S: u64 = 1_800_000_000;

impl TestStore {
    pub(crate) async fn new() -> Self {
        Self::with_dedup(DedupOptions::default()).await
    }

    pub(crate) async fn with_dedup(dedup: DedupOptions) -> Self {
        Self::with_options(&Options { dedup, ..Options::default() }).await
    }

    pub(crate) async fn with_options(options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_file(&folder.path().join("catalog.db")).await.unwrap();
        Self::over(folder, Arc::new(catalog), options)
    }

    pub(crate) fn over(folder: TempDir, catalog: Arc<Catalog>, options: &Options) -> Self {
        let objects = folder.path().join("objects");
        std::fs::create_dir_all(&objects).unwrap();
        let (faults, clock) = (Faults::default(), Arc::new(ManualClock::at(NOW_S)));
        let local = LocalFileSystem::new_with_prefix(objects).unwrap();
        let objects = Objects::new(Arc::new(FaultyObjects::new(Arc::new(local), faults.clone())));
        let faulty = faulty_catalog(&catalog, &faults);
        let store = Store::new(objects, faulty, clock.clone(), options);
        Self { store, clock, faults, catalog, folder }
    }

    pub(crate) fn database_file(&self) -> std::path::PathBuf {
        self.folder.path().join("catalog.db")
    }

    /// The database itself, to do what nobody should.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.database_file()).unwrap()
    }

    pub(crate) async fn put_xorb(&self, grant: &Grant, hash: XorbHash, bytes: &[u8]) -> Result<StoredXorb> {
        self.store.content().put_xorb(grant, hash, Some(bytes.len() as u64), pieces(bytes, 70_001)).await
    }

    pub(crate) async fn register(&self, grant: &Grant, bytes: &[u8]) -> Result<Registered> {
        let (declared, progress) = (Some(bytes.len() as u64), Progress::default());
        self.store.content().register(grant, declared, pieces(bytes, 1000), &progress).await
    }

    /// Uploads as a client does: every xorb, then the shard.
    pub(crate) async fn upload(&self, grant: &Grant, upload: &Upload) -> Result<Registered> {
        for xorb in &upload.xorbs {
            self.put_xorb(grant, xorb.info.hash(), &xorb.bytes).await?;
        }
        self.register(grant, &upload.shard()).await
    }

    /// What can be seen from outside: how many rows and which objects.
    pub(crate) async fn state(&self) -> (Counts, Vec<String>) {
        let mut paths = Vec::new();
        for folder in [Folder::Xorbs, Folder::Shards] {
            let listed: Vec<_> = self.store.objects().list(folder).try_collect().await.unwrap();
            paths.extend(listed.into_iter().map(|listed| listed.path));
        }
        paths.sort();
        (testing::counts(&self.catalog).await.unwrap(), paths)
    }

    /// The bytes of a file, or of a range of it, as a client would rebuild them.
    pub(crate) async fn read(
        &self,
        grant: &Grant,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Vec<u8>> {
        let Planned::Covered(found) = self.store.content().plan(grant, file, range.clone()).await? else {
            panic!("past the end")
        };
        let wanted = range.map_or(u64::MAX, |range| range.end - range.start).min(found.file_bytes);
        Ok(self.rebuild(&found, wanted).await)
    }

    pub(crate) async fn rebuild(&self, found: &Reconstruction, wanted: u64) -> Vec<u8> {
        let mut chunks: HashMap<(XorbHash, u32), Vec<u8>> = HashMap::new();
        assert_eq!(found.plan.fetches.len(), found.keys.len());
        for (fetch, key) in found.plan.fetches.iter().zip(&found.keys) {
            assert_eq!(fetch.xorb, key.hash);
            for range in &fetch.ranges {
                let bytes = self.store.content().read(*key, range.stored_bytes.clone()).await.unwrap();
                let mut decoder = ChunkDecoder::new();
                let mut reader = ChunkReader::new(&bytes, range.stored_bytes.start, &mut decoder);
                let mut number = range.chunks.start;
                while let Some(chunk) = reader.next_chunk().unwrap() {
                    let twice = chunks.insert((fetch.xorb, number), chunk.raw.to_vec());
                    assert!(twice.is_none(), "chunk {number} is fetched twice");
                    number += 1;
                }
                assert_eq!(number, range.chunks.end);
            }
        }
        let mut out = Vec::new();
        for term in &found.plan.terms {
            let before = out.len();
            for number in term.chunks.clone() {
                out.extend(&chunks[&(term.xorb, number)]);
            }
            assert_eq!((out.len() - before) as u64, u64::from(term.raw_bytes));
        }
        out.drain(..found.plan.offset_into_first_range as usize);
        out.truncate(wanted as usize);
        out
    }
}

/// A body in pieces of this length.
pub(crate) fn pieces(
    bytes: &[u8],
    step: usize,
) -> impl Stream<Item = std::result::Result<Bytes, BodyError>> + Send + use<> {
    let pieces: Vec<_> = bytes.chunks(step).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces)
}

pub(crate) fn writer(scope: &str) -> Grant {
    Grant::write(scope.parse().unwrap())
}

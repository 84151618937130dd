//! Objects and catalogs that fail when told to: at the first, second, third … operation of whatever a test does.
//!
//! A fault strikes *before* the operation, which then does not happen, or *after* it, and then it has happened and
//! nobody was told. Both are what disks and networks do. An operation can also be *held*: it waits until the test lets
//! it go, so a test of slowness need not be slow.

mod hub;
mod sweep;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use store::access::Scope;
use store::catalog::rows::{
    AddedXorb, Counts, DedupHit, FileRow, Reach, Registered, Registration, ShardRow, XorbRow,
};
use store::catalog::{RepoCatalog, SweepCatalog};
use store::{Catalog, Error, ErrorKind};
use tokio::sync::watch;
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

/// When the next fault strikes; shared by everything it may strike.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Plan>);

#[derive(Debug, Default)]
struct Plan {
    /// Operations since the start or the last arming.
    count: AtomicU64,
    /// Which of them fails; 0 for none.
    before: AtomicU64,
    after: AtomicU64,
    /// Which of them and all after it wait; 0 for none. Changes wake those who wait.
    held: watch::Sender<u64>,
    waiting: AtomicU64,
}

impl Faults {
    /// The `n`th operation from now fails and does not happen.
    pub fn fail_before(&self, n: u64) {
        self.arm(n, 0);
    }

    /// The `n`th operation from now happens and fails.
    pub fn fail_after(&self, n: u64) {
        self.arm(0, n);
    }

    /// Nothing fails from now on.
    pub fn disarm(&self) {
        self.arm(0, 0);
    }

    /// The `n`th operation from now and all after it wait, until [`Faults::release`] or [`Faults::disarm`]. Those that are
    /// armed to fail do so afterwards.
    pub fn hold_from(&self, n: u64) {
        self.0.count.store(0, Ordering::SeqCst);
        self.0.held.send_replace(n);
    }

    /// Lets go of what is held.
    pub fn release(&self) {
        self.0.held.send_replace(0);
    }

    /// How many operations wait.
    pub fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::SeqCst)
    }

    /// Operations since the last of the above.
    pub fn operations(&self) -> u64 {
        self.0.count.load(Ordering::SeqCst)
    }

    fn arm(&self, before: u64, after: u64) {
        self.0.before.store(before, Ordering::SeqCst);
        self.0.after.store(after, Ordering::SeqCst);
        self.0.count.store(0, Ordering::SeqCst);
        self.release();
    }

    /// Runs an operation, unless a fault strikes.
    async fn run<T, E>(
        &self,
        fault: impl Fn() -> E,
        operation: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let n = self.0.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.wait(n).await;
        if n == self.0.before.load(Ordering::SeqCst) {
            return Err(fault());
        }
        let done = operation.await;
        if n == self.0.after.load(Ordering::SeqCst) { Err(fault()) } else { done }
    }

    async fn wait(&self, n: u64) {
        let mut held = self.0.held.subscribe();
        let is_free = |held: &u64| *held == 0 || n < *held;
        if is_free(&held.borrow()) {
            return;
        }
        let _place = Waiting::enter(&self.0.waiting);
        // The sender lives as long as this does.
        let _ = held.wait_for(is_free).await;
    }
}

/// Counts one that waits, also when it is dropped.
struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Objects that fail when told to.
#[derive(Debug)]
pub struct FaultyObjects {
    inner: Arc<dyn ObjectStore>,
    faults: Faults,
}

impl FaultyObjects {
    /// Objects of `inner`, with faults.
    pub fn new(inner: Arc<dyn ObjectStore>, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

impl fmt::Display for FaultyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyObjects {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.faults.run(object_fault, self.inner.put_opts(at, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.faults.run(object_fault, self.inner.put_multipart_opts(at, options)).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.faults.run(object_fault, self.inner.get_opts(at, options)).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<bytes::Bytes>> {
        self.faults.run(object_fault, self.inner.get_ranges(at, ranges)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A catalog that fails when told to.
#[derive(Debug)]
pub struct FaultyCatalog {
    inner: Arc<dyn Catalog>,
    faults: Faults,
}

impl FaultyCatalog {
    /// The catalog `inner`, with faults.
    pub fn new(inner: Arc<dyn Catalog>, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

#[async_trait]
impl Catalog for FaultyCatalog {
    async fn xorbs(&self, hashes: &[XorbHash]) -> store::Result<Vec<XorbRow>> {
        self.faults.run(catalog_fault, self.inner.xorbs(hashes)).await
    }

    async fn add_xorbs(&self, rows: &[XorbRow]) -> store::Result<Vec<AddedXorb>> {
        self.faults.run(catalog_fault, self.inner.add_xorbs(rows)).await
    }

    async fn touch_xorbs(&self, hashes: &[XorbHash], now_s: u64) -> store::Result<Vec<XorbHash>> {
        self.faults.run(catalog_fault, self.inner.touch_xorbs(hashes, now_s)).await
    }

    async fn register(&self, registration: &Registration) -> store::Result<Registered> {
        self.faults.run(catalog_fault, self.inner.register(registration)).await
    }

    async fn files(&self, scope: &Scope, hashes: &[FileHash]) -> store::Result<Vec<FileRow>> {
        self.faults.run(catalog_fault, self.inner.files(scope, hashes)).await
    }

    async fn files_by_sha256(
        &self,
        scope: &Scope,
        digests: &[Sha256],
    ) -> store::Result<Vec<(Sha256, FileHash)>> {
        self.faults.run(catalog_fault, self.inner.files_by_sha256(scope, digests)).await
    }

    async fn dedup(&self, reach: &Reach, chunks: &[ChunkHash]) -> store::Result<Vec<DedupHit>> {
        self.faults.run(catalog_fault, self.inner.dedup(reach, chunks)).await
    }

    async fn has_xorb(&self, reach: &Reach, xorb: XorbHash) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.has_xorb(reach, xorb)).await
    }

    async fn shards(&self, hashes: &[ShardHash]) -> store::Result<Vec<ShardRow>> {
        self.faults.run(catalog_fault, self.inner.shards(hashes)).await
    }

    fn tokens(&self) -> &dyn store::catalog::Tokens {
        self.inner.tokens()
    }

    async fn agree(&self, name: &str, value: &[u8]) -> store::Result<Vec<u8>> {
        self.faults.run(catalog_fault, self.inner.agree(name, value)).await
    }

    async fn counts(&self) -> store::Result<Counts> {
        self.inner.counts().await
    }

    fn hub(&self) -> &dyn RepoCatalog {
        self
    }

    fn sweep(&self) -> &dyn SweepCatalog {
        self
    }
}

fn object_fault() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "a fault on purpose".into() }
}

fn catalog_fault() -> Error {
    Error::new(ErrorKind::Unavailable, "a fault on purpose")
}

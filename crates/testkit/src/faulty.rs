//! Objects and catalogs that fail on request: at the first, second, third … operation of whatever a test does.
//!
//! A fault strikes *before* the operation, which then does not happen, or *after* it, and then it has happened and
//! the caller does not know. Disks and networks do both. An operation can also be *held*: it waits until the test releases
//! it, so a test of slowness need not be slow. Or all are *stepped*: each waits for its turn, so that a test decides
//! in which order those of several actors happen.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use store::db::Hook;
use store::{Catalog, Clock, Error, ErrorKind};
use tokio::sync::{Semaphore, watch};

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
    /// Turns that were given; `None` where nobody steps.
    turns: Mutex<Option<Arc<Semaphore>>>,
    /// Operations that came to wait for a turn.
    arrived: watch::Sender<u64>,
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

    /// Releases the held operations.
    pub fn release(&self) {
        self.0.held.send_replace(0);
    }

    /// How many operations wait.
    pub fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::SeqCst)
    }

    /// From now on every operation waits for a turn.
    pub fn step(&self) {
        *self.turns() = Some(Arc::new(Semaphore::new(0)));
        self.0.arrived.send_replace(0);
    }

    /// Operations that came to wait for a turn since [`Faults::step`], to be watched.
    pub fn arrived(&self) -> watch::Receiver<u64> {
        self.0.arrived.subscribe()
    }

    /// Gives one operation its turn.
    pub fn give_turn(&self) {
        if let Some(turns) = &*self.turns() {
            turns.add_permits(1);
        }
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, Option<Arc<Semaphore>>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn await_turn(&self) {
        let Some(turns) = self.turns().clone() else { return };
        self.0.arrived.send_modify(|arrived| *arrived += 1);
        if let Ok(turn) = turns.acquire().await {
            turn.forget();
        }
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
        self.await_turn().await;
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

/// Objects that fail on request.
#[derive(Debug)]
pub struct FaultyObjects {
    inner: Arc<dyn ObjectStore>,
    faults: Faults,
    dates: Option<Dates>,
}

/// When objects were written by a clock that a test sets: stores use the real one.
#[derive(Debug, Clone)]
pub struct Dates {
    clock: Arc<dyn Clock>,
    written: Arc<Mutex<HashMap<Path, u64>>>,
}

impl Dates {
    /// Dates by this clock. Clones share them.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, written: Arc::default() }
    }

    fn record_write(&self, at: &Path) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(at.clone(), self.clock.now_s());
    }

    fn date(&self, meta: &mut ObjectMeta) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = written.get(&meta.location) {
            let seconds = Duration::from_secs(*written);
            meta.last_modified = (std::time::SystemTime::UNIX_EPOCH + seconds).into();
        }
    }
}

impl FaultyObjects {
    /// Objects of `inner`, with faults.
    pub fn new(inner: Arc<dyn ObjectStore>, faults: Faults) -> Self {
        Self { inner, faults, dates: None }
    }

    /// The same, dated.
    pub fn dated(inner: Arc<dyn ObjectStore>, faults: Faults, dates: Dates) -> Self {
        Self { inner, faults, dates: Some(dates) }
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
        let put = async {
            let put = self.inner.put_opts(at, payload, options).await?;
            if let Some(dates) = &self.dates {
                dates.record_write(at);
            }
            Ok(put)
        };
        self.faults.run(object_fault, put).await
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
        let (inner, faults) = (self.inner.clone(), self.faults.clone());
        let deleted = paths.then(move |path| {
            let (inner, faults) = (inner.clone(), faults.clone());
            async move {
                let path = path?;
                faults.run(object_fault, inner.delete(&path)).await.map(|()| path.clone())
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        let Some(dates) = self.dates.clone() else { return listed };
        let dated = listed.map_ok(move |mut meta| {
            dates.date(&mut meta);
            meta
        });
        dated.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// The same catalog, whose statements fail on request. Calls wait before their first statement; every statement and commit
/// is an operation.
pub fn faulty_catalog(catalog: &Catalog, faults: &Faults) -> Arc<Catalog> {
    let (waiting, before, after) = (faults.clone(), faults.clone(), faults.clone());
    Arc::new(catalog.with_hook(Hook {
        before_call: Box::new(move || {
            let faults = waiting.clone();
            Box::pin(async move {
                faults.await_turn().await;
                faults.wait(faults.operations() + 1).await;
            })
        }),
        before_statement: Box::new(move || {
            let n = before.0.count.fetch_add(1, Ordering::SeqCst) + 1;
            if n == before.0.before.load(Ordering::SeqCst) { Err(catalog_fault()) } else { Ok(n) }
        }),
        after_statement: Box::new(move |n| {
            if n == after.0.after.load(Ordering::SeqCst) { Err(catalog_fault()) } else { Ok(()) }
        }),
    }))
}

fn object_fault() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "a fault on purpose".into() }
}

fn catalog_fault() -> Error {
    Error::new(ErrorKind::Unavailable, "a fault on purpose")
}

//! The one seam to the database: SQLite for one machine, PostgreSQL for many.
//!
//! SQL is written once, for both, beside the function that needs it, as a `Sql` with its arguments. `Catalog::read` runs one
//! query, `Catalog::write` a transaction that is tried again when it collides with another. Timing, logging, retries and the
//! faults of tests happen here and nowhere else.
//!
//! *Contract* of the statements on the catalog: each takes a batch and is one statement or one short transaction. A write is
//! durable when its call returns, all of it or nothing; of two writers of one row the first wins; batches may be empty, may
//! repeat themselves and have no order; reads see every write that returned before they began. A failed write may have
//! happened: every write can be repeated, and existing rows stay.

pub(crate) mod batch;
pub(crate) mod batcher;
#[cfg(test)]
mod contract;
pub(crate) mod migrations;
pub(crate) mod open;
pub(crate) mod postgres;
mod probe;
pub(crate) mod row;
pub(crate) mod schema;
pub(crate) mod secrets;
pub(crate) mod sql;
pub(crate) mod sqlite;
pub(crate) mod tables;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};

/// A database. Clones are the same one.
#[derive(Clone)]
pub struct Catalog {
    engine: Arc<dyn Engine>,
    hook: Option<Arc<Hook>>,
}

/// What a database can do; [`Catalog`] adds what is the same for all of them.
///
/// *Contract*: a committed transaction is durable, whole, and seen by every read that begins later; one that was dropped
/// without a commit changed nothing. A transaction that lost against another fails with an error for which
/// [`is_collision`] holds, and may be tried again.
#[async_trait]
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    /// The rows of a query that changes nothing.
    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<Row>>;

    /// The same without waiting for anything but a few pages of a local file; `None` where that is not possible.
    fn read_now(&self, sql: &Sql<'_>) -> Option<Result<Vec<Row>>>;

    /// Begins a transaction that may write.
    async fn begin(&self, isolation: Isolation) -> Result<Box<dyn Transaction>>;

    /// Whether statements occupy the thread that runs them.
    fn is_local(&self) -> bool;

    /// While two tokens are equal, nothing was written between them, by anyone. `None` where that cannot be found quickly.
    fn change_token(&self) -> Option<ChangeToken>;

    /// Ends all connections.
    async fn close(&self);
}

/// A transaction of one engine. Dropped without a commit, it changes nothing.
#[async_trait]
pub(crate) trait Transaction: Send {
    /// Runs one statement.
    async fn run(&mut self, sql: &Sql<'_>) -> Result<Done>;

    /// Runs a script of several statements without arguments.
    async fn script(&mut self, script: &str) -> Result<()>;

    /// Makes everything durable.
    async fn commit(self: Box<Self>) -> Result<()>;
}

/// What a transaction sees of others that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Each statement sees what was committed before it. Enough where the rows that matter are locked by being written.
    Committed,
    /// As if transactions ran one after another: for those that act on what they do not find.
    Serializable,
}

/// What a statement did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The rows it returned.
    pub(crate) rows: Vec<Row>,
    /// How many rows it changed.
    pub(crate) changed: u64,
}

/// Names a state of the database; see `Engine::change_token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeToken {
    /// Counts the connections: versions of two of them cannot be compared.
    pub(crate) connection: u64,
    pub(crate) version: i64,
}

/// What a database tells without being opened.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// The newest migration; `None` where there are no tables of ours.
    pub(crate) schema: Option<u64>,
    /// The id of the store, where it is written.
    pub(crate) store_id: Option<Vec<u8>>,
    /// Its clock, Unix seconds, where it has one of its own.
    pub(crate) now_s: Option<u64>,
}

pub(crate) const SCHEMA: &str = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";

pub(crate) const STORE_ID: &str = "SELECT value FROM secrets WHERE name = 'store_id'";

/// What tests put around calls and statements.
pub struct Hook {
    /// Called before every call of `Catalog::read` and `Catalog::write`, and may wait.
    pub before_call: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// Called before every statement and commit; an error keeps it from happening. Returns the number of the statement.
    pub before_statement: Box<dyn Fn() -> Result<u64> + Send + Sync>,
    /// Called with that number after it happened; an error hides that it did.
    pub after_statement: Box<dyn Fn(u64) -> Result<()> + Send + Sync>,
}

impl Catalog {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, hook: None }
    }

    /// The same database with a hook around everything that is run through this handle.
    #[must_use]
    pub fn with_hook(&self, hook: Hook) -> Self {
        Self { engine: self.engine.clone(), hook: Some(Arc::new(hook)) }
    }

    /// The rows of one query. `what` names the call in errors, metrics and logs.
    pub(crate) async fn read<T: FromRow>(&self, what: &'static str, sql: Sql<'_>) -> Result<Vec<T>> {
        let begin = Instant::now();
        if let Some(hook) = &self.hook {
            (hook.before_call)().await;
        }
        let rows = self.around(self.engine.read(&sql)).await;
        log_statement(what, begin, rows.as_ref().map_or(0, Vec::len));
        let rows = rows.map_err(|error| named(what, error))?;
        rows.into_iter().map(|row| T::from_row(&mut { row })).collect()
    }

    /// The first row of one query, if there is any.
    pub(crate) async fn read_one<T: FromRow>(&self, what: &'static str, sql: Sql<'_>) -> Result<Option<T>> {
        Ok(self.read(what, sql).await?.into_iter().next())
    }

    /// The rows of one query if they can be had without waiting; otherwise [`read`](Self::read) tells.
    pub(crate) fn read_now<T: FromRow>(&self, sql: &Sql<'_>) -> Option<Vec<T>> {
        // A hook that watches or delays statements sees all of them.
        if self.hook.is_some() {
            return None;
        }
        // The next query reports the failure.
        let rows = self.engine.read_now(sql)?.ok()?;
        rows.into_iter().map(|row| T::from_row(&mut { row })).collect::<Result<_>>().ok()
    }

    /// Runs `work` in a transaction of its own, again and again while it collides with others. `work` ends with
    /// [`Tx::commit`]; without it, nothing changes.
    pub(crate) async fn write<T, F, W>(&self, what: &'static str, work: F) -> Result<T>
    where
        F: Fn(Tx) -> W + Send + Sync,
        W: Future<Output = Result<T>> + Send,
        T: Send,
    {
        self.write_with(what, Isolation::Committed, work).await
    }

    /// The same for work that acts on what it does not find.
    pub(crate) async fn write_serializable<T, F, W>(&self, what: &'static str, work: F) -> Result<T>
    where
        F: Fn(Tx) -> W + Send + Sync,
        W: Future<Output = Result<T>> + Send,
        T: Send,
    {
        self.write_with(what, Isolation::Serializable, work).await
    }

    /// A transaction for long work that is not repeated when it collides.
    pub(crate) async fn begin(&self, what: &'static str) -> Result<Tx> {
        let inner = self.around(self.engine.begin(Isolation::Committed)).await;
        Ok(Tx { inner: inner.map_err(|error| named(what, error))?, hook: self.hook.clone() })
    }

    /// One statement in a transaction of its own: its rows and how many rows it changed.
    pub(crate) async fn write_one(&self, what: &'static str, sql: Sql<'_>) -> Result<Done> {
        let sql = &sql;
        self.write(what, |mut tx| async move {
            let done = tx.run_ref(sql).await?;
            tx.commit().await?;
            Ok(done)
        })
        .await
    }

    async fn write_with<T, F, W>(&self, what: &'static str, isolation: Isolation, work: F) -> Result<T>
    where
        F: Fn(Tx) -> W + Send + Sync,
        W: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let begin = Instant::now();
        if let Some(hook) = &self.hook {
            (hook.before_call)().await;
        }
        let mut tries = Tries::new();
        let done = loop {
            let error = match self.attempt(isolation, &work).await {
                Ok(done) => break Ok(done),
                Err(error) => error,
            };
            if !is_collision(&error) || !tries.wait().await {
                break Err(named(what, error));
            }
        };
        log_statement(what, begin, 0);
        done
    }

    async fn attempt<T, F, W>(&self, isolation: Isolation, work: &F) -> Result<T>
    where
        F: Fn(Tx) -> W + Send + Sync,
        W: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let inner = self.around(self.engine.begin(isolation)).await?;
        let work = work(Tx { inner, hook: self.hook.clone() });
        if self.engine.is_local() && is_on_many_threads() {
            // The statements occupy this thread anyway: others of the runtime take over what else waits for it.
            return tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
        }
        work.await
    }

    /// Runs an operation of the engine with the hook around it.
    async fn around<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        around(self.hook.as_deref(), operation).await
    }

    /// See [`Engine::change_token`].
    pub(crate) fn change_token(&self) -> Option<ChangeToken> {
        self.engine.change_token()
    }

    /// Ends all connections.
    pub(crate) async fn close(&self) {
        self.engine.close().await;
    }
}

/// A transaction that may write. Dropped without a commit, it changes nothing.
pub(crate) struct Tx {
    inner: Box<dyn Transaction>,
    hook: Option<Arc<Hook>>,
}

impl Tx {
    /// The rows that a statement returns.
    pub(crate) async fn rows<T: FromRow>(&mut self, sql: Sql<'_>) -> Result<Vec<T>> {
        let done = self.run_ref(&sql).await?;
        done.rows.into_iter().map(|row| T::from_row(&mut { row })).collect()
    }

    /// The first row that a statement returns, if any.
    pub(crate) async fn row<T: FromRow>(&mut self, sql: Sql<'_>) -> Result<Option<T>> {
        Ok(self.rows(sql).await?.into_iter().next())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn run(&mut self, sql: Sql<'_>) -> Result<u64> {
        Ok(self.run_ref(&sql).await?.changed)
    }

    async fn run_ref(&mut self, sql: &Sql<'_>) -> Result<Done> {
        around(self.hook.as_deref(), self.inner.run(sql)).await
    }

    /// Runs a script of several statements without arguments.
    pub(crate) async fn script(&mut self, script: &str) -> Result<()> {
        around(self.hook.as_deref(), self.inner.script(script)).await
    }

    /// Makes everything durable.
    pub(crate) async fn commit(self) -> Result<()> {
        around(self.hook.as_deref(), self.inner.commit()).await
    }
}

async fn around<T>(hook: Option<&Hook>, operation: impl Future<Output = Result<T>>) -> Result<T> {
    let Some(hook) = hook else { return operation.await };
    let number = (hook.before_statement)()?;
    let done = operation.await?;
    (hook.after_statement)(number)?;
    Ok(done)
}

/// Runs work that occupies this thread; others of the runtime take over what else waits for it.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    if is_on_many_threads() { tokio::task::block_in_place(work) } else { work() }
}

fn is_on_many_threads() -> bool {
    use tokio::runtime::{Handle, RuntimeFlavor};
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

fn log_statement(what: &'static str, begin: Instant, rows: usize) {
    let took = begin.elapsed();
    metrics::histogram!("drystone_catalog_seconds", "call" => what).record(took.as_secs_f64());
    tracing::trace!(what, rows, took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX), "catalog");
}

fn named(what: &str, error: Error) -> Error {
    let kind = error.kind();
    Error::caused(kind, format!("catalog: {what}"), error)
}

/// Counts the tries of one transaction and waits between them.
struct Tries {
    left: u32,
    wait_ms: u64,
}

impl Tries {
    fn new() -> Self {
        Self { left: 12, wait_ms: 2 }
    }

    /// Waits before another try; `false` when there were enough.
    async fn wait(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        // Those who collided must not wait alike, or they meet again.
        let jitter =
            std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), self.left) % self.wait_ms;
        tokio::time::sleep(Duration::from_millis(self.wait_ms + jitter)).await;
        self.wait_ms = (self.wait_ms * 2).min(500);
        true
    }
}

/// Marks the cause of an error: two transactions were in each other's way and one had to give in.
#[derive(Debug)]
struct Collision(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Collision {}

pub(crate) fn collision(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::caused(ErrorKind::Unavailable, "the database is busy", Collision(source.into()))
}

/// Whether the same transaction may succeed when it is tried again.
pub(crate) fn is_collision(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<Collision>() {
            return true;
        }
        source = cause.source();
    }
    false
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog({:?})", self.engine)
    }
}

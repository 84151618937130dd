//! Catalog: the queryable index over the objects, in SQLite or PostgreSQL.
//!
//! Every method takes a batch and is one statement or one short transaction. Every write can be repeated: what is there
//! stays, so a caller who did not hear the answer asks again.

#[cfg(test)]
#[macro_use]
mod on_each;

pub mod browse;
pub mod care;
pub mod keep;
pub mod migrate;
pub mod postgres;
mod probe;
pub mod records;
pub mod repo;
pub mod review;
pub mod rows;
pub mod sqlite;
pub mod sweep;
pub(crate) mod timed;
pub mod tokens;
pub mod uploads;

#[cfg(test)]
mod contract;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::access::Scope;
use crate::error::{Error, ErrorKind, Result};
use rows::{AddedXorb, Counts, DedupHit, FileRow, Reach, Registered, Registration, ShardRow, XorbRow};

pub use browse::BrowseCatalog;
pub use care::CareCatalog;
pub use keep::KeepCatalog;
pub use postgres::PostgresCatalog;
pub use probe::{Probed, probe};
pub use repo::RepoCatalog;
pub use sqlite::SqliteCatalog;
pub use sweep::SweepCatalog;
pub use tokens::{TokenRow, Tokens};
pub use uploads::UploadCatalog;

/// The index over the objects.
///
/// *Contract*: a write is durable when its call returns, all of it or nothing; of two writers of one row the first wins
/// and the second is told; batches may be empty, may repeat themselves and have no order; reads see every write that
/// returned before they began. A failed write may have happened: repeat it.
#[async_trait]
pub trait Catalog: std::fmt::Debug + Send + Sync {
    /// The rows of these xorbs, whatever their state; unknown ones are left out.
    async fn xorbs(&self, hashes: &[XorbHash]) -> Result<Vec<XorbRow>>;

    /// Adds xorbs whose objects are stored. A row that is there stays, and is live again if it was condemned. One that is
    /// being deleted stays too, and says so. Answers once for every distinct hash.
    async fn add_xorbs(&self, rows: &[XorbRow]) -> Result<Vec<AddedXorb>>;

    /// Notes that somebody learned of these xorbs now, which revives those that were condemned; tells which of them are
    /// live.
    async fn touch_xorbs(&self, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>>;

    /// Adds all that a shard tells, if every xorb it refers to is live, or nothing.
    async fn register(&self, registration: &Registration) -> Result<Registered>;

    /// The files of these that `scope` may read; others are left out.
    async fn files(&self, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>>;

    /// The files that were registered in `scope` under these digests, several for one digest where chunking differed.
    async fn files_by_sha256(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<(Sha256, FileHash)>>;

    /// For each of these chunks within reach, one live xorb that holds it; others are left out.
    async fn dedup(&self, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<DedupHit>>;

    /// Whether a repository within reach registered something that is made of this xorb.
    async fn has_xorb(&self, reach: &Reach, xorb: XorbHash) -> Result<bool>;

    /// The rows of these shards; unknown ones are left out.
    async fn shards(&self, hashes: &[ShardHash]) -> Result<Vec<ShardRow>>;

    /// Whether a chunk is within reach, if that is told without waiting for anyone; else [`dedup`](Self::dedup) tells.
    fn peek_chunk(&self, _reach: &Reach, _chunk: ChunkHash) -> Option<bool> {
        None
    }

    /// The file, if `scope` may read it, and if that is told without waiting for anyone; else [`files`](Self::files) tells.
    fn peek_file(&self, _scope: &Scope, _hash: FileHash) -> Option<Option<FileRow>> {
        None
    }

    /// The tokens people keep.
    fn tokens(&self) -> &dyn Tokens;

    /// Keeps a secret under a name, unless there is one already. Answers with what is kept: the same for everyone, ever.
    async fn agree(&self, name: &str, value: &[u8]) -> Result<Vec<u8>>;

    /// The value that [`agree`](Self::agree) stored under a name.
    async fn agreed(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// How many rows there are. Counts everything: not for every request.
    async fn counts(&self) -> Result<Counts>;

    /// The Hub side: repositories, refs, git objects, members.
    fn hub(&self) -> &dyn RepoCatalog;

    /// What sweep asks.
    fn sweep(&self) -> &dyn SweepCatalog;

    /// What verify, rebuild, compaction and statistics ask.
    fn care(&self) -> &dyn CareCatalog;

    /// What pages ask.
    fn browse(&self) -> &dyn BrowseCatalog;

    /// Quotas, usage, the audit log, and where refs were.
    fn keep(&self) -> &dyn KeepCatalog;

    /// Uploads that no shard has registered, and dedup policies.
    fn uploads(&self) -> &dyn UploadCatalog;

    /// How far the catalog has come, if that is quickly told. While two looks find the same, nothing was written between
    /// them, by anyone: what was read after the first still holds.
    fn stamp(&self) -> Option<Stamp> {
        None
    }
}

/// How far a catalog has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Counts the connections that were asked: versions of two of them cannot be compared.
    connection: u64,
    version: i64,
}

/// Opens the catalog that a URL names, `sqlite:///file` or `postgres://…`, and brings its tables up to date. One that does
/// not exist, or a database without our tables, is an error.
pub async fn open(url: &str) -> Result<Arc<dyn Catalog>> {
    match exists(url).await? {
        true => open_or_create(url).await,
        false => Err(Error::new(ErrorKind::NotFound, "there is no catalog")),
    }
}

/// Opens the catalog that a URL names, and creates it where there is none.
pub async fn open_or_create(url: &str) -> Result<Arc<dyn Catalog>> {
    match url.split(':').next() {
        Some("sqlite") => Ok(Arc::new(SqliteCatalog::open_url(url).await?)),
        Some("postgres" | "postgresql") => Ok(Arc::new(PostgresCatalog::open(url).await?)),
        _ => Err(Error::new(ErrorKind::Invalid, "a catalog should be sqlite:… or postgres:…")),
    }
}

/// Whether the catalog that a URL names was created: a file, or a database with our tables. Creates and changes nothing.
pub async fn exists(url: &str) -> Result<bool> {
    if url.starts_with("sqlite:") {
        return sqlite::exists(url).await;
    }
    Ok(probe(url).await?.schema.is_some())
}

/// Rows in one statement of a batch: well below what either database allows in parameters, few enough to stay small.
pub(crate) const BATCH_ROWS: usize = 1000;

/// The columns of `xorbs`, in the order of the table.
const XORB_COLUMNS: &str =
    "hash, digest, object_bytes, raw_bytes, chunk_count, state, created_s, referenced_s, verified_s";

/// A shard that was condemned is needed again. One that is being deleted is not found.
const REVIVE_SHARD: &str = "UPDATE shards SET state = 0 WHERE hash = $1 AND state <= 1";

/// Who registers a file again means to use it: sweep counts from there.
const TOUCH_REPO_FILES: &str = "UPDATE repo_files SET created_s = ";

/// The xorbs of those files that were added. Others were there, perhaps made of other xorbs.
fn used<'a>(files: &'a [FileRow], added: &[(Vec<u8>,)]) -> Vec<(&'a [u8], &'a [u8])> {
    let added: std::collections::HashSet<&[u8]> = added.iter().map(|(hash,)| hash.as_slice()).collect();
    let files = files.iter().filter(|file| added.contains(file.hash.as_bytes().as_slice()));
    let pairs = files.flat_map(|file| {
        let xorbs = file.layout.xorbs.iter();
        xorbs.map(|xorb| (xorb.key.hash.as_bytes().as_slice(), file.hash.as_bytes().as_slice()))
    });
    pairs.collect()
}

/// Bytes of those files that were added.
fn bytes_of(files: &[FileRow], added: &[(Vec<u8>,)]) -> i64 {
    let mut added: std::collections::HashSet<&[u8]> = added.iter().map(|(hash,)| hash.as_slice()).collect();
    // A shard may tell of a file twice.
    let files = files.iter().filter(|file| added.remove(file.hash.as_bytes().as_slice()));
    files.map(|file| rows::column(file.layout.file_bytes())).sum()
}

/// Appends what limits a query on the rows of a table, which is called `of` in it, to those within reach.
fn push_reach<DB>(query: &mut sqlx::QueryBuilder<DB>, of: &str, reach: &Reach)
where
    DB: sqlx::Database,
    String: for<'a> sqlx::Encode<'a, DB> + sqlx::Type<DB>,
{
    let (namespace, repo) = (reach.scope().namespace().to_owned(), reach.scope().repo().to_owned());
    let narrower = format!(
        "NOT EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = {of}.namespace \
         AND p.repo IN ('', {of}.repo) AND p.policy > "
    );
    match reach {
        Reach::Repo(_) => {
            query.push(format!(" AND {of}.namespace = ")).push_bind(namespace);
            query.push(format!(" AND {of}.repo = ")).push_bind(repo);
        }
        Reach::Namespace(_) => {
            query.push(format!(" AND {of}.namespace = ")).push_bind(namespace);
            query.push(format!(" AND ({of}.repo = ")).push_bind(repo);
            query.push(format!(" OR {narrower}1))"));
        }
        Reach::All(_) => {
            query.push(format!(" AND (({of}.namespace = ")).push_bind(namespace.clone());
            query.push(format!(" AND {of}.repo = ")).push_bind(repo);
            query.push(format!(") OR {narrower}CASE WHEN {of}.namespace = ")).push_bind(namespace);
            query.push(" THEN 1 ELSE 0 END))");
        }
    }
}

/// Appends that a xorb `x`, found by a row of `dedup d`, may be named to the caller: a xorb of one chunk has that chunk's
/// hash for its name, so it is named only to those who registered it.
fn push_nameable<DB>(query: &mut sqlx::QueryBuilder<DB>, reach: &Reach)
where
    DB: sqlx::Database,
    String: for<'a> sqlx::Encode<'a, DB> + sqlx::Type<DB>,
{
    query.push(" AND (x.chunk_count > 1 OR (d.namespace = ").push_bind(reach.scope().namespace().to_owned());
    query.push(" AND d.repo = ").push_bind(reach.scope().repo().to_owned()).push("))");
}

/// Finds a row where the dedup policy of a repository or its namespace is `off`.
const IS_DEDUP_OFF: &str =
    "SELECT namespace FROM dedup_policies WHERE namespace = $1 AND repo IN ('', $2) AND policy >= 3 LIMIT 1";

/// The same question for both databases.
const COUNT_ROWS: &str = "SELECT \
    (SELECT COUNT(*) FROM xorbs WHERE state NOT IN (2, 3)), \
    (SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM xorbs WHERE state NOT IN (2, 3)), \
    (SELECT CAST(COALESCE(SUM(raw_bytes), 0) AS BIGINT) FROM xorbs WHERE state NOT IN (2, 3)), \
    (SELECT COUNT(*) FROM files), \
    (SELECT CAST(COALESCE(SUM(file_bytes), 0) AS BIGINT) FROM files), \
    (SELECT COUNT(*) FROM repo_files), \
    (SELECT COUNT(*) FROM repo_sha256s), \
    (SELECT COUNT(*) FROM dedup), \
    (SELECT COUNT(*) FROM shards WHERE state NOT IN (2, 3))";

/// Anything that is 32 bytes in a column.
trait Key {
    fn key(&self) -> &[u8];
}

macro_rules! keys {
    ($($hash:ty),*) => { $(impl Key for $hash {
        fn key(&self) -> &[u8] {
            self.as_bytes()
        }
    })* };
}
keys!(ChunkHash, FileHash, Sha256, ShardHash, XorbHash);

/// The keys of a batch, sorted, each once. Sorted, because two transactions that lock rows in one order cannot wait for
/// each other.
fn unique<K: Key>(keys: &[K]) -> Vec<&[u8]> {
    let mut keys: Vec<_> = keys.iter().map(Key::key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Counts the tries of one operation and waits between them.
#[derive(Debug)]
pub(crate) struct Tries {
    what: &'static str,
    left: u32,
    wait_ms: u64,
}

impl Tries {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, left: 12, wait_ms: 2 }
    }

    /// Waits if trying again may help; otherwise says what went wrong.
    pub(crate) async fn again(&mut self, error: sqlx::Error) -> Result<()> {
        let what = self.what;
        self.wait(is_collision(&error), || translate(what, error)).await
    }

    /// Waits after a collision, but not for ever; otherwise says what went wrong.
    pub(crate) async fn wait(&mut self, collided: bool, error: impl FnOnce() -> Error) -> Result<()> {
        if self.left == 0 || !collided {
            return Err(error());
        }
        self.left -= 1;
        // Those who collided must not wait alike, or they meet again.
        let jitter =
            std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), self.left) % self.wait_ms;
        tokio::time::sleep(Duration::from_millis(self.wait_ms + jitter)).await;
        self.wait_ms = (self.wait_ms * 2).min(500);
        Ok(())
    }
}

/// Whether two transactions got into each other's way and one had to give in.
fn is_collision(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    match code.as_deref() {
        // PostgreSQL: serialization failure, deadlock.
        Some("40001" | "40P01") => true,
        // SQLite: busy or locked, in the low byte of the extended code. Its codes are short, those of PostgreSQL are not.
        Some(code) if code.len() <= 4 => code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6)),
        _ => false,
    }
}

pub(crate) fn translate(what: &str, source: sqlx::Error) -> Error {
    use sqlx::Error as E;
    let kind = match &source {
        _ if is_collision(&source) => ErrorKind::Unavailable,
        E::Io(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::Tls(_) => ErrorKind::Unavailable,
        E::Database(error) => match error.code().as_deref() {
            // PostgreSQL: connection trouble, out of something, shutting down or starting. SQLite: full, I/O error.
            Some(code) if code.len() == 5 && ["08", "53", "57"].iter().any(|c| code.starts_with(c)) => {
                ErrorKind::Unavailable
            }
            Some("13") | Some("10") => ErrorKind::Unavailable,
            Some("11") | Some("26") => ErrorKind::Corrupt,
            _ => ErrorKind::Internal,
        },
        E::ColumnDecode { .. } | E::Decode(_) => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::caused(kind, format!("catalog: {what}"), source)
}

/// The migrations of one database. Only ever appended to: what ran somewhere is never edited.
fn migrator(scripts: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migration = |(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(*version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(scripts.iter().map(migration).collect());
    // The lock it would take is one of PostgreSQL's own; two servers that start at once retry instead.
    migrator.set_locking(false);
    migrator
}

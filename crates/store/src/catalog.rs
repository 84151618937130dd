//! Catalog: the queryable index over the objects, in SQLite or PostgreSQL.
//!
//! Every method takes a batch and is one statement or one short transaction. Every write can be repeated: what is there
//! stays, so a caller who did not hear the answer asks again.
//!
//! *Contract*: a write is durable when its call returns, all of it or nothing; of two writers of one row the first wins
//! and the second is told; batches may be empty, may repeat themselves and have no order; reads see every write that
//! returned before they began. A failed write may have happened: repeat it.

#[cfg(test)]
#[macro_use]
mod on_each;

pub mod browse;
pub mod care;
mod content;
pub mod keep;
pub mod migrate;
mod migrations;
mod probe;
pub mod records;
mod register;
pub mod repo;
pub mod review;
pub mod rows;
pub mod sweep;
pub mod tokens;
pub mod uploads;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod sqlite_tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::db::{self, ChangeToken, Db, Hook, Sql};
use crate::error::{Error, ErrorKind, Result};
use rows::{Counts, Reach};

pub use browse::BrowseCatalog;
pub use care::CareCatalog;
pub use keep::KeepCatalog;
pub use probe::{Probed, probe};
pub use repo::RepoCatalog;
pub use sweep::SweepCatalog;
pub use tokens::{TokenRow, Tokens};
pub use uploads::UploadCatalog;

/// The index over the objects.
#[derive(Debug, Clone)]
pub struct Catalog {
    db: Db,
    hub: RepoCatalog,
    sweep: SweepCatalog,
    care: CareCatalog,
    browse: BrowseCatalog,
    keep: KeepCatalog,
    uploads: UploadCatalog,
    tokens: Tokens,
}

impl Catalog {
    /// Opens the SQLite file, which is created if it is not there, and brings its tables up to date.
    pub async fn open_file(file: &Path) -> Result<Self> {
        let db = Db::new(Arc::new(db::sqlite::Sqlite::open(file)?));
        db::migrations::run(&db, db::migrations::SQLITE_TABLE, migrations::SQLITE).await?;
        Ok(Self::over(db))
    }

    /// Whether there is a catalog in the file.
    pub fn is_in_file(file: &Path) -> Result<bool> {
        // SQLite reports a file that does not exist as one that it cannot open.
        Ok(file.exists() && db::sqlite::probe(file)?.schema.is_some())
    }

    async fn open_postgres(url: &str) -> Result<Self> {
        let db = Db::new(Arc::new(db::postgres::Postgres::open(url).await?));
        let run = || db::migrations::run(&db, db::migrations::POSTGRES_TABLE, migrations::POSTGRES);
        // Servers that start at once trip over each other's statements: the one that fell looks again, and finds the work
        // done.
        let mut left = 5;
        while let Err(error) = run().await {
            if left == 0 {
                return Err(error);
            }
            left -= 1;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(Self::over(db))
    }

    fn over(db: Db) -> Self {
        Self {
            hub: RepoCatalog { db: db.clone() },
            sweep: SweepCatalog { db: db.clone() },
            care: CareCatalog { db: db.clone() },
            browse: BrowseCatalog { db: db.clone() },
            keep: KeepCatalog { db: db.clone() },
            uploads: UploadCatalog { db: db.clone() },
            tokens: Tokens { db: db.clone() },
            db,
        }
    }

    /// The same catalog with a hook around every statement that is run through this handle: for tests.
    #[must_use]
    pub fn with_hook(&self, hook: Hook) -> Self {
        Self::over(self.db.with_hook(hook))
    }

    /// Ends all connections. A file then holds everything by itself.
    pub async fn close(self) {
        self.db.close().await;
    }

    /// The tokens people keep.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The Hub side: repositories, refs, git objects, members.
    pub fn hub(&self) -> &RepoCatalog {
        &self.hub
    }

    /// What garbage collection asks.
    pub fn sweep(&self) -> &SweepCatalog {
        &self.sweep
    }

    /// What verify, rebuild, compaction and statistics ask.
    pub fn care(&self) -> &CareCatalog {
        &self.care
    }

    /// What pages ask.
    pub fn browse(&self) -> &BrowseCatalog {
        &self.browse
    }

    /// Quotas, usage, the audit log, and where refs were.
    pub fn keep(&self) -> &KeepCatalog {
        &self.keep
    }

    /// Uploads that no shard has registered, and dedup policies.
    pub fn uploads(&self) -> &UploadCatalog {
        &self.uploads
    }

    /// While two tokens are equal, nothing was written between them, by anyone: what was read after the first still holds.
    /// `None` where that cannot be told quickly.
    pub fn change_token(&self) -> Option<ChangeToken> {
        self.db.change_token()
    }

    /// Stores a secret under a name, unless there is one already. Answers with the one that is stored: the same for
    /// everyone, ever.
    pub async fn agree(&self, name: &str, value: &[u8]) -> Result<Vec<u8>> {
        let stored = self.db.write("agree on a secret", |mut tx| async move {
            let insert = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            tx.run(Sql::new(insert).bind(name).bind(value)).await?;
            let stored = tx.row(Sql::new("SELECT value FROM secrets WHERE name = $1").bind(name)).await?;
            tx.commit().await?;
            Ok(stored)
        });
        stored.await?.ok_or_else(|| Error::new(ErrorKind::Internal, "catalog: a secret is gone"))
    }

    /// The value that [`agree`](Self::agree) stored under a name.
    pub async fn agreed(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let query = Sql::new("SELECT value FROM secrets WHERE name = $1").bind(name).short();
        self.db.read_one("find a secret", query).await
    }

    /// How many rows there are. Counts everything: not for every request.
    pub async fn counts(&self) -> Result<Counts> {
        let counts = self.db.read_one("count rows", Sql::new(COUNT_ROWS)).await?;
        counts.ok_or_else(|| Error::new(ErrorKind::Internal, "catalog: rows cannot be counted"))
    }
}

/// Opens the catalog that a URL names, `sqlite:///file` or `postgres://…`, and brings its tables up to date. One that does
/// not exist, or a database without our tables, is an error.
pub async fn open(url: &str) -> Result<Arc<Catalog>> {
    match exists(url).await? {
        true => open_or_create(url).await,
        false => Err(Error::new(ErrorKind::NotFound, "there is no catalog")),
    }
}

/// Opens the catalog that a URL names, and creates it where there is none.
pub async fn open_or_create(url: &str) -> Result<Arc<Catalog>> {
    match url.split(':').next() {
        Some("sqlite") => Ok(Arc::new(Catalog::open_file(&db::sqlite::file_of(url)?).await?)),
        Some("postgres" | "postgresql") => Ok(Arc::new(Catalog::open_postgres(url).await?)),
        _ => Err(unknown_kind()),
    }
}

/// Whether the catalog that a URL names was created: a file, or a database with our tables. Creates and changes nothing.
pub async fn exists(url: &str) -> Result<bool> {
    if url.starts_with("sqlite:") {
        return Catalog::is_in_file(&db::sqlite::file_of(url)?);
    }
    Ok(probe(url).await?.schema.is_some())
}

/// The file of a URL `sqlite:///…`.
pub(crate) fn file_of(url: &str) -> Result<std::path::PathBuf> {
    db::sqlite::file_of(url)
}

fn unknown_kind() -> Error {
    Error::new(ErrorKind::Invalid, "a catalog should be sqlite:… or postgres:…")
}

/// Rows in one statement of a batch: well below what either database allows in parameters, few enough to stay small.
pub(crate) const BATCH_ROWS: usize = 1000;

/// The columns of `xorbs`, in the order of the table.
const XORB_COLUMNS: &str =
    "hash, digest, object_bytes, raw_bytes, chunk_count, state, created_s, referenced_s, verified_s";

/// A shard that was condemned is needed again. One that is being deleted is not found.
const REVIVE_SHARD: &str = "UPDATE shards SET state = 0 WHERE hash = $1 AND state <= 1";

/// Appends what limits a query on the rows of a table, which is called `of` in it, to those within reach.
fn push_reach(sql: &mut Sql<'_>, of: &str, reach: &Reach) {
    let (namespace, repo) = (reach.scope().namespace().to_owned(), reach.scope().repo().to_owned());
    let narrower = format!(
        "NOT EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = {of}.namespace \
         AND p.repo IN ('', {of}.repo) AND p.policy > "
    );
    match reach {
        Reach::Repo(_) => {
            sql.push(&format!(" AND {of}.namespace = ")).push_bind(namespace);
            sql.push(&format!(" AND {of}.repo = ")).push_bind(repo);
        }
        Reach::Namespace(_) => {
            sql.push(&format!(" AND {of}.namespace = ")).push_bind(namespace);
            sql.push(&format!(" AND ({of}.repo = ")).push_bind(repo);
            sql.push(&format!(" OR {narrower}1))"));
        }
        Reach::All(_) => {
            sql.push(&format!(" AND (({of}.namespace = ")).push_bind(namespace.clone());
            sql.push(&format!(" AND {of}.repo = ")).push_bind(repo);
            sql.push(&format!(") OR {narrower}CASE WHEN {of}.namespace = ")).push_bind(namespace);
            sql.push(" THEN 1 ELSE 0 END))");
        }
    }
}

/// Appends that a xorb `x`, found by a row of `dedup d`, may be named to the caller: a xorb of one chunk has that chunk's
/// hash for its name, so it is named only to those who registered it.
fn push_nameable(sql: &mut Sql<'_>, reach: &Reach) {
    let (namespace, repo) = (reach.scope().namespace().to_owned(), reach.scope().repo().to_owned());
    sql.push(" AND (x.chunk_count > 1 OR (d.namespace = ").push_bind(namespace);
    sql.push(" AND d.repo = ").push_bind(repo).push("))");
}

/// Finds a row where the dedup policy of a repository or its namespace is `off`.
const IS_DEDUP_OFF: &str =
    "SELECT namespace FROM dedup_policies WHERE namespace = $1 AND repo IN ('', $2) AND policy >= 3 LIMIT 1";

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

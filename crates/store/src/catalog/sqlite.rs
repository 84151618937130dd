//! The catalog in one SQLite file: the default, for one machine.
//!
//! One connection writes, so writers of this process queue instead of colliding; others read beside it. Another process
//! on the same file is waited for, and then retried.

mod browse;
mod care;
mod change_token;
mod direct;
pub(in crate::catalog) mod keep;
#[cfg(test)]
mod plans;
mod records;
mod register;
mod repo;
mod review;
mod sweep;
mod uploads;

use std::collections::HashSet;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::rows::{
    AddedXorb, CountColumns, Counts, DedupHit, FileColumns, FileRow, HitColumns, Reach, Registered,
    Registration, ShardRow, XorbColumns, XorbRow, XorbState, array, column, number,
};
use super::tokens::Tokens;
use super::{
    BATCH_ROWS, BrowseCatalog, COUNT_ROWS, CareCatalog, Catalog, KeepCatalog, RepoCatalog, Stamp,
    SweepCatalog, Tries, UploadCatalog, XORB_COLUMNS, migrator, push_nameable, push_reach, translate, unique,
};
use crate::access::Scope;
use crate::error::{Error, ErrorKind, Result};
use change_token::ChangeToken;
use direct::Direct;
use register::Registrar;

/// A catalog in a file.
#[derive(Debug, Clone)]
pub struct SqliteCatalog {
    /// One connection.
    pub(super) writes: SqlitePool,
    pub(super) reads: SqlitePool,
    direct: Arc<Direct>,
    registrar: Registrar,
    changes: Arc<ChangeToken>,
}

type Sql<T> = std::result::Result<T, sqlx::Error>;

impl SqliteCatalog {
    /// Opens the file, which is made if it is not there.
    pub async fn open(file: &Path) -> Result<Self> {
        Self::with_options(SqliteConnectOptions::new().filename(file)).await
    }

    /// Whether there is a catalog in the file.
    pub async fn exists(file: &Path) -> Result<bool> {
        has_tables(SqliteConnectOptions::new().filename(file)).await
    }

    /// Opens the file of a URL `sqlite:///…`.
    pub async fn open_url(url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|source| Error::caused(ErrorKind::Invalid, format!("catalog {url:?}"), source))?;
        Self::with_options(options).await
    }

    async fn with_options(options: SqliteConnectOptions) -> Result<Self> {
        let changes = Arc::new(ChangeToken::new(options.get_filename()));
        let direct = Arc::new(Direct::new(options.get_filename()));
        let registrar = Registrar::new(options.get_filename());
        let file = options.get_filename().display().to_string();
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            // Rows come from a thread of their own: with all of a batch at once it is woken once.
            .row_buffer_size(BATCH_ROWS);
        let refuse = |source| translate(&format!("open {file}"), source);
        // A connection to a file does not break while it lies idle, and asking it costs as much as a question.
        let pool = || SqlitePoolOptions::new().test_before_acquire(false);
        // Two megabytes, as it would be else, are read and written again and again by whoever changes many rows.
        let caching = |kib: u32| options.clone().pragma("cache_size", format!("-{kib}"));
        // What undoes one statement of a transaction, some pages, would be written to a file else.
        let writing = caching(WRITE_CACHE_KIB).pragma("temp_store", "MEMORY");
        let writes = pool().max_connections(1).connect_with(writing);
        let writes = writes.await.map_err(refuse)?;
        migrator(MIGRATIONS).run(&writes).await.map_err(|source| {
            Error::caused(ErrorKind::Internal, format!("catalog: bring {file} up to date"), source)
        })?;
        let reads = pool().max_connections(8).connect_with(caching(READ_CACHE_KIB)).await.map_err(refuse)?;
        Ok(Self { writes, reads, direct, registrar, changes })
    }

    /// Closes the file, which then holds everything by itself.
    pub async fn close(self) {
        self.reads.close().await;
        self.writes.close().await;
        drop(self);
    }

    async fn try_add_xorbs(&self, rows: &[XorbRow]) -> Sql<Vec<(XorbColumns, bool)>> {
        let mut tx = self.writes.begin_with(BEGIN).await?;
        let mut answers = Vec::new();
        for rows in rows.chunks(BATCH_ROWS) {
            let mut insert = QueryBuilder::new(format!("INSERT INTO xorbs ({XORB_COLUMNS}) "));
            insert.push_values(rows, |mut values, row| {
                values
                    .push_bind(row.key.hash.as_bytes().as_slice())
                    .push_bind(row.key.digest.as_bytes().as_slice());
                for number in [row.object_bytes, row.raw_bytes, u64::from(row.chunk_count)] {
                    values.push_bind(column(number));
                }
                values.push_bind(row.state.number());
                for time in [row.created_s, row.referenced_s, row.verified_s] {
                    values.push_bind(column(time));
                }
            });
            insert.push(" ON CONFLICT DO NOTHING RETURNING hash");
            let inserted: Vec<(Vec<u8>,)> =
                insert.build_query_as().persistent(false).fetch_all(&mut *tx).await?;

            let hashes: Vec<_> = rows.iter().map(|row| row.key.hash.as_bytes().as_slice()).collect();
            let now_s = rows.iter().map(|row| row.referenced_s).max().unwrap_or(0);
            let mut revive = QueryBuilder::new("UPDATE xorbs SET state = ");
            revive.push_bind(XorbState::Live.number()).push(", referenced_s = ").push_bind(column(now_s));
            revive.push(" WHERE state = ").push_bind(XorbState::Condemned.number()).push(" AND hash");
            push_in(&mut revive, &hashes).build().persistent(false).execute(&mut *tx).await?;

            for columns in xorbs_of(&mut tx, &hashes).await? {
                let was_inserted = inserted.iter().any(|(hash,)| *hash == columns.0);
                answers.push((columns, was_inserted));
            }
        }
        tx.commit().await?;
        // A hash that two batches repeat was inserted by the first, and answered by both.
        answers.sort_by(|a, b| a.0.0.cmp(&b.0.0).then(b.1.cmp(&a.1)));
        answers.dedup_by(|later, first| later.0.0 == first.0.0);
        Ok(answers)
    }

    /// Two statements, no transaction: nothing ever changes or removes what the first one finds.
    async fn try_agree(&self, name: &str, value: &[u8]) -> Sql<Vec<u8>> {
        let insert = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        sqlx::query(insert).bind(name).bind(value).execute(&self.writes).await?;
        let query = sqlx::query_as("SELECT value FROM secrets WHERE name = $1").bind(name);
        let (kept,): (Vec<u8>,) = query.fetch_one(&self.writes).await?;
        Ok(kept)
    }

    async fn try_touch(&self, hashes: &[XorbHash], now_s: u64) -> Sql<Vec<Vec<u8>>> {
        let mut tx = self.writes.begin_with(BEGIN).await?;
        let live = touch(&mut tx, hashes, now_s).await?;
        tx.commit().await?;
        Ok(live)
    }

    /// Those of these chunks that are within reach. Most questions end here.
    async fn try_known(&self, reach: &Reach, chunks: &[ChunkHash]) -> Sql<HashSet<Vec<u8>>> {
        let mut known = HashSet::new();
        for chunks in unique(chunks).chunks(BATCH_ROWS) {
            let mut query = QueryBuilder::new("SELECT v.column1 FROM (VALUES ");
            let mut list = query.separated(", ");
            for chunk in padded(chunks) {
                list.push("(").push_bind_unseparated(chunk).push_unseparated(")");
            }
            query.push(") v WHERE EXISTS (SELECT 1 FROM dedup d WHERE d.chunk = v.column1");
            push_reach(&mut query, "d", reach);
            query.push(")");
            let rows: Vec<(Vec<u8>,)> = query.build_query_as().fetch_all(&self.reads).await?;
            known.extend(rows.into_iter().map(|(chunk,)| chunk));
        }
        Ok(known)
    }

    async fn try_dedup(&self, reach: &Reach, chunk: &ChunkHash) -> Sql<Option<HitColumns>> {
        let mut query = QueryBuilder::new(format!(
            "SELECT d.chunk_index, x.{} FROM dedup d JOIN xorbs x ON x.hash = d.xorb WHERE d.chunk = ",
            XORB_COLUMNS.replace(", ", ", x.")
        ));
        query.push_bind(chunk.as_bytes().as_slice());
        query.push(" AND x.state = ").push_bind(XorbState::Live.number());
        push_reach(&mut query, "d", reach);
        push_nameable(&mut query, reach);
        query.push(" LIMIT 1").build_query_as().fetch_optional(&self.reads).await
    }
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn xorbs(&self, hashes: &[XorbHash]) -> Result<Vec<XorbRow>> {
        let read = async {
            let mut connection = self.reads.acquire().await?;
            let mut rows = Vec::new();
            for hashes in unique(hashes).chunks(BATCH_ROWS) {
                rows.extend(xorbs_of(&mut connection, hashes).await?);
            }
            Ok(rows)
        };
        let rows: Sql<Vec<XorbColumns>> = read.await;
        let rows = rows.map_err(|source| translate("find xorbs", source))?;
        rows.into_iter().map(XorbRow::try_from).collect()
    }

    async fn add_xorbs(&self, rows: &[XorbRow]) -> Result<Vec<AddedXorb>> {
        let mut tries = Tries::new("add xorbs");
        let rows = loop {
            match self.try_add_xorbs(rows).await {
                Ok(rows) => break rows,
                Err(error) => tries.again(error).await?,
            }
        };
        rows.into_iter()
            .map(|(row, was_inserted)| Ok(AddedXorb { row: row.try_into()?, was_inserted }))
            .collect()
    }

    async fn touch_xorbs(&self, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
        let mut tries = Tries::new("touch xorbs");
        let live = loop {
            match self.try_touch(hashes, now_s).await {
                Ok(live) => break live,
                Err(error) => tries.again(error).await?,
            }
        };
        live.into_iter().map(|hash| Ok(XorbHash::new(array("xorb hash", hash)?))).collect()
    }

    async fn register(&self, registration: &Registration) -> Result<Registered> {
        const WHAT: &str = "register a shard";
        let mut tries = Tries::new(WHAT);
        let registration = Arc::new(registration.clone());
        loop {
            // Others of this process wait for the connection, which does nothing meanwhile.
            let turn = self.writes.acquire().await.map_err(|source| translate(WHAT, source))?;
            let (registrar, registration) = (self.registrar.clone(), registration.clone());
            let work = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                registrar.register(&registration)
            });
            match work.await.map_err(|source| Error::caused(ErrorKind::Internal, WHAT, source))? {
                Ok(registered) => return Ok(registered),
                Err(error) => {
                    let collided = register::is_collision(&error);
                    tries.wait(collided, || register::translate(WHAT, error)).await?;
                }
            }
        }
    }

    async fn files(&self, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>> {
        let mut files = Vec::new();
        for hashes in unique(hashes).chunks(BATCH_ROWS) {
            let mut query = QueryBuilder::new(
                "SELECT f.hash, f.layout, f.created_s FROM files f JOIN repo_files r ON r.file = f.hash WHERE r.namespace = ",
            );
            query
                .push_bind(scope.namespace())
                .push(" AND r.repo = ")
                .push_bind(scope.repo())
                .push(" AND f.hash");
            let rows = push_in(&mut query, &padded(hashes)).build_query_as().fetch_all(&self.reads);
            let rows: Vec<FileColumns> = rows.await.map_err(|source| translate("find files", source))?;
            for row in rows {
                files.push(row.try_into()?);
            }
        }
        Ok(files)
    }

    async fn files_by_sha256(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<(Sha256, FileHash)>> {
        let mut found = Vec::new();
        for digests in unique(digests).chunks(BATCH_ROWS) {
            let mut query = QueryBuilder::new("SELECT sha256, file FROM repo_sha256s WHERE namespace = ");
            query
                .push_bind(scope.namespace())
                .push(" AND repo = ")
                .push_bind(scope.repo())
                .push(" AND sha256");
            let rows = push_in(&mut query, digests).build_query_as().persistent(false).fetch_all(&self.reads);
            let rows: Vec<(Vec<u8>, Vec<u8>)> =
                rows.await.map_err(|source| translate("find files by digest", source))?;
            for (sha256, file) in rows {
                found.push((Sha256::new(array("digest", sha256)?), FileHash::new(array("file hash", file)?)));
            }
        }
        Ok(found)
    }

    async fn dedup(&self, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<DedupHit>> {
        let mut hits = Vec::new();
        let known = self.try_known(reach, chunks).await.map_err(|source| translate("find chunks", source))?;
        // One look for each: a chunk that every repository has must not fetch a row of every repository.
        for chunk in chunks.iter().filter(|chunk| known.contains(chunk.as_bytes().as_slice())) {
            let row =
                self.try_dedup(reach, chunk).await.map_err(|source| translate("find chunks", source))?;
            if let Some(row) = row {
                hits.push(DedupHit::new(*chunk, row)?);
            }
        }
        Ok(hits)
    }

    async fn has_xorb(&self, reach: &Reach, xorb: XorbHash) -> Result<bool> {
        let mut query = QueryBuilder::new("SELECT COUNT(*) FROM (SELECT 1 FROM repo_xorbs r WHERE r.xorb = ");
        query.push_bind(xorb.as_bytes().as_slice());
        push_reach(&mut query, "r", reach);
        let query = query.push(" LIMIT 1)").build_query_as();
        let count: Sql<(i64,)> = query.fetch_one(&self.reads).await;
        Ok(count.map_err(|source| translate("find a xorb", source))?.0 > 0)
    }

    async fn shards(&self, hashes: &[ShardHash]) -> Result<Vec<ShardRow>> {
        let mut shards = Vec::new();
        for hashes in unique(hashes).chunks(BATCH_ROWS) {
            let mut query = QueryBuilder::new("SELECT hash, object_bytes, created_s FROM shards WHERE hash");
            let rows = push_in(&mut query, hashes).build_query_as().persistent(false).fetch_all(&self.reads);
            let rows: Vec<(Vec<u8>, i64, i64)> =
                rows.await.map_err(|source| translate("find shards", source))?;
            for (hash, object_bytes, created_s) in rows {
                shards.push(ShardRow {
                    hash: ShardHash::new(array("shard hash", hash)?),
                    object_bytes: number("object bytes", object_bytes)?,
                    created_s: number("time created", created_s)?,
                });
            }
        }
        Ok(shards)
    }

    fn peek_chunk(&self, reach: &Reach, chunk: ChunkHash) -> Option<bool> {
        self.direct.chunk(reach, chunk)
    }

    fn peek_file(&self, scope: &Scope, hash: FileHash) -> Option<Option<FileRow>> {
        self.direct.file(scope, hash)
    }

    fn tokens(&self) -> &dyn Tokens {
        self
    }

    async fn agree(&self, name: &str, value: &[u8]) -> Result<Vec<u8>> {
        let mut tries = Tries::new("agree on a secret");
        loop {
            match self.try_agree(name, value).await {
                Ok(kept) => return Ok(kept),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn agreed(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let query = sqlx::query_as("SELECT value FROM secrets WHERE name = $1").bind(name);
        let row: Sql<Option<(Vec<u8>,)>> = query.fetch_optional(&self.reads).await;
        Ok(row.map_err(|source| translate("find a secret", source))?.map(|(value,)| value))
    }

    async fn counts(&self) -> Result<Counts> {
        let row: Sql<CountColumns> = sqlx::query_as(COUNT_ROWS).fetch_one(&self.reads).await;
        row.map_err(|source| translate("count rows", source))?.try_into()
    }

    fn hub(&self) -> &dyn RepoCatalog {
        self
    }

    fn sweep(&self) -> &dyn SweepCatalog {
        self
    }

    fn care(&self) -> &dyn CareCatalog {
        self
    }

    fn browse(&self) -> &dyn BrowseCatalog {
        self
    }

    fn keep(&self) -> &dyn KeepCatalog {
        self
    }

    fn uploads(&self) -> &dyn UploadCatalog {
        self
    }

    fn stamp(&self) -> Option<Stamp> {
        self.changes.stamp()
    }
}

/// Whether there is a catalog in the file that a URL names.
pub(super) async fn exists(url: &str) -> Result<bool> {
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|source| Error::caused(ErrorKind::Invalid, format!("catalog {url:?}"), source))?;
    has_tables(options).await
}

async fn has_tables(options: SqliteConnectOptions) -> Result<bool> {
    match options.get_filename().is_file() {
        true => Ok(super::probe::probe_options(options).await?.schema.is_some()),
        false => Ok(false),
    }
}

/// How long another process on the same file is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pages of the database that a connection keeps in memory.
const WRITE_CACHE_KIB: u32 = 32 * 1024;
const READ_CACHE_KIB: u32 = 6 * 1024;

/// A transaction that will write says so when it begins: one that turns from reading to writing cannot wait for others.
const BEGIN: &str = "BEGIN IMMEDIATE";

pub(super) const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "content store", include_str!("../../migrations/sqlite/0001_cas.sql")),
    (5, "secrets", include_str!("../../migrations/sqlite/0005_secrets.sql")),
    (10, "tokens", include_str!("../../migrations/sqlite/0010_tokens.sql")),
    (11, "xorbs of repositories", include_str!("../../migrations/sqlite/0011_repo_xorbs.sql")),
    (20, "repositories", include_str!("../../migrations/sqlite/0020_repos.sql")),
    (21, "trash", include_str!("../../migrations/sqlite/0021_trash.sql")),
    (22, "review", include_str!("../../migrations/sqlite/0022_review.sql")),
    (23, "records", include_str!("../../migrations/sqlite/0023_records.sql")),
    (30, "sweep", include_str!("../../migrations/sqlite/0030_sweep.sql")),
    (40, "keeping", include_str!("../../migrations/sqlite/0040_keep.sql")),
    (50, "sizes", include_str!("../../migrations/sqlite/0050_sizes.sql")),
    (60, "passwords", include_str!("../../migrations/sqlite/0060_passwords.sql")),
    (70, "upkeep", include_str!("../../migrations/sqlite/0070_upkeep.sql")),
    (80, "uploads", include_str!("../../migrations/sqlite/0080_uploads.sql")),
    (85, "computed digests", include_str!("../../migrations/sqlite/0085_sha256.sql")),
    (100, "token_repo", include_str!("../../migrations/sqlite/0100_token_repo.sql")),
    (101, "user_state", include_str!("../../migrations/sqlite/0101_user_state.sql")),
    (102, "token_session", include_str!("../../migrations/sqlite/0102_token_session.sql")),
    (110, "names", include_str!("../../migrations/sqlite/0110_names.sql")),
    (120, "uploads by time", include_str!("../../migrations/sqlite/0120_uploads_by_time.sql")),
];

/// Notes that these xorbs were referred to, which revives what was condemned; tells which are live, sorted.
async fn touch(connection: &mut SqliteConnection, hashes: &[XorbHash], now_s: u64) -> Sql<Vec<Vec<u8>>> {
    let mut live = Vec::new();
    for hashes in unique(hashes).chunks(BATCH_ROWS) {
        // Time never goes back, or a late clock would bring sweep nearer.
        let mut update = QueryBuilder::new("UPDATE xorbs SET state = ");
        update.push_bind(XorbState::Live.number()).push(", referenced_s = MAX(referenced_s, ");
        update.push_bind(column(now_s)).push(") WHERE state <= ").push_bind(XorbState::Condemned.number());
        let update = push_in(update.push(" AND hash"), hashes).push(" RETURNING hash");
        let rows: Vec<(Vec<u8>,)> =
            update.build_query_as().persistent(false).fetch_all(&mut *connection).await?;
        live.extend(rows.into_iter().map(|(hash,)| hash));
    }
    live.sort_unstable();
    Ok(live)
}

async fn xorbs_of(connection: &mut SqliteConnection, hashes: &[&[u8]]) -> Sql<Vec<XorbColumns>> {
    let mut query = QueryBuilder::new(format!("SELECT {XORB_COLUMNS} FROM xorbs WHERE hash"));
    push_in(&mut query, hashes).build_query_as().persistent(false).fetch_all(connection).await
}

/// The keys, the last one repeated until their number is a power of two: statements of few lengths can be kept prepared.
fn padded<'a>(keys: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let last = keys.last().copied();
    let more = last.into_iter().cycle().take(keys.len().next_power_of_two() - keys.len());
    keys.iter().copied().chain(more).collect()
}

/// Appends ` IN (…)`. The statement is as long as its list, so it is kept prepared only where its length is [`padded`].
fn push_in<'a>(query: &'a mut QueryBuilder<Sqlite>, keys: &[&[u8]]) -> &'a mut QueryBuilder<Sqlite> {
    query.push(" IN (");
    let mut list = query.separated(", ");
    keys.iter().for_each(|key| {
        list.push_bind(*key);
    });
    query.push(")")
}

//! Registering, row by row on one thread.
//!
//! A shard of small files is many rows. Through the pool they would go to its thread in statements of a thousand rows, each of
//! which is parsed and bound anew; prepared once and run for every row they take a third of the time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, OpenFlags, Params, Transaction, TransactionBehavior};
use xet::XorbHash;

use super::super::rows::{FileRow, Registered, Registration, XorbState, column};
use super::super::{REVIVE_SHARD, TOUCH_REPO_FILES};
use super::{BUSY_TIMEOUT, WRITE_CACHE_KIB};
use crate::error::{Error, ErrorKind};

/// The connection that registers, opened when it is needed first. Whoever uses it has the turn to write.
#[derive(Debug, Clone)]
pub(super) struct Registrar {
    file: PathBuf,
    idle: Arc<Mutex<Option<Connection>>>,
}

impl Registrar {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), idle: Arc::default() }
    }

    /// Adds all of it, or nothing. Blocks.
    pub(super) fn register(&self, registration: &Registration) -> rusqlite::Result<Registered> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().take();
        let mut connection = kept.map_or_else(|| self.open(), Ok)?;
        let done = register(&mut connection, registration)?;
        // After an error the next one begins with a new connection.
        *idle() = Some(connection);
        Ok(done)
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // As the connections of the pool: an answer means that the disk has it.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -i64::from(WRITE_CACHE_KIB))?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(connection)
    }
}

fn register(connection: &mut Connection, r: &Registration) -> rusqlite::Result<Registered> {
    // Dropped without a commit, it changes nothing.
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(missing) = touch_xorbs(&tx, r)? {
        return Ok(Registered::Missing(missing));
    }
    let shard = r.shard.hash.as_bytes().as_slice();
    let is_new_shard = Insert::new(&tx, "shards (hash, object_bytes, created_s) VALUES (?1, ?2, ?3)")?
        .is_new((shard, column(r.shard.object_bytes), column(r.shard.created_s)))?;
    if !is_new_shard && tx.prepare_cached(REVIVE_SHARD)?.execute([shard])? == 0 {
        return Ok(Registered::ShardSwept);
    }
    let (new_xorbs, physical_bytes) = add_xorbs(&tx, r)?;
    let (new_files, logical_bytes) = add_files(&tx, r)?;
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    if (logical_bytes, physical_bytes) != (0, 0) {
        let line =
            "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) VALUES (?1, ?2, ?3, ?4)";
        tx.prepare_cached(line)?.execute((namespace, repo, logical_bytes, physical_bytes))?;
    }
    let new_digests = add_sha256s(&tx, r)?;
    add_chunks(&tx, r)?;
    tx.commit()?;
    Ok(Registered::Done { was_inserted: new_xorbs + new_files + new_digests > 0 })
}

/// Notes that the xorbs were referred to, which revives what was condemned; tells the first that is not there.
fn touch_xorbs(tx: &Transaction<'_>, r: &Registration) -> rusqlite::Result<Option<XorbHash>> {
    // Time never goes back, or a late clock would bring sweep nearer.
    let touch =
        "UPDATE xorbs SET state = ?1, referenced_s = MAX(referenced_s, ?2) WHERE hash = ?3 AND state <= ?4";
    let mut touch = tx.prepare_cached(touch)?;
    let (live, condemned) = (XorbState::Live.number(), XorbState::Condemned.number());
    for xorb in &r.xorbs {
        if touch.execute((live, column(r.now_s), xorb.as_bytes().as_slice(), condemned))? == 0 {
            return Ok(Some(*xorb));
        }
    }
    Ok(None)
}

/// The repository has registered the xorbs: they are uploads no longer. Returns how many are new to it, and their bytes.
fn add_xorbs(tx: &Transaction<'_>, r: &Registration) -> rusqlite::Result<(u64, i64)> {
    let mut insert = Insert::new(tx, "repo_xorbs (xorb, namespace, repo) VALUES (?1, ?2, ?3)")?;
    let mut length = tx.prepare_cached("SELECT object_bytes FROM xorbs WHERE hash = ?1")?;
    let uploads = "DELETE FROM uploads WHERE xorb = ?1 AND namespace = ?2 AND repo = ?3";
    let mut uploads = tx.prepare_cached(uploads)?;
    let mut others = tx.prepare_cached("UPDATE uploads SET is_first = 0 WHERE xorb = ?1")?;
    let (mut count, mut new_bytes) = (0, 0);
    for xorb in &r.xorbs {
        let xorb = xorb.as_bytes().as_slice();
        if insert.is_new((xorb, r.scope.namespace(), r.scope.repo()))? {
            count += 1;
            new_bytes += length.query_row([xorb], |row| row.get::<_, i64>(0))?;
        }
        uploads.execute((xorb, r.scope.namespace(), r.scope.repo()))?;
        others.execute([xorb])?;
    }
    Ok((count, new_bytes))
}

/// Adds files and who may read them. Returns how many are new to the repository, and their bytes.
fn add_files(tx: &Transaction<'_>, r: &Registration) -> rusqlite::Result<(u64, i64)> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    let files = "files (hash, file_bytes, layout, created_s, shard) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut add_file = Insert::new(tx, files)?;
    let mut add_use = Insert::new(tx, "file_xorbs (xorb, file) VALUES (?1, ?2)")?;
    let mut add_reader =
        Insert::new(tx, "repo_files (namespace, repo, file, created_s) VALUES (?1, ?2, ?3, ?4)")?;
    let touch = format!("{TOUCH_REPO_FILES} ?1 WHERE namespace = ?2 AND repo = ?3 AND file = ?4");
    let mut touch_reader = tx.prepare_cached(&touch)?;
    let (mut count, mut new_bytes) = (0, 0);
    for FileRow { hash, layout, created_s } in &r.files {
        let (file, file_bytes) = (hash.as_bytes().as_slice(), column(layout.file_bytes()));
        let shard = r.shard.hash.as_bytes().as_slice();
        // Who was there first may be made of other xorbs.
        if add_file.is_new((file, file_bytes, layout.encode(), column(*created_s), shard))? {
            for xorb in &layout.xorbs {
                add_use.is_new((xorb.key.hash.as_bytes().as_slice(), file))?;
            }
        }
        match add_reader.is_new((namespace, repo, file, column(r.now_s)))? {
            true => {
                count += 1;
                new_bytes += file_bytes;
            }
            false => _ = touch_reader.execute((column(r.now_s), namespace, repo, file))?,
        }
    }
    Ok((count, new_bytes))
}

/// Adds digests of files. Returns how many are new to the repository.
fn add_sha256s(tx: &Transaction<'_>, r: &Registration) -> rusqlite::Result<u64> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    let mut insert = Insert::new(tx, "repo_sha256s (namespace, repo, sha256, file) VALUES (?1, ?2, ?3, ?4)")?;
    let mut count = 0;
    for (sha256, file) in &r.sha256s {
        let row = (namespace, repo, sha256.as_bytes().as_slice(), file.as_bytes().as_slice());
        count += u64::from(insert.is_new(row)?);
    }
    Ok(count)
}

/// Adds chunks that can be found again, unless the repository's dedup policy is `off`.
fn add_chunks(tx: &Transaction<'_>, r: &Registration) -> rusqlite::Result<()> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    if tx.prepare_cached(super::super::IS_DEDUP_OFF)?.exists((namespace, repo))? {
        return Ok(());
    }
    let mut insert =
        Insert::new(tx, "dedup (chunk, namespace, repo, xorb, chunk_index) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for row in &r.dedup {
        let (chunk, xorb) = (row.chunk.as_bytes().as_slice(), row.xorb.as_bytes().as_slice());
        insert.is_new((chunk, namespace, repo, xorb, row.chunk_index))?;
    }
    Ok(())
}

/// Adds rows of which some may be there.
struct Insert<'a>(CachedStatement<'a>);

impl<'a> Insert<'a> {
    fn new(tx: &'a Transaction<'_>, rows: &str) -> rusqlite::Result<Self> {
        tx.prepare_cached(&format!("INSERT INTO {rows} ON CONFLICT DO NOTHING")).map(Self)
    }

    fn is_new(&mut self, row: impl Params) -> rusqlite::Result<bool> {
        Ok(self.0.execute(row)? > 0)
    }
}

/// Whether another process was in the way.
pub(super) fn is_collision(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

pub(super) fn translate(what: &str, source: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as C;
    let kind = match source.sqlite_error_code() {
        Some(C::DatabaseBusy | C::DatabaseLocked | C::DiskFull | C::SystemIoFailure | C::CannotOpen) => {
            ErrorKind::Unavailable
        }
        Some(C::DatabaseCorrupt | C::NotADatabase) => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::caused(kind, format!("catalog: {what}"), source)
}

#[cfg(test)]
mod tests {
    use super::super::SqliteCatalog;
    use super::*;
    use crate::catalog::Catalog as _;
    use crate::catalog::contract::{registration, row, scope};

    async fn catalog(folder: &Path) -> SqliteCatalog {
        let catalog = SqliteCatalog::open(&folder.join("catalog.db")).await.unwrap();
        catalog.add_xorbs(&[row(1)]).await.unwrap();
        catalog
    }

    /// Whatever step fails, nothing of the shard is there, and it can be sent again.
    #[tokio::test]
    async fn a_failure_at_any_step_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path()).await;
        let before = catalog.counts().await.unwrap();
        let registration = registration(&scope("ann/repo"), &[1]);
        let other = Connection::open(folder.path().join("catalog.db")).unwrap();
        let tables =
            ["shards", "repo_xorbs", "files", "file_xorbs", "repo_files", "usage", "repo_sha256s", "dedup"];
        for table in tables {
            let trigger = format!(
                "CREATE TRIGGER fails BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'on purpose'); END"
            );
            other.execute_batch(&trigger).unwrap();
            let error = catalog.register(&registration).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal, "{table}: {error}");
            assert_eq!(catalog.counts().await.unwrap(), before, "{table}");
            other.execute_batch("DROP TRIGGER fails").unwrap();
        }
        let usage = || other.query_row("SELECT COUNT(*) FROM usage", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(usage(), 0);
        let done = catalog.register(&registration).await.unwrap();
        assert_eq!(done, Registered::Done { was_inserted: true });
        assert_eq!((catalog.counts().await.unwrap().files, usage()), (before.files + 1, 1));
    }

    #[tokio::test]
    async fn it_waits_for_the_disk_and_tells_who_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path()).await;
        let connection = catalog.registrar.open().unwrap();
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((pragma("synchronous"), pragma("busy_timeout")), (2, 10_000));

        let other = Connection::open(folder.path().join("catalog.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection.busy_timeout(std::time::Duration::ZERO).unwrap();
        *catalog.registrar.idle.lock().unwrap() = Some(connection);
        let registration = registration(&scope("ann/repo"), &[1]);
        let error = catalog.registrar.register(&registration).unwrap_err();
        assert!(is_collision(&error));
        assert_eq!(translate("x", error).kind(), ErrorKind::Unavailable);
        let waiting = tokio::spawn(async move { catalog.register(&registration).await });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), Registered::Done { was_inserted: true });
    }

    #[test]
    fn a_file_that_is_no_database_is_corrupt_and_none_is_unavailable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.db");
        let failure = || {
            let error = Registrar::new(&file).register(&registration(&scope("ann/repo"), &[1])).unwrap_err();
            translate("x", error).kind()
        };
        assert_eq!(failure(), ErrorKind::Unavailable);
        std::fs::write(&file, [7; 5000]).unwrap();
        assert_eq!(failure(), ErrorKind::Corrupt);
    }
}

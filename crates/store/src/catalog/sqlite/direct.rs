//! Looks of a few pages, made on the thread that wants to know.
//!
//! Pooled connections each have a thread of their own, and going there and back costs ten times what such a look does. It may
//! read from a disk, three or four pages at most. Whatever stands in its way, it is given up and the pool is asked.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, ToSql};
use xet::{ChunkHash, FileHash};

use super::super::rows::{FileColumns, FileRow, Reach};
use crate::access::Scope;

/// Connections that are used by whoever comes.
#[derive(Debug)]
pub(super) struct Direct {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Direct {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), idle: Mutex::default() }
    }

    /// Whether a chunk is within reach.
    pub(super) fn chunk(&self, reach: &Reach, chunk: ChunkHash) -> Option<bool> {
        let chunk = chunk.as_bytes().as_slice();
        let (namespace, repo) = (reach.scope().namespace(), reach.scope().repo());
        let keys: &[&dyn ToSql] = &[&chunk, &namespace, &repo];
        let (query, keys) = match reach {
            Reach::All(_) => (
                "SELECT 1 FROM dedup d WHERE chunk = ?1 AND ((namespace = ?2 AND repo = ?3) OR NOT EXISTS \
                 (SELECT 1 FROM dedup_policies p WHERE p.namespace = d.namespace AND p.repo IN ('', d.repo) \
                 AND p.policy > CASE WHEN d.namespace = ?2 THEN 1 ELSE 0 END))",
                keys,
            ),
            Reach::Namespace(_) => (
                "SELECT 1 FROM dedup d WHERE chunk = ?1 AND namespace = ?2 AND (repo = ?3 OR NOT EXISTS \
                 (SELECT 1 FROM dedup_policies p WHERE p.namespace = d.namespace AND p.repo IN ('', d.repo) \
                 AND p.policy > 1))",
                keys,
            ),
            Reach::Repo(_) => ("SELECT 1 FROM dedup WHERE chunk = ?1 AND namespace = ?2 AND repo = ?3", keys),
        };
        self.look(|connection| connection.prepare_cached(query)?.exists(keys))
    }

    /// A file that `scope` may read.
    pub(super) fn file(&self, scope: &Scope, hash: FileHash) -> Option<Option<FileRow>> {
        let query = "SELECT f.hash, f.layout, f.created_s FROM repo_files r JOIN files f ON f.hash = r.file \
            WHERE r.namespace = ?1 AND r.repo = ?2 AND r.file = ?3";
        let keys = (scope.namespace(), scope.repo(), hash.as_bytes().as_slice());
        let found: Option<FileColumns> = self.look(|connection| {
            let mut query = connection.prepare_cached(query)?;
            query.query_row(keys, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        })?;
        // A row that is wrong is named by whoever is asked next.
        found.map(FileRow::try_from).transpose().ok()
    }

    fn look<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = kept.map_or_else(|| connect(&self.file), Ok).ok()?;
        let seen = look(&connection).ok()?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        Some(seen)
    }
}

/// A connection that writes nothing. Were it for reading only, and the last to be closed, the log would stay.
pub(super) fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// As many as look at once on a large machine.
const IDLE_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::SqliteCatalog;
    use super::*;
    use crate::catalog::Catalog as _;

    #[tokio::test]
    async fn it_answers_at_once_sees_the_last_write_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.db");
        let catalog = SqliteCatalog::open(&file).await.unwrap();
        let chunk = ChunkHash::of(b"chunk");
        assert_eq!(catalog.peek_chunk(&Reach::All("ann/repo".parse().unwrap()), chunk), Some(false));
        assert_eq!(catalog.peek_file(&"ann/repo".parse().unwrap(), FileHash::ZERO), Some(None));
        let insert = "INSERT INTO dedup (chunk, namespace, repo, xorb, chunk_index) VALUES (?1, 'ann', 'repo', x'00', 0)";
        let insert = sqlx::query(insert).bind(chunk.as_bytes().as_slice());
        insert.execute(&catalog.writes).await.unwrap();
        assert_eq!(catalog.peek_chunk(&Reach::All("ann/repo".parse().unwrap()), chunk), Some(true));
        assert_eq!(catalog.peek_chunk(&Reach::Namespace("bob/repo".parse().unwrap()), chunk), Some(false));
        let refused = catalog.direct.look(|connection| connection.execute("DELETE FROM dedup", []));
        let all = Reach::All("ann/repo".parse().unwrap());
        assert_eq!((refused, catalog.peek_chunk(&all, chunk)), (None, Some(true)));
        let all: Vec<_> = (0..20).map(|_| connect(&file).unwrap()).collect();
        catalog.direct.idle.lock().unwrap().extend(all.into_iter().take(IDLE_MAX));
        assert_eq!(catalog.peek_chunk(&Reach::All("ann/repo".parse().unwrap()), chunk), Some(true));
        assert!(catalog.direct.idle.lock().unwrap().len() <= IDLE_MAX + 1);
        // Closed, it leaves one file and no log.
        let SqliteCatalog { writes, reads, direct, .. } = catalog;
        writes.close().await;
        reads.close().await;
        drop(direct);
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["catalog.db"]);
    }

    #[test]
    fn without_a_database_it_knows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let direct = Direct::new(&folder.path().join("none.db"));
        assert_eq!(direct.chunk(&Reach::All("ann/repo".parse().unwrap()), ChunkHash::of(b"chunk")), None);
        assert!(!folder.path().join("none.db").exists(), "looking makes no file");
    }
}

//! Sizes of repositories, measured when a page shows them and they may have changed.

use crate::access::Scope;
use crate::db::Catalog;
use crate::db::batch::BATCH_ROWS;
use crate::db::row::{FromRow, Row};
use crate::db::sql::{Sql, Value};
use crate::error::Result;
use crate::hub::Hub;
use crate::hub::rows::{REPO_COLUMNS, RepoRow};
use crate::ids::RepoId;

impl Hub {
    /// Measures the repositories that changed since they were last measured; returns how many. While another task of this
    /// process does, there is nothing to do.
    pub async fn measure_repos(&self) -> Result<u64> {
        let Ok(_only) = self.measuring.try_lock() else { return Ok(0) };
        let mut measured = 0;
        loop {
            let now_s = self.clock.now_s();
            // Sweep takes files away and changes nothing else: old measures are taken again.
            let repos = unmeasured(&self.db, now_s.saturating_sub(OLD_S), AT_ONCE).await?;
            measure(&self.db, &repos, now_s).await?;
            measured += repos.len() as u64;
            // What changed in this very second is still unmeasured, and would be for ever in this loop.
            let is_new = repos.iter().any(|repo| repo.updated_s >= now_s);
            if (repos.len() as u64) < AT_ONCE || is_new {
                return Ok(measured);
            }
        }
    }
}

const AT_ONCE: u64 = 200;

const OLD_S: u64 = 24 * 3600;

/// Repositories that changed since they were measured, or were last measured before `before_s`.
pub(crate) async fn unmeasured(db: &Catalog, before_s: u64, limit: u64) -> Result<Vec<RepoRow>> {
    let columns = REPO_COLUMNS.replace(", ", ", r.");
    let select = format!(
        "SELECT r.{columns} FROM repos r LEFT JOIN repo_sizes s ON s.repo = r.id \
        WHERE r.reclaim_s IS NULL \
        AND (s.measured_s IS NULL OR s.measured_s <= r.updated_s OR s.measured_s < $1) \
        ORDER BY r.updated_s DESC, r.id LIMIT $2"
    );
    db.read("find repositories to measure", Sql::new(select).bind(before_s).bind(limit)).await
}

/// Measures these repositories.
pub(crate) async fn measure(db: &Catalog, repos: &[RepoRow], now_s: u64) -> Result<()> {
    let mut sizes = Vec::with_capacity(repos.len());
    for repo in repos {
        sizes.push((repo.id, measured(db, repo.id, &repo.scope()?).await?));
    }
    for sizes in sizes.chunks(BATCH_ROWS) {
        db.write_serializable("record the size of repositories", |mut tx| async move {
            let rows = sizes.iter().map(|(repo, size)| {
                let RepoSize { files, logical_bytes, stored_bytes } = *size;
                let repo = Value::from(*repo);
                [repo, now_s.into(), files.into(), logical_bytes.into(), stored_bytes.into()]
            });
            let insert = "INSERT INTO repo_sizes \
                    (repo, measured_s, files, logical_bytes, stored_bytes) VALUES $1 \
                    ON CONFLICT (repo) DO UPDATE SET measured_s = excluded.measured_s, \
                    files = excluded.files, logical_bytes = excluded.logical_bytes, \
                    stored_bytes = excluded.stored_bytes";
            tx.run(Sql::new(insert).rows(rows)).await?;
            tx.commit().await
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn measured(db: &Catalog, repo: RepoId, scope: &Scope) -> Result<RepoSize> {
    let what = "measure a repository";
    let files = "SELECT COUNT(*), CAST(COALESCE(SUM(f.file_bytes), 0) AS BIGINT) FROM repo_files u \
        JOIN files f ON f.hash = u.file WHERE u.namespace = $1 AND u.repo = $2";
    let files = Sql::new(files).bind(scope.namespace()).bind(scope.repo());
    let (files, bytes): (u64, u64) = db.read_one(what, files).await?.unwrap_or_default();
    let stored = "SELECT CAST(COALESCE(SUM(x.object_bytes), 0) AS BIGINT) FROM repo_xorbs u \
        JOIN xorbs x ON x.hash = u.xorb \
        WHERE u.namespace = $1 AND u.repo = $2 AND x.state NOT IN (2, 3)";
    let stored = Sql::new(stored).bind(scope.namespace()).bind(scope.repo());
    let stored: u64 = db.read_one(what, stored).await?.unwrap_or_default();
    let blobs = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM git_objects \
        WHERE repo = $1 AND kind = 3 AND file IS NULL";
    let blobs: u64 = db.read_one(what, Sql::new(blobs).bind(repo)).await?.unwrap_or_default();
    Ok(RepoSize {
        files,
        logical_bytes: bytes.saturating_add(blobs),
        stored_bytes: stored.saturating_add(blobs),
    })
}

/// What a repository has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepoSize {
    /// Large files, every version of each.
    pub files: u64,
    /// Bytes of those and of small files.
    pub logical_bytes: u64,
    /// Bytes of the objects they lie in. What several repositories use counts in each.
    pub stored_bytes: u64,
}

impl FromRow for RepoSize {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            files: row.number("count")?,
            logical_bytes: row.number("bytes")?,
            stored_bytes: row.number("bytes")?,
        })
    }
}

//! Git objects of repositories, the history of commits, and the large files that pointers stand for.

use std::collections::HashSet;

use xet::{FileHash, Sha256};

use super::{GIT_COLUMNS, GitRow, LinkedFile, REPO_COLUMNS, RepoCatalog, RepoRow, history_statement};
use crate::access::Scope;
use crate::catalog::{BATCH_ROWS, unique};
use crate::db::{Sql, Tx, Value, integer};
use crate::error::{ErrorKind, Result};
use crate::repo::RepoId;
use crate::repo::oid::Oid;

impl RepoCatalog {
    /// Adds git objects; those that are there stay. Adds none, and returns `false`, if the repository is gone or has no
    /// right to a file that one stands for.
    pub async fn add_git_objects(&self, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<bool> {
        self.db
            .write("add git objects", |mut tx| async move {
                // Sweep of this repository waits here, or this waits for it.
                let update =
                    Sql::new(format!("UPDATE repos SET swept = -1 WHERE id = $1 RETURNING {REPO_COLUMNS}"));
                let Some(found) = tx.row::<RepoRow>(update.bind(repo)).await? else { return Ok(false) };
                let scope = found.scope().map_err(|error| error.with_kind(ErrorKind::Corrupt))?;
                if !has_files(&mut tx, &scope, rows).await? {
                    return Ok(false);
                }
                insert_objects(&mut tx, repo, rows, now_s).await?;
                tx.commit().await?;
                Ok(true)
            })
            .await
    }

    /// These git objects; unknown ones are left out.
    pub async fn git_objects(&self, repo: RepoId, oids: &[Oid]) -> Result<Vec<GitRow>> {
        let mut oids = oids.to_vec();
        oids.sort_unstable();
        oids.dedup();
        // Each is looked up by its key. With `IN`, SQLite would rather read all of the repository.
        let query = format!(
            "SELECT {GIT_COLUMNS} FROM list($1) CROSS JOIN git_objects WHERE oid = list.value AND repo = $2"
        );
        let mut found = Vec::new();
        for oids in oids.chunks(BATCH_ROWS) {
            let query = short_if_few(Sql::new(query.as_str()).list(oids).bind(repo), oids.len());
            found.extend(self.db.read::<GitRow>("find git objects", query).await?);
        }
        Ok(found)
    }

    /// Commits from this one back through first parents, without the first `skip`, at most `limit`.
    pub async fn history(&self, repo: RepoId, from: Oid, skip: u64, limit: u64) -> Result<Vec<GitRow>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let last = skip.saturating_add(limit - 1);
        let columns = format!("g.{}", GIT_COLUMNS.replace(", ", ", g."));
        let query = Sql::new(history_statement(&columns)).bind(repo).bind(from).bind(skip).bind(last);
        self.db.read("walk the history", query).await
    }

    /// The files registered in `scope` under these digests, with their lengths, in the order of digest and file hash. Only
    /// digests that were computed from the bytes count: see
    /// [`CareCatalog::digest_claims`](crate::catalog::CareCatalog::digest_claims).
    pub async fn linked_files(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<LinkedFile>> {
        let mut found = Vec::new();
        for digests in unique(digests).chunks(BATCH_ROWS) {
            let query = Sql::new(
                "SELECT s.sha256, s.file, f.file_bytes FROM repo_sha256s s JOIN files f ON f.hash = s.file \
                 JOIN repo_files r ON r.namespace = s.namespace AND r.repo = s.repo AND r.file = s.file \
                 AND r.sha256 = s.sha256 WHERE s.namespace = $1 AND s.repo = $2 AND s.sha256 IN $3 \
                 ORDER BY s.sha256, s.file",
            );
            let query = query.bind(scope.namespace()).bind(scope.repo()).list(digests.iter().copied());
            let query = short_if_few(query, digests.len());
            found.extend(self.db.read::<LinkedFile>("find files by digest", query).await?);
        }
        Ok(found)
    }
}

/// Looks few keys up without changing threads.
fn short_if_few(query: Sql<'_>, keys: usize) -> Sql<'_> {
    if keys <= SHORT_KEYS_MAX { query.short() } else { query }
}

const SHORT_KEYS_MAX: usize = 32;

/// Adds git objects, and their bytes to the size of the repository.
pub(super) async fn insert_objects(tx: &mut Tx, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<()> {
    // Sorted, because two transactions that lock rows in one order cannot wait for each other.
    let mut rows: Vec<&GitRow> = rows.iter().collect();
    rows.sort_unstable_by_key(|row| row.oid);
    rows.dedup_by_key(|row| row.oid);
    let insert = format!(
        "INSERT INTO git_objects (repo, {GIT_COLUMNS}, touched_s) VALUES $1 \
         ON CONFLICT DO NOTHING RETURNING oid"
    );
    let mut new_bytes = 0;
    for rows in rows.chunks(OBJECT_BATCH_ROWS) {
        let values = rows.iter().map(|row| values(repo, row, now_s));
        let added: Vec<Oid> = tx.rows(Sql::new(insert.as_str()).rows(values)).await?;
        let added: HashSet<Oid> = added.into_iter().collect();
        let (new, old): (Vec<&GitRow>, Vec<&GitRow>) =
            rows.iter().copied().partition(|row| added.contains(&row.oid));
        new_bytes += new.into_iter().map(|row| integer(row.bytes)).sum::<i64>();
        if !old.is_empty() {
            // One that is there stays, and sweep lets it live a while longer.
            let touch = Sql::new("UPDATE git_objects SET touched_s = $1 WHERE repo = $2 AND oid IN $3");
            tx.run(touch.bind(now_s).bind(repo).list(old.into_iter().map(|row| &row.oid))).await?;
        }
    }
    let update = Sql::new("UPDATE repos SET git_bytes = git_bytes + $1 WHERE id = $2");
    tx.run(update.bind(new_bytes).bind(repo)).await?;
    Ok(())
}

/// A row of `git_objects`: the repository, [`GIT_COLUMNS`], and when it was last touched.
fn values(repo: RepoId, row: &GitRow, now_s: u64) -> [Value<'_>; 13] {
    [
        repo.into(),
        (&row.oid).into(),
        i64::from(row.kind.number()).into(),
        row.bytes.into(),
        row.body.as_ref().into(),
        (&row.bundle).into(),
        row.offset.into(),
        row.parent.into(),
        row.depth.into(),
        row.linked.map(|linked| linked.sha256).into(),
        row.linked.map(|linked| linked.bytes).into(),
        row.linked.map(|linked| linked.file).into(),
        now_s.into(),
    ]
}

/// Whether the repository may read all files that these pointers stand for.
async fn has_files(tx: &mut Tx, scope: &Scope, rows: &[GitRow]) -> Result<bool> {
    let files: Vec<FileHash> = rows.iter().filter_map(|row| Some(row.linked?.file)).collect();
    for files in unique(&files).chunks(BATCH_ROWS) {
        let query =
            Sql::new("SELECT COUNT(*) FROM repo_files WHERE namespace = $1 AND repo = $2 AND file IN $3");
        let query = query.bind(scope.namespace()).bind(scope.repo()).list(files.iter().copied());
        let count: u64 = tx.row(query).await?.unwrap_or(0);
        if usize::try_from(count).unwrap_or(0) < files.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Rows of `git_objects` in one statement: fewer than of other tables, they are wide.
const OBJECT_BATCH_ROWS: usize = 500;

//! Git objects of repositories: rows, bodies from the catalog or the bundle they came in, parsed trees.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xet::FileHash;

use crate::access::Scope;
use crate::db::batch::{BATCH_ROWS, short_if_few, unique};
use crate::db::sql::{Sql, Value, integer};
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::rows::{GIT_COLUMNS, GitRow, REPO_COLUMNS, RepoRow};
use crate::hub::tree::{self, Tree};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::objects::key::ObjectKey;

/// The largest file that is kept as a blob; a larger one is uploaded to the content store.
pub const BLOB_BYTES_MAX: u64 = 10 * 1024 * 1024;

impl Hub {
    /// One git object that must be there.
    pub(crate) async fn git_object(&self, repo: RepoId, oid: Oid, kind: ObjectKind) -> Result<GitRow> {
        let rows = git_objects(&self.db, repo, &[oid]).await?;
        let row = rows.into_iter().find(|row| row.kind == kind);
        let message = || format!("no {} {oid} in repository {repo}", kind.name());
        row.ok_or_else(|| Error::new(ErrorKind::NotFound, message()))
    }

    /// The bytes of a git object. Those of a pointer are the pointer, not the file.
    pub async fn git_body(&self, repo: RepoId, row: &GitRow) -> Result<Bytes> {
        let body = match &row.body {
            Some(body) => Bytes::copy_from_slice(body),
            None => {
                let key = ObjectKey::Bundle { repo, commit: row.bundle };
                self.objects.range(&key, row.offset..row.offset + row.bytes).await?
            }
        };
        // Bundles are read far from where they were written: a wrong byte shall not leave here.
        let (kind, checked) = (row.kind, body.clone());
        if self.workers.run(move || Oid::of(kind, &checked)).await? != row.oid {
            return Err(Error::new(ErrorKind::Corrupt, format!("git object {} is not what it was", row.oid)));
        }
        Ok(body)
    }

    /// A folder.
    pub(crate) async fn tree_object(&self, repo: RepoId, oid: Oid) -> Result<Arc<Tree>> {
        let load = async {
            let row = self.git_object(repo, oid, ObjectKind::Tree).await?;
            let body = self.git_body(repo, &row).await?;
            // A folder of 100,000 files is some megabytes: parsed on an async thread it would stall other requests.
            let tree = match body.len() > PARSED_HERE_BYTES_MAX {
                true => self.workers.run(move || Tree::parse(&body)).await??,
                false => Tree::parse(&body)?,
            };
            Ok(Arc::new(tree))
        };
        let loaded = self.trees.try_get_with((repo, oid), load).await;
        // The one error is shared by all who waited for the read.
        loaded.map_err(|error: Arc<Error>| Error::new(error.kind(), error.to_string()))
    }
}

/// A longer tree is parsed on another thread.
const PARSED_HERE_BYTES_MAX: usize = 64 * 1024;

/// Walks from commit `$2` of repository `$1` to the first parents, from the `$3`th to the `$4`th; `g` has the columns.
///
/// Line by line: joined as it likes, SQLite reads the whole repository and looks each object up in the line.
pub(crate) fn history_statement(columns: &str) -> String {
    format!(
        "WITH RECURSIVE line (oid, parent, n) AS ( \
            SELECT oid, parent, CAST(0 AS BIGINT) FROM git_objects WHERE repo = $1 AND oid = $2 \
            UNION ALL \
            SELECT p.oid, p.parent, line.n + 1 FROM line CROSS JOIN git_objects p \
                WHERE p.repo = $1 AND p.oid = line.parent AND line.n < $4 \
         ) SELECT {columns} FROM line CROSS JOIN git_objects g WHERE g.repo = $1 AND g.oid = line.oid \
         AND line.n >= $3 AND line.n <= $4 ORDER BY line.n"
    )
}

/// Adds git objects; existing ones stay. Adds none, and returns `false`, if the repository is gone or has no
/// right to a file that one stands for.
pub(crate) async fn add_git_objects(db: &Catalog, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<bool> {
    db.write("add git objects", |mut tx| async move {
        // Sweep of this repository waits here, or this waits for it.
        let update = Sql::new(format!("UPDATE repos SET swept = -1 WHERE id = $1 RETURNING {REPO_COLUMNS}"));
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
pub(crate) async fn git_objects(db: &Catalog, repo: RepoId, oids: &[Oid]) -> Result<Vec<GitRow>> {
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
        found.extend(db.read::<GitRow>("find git objects", query).await?);
    }
    Ok(found)
}

/// Commits from this one back through first parents, without the first `skip`, at most `limit`.
pub(crate) async fn history(
    db: &Catalog,
    repo: RepoId,
    from: Oid,
    skip: u64,
    limit: u64,
) -> Result<Vec<GitRow>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let last = skip.saturating_add(limit - 1);
    let columns = format!("g.{}", GIT_COLUMNS.replace(", ", ", g."));
    let query = Sql::new(history_statement(&columns)).bind(repo).bind(from).bind(skip).bind(last);
    db.read("walk the history", query).await
}

/// Adds git objects, and their bytes to the size of the repository.
pub(crate) async fn insert_objects(tx: &mut Tx, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<()> {
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
            // An existing one stays, and its grace starts anew.
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

/// Cache of parsed trees.
pub(crate) type Trees = moka::future::Cache<(RepoId, Oid), Arc<Tree>>;

pub(crate) fn trees() -> Trees {
    let weigh = |_: &(RepoId, Oid), tree: &Arc<Tree>| {
        let entry = |entry: &tree::Entry| entry.name.len() + 80;
        u32::try_from(tree.entries().iter().map(entry).sum::<usize>()).unwrap_or(u32::MAX).saturating_add(200)
    };
    let cache = moka::future::Cache::builder().max_capacity(TREES_BYTES_MAX).weigher(weigh);
    cache.time_to_idle(TREES_IDLE).build()
}

/// How long a tree that nobody reads stays in memory: each commit replaces some, and the old ones are rarely read again.
const TREES_IDLE: Duration = Duration::from_secs(300);

/// Bytes of parsed trees to keep in memory.
const TREES_BYTES_MAX: u64 = 64 * 1024 * 1024;

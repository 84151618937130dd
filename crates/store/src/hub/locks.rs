//! Locks: a user works on a file and would like others not to. Clients check before they push; nothing is enforced.

use crate::db::Catalog;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::tree::parse_path;
use crate::ids::RepoId;

impl Hub {
    /// Locks of paths, in the order of the paths.
    pub async fn locks(&self, repo: RepoId, query: &LockQuery) -> Result<Vec<LockRow>> {
        locks(&self.db, repo, query).await
    }

    /// Removes a lock; returns whether there was one of this id.
    pub async fn remove_lock(&self, repo: RepoId, id: &str) -> Result<bool> {
        remove_lock(&self.db, repo, id).await
    }

    /// Locks a path for a user; returns the lock it has, and whether that is new.
    pub async fn lock_path(&self, repo: RepoId, path: &str, owner: &str) -> Result<(LockRow, bool)> {
        parse_path(path)?;
        let row = LockRow {
            path: path.to_owned(),
            id: RepoId::random()?.to_string(),
            owner: owner.to_owned(),
            created_s: self.clock.now_s(),
        };
        let there = add_lock(&self.db, repo, &row).await?;
        let is_new = there.id == row.id;
        Ok((there, is_new))
    }
}

/// Adds a lock, unless the path has one; returns the one it has.
pub(crate) async fn add_lock(db: &Catalog, repo: RepoId, row: &LockRow) -> Result<LockRow> {
    let insert = Sql::new(
        "INSERT INTO locks (repo, path, id, owner, created_s) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT DO NOTHING",
    );
    let insert = insert.bind(repo).bind(&row.path).bind(&row.id).bind(&row.owner).bind(row.created_s);
    if db.write_one("add a lock", insert).await?.changed > 0 {
        return Ok(row.clone());
    }
    let query = LockQuery { path: Some(row.path.clone()), limit: 1, ..LockQuery::default() };
    let there = locks(db, repo, &query).await?.into_iter().next();
    // Unlocked between insert and read: the caller tries again.
    there.ok_or_else(|| Error::new(ErrorKind::Unavailable, "catalog: a lock came and went"))
}

/// Locks in the order of their paths.
pub(crate) async fn locks(db: &Catalog, repo: RepoId, query: &LockQuery) -> Result<Vec<LockRow>> {
    let mut select = Sql::new(format!("SELECT {LOCK_COLUMNS} FROM locks WHERE repo = "));
    select.push_bind(repo);
    for (condition, value) in
        [(" AND path = ", &query.path), (" AND id = ", &query.id), (" AND path > ", &query.after)]
    {
        if let Some(value) = value {
            select.push(condition).push_bind(value);
        }
    }
    select.push(" ORDER BY path LIMIT ").push_bind(query.limit);
    db.read("list locks", select).await
}

/// Removes a lock; returns whether it was there.
pub(crate) async fn remove_lock(db: &Catalog, repo: RepoId, id: &str) -> Result<bool> {
    let delete = Sql::new("DELETE FROM locks WHERE repo = $1 AND id = $2").bind(repo).bind(id);
    Ok(db.write_one("remove a lock", delete).await?.changed > 0)
}

/// A lock on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// The file.
    pub path: String,
    /// Names the lock.
    pub id: String,
    /// Who.
    pub owner: String,
    /// Since when, Unix seconds.
    pub created_s: u64,
}

/// Which locks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockQuery {
    /// Of this path.
    pub path: Option<String>,
    /// Of this name.
    pub id: Option<String>,
    /// After this path.
    pub after: Option<String>,
    /// Maximum number of results.
    pub limit: u64,
}

/// The columns of a [`LockRow`].
const LOCK_COLUMNS: &str = "path, id, owner, created_s";

impl FromRow for LockRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (path, id, owner) = (row.text("path")?, row.text("lock id")?, row.text("owner of a lock")?);
        Ok(Self { path, id, owner, created_s: row.number("time created")? })
    }
}

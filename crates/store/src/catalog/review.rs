//! Pull requests and locks: what people agree on before a file changes.

use super::repo::RepoCatalog;
use crate::db::{FromRow, Row, Sql};
use crate::error::{Error, ErrorKind, Result};
use crate::repo::RepoId;
use crate::repo::oid::Oid;

impl RepoCatalog {
    /// Adds a pull request under the next free number, which is returned; the row's own number is ignored.
    pub async fn add_pull(&self, repo: RepoId, row: &PullRow) -> Result<u64> {
        let mut tries = 0;
        loop {
            let insert = Sql::new(
                "INSERT INTO pulls (repo, number, title, description, author, created_s) \
                 SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5 FROM pulls WHERE repo = $1 \
                 ON CONFLICT DO NOTHING RETURNING number",
            );
            let insert = insert
                .bind(repo)
                .bind(&row.title)
                .bind(&row.description)
                .bind(&row.author)
                .bind(row.created_s);
            let done = self.db.write_one("add a pull request", insert).await?;
            if let Some(mut added) = done.rows.into_iter().next() {
                return added.number("number of a pull request");
            }
            // Another writer took the number: the next try finds another.
            tries += 1;
            if tries > 100 {
                let message = "catalog: too many pull requests at once";
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
        }
    }

    /// The pull requests of these numbers; unknown ones are left out.
    pub async fn pulls(&self, repo: RepoId, numbers: &[u64]) -> Result<Vec<PullRow>> {
        let query = format!("SELECT {PULL_COLUMNS} FROM pulls WHERE repo = $1 AND number = $2");
        let mut found = Vec::new();
        for number in numbers {
            let query = Sql::new(query.as_str()).bind(repo).bind(*number).short();
            let row: Option<PullRow> = self.db.read_one("find a pull request", query).await?;
            found.extend(row);
        }
        Ok(found)
    }

    /// Pull requests that a query asks for, the newest first, and how many there are on all pages.
    pub async fn list_pulls(&self, repo: RepoId, query: &PullQuery) -> Result<(Vec<PullRow>, u64)> {
        let select = |what: &str| {
            let mut sql = Sql::new(format!("SELECT {what} FROM pulls WHERE repo = "));
            sql.push_bind(repo);
            if let Some(is_open) = query.is_open {
                sql.push(" AND CASE WHEN state = 0 THEN 1 ELSE 0 END = ").push_bind(is_open);
            }
            if let Some(author) = &query.author {
                sql.push(" AND author = ").push_bind(author);
            }
            sql
        };
        let count: Option<u64> = self.db.read_one("list pull requests", select("COUNT(*)")).await?;
        let mut page = select(PULL_COLUMNS);
        page.push(" ORDER BY number DESC LIMIT ").push_bind(query.limit);
        page.push(" OFFSET ").push_bind(query.skip);
        Ok((self.db.read("list pull requests", page).await?, count.unwrap_or(0)))
    }

    /// Sets the state of a pull request; returns whether it was not merged before.
    pub async fn set_pull(&self, repo: RepoId, number: u64, state: PullState) -> Result<bool> {
        let update = Sql::new(
            "UPDATE pulls SET state = $1, merged = $2 WHERE repo = $3 AND number = $4 AND merged IS NULL",
        );
        let update = update.bind(state.number()).bind(state.merged()).bind(repo).bind(number);
        Ok(self.db.write_one("change a pull request", update).await?.changed > 0)
    }

    /// Adds a lock, unless the path has one; returns the one it has.
    pub async fn add_lock(&self, repo: RepoId, row: &LockRow) -> Result<LockRow> {
        let insert = Sql::new(
            "INSERT INTO locks (repo, path, id, owner, created_s) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT DO NOTHING",
        );
        let insert = insert.bind(repo).bind(&row.path).bind(&row.id).bind(&row.owner).bind(row.created_s);
        if self.db.write_one("add a lock", insert).await?.changed > 0 {
            return Ok(row.clone());
        }
        let query = LockQuery { path: Some(row.path.clone()), limit: 1, ..LockQuery::default() };
        let there = self.locks(repo, &query).await?.into_iter().next();
        // Unlocked between insert and read: the caller tries again.
        there.ok_or_else(|| Error::new(ErrorKind::Unavailable, "catalog: a lock came and went"))
    }

    /// Locks in the order of their paths.
    pub async fn locks(&self, repo: RepoId, query: &LockQuery) -> Result<Vec<LockRow>> {
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
        self.db.read("list locks", select).await
    }

    /// Removes a lock; returns whether it was there.
    pub async fn remove_lock(&self, repo: RepoId, id: &str) -> Result<bool> {
        let delete = Sql::new("DELETE FROM locks WHERE repo = $1 AND id = $2").bind(repo).bind(id);
        Ok(self.db.write_one("remove a lock", delete).await?.changed > 0)
    }
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRow {
    /// Counted from 1 in each repository.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// Who opened it.
    pub author: String,
    /// When, Unix seconds.
    pub created_s: u64,
    /// What became of it.
    pub state: PullState,
}

/// What became of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullState {
    /// Nothing yet.
    Open,
    /// Somebody decided against it; it can be opened again.
    Closed,
    /// It is in this commit.
    Merged(Oid),
}

impl PullState {
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Closed => 1,
            Self::Merged(_) => MERGED,
        }
    }

    /// The commit that it was merged into.
    pub(crate) const fn merged(self) -> Option<Oid> {
        match self {
            Self::Merged(oid) => Some(oid),
            Self::Open | Self::Closed => None,
        }
    }
}

const MERGED: i64 = 2;

/// Pull requests to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullQuery {
    /// Only open ones, or with `false` only closed and merged ones.
    pub is_open: Option<bool>,
    /// Only those that this user opened.
    pub author: Option<String>,
    /// Number of rows to leave out.
    pub skip: u64,
    /// At most this many.
    pub limit: u64,
}

/// Somebody works on a file.
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
    /// At most so many.
    pub limit: u64,
}

/// The columns of a [`PullRow`].
pub(crate) const PULL_COLUMNS: &str = "number, title, description, author, created_s, state, merged";

/// The columns of a [`LockRow`].
const LOCK_COLUMNS: &str = "path, id, owner, created_s";

impl FromRow for PullRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let number = row.number("number of a pull request")?;
        let title = row.text("title of a pull request")?;
        let description = row.text("description of a pull request")?;
        let author = row.text("author of a pull request")?;
        let created_s = row.number("time created")?;
        let state = row.signed("state of a pull request")?;
        let merged = row.optional_array("object id")?.map(Oid::new);
        let state = match (state, merged) {
            (0, None) => PullState::Open,
            (1, None) => PullState::Closed,
            (MERGED, Some(oid)) => PullState::Merged(oid),
            _ => {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "the catalog holds an impossible state of a pull request",
                ));
            }
        };
        Ok(Self { number, title, description, author, created_s, state })
    }
}

impl FromRow for LockRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (path, id, owner) = (row.text("path")?, row.text("lock id")?, row.text("owner of a lock")?);
        Ok(Self { path, id, owner, created_s: row.number("time created")? })
    }
}

//! Pull requests and locks: what people agree on before a file changes.

pub(in crate::catalog) mod statements;

use async_trait::async_trait;

use super::repo::oid_of;
use super::rows::number;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::RepoId;
use crate::repo::oid::Oid;

/// Pull requests and locks of repositories.
///
/// *Contract*: as for [`Catalog`](super::Catalog). A pull request that is merged stays so; a path has one lock.
#[async_trait]
pub trait Review: Send + Sync {
    /// Adds a pull request under the next free number, which is answered; the row's own number is not looked at.
    async fn add_pull(&self, repo: RepoId, row: &PullRow) -> Result<u64>;

    /// The pull requests of these numbers; unknown ones are left out.
    async fn pulls(&self, repo: RepoId, numbers: &[u64]) -> Result<Vec<PullRow>>;

    /// Pull requests that a query asks for, the newest first, and how many there are on all pages.
    async fn list_pulls(&self, repo: RepoId, query: &PullQuery) -> Result<(Vec<PullRow>, u64)>;

    /// Says what became of a pull request; tells whether it was not merged before.
    async fn set_pull(&self, repo: RepoId, number: u64, state: PullState) -> Result<bool>;

    /// Adds a lock, unless the path has one; answers with the one it has.
    async fn add_lock(&self, repo: RepoId, row: &LockRow) -> Result<LockRow>;

    /// Locks in the order of their paths.
    async fn locks(&self, repo: RepoId, query: &LockQuery) -> Result<Vec<LockRow>>;

    /// Removes a lock; tells whether it was there.
    async fn remove_lock(&self, repo: RepoId, id: &str) -> Result<bool>;
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

    pub(crate) fn merged(self) -> Option<Vec<u8>> {
        match self {
            Self::Merged(oid) => Some(oid.as_bytes().to_vec()),
            Self::Open | Self::Closed => None,
        }
    }
}

pub(crate) const MERGED: i64 = 2;

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

/// The columns of `pulls` after the repository, in the order of the table.
pub(crate) type PullColumns = (i64, String, String, String, i64, i64, Option<Vec<u8>>);

pub(crate) const PULL_COLUMNS: &str = "number, title, description, author, created_s, state, merged";

/// The columns of `locks` after the repository, in the order of the table.
pub(crate) type LockColumns = (String, String, String, i64);

pub(crate) const LOCK_COLUMNS: &str = "path, id, owner, created_s";

impl TryFrom<PullColumns> for PullRow {
    type Error = Error;

    fn try_from(
        (row_number, title, description, author, created, state, merged): PullColumns,
    ) -> Result<Self> {
        let state = match (state, merged) {
            (0, None) => PullState::Open,
            (1, None) => PullState::Closed,
            (MERGED, Some(oid)) => PullState::Merged(oid_of(oid)?),
            _ => {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "the catalog holds an impossible state of a pull request",
                ));
            }
        };
        let number_of = |column| number("number of a pull request", column);
        let created_s = number("time created", created)?;
        Ok(Self { number: number_of(row_number)?, title, description, author, created_s, state })
    }
}

impl TryFrom<LockColumns> for LockRow {
    type Error = Error;

    fn try_from((path, id, owner, created): LockColumns) -> Result<Self> {
        Ok(Self { path, id, owner, created_s: number("time created", created)? })
    }
}

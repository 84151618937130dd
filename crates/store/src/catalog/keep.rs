//! What whoever keeps a store asks of the catalog: quotas and usage, the audit log, and where refs were.
//!
//! Usage is kept as it changes: whatever adds or removes rows that count adds a line with the difference, in its own
//! transaction, so that no two writers wait for one number. Sweep folds the lines of a repository into one.

#[cfg(test)]
mod contract;
pub(in crate::catalog) mod statements;

use async_trait::async_trait;

use crate::access::Scope;
use crate::audit::Deed;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::oid::Oid;
use crate::repo::{RepoId, RepoName, is_name};

/// Quotas, usage, the audit log, and commits that refs have left.
///
/// *Contract*: as for [`Catalog`](super::Catalog). Usage counts what registrations, commits and sweeps that returned have
/// changed. What is noted in the audit log is never changed, only forgotten.
#[async_trait]
pub trait KeepCatalog: Send + Sync {
    /// All quotas, in the order of what they are for.
    async fn quotas(&self) -> Result<Vec<QuotaRow>>;

    /// Sets a quota, whatever it was.
    async fn set_quota(&self, row: &QuotaRow) -> Result<()>;

    /// Removes a quota; tells whether there was one.
    async fn remove_quota(&self, of: &QuotaOf) -> Result<bool>;

    /// What a namespace or repository takes. What is in the trash counts for its namespace.
    async fn usage(&self, of: &QuotaOf) -> Result<Usage>;

    /// Makes one line of usage of the many of each repository.
    async fn fold_usage(&self) -> Result<()>;

    /// Counts the usage of everything again. Nobody else may write meanwhile.
    async fn recount_usage(&self) -> Result<()>;

    /// Notes a deed that no other write is for.
    async fn note_deed(&self, deed: &Deed) -> Result<()>;

    /// Deeds, the newest first.
    async fn deeds(&self, query: &DeedQuery) -> Result<Vec<DeedRow>>;

    /// Forgets deeds before a time; tells how many.
    async fn forget_deeds(&self, before_s: u64) -> Result<u64>;

    /// Commits that refs of a repository have left and that are kept, those that go first first.
    async fn left(&self, repo: RepoId) -> Result<Vec<LeftRow>>;

    /// Notes that refs have left commits.
    async fn note_left(&self, repo: RepoId, rows: &[LeftRow]) -> Result<()>;

    /// Forgets what a repository need not keep any more; tells how many.
    async fn forget_left(&self, repo: RepoId, now_s: u64) -> Result<u64>;
}

/// What a quota is for. Prints as the namespace, or as the repository is called in the content store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaOf {
    /// All repositories of a namespace together.
    Namespace(String),
    /// One repository.
    Repo(Scope),
}

impl QuotaOf {
    /// Namespace and repository as columns; no repository is empty.
    pub(crate) fn columns(&self) -> (&str, &str) {
        match self {
            Self::Namespace(namespace) => (namespace, ""),
            Self::Repo(scope) => (scope.namespace(), scope.repo()),
        }
    }

    pub(crate) fn from_columns(namespace: String, repo: String) -> Result<Self> {
        match repo.is_empty() {
            true => Ok(Self::Namespace(namespace)),
            false => Ok(Self::Repo(Scope::new(namespace, repo)?)),
        }
    }
}

/// Reads what it prints: `ann`, `ann/model`, `datasets/ann/data`.
impl std::str::FromStr for QuotaOf {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.contains('/') {
            true => Ok(Self::Repo(RepoName::parse(text)?.scope()?)),
            false if is_name(text) => Ok(Self::Namespace(text.to_owned())),
            false => {
                Err(Error::new(ErrorKind::Invalid, format!("neither namespace nor repository: {text:.80?}")))
            }
        }
    }
}

impl std::fmt::Display for QuotaOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace(namespace) => f.write_str(namespace),
            Self::Repo(scope) => {
                let name = scope.repo();
                match name.strip_prefix("models/") {
                    Some(name) => write!(f, "{}/{name}", scope.namespace()),
                    None => match name.split_once('/') {
                        Some((kind, name)) => write!(f, "{kind}/{}/{name}", scope.namespace()),
                        None => scope.fmt(f),
                    },
                }
            }
        }
    }
}

/// A limit that warns and one that refuses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Above this there is a warning.
    pub soft: Option<u64>,
    /// What would go above this is refused.
    pub hard: Option<u64>,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |limit: Option<u64>| limit.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        write!(f, "{}/{}", text(self.soft), text(self.hard))
    }
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRow {
    /// What it is for.
    pub of: QuotaOf,
    /// Of the bytes that its files have.
    pub logical: Limit,
    /// Of the bytes that are stored for them.
    pub physical: Limit,
}

/// What is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all files and git objects, each once in a repository.
    pub logical_bytes: u64,
    /// Bytes of all objects these are stored in, each once in a repository: one that two repositories share counts twice.
    pub physical_bytes: u64,
}

/// Which deeds to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeedQuery {
    /// Not before this time, Unix seconds.
    pub since_s: u64,
    /// Older than the one of this number.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: u64,
    /// Only what was done to the store itself: sweeps and verifications.
    pub is_upkeep: bool,
}

/// A deed that was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeedRow {
    /// Counts up.
    pub id: u64,
    /// When, Unix seconds.
    pub time_s: u64,
    /// By whom.
    pub who: String,
    /// In which request; empty for a command.
    pub request: String,
    /// What.
    pub deed: Deed,
}

/// A commit that a ref has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftRow {
    /// The commit.
    pub oid: Oid,
    /// The ref.
    pub name: String,
    /// When it left, Unix seconds.
    pub left_s: u64,
    /// Until when the commit is kept.
    pub reclaim_s: u64,
}

//! Administration of a store in the catalog: quotas and usage, the audit log, and the commits that refs have left.
//!
//! Usage is kept as it changes: whatever adds or removes rows that count adds a line with the difference, in its own
//! transaction, so that no two writers wait for one number. Sweep folds the lines of a repository into one.

#[cfg(test)]
mod contract;
mod quotas;

use crate::access::Scope;
use crate::audit::Deed;
use crate::db::{Db, FromRow, Row, Sql, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::repo::oid::Oid;
use crate::repo::{RepoId, RepoName, is_name};

/// Quotas, usage, the audit log, and commits that refs have left.
///
/// *Contract*: as for [`Catalog`](super::Catalog). Usage counts what registrations, commits and sweeps that returned have
/// changed. What is noted in the audit log is never changed, only deleted.
#[derive(Debug, Clone)]
pub struct KeepCatalog {
    pub(super) db: Db,
}

impl KeepCatalog {
    /// Notes a deed that no other write is for.
    pub async fn note_deed(&self, deed: &Deed) -> Result<()> {
        self.db
            .write("note a deed", |mut tx| async move {
                note(&mut tx, deed).await?;
                tx.commit().await
            })
            .await
    }

    /// Deeds, the newest first.
    pub async fn deeds(&self, query: &DeedQuery) -> Result<Vec<DeedRow>> {
        let select = "SELECT id, time_s, who, request, action, target, detail FROM audit \
            WHERE time_s >= $1 AND id < $2";
        let mut select = Sql::new(select).bind(query.since_s).bind(query.before.unwrap_or(u64::MAX));
        if query.is_upkeep {
            // Spelled as in the condition of the partial index, which is not used otherwise.
            select.push(" AND action IN ('sweep', 'verify')");
        }
        select.push(" ORDER BY id DESC LIMIT ").push_bind(query.limit);
        self.db.read("read the audit log", select).await
    }

    /// Deletes deeds before a time; returns how many.
    pub async fn forget_deeds(&self, before_s: u64) -> Result<u64> {
        let delete = Sql::new("DELETE FROM audit WHERE time_s < $1").bind(before_s);
        Ok(self.db.write_one("forget deeds", delete).await?.changed)
    }

    /// Commits that refs of a repository have left and that are kept, those that go first first.
    pub async fn left(&self, repo: RepoId) -> Result<Vec<LeftRow>> {
        let select = "SELECT oid, name, left_s, reclaim_s FROM reflog WHERE repo = $1 \
            ORDER BY reclaim_s, oid, name";
        self.db.read("look where refs were", Sql::new(select).bind(repo)).await
    }

    /// Notes that refs have left commits.
    pub async fn note_left(&self, repo: RepoId, rows: &[LeftRow]) -> Result<()> {
        self.db
            .write("note where refs were", |mut tx| async move {
                for row in rows {
                    leave(&mut tx, repo, row).await?;
                }
                tx.commit().await
            })
            .await
    }

    /// Deletes what a repository need not keep any more; returns how many.
    pub async fn forget_left(&self, repo: RepoId, now_s: u64) -> Result<u64> {
        let delete = "DELETE FROM reflog WHERE repo = $1 AND reclaim_s <= $2";
        let delete = Sql::new(delete).bind(repo).bind(now_s);
        Ok(self.db.write_one("forget where refs were", delete).await?.changed)
    }
}

/// Notes a deed within a transaction.
pub(super) async fn note(tx: &mut Tx, deed: &Deed) -> Result<()> {
    let (time_s, who, action, target, detail, request) = deed.columns();
    let insert = "INSERT INTO audit (time_s, who, action, target, detail, request) \
        VALUES ($1, $2, $3, $4, $5, $6)";
    let insert = Sql::new(insert).bind(time_s).bind(who).bind(action).bind(target).bind(detail).bind(request);
    tx.run(insert).await.map(|_| ())
}

/// Notes within a transaction that a ref has left a commit.
pub(super) async fn leave(tx: &mut Tx, repo: RepoId, row: &LeftRow) -> Result<()> {
    let insert = "INSERT INTO reflog (repo, oid, name, left_s, reclaim_s) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (repo, oid, name) DO UPDATE SET left_s = excluded.left_s, reclaim_s = excluded.reclaim_s";
    let insert = Sql::new(insert).bind(repo).bind(row.oid).bind(&row.name).bind(row.left_s);
    tx.run(insert.bind(row.reclaim_s)).await.map(|_| ())
}

/// Notes within a transaction that a repository takes more or less.
pub(super) async fn add_line(
    tx: &mut Tx,
    namespace: &str,
    repo: &str,
    logical_bytes: i64,
    physical_bytes: i64,
) -> Result<()> {
    if (logical_bytes, physical_bytes) == (0, 0) {
        return Ok(());
    }
    let insert = "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) VALUES ($1, $2, $3, $4)";
    let insert = Sql::new(insert).bind(namespace).bind(repo).bind(logical_bytes).bind(physical_bytes);
    tx.run(insert).await.map(|_| ())
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

impl FromRow for DeedRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (id, time_s) = (row.number("number")?, row.number("time")?);
        let (who, request) = (row.text("name of an actor")?, row.text("request")?);
        let (action, target, detail) = (row.text("action")?, row.text("target")?, row.text("detail")?);
        Ok(Self { id, time_s, who, request, deed: Deed { action, target, detail } })
    }
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

impl FromRow for LeftRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            oid: Oid::from_row(row)?,
            name: row.text("name of a ref")?,
            left_s: row.number("time")?,
            reclaim_s: row.number("time")?,
        })
    }
}

//! Quotas and the usage that they limit, in the catalog.
//!
//! Usage is updated as it changes: whatever adds or removes rows that count adds a line with the difference, in its own
//! transaction, so that no two writers wait for one number. Garbage collection folds the lines of a repository into one.

use crate::access::Scope;
use crate::audit::{AuditEvent, append_event};
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::names::{Kind, RepoName, is_name};

/// Records within a transaction that a repository takes more or less.
pub(crate) async fn add_line(
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

/// All quotas, in the order of what they are for.
pub(crate) async fn quotas(db: &Catalog) -> Result<Vec<QuotaRow>> {
    let select = "SELECT namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard \
        FROM quotas ORDER BY namespace, repo";
    db.read("list quotas", Sql::new(select)).await
}

/// Sets a quota, whatever it was.
pub(crate) async fn set_quota(db: &Catalog, row: &QuotaRow) -> Result<()> {
    db.write("set a quota", |mut tx| async move {
        let (namespace, repo) = row.of.columns();
        let set = "INSERT INTO quotas \
                (namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard) \
                VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (namespace, repo) DO UPDATE SET \
                logical_soft = excluded.logical_soft, logical_hard = excluded.logical_hard, \
                physical_soft = excluded.physical_soft, physical_hard = excluded.physical_hard";
        let set = Sql::new(set)
            .bind(namespace)
            .bind(repo)
            .bind(row.logical.soft)
            .bind(row.logical.hard)
            .bind(row.physical.soft)
            .bind(row.physical.hard);
        tx.run(set).await?;
        let detail = format!("logical {} physical {}", row.logical, row.physical);
        append_event(&mut tx, &AuditEvent::new("quota.set", row.of.to_string(), detail)).await?;
        tx.commit().await
    })
    .await
}

/// Removes a quota; returns whether there was one.
pub(crate) async fn remove_quota(db: &Catalog, of: &QuotaOf) -> Result<bool> {
    db.write("remove a quota", |mut tx| async move {
        let (namespace, repo) = of.columns();
        let delete = Sql::new("DELETE FROM quotas WHERE namespace = $1 AND repo = $2");
        let was_there = tx.run(delete.bind(namespace).bind(repo)).await? > 0;
        if was_there {
            append_event(&mut tx, &AuditEvent::new("quota.remove", of.to_string(), "")).await?;
        }
        tx.commit().await?;
        Ok(was_there)
    })
    .await
}

/// What a namespace or repository takes. What is in the trash counts for its namespace.
pub(crate) async fn usage(db: &Catalog, of: &QuotaOf) -> Result<Usage> {
    let what = "add up usage";
    let (namespace, repo) = of.columns();
    let mut lines = Sql::new(
        "SELECT CAST(COALESCE(SUM(logical_bytes), 0) AS BIGINT), \
        CAST(COALESCE(SUM(physical_bytes), 0) AS BIGINT) FROM usage WHERE namespace = $1",
    )
    .bind(namespace);
    let mut git = Sql::new(
        "SELECT CAST(COALESCE(SUM(git_bytes), 0) AS BIGINT), \
        CAST(COALESCE(SUM((SELECT SUM(p.bytes) FROM parts p WHERE p.repo = repos.id)), 0) AS BIGINT) \
        FROM repos WHERE namespace = $1",
    )
    .bind(namespace);
    // What no shard has registered yet takes room all the same.
    let mut uploads =
        Sql::new("SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM uploads WHERE namespace = $1")
            .bind(namespace);
    if let QuotaOf::Repo(_) = of {
        let (kind, name) = repo.split_once('/').unwrap_or(("", repo));
        let kind = Kind::ALL.into_iter().find(|known| known.plural() == kind);
        lines.push(" AND repo = ").push_bind(repo);
        git.push(" AND reclaim_s IS NULL AND kind = ").push_bind(kind.map_or(-1, Kind::number));
        git.push(" AND name = ").push_bind(name);
        uploads.push(" AND repo = ").push_bind(repo);
    }
    let (logical, physical): (i64, i64) = db.read_one(what, lines).await?.unwrap_or_default();
    let (git, parts): (i64, i64) = db.read_one(what, git).await?.unwrap_or_default();
    let uploads: i64 = db.read_one(what, uploads).await?.unwrap_or_default();
    let stored = physical.saturating_add(git).saturating_add(parts).saturating_add(uploads);
    // Never below zero, whatever a difference got wrong.
    let bytes = |sum: i64| u64::try_from(sum).unwrap_or(0);
    Ok(Usage { logical_bytes: bytes(logical.saturating_add(git)), physical_bytes: bytes(stored) })
}

/// Makes one line of usage of the many of each repository.
pub(crate) async fn fold_usage(db: &Catalog) -> Result<()> {
    let many = "SELECT namespace, repo FROM usage GROUP BY namespace, repo HAVING COUNT(*) > 1";
    let many: Vec<(String, String)> = db.read("look at usage", Sql::new(many)).await?;
    for (namespace, repo) in &many {
        db.write("fold usage", |mut tx| async move {
            let delete = "DELETE FROM usage WHERE namespace = $1 AND repo = $2 \
                    RETURNING logical_bytes, physical_bytes";
            let delete = Sql::new(delete).bind(namespace).bind(repo);
            let lines: Vec<(i64, i64)> = tx.rows(delete).await?;
            let logical = lines.iter().map(|line| line.0).sum();
            let physical = lines.iter().map(|line| line.1).sum();
            add_line(&mut tx, namespace, repo, logical, physical).await?;
            tx.commit().await
        })
        .await?;
    }
    Ok(())
}

/// Counts the usage of everything again. Nobody else may write meanwhile.
pub(crate) async fn recount_usage(db: &Catalog) -> Result<()> {
    db.write("count usage", |mut tx| async move {
        for statement in [
            "DELETE FROM usage",
            "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                    SELECT r.namespace, r.repo, SUM(f.file_bytes), 0 FROM repo_files r \
                    JOIN files f ON f.hash = r.file GROUP BY r.namespace, r.repo",
            "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                    SELECT r.namespace, r.repo, 0, SUM(x.object_bytes) FROM repo_xorbs r \
                    JOIN xorbs x ON x.hash = r.xorb GROUP BY r.namespace, r.repo",
            "UPDATE repos SET git_bytes = \
                    (SELECT COALESCE(SUM(g.bytes), 0) FROM git_objects g WHERE g.repo = repos.id)",
        ] {
            tx.run(Sql::new(statement)).await?;
        }
        tx.commit().await
    })
    .await
}

impl FromRow for QuotaRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (namespace, repo) = (row.text("namespace")?, row.text("repository")?);
        let mut bytes = || row.optional_number("bytes of a quota");
        Ok(Self {
            of: QuotaOf::from_columns(namespace, repo)?,
            logical: Limit { soft: bytes()?, hard: bytes()? },
            physical: Limit { soft: bytes()?, hard: bytes()? },
        })
    }
}

//! Lists for web pages: repositories with their sizes, in any order, and what dedup saves.
//!
//! Sizes are measured now and then and kept: a list must not add up files while a request waits for it.

use xet::FileHash;

use crate::access::Scope;
use crate::db::Catalog;
use crate::db::batch::like;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::Result;
use crate::hub::Hub;
use crate::hub::rows::RepoRow;
use crate::hub::sizes::RepoSize;
use crate::names::Kind;

impl Hub {
    /// A page of repositories with their sizes.
    pub async fn repo_page(&self, query: &BrowseQuery) -> Result<Vec<SizedRepo>> {
        repo_page(&self.db, query).await
    }

    /// How many repositories the query finds, and their sizes together.
    pub async fn repo_totals(&self, query: &BrowseQuery) -> Result<(u64, RepoSize)> {
        repo_totals(&self.db, query).await
    }

    /// The largest files, each with a repository that has it. `private_of` as in [`BrowseQuery`].
    pub async fn largest_files(
        &self,
        private_of: Option<&[String]>,
        limit: u64,
    ) -> Result<Vec<(FileHash, u64, Scope)>> {
        largest_files(&self.db, private_of, limit).await
    }

    /// What was added on each day: the day since 1970, bytes of files, bytes of xorbs.
    pub async fn growth(&self) -> Result<Vec<(u64, u64, u64)>> {
        growth(&self.db).await
    }

    /// Bytes that garbage collection will free, damage, and the time of the last verification.
    pub async fn maintenance_summary(&self) -> Result<MaintenanceSummary> {
        maintenance_summary(&self.db).await
    }
}

/// A page of repositories with their sizes.
pub(crate) async fn repo_page(db: &Catalog, query: &BrowseQuery) -> Result<Vec<SizedRepo>> {
    let mut select = Sql::new(
        "SELECT r.id, r.kind, r.namespace, r.name, r.private, r.created_s, r.updated_s, r.reclaim_s, \
        s.files, s.logical_bytes, s.stored_bytes \
        FROM repos r LEFT JOIN repo_sizes s ON s.repo = r.id WHERE r.reclaim_s IS NULL",
    );
    push_wanted(&mut select, query);
    select.push(match query.order {
        Order::Name => " ORDER BY r.namespace, r.name, r.kind",
        Order::Updated => " ORDER BY r.updated_s DESC, r.namespace, r.name, r.kind",
        Order::Size => " ORDER BY COALESCE(s.logical_bytes, -1) DESC, r.namespace, r.name, r.kind",
    });
    select.push(" LIMIT ").push_bind(query.limit).push(" OFFSET ").push_bind(query.skip);
    db.read("list repositories", select).await
}

/// How many repositories the query finds, and what they have together as far as they were measured.
pub(crate) async fn repo_totals(db: &Catalog, query: &BrowseQuery) -> Result<(u64, RepoSize)> {
    let mut select = Sql::new(
        "SELECT COUNT(*), CAST(COALESCE(SUM(s.files), 0) AS BIGINT), \
        CAST(COALESCE(SUM(s.logical_bytes), 0) AS BIGINT), \
        CAST(COALESCE(SUM(s.stored_bytes), 0) AS BIGINT) \
        FROM repos r LEFT JOIN repo_sizes s ON s.repo = r.id WHERE r.reclaim_s IS NULL",
    );
    push_wanted(&mut select, query);
    Ok(db.read_one("count repositories", select).await?.unwrap_or_default())
}

/// The largest files, each with a repository that has it.
pub(crate) async fn largest_files(
    db: &Catalog,
    private_of: Option<&[String]>,
    limit: u64,
) -> Result<Vec<(FileHash, u64, Scope)>> {
    // Of several repositories that have a file, the first by name is returned.
    let mut select = Sql::new(
        "SELECT f.hash, f.file_bytes, MIN(u.namespace || '/' || u.repo) FROM files f \
        JOIN repo_files u ON u.file = f.hash JOIN repos r ON r.namespace = u.namespace \
        AND u.repo = CASE r.kind WHEN 0 THEN 'models/' WHEN 1 THEN 'datasets/' ELSE 'spaces/' END || r.name \
        WHERE r.reclaim_s IS NULL",
    );
    push_visible(&mut select, private_of);
    select.push(" GROUP BY f.hash, f.file_bytes ORDER BY f.file_bytes DESC, f.hash LIMIT ");
    select.push_bind(limit);
    let rows: Vec<(FileHash, u64, String)> = db.read("find the largest files", select).await?;
    rows.into_iter().map(|(hash, bytes, scope)| Ok((hash, bytes, scope.parse::<Scope>()?))).collect()
}

/// What was added on each day on which something was: the day since 1970, bytes of files, bytes of xorbs.
pub(crate) async fn growth(db: &Catalog) -> Result<Vec<(u64, u64, u64)>> {
    let select = "SELECT day, CAST(SUM(logical) AS BIGINT), CAST(SUM(stored) AS BIGINT) FROM (\
        SELECT created_s / 86400 AS day, SUM(file_bytes) AS logical, 0 AS stored FROM files GROUP BY 1 \
        UNION ALL \
        SELECT created_s / 86400 AS day, 0 AS logical, SUM(object_bytes) AS stored FROM xorbs \
        WHERE state NOT IN (2, 3) GROUP BY 1) AS both_sides GROUP BY day ORDER BY day";
    db.read("count what came when", Sql::new(select)).await
}

/// What no file is made of, what is damaged, and when everything was last verified.
pub(crate) async fn maintenance_summary(db: &Catalog) -> Result<MaintenanceSummary> {
    let select = "SELECT \
        CAST(COALESCE(SUM(CASE WHEN state = 0 AND NOT EXISTS \
        (SELECT 1 FROM file_xorbs u WHERE u.xorb = x.hash) THEN object_bytes END), 0) AS BIGINT), \
        CAST(COALESCE(SUM(CASE WHEN state IN (1, 2) THEN object_bytes END), 0) AS BIGINT), \
        COUNT(CASE WHEN state = 4 THEN 1 END), \
        MIN(CASE WHEN state = 0 THEN verified_s END) FROM xorbs x";
    Ok(db.read_one("look for what is to do", Sql::new(select)).await?.unwrap_or_default())
}

/// Appends the conditions of a query on a row of `repos r`.
fn push_wanted<'a>(select: &mut Sql<'a>, query: &'a BrowseQuery) {
    if let Some(kind) = query.kind {
        select.push(" AND r.kind = ").push_bind(kind.number());
    }
    if let Some(search) = &query.search {
        let pattern = format!("%{}%", like(&search.to_lowercase()));
        select.push(" AND LOWER(r.namespace || '/' || r.name) LIKE ").push_bind(pattern).push(" ESCAPE '!'");
    }
    push_visible(select, query.private_of.as_deref());
}

/// Appends that a row of `repos r` is public or of one of these namespaces.
fn push_visible<'a>(select: &mut Sql<'a>, private_of: Option<&'a [String]>) {
    let Some(namespaces) = private_of else { return };
    select.push(" AND (r.private = 0");
    if !namespaces.is_empty() {
        select.push(" OR r.namespace IN ").push_list(namespaces);
    }
    select.push(")");
}

/// Which repositories, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowseQuery {
    /// Of this kind.
    pub kind: Option<Kind>,
    /// With this in `namespace/name`.
    pub search: Option<String>,
    /// Private ones of these namespaces besides all public ones; `None` for all.
    pub private_of: Option<Vec<String>>,
    /// What comes first.
    pub order: Order,
    /// Number of results to skip.
    pub skip: u64,
    /// Maximum number of results.
    pub limit: u64,
}

/// What comes first in a list of repositories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By name.
    Name,
    /// What changed last.
    #[default]
    Updated,
    /// What has the most bytes.
    Size,
}

/// A repository and what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizedRepo {
    /// The repository.
    pub row: RepoRow,
    /// Its size; `None` until it is measured.
    pub size: Option<RepoSize>,
}

/// The columns of the repository, then those of its size, which are missing until it was measured.
impl FromRow for SizedRepo {
    fn from_row(row: &mut Row) -> Result<Self> {
        let repo = RepoRow::from_row(row)?;
        let files = row.optional_number("count")?;
        let (logical, stored) = (row.optional_number("bytes")?, row.optional_number("bytes")?);
        let size = files.zip(logical).zip(stored);
        let size = size.map(|((files, logical_bytes), stored_bytes)| RepoSize {
            files,
            logical_bytes,
            stored_bytes,
        });
        Ok(Self { row: repo, size })
    }
}

/// What there is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaintenanceSummary {
    /// Bytes of live xorbs that no file is made of.
    pub unused_bytes: u64,
    /// Bytes of xorbs that wait for the end of their grace, or for their deletion.
    pub condemned_bytes: u64,
    /// Xorbs that are damaged.
    pub damaged_xorbs: u64,
    /// When the xorb that waits longest was last verified, Unix seconds.
    pub verified_s: Option<u64>,
}

impl FromRow for MaintenanceSummary {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            unused_bytes: row.number("bytes")?,
            condemned_bytes: row.number("bytes")?,
            damaged_xorbs: row.number("count")?,
            verified_s: row.optional_number("time verified")?,
        })
    }
}

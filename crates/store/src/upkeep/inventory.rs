//! Inventory: everything the catalog lists, page by page, and totals.

use crate::access::Scope;
use crate::content::rows::{FileRow, ShardRow, XORB_COLUMNS, XorbRow};
use crate::db::Catalog;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::rows::{REPO_COLUMNS, RepoRow};
use crate::ids::ObjectKind;
use crate::ids::{Oid, RepoId};
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Number of rows. Counts everything: not for every request.
    pub async fn counts(&self) -> Result<Counts> {
        counts(&self.db).await
    }

    /// The repositories with the most bytes in large files: number of files, bytes.
    pub async fn top_repos(&self, limit: u64) -> Result<Vec<(Scope, u64, u64)>> {
        top_repos(&self.db, limit).await
    }

    /// Bytes of large files, once for each repository that has them.
    pub async fn logical_bytes(&self) -> Result<u64> {
        logical_bytes(&self.db).await
    }
}

/// How many rows there are. Counts everything: not for every request.
pub(crate) async fn counts(db: &Catalog) -> Result<Counts> {
    let counts = db.read_one("count rows", Sql::new(COUNT_ROWS)).await?;
    counts.ok_or_else(|| Error::new(ErrorKind::Internal, "catalog: rows cannot be counted"))
}

const COUNT_ROWS: &str = "SELECT \
    (SELECT COUNT(*) FROM xorbs WHERE state NOT IN (2, 3)), \
    (SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM xorbs WHERE state NOT IN (2, 3)), \
    (SELECT CAST(COALESCE(SUM(raw_bytes), 0) AS BIGINT) FROM xorbs WHERE state NOT IN (2, 3)), \
    (SELECT COUNT(*) FROM files), \
    (SELECT CAST(COALESCE(SUM(file_bytes), 0) AS BIGINT) FROM files), \
    (SELECT COUNT(*) FROM repo_files), \
    (SELECT COUNT(*) FROM repo_sha256s), \
    (SELECT COUNT(*) FROM dedup), \
    (SELECT COUNT(*) FROM shards WHERE state NOT IN (2, 3))";

/// Xorbs that have an object, or should.
pub(crate) async fn xorb_page(db: &Catalog, after: &[u8], limit: u64) -> Result<Vec<XorbRow>> {
    let query = format!(
        "SELECT {XORB_COLUMNS} FROM xorbs WHERE state NOT IN (2, 3) AND hash > $1 ORDER BY hash LIMIT $2"
    );
    db.read("list xorbs", Sql::new(query).bind(after).bind(limit)).await
}

/// Shards that have an object, or should.
pub(crate) async fn shard_page(db: &Catalog, after: &[u8], limit: u64) -> Result<Vec<ShardRow>> {
    let query = "SELECT hash, object_bytes, created_s FROM shards WHERE state NOT IN (2, 3) \
        AND hash > $1 ORDER BY hash LIMIT $2";
    db.read("list shards", Sql::new(query).bind(after).bind(limit)).await
}

/// All files.
pub(crate) async fn file_page(db: &Catalog, after: &[u8], limit: u64) -> Result<Vec<FileRow>> {
    let query = "SELECT hash, layout, created_s FROM files WHERE hash > $1 ORDER BY hash LIMIT $2";
    db.read("list files", Sql::new(query).bind(after).bind(limit)).await
}

/// The bundles that git objects of a repository are in.
pub(crate) async fn bundle_page(db: &Catalog, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<Oid>> {
    let query = "SELECT DISTINCT bundle FROM git_objects WHERE repo = $1 AND bundle > $2 \
        ORDER BY bundle LIMIT $3";
    db.read("list bundles", Sql::new(query).bind(repo).bind(after).bind(limit)).await
}

/// The repositories with the most bytes in large files: how many files, how many bytes.
pub(crate) async fn top_repos(db: &Catalog, limit: u64) -> Result<Vec<(Scope, u64, u64)>> {
    let query = "SELECT r.namespace, r.repo, COUNT(*), CAST(SUM(f.file_bytes) AS BIGINT) \
        FROM repo_files r JOIN files f ON f.hash = r.file GROUP BY r.namespace, r.repo \
        ORDER BY 4 DESC, 1, 2 LIMIT $1";
    let rows: Vec<((String, String), (u64, u64))> =
        db.read("count what repositories have", Sql::new(query).bind(limit)).await?;
    let row = |((namespace, repo), (files, bytes)): ((String, String), (u64, u64))| {
        Ok((Scope::new(namespace, repo)?, files, bytes))
    };
    rows.into_iter().map(row).collect()
}

/// Bytes of large files, once for each repository that has them.
pub(crate) async fn logical_bytes(db: &Catalog) -> Result<u64> {
    let query = "SELECT CAST(COALESCE(SUM(f.file_bytes), 0) AS BIGINT) FROM repo_files r \
        JOIN files f ON f.hash = r.file";
    let bytes = db.read_one("count what repositories have", Sql::new(query)).await?;
    Ok(bytes.unwrap_or(0))
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stored xorbs.
    pub xorbs: u64,
    /// Bytes of their objects.
    pub object_bytes: u64,
    /// Raw bytes of their chunks.
    pub raw_bytes: u64,
    /// Distinct files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Files, once for each repository that may read them.
    pub repo_files: u64,
    /// Digests that lead to files.
    pub sha256s: u64,
    /// Chunks dedup queries may find, once for each repository.
    pub dedup: u64,
    /// Accepted shards.
    pub shards: u64,
}

impl FromRow for Counts {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            xorbs: row.number("count")?,
            object_bytes: row.number("count")?,
            raw_bytes: row.number("count")?,
            files: row.number("count")?,
            file_bytes: row.number("count")?,
            repo_files: row.number("count")?,
            sha256s: row.number("count")?,
            dedup: row.number("count")?,
            shards: row.number("count")?,
        })
    }
}

/// A repository as garbage collection sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GcRepo {
    /// The repository.
    pub row: RepoRow,
    /// Counts how often a ref came back to an old commit.
    pub generation: u64,
    /// Whether it was found to have nothing to drop, and did not change since.
    pub is_swept: bool,
}

impl GcRepo {
    /// The repository as the content store knows it.
    pub(crate) fn scope(&self) -> Result<Scope> {
        self.row.scope()
    }
}

/// Repositories in the order of their ids.
pub(crate) async fn all_repos(db: &Catalog, after: &[u8], limit: u64) -> Result<Vec<GcRepo>> {
    let query =
        format!("SELECT {REPO_COLUMNS}, generation, swept FROM repos WHERE id > $1 ORDER BY id LIMIT $2");
    db.read("list repositories", Sql::new(query).bind(after).bind(limit)).await
}

/// The columns of the repository, generation, generation that was swept.
impl FromRow for GcRepo {
    fn from_row(row: &mut Row) -> Result<Self> {
        let repo = RepoRow::from_row(row)?;
        let generation = row.number("generation")?;
        let swept = row.signed("generation that was swept")?;
        Ok(Self { row: repo, generation, is_swept: u64::try_from(swept) == Ok(generation) })
    }
}

/// Git objects of a repository that are read from one bundle, by pages.
pub(crate) async fn bundled_page(
    db: &Catalog,
    repo: RepoId,
    bundle: Oid,
    after: &[u8],
    limit: u64,
) -> Result<Vec<BundledObject>> {
    let query = "SELECT oid, kind, bytes, bundle_offset FROM git_objects \
        WHERE repo = $1 AND bundle = $2 AND oid > $3 ORDER BY oid LIMIT $4";
    let query = Sql::new(query).bind(repo).bind(bundle).bind(after).bind(limit);
    db.read("list the objects of a bundle", query).await
}

/// A git object and its place in a bundle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BundledObject {
    pub(crate) oid: Oid,
    pub(crate) kind: ObjectKind,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
}

impl FromRow for BundledObject {
    fn from_row(row: &mut Row) -> Result<Self> {
        let oid = Oid::new(row.array("object id")?);
        let kind = ObjectKind::from_number(row.signed("kind of an object")?);
        let kind = kind.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the kind of a git object"))?;
        Ok(Self {
            oid,
            kind,
            bytes: row.number("length of an object")?,
            offset: row.number("place in a bundle")?,
        })
    }
}

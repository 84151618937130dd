//! Everything there is, page by page, and totals.

use xet::{FileHash, XorbHash};

use super::CareCatalog;
use crate::access::Scope;
use crate::catalog::rows::{FileRow, ShardRow, XorbRow};
use crate::catalog::{BATCH_ROWS, XORB_COLUMNS};
use crate::db::{FromRow, Row, Sql};
use crate::error::{Error, ErrorKind, Result};
use crate::repo::RepoId;
use crate::repo::oid::{ObjectKind, Oid};

impl CareCatalog {
    /// Xorbs that have an object, or should.
    pub async fn xorb_page(&self, after: &[u8], limit: u64) -> Result<Vec<XorbRow>> {
        let query = format!(
            "SELECT {XORB_COLUMNS} FROM xorbs WHERE state NOT IN (2, 3) AND hash > $1 ORDER BY hash LIMIT $2"
        );
        self.db.read("list xorbs", Sql::new(query).bind(after).bind(limit)).await
    }

    /// Shards that have an object, or should.
    pub async fn shard_page(&self, after: &[u8], limit: u64) -> Result<Vec<ShardRow>> {
        let query = "SELECT hash, object_bytes, created_s FROM shards WHERE state NOT IN (2, 3) \
            AND hash > $1 ORDER BY hash LIMIT $2";
        self.db.read("list shards", Sql::new(query).bind(after).bind(limit)).await
    }

    /// All files.
    pub async fn file_page(&self, after: &[u8], limit: u64) -> Result<Vec<FileRow>> {
        let query = "SELECT hash, layout, created_s FROM files WHERE hash > $1 ORDER BY hash LIMIT $2";
        self.db.read("list files", Sql::new(query).bind(after).bind(limit)).await
    }

    /// The bundles that git objects of a repository are in.
    pub async fn bundle_page(&self, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<Oid>> {
        let query = "SELECT DISTINCT bundle FROM git_objects WHERE repo = $1 AND bundle > $2 \
            ORDER BY bundle LIMIT $3";
        self.db.read("list bundles", Sql::new(query).bind(repo).bind(after).bind(limit)).await
    }

    /// Git objects of a repository that are read from one bundle, by pages.
    pub(crate) async fn bundled_page(
        &self,
        repo: RepoId,
        bundle: Oid,
        after: &[u8],
        limit: u64,
    ) -> Result<Vec<BundledObject>> {
        let query = "SELECT oid, kind, bytes, bundle_offset FROM git_objects \
            WHERE repo = $1 AND bundle = $2 AND oid > $3 ORDER BY oid LIMIT $4";
        let query = Sql::new(query).bind(repo).bind(bundle).bind(after).bind(limit);
        self.db.read("list the objects of a bundle", query).await
    }

    /// Files that are made of a xorb.
    pub async fn files_of(&self, xorb: XorbHash, after: &[u8], limit: u64) -> Result<Vec<FileHash>> {
        let query = "SELECT file FROM file_xorbs WHERE xorb = $1 AND file > $2 ORDER BY file LIMIT $3";
        let query = Sql::new(query).bind(xorb).bind(after).bind(limit);
        self.db.read("find the files of a xorb", query).await
    }

    /// The repositories that may read these files.
    pub async fn readers(&self, files: &[FileHash]) -> Result<Vec<(FileHash, Scope)>> {
        let mut found = Vec::new();
        for files in files.chunks(BATCH_ROWS) {
            let query = "SELECT file, namespace, repo FROM repo_files WHERE file IN $1 \
                ORDER BY file, namespace, repo";
            let rows: Vec<(FileHash, String, String)> =
                self.db.read("find who reads files", Sql::new(query).list(files)).await?;
            for (file, namespace, repo) in rows {
                found.push((file, Scope::new(namespace, repo)?));
            }
        }
        Ok(found)
    }

    /// The repositories with the most bytes in large files: how many files, how many bytes.
    pub async fn top_repos(&self, limit: u64) -> Result<Vec<(Scope, u64, u64)>> {
        let query = "SELECT r.namespace, r.repo, COUNT(*), CAST(SUM(f.file_bytes) AS BIGINT) \
            FROM repo_files r JOIN files f ON f.hash = r.file GROUP BY r.namespace, r.repo \
            ORDER BY 4 DESC, 1, 2 LIMIT $1";
        let rows: Vec<((String, String), (u64, u64))> =
            self.db.read("count what repositories have", Sql::new(query).bind(limit)).await?;
        let row = |((namespace, repo), (files, bytes)): ((String, String), (u64, u64))| {
            Ok((Scope::new(namespace, repo)?, files, bytes))
        };
        rows.into_iter().map(row).collect()
    }

    /// Bytes of large files, once for each repository that has them.
    pub async fn logical_bytes(&self) -> Result<u64> {
        let query = "SELECT CAST(COALESCE(SUM(f.file_bytes), 0) AS BIGINT) FROM repo_files r \
            JOIN files f ON f.hash = r.file";
        let bytes = self.db.read_one("count what repositories have", Sql::new(query)).await?;
        Ok(bytes.unwrap_or(0))
    }
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

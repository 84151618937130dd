//! Rows of files: who may read them, which digests lead to them, which xorbs they are made of.

use xet::{FileHash, Sha256, XorbHash};

use crate::access::Scope;
use crate::content::rows::FileRow;
use crate::db::Catalog;
use crate::db::batch::{BATCH_ROWS, short_if_few, unique};
use crate::db::row::{FromRow, RawHash, Row};
use crate::db::sql::Sql;
use crate::error::Result;

/// Files that are made of a xorb.
pub(crate) async fn files_of(
    db: &Catalog,
    xorb: XorbHash,
    after: &[u8],
    limit: u64,
) -> Result<Vec<FileHash>> {
    let query = "SELECT file FROM file_xorbs WHERE xorb = $1 AND file > $2 ORDER BY file LIMIT $3";
    let query = Sql::new(query).bind(xorb).bind(after).bind(limit);
    db.read("find the files of a xorb", query).await
}

/// The repositories that may read these files.
pub(crate) async fn readers(db: &Catalog, files: &[FileHash]) -> Result<Vec<(FileHash, Scope)>> {
    let mut found = Vec::new();
    for files in files.chunks(BATCH_ROWS) {
        let query = "SELECT file, namespace, repo FROM repo_files WHERE file IN $1 \
            ORDER BY file, namespace, repo";
        let rows: Vec<(FileHash, String, String)> =
            db.read("find who reads files", Sql::new(query).list(files)).await?;
        for (file, namespace, repo) in rows {
            found.push((file, Scope::new(namespace, repo)?));
        }
    }
    Ok(found)
}

/// The files of these that `scope` may read; others are left out.
pub(crate) async fn files(db: &Catalog, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>> {
    let mut files = Vec::new();
    for hashes in unique(hashes).chunks(BATCH_ROWS) {
        let query = "SELECT f.hash, f.layout, f.created_s FROM repo_files r JOIN files f ON f.hash = r.file \
            WHERE r.namespace = $1 AND r.repo = $2 AND r.file IN $3";
        let query = Sql::new(query).bind(scope.namespace()).bind(scope.repo());
        let query = query.list(hashes.iter().copied()).short();
        files.extend(db.read::<FileRow>("find files", query).await?);
    }
    Ok(files)
}

/// The file, if `scope` may read it, if that is known without waiting; otherwise call [`files`](Self::files).
pub(crate) fn try_file_now(db: &Catalog, scope: &Scope, hash: FileHash) -> Option<Option<FileRow>> {
    let query = "SELECT f.hash, f.layout, f.created_s FROM repo_files r JOIN files f ON f.hash = r.file \
        WHERE r.namespace = $1 AND r.repo = $2 AND r.file = $3";
    let query = Sql::new(query).bind(scope.namespace()).bind(scope.repo()).bind(hash);
    Some(db.read_now(&query)?.into_iter().next())
}

/// The files that were registered in `scope` under these digests, several for one digest where chunking differed.
#[cfg(any(test, feature = "testing"))]
pub(crate) async fn files_by_sha256(
    db: &Catalog,
    scope: &Scope,
    digests: &[Sha256],
) -> Result<Vec<(Sha256, FileHash)>> {
    let mut found = Vec::new();
    for digests in unique(digests).chunks(BATCH_ROWS) {
        let query =
            "SELECT sha256, file FROM repo_sha256s WHERE namespace = $1 AND repo = $2 AND sha256 IN $3";
        let query = Sql::new(query).bind(scope.namespace()).bind(scope.repo());
        let query = query.list(digests.iter().copied()).short();
        found.extend(db.read::<(Sha256, FileHash)>("find files by digest", query).await?);
    }
    Ok(found)
}

/// A large file of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedFile {
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// How many they are.
    pub bytes: u64,
    /// Names it in the content store.
    pub file: FileHash,
}

/// Columns: digest, file hash, length.
impl FromRow for LinkedFile {
    fn from_row(row: &mut Row) -> Result<Self> {
        let sha256 = Sha256::new(row.array("digest")?);
        let file = FileHash::new(row.array("file hash")?);
        Ok(Self { sha256, bytes: row.number("length of a file")?, file })
    }
}

/// The files registered in `scope` under these digests, with their lengths, in the order of digest and file hash. Only
/// digests that were computed from the bytes count: see
/// [`CareCatalog::digest_claims`](CareCatalog::digest_claims).
pub(crate) async fn linked_files(db: &Catalog, scope: &Scope, digests: &[Sha256]) -> Result<Vec<LinkedFile>> {
    let mut found = Vec::new();
    for digests in unique(digests).chunks(BATCH_ROWS) {
        let query = Sql::new(
            "SELECT s.sha256, s.file, f.file_bytes FROM repo_sha256s s JOIN files f ON f.hash = s.file \
             JOIN repo_files r ON r.namespace = s.namespace AND r.repo = s.repo AND r.file = s.file \
             AND r.sha256 = s.sha256 WHERE s.namespace = $1 AND s.repo = $2 AND s.sha256 IN $3 \
             ORDER BY s.sha256, s.file",
        );
        let query = query.bind(scope.namespace()).bind(scope.repo()).list(digests.iter().copied());
        let query = short_if_few(query, digests.len());
        found.extend(db.read::<LinkedFile>("find files by digest", query).await?);
    }
    Ok(found)
}

/// Relation that [`SweepCatalog::uses`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Repositories that may read a file.
    Files,
    /// Files that are made of a xorb.
    Xorbs,
}

/// Recipes of these files, without an access check; unknown ones are left out.
pub(crate) async fn recipes(db: &Catalog, files: &[FileHash]) -> Result<Vec<FileRow>> {
    let mut found = Vec::new();
    for files in files.chunks(BATCH_ROWS) {
        let query = Sql::new("SELECT hash, layout, created_s FROM files WHERE hash IN $1").list(files);
        found.extend(db.read::<FileRow>("find files", query).await?);
    }
    Ok(found)
}

/// For each of these files, how many repositories may read it; or for each of these xorbs, how many files it is in.
/// Those without any are left out.
pub(crate) async fn uses(db: &Catalog, of: Use, hashes: &[[u8; 32]]) -> Result<Vec<([u8; 32], u64)>> {
    let (table, key) = match of {
        Use::Files => ("repo_files", "file"),
        Use::Xorbs => ("file_xorbs", "xorb"),
    };
    let query = format!("SELECT {key}, COUNT(*) FROM {table} WHERE {key} IN $1 GROUP BY {key}");
    let mut found = Vec::new();
    for hashes in hashes.chunks(BATCH_ROWS) {
        let query = Sql::new(query.as_str()).list(hashes);
        let rows: Vec<(RawHash, u64)> = db.read("count uses", query).await?;
        found.extend(rows.into_iter().map(|(RawHash(hash), count)| (hash, count)));
    }
    Ok(found)
}

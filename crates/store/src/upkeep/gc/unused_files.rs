//! Files: which repositories may read them, digests that lead to them, what they are made of.

use xet::{FileHash, Sha256, XorbHash};

use crate::access::Scope;
use crate::content::quotas::usage::add_line;
use crate::content::rows::FileRow;
use crate::db::Catalog;
use crate::db::batch::BATCH_ROWS;
use crate::db::sql::{Sql, Value, integer};
use crate::error::Result;
use crate::upkeep::gc::rows;
use crate::upkeep::inventory::GcRepo;

/// Files a repository may read that no git object of it stands for and nobody registered since `before_s`.
pub(crate) async fn idle_repo_files(
    db: &Catalog,
    repo: &GcRepo,
    before_s: u64,
    after: &[u8],
    limit: u64,
) -> Result<Vec<FileHash>> {
    let scope = repo.scope()?;
    let query = format!("SELECT file FROM repo_files WHERE file > $5 AND {IDLE_FILE} ORDER BY file LIMIT $6");
    let query = idle_files(query, repo, &scope, before_s).bind(after).bind(limit);
    db.read("look for what is unused", query).await
}

/// Removes these files from the repository, if still idle.
pub(crate) async fn drop_repo_files(
    db: &Catalog,
    repo: &GcRepo,
    files: &[FileHash],
    before_s: u64,
) -> Result<u64> {
    let scope = &repo.scope()?;
    db.write_serializable("take files from a repository", |mut tx| async move {
        // Commits wait here, or this waits for them. Under another name it has other files.
        let fence = "UPDATE repos SET generation = generation WHERE id = $1 AND kind = $2 \
                AND namespace = $3 AND name = $4 AND COALESCE(reclaim_s, -1) = $5";
        let name = &repo.row.name;
        let fence = Sql::new(fence).bind(repo.row.id).bind(name.kind.number());
        let fence = fence.bind(&name.namespace).bind(&name.name);
        if tx.run(fence.bind(repo.row.reclaim_s.map_or(-1, integer))).await? == 0 {
            return Ok(0);
        }
        let mut dropped = 0;
        for files in files.chunks(BATCH_ROWS) {
            let delete = format!("DELETE FROM repo_files WHERE file IN $5 AND {IDLE_FILE} RETURNING file");
            let delete = idle_files(delete, repo, scope, before_s).list(files);
            let taken: Vec<FileHash> = tx.rows(delete).await?;
            if taken.is_empty() {
                continue;
            }
            dropped += taken.len() as u64;
            let bytes = "SELECT CAST(COALESCE(SUM(file_bytes), 0) AS BIGINT) FROM files WHERE hash IN $1";
            let bytes: i64 = tx.row(Sql::new(bytes).list(&taken)).await?.unwrap_or(0);
            add_line(&mut tx, scope.namespace(), scope.repo(), -bytes, 0).await?;
        }
        tx.commit().await?;
        Ok(dropped)
    })
    .await
}

/// Drops some digests of a repository that lead to no file of it; returns how many, and 0 when there are none.
pub(crate) async fn drop_digests(db: &Catalog, scope: &Scope, limit: u64) -> Result<u64> {
    const IDLE: &str = "namespace = $1 AND repo = $2 \
        AND NOT EXISTS (SELECT 1 FROM repo_files f WHERE f.namespace = repo_sha256s.namespace \
        AND f.repo = repo_sha256s.repo AND f.file = repo_sha256s.file)";
    let (namespace, repo) = (scope.namespace(), scope.repo());
    let query = format!("SELECT sha256 FROM repo_sha256s WHERE {IDLE} LIMIT $3");
    let query = Sql::new(query).bind(namespace).bind(repo).bind(limit);
    let idle: Vec<Sha256> = db.read("look for digests", query).await?;

    let delete = format!("DELETE FROM repo_sha256s WHERE {IDLE} AND sha256 IN $3");
    let deletes = idle.chunks(BATCH_ROWS);
    let deletes = deletes.map(|idle| Sql::new(delete.as_str()).bind(namespace).bind(repo).list(idle));
    let deletes: Vec<_> = deletes.collect();
    rows::change(db, "drop digests", &deletes).await
}

/// Files that no repository may read.
pub(crate) async fn unread_files(db: &Catalog, after: &[u8], limit: u64) -> Result<Vec<FileHash>> {
    let query = format!("SELECT hash FROM files WHERE hash > $1 AND {UNREAD} ORDER BY hash LIMIT $2");
    db.read("look for what is unused", Sql::new(query).bind(after).bind(limit)).await
}

/// Drops these files, if still unread.
pub(crate) async fn drop_files(db: &Catalog, files: &[FileHash]) -> Result<u64> {
    db.write_serializable("drop files", |mut tx| async move {
        let mut dropped = 0;
        for files in files.chunks(BATCH_ROWS) {
            let delete =
                format!("DELETE FROM files WHERE hash IN $1 AND {UNREAD} RETURNING hash, layout, created_s");
            let rows: Vec<FileRow> = tx.rows(Sql::new(delete).list(files)).await?;
            dropped += rows.len() as u64;
            for pairs in xorbs_of_files(&rows).chunks(BATCH_ROWS) {
                let delete = Sql::new("DELETE FROM file_xorbs WHERE (xorb, file) IN (VALUES $1)");
                let pairs = pairs.iter().map(|(xorb, file)| [Value::from(*xorb), (*file).into()]);
                tx.run(delete.rows(pairs)).await?;
            }
        }
        tx.commit().await?;
        Ok(dropped)
    })
    .await
}

/// Files whose xorbs and shard are not noted: an older version registered them.
pub(crate) async fn unrelated_files(db: &Catalog, limit: u64) -> Result<Vec<FileRow>> {
    let query = "SELECT hash, layout, created_s FROM files WHERE shard IS NULL LIMIT $1";
    db.read("look for files of an older version", Sql::new(query).bind(limit)).await
}

/// Records the xorbs of these files, and that their shard is unknown.
pub(crate) async fn relate_files(db: &Catalog, rows: &[FileRow]) -> Result<()> {
    let pairs = &xorbs_of_files(rows);
    db.write_serializable("record what files are made of", |mut tx| async move {
        for pairs in pairs.chunks(BATCH_ROWS) {
            let insert = Sql::new("INSERT INTO file_xorbs (xorb, file) VALUES $1 ON CONFLICT DO NOTHING");
            let pairs = pairs.iter().map(|(xorb, file)| [Value::from(*xorb), (*file).into()]);
            tx.run(insert.rows(pairs)).await?;
        }
        for rows in rows.chunks(BATCH_ROWS) {
            let update = Sql::new("UPDATE files SET shard = $1 WHERE shard IS NULL AND hash IN $2");
            let update = update.bind(&b""[..]).list(rows.iter().map(|row| &row.hash));
            tx.run(update).await?;
        }
        tx.commit().await
    })
    .await
}

/// Condition for a row of `repo_files` that no git object of the repository stands for and nobody registered lately;
/// [`idle_files`] binds its arguments.
const IDLE_FILE: &str = "namespace = $1 AND repo = $2 AND created_s < $3 \
    AND NOT EXISTS (SELECT 1 FROM git_objects g WHERE g.repo = $4 AND g.file = repo_files.file)";

/// A statement with [`IDLE_FILE`] in it, whose own arguments begin at `$5`.
fn idle_files<'a>(text: String, repo: &GcRepo, scope: &'a Scope, before_s: u64) -> Sql<'a> {
    Sql::new(text).bind(scope.namespace()).bind(scope.repo()).bind(before_s).bind(repo.row.id)
}

/// Condition for a row of `files` that no repository may read.
const UNREAD: &str = "NOT EXISTS (SELECT 1 FROM repo_files r WHERE r.file = files.hash)";

/// Each file with each of its xorbs.
fn xorbs_of_files(rows: &[FileRow]) -> Vec<(&XorbHash, &FileHash)> {
    let pairs =
        rows.iter().flat_map(|row| row.recipe.xorbs.iter().map(move |xorb| (&xorb.key.hash, &row.hash)));
    pairs.collect()
}

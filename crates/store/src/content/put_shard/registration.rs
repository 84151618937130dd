//! Registering: everything a shard tells, in one transaction.

use std::collections::HashSet;

use xet::{FileHash, Sha256, XorbHash};

use crate::access::Scope;
use crate::content::quotas::usage::add_line;
use crate::content::reach::IS_DEDUP_OFF;
use crate::content::rows::{DedupRow, FileRow, ShardRow};
use crate::content::shards::REVIVE_SHARD;
use crate::content::xorbs::touch;
use crate::db::batch::{BATCH_ROWS, unique};
use crate::db::sql::{Sql, integer};
use crate::db::{Catalog, Tx};
use crate::error::Result;

/// Adds all that a shard tells, if every xorb it refers to is live, or nothing.
pub(crate) async fn register_shard(db: &Catalog, registration: &Registration) -> Result<RegistrationOutcome> {
    let registered = db.write_serializable("register a shard", |mut tx| async move {
        let registered = register(&mut tx, registration).await?;
        if let RegistrationOutcome::Done { .. } = registered {
            tx.commit().await?;
        }
        Ok(registered)
    });
    registered.await
}

async fn register(tx: &mut Tx, r: &Registration) -> Result<RegistrationOutcome> {
    let live = touch(tx, &r.xorbs, r.now_s).await?;
    if let Some(missing) = r.xorbs.iter().find(|xorb| live.binary_search(xorb).is_err()) {
        return Ok(RegistrationOutcome::Missing(*missing));
    }
    let shard =
        "INSERT INTO shards (hash, object_bytes, created_s) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let shard = Sql::new(shard).bind(r.shard.hash).bind(r.shard.object_bytes).bind(r.shard.created_s);
    if tx.run(shard).await? == 0 && tx.run(Sql::new(REVIVE_SHARD).bind(r.shard.hash)).await? == 0 {
        return Ok(RegistrationOutcome::ShardSwept);
    }
    let (new_xorbs, physical_bytes) = add_xorbs(tx, r).await?;
    let (new_files, logical_bytes) = add_files(tx, r).await?;
    add_line(tx, r.scope.namespace(), r.scope.repo(), logical_bytes, physical_bytes).await?;
    let new_digests = add_sha256s(tx, r).await?;
    add_chunks(tx, r).await?;
    Ok(RegistrationOutcome::Done { was_inserted: new_xorbs + new_files + new_digests > 0 })
}

/// The repository has registered the xorbs: they are uploads no longer. Returns how many are new to it, and their bytes.
async fn add_xorbs(tx: &mut Tx, r: &Registration) -> Result<(u64, i64)> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    let (mut count, mut new_bytes) = (0, 0);
    for xorbs in unique(&r.xorbs).chunks(BATCH_ROWS) {
        let insert =
            "INSERT INTO repo_xorbs (xorb, namespace, repo) VALUES $1 ON CONFLICT DO NOTHING RETURNING xorb";
        let rows = xorbs.iter().map(|xorb| [(*xorb).into(), namespace.into(), repo.into()]);
        let added: Vec<XorbHash> = tx.rows(Sql::new(insert).rows(rows)).await?;
        if !added.is_empty() {
            let bytes = "SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM xorbs WHERE hash IN $1";
            new_bytes += tx.row::<i64>(Sql::new(bytes).list(&added)).await?.unwrap_or(0);
        }
        count += added.len() as u64;
        let uploads = Sql::new("DELETE FROM uploads WHERE namespace = $1 AND repo = $2 AND xorb IN $3");
        tx.run(uploads.bind(namespace).bind(repo).list(xorbs.iter().copied())).await?;
        let others = Sql::new("UPDATE uploads SET is_first = 0 WHERE xorb IN $1 AND is_first <> 0");
        tx.run(others.list(xorbs.iter().copied())).await?;
    }
    Ok((count, new_bytes))
}

/// Adds files and who may read them. Returns how many are new to the repository, and their bytes.
async fn add_files(tx: &mut Tx, r: &Registration) -> Result<(u64, i64)> {
    let (mut count, mut new_bytes) = (0, 0);
    for files in r.files.chunks(BATCH_ROWS) {
        let insert = Sql::new(
            "INSERT INTO files (hash, file_bytes, layout, created_s, shard) VALUES $1 \
             ON CONFLICT DO NOTHING RETURNING hash",
        );
        let insert = insert.rows(files.iter().map(|file| {
            [
                (&file.hash).into(),
                file.recipe.file_bytes().into(),
                file.recipe.encode().into(),
                file.created_s.into(),
                (&r.shard.hash).into(),
            ]
        }));
        let added: HashSet<FileHash> = tx.rows(insert).await?.into_iter().collect();
        // What was there is held until the end: nobody may drop it before the repository's row is in.
        let hold = Sql::lock("SELECT hash FROM files WHERE hash IN $1 FOR SHARE");
        tx.run(hold.list(files.iter().map(|file| &file.hash))).await?;
        add_uses(tx, files, &added).await?;
        let readable = add_readers(tx, r, files).await?;
        count += readable.len() as u64;
        new_bytes += bytes_of(files, readable);
    }
    Ok((count, new_bytes))
}

/// Adds which xorbs those files are made of that were added. Others were there, perhaps made of other xorbs.
async fn add_uses(tx: &mut Tx, files: &[FileRow], added: &HashSet<FileHash>) -> Result<()> {
    let files = files.iter().filter(|file| added.contains(&file.hash));
    let pairs = files.flat_map(|file| file.recipe.xorbs.iter().map(|xorb| (&xorb.key.hash, &file.hash)));
    let pairs: Vec<(&XorbHash, &FileHash)> = pairs.collect();
    for pairs in pairs.chunks(BATCH_ROWS) {
        let insert = Sql::new("INSERT INTO file_xorbs (xorb, file) VALUES $1 ON CONFLICT DO NOTHING");
        tx.run(insert.rows(pairs.iter().map(|(xorb, file)| [(*xorb).into(), (*file).into()]))).await?;
    }
    Ok(())
}

/// Lets the repository read these files; returns those it could not read before.
async fn add_readers(tx: &mut Tx, r: &Registration, files: &[FileRow]) -> Result<HashSet<FileHash>> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    let insert = Sql::new(
        "INSERT INTO repo_files (namespace, repo, file, created_s) VALUES $1 \
         ON CONFLICT DO NOTHING RETURNING file",
    );
    let rows = files.iter().map(|file| [namespace.into(), repo.into(), (&file.hash).into(), r.now_s.into()]);
    let added: HashSet<FileHash> = tx.rows(insert.rows(rows)).await?.into_iter().collect();
    let others: Vec<&FileHash> =
        files.iter().map(|file| &file.hash).filter(|hash| !added.contains(hash)).collect();
    if !others.is_empty() {
        // Who registers a file again means to use it: sweep counts from there.
        let touch = "UPDATE repo_files SET created_s = $1 WHERE namespace = $2 AND repo = $3 AND file IN $4";
        tx.run(Sql::new(touch).bind(r.now_s).bind(namespace).bind(repo).list(others)).await?;
    }
    Ok(added)
}

/// Bytes of those files that were added.
fn bytes_of(files: &[FileRow], mut added: HashSet<FileHash>) -> i64 {
    // A shard may tell of a file twice.
    let files = files.iter().filter(|file| added.remove(&file.hash));
    files.map(|file| integer(file.recipe.file_bytes())).sum()
}

/// Adds digests of files. Returns how many are new to the repository.
async fn add_sha256s(tx: &mut Tx, r: &Registration) -> Result<u64> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    let mut count = 0;
    for digests in r.sha256s.chunks(BATCH_ROWS) {
        let insert = Sql::new(
            "INSERT INTO repo_sha256s (namespace, repo, sha256, file) VALUES $1 ON CONFLICT DO NOTHING",
        );
        let rows =
            digests.iter().map(|(sha256, file)| [namespace.into(), repo.into(), sha256.into(), file.into()]);
        count += tx.run(insert.rows(rows)).await?;
    }
    Ok(count)
}

/// Adds chunks that can be found again, unless the repository's dedup policy is `off`.
async fn add_chunks(tx: &mut Tx, r: &Registration) -> Result<()> {
    let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
    let off = Sql::new(IS_DEDUP_OFF).bind(namespace).bind(repo);
    if tx.row::<String>(off).await?.is_some() {
        return Ok(());
    }
    for chunks in r.dedup.chunks(BATCH_ROWS) {
        let insert = Sql::new(
            "INSERT INTO dedup (chunk, namespace, repo, xorb, chunk_index) VALUES $1 ON CONFLICT DO NOTHING",
        );
        let rows = chunks.iter().map(|row| {
            [(&row.chunk).into(), namespace.into(), repo.into(), (&row.xorb).into(), row.chunk_index.into()]
        });
        tx.run(insert.rows(rows)).await?;
    }
    Ok(())
}

/// Everything one shard adds, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The repository that may read the files from now on.
    pub scope: Scope,
    /// The shard.
    pub shard: ShardRow,
    /// Every xorb the shard refers to.
    pub xorbs: Vec<XorbHash>,
    /// Its files.
    pub files: Vec<FileRow>,
    /// What the uploader claims the digests of its files are, for this repository. Nothing relies on them before they are
    /// compared with the bytes.
    pub sha256s: Vec<(Sha256, FileHash)>,
    /// Chunks that dedup queries may find.
    pub dedup: Vec<DedupRow>,
    /// Now, Unix seconds.
    pub now_s: u64,
}

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistrationOutcome {
    /// It holds.
    Done {
        /// Whether it told the repository of a file, digest or xorb that it did not have. Others' do not count.
        was_inserted: bool,
    },
    /// This xorb is not stored, or no longer; nothing was registered.
    Missing(XorbHash),
    /// The shard's object is being deleted, so it must be stored under another key; nothing was registered.
    ShardSwept,
}

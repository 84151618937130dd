//! Moves files to other objects: of a xorb that is compacted or damaged, or one file to other xorbs.

use std::sync::Arc;

use xet::xorb::XorbInfo;
use xet::{ChunkHash, FileHash, ShardHash, XorbHash};

use crate::content::recipe::{FileRecipe, RecipeBuilder};
use crate::content::rows::{ShardRow, XorbRow};
use crate::content::shards::REVIVE_SHARD;
use crate::content::{Content, files};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::XorbKey;

/// Moves all files of a xorb in one transaction, if they are all its files and none has changed; returns whether it
/// did.
pub(crate) async fn repoint_files(db: &Catalog, relocation: &Relocation) -> Result<bool> {
    db.write_serializable("move files to another object", |tx| try_relocate(tx, relocation)).await
}

/// Makes a file of other xorbs, which must be live, if its recipe is still `from`; returns whether it did.
pub(crate) async fn move_file(
    db: &Catalog,
    file: FileHash,
    from: &FileRecipe,
    to: &FileRecipe,
    shard: ShardHash,
) -> Result<bool> {
    let work = |tx| try_move_file(tx, file, from, to, shard);
    db.write_serializable("move a file to other xorbs", work).await
}

async fn try_relocate(mut tx: Tx, relocation: &Relocation) -> Result<bool> {
    // A registration of a file of this xorb waits here, or this finds that file below.
    let held = hold_source(&mut tx, relocation).await?;
    let count = Sql::new("SELECT COUNT(*) FROM file_xorbs WHERE xorb = $1").bind(relocation.from.hash);
    let count: u64 = tx.row(count).await?.unwrap_or(0);
    if held == 0 || usize::try_from(count).unwrap_or(usize::MAX) != relocation.files.len() {
        return Ok(false);
    }
    if !add_shard(&mut tx, relocation).await? || !change_recipes(&mut tx, relocation).await? {
        return Ok(false);
    }
    if let Some(onto) = &relocation.onto {
        let touch = "UPDATE xorbs SET state = 0, referenced_s = $1 WHERE hash = $2 AND state <= 1";
        if tx.run(Sql::new(touch).bind(relocation.now_s).bind(onto)).await? == 0 {
            return Ok(false);
        }
        move_references(&mut tx, &relocation.from.hash, onto).await?;
        move_chunks(&mut tx, &relocation.from.hash, onto, &relocation.chunks).await?;
    }
    tx.commit().await?;
    Ok(true)
}

/// Locks the row of the xorb that files are moved from, or puts the repaired one in its place. Returns 0 if the row is not
/// as it should be.
async fn hold_source(tx: &mut Tx, relocation: &Relocation) -> Result<u64> {
    let (hash, digest) = (&relocation.from.hash, relocation.from.digest.as_bytes());
    let Some(row) = &relocation.repair else {
        let hold = "UPDATE xorbs SET state = state WHERE hash = $1 AND digest = $2 AND state = 0";
        return tx.run(Sql::new(hold).bind(hash).bind(digest)).await;
    };
    let repair = "UPDATE xorbs SET digest = $1, object_bytes = $2, raw_bytes = $3, chunk_count = $4, \
        state = 0, referenced_s = $5, verified_s = $5 WHERE hash = $6 AND digest = $7 AND state = 4";
    let repair = Sql::new(repair)
        .bind(row.key.digest.as_bytes())
        .bind(row.object_bytes)
        .bind(row.raw_bytes)
        .bind(row.chunk_count)
        .bind(relocation.now_s)
        .bind(hash)
        .bind(digest);
    tx.run(repair).await
}

/// Adds the shard, if there is one; returns whether files may name it.
async fn add_shard(tx: &mut Tx, relocation: &Relocation) -> Result<bool> {
    let Some(shard) = &relocation.shard else { return Ok(true) };
    let insert =
        "INSERT INTO shards (hash, object_bytes, created_s) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let insert = Sql::new(insert).bind(shard.hash).bind(shard.object_bytes).bind(shard.created_s);
    tx.run(insert).await?;
    Ok(tx.run(Sql::new(REVIVE_SHARD).bind(shard.hash)).await? > 0)
}

/// Replaces the recipes of the files; returns whether all of them were as expected.
async fn change_recipes(tx: &mut Tx, relocation: &Relocation) -> Result<bool> {
    let shard = relocation.shard.as_ref().map(|shard| &shard.hash);
    for (file, from, to) in &relocation.files {
        let update =
            "UPDATE files SET layout = $1, shard = COALESCE($2, shard) WHERE hash = $3 AND layout = $4";
        let update = Sql::new(update).bind(to.encode()).bind(shard).bind(file).bind(from.encode());
        if tx.run(update).await? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves the rows that refer to a xorb to another, and counts it for the repositories that did not have it.
async fn move_references(tx: &mut Tx, from: &XorbHash, onto: &XorbHash) -> Result<()> {
    for statement in [
        "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
         SELECT r.namespace, r.repo, 0, x.object_bytes FROM repo_xorbs r JOIN xorbs x ON x.hash = $1 \
         WHERE r.xorb = $2 AND NOT EXISTS (SELECT 1 FROM repo_xorbs o WHERE o.xorb = $1 \
         AND o.namespace = r.namespace AND o.repo = r.repo)",
        "INSERT INTO file_xorbs (xorb, file) SELECT $1, file FROM file_xorbs WHERE xorb = $2 \
         ON CONFLICT DO NOTHING",
        "INSERT INTO repo_xorbs (xorb, namespace, repo) SELECT $1, namespace, repo FROM repo_xorbs \
         WHERE xorb = $2 ON CONFLICT DO NOTHING",
    ] {
        tx.run(Sql::new(statement).bind(onto).bind(from)).await?;
    }
    tx.run(Sql::new("DELETE FROM file_xorbs WHERE xorb = $1").bind(from)).await?;
    Ok(())
}

/// Lets dedup queries find chunks in another xorb. `chunks` tells where they are there.
async fn move_chunks(
    tx: &mut Tx,
    from: &XorbHash,
    onto: &XorbHash,
    chunks: &[(ChunkHash, u32)],
) -> Result<()> {
    let known = Sql::new("SELECT DISTINCT chunk FROM dedup WHERE xorb = $1").bind(from);
    let known: Vec<ChunkHash> = tx.rows(known).await?;
    for chunk in &known {
        if let Some((_, index)) = chunks.iter().find(|(moved, _)| moved == chunk) {
            let update = "UPDATE dedup SET xorb = $1, chunk_index = $2 WHERE xorb = $3 AND chunk = $4";
            tx.run(Sql::new(update).bind(onto).bind(*index).bind(from).bind(chunk)).await?;
        }
    }
    Ok(())
}

async fn try_move_file(
    mut tx: Tx,
    file: FileHash,
    from: &FileRecipe,
    to: &FileRecipe,
    shard: ShardHash,
) -> Result<bool> {
    for xorb in &to.xorbs {
        // Locked until the end, so that nobody gives it up meanwhile.
        let hold = "UPDATE xorbs SET state = state WHERE hash = $1 AND digest = $2 AND state = 0";
        let hold = Sql::new(hold).bind(xorb.key.hash).bind(xorb.key.digest.as_bytes());
        if tx.run(hold).await? == 0 {
            return Ok(false);
        }
    }
    let update = "UPDATE files SET layout = $1, shard = $2 WHERE hash = $3 AND layout = $4";
    let update = Sql::new(update).bind(to.encode()).bind(shard).bind(file).bind(from.encode());
    if tx.run(update).await? == 0 {
        return Ok(false);
    }
    for (statement, recipe) in [
        ("DELETE FROM file_xorbs WHERE xorb = $1 AND file = $2", from),
        ("INSERT INTO file_xorbs (xorb, file) VALUES ($1, $2) ON CONFLICT DO NOTHING", to),
    ] {
        for xorb in &recipe.xorbs {
            tx.run(Sql::new(statement).bind(xorb.key.hash).bind(file)).await?;
        }
    }
    tx.commit().await?;
    Ok(true)
}

/// A move of all files of a xorb to another object.
#[derive(Debug, Clone)]
pub(crate) struct Relocation {
    /// Current object. Its row must still have this digest.
    pub from: XorbKey,
    /// New row of the same xorb: another object, or the repaired one.
    pub repair: Option<XorbRow>,
    /// Or the xorb that the files move to.
    pub onto: Option<XorbHash>,
    /// Each file with its old and new recipe.
    pub files: Vec<(FileHash, FileRecipe, FileRecipe)>,
    /// The shard that describes the files after the move.
    pub shard: Option<ShardRow>,
    /// Where chunks of `from` are in `onto`.
    pub chunks: Vec<(ChunkHash, u32)>,
    /// Now, Unix seconds.
    pub now_s: u64,
}

impl Content {
    /// Puts an object that was stored just now in the place of a damaged one, for all files that are made of it.
    pub(crate) async fn repair(
        &self,
        damaged: &XorbRow,
        row: &XorbRow,
        info: &Arc<XorbInfo>,
    ) -> Result<bool> {
        let mut files = Vec::new();
        let mut after = Vec::new();
        loop {
            let page = files::files_of(&self.db, damaged.key.hash, &after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.as_bytes().to_vec();
            for file in files::recipes(&self.db, &page).await? {
                let moved = relocated(&file.recipe, damaged, row, info)?;
                files.push((file.hash, file.recipe, moved));
            }
        }
        let repoint = Relocation {
            from: damaged.key,
            repair: Some(row.clone()),
            onto: None,
            files,
            shard: None,
            chunks: Vec::new(),
            now_s: self.clock.now_s(),
        };
        let is_repaired = repoint_files(&self.db, &repoint).await?;
        self.recipes.forget();
        Ok(is_repaired)
    }
}

/// The same file in another object of the same xorb: the chunks are the same, the bytes may lie elsewhere.
fn relocated(recipe: &FileRecipe, damaged: &XorbRow, row: &XorbRow, info: &XorbInfo) -> Result<FileRecipe> {
    let mut builder = RecipeBuilder::default();
    for term in &recipe.terms {
        let xorb = *recipe.xorb_of(term);
        if xorb.key != damaged.key {
            builder.push(xorb, term.chunks.clone(), term.raw_bytes, term.stored.clone());
            continue;
        }
        let wrong =
            || Error::new(ErrorKind::Corrupt, format!("the recipe of a file in xorb {}", info.hash()));
        let stored = info.stored_range(term.chunks.clone()).ok_or_else(wrong)?;
        let narrow = |end: u64| u32::try_from(end).map_err(|_| wrong());
        let stored = narrow(stored.start)?..narrow(stored.end)?;
        builder.push(row.recipe_xorb(), term.chunks.clone(), term.raw_bytes, stored);
    }
    Ok(builder.finish())
}

/// Files that are read at once.
const PAGE: u64 = 500;

//! The dedup index: chunks of registered files, found within the reach of a caller.

use xet::{ChunkHash, FileHash, XorbHash};

use crate::access::Scope;
use crate::content::reach::{Reach, push_nameable, push_reach};
use crate::content::rows::{DedupHit, XORB_COLUMNS, XorbState};
use crate::db::Catalog;
use crate::db::batch::{BATCH_ROWS, unique};
use crate::db::sql::Sql;
use crate::error::Result;

/// For each of these chunks within reach, one live xorb that holds it; others are left out.
pub(crate) async fn dedup(db: &Catalog, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<DedupHit>> {
    let mut hits = Vec::new();
    // Most questions end here.
    let known = chunks_within(db, reach, chunks).await?;
    // One look for each: a chunk that every repository has must not fetch a row of every repository.
    for chunk in known {
        let mut query = Sql::new(format!(
            "SELECT d.chunk, d.chunk_index, x.{} FROM dedup d JOIN xorbs x ON x.hash = d.xorb WHERE d.chunk = ",
            XORB_COLUMNS.replace(", ", ", x.")
        ));
        query.push_bind(chunk).push(" AND x.state = ").push_bind(XorbState::Live.number());
        push_reach(&mut query, "d", reach);
        push_nameable(&mut query, reach);
        query.push(" LIMIT 1");
        hits.extend(db.read_one::<DedupHit>("find chunks", query.short()).await?);
    }
    Ok(hits)
}

/// Those of these chunks that are within reach.
pub(crate) async fn chunks_within(
    db: &Catalog,
    reach: &Reach,
    chunks: &[ChunkHash],
) -> Result<Vec<ChunkHash>> {
    let mut known = Vec::new();
    for chunks in unique(chunks).chunks(BATCH_ROWS) {
        let mut query = Sql::new("SELECT list.value FROM ");
        query.push("list(").push_list(chunks.iter().copied());
        query.push(") WHERE EXISTS (SELECT 1 FROM dedup d WHERE d.chunk = list.value");
        push_reach(&mut query, "d", reach);
        query.push(")");
        known.extend(db.read::<ChunkHash>("find chunks", query.short()).await?);
    }
    Ok(known)
}

/// Whether a chunk is within reach, if that is known without waiting; otherwise call [`dedup`](Self::dedup).
pub(crate) fn peek_chunk(db: &Catalog, reach: &Reach, chunk: ChunkHash) -> Option<bool> {
    let mut query = Sql::new("SELECT d.chunk FROM dedup d WHERE d.chunk = ");
    query.push_bind(chunk);
    push_reach(&mut query, "d", reach);
    query.push(" LIMIT 1");
    Some(!db.read_now::<ChunkHash>(&query)?.is_empty())
}

/// A file of the repository that is made of this xorb.
pub(crate) async fn readable_file(db: &Catalog, scope: &Scope, xorb: XorbHash) -> Result<Option<FileHash>> {
    let query = "SELECT r.file FROM file_xorbs u JOIN repo_files r ON r.file = u.file \
        WHERE u.xorb = $1 AND r.namespace = $2 AND r.repo = $3 LIMIT 1";
    let query = Sql::new(query).bind(xorb).bind(scope.namespace()).bind(scope.repo());
    db.read_one("find a file of a xorb", query).await
}

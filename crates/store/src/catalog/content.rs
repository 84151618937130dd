//! Xorbs, files, shards and chunks.

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::rows::{AddedXorb, DedupHit, FileRow, Reach, ShardRow, XorbRow, XorbState};
use super::{BATCH_ROWS, Catalog, XORB_COLUMNS, push_nameable, push_reach, unique};
use crate::access::Scope;
use crate::db::{FromRow, Row, Sql, Tx};
use crate::error::Result;

impl Catalog {
    /// The rows of these xorbs, whatever their state; unknown ones are left out.
    pub async fn xorbs(&self, hashes: &[XorbHash]) -> Result<Vec<XorbRow>> {
        let mut rows = Vec::new();
        for hashes in unique(hashes).chunks(BATCH_ROWS) {
            rows.extend(self.db.read::<XorbRow>("find xorbs", xorbs_of(hashes)).await?);
        }
        Ok(rows)
    }

    /// Adds xorbs whose objects are stored. A row that is there stays, and is live again if it was condemned. One that is
    /// being deleted stays too, and says so. Answers once for every distinct hash.
    pub async fn add_xorbs(&self, rows: &[XorbRow]) -> Result<Vec<AddedXorb>> {
        let added = self.db.write("add xorbs", |mut tx| async move {
            let mut added = Vec::new();
            for rows in rows.chunks(BATCH_ROWS) {
                added.extend(add_some_xorbs(&mut tx, rows).await?);
            }
            tx.commit().await?;
            Ok(added)
        });
        let mut added: Vec<AddedXorb> = added.await?;
        // A hash that two batches repeat was inserted by the first, and answered by both.
        added.sort_by(|a, b| a.row.key.hash.cmp(&b.row.key.hash).then(b.was_inserted.cmp(&a.was_inserted)));
        added.dedup_by(|later, first| later.row.key.hash == first.row.key.hash);
        Ok(added)
    }

    /// Notes that somebody learned of these xorbs now, which revives those that were condemned; tells which of them are
    /// live.
    pub async fn touch_xorbs(&self, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
        let touched = self.db.write("touch xorbs", |mut tx| async move {
            let live = touch(&mut tx, hashes, now_s).await?;
            tx.commit().await?;
            Ok(live)
        });
        touched.await
    }

    /// The files of these that `scope` may read; others are left out.
    pub async fn files(&self, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>> {
        let mut files = Vec::new();
        for hashes in unique(hashes).chunks(BATCH_ROWS) {
            let query = "SELECT f.hash, f.layout, f.created_s FROM repo_files r JOIN files f ON f.hash = r.file \
                WHERE r.namespace = $1 AND r.repo = $2 AND r.file IN $3";
            let query = Sql::new(query).bind(scope.namespace()).bind(scope.repo());
            let query = query.list(hashes.iter().copied()).short();
            files.extend(self.db.read::<FileRow>("find files", query).await?);
        }
        Ok(files)
    }

    /// The file, if `scope` may read it, and if that is told without waiting for anyone; else [`files`](Self::files) tells.
    pub fn peek_file(&self, scope: &Scope, hash: FileHash) -> Option<Option<FileRow>> {
        let query = "SELECT f.hash, f.layout, f.created_s FROM repo_files r JOIN files f ON f.hash = r.file \
            WHERE r.namespace = $1 AND r.repo = $2 AND r.file = $3";
        let query = Sql::new(query).bind(scope.namespace()).bind(scope.repo()).bind(hash);
        Some(self.db.read_now(&query)?.into_iter().next())
    }

    /// The files that were registered in `scope` under these digests, several for one digest where chunking differed.
    pub async fn files_by_sha256(
        &self,
        scope: &Scope,
        digests: &[Sha256],
    ) -> Result<Vec<(Sha256, FileHash)>> {
        let mut found = Vec::new();
        for digests in unique(digests).chunks(BATCH_ROWS) {
            let query =
                "SELECT sha256, file FROM repo_sha256s WHERE namespace = $1 AND repo = $2 AND sha256 IN $3";
            let query = Sql::new(query).bind(scope.namespace()).bind(scope.repo());
            let query = query.list(digests.iter().copied()).short();
            found.extend(self.db.read::<(Sha256, FileHash)>("find files by digest", query).await?);
        }
        Ok(found)
    }

    /// For each of these chunks within reach, one live xorb that holds it; others are left out.
    pub async fn dedup(&self, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<DedupHit>> {
        let mut hits = Vec::new();
        // Most questions end here.
        let known = self.chunks_within(reach, chunks).await?;
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
            hits.extend(self.db.read_one::<DedupHit>("find chunks", query.short()).await?);
        }
        Ok(hits)
    }

    /// Those of these chunks that are within reach.
    async fn chunks_within(&self, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<ChunkHash>> {
        let mut known = Vec::new();
        for chunks in unique(chunks).chunks(BATCH_ROWS) {
            let mut query = Sql::new("SELECT list.value FROM ");
            query.push("list(").push_list(chunks.iter().copied());
            query.push(") WHERE EXISTS (SELECT 1 FROM dedup d WHERE d.chunk = list.value");
            push_reach(&mut query, "d", reach);
            query.push(")");
            known.extend(self.db.read::<ChunkHash>("find chunks", query.short()).await?);
        }
        Ok(known)
    }

    /// Whether a chunk is within reach, if that is told without waiting for anyone; else [`dedup`](Self::dedup) tells.
    pub fn peek_chunk(&self, reach: &Reach, chunk: ChunkHash) -> Option<bool> {
        let mut query = Sql::new("SELECT d.chunk FROM dedup d WHERE d.chunk = ");
        query.push_bind(chunk);
        push_reach(&mut query, "d", reach);
        query.push(" LIMIT 1");
        Some(!self.db.read_now::<ChunkHash>(&query)?.is_empty())
    }

    /// Whether a repository within reach registered something that is made of this xorb.
    pub async fn has_xorb(&self, reach: &Reach, xorb: XorbHash) -> Result<bool> {
        let mut query = Sql::new("SELECT r.xorb FROM repo_xorbs r WHERE r.xorb = ");
        query.push_bind(xorb);
        push_reach(&mut query, "r", reach);
        query.push(" LIMIT 1");
        Ok(self.db.read_one::<XorbHash>("find a xorb", query.short()).await?.is_some())
    }

    /// The rows of these shards; unknown ones are left out.
    pub async fn shards(&self, hashes: &[ShardHash]) -> Result<Vec<ShardRow>> {
        let mut shards = Vec::new();
        for hashes in unique(hashes).chunks(BATCH_ROWS) {
            let query = Sql::new("SELECT hash, object_bytes, created_s FROM shards WHERE hash IN $1");
            let query = query.list(hashes.iter().copied());
            shards.extend(self.db.read::<ShardRow>("find shards", query).await?);
        }
        Ok(shards)
    }
}

async fn add_some_xorbs(tx: &mut Tx, rows: &[XorbRow]) -> Result<Vec<AddedXorb>> {
    let insert = Sql::new(format!(
        "INSERT INTO xorbs ({XORB_COLUMNS}) VALUES $1 ON CONFLICT DO NOTHING RETURNING hash"
    ));
    let insert = insert.rows(rows.iter().map(|row| {
        let key = [(&row.key.hash).into(), row.key.digest.as_bytes().as_slice().into()];
        let [hash, digest] = key;
        let (created, referenced) = (row.created_s.into(), row.referenced_s.into());
        [
            hash,
            digest,
            row.object_bytes.into(),
            row.raw_bytes.into(),
            row.chunk_count.into(),
            row.state.number().into(),
            created,
            referenced,
            row.verified_s.into(),
        ]
    }));
    let inserted: std::collections::HashSet<XorbHash> = tx.rows(insert).await?.into_iter().collect();

    let hashes = || rows.iter().map(|row| row.key.hash.as_bytes().as_slice());
    let now_s = rows.iter().map(|row| row.referenced_s).max().unwrap_or(0);
    let revive = Sql::new("UPDATE xorbs SET state = $1, referenced_s = $2 WHERE state = $3 AND hash IN $4");
    let revive = revive.bind(XorbState::Live.number()).bind(now_s).bind(XorbState::Condemned.number());
    tx.run(revive.list(hashes())).await?;

    let hashes: Vec<_> = hashes().collect();
    let rows: Vec<XorbRow> = tx.rows(xorbs_of(&hashes)).await?;
    let added = |row: XorbRow| AddedXorb { was_inserted: inserted.contains(&row.key.hash), row };
    Ok(rows.into_iter().map(added).collect())
}

/// Notes that these xorbs were referred to, which revives what was condemned; tells which are live, sorted.
pub(super) async fn touch(tx: &mut Tx, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
    let mut live: Vec<XorbHash> = Vec::new();
    for hashes in unique(hashes).chunks(BATCH_ROWS) {
        // Time never goes back, or a late clock would bring the sweep nearer.
        let update = "UPDATE xorbs SET state = $1, \
            referenced_s = CASE WHEN referenced_s < $2 THEN $2 ELSE referenced_s END \
            WHERE state <= $3 AND hash IN $4 RETURNING hash";
        let update = Sql::new(update).bind(XorbState::Live.number()).bind(now_s);
        let update = update.bind(XorbState::Condemned.number()).list(hashes.iter().copied());
        live.extend(tx.rows::<XorbHash>(update).await?);
    }
    live.sort_unstable();
    Ok(live)
}

fn xorbs_of<'a>(hashes: &[&'a [u8]]) -> Sql<'a> {
    let query = Sql::new(format!("SELECT {XORB_COLUMNS} FROM xorbs WHERE hash IN $1"));
    query.list(hashes.iter().copied()).short()
}

impl FromRow for ShardRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            hash: ShardHash::from_row(row)?,
            object_bytes: row.number("object bytes")?,
            created_s: row.number("time created")?,
        })
    }
}

//! Uploads: which repository sent which xorb, parts of files that are not joined yet, and how far content may be found.
//!
//! Two facts follow from an upload: its sender may refer to the xorb, and until a shard registers it the bytes count as
//! pending against the quota of the repository. A registration replaces the upload by a row that says the same for good.

use xet::XorbHash;

use crate::access::{Grant, Scope};
use crate::content::Content;
use crate::content::reach::{Reach, push_reach};
use crate::content::rows::{XORB_COLUMNS, XorbRow};
use crate::db::batch::{BATCH_ROWS, unique};
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::Result;

/// Records that a repository sent a xorb, if the xorb is live, or is with `object`, which was stored just now. A condemned
/// xorb is live again. Nothing is recorded where the row says damaged or deleted.
pub(crate) async fn record_upload(
    db: &Catalog,
    upload: &UploadRow,
    object: Option<&NewObject>,
) -> Result<RecordedUpload> {
    // Each transaction locks the row of the xorb by writing it.
    db.write("record an upload", |mut tx| async move {
        let was_inserted = match object {
            Some(object) => add_object(&mut tx, upload.xorb, object).await?,
            None => false,
        };
        // Time never goes back, or a late clock would bring sweep nearer.
        let touch = "UPDATE xorbs SET state = 0, \
                referenced_s = CASE WHEN referenced_s > $1 THEN referenced_s ELSE $1 END \
                WHERE hash = $2 AND state <= 1";
        let touch = Sql::new(touch).bind(upload.uploaded_s).bind(upload.xorb);
        let is_live = tx.run(touch).await? > 0;
        let row = Sql::new(format!("SELECT {XORB_COLUMNS} FROM xorbs WHERE hash = $1"));
        let row: Option<XorbRow> = tx.row(row.bind(upload.xorb)).await?;
        let is_new = is_live && add_upload(&mut tx, upload, was_inserted).await?;
        tx.commit().await?;
        Ok(RecordedUpload { row, was_inserted, is_new })
    })
    .await
}

/// Those of these xorbs that have a row, each with what gives the caller the right to refer to it. `within` is how far
/// the caller's dedup policy reaches; `None` where it is off.
pub(crate) async fn references(
    db: &Catalog,
    scope: &Scope,
    sender: Option<&str>,
    within: Option<&Reach>,
    xorbs: &[XorbHash],
) -> Result<Vec<XorbReference>> {
    let mut found = Vec::new();
    for xorbs in unique(xorbs).chunks(BATCH_ROWS) {
        let columns = XORB_COLUMNS.replace(", ", ", x.");
        let query = format!(
            "SELECT x.{columns}, (SELECT u.object_bytes FROM uploads u \
            WHERE u.xorb = x.hash AND u.namespace = $1 AND u.repo = $2)"
        );
        let mut query = Sql::new(query).bind(scope.namespace()).bind(scope.repo());
        query.push(", CAST(CASE WHEN EXISTS (SELECT 1 FROM xorb_senders s WHERE s.xorb = x.hash");
        match sender {
            Some(sender) => query.push(" AND s.sender = ").push_bind(sender),
            None => query.push(" AND 1 = 0"),
        };
        query.push(") THEN 1 ELSE 0 END AS BIGINT)");
        query.push(", CAST(CASE WHEN EXISTS (SELECT 1 FROM repo_xorbs r WHERE r.xorb = x.hash");
        push_reach(&mut query, "r", &Reach::Repo(scope.clone()));
        query.push(") THEN 1 ELSE 0 END AS BIGINT)");
        query.push(", CAST(CASE WHEN EXISTS (SELECT 1 FROM repo_xorbs r WHERE r.xorb = x.hash");
        match within {
            Some(reach) => push_reach(&mut query, "r", reach),
            None => _ = query.push(" AND 1 = 0"),
        }
        query.push(") THEN 1 ELSE 0 END AS BIGINT) FROM xorbs x WHERE x.hash IN ");
        query.push_list(xorbs.iter().copied());
        found.extend(db.read::<XorbReference>("find xorbs", query).await?);
    }
    Ok(found)
}

/// Drops uploads older than `before_s` of xorbs that files are made of: their bytes count elsewhere.
pub(crate) async fn drop_uploads(db: &Catalog, before_s: u64) -> Result<u64> {
    let delete = "DELETE FROM uploads WHERE uploaded_s < $1 \
        AND EXISTS (SELECT 1 FROM file_xorbs u WHERE u.xorb = uploads.xorb)";
    Ok(db.write_one("drop uploads", Sql::new(delete).bind(before_s)).await?.changed)
}

/// Adds the row of a xorb whose object was stored just now; returns whether the row counts that object.
async fn add_object(tx: &mut Tx, xorb: XorbHash, object: &NewObject) -> Result<bool> {
    let NewObject { row, has_fresh_key } = object;
    // In the place of one whose object is being deleted or was.
    let replace = "UPDATE xorbs SET digest = $1, object_bytes = $2, raw_bytes = $3, chunk_count = $4, \
        state = 0, created_s = $5, referenced_s = $6, verified_s = $7 \
        WHERE hash = $8 AND state IN (2, 3) AND digest <> $1";
    let insert = "INSERT INTO xorbs (digest, object_bytes, raw_bytes, chunk_count, state, created_s, \
        referenced_s, verified_s, hash) VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
    for statement in has_fresh_key.then_some(replace).into_iter().chain([insert]) {
        let statement = Sql::new(statement)
            .bind(row.key.digest.as_bytes())
            .bind(row.object_bytes)
            .bind(row.raw_bytes)
            .bind(row.chunk_count)
            .bind(row.created_s)
            .bind(row.referenced_s)
            .bind(row.verified_s)
            .bind(xorb);
        if tx.run(statement).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds the row of an upload of a live xorb, or notes that it was sent again; returns whether the xorb is new to the
/// repository.
async fn add_upload(tx: &mut Tx, upload: &UploadRow, is_first: bool) -> Result<bool> {
    let (namespace, repo) = (upload.scope.namespace(), upload.scope.repo());
    let insert = "INSERT INTO uploads (xorb, namespace, repo, object_bytes, uploaded_s, is_first) \
        SELECT $1, $2, $3, $4, $5, $6 WHERE NOT EXISTS \
        (SELECT 1 FROM repo_xorbs r WHERE r.xorb = $1 AND r.namespace = $2 AND r.repo = $3) \
        ON CONFLICT DO NOTHING";
    let insert = Sql::new(insert)
        .bind(upload.xorb)
        .bind(namespace)
        .bind(repo)
        .bind(upload.object_bytes)
        .bind(upload.uploaded_s)
        .bind(is_first);
    let is_new = tx.run(insert).await? > 0;
    let again = "UPDATE uploads SET uploaded_s = $1 \
        WHERE xorb = $2 AND namespace = $3 AND repo = $4 AND uploaded_s < $1";
    let again = Sql::new(again).bind(upload.uploaded_s).bind(upload.xorb).bind(namespace).bind(repo);
    tx.run(again).await?;
    if let Some(sender) = &upload.sender {
        let insert = "INSERT INTO xorb_senders (xorb, sender) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        tx.run(Sql::new(insert).bind(upload.xorb).bind(sender)).await?;
    }
    Ok(is_new)
}

/// A xorb that a repository sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UploadRow {
    /// The repository.
    pub scope: Scope,
    /// The token it was sent with, where there was one.
    pub sender: Option<String>,
    /// The xorb.
    pub xorb: XorbHash,
    /// Bytes of an object of what was sent. The stored one may be another's, of another length.
    pub object_bytes: u64,
    /// When, Unix seconds.
    pub uploaded_s: u64,
}

/// An object that was stored just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewObject {
    /// The row that counts it, if none does for its xorb.
    pub row: XorbRow,
    /// Whether the key was never used before: only such an object may take the place of one that is being deleted.
    pub has_fresh_key: bool,
}

/// What became of a recorded upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedUpload {
    /// The row of the xorb, whatever its state.
    pub row: Option<XorbRow>,
    /// Whether the row counts the object that was given.
    pub was_inserted: bool,
    /// Whether the repository had neither sent nor registered the xorb before.
    pub is_new: bool,
}

/// A xorb, and what gives a caller the right to refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct XorbReference {
    /// The xorb.
    pub row: XorbRow,
    /// The caller's repository sent it and no shard has registered it yet: bytes of what was sent.
    pub sent_bytes: Option<u64>,
    /// The caller's token sent it, to any repository.
    pub is_senders: bool,
    /// The caller's repository registered it.
    pub is_registered: bool,
    /// A repository within the caller's dedup policy registered it.
    pub is_within: bool,
}

/// The columns of the xorb, then those of the rights in the order of the fields.
impl FromRow for XorbReference {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            row: XorbRow::from_row(row)?,
            sent_bytes: row.optional_number("bytes of an upload")?,
            is_senders: row.flag("right of a sender")?,
            is_registered: row.flag("right of a repository")?,
            is_within: row.flag("reach of a policy")?,
        })
    }
}

impl XorbReference {
    /// Whether the caller sent the xorb or has registered it.
    pub(crate) fn is_own(&self) -> bool {
        self.sent_bytes.is_some() || self.is_senders || self.is_registered
    }

    /// Whether the caller may refer to it where the range hash is right. The hash of a xorb of one chunk is the chunk's hash:
    /// from it the range hash follows, which then proves nothing.
    pub(crate) fn is_provable(&self) -> bool {
        self.is_own() || (self.is_within && self.row.chunk_count > 1)
    }
}

impl Content {
    /// How long the object of a xorb is; `None` when it is not stored, or not for the caller to know of.
    pub async fn xorb_bytes(&self, grant: &Grant, xorb: XorbHash) -> Result<Option<u64>> {
        grant.expect_write()?;
        let found = self.references(grant, &[xorb]).await?.into_iter().next();
        let found = found.filter(|found| found.row.is_live() && found.is_provable());
        Ok(found.map(|found| found.sent_bytes.unwrap_or(found.row.object_bytes)))
    }

    /// Those of these xorbs that have a row, each with what gives the caller the right to refer to it.
    pub(crate) async fn references(&self, grant: &Grant, xorbs: &[XorbHash]) -> Result<Vec<XorbReference>> {
        let within = self.dedup_policy(grant.scope()).await?.reach(grant.scope());
        references(&self.db, grant.scope(), grant.sender(), within.as_ref(), xorbs).await
    }
}

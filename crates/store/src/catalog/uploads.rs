//! Uploads: which repository sent which xorb, parts of files that are not joined yet, and how far content may be found.
//!
//! Two facts follow from an upload: its sender may refer to the xorb, and until a shard registers it the bytes count as
//! pending against the quota of the repository. A registration replaces the upload by a row that says the same for good.

#[cfg(test)]
mod contract;

use xet::{FileHash, Sha256, XorbHash};

use super::keep::{QuotaOf, note};
use super::rows::{Reach, XorbRow};
use super::{BATCH_ROWS, XORB_COLUMNS, push_reach, unique};
use crate::access::Scope;
use crate::audit::Deed;
use crate::db::{Db, FromRow, Row, Sql, Tx};
use crate::dedup::DedupPolicy;
use crate::error::Result;
use crate::repo::RepoId;

/// Uploads that no shard has registered, and dedup policies.
///
/// *Contract*: as for [`Catalog`](super::Catalog).
#[derive(Debug, Clone)]
pub struct UploadCatalog {
    pub(super) db: Db,
}

impl UploadCatalog {
    /// Records that a repository sent a xorb, if the xorb is live, or is with `object`, which was stored just now. A condemned
    /// xorb is live again. Nothing is recorded where the row says damaged or deleted.
    pub async fn record_upload(
        &self,
        upload: &UploadRow,
        object: Option<&NewObject>,
    ) -> Result<RecordedUpload> {
        // Each transaction locks the row of the xorb by writing it.
        self.db
            .write("record an upload", |mut tx| async move {
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
    pub async fn references(
        &self,
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
            found.extend(self.db.read::<XorbReference>("find xorbs", query).await?);
        }
        Ok(found)
    }

    /// A file of the repository that is made of this xorb.
    pub async fn readable_file(&self, scope: &Scope, xorb: XorbHash) -> Result<Option<FileHash>> {
        let query = "SELECT r.file FROM file_xorbs u JOIN repo_files r ON r.file = u.file \
            WHERE u.xorb = $1 AND r.namespace = $2 AND r.repo = $3 LIMIT 1";
        let query = Sql::new(query).bind(xorb).bind(scope.namespace()).bind(scope.repo());
        self.db.read_one("find a file of a xorb", query).await
    }

    /// Drops uploads older than `before_s` of xorbs that files are made of: their bytes count elsewhere.
    pub async fn drop_uploads(&self, before_s: u64) -> Result<u64> {
        let delete = "DELETE FROM uploads WHERE uploaded_s < $1 \
            AND EXISTS (SELECT 1 FROM file_xorbs u WHERE u.xorb = uploads.xorb)";
        Ok(self.db.write_one("drop uploads", Sql::new(delete).bind(before_s)).await?.changed)
    }

    /// Records a part of a file. Of the same number the longest counts: two may be on their way, and which of them is stored last is
    /// not known.
    pub async fn add_part(&self, part: &PartRow) -> Result<()> {
        let insert = "INSERT INTO parts (repo, sha256, number, bytes, stored_s) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (repo, sha256, number) \
            DO UPDATE SET stored_s = excluded.stored_s, \
            bytes = CASE WHEN parts.bytes > excluded.bytes THEN parts.bytes ELSE excluded.bytes END";
        let insert = Sql::new(insert)
            .bind(part.repo)
            .bind(part.file)
            .bind(part.number)
            .bind(part.bytes)
            .bind(part.stored_s);
        self.db.write_one("record a part", insert).await.map(|_| ())
    }

    /// Drops the parts of a file.
    pub async fn drop_parts(&self, repo: RepoId, file: Sha256) -> Result<()> {
        let delete = Sql::new("DELETE FROM parts WHERE repo = $1 AND sha256 = $2").bind(repo).bind(file);
        self.db.write_one("drop parts", delete).await.map(|_| ())
    }

    /// Drops parts older than `before_s`.
    pub async fn drop_old_parts(&self, before_s: u64) -> Result<u64> {
        let delete = Sql::new("DELETE FROM parts WHERE stored_s < $1").bind(before_s);
        Ok(self.db.write_one("drop parts", delete).await?.changed)
    }

    /// All dedup policies, in the order of what they are for.
    pub async fn dedup_policies(&self) -> Result<Vec<(QuotaOf, DedupPolicy)>> {
        let query = "SELECT namespace, repo, policy FROM dedup_policies ORDER BY namespace, repo";
        let rows: Vec<(String, String, i64)> = self.db.read("list dedup policies", Sql::new(query)).await?;
        let row = |(namespace, repo, policy)| {
            // A number that a later version wrote: nothing may be found.
            let policy = DedupPolicy::from_number(policy).unwrap_or(DedupPolicy::Off);
            Ok((QuotaOf::from_columns(namespace, repo)?, policy))
        };
        rows.into_iter().map(row).collect()
    }

    /// Sets how far content may be found, or removes the setting. `off` takes the chunks out of the index as well.
    pub async fn set_dedup_policy(&self, of: &QuotaOf, policy: Option<DedupPolicy>) -> Result<()> {
        let (namespace, repo) = of.columns();
        // Serializable: a registration that runs at the same time must not miss the policy.
        self.db
            .write_serializable("set a dedup policy", |mut tx| async move {
                let set = match policy {
                    Some(policy) => {
                        let set = "INSERT INTO dedup_policies (namespace, repo, policy) VALUES ($1, $2, $3) \
                            ON CONFLICT (namespace, repo) DO UPDATE SET policy = excluded.policy";
                        Sql::new(set).bind(namespace).bind(repo).bind(policy.number())
                    }
                    None => {
                        let delete = "DELETE FROM dedup_policies WHERE namespace = $1 AND repo = $2";
                        Sql::new(delete).bind(namespace).bind(repo)
                    }
                };
                tx.run(set).await?;
                if policy == Some(DedupPolicy::Off) {
                    let mut delete = Sql::new("DELETE FROM dedup WHERE namespace = $1").bind(namespace);
                    if !repo.is_empty() {
                        delete.push(" AND repo = ").push_bind(repo);
                    }
                    tx.run(delete).await?;
                }
                let detail = policy.map_or("default", DedupPolicy::name);
                note(&mut tx, &Deed::new("dedup.set", of.to_string(), detail)).await?;
                tx.commit().await
            })
            .await
    }
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
pub struct UploadRow {
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
pub struct NewObject {
    /// The row that counts it, if none does for its xorb.
    pub row: XorbRow,
    /// Whether the key was never used before: only such an object may take the place of one that is being deleted.
    pub has_fresh_key: bool,
}

/// What became of a recorded upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedUpload {
    /// The row of the xorb, whatever its state.
    pub row: Option<XorbRow>,
    /// Whether the row counts the object that was given.
    pub was_inserted: bool,
    /// Whether the repository had neither sent nor registered the xorb before.
    pub is_new: bool,
}

/// A xorb, and what gives a caller the right to refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorbReference {
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
    pub fn is_own(&self) -> bool {
        self.sent_bytes.is_some() || self.is_senders || self.is_registered
    }

    /// Whether the caller may refer to it where the range hash is right. The hash of a xorb of one chunk is the chunk's hash:
    /// from it the range hash follows, which then proves nothing.
    pub fn is_provable(&self) -> bool {
        self.is_own() || (self.is_within && self.row.chunk_count > 1)
    }
}

/// A part of a file that is not joined yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRow {
    /// The repository.
    pub repo: RepoId,
    /// The file.
    pub file: Sha256,
    /// Its number, from 1.
    pub number: u32,
    /// Its length.
    pub bytes: u64,
    /// When it was stored, Unix seconds.
    pub stored_s: u64,
}

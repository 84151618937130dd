//! Xorbs and shards on their way out: condemned, doomed, buried, forgotten.

use std::collections::HashMap;

use crate::content::rows::XorbState;
use crate::db::batch::BATCH_ROWS;
use crate::db::row::{FromRow, RawHash, Row};
use crate::db::sql::{Sql, Value};
use crate::db::{Catalog, Tx};
use crate::error::Result;
use crate::objects::key::ObjectKey;
use crate::upkeep::gc::rows::{self, DeletableObject, StoredKind};

/// Live ones that no file is made of and nobody referred to since `before_s`.
pub(crate) async fn unused(
    db: &Catalog,
    of: StoredKind,
    before_s: u64,
    after: &[u8],
    limit: u64,
) -> Result<Vec<[u8; 32]>> {
    let query = format!(
        "SELECT hash FROM {} WHERE hash > $1 AND state = 0 AND {} < $2 AND {} ORDER BY hash LIMIT $3",
        of.table(),
        of.seen(),
        of.unused()
    );
    page(db, Sql::new(query).bind(after).bind(before_s).bind(limit)).await
}

/// Condemns these, if still unused.
pub(crate) async fn condemn(
    db: &Catalog,
    of: StoredKind,
    hashes: &[[u8; 32]],
    before_s: u64,
    now_s: u64,
) -> Result<u64> {
    let update = format!(
        "UPDATE {} SET state = 1, condemned_s = $1 WHERE state = 0 AND {} < $2 AND {} AND hash IN $3",
        of.table(),
        of.seen(),
        of.unused()
    );
    let updates = hashes.chunks(BATCH_ROWS);
    let updates = updates.map(|hashes| Sql::new(update.as_str()).bind(now_s).bind(before_s).list(hashes));
    let updates: Vec<_> = updates.collect();
    rows::change(db, "condemn", &updates).await
}

/// Those that were condemned or marked as damaged, and last referred to, before `before_s`, and are still unused.
pub(crate) async fn ripe(
    db: &Catalog,
    of: StoredKind,
    before_s: u64,
    after: &[u8],
    limit: u64,
) -> Result<Vec<[u8; 32]>> {
    let query = format!(
        "SELECT hash FROM {} WHERE hash > $2 AND {} ORDER BY hash LIMIT $3",
        of.table(),
        ripe_condition(of)
    );
    page(db, Sql::new(query).bind(before_s).bind(after).bind(limit)).await
}

/// Gives up these, if still ripe: from now on their objects may be deleted at any time.
pub(crate) async fn mark_deletable(
    db: &Catalog,
    of: StoredKind,
    hashes: &[[u8; 32]],
    before_s: u64,
    now_s: u64,
) -> Result<u64> {
    if hashes.is_empty() {
        return Ok(0);
    }
    db.write_serializable("give up objects", |mut tx| async move {
        let mut deletable = 0;
        for hashes in hashes.chunks(BATCH_ROWS) {
            deletable +=
                mark_some_deletable(&mut tx, of, hashes, &ripe_condition(of), before_s, now_s).await?;
        }
        tx.commit().await?;
        Ok(deletable)
    })
    .await
}

/// Xorbs that no repository ever registered, last sent or referred to before `before_s`, by repositories that sent nothing
/// since either: an upload may take days before it registers anything.
pub(crate) async fn abandoned(
    db: &Catalog,
    before_s: u64,
    after: &[u8],
    limit: u64,
) -> Result<Vec<[u8; 32]>> {
    let condition = abandoned_condition();
    let query = format!("SELECT hash FROM xorbs WHERE hash > $2 AND {condition} ORDER BY hash LIMIT $3");
    page(db, Sql::new(query).bind(before_s).bind(after).bind(limit)).await
}

/// Gives up these, if still abandoned.
pub(crate) async fn doom_abandoned(
    db: &Catalog,
    xorbs: &[[u8; 32]],
    before_s: u64,
    now_s: u64,
) -> Result<u64> {
    if xorbs.is_empty() {
        return Ok(0);
    }
    db.write_serializable("give up abandoned xorbs", |mut tx| async move {
        let (condition, mut deletable) = (abandoned_condition(), 0);
        for hashes in xorbs.chunks(BATCH_ROWS) {
            deletable +=
                mark_some_deletable(&mut tx, StoredKind::Xorbs, hashes, &condition, before_s, now_s).await?;
        }
        tx.commit().await?;
        Ok(deletable)
    })
    .await
}

/// Those whose objects are to be deleted.
pub(crate) async fn deletable(
    db: &Catalog,
    of: StoredKind,
    after: &[u8],
    limit: u64,
) -> Result<Vec<DeletableObject>> {
    let query = format!(
        "SELECT hash, {}, object_bytes FROM {} WHERE state = 2 AND hash > $1 ORDER BY hash LIMIT $2",
        of.digest(),
        of.table()
    );
    let query = Sql::new(query).bind(after).bind(limit);
    let rows: Vec<((RawHash, RawHash), u64)> = db.read("look for what is to be deleted", query).await?;
    let deletable = |((RawHash(hash), RawHash(digest)), bytes)| DeletableObject {
        hash,
        key: of.key(hash, digest),
        bytes,
    };
    Ok(rows.into_iter().map(deletable).collect())
}

/// Records that the objects of these are deleted.
pub(crate) async fn bury(db: &Catalog, of: StoredKind, hashes: &[[u8; 32]], now_s: u64) -> Result<()> {
    let update =
        format!("UPDATE {} SET state = 3, condemned_s = $1 WHERE state = 2 AND hash IN $2", of.table());
    let updates = hashes.chunks(BATCH_ROWS);
    let updates = updates.map(|hashes| Sql::new(update.as_str()).bind(now_s).list(hashes));
    let updates: Vec<_> = updates.collect();
    rows::change(db, "record deletions", &updates).await?;
    Ok(())
}

/// Forgets those that were buried before `before_s`: their keys may be used again.
pub(crate) async fn forget_buried(db: &Catalog, of: StoredKind, before_s: u64) -> Result<u64> {
    let delete = format!("DELETE FROM {} WHERE state = 3 AND condemned_s < $1", of.table());
    rows::change(db, "forget deletions", &[Sql::new(delete).bind(before_s)]).await
}

/// Takes objects that were found, with their lengths. Those that no row knows are doomed; returns those that may be
/// deleted at once, because their row counts another object or none any more.
pub(crate) async fn claim(db: &Catalog, found: &[(ObjectKey, u64)], now_s: u64) -> Result<Vec<ObjectKey>> {
    let mut loose = Vec::new();
    for of in StoredKind::ALL {
        let found = found.iter().filter_map(|(key, bytes)| FoundObject::new(of, *key, *bytes));
        let found: Vec<FoundObject> = found.collect();
        for found in found.chunks(BATCH_ROWS / 2) {
            let claimed = db.write_serializable("claim objects", |tx| claim_some(tx, of, found, now_s));
            let rows: HashMap<[u8; 32], CountedObject> =
                claimed.await?.into_iter().map(|row| (row.hash, row)).collect();
            let is_loose = |object: &&FoundObject| {
                let row = rows.get(&object.hash);
                row.is_some_and(|row| row.digest != object.digest || row.state == XorbState::Gone.number())
            };
            loose.extend(found.iter().filter(is_loose).map(|object| object.key));
        }
    }
    Ok(loose)
}

/// The hashes a query finds.
pub(crate) async fn page(db: &Catalog, query: Sql<'_>) -> Result<Vec<[u8; 32]>> {
    let rows: Vec<RawHash> = db.read("look for what is unused", query).await?;
    Ok(rows.into_iter().map(|RawHash(hash)| hash).collect())
}

/// Condition for a row whose object may be given up; `$1` is the time before which it was condemned.
fn ripe_condition(of: StoredKind) -> String {
    format!("state IN (1, 4) AND condemned_s < $1 AND {} < $1 AND {}", of.seen(), of.unused())
}

/// Condition for a xorb that nobody ever registered; `$1` is the time since which its repositories sent nothing. A
/// registration by any repository takes the mark of the first upload away for good.
fn abandoned_condition() -> String {
    let unused = StoredKind::Xorbs.unused();
    format!(
        "state IN (0, 1, 4) AND referenced_s < $1 AND {unused} \
         AND EXISTS (SELECT 1 FROM uploads u WHERE u.xorb = xorbs.hash AND u.is_first = 1) \
         AND NOT EXISTS (SELECT 1 FROM repo_xorbs r WHERE r.xorb = xorbs.hash) \
         AND NOT EXISTS (SELECT 1 FROM uploads u JOIN uploads o ON o.namespace = u.namespace AND o.repo = u.repo \
         WHERE u.xorb = xorbs.hash AND o.uploaded_s >= $1)"
    )
}

/// Dooms those that still fulfil a condition, and deletes the rows that name them; returns how many.
async fn mark_some_deletable(
    tx: &mut Tx,
    of: StoredKind,
    hashes: &[[u8; 32]],
    condition: &str,
    before_s: u64,
    now_s: u64,
) -> Result<u64> {
    let table = of.table();
    let update = format!(
        "UPDATE {table} SET state = 2, condemned_s = $2 WHERE hash IN $3 AND {condition} RETURNING hash"
    );
    let deletable: Vec<RawHash> = tx.rows(Sql::new(update).bind(before_s).bind(now_s).list(hashes)).await?;
    if of == StoredKind::Xorbs && !deletable.is_empty() {
        let xorbs: Vec<&[u8; 32]> = deletable.iter().map(|RawHash(hash)| hash).collect();
        let less = "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
            SELECT r.namespace, r.repo, 0, -SUM(x.object_bytes) FROM repo_xorbs r \
            JOIN xorbs x ON x.hash = r.xorb WHERE r.xorb IN $1 GROUP BY r.namespace, r.repo";
        tx.run(Sql::new(less).list(xorbs.iter().copied())).await?;
        for table in ["dedup", "repo_xorbs", "uploads", "xorb_senders"] {
            tx.run(Sql::new(format!("DELETE FROM {table} WHERE xorb IN $1")).list(xorbs.iter().copied()))
                .await?;
        }
    }
    Ok(deletable.len() as u64)
}

/// Dooms those that no row knows; returns the rows of all of them.
async fn claim_some(
    mut tx: Tx,
    of: StoredKind,
    found: &[FoundObject],
    now_s: u64,
) -> Result<Vec<CountedObject>> {
    let insert = match of {
        StoredKind::Xorbs => {
            let insert = Sql::new(
                "INSERT INTO xorbs (hash, digest, object_bytes, state, created_s, condemned_s, referenced_s, \
                 raw_bytes, chunk_count, verified_s) VALUES $1 ON CONFLICT DO NOTHING",
            );
            insert.rows(found.iter().map(|object| {
                let (bytes, now) = (Value::from(object.bytes), Value::from(now_s));
                let (hash, digest) = (Value::from(&object.hash), Value::from(&object.digest));
                let (deleting, none) = (Value::from(XorbState::Deleting.number()), Value::from(0_u64));
                let (created, condemned, referenced) = (now.clone(), now.clone(), now);
                let (raw, chunks, verified) = (none.clone(), none.clone(), none);
                [hash, digest, bytes, deleting, created, condemned, referenced, raw, chunks, verified]
            }))
        }
        StoredKind::Shards => {
            let insert = Sql::new(
                "INSERT INTO shards (hash, object_bytes, state, created_s, condemned_s) VALUES $1 \
                 ON CONFLICT DO NOTHING",
            );
            insert.rows(found.iter().map(|object| {
                let (hash, bytes, now) =
                    (Value::from(&object.hash), Value::from(object.bytes), Value::from(now_s));
                [hash, bytes, Value::from(XorbState::Deleting.number()), now.clone(), now]
            }))
        }
    };
    tx.run(insert).await?;
    let query = format!("SELECT hash, {}, state FROM {} WHERE hash IN $1", of.digest(), of.table());
    let rows = tx.rows(Sql::new(query).list(found.iter().map(|object| &object.hash))).await?;
    tx.commit().await?;
    Ok(rows)
}

/// An object that was found in the object store, and what its row should say.
struct FoundObject {
    key: ObjectKey,
    hash: [u8; 32],
    digest: [u8; 32],
    bytes: u64,
}

impl FoundObject {
    /// The object, if it is of this kind.
    fn new(of: StoredKind, key: ObjectKey, bytes: u64) -> Option<Self> {
        let (hash, digest) = match (of, key) {
            (StoredKind::Xorbs, ObjectKey::Xorb(xorb)) => (*xorb.hash.as_bytes(), *xorb.digest.as_bytes()),
            (StoredKind::Shards, ObjectKey::Shard(hash)) => (*hash.as_bytes(), *hash.as_bytes()),
            _ => return None,
        };
        Some(Self { key, hash, digest, bytes })
    }
}

/// The object that a row counts.
struct CountedObject {
    hash: [u8; 32],
    digest: [u8; 32],
    state: i64,
}

impl FromRow for CountedObject {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { hash: row.array("hash")?, digest: row.array("digest")?, state: row.signed("state")? })
    }
}

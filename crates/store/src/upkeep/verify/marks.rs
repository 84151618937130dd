//! Marks of verification on xorbs: found intact, or damaged.

use crate::db::Catalog;
use crate::db::batch::BATCH_ROWS;
use crate::db::sql::{Sql, Value};
use crate::error::Result;
use crate::ids::XorbKey;

/// Records that the objects of these were read and are sound, also of those that were marked as damaged.
pub(crate) async fn note_verified(db: &Catalog, xorbs: &[XorbKey], now_s: u64) -> Result<()> {
    for xorbs in xorbs.chunks(BATCH_ROWS) {
        let update = "UPDATE xorbs SET state = CASE WHEN state = 4 THEN 0 ELSE state END, verified_s = $1 \
            WHERE state NOT IN (2, 3) AND (hash, digest) IN (VALUES $2)";
        let update = Sql::new(update).bind(now_s).rows(xorbs.iter().map(columns));
        db.write_one("record what is sound", update).await?;
    }
    Ok(())
}

/// Marks these as damaged, until they are stored again; returns how many.
pub(crate) async fn mark_damaged(db: &Catalog, xorbs: &[XorbKey], now_s: u64) -> Result<u64> {
    let mut marked = 0;
    for xorbs in xorbs.chunks(BATCH_ROWS) {
        let update = "UPDATE xorbs SET state = 4, condemned_s = $1 \
            WHERE state IN (0, 1) AND (hash, digest) IN (VALUES $2)";
        let update = Sql::new(update).bind(now_s).rows(xorbs.iter().map(columns));
        marked += db.write_one("mark what is damaged", update).await?.changed;
    }
    Ok(marked)
}

fn columns(key: &XorbKey) -> [Value<'_>; 2] {
    [(&key.hash).into(), key.digest.as_bytes().into()]
}

//! Rows of stored xorbs.

use xet::XorbHash;

use crate::content::rows::{AddedXorb, XORB_COLUMNS, XorbRow, XorbState};
use crate::db::batch::{BATCH_ROWS, unique};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::Result;

/// The rows of these xorbs, whatever their state; unknown ones are left out.
pub(crate) async fn xorbs(db: &Catalog, hashes: &[XorbHash]) -> Result<Vec<XorbRow>> {
    let mut rows = Vec::new();
    for hashes in unique(hashes).chunks(BATCH_ROWS) {
        rows.extend(db.read::<XorbRow>("find xorbs", xorbs_of(hashes)).await?);
    }
    Ok(rows)
}

/// Adds xorbs whose objects are stored. An existing row stays, and is live again if it was condemned. One that is
/// being deleted stays too, and says so. Answers once for every distinct hash.
pub(crate) async fn add_xorbs(db: &Catalog, rows: &[XorbRow]) -> Result<Vec<AddedXorb>> {
    let added = db.write("add xorbs", |mut tx| async move {
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

/// Records that these xorbs were reported now, which revives those that were condemned; returns which of them are
/// live.
pub(crate) async fn touch_xorbs(db: &Catalog, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
    let touched = db.write("touch xorbs", |mut tx| async move {
        let live = touch(&mut tx, hashes, now_s).await?;
        tx.commit().await?;
        Ok(live)
    });
    touched.await
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

/// Records that these xorbs were referred to, which revives what was condemned; returns which are live, sorted.
pub(crate) async fn touch(tx: &mut Tx, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
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

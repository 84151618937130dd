//! Rows of accepted shards.

use xet::ShardHash;

use crate::content::rows::ShardRow;
use crate::db::Catalog;
use crate::db::batch::{BATCH_ROWS, unique};
use crate::db::sql::Sql;
use crate::error::Result;

/// A shard that was condemned is needed again. One that is being deleted is not found.
pub(crate) const REVIVE_SHARD: &str = "UPDATE shards SET state = 0 WHERE hash = $1 AND state <= 1";

/// The rows of these shards; unknown ones are left out.
pub(crate) async fn shards(db: &Catalog, hashes: &[ShardHash]) -> Result<Vec<ShardRow>> {
    let mut shards = Vec::new();
    for hashes in unique(hashes).chunks(BATCH_ROWS) {
        let query = Sql::new("SELECT hash, object_bytes, created_s FROM shards WHERE hash IN $1");
        let query = query.list(hashes.iter().copied());
        shards.extend(db.read::<ShardRow>("find shards", query).await?);
    }
    Ok(shards)
}

//! Leases: at most one holder of a name at a time, with a note where it stopped.

use crate::db::Catalog;
use crate::db::sql::Sql;
use crate::error::Result;

/// Takes a lease that is free, expired, the holder's own, or ends more than a day after `until_s`, as one that was taken by
/// a clock that was ahead; returns the place its last holder noted.
pub(crate) async fn take_lease(
    db: &Catalog,
    name: &str,
    holder: &str,
    now_s: u64,
    until_s: u64,
) -> Result<Option<String>> {
    let insert = "INSERT INTO leases (name, holder, expires_s, place) VALUES ($1, $2, $3, '') \
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_s = excluded.expires_s \
        WHERE leases.expires_s <= $4 OR leases.holder = excluded.holder \
        OR leases.expires_s > $3 + 86400 RETURNING place";
    let insert = Sql::new(insert).bind(name).bind(holder).bind(until_s).bind(now_s);
    let taken = db.write_one("take a lease", insert).await?.rows.into_iter().next();
    taken.map(|mut row| row.text("place")).transpose()
}

/// Extends a lease and notes a place; returns whether it was still the holder's.
pub(crate) async fn keep_lease(
    db: &Catalog,
    name: &str,
    holder: &str,
    until_s: u64,
    place: &str,
) -> Result<bool> {
    let update = "UPDATE leases SET expires_s = $1, place = $2 WHERE name = $3 AND holder = $4";
    let update = Sql::new(update).bind(until_s).bind(place).bind(name).bind(holder);
    Ok(db.write_one("keep a lease", update).await?.changed > 0)
}

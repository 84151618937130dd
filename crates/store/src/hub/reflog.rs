//! Reflog: commits that refs have left, and until when they can be restored.

use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::Result;
use crate::ids::{Oid, RepoId};

/// Reflog of a repository, those that expire first first.
pub(crate) async fn entries(db: &Catalog, repo: RepoId) -> Result<Vec<ReflogEntry>> {
    let select = "SELECT oid, name, left_s, reclaim_s FROM reflog WHERE repo = $1 \
        ORDER BY reclaim_s, oid, name";
    db.read("read the reflog", Sql::new(select).bind(repo)).await
}

/// Inserts reflog entries.
pub(crate) async fn insert_entries(db: &Catalog, repo: RepoId, rows: &[ReflogEntry]) -> Result<()> {
    db.write("write the reflog", |mut tx| async move {
        for row in rows {
            append_entry(&mut tx, repo, row).await?;
        }
        tx.commit().await
    })
    .await
}

/// Deletes expired entries; returns how many.
pub(crate) async fn delete_expired(db: &Catalog, repo: RepoId, now_s: u64) -> Result<u64> {
    let delete = "DELETE FROM reflog WHERE repo = $1 AND reclaim_s <= $2";
    let delete = Sql::new(delete).bind(repo).bind(now_s);
    Ok(db.write_one("expire the reflog", delete).await?.changed)
}

/// Appends an entry within a transaction.
pub(crate) async fn append_entry(tx: &mut Tx, repo: RepoId, row: &ReflogEntry) -> Result<()> {
    let insert = "INSERT INTO reflog (repo, oid, name, left_s, reclaim_s) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (repo, oid, name) DO UPDATE SET left_s = excluded.left_s, reclaim_s = excluded.reclaim_s";
    let insert = Sql::new(insert).bind(repo).bind(row.oid).bind(&row.name).bind(row.left_s);
    tx.run(insert.bind(row.reclaim_s)).await.map(|_| ())
}

/// A commit that a ref pointed to before it moved or was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflogEntry {
    /// The commit.
    pub oid: Oid,
    /// The ref.
    pub name: String,
    /// When it left, Unix seconds.
    pub left_s: u64,
    /// When the commit expires, Unix seconds.
    pub reclaim_s: u64,
}

impl FromRow for ReflogEntry {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            oid: Oid::from_row(row)?,
            name: row.text("name of a ref")?,
            left_s: row.number("time")?,
            reclaim_s: row.number("time")?,
        })
    }
}

//! Repositories and their git objects.

use xet::FileHash;

use crate::db::Catalog;
use crate::db::batch::BATCH_ROWS;
use crate::db::row::{FromRow, Row};
use crate::db::sql::{Sql, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::upkeep::gc::rows::GcObject;

/// The git objects of a repository in the order of their ids.
pub(crate) async fn git_page(db: &Catalog, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<GcObject>> {
    let query = "SELECT oid, kind, touched_s, file FROM git_objects WHERE repo = $1 AND oid > $2 \
        ORDER BY oid LIMIT $3";
    db.read("list git objects", Sql::new(query).bind(repo).bind(after).bind(limit)).await
}

/// Begins to sweep a repository; returns its generation, or nothing if it is gone.
pub(crate) async fn begin_repo(db: &Catalog, repo: RepoId) -> Result<Option<u64>> {
    let update = Sql::new("UPDATE repos SET swept = -2 WHERE id = $1 RETURNING generation").bind(repo);
    let found = db.write_one("begin to sweep a repository", update).await?.rows.into_iter().next();
    found.map(|mut row| row.number("generation")).transpose()
}

/// Drops git objects that nobody added since `before_s`, if the repository is still in this generation; returns
/// whether it is.
pub(crate) async fn drop_git(
    db: &Catalog,
    repo: RepoId,
    generation: u64,
    oids: &[Oid],
    before_s: u64,
) -> Result<bool> {
    db.write_serializable("drop git objects", |mut tx| async move {
        // Adding objects and moving refs write this row: from here on they wait.
        let fence = "UPDATE repos SET generation = generation WHERE id = $1 AND generation = $2";
        if tx.run(Sql::new(fence).bind(repo).bind(generation)).await? == 0 {
            return Ok(false);
        }
        for oids in oids.chunks(BATCH_ROWS) {
            let delete = "DELETE FROM git_objects WHERE touched_s < $1 AND (repo, oid) IN (VALUES $2) \
                    RETURNING bytes";
            let keys = oids.iter().map(|oid| [Value::from(repo), oid.into()]);
            let dropped: Vec<i64> = tx.rows(Sql::new(delete).bind(before_s).rows(keys)).await?;
            let bytes: i64 = dropped.iter().sum();
            let update = "UPDATE repos SET git_bytes = git_bytes - $1 WHERE id = $2";
            tx.run(Sql::new(update).bind(bytes).bind(repo)).await?;
        }
        tx.commit().await?;
        Ok(true)
    })
    .await
}

/// Records that a repository of this generation has nothing to drop, if nothing changed in it since
/// [`begin_repo`](Self::begin_repo).
pub(crate) async fn mark_collected(db: &Catalog, repo: RepoId, generation: u64) -> Result<()> {
    let update = "UPDATE repos SET swept = $1 WHERE id = $2 AND generation = $1 AND swept = -2";
    db.write_one("record a sweep", Sql::new(update).bind(generation).bind(repo)).await?;
    Ok(())
}

/// Those of these bundles that a git object of the repository is in.
pub(crate) async fn used_bundles(db: &Catalog, repo: RepoId, bundles: &[Oid]) -> Result<Vec<Oid>> {
    let mut used = Vec::new();
    for bundles in bundles.chunks(BATCH_ROWS) {
        let query = Sql::new("SELECT DISTINCT bundle FROM git_objects WHERE repo = $1 AND bundle IN $2");
        let query = query.bind(repo).list(bundles);
        used.extend(db.read::<Oid>("look for bundles", query).await?);
    }
    Ok(used)
}

/// Id, kind, time added, file.
impl FromRow for GcObject {
    fn from_row(row: &mut Row) -> Result<Self> {
        let impossible =
            || Error::new(ErrorKind::Corrupt, "the catalog holds an impossible kind of an object");
        Ok(Self {
            oid: Oid::from_row(row)?,
            kind: ObjectKind::from_number(row.signed("kind of an object")?).ok_or_else(impossible)?,
            touched_s: row.number("time added")?,
            file: row.optional_array("file hash")?.map(FileHash::new),
        })
    }
}

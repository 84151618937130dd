//! Repositories and their git objects.

use xet::FileHash;

use super::{SweepCatalog, SweptObject, SweptRepo};
use crate::catalog::BATCH_ROWS;
use crate::catalog::repo::{REPO_COLUMNS, RepoRow};
use crate::db::{FromRow, Row, Sql, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::repo::RepoId;
use crate::repo::oid::{ObjectKind, Oid};

impl SweepCatalog {
    /// Repositories in the order of their ids.
    pub async fn all_repos(&self, after: &[u8], limit: u64) -> Result<Vec<SweptRepo>> {
        let query =
            format!("SELECT {REPO_COLUMNS}, generation, swept FROM repos WHERE id > $1 ORDER BY id LIMIT $2");
        self.db.read("list repositories", Sql::new(query).bind(after).bind(limit)).await
    }

    /// The git objects of a repository in the order of their ids.
    pub async fn git_page(&self, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<SweptObject>> {
        let query = "SELECT oid, kind, touched_s, file FROM git_objects WHERE repo = $1 AND oid > $2 \
            ORDER BY oid LIMIT $3";
        self.db.read("list git objects", Sql::new(query).bind(repo).bind(after).bind(limit)).await
    }

    /// Begins to sweep a repository; returns its generation, or nothing if it is gone.
    pub async fn begin_repo(&self, repo: RepoId) -> Result<Option<u64>> {
        let update = Sql::new("UPDATE repos SET swept = -2 WHERE id = $1 RETURNING generation").bind(repo);
        let found = self.db.write_one("begin to sweep a repository", update).await?.rows.into_iter().next();
        found.map(|mut row| row.number("generation")).transpose()
    }

    /// Drops git objects that nobody added since `before_s`, if the repository is still in this generation; returns
    /// whether it is.
    pub async fn drop_git(&self, repo: RepoId, generation: u64, oids: &[Oid], before_s: u64) -> Result<bool> {
        self.db
            .write_serializable("drop git objects", |mut tx| async move {
                // Whoever adds objects or moves refs writes this row: from here on they wait.
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

    /// Notes that a repository of this generation has nothing to drop, if nothing changed in it since
    /// [`begin_repo`](Self::begin_repo).
    pub async fn note_swept(&self, repo: RepoId, generation: u64) -> Result<()> {
        let update = "UPDATE repos SET swept = $1 WHERE id = $2 AND generation = $1 AND swept = -2";
        self.db.write_one("note a sweep", Sql::new(update).bind(generation).bind(repo)).await?;
        Ok(())
    }

    /// Those of these bundles that a git object of the repository is in.
    pub async fn used_bundles(&self, repo: RepoId, bundles: &[Oid]) -> Result<Vec<Oid>> {
        let mut used = Vec::new();
        for bundles in bundles.chunks(BATCH_ROWS) {
            let query = Sql::new("SELECT DISTINCT bundle FROM git_objects WHERE repo = $1 AND bundle IN $2");
            let query = query.bind(repo).list(bundles);
            used.extend(self.db.read::<Oid>("look for bundles", query).await?);
        }
        Ok(used)
    }
}

/// The columns of the repository, generation, generation that was swept.
impl FromRow for SweptRepo {
    fn from_row(row: &mut Row) -> Result<Self> {
        let repo = RepoRow::from_row(row)?;
        let generation = row.number("generation")?;
        let swept = row.signed("generation that was swept")?;
        Ok(Self { row: repo, generation, is_swept: u64::try_from(swept) == Ok(generation) })
    }
}

/// Id, kind, time added, file.
impl FromRow for SweptObject {
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

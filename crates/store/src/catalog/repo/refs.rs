//! Refs of repositories: read by name, and moved from the target they are expected to have.

use super::{FRESH_S, REPO_COLUMNS, RefChange, RefRow, RepoCatalog, RepoRow, like};
use crate::catalog::keep::{LeftRow, leave, note};
use crate::db::{FromRow, Row, Sql, Tx};
use crate::error::Result;
use crate::repo::oid::Oid;
use crate::repo::{RepoId, RepoName};

impl RepoCatalog {
    /// Refs whose name begins so, in the order of their names.
    pub async fn refs(&self, repo: RepoId, prefix: &str) -> Result<Vec<RefRow>> {
        let query = Sql::new(
            "SELECT name, target FROM refs WHERE repo = $1 AND name LIKE $2 ESCAPE '!' ORDER BY name",
        );
        self.db.read("find refs", query.bind(repo).bind(format!("{}%", like(prefix)))).await
    }

    /// The repository of this name, with its refs of these names as far as it has them.
    pub async fn repo_at(
        &self,
        name: &RepoName,
        refs: &[String; 2],
    ) -> Result<Option<(RepoRow, Vec<RefRow>)>> {
        let query = Sql::new(format!(
            "SELECT r.id, r.kind, r.namespace, r.name, r.private, r.created_s, r.updated_s, r.reclaim_s, \
             refs.name, refs.target \
             FROM (SELECT {REPO_COLUMNS} FROM repos WHERE kind = $3 AND folded = $4 AND reclaim_s IS NULL \
                 ORDER BY CASE WHEN namespace = $5 AND name = $6 THEN 0 ELSE 1 END, twin LIMIT 1) r \
             LEFT JOIN refs ON refs.repo = r.id AND refs.name IN ($1, $2)"
        ));
        let query = query
            .bind(&refs[0])
            .bind(&refs[1])
            .bind(name.kind.number())
            .bind(name.folded())
            .bind(&name.namespace)
            .bind(&name.name);
        let rows: Vec<RepoAndRef> = self.db.read("find a repository and its ref", query.short()).await?;
        let (mut found, mut refs) = (None, Vec::new());
        for row in rows {
            found = Some(row.repo);
            refs.extend(row.target);
        }
        Ok(found.map(|repo| (repo, refs)))
    }

    /// The refs of these names; unknown ones are left out.
    pub async fn refs_named(&self, repo: RepoId, names: &[String]) -> Result<Vec<RefRow>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let query = Sql::new("SELECT name, target FROM refs WHERE repo = $1 AND name IN $2");
        self.db.read("find refs", query.bind(repo).list(names).short()).await
    }

    /// Makes these changes if every ref is where its change begins and every commit it shall point to is there, or none of
    /// them; returns whether it did. A commit that a ref leaves, and that its new target does not lead to, goes to the
    /// reflog and is kept for `keep_s` seconds.
    pub async fn move_refs(
        &self,
        repo: RepoId,
        changes: &[RefChange],
        now_s: u64,
        keep_s: u64,
    ) -> Result<bool> {
        self.db
            .write("move refs", |mut tx| async move {
                // First, so that sweep of this repository waits here, or this waits for it.
                let update = Sql::new(format!(
                    "UPDATE repos SET updated_s = $1, swept = -1 WHERE id = $2 RETURNING {REPO_COLUMNS}"
                ));
                // A repository that was deleted meanwhile has no refs to move.
                let Some(row) = tx.row::<RepoRow>(update.bind(now_s).bind(repo)).await? else {
                    return Ok(false);
                };
                let mut is_old = false;
                for change in changes {
                    // A commit that follows the one before leads to it.
                    let mut leads_on = false;
                    // Sweep drops a commit before anything it needs: one that is there is whole.
                    if let Some(to) = change.to {
                        let found = Sql::new(
                            "SELECT touched_s, parent FROM git_objects WHERE repo = $1 AND oid = $2",
                        );
                        let Some(target) = tx.row::<Target>(found.bind(repo).bind(to)).await? else {
                            return Ok(false);
                        };
                        leads_on = target.parent == change.from;
                        is_old |= target.touched_s < now_s.saturating_sub(FRESH_S);
                    }
                    if move_ref(&mut tx, repo, change).await? == 0 {
                        return Ok(false);
                    }
                    // Readers of the commit that the ref left may go on for a while.
                    if let Some(from) = change.from {
                        let touch = Sql::new(
                            "UPDATE git_objects SET touched_s = $1 \
                             WHERE repo = $2 AND oid = $3 AND touched_s < $1",
                        );
                        tx.run(touch.bind(now_s).bind(repo).bind(from)).await?;
                        if keep_s > 0 && !leads_on && change.to != Some(from) {
                            let (name, reclaim_s) = (change.name.clone(), now_s.saturating_add(keep_s));
                            let left = LeftRow { oid: from, name, left_s: now_s, reclaim_s };
                            leave(&mut tx, repo, &left).await?;
                        }
                    }
                    note(&mut tx, &change.deed(&row.name)).await?;
                }
                // A commit that was just added is safe from sweep, and so is all it needs. One that a ref comes back to
                // may have been found unreachable a moment ago.
                if is_old {
                    let update = Sql::new("UPDATE repos SET generation = generation + 1 WHERE id = $1");
                    tx.run(update.bind(repo)).await?;
                }
                tx.commit().await?;
                Ok(true)
            })
            .await
    }
}

/// A repository and one of its refs.
struct RepoAndRef {
    repo: RepoRow,
    target: Option<RefRow>,
}

impl FromRow for RepoAndRef {
    fn from_row(row: &mut Row) -> Result<Self> {
        let repo = RepoRow::from_row(row)?;
        let name = row.optional_text("name of a ref")?;
        let target = row.optional_array("object id")?.map(Oid::new);
        let target = name.zip(target).map(|(name, target)| RefRow { name, target });
        Ok(Self { repo, target })
    }
}

/// A commit that a ref shall point to.
struct Target {
    touched_s: u64,
    parent: Option<Oid>,
}

impl FromRow for Target {
    fn from_row(row: &mut Row) -> Result<Self> {
        let touched_s = row.number("time touched")?;
        Ok(Self { touched_s, parent: row.optional_array("object id")?.map(Oid::new) })
    }
}

/// Changes one ref; returns 0 if it is not where the change begins.
async fn move_ref(tx: &mut Tx, repo: RepoId, change: &RefChange) -> Result<u64> {
    match (change.from, change.to) {
        (None, Some(to)) => insert_ref(tx, repo, &change.name, to).await,
        (Some(from), Some(to)) => {
            let update =
                Sql::new("UPDATE refs SET target = $1 WHERE repo = $2 AND name = $3 AND target = $4");
            tx.run(update.bind(to).bind(repo).bind(&change.name).bind(from)).await
        }
        (Some(from), None) => {
            let delete = Sql::new("DELETE FROM refs WHERE repo = $1 AND name = $2 AND target = $3");
            tx.run(delete.bind(repo).bind(&change.name).bind(from)).await
        }
        (None, None) => Ok(1),
    }
}

/// Adds a ref; returns 0 if there is one of this name.
pub(super) async fn insert_ref(tx: &mut Tx, repo: RepoId, name: &str, target: Oid) -> Result<u64> {
    let insert = "INSERT INTO refs (repo, name, target) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    tx.run(Sql::new(insert).bind(repo).bind(name).bind(target)).await
}

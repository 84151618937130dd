//! Quotas, and the usage that they limit.

use super::{KeepCatalog, Limit, QuotaOf, QuotaRow, Usage, add_line, note};
use crate::audit::Deed;
use crate::db::{FromRow, Row, Sql};
use crate::error::Result;
use crate::repo::Kind;

impl KeepCatalog {
    /// All quotas, in the order of what they are for.
    pub async fn quotas(&self) -> Result<Vec<QuotaRow>> {
        let select = "SELECT namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard \
            FROM quotas ORDER BY namespace, repo";
        self.db.read("list quotas", Sql::new(select)).await
    }

    /// Sets a quota, whatever it was.
    pub async fn set_quota(&self, row: &QuotaRow) -> Result<()> {
        self.db
            .write("set a quota", |mut tx| async move {
                let (namespace, repo) = row.of.columns();
                let set = "INSERT INTO quotas \
                    (namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard) \
                    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (namespace, repo) DO UPDATE SET \
                    logical_soft = excluded.logical_soft, logical_hard = excluded.logical_hard, \
                    physical_soft = excluded.physical_soft, physical_hard = excluded.physical_hard";
                let set = Sql::new(set)
                    .bind(namespace)
                    .bind(repo)
                    .bind(row.logical.soft)
                    .bind(row.logical.hard)
                    .bind(row.physical.soft)
                    .bind(row.physical.hard);
                tx.run(set).await?;
                let detail = format!("logical {} physical {}", row.logical, row.physical);
                note(&mut tx, &Deed::new("quota.set", row.of.to_string(), detail)).await?;
                tx.commit().await
            })
            .await
    }

    /// Removes a quota; returns whether there was one.
    pub async fn remove_quota(&self, of: &QuotaOf) -> Result<bool> {
        self.db
            .write("remove a quota", |mut tx| async move {
                let (namespace, repo) = of.columns();
                let delete = Sql::new("DELETE FROM quotas WHERE namespace = $1 AND repo = $2");
                let was_there = tx.run(delete.bind(namespace).bind(repo)).await? > 0;
                if was_there {
                    note(&mut tx, &Deed::new("quota.remove", of.to_string(), "")).await?;
                }
                tx.commit().await?;
                Ok(was_there)
            })
            .await
    }

    /// What a namespace or repository takes. What is in the trash counts for its namespace.
    pub async fn usage(&self, of: &QuotaOf) -> Result<Usage> {
        let what = "add up usage";
        let (namespace, repo) = of.columns();
        let mut lines = Sql::new(
            "SELECT CAST(COALESCE(SUM(logical_bytes), 0) AS BIGINT), \
            CAST(COALESCE(SUM(physical_bytes), 0) AS BIGINT) FROM usage WHERE namespace = $1",
        )
        .bind(namespace);
        let mut git = Sql::new(
            "SELECT CAST(COALESCE(SUM(git_bytes), 0) AS BIGINT), \
            CAST(COALESCE(SUM((SELECT SUM(p.bytes) FROM parts p WHERE p.repo = repos.id)), 0) AS BIGINT) \
            FROM repos WHERE namespace = $1",
        )
        .bind(namespace);
        // What no shard has registered yet takes room all the same.
        let mut uploads = Sql::new(
            "SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM uploads WHERE namespace = $1",
        )
        .bind(namespace);
        if let QuotaOf::Repo(_) = of {
            let (kind, name) = repo.split_once('/').unwrap_or(("", repo));
            let kind = Kind::ALL.into_iter().find(|known| known.plural() == kind);
            lines.push(" AND repo = ").push_bind(repo);
            git.push(" AND reclaim_s IS NULL AND kind = ").push_bind(kind.map_or(-1, Kind::number));
            git.push(" AND name = ").push_bind(name);
            uploads.push(" AND repo = ").push_bind(repo);
        }
        let (logical, physical): (i64, i64) = self.db.read_one(what, lines).await?.unwrap_or_default();
        let (git, parts): (i64, i64) = self.db.read_one(what, git).await?.unwrap_or_default();
        let uploads: i64 = self.db.read_one(what, uploads).await?.unwrap_or_default();
        let stored = physical.saturating_add(git).saturating_add(parts).saturating_add(uploads);
        // Never below zero, whatever a difference got wrong.
        let bytes = |sum: i64| u64::try_from(sum).unwrap_or(0);
        Ok(Usage { logical_bytes: bytes(logical.saturating_add(git)), physical_bytes: bytes(stored) })
    }

    /// Makes one line of usage of the many of each repository.
    pub async fn fold_usage(&self) -> Result<()> {
        let many = "SELECT namespace, repo FROM usage GROUP BY namespace, repo HAVING COUNT(*) > 1";
        let many: Vec<(String, String)> = self.db.read("look at usage", Sql::new(many)).await?;
        for (namespace, repo) in &many {
            self.db
                .write("fold usage", |mut tx| async move {
                    let delete = "DELETE FROM usage WHERE namespace = $1 AND repo = $2 \
                        RETURNING logical_bytes, physical_bytes";
                    let delete = Sql::new(delete).bind(namespace).bind(repo);
                    let lines: Vec<(i64, i64)> = tx.rows(delete).await?;
                    let logical = lines.iter().map(|line| line.0).sum();
                    let physical = lines.iter().map(|line| line.1).sum();
                    add_line(&mut tx, namespace, repo, logical, physical).await?;
                    tx.commit().await
                })
                .await?;
        }
        Ok(())
    }

    /// Counts the usage of everything again. Nobody else may write meanwhile.
    pub async fn recount_usage(&self) -> Result<()> {
        self.db
            .write("count usage", |mut tx| async move {
                for statement in [
                    "DELETE FROM usage",
                    "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                        SELECT r.namespace, r.repo, SUM(f.file_bytes), 0 FROM repo_files r \
                        JOIN files f ON f.hash = r.file GROUP BY r.namespace, r.repo",
                    "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                        SELECT r.namespace, r.repo, 0, SUM(x.object_bytes) FROM repo_xorbs r \
                        JOIN xorbs x ON x.hash = r.xorb GROUP BY r.namespace, r.repo",
                    "UPDATE repos SET git_bytes = \
                        (SELECT COALESCE(SUM(g.bytes), 0) FROM git_objects g WHERE g.repo = repos.id)",
                ] {
                    tx.run(Sql::new(statement)).await?;
                }
                tx.commit().await
            })
            .await
    }
}

impl FromRow for QuotaRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (namespace, repo) = (row.text("namespace")?, row.text("repository")?);
        let mut bytes = || row.optional_number("bytes of a quota");
        Ok(Self {
            of: QuotaOf::from_columns(namespace, repo)?,
            logical: Limit { soft: bytes()?, hard: bytes()? },
            physical: Limit { soft: bytes()?, hard: bytes()? },
        })
    }
}

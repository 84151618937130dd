//! Repositories: created, found by name, renamed, moved to the trash and back, deleted.

use super::git_objects::insert_objects;
use super::people::is_spelled;
use super::refs::insert_ref;
use super::{GitRow, REPO_COLUMNS, RefRow, RepoCatalog, RepoQuery, RepoRow, like};
use crate::access::Scope;
use crate::audit::Deed;
use crate::catalog::keep::note;
use crate::catalog::tokens::BIND_TOKENS;
use crate::db::{Sql, Tx, integer};
use crate::error::Result;
use crate::repo::RepoName;
use crate::repo::oid::Oid;

impl RepoCatalog {
    /// Adds a repository with its first objects and refs; returns whether the name was free, without regard to case.
    pub async fn create_repo(&self, row: &RepoRow, objects: &[GitRow], refs: &[RefRow]) -> Result<bool> {
        let scope = &row.name.scope()?;
        self.db
            .write("add a repository", |mut tx| async move {
                if !is_spelled(&mut tx, &row.name.namespace).await? {
                    return Ok(false);
                }
                let insert = Sql::new(
                    "INSERT INTO repos (id, kind, namespace, name, private, created_s, updated_s) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
                );
                let insert = insert
                    .bind(row.id)
                    .bind(row.name.kind.number())
                    .bind(&row.name.namespace)
                    .bind(&row.name.name)
                    .bind(row.private)
                    .bind(row.created_s)
                    .bind(row.updated_s);
                if tx.run(insert).await? == 0 {
                    return Ok(false);
                }
                insert_objects(&mut tx, row.id, objects, row.created_s).await?;
                for given in refs {
                    insert_ref(&mut tx, row.id, &given.name, given.target).await?;
                }
                if row.reclaim_s.is_none() {
                    let bind = Sql::new(BIND_TOKENS).bind(row.id).bind(scope.namespace()).bind(scope.repo());
                    tx.run(bind).await?;
                }
                let detail = if row.private { "private" } else { "public" };
                note(&mut tx, &Deed::new("repo.create", row.name.to_string(), detail)).await?;
                tx.commit().await?;
                Ok(true)
            })
            .await
    }

    /// The repositories of these names in any case; unknown ones are left out. Where two differ in case only, the one of
    /// exactly this name, else the oldest.
    pub async fn repos(&self, names: &[RepoName]) -> Result<Vec<RepoRow>> {
        let query = format!(
            "SELECT {REPO_COLUMNS} FROM repos WHERE kind = $1 AND folded = $2 AND reclaim_s IS NULL \
             ORDER BY CASE WHEN namespace = $3 AND name = $4 THEN 0 ELSE 1 END, twin LIMIT 1"
        );
        let mut rows = Vec::new();
        for name in names {
            let query = Sql::new(query.as_str())
                .bind(name.kind.number())
                .bind(name.folded())
                .bind(&name.namespace)
                .bind(&name.name);
            let row: Option<RepoRow> = self.db.read_one("find a repository", query.short()).await?;
            rows.extend(row);
        }
        Ok(rows)
    }

    /// Repositories in the order of their names, at most as many as the query allows.
    pub async fn list_repos(&self, query: &RepoQuery) -> Result<Vec<RepoRow>> {
        let mut select =
            Sql::new(format!("SELECT {REPO_COLUMNS} FROM repos WHERE reclaim_s IS NULL AND kind = "));
        select.push_bind(query.kind.number());
        if let Some(namespace) = &query.namespace {
            select.push(" AND namespace = ").push_bind(namespace);
        }
        if let Some(search) = &query.search {
            let pattern = format!("%{}%", like(&search.to_lowercase()));
            select.push(" AND LOWER(namespace || '/' || name) LIKE ").push_bind(pattern);
            select.push(" ESCAPE '!'");
        }
        if let Some(namespaces) = &query.private_of {
            select.push(" AND (private = 0");
            if !namespaces.is_empty() {
                select.push(" OR namespace IN ").push_list(namespaces);
            }
            select.push(")");
        }
        if let Some((namespace, name)) = &query.after {
            select.push(" AND (namespace > ").push_bind(namespace);
            select.push(" OR (namespace = ").push_bind(namespace);
            select.push(" AND name > ").push_bind(name).push("))");
        }
        select.push(" ORDER BY namespace, name LIMIT ").push_bind(query.limit);
        self.db.read("list repositories", select).await
    }

    /// Repositories in the trash, those that are reclaimed first first.
    pub async fn trash(&self) -> Result<Vec<RepoRow>> {
        let query =
            format!("SELECT {REPO_COLUMNS} FROM repos WHERE reclaim_s IS NOT NULL ORDER BY reclaim_s, id");
        self.db.read("list the trash", Sql::new(query)).await
    }

    /// Makes a repository what `to` says: its name, with all that its files, digests and chunks are found by, its
    /// visibility, and whether it is in the trash. Returns whether it was as `from` says and the name was free.
    pub async fn change_repo(&self, from: &RepoRow, to: &RepoRow) -> Result<bool> {
        let (old, new) = (&from.scope()?, &to.scope()?);
        self.db
            .write("change a repository", |mut tx| async move {
                // One that keeps its name may have a twin from before names were unique without regard to case.
                let is_renamed = from.name != to.name || from.reclaim_s.is_some();
                if to.reclaim_s.is_none()
                    && is_renamed
                    && (is_taken(&mut tx, from, &to.name).await?
                        || !is_spelled(&mut tx, &to.name.namespace).await?)
                {
                    return Ok(false);
                }
                let twin = if is_renamed { "0" } else { "twin" };
                let update = Sql::new(format!(
                    "UPDATE repos SET kind = $1, namespace = $2, name = $3, private = $4, reclaim_s = $5, \
                     twin = {twin} WHERE id = $6 AND kind = $7 AND namespace = $8 AND name = $9 \
                     AND COALESCE(reclaim_s, -1) = $10"
                ));
                let update = update
                    .bind(to.name.kind.number())
                    .bind(&to.name.namespace)
                    .bind(&to.name.name)
                    .bind(to.private)
                    .bind(to.reclaim_s)
                    .bind(from.id)
                    .bind(from.name.kind.number())
                    .bind(&from.name.namespace)
                    .bind(&from.name.name)
                    .bind(from.reclaim_s.map_or(-1, integer));
                if tx.run(update).await? == 0 {
                    return Ok(false);
                }
                if old != new {
                    rename(&mut tx, old, new).await?;
                }
                // Tokens of the repository are shown by its name.
                if old != new && to.reclaim_s.is_none() {
                    let update = Sql::new("UPDATE tokens SET namespace = $1, repo = $2 WHERE repo_id = $3");
                    tx.run(update.bind(new.namespace()).bind(new.repo()).bind(to.id)).await?;
                }
                note(&mut tx, &from.deed(to)).await?;
                tx.commit().await?;
                Ok(true)
            })
            .await
    }

    /// Deletes a repository and what it may read; returns the bundles of its git objects, which nothing needs any more.
    pub async fn delete_repo(&self, row: &RepoRow) -> Result<Vec<Oid>> {
        let scope = &row.scope()?;
        self.db
            .write("delete a repository", |mut tx| async move {
                let bundles = Sql::new("SELECT DISTINCT bundle FROM git_objects WHERE repo = $1");
                let bundles: Vec<Oid> = tx.rows(bundles.bind(row.id)).await?;
                for delete in [
                    "DELETE FROM git_objects WHERE repo = $1",
                    "DELETE FROM refs WHERE repo = $1",
                    "DELETE FROM pulls WHERE repo = $1",
                    "DELETE FROM locks WHERE repo = $1",
                    "DELETE FROM reflog WHERE repo = $1",
                    "DELETE FROM records WHERE id = $1",
                    "DELETE FROM repo_sizes WHERE repo = $1",
                    "DELETE FROM parts WHERE repo = $1",
                    "DELETE FROM repos WHERE id = $1",
                ] {
                    tx.run(Sql::new(delete).bind(row.id)).await?;
                }
                delete_scope(&mut tx, scope).await?;
                note(&mut tx, &Deed::new("repo.delete", row.name.to_string(), row.id.to_string())).await?;
                tx.commit().await?;
                Ok(bundles)
            })
            .await
    }
}

/// Whether a repository other than `from` has this name, in any case.
async fn is_taken(tx: &mut Tx, from: &RepoRow, name: &RepoName) -> Result<bool> {
    let taken = "SELECT id FROM repos WHERE kind = $1 AND folded = $2 AND reclaim_s IS NULL AND id <> $3";
    let taken = Sql::new(taken).bind(name.kind.number()).bind(name.folded()).bind(from.id);
    Ok(tx.row::<()>(taken).await?.is_some())
}

/// Moves what a repository may read and find to another name of it.
async fn rename(tx: &mut Tx, old: &Scope, new: &Scope) -> Result<()> {
    // Copied, then removed: the new name may have rows of its own.
    for copy in [
        "INSERT INTO repo_files (namespace, repo, file, created_s, sha256) \
            SELECT $1, $2, file, created_s, sha256 FROM repo_files WHERE namespace = $3 AND repo = $4 \
            ON CONFLICT DO NOTHING",
        "INSERT INTO repo_sha256s (namespace, repo, sha256, file) SELECT $1, $2, sha256, file \
            FROM repo_sha256s WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
        "INSERT INTO repo_xorbs (xorb, namespace, repo) SELECT xorb, $1, $2 \
            FROM repo_xorbs WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
        "INSERT INTO dedup (chunk, namespace, repo, xorb, chunk_index) \
            SELECT chunk, $1, $2, xorb, chunk_index \
            FROM dedup WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
        "UPDATE usage SET namespace = $1, repo = $2 WHERE namespace = $3 AND repo = $4",
        "INSERT INTO uploads (xorb, namespace, repo, object_bytes, uploaded_s, is_first) \
            SELECT xorb, $1, $2, object_bytes, uploaded_s, is_first \
            FROM uploads WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
        "UPDATE dedup_policies SET namespace = $1, repo = $2 WHERE namespace = $3 AND repo = $4 \
            AND NOT EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = $1 AND p.repo = $2)",
        // The policy of the new namespace may be `off`.
        "DELETE FROM dedup WHERE namespace = $1 AND repo = $2 \
            AND EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = $1 \
            AND p.repo IN ('', $2) AND p.policy >= 3)",
        "UPDATE quotas SET namespace = $1, repo = $2 WHERE namespace = $3 AND repo = $4 \
            AND NOT EXISTS (SELECT 1 FROM quotas q WHERE q.namespace = $1 AND q.repo = $2)",
    ] {
        let copy = Sql::new(copy);
        let copy = copy.bind(new.namespace()).bind(new.repo()).bind(old.namespace()).bind(old.repo());
        tx.run(copy).await?;
    }
    delete_scope(tx, old).await
}

/// Deletes what a repository may read and find under a name.
async fn delete_scope(tx: &mut Tx, scope: &Scope) -> Result<()> {
    for delete in [
        "DELETE FROM repo_files WHERE namespace = $1 AND repo = $2",
        "DELETE FROM repo_sha256s WHERE namespace = $1 AND repo = $2",
        "DELETE FROM repo_xorbs WHERE namespace = $1 AND repo = $2",
        "DELETE FROM dedup WHERE namespace = $1 AND repo = $2",
        "DELETE FROM usage WHERE namespace = $1 AND repo = $2",
        "DELETE FROM quotas WHERE namespace = $1 AND repo = $2",
        "DELETE FROM uploads WHERE namespace = $1 AND repo = $2",
        "DELETE FROM dedup_policies WHERE namespace = $1 AND repo = $2",
    ] {
        tx.run(Sql::new(delete).bind(scope.namespace()).bind(scope.repo())).await?;
    }
    Ok(())
}

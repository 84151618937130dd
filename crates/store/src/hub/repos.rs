//! Repositories: git's objects and refs in the catalog, large files by reference to the content store.
//!
//! A commit's new objects are one object of the store, its *bundle*: object first, rows second, the ref last. The ref
//! is compared and set in one statement, so of two commits on one branch the second sees the first or starts again.

use crate::access::Scope;
use crate::audit::{AuditEvent, append_event};
use crate::db::batch::like;
use crate::db::sql::{Sql, integer};
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::bundle::Bundle;
use crate::hub::commit_object::{Commit, Signature};
use crate::hub::edit_tree::Edits;
use crate::hub::git_objects::insert_objects;
use crate::hub::people::is_spelled;
use crate::hub::refs::{self, insert_ref};
use crate::hub::rows::{GitRow, REPO_COLUMNS, RefRow, RepoQuery, RepoRow};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::names::RepoName;
use crate::objects::key::ObjectKey;

/// Whether everyone may read repositories, as it was a moment ago.
pub(crate) type Visible = moka::future::Cache<Scope, bool>;

pub(crate) fn visible() -> Visible {
    let age_max = std::time::Duration::from_secs(2);
    moka::future::Cache::builder().max_capacity(VISIBLE_MAX).time_to_live(age_max).build()
}

/// Repositories whose visibility is kept.
const VISIBLE_MAX: u64 = 10_000;

impl Hub {
    /// The repository of an id, in the trash or not.
    pub async fn repo_of(&self, repo: RepoId) -> Result<Option<RepoRow>> {
        repo_of(&self.db, repo).await
    }

    /// Makes a repository with one commit on `main`. A name that is taken, in any case, is a conflict.
    pub async fn create_repo(&self, name: &RepoName, private: bool, author: &str) -> Result<RepoRow> {
        name.check_new()?;
        let name = &self.spelled(name).await?;
        let taken = || Error::new(ErrorKind::Conflict, format!("{name} is there already"));
        if !repos(&self.db, std::slice::from_ref(name)).await?.is_empty() {
            return Err(taken());
        }
        let now_s = self.clock.now_s();
        let row = RepoRow {
            id: RepoId::random()?,
            name: name.clone(),
            private,
            created_s: now_s,
            updated_s: now_s,
            reclaim_s: None,
        };
        let mut edits = Edits::default();
        let mut bundle = Bundle::new(&row.name, refs::MAIN);
        let attributes = bundle.push(ObjectKind::Blob, GIT_ATTRIBUTES.as_bytes().to_vec().into(), None);
        edits.put(".gitattributes", attributes)?;
        let tree = self.edit_tree(row.id, None, &edits, &mut bundle).await?;
        let commit = Commit {
            tree,
            parents: Vec::new(),
            author: Signature::new(author, now_s),
            message: "initial commit".to_owned(),
        };
        let (oid, rows) = self.seal_bundle(row.id, bundle, &commit, 1).await?;
        let main = RefRow { name: refs::MAIN.to_owned(), target: oid };
        match create_repo(&self.db, &row, &rows, &[main]).await? {
            true => {
                self.persist_snapshot(row.id).await?;
                Ok(row)
            }
            false => {
                self.objects.delete(&ObjectKey::Bundle { repo: row.id, commit: oid }).await?;
                Err(taken())
            }
        }
    }

    /// The repository of a name, in any case. Everything that looks up a repository by its name comes here or to
    /// `repo_at`, and goes on with the name of the row.
    pub async fn repo(&self, name: &RepoName) -> Result<Option<RepoRow>> {
        Ok(repos(&self.db, std::slice::from_ref(name)).await?.into_iter().next())
    }

    /// Whether everyone may read what a repository has registered. Cached for some seconds; `false` for a missing repository.
    pub async fn is_public(&self, scope: &Scope) -> Result<bool> {
        if let Some(is_public) = self.visible.get(scope).await {
            return Ok(is_public);
        }
        let name = RepoName::of_scope(scope);
        let row = match &name {
            Some(name) => self.repo(name).await?,
            None => None,
        };
        let is_public = row.is_some_and(|row| !row.private);
        self.visible.insert(scope.clone(), is_public).await;
        Ok(is_public)
    }

    /// Repositories in the order of their names.
    pub async fn list_repos(&self, query: &RepoQuery) -> Result<Vec<RepoRow>> {
        list_repos(&self.db, query).await
    }

    /// Gives a repository another name, which may differ in case only; returns it as it is spelled. A name that is taken
    /// is a conflict.
    pub async fn rename_repo(&self, repo: &RepoRow, to: &RepoName) -> Result<RepoName> {
        let to = self.spelled(to).await?;
        if to != repo.name {
            to.check_new()?;
            self.change_repo(repo, &RepoRow { name: to.clone(), ..repo.clone() }).await?;
        }
        Ok(to)
    }

    /// Makes a repository private or public.
    pub async fn set_private(&self, repo: &RepoRow, private: bool) -> Result<()> {
        self.change_repo(repo, &RepoRow { private, ..repo.clone() }).await
    }

    pub(super) async fn change_repo(&self, from: &RepoRow, to: &RepoRow) -> Result<()> {
        self.change_row(from, to).await?;
        self.persist_snapshot(from.id).await
    }

    pub(super) async fn change_row(&self, from: &RepoRow, to: &RepoRow) -> Result<()> {
        let changed = change_repo(&self.db, from, to).await?;
        self.content.forget_recipes();
        self.visible.invalidate_all();
        match changed {
            true if from.scope()? != to.scope()? => self.move_dedup_policy().await,
            true => Ok(()),
            false if from.name == to.name && from.reclaim_s == to.reclaim_s => {
                Err(Error::new(ErrorKind::Conflict, format!("{} has changed: look again", from.name)))
            }
            false => Err(Error::new(ErrorKind::Conflict, format!("{} is there already", to.name))),
        }
    }
}

/// Files that git clients must store as LFS: the same as for uploads.
const GIT_ATTRIBUTES: &str = include_str!("gitattributes.txt");

/// Endings of files that are large by nature, one a line in the attributes.
pub fn large_endings() -> impl Iterator<Item = &'static str> {
    GIT_ATTRIBUTES.lines().filter_map(|line| line.strip_prefix('*')?.split(' ').next())
}

/// The repository of this id, in the trash or not.
pub(crate) async fn repo_of(db: &Catalog, repo: RepoId) -> Result<Option<RepoRow>> {
    let query = Sql::new(format!("SELECT {REPO_COLUMNS} FROM repos WHERE id = $1"));
    db.read_one("find a repository", query.bind(repo).short()).await
}

/// Adds a repository with its first objects and refs; returns whether the name was free, without regard to case.
pub(crate) async fn create_repo(
    db: &Catalog,
    row: &RepoRow,
    objects: &[GitRow],
    refs: &[RefRow],
) -> Result<bool> {
    let scope = &row.name.scope()?;
    db.write("add a repository", |mut tx| async move {
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
        append_event(&mut tx, &AuditEvent::new("repo.create", row.name.to_string(), detail)).await?;
        tx.commit().await?;
        Ok(true)
    })
    .await
}

/// The repositories of these names in any case; unknown ones are left out. Where two differ in case only, the one of
/// exactly this name, else the oldest.
pub(crate) async fn repos(db: &Catalog, names: &[RepoName]) -> Result<Vec<RepoRow>> {
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
        let row: Option<RepoRow> = db.read_one("find a repository", query.short()).await?;
        rows.extend(row);
    }
    Ok(rows)
}

/// Repositories in the order of their names, at most as many as the query allows.
pub(crate) async fn list_repos(db: &Catalog, query: &RepoQuery) -> Result<Vec<RepoRow>> {
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
    db.read("list repositories", select).await
}

/// Repositories in the trash, those that are reclaimed first first.
pub(crate) async fn trash(db: &Catalog) -> Result<Vec<RepoRow>> {
    let query =
        format!("SELECT {REPO_COLUMNS} FROM repos WHERE reclaim_s IS NOT NULL ORDER BY reclaim_s, id");
    db.read("list the trash", Sql::new(query)).await
}

/// Makes a repository what `to` says: its name, with all that its files, digests and chunks are found by, its
/// visibility, and whether it is in the trash. Returns whether it was as `from` says and the name was free.
pub(crate) async fn change_repo(db: &Catalog, from: &RepoRow, to: &RepoRow) -> Result<bool> {
    let (old, new) = (&from.scope()?, &to.scope()?);
    db.write("change a repository", |mut tx| async move {
        // One that keeps its name may have a twin from before names were unique without regard to case.
        let is_renamed = from.name != to.name || from.reclaim_s.is_some();
        if to.reclaim_s.is_none()
            && is_renamed
            && (is_taken(&mut tx, from, &to.name).await? || !is_spelled(&mut tx, &to.name.namespace).await?)
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
        append_event(&mut tx, &from.event(to)).await?;
        tx.commit().await?;
        Ok(true)
    })
    .await
}

/// Deletes a repository and what it may read; returns the bundles of its git objects, which nothing needs any more.
pub(crate) async fn delete_repo(db: &Catalog, row: &RepoRow) -> Result<Vec<Oid>> {
    let scope = &row.scope()?;
    db.write("delete a repository", |mut tx| async move {
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
        append_event(&mut tx, &AuditEvent::new("repo.delete", row.name.to_string(), row.id.to_string()))
            .await?;
        tx.commit().await?;
        Ok(bundles)
    })
    .await
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

/// Binds the tokens for a scope to the repository that was created there.
const BIND_TOKENS: &str = "UPDATE tokens SET repo_id = $1 \
    WHERE repo_id IS NULL AND LOWER(namespace) = LOWER($2) AND LOWER(repo) = LOWER($3)";

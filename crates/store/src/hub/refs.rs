//! Refs: branches, tags and pull requests, and what a revision means.

use std::collections::HashMap;
use std::sync::Arc;

use moka::sync::Cache;

use crate::audit::append_event;
use crate::db::batch::like;
use crate::db::batcher::Batcher;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::db::{Catalog, ChangeToken, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::reflog::{ReflogEntry, append_entry};
use crate::hub::rows::{REPO_COLUMNS, RefChange, RefRow, RepoRow};
use crate::hub::{Hub, git_objects};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::names::RepoName;

/// The branch every repository has.
pub const MAIN: &str = "refs/heads/main";

/// What branches begin with.
pub const HEADS: &str = "refs/heads/";

/// What tags begin with.
pub const TAGS: &str = "refs/tags/";

/// What pull requests begin with.
pub const PULLS: &str = "refs/pr/";

/// A branch or tag as people say it.
pub fn short(ref_name: &str) -> &str {
    let plain = ref_name.strip_prefix(HEADS).or_else(|| ref_name.strip_prefix(TAGS));
    plain.unwrap_or(ref_name)
}

/// Whether git would take this for the name of a branch or tag.
pub fn is_ref_name(name: &str) -> bool {
    let bad = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.contains(bad)
        && !name.contains("..")
        && !name.contains("@{")
        && name != "@"
        && !name.starts_with('-')
        && !name.starts_with("refs/")
        && name.split('/').all(|part| {
            !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !part.ends_with(".lock")
        })
        // These would be taken for commits.
        && name.parse::<Oid>().is_err()
        && name != "HEAD"
}

const NAME_BYTES_MAX: usize = 255;

/// Bytes of the message of a commit and of the description of a pull request: a history is answered a thousand commits at a time.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the title of a pull request.
pub(super) const TITLE_BYTES_MAX: usize = 4096;

/// Refuses a text that is longer than this many bytes.
pub(super) fn expect_short(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    match text.len() > bytes_max {
        true => Err(Error::new(ErrorKind::Invalid, format!("{what}: at most {bytes_max} bytes"))),
        false => Ok(()),
    }
}

/// Whether a revision can name anything. What cannot is neither looked up nor remembered: caches count names, not bytes, and
/// PostgreSQL takes a zero byte for an error of ours.
fn may_be_revision(revision: &str) -> bool {
    revision.len() <= NAME_BYTES_MAX + "refs/heads/".len() && !revision.contains(char::is_control)
}

/// Where a revision leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The commit.
    pub commit: Oid,
    /// The ref that led there; `None` for a commit named by its id.
    pub ref_name: Option<String>,
}

/// Cache of repositories and the commits of their revisions, valid while the change token of the catalog is the same:
/// a client that reads a file range by range resolves the revision for each range.
#[derive(Debug)]
pub(crate) struct Heads {
    catalog: Arc<Catalog>,
    batcher: Batcher<HeadKey, Head>,
    /// Absent ones too: the response time must not reveal a cached repository to a caller that may not read it.
    known: Cache<HeadKey, (ChangeToken, Option<Head>)>,
}

type HeadKey = (RepoName, [String; 2]);

type Head = (RepoRow, Vec<RefRow>);

/// Heads to remember.
const HEADS_MAX: u64 = 10_000;

/// How long an unused entry stays cached.
const HEADS_IDLE: std::time::Duration = std::time::Duration::from_secs(60);

impl Heads {
    pub(crate) fn new(catalog: &Arc<Catalog>) -> Self {
        let within = catalog.clone();
        let batcher = Batcher::new(move |keys: Vec<HeadKey>| {
            let catalog = within.clone();
            async move {
                let mut found = HashMap::new();
                for key in keys {
                    if let Some(answer) = repo_at(&catalog, &key.0, &key.1).await? {
                        found.insert(key, answer);
                    }
                }
                Ok(found)
            }
        });
        let known = Cache::builder().max_capacity(HEADS_MAX).time_to_idle(HEADS_IDLE).build();
        Self { catalog: catalog.clone(), batcher, known }
    }

    async fn of(&self, key: HeadKey) -> Result<Option<Head>> {
        // Read before the query: any later write changes it.
        let Some(stamp) = self.catalog.change_token() else { return self.batcher.get(key).await };
        if let Some((known, found)) = self.known.get(&key)
            && known == stamp
        {
            return Ok(found);
        }
        let found = self.batcher.get(key.clone()).await?;
        self.known.insert(key, (stamp, found.clone()));
        Ok(found)
    }
}

/// The refs a revision may mean, the first before the second.
fn names_of(revision: &str) -> [String; 2] {
    match revision {
        "HEAD" => [MAIN.to_owned(), MAIN.to_owned()],
        full if full.starts_with("refs/") => [full.to_owned(), full.to_owned()],
        // A branch outweighs a tag of its name.
        name => [format!("{HEADS}{name}"), format!("{TAGS}{name}")],
    }
}

fn first_of(names: &[String; 2], rows: &[RefRow]) -> Option<Resolved> {
    let first = names.iter().find_map(|name| rows.iter().find(|row| row.name == *name));
    first.map(|row| Resolved { commit: row.target, ref_name: Some(row.name.clone()) })
}

impl Hub {
    /// A repository and where a revision of it leads, in one look. Readers of a range come here for each.
    pub async fn repo_at(
        &self,
        name: &RepoName,
        revision: &str,
    ) -> Result<Option<(RepoRow, Option<Resolved>)>> {
        if !may_be_revision(revision) || revision.parse::<Oid>().is_ok() {
            let Some(repo) = self.repo(name).await? else { return Ok(None) };
            let resolved = self.resolve(repo.id, revision).await?;
            return Ok(Some((repo, resolved)));
        }
        let names = names_of(revision);
        let found = self.heads.of((name.clone(), names.clone())).await?;
        Ok(found.map(|(repo, refs)| (repo, first_of(&names, &refs))))
    }

    /// The commit of a branch, tag, pull request (`refs/pr/1`) or commit id; `None` when there is none.
    pub async fn resolve(&self, repo: RepoId, revision: &str) -> Result<Option<Resolved>> {
        if !may_be_revision(revision) {
            return Ok(None);
        }
        if let Ok(oid) = revision.parse::<Oid>() {
            let rows = git_objects::git_objects(&self.db, repo, &[oid]).await?;
            let is_commit = rows.iter().any(|row| row.kind == ObjectKind::Commit);
            return Ok(is_commit.then_some(Resolved { commit: oid, ref_name: None }));
        }
        let names = names_of(revision);
        let rows = refs_named(&self.db, repo, &names).await?;
        Ok(first_of(&names, &rows))
    }

    /// Where a ref points.
    pub async fn ref_target(&self, repo: RepoId, ref_name: &str) -> Result<Option<Oid>> {
        if ref_name.contains(char::is_control) {
            return Ok(None);
        }
        let rows = refs_named(&self.db, repo, &[ref_name.to_owned()]).await?;
        Ok(rows.into_iter().next().map(|row| row.target))
    }

    /// Refs whose name begins so, in the order of their names.
    pub async fn refs(&self, repo: RepoId, prefix: &str) -> Result<Vec<RefRow>> {
        refs(&self.db, repo, prefix).await
    }

    /// Makes a branch or tag. One that is there is a conflict.
    pub async fn create_ref(&self, repo: RepoId, prefix: &str, name: &str, at: Oid) -> Result<()> {
        if !is_ref_name(name) {
            let found: String = name.chars().take(80).collect();
            return Err(Error::new(ErrorKind::Invalid, format!("not a name of a branch or tag: {found:?}")));
        }
        let change = RefChange { name: format!("{prefix}{name}"), from: None, to: Some(at) };
        match self.move_refs(repo, &[change], self.clock.now_s()).await? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Conflict, format!("{name} is there already"))),
        }
    }

    /// Deletes a branch or tag; `main` stays.
    pub async fn delete_ref(&self, repo: RepoId, prefix: &str, name: &str) -> Result<()> {
        let ref_name = format!("{prefix}{name}");
        if ref_name == MAIN {
            return Err(Error::new(ErrorKind::Denied, "main cannot be deleted"));
        }
        let missing = || Error::new(ErrorKind::NotFound, format!("no branch or tag {name:?}"));
        let from = self.ref_target(repo, &ref_name).await?.ok_or_else(missing)?;
        let change = RefChange { name: ref_name, from: Some(from), to: None };
        match self.move_refs(repo, &[change], self.clock.now_s()).await? {
            true => Ok(()),
            false => {
                Err(Error::new(ErrorKind::Conflict, format!("{name} has moved: look again, then delete")))
            }
        }
    }
}

/// The ref of a pull request.
pub fn pull_ref(number: u64) -> String {
    format!("{PULLS}{number}")
}

/// A ref moves to a commit that was just added within this time.
const FRESH_S: u64 = 3600;

/// Refs whose name begins so, in the order of their names.
pub(crate) async fn refs(db: &Catalog, repo: RepoId, prefix: &str) -> Result<Vec<RefRow>> {
    let query =
        Sql::new("SELECT name, target FROM refs WHERE repo = $1 AND name LIKE $2 ESCAPE '!' ORDER BY name");
    db.read("find refs", query.bind(repo).bind(format!("{}%", like(prefix)))).await
}

/// The repository of this name, with its refs of these names as far as it has them.
pub(crate) async fn repo_at(
    db: &Catalog,
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
    let rows: Vec<RepoAndRef> = db.read("find a repository and its ref", query.short()).await?;
    let (mut found, mut refs) = (None, Vec::new());
    for row in rows {
        found = Some(row.repo);
        refs.extend(row.target);
    }
    Ok(found.map(|repo| (repo, refs)))
}

/// The refs of these names; unknown ones are left out.
pub(crate) async fn refs_named(db: &Catalog, repo: RepoId, names: &[String]) -> Result<Vec<RefRow>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let query = Sql::new("SELECT name, target FROM refs WHERE repo = $1 AND name IN $2");
    db.read("find refs", query.bind(repo).list(names).short()).await
}

/// Makes these changes if every ref is where its change begins and every commit it shall point to is there, or none of
/// them; returns whether it did. A commit that a ref leaves, and that its new target does not lead to, goes to the
/// reflog and is kept for `keep_s` seconds.
pub(crate) async fn move_refs(
    db: &Catalog,
    repo: RepoId,
    changes: &[RefChange],
    now_s: u64,
    keep_s: u64,
) -> Result<bool> {
    db.write("move refs", |mut tx| async move {
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
                let found =
                    Sql::new("SELECT touched_s, parent FROM git_objects WHERE repo = $1 AND oid = $2");
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
                    let entry = ReflogEntry { oid: from, name, left_s: now_s, reclaim_s };
                    append_entry(&mut tx, repo, &entry).await?;
                }
            }
            append_event(&mut tx, &change.event(&row.name)).await?;
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
pub(crate) async fn insert_ref(tx: &mut Tx, repo: RepoId, name: &str, target: Oid) -> Result<u64> {
    let insert = "INSERT INTO refs (repo, name, target) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    tx.run(Sql::new(insert).bind(repo).bind(name).bind(target)).await
}

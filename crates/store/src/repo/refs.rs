//! Refs: branches, tags and pull requests, and what a revision means.

use std::collections::HashMap;
use std::sync::Arc;

use moka::sync::Cache;

use super::oid::{ObjectKind, Oid};
use super::{PullRow, PullState, RepoId, RepoName};
use crate::Store;
use crate::catalog::Catalog;
use crate::catalog::repo::{RefChange, RefRow, RepoRow};
use crate::db::ChangeToken;
use crate::error::{Error, ErrorKind, Result};
use crate::gather::Gather;

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
const TITLE_BYTES_MAX: usize = 4096;

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

/// Asks for repositories and where a revision of them leads, and remembers while the catalog says that nothing was
/// written: whoever reads a file range by range asks for each.
#[derive(Debug)]
pub(crate) struct Heads {
    catalog: Arc<Catalog>,
    ask: Gather<HeadKey, Head>,
    /// What is not there too: whoever may not read a repository must not see by the time that it is remembered.
    known: Cache<HeadKey, (ChangeToken, Option<Head>)>,
}

type HeadKey = (RepoName, [String; 2]);
type Head = (RepoRow, Vec<RefRow>);

/// Heads to remember.
const HEADS_MAX: u64 = 10_000;
/// How long one that nobody asks for is remembered.
const HEADS_IDLE: std::time::Duration = std::time::Duration::from_secs(60);

impl Heads {
    pub(crate) fn new(catalog: &Arc<Catalog>) -> Self {
        let within = catalog.clone();
        let ask = Gather::new(move |keys: Vec<HeadKey>| {
            let catalog = within.clone();
            async move {
                let mut found = HashMap::new();
                for key in keys {
                    if let Some(answer) = catalog.hub().repo_at(&key.0, &key.1).await? {
                        found.insert(key, answer);
                    }
                }
                Ok(found)
            }
        });
        let known = Cache::builder().max_capacity(HEADS_MAX).time_to_idle(HEADS_IDLE).build();
        Self { catalog: catalog.clone(), ask, known }
    }

    async fn of(&self, key: HeadKey) -> Result<Option<Head>> {
        // Read before the question is asked: whatever is written from here on moves it.
        let Some(stamp) = self.catalog.change_token() else { return self.ask.ask(key).await };
        if let Some((known, found)) = self.known.get(&key)
            && known == stamp
        {
            return Ok(found);
        }
        let found = self.ask.ask(key.clone()).await?;
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

impl Store {
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
            let rows = self.hub().git_objects(repo, &[oid]).await?;
            let is_commit = rows.iter().any(|row| row.kind == ObjectKind::Commit);
            return Ok(is_commit.then_some(Resolved { commit: oid, ref_name: None }));
        }
        let names = names_of(revision);
        let rows = self.hub().refs_named(repo, &names).await?;
        Ok(first_of(&names, &rows))
    }

    /// Where a ref points.
    pub async fn ref_target(&self, repo: RepoId, ref_name: &str) -> Result<Option<Oid>> {
        if ref_name.contains(char::is_control) {
            return Ok(None);
        }
        let rows = self.hub().refs_named(repo, &[ref_name.to_owned()]).await?;
        Ok(rows.into_iter().next().map(|row| row.target))
    }

    /// Refs whose name begins so, in the order of their names.
    pub async fn refs(&self, repo: RepoId, prefix: &str) -> Result<Vec<RefRow>> {
        self.hub().refs(repo, prefix).await
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

    /// Opens a pull request that begins at a commit; answers with its number.
    pub async fn open_pull(
        &self,
        repo: &RepoRow,
        at: Oid,
        author: &str,
        title: &str,
        description: &str,
    ) -> Result<PullRow> {
        expect_short("title", title, TITLE_BYTES_MAX)?;
        expect_short("description", description, MESSAGE_BYTES_MAX)?;
        let now_s = self.clock.now_s();
        let mut row = PullRow {
            number: 0,
            title: title.replace('\0', ""),
            description: description.replace('\0', ""),
            author: author.to_owned(),
            created_s: now_s,
            state: PullState::Open,
        };
        row.number = self.hub().add_pull(repo.id, &row).await?;
        let change = RefChange { name: pull_ref(row.number), from: None, to: Some(at) };
        match self.move_refs(repo.id, &[change], now_s).await? {
            true => Ok(row),
            false => {
                Err(Error::new(ErrorKind::Conflict, format!("{} is there already", pull_ref(row.number))))
            }
        }
    }
}

/// The ref of a pull request.
pub fn pull_ref(number: u64) -> String {
    format!("{PULLS}{number}")
}

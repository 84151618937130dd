//! Repositories: git's objects and refs in the catalog, large files by reference to the content store.
//!
//! A commit's new objects are one object of the store, its *bundle*: object first, rows second, the ref last. The ref
//! is compared and set in one statement, so of two commits on one branch the second sees the first or starts again.

pub mod blob;
pub mod bundle;
pub mod commit;
pub mod diff;
mod edit;
pub mod history;
pub mod listing;
pub mod locks;
mod merge;
mod names;
pub mod oid;
mod people;
pub mod pointer;
pub mod record;
pub mod refs;
mod sizes;
pub mod trash;
pub mod tree;
pub mod undelete;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Store;
use crate::access::Scope;
use crate::catalog::RepoCatalog;
use crate::catalog::repo::{RefRow, RepoQuery, RepoRow};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::ObjectKey;
use bundle::Bundle;
use commit::{Commit, Signature};
use edit::Edits;
use oid::{ObjectKind, Oid};
use tree::Tree;

pub use crate::catalog::repo::{LinkedFile, MemberRow, NamespaceRow, NamespaceState};
pub use crate::catalog::review::{LockQuery, LockRow, PullQuery, PullRow, PullState};

/// What sort of repository; each has names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Weights and what belongs to them.
    Model,
    /// Data.
    Dataset,
    /// Applications; stored, never run.
    Space,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Model, Self::Dataset, Self::Space];

    /// One of them: `model`.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
            Self::Space => "space",
        }
    }

    /// Several: `models`.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
        }
    }

    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Model => 0,
            Self::Dataset => 1,
            Self::Space => 2,
        }
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Names a repository for ever. Prints as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId([u8; 16]);

impl RepoId {
    /// Takes raw bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A new one, like no other.
    fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|source| Error::caused(ErrorKind::Internal, "the system has no randomness", source))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&xet::hash::hex(&self.0))
    }
}

impl fmt::Debug for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepoId({self})")
    }
}

/// Reads what [`RepoId`] prints.
impl std::str::FromStr for RepoId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse =
            || Error::new(ErrorKind::Invalid, "an id of a repository should be 32 hexadecimal digits");
        oid::parse_hex(text).map(Self).ok_or_else(refuse)
    }
}

/// Names a repository now. Prints as `datasets/namespace/name`, and for models as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoName {
    /// What sort.
    pub kind: Kind,
    /// The user or organisation that owns it.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl RepoName {
    /// A name that can stand in paths: letters, digits, `-`, `_` and `.`, no dots at the ends, nothing the Hub keeps.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Result<Self> {
        if !is_name(namespace) || RESERVED.contains(&namespace.to_ascii_lowercase().as_str()) {
            return Err(Error::new(ErrorKind::Invalid, format!("not a namespace: {namespace:.80?}")));
        }
        if !is_name(name) || name.ends_with(".git") || name.ends_with(".ipynb") {
            return Err(Error::new(ErrorKind::Invalid, format!("not a name of a repository: {name:.80?}")));
        }
        Ok(Self { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Reads `namespace/name` or `kind/namespace/name`.
    pub fn parse(text: &str) -> Result<Self> {
        let segments: Vec<_> = text.split('/').collect();
        let (kind, namespace, name) = match segments.as_slice() {
            [namespace, name] => (Kind::Model.plural(), *namespace, *name),
            [kind, namespace, name] => (*kind, *namespace, *name),
            _ => return Err(Error::new(ErrorKind::Invalid, "expected NAMESPACE/NAME")),
        };
        let known = Kind::ALL.into_iter().find(|known| known.plural() == kind);
        let refuse =
            || Error::new(ErrorKind::Invalid, format!("{kind:.80} is not models, datasets or spaces"));
        Self::new(known.ok_or_else(refuse)?, namespace, name)
    }

    /// The repository that the content store knows by this name, if it is one.
    pub(crate) fn of_scope(scope: &Scope) -> Option<Self> {
        let (kind, name) = scope.repo().split_once('/')?;
        let kind = Kind::ALL.into_iter().find(|known| known.plural() == kind)?;
        Self::new(kind, scope.namespace(), name).ok()
    }

    /// The repository as the content store knows it.
    pub fn scope(&self) -> Result<Scope> {
        // A repository's kind is part of its name: `models/a` and `datasets/a` are two.
        Scope::new(self.namespace.clone(), format!("{}/{}", self.kind.plural(), self.name))
    }

    /// Refuses names that new repositories may not have. Lookups take them: older catalogs may have some.
    fn check_new(&self) -> Result<()> {
        if is_reserved(&self.namespace) {
            return Err(Error::new(ErrorKind::Invalid, format!("not a namespace: {:.80?}", self.namespace)));
        }
        let folded = self.name.to_ascii_lowercase();
        match folded.ends_with(".git") || folded.ends_with(".ipynb") {
            true => {
                Err(Error::new(ErrorKind::Invalid, format!("not a name of a repository: {:.80?}", self.name)))
            }
            false => Ok(()),
        }
    }

    /// `namespace/name` in lower case: the same for all names that differ in case only.
    pub fn folded(&self) -> String {
        self.id().to_ascii_lowercase()
    }

    /// `namespace/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Model => write!(f, "{}/{}", self.namespace, self.name),
            kind => write!(f, "{}/{}/{}", kind.plural(), self.namespace, self.name),
        }
    }
}

/// Whether this can be the name of a user, an organisation or a repository.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let at_ends = |c: char| matches!(c, '-' | '.');
    (1..=96).contains(&text.len())
        && text.bytes().all(plain)
        && !text.starts_with(at_ends)
        && !text.ends_with(at_ends)
        && !text.contains("--")
        && !text.contains("..")
}

/// First segments of paths that mean something else.
const RESERVED: &[&str] = &[
    "api", "buckets", "data", "datasets", "health", "lfs", "metrics", "models", "ready", "settings",
    "spaces", "v1", "v2",
];

/// The same of paths that some clients leave the version out of. Older catalogs may have such namespaces.
const RESERVED_SHORT: &[&str] = &[
    "chunk",
    "chunks",
    "file-chunk-hashes",
    "files",
    "reconstruction",
    "reconstructions",
    "shard",
    "shards",
    "telemetry",
    "xorb",
    "xorbs",
];

/// Whether no new user, organisation or repository may have this namespace, in any case: its pages would be hidden by
/// paths of the server.
pub fn is_reserved(namespace: &str) -> bool {
    let folded = namespace.to_ascii_lowercase();
    RESERVED.contains(&folded.as_str()) || RESERVED_SHORT.contains(&folded.as_str())
}

/// A parsed tree, kept in memory while it is asked for.
pub(crate) type Trees = moka::future::Cache<(RepoId, Oid), Arc<Tree>>;

pub(crate) fn trees() -> Trees {
    let weigh = |_: &(RepoId, Oid), tree: &Arc<Tree>| {
        let entry = |entry: &tree::Entry| entry.name.len() + 80;
        u32::try_from(tree.entries().iter().map(entry).sum::<usize>()).unwrap_or(u32::MAX).saturating_add(200)
    };
    let cache = moka::future::Cache::builder().max_capacity(TREES_BYTES_MAX).weigher(weigh);
    cache.time_to_idle(TREES_IDLE).build()
}

/// Whether everyone may read repositories, as it was a moment ago.
pub(crate) type Visible = moka::future::Cache<Scope, bool>;

pub(crate) fn visible() -> Visible {
    let age_max = std::time::Duration::from_secs(2);
    moka::future::Cache::builder().max_capacity(VISIBLE_MAX).time_to_live(age_max).build()
}

/// Repositories whose visibility is kept.
const VISIBLE_MAX: u64 = 10_000;

/// How long a tree that nobody reads stays in memory: each commit replaces some, and the old ones are rarely read again.
const TREES_IDLE: Duration = Duration::from_secs(300);
/// Bytes of parsed trees to keep in memory.
const TREES_BYTES_MAX: u64 = 64 * 1024 * 1024;

impl Store {
    /// Makes a repository with one commit on `main`. A name that is taken, in any case, is a conflict.
    pub async fn create_repo(&self, name: &RepoName, private: bool, author: &str) -> Result<RepoRow> {
        name.check_new()?;
        let name = &self.spelled(name).await?;
        let taken = || Error::new(ErrorKind::Conflict, format!("{name} is there already"));
        if !self.hub().repos(std::slice::from_ref(name)).await?.is_empty() {
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
        match self.hub().create_repo(&row, &rows, &[main]).await? {
            true => {
                self.write_down(row.id).await?;
                Ok(row)
            }
            false => {
                self.objects.delete(&ObjectKey::Bundle { repo: row.id, commit: oid }).await?;
                Err(taken())
            }
        }
    }

    /// The repository of a name, in any case. Everything that looks up a repository by its name comes here or to
    /// [`Store::repo_at`], and goes on with the name of the row.
    pub async fn repo(&self, name: &RepoName) -> Result<Option<RepoRow>> {
        Ok(self.hub().repos(std::slice::from_ref(name)).await?.into_iter().next())
    }

    /// Whether everyone may read what a repository has registered. Known for some seconds; for one that is not there, no.
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
        self.hub().list_repos(query).await
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

    async fn change_repo(&self, from: &RepoRow, to: &RepoRow) -> Result<()> {
        self.change_row(from, to).await?;
        self.write_down(from.id).await
    }

    async fn change_row(&self, from: &RepoRow, to: &RepoRow) -> Result<()> {
        let changed = self.hub().change_repo(from, to).await?;
        self.layouts.forget();
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

    /// Deletes a repository for good, be it in the trash or not. Its large files stay where other repositories refer to
    /// them; sweep finds the others.
    pub async fn delete_repo(&self, repo: &RepoRow) -> Result<()> {
        let noted = self.hub().note_repo(repo.id).await?;
        // Row first: an object that is left over harms nobody.
        let bundles = self.hub().delete_repo(repo).await?;
        let bundles = bundles.into_iter().map(|commit| ObjectKey::Bundle { repo: repo.id, commit });
        self.objects.delete_all(bundles.collect()).await?;
        if let Some((version, _)) = noted {
            self.objects
                .delete(&ObjectKey::Repo { repo: repo.id, version: version.saturating_sub(1) })
                .await?;
        }
        self.layouts.forget();
        Ok(())
    }

    /// The Hub side of the catalog.
    pub fn hub(&self) -> &RepoCatalog {
        self.catalog.hub()
    }
}

/// What git clients are told to keep out of git: the same files that uploads are asked to keep out.
const GIT_ATTRIBUTES: &str = include_str!("repo/gitattributes.txt");

/// Endings of files that are large by nature, one a line in the attributes.
pub fn large_endings() -> impl Iterator<Item = &'static str> {
    GIT_ATTRIBUTES.lines().filter_map(|line| line.strip_prefix('*')?.split(' ').next())
}

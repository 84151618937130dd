//! The Hub side of the catalog: repositories, refs, git objects, members.
//!
//! Both databases understand these statements, so there is one implementation, written once for both.

#[cfg(test)]
mod contract;
pub(in crate::catalog) mod statements;

use async_trait::async_trait;
use xet::{FileHash, Sha256};

use super::records::Records;
use super::review::Review;
use super::rows::{array, number};
use crate::access::Scope;
use crate::audit::Deed;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::oid::{ObjectKind, Oid};
use crate::repo::{Kind, RepoId, RepoName};

/// Repositories, refs, git objects and members.
///
/// *Contract*: as for [`Catalog`](super::Catalog). What changes a ref says what it was, and changes nothing if it was
/// not; git objects are named by their content, so adding one again changes nothing.
#[async_trait]
pub trait RepoCatalog: Records + Review + Send + Sync {
    /// Adds a repository with its first objects and refs; returns whether the name was free, without regard to case.
    async fn create_repo(&self, row: &RepoRow, objects: &[GitRow], refs: &[RefRow]) -> Result<bool>;

    /// The repositories of these names in any case; unknown ones are left out. Where two differ in case only, the one of
    /// exactly this name, else the oldest.
    async fn repos(&self, names: &[RepoName]) -> Result<Vec<RepoRow>>;

    /// Repositories in the order of their names, as many as the query wants.
    async fn list_repos(&self, query: &RepoQuery) -> Result<Vec<RepoRow>>;

    /// Repositories that were deleted and are still there, those that go first first.
    async fn trash(&self) -> Result<Vec<RepoRow>>;

    /// Makes a repository what `to` says: its name, with all that its files, digests and chunks are found by, who sees
    /// it, and whether it is in the trash. Tells whether it was as `from` says and the name was free.
    async fn change_repo(&self, from: &RepoRow, to: &RepoRow) -> Result<bool>;

    /// Deletes a repository and what it may read; tells which bundles nobody needs any more.
    async fn delete_repo(&self, row: &RepoRow) -> Result<Vec<Oid>>;

    /// Refs whose name begins so, in the order of their names.
    async fn refs(&self, repo: RepoId, prefix: &str) -> Result<Vec<RefRow>>;

    /// The repository of this name, with its refs of these names as far as it has them.
    async fn repo_at(&self, name: &RepoName, refs: &[String; 2]) -> Result<Option<(RepoRow, Vec<RefRow>)>>;

    /// The refs of these names; unknown ones are left out.
    async fn refs_named(&self, repo: RepoId, names: &[String]) -> Result<Vec<RefRow>>;

    /// Makes these changes if every ref is where its change begins and every commit it shall point to is there, or none of
    /// them; tells which. A commit that a ref leaves without leading to it is noted, to be kept for so many seconds.
    async fn move_refs(&self, repo: RepoId, changes: &[RefChange], now_s: u64, keep_s: u64) -> Result<bool>;

    /// Adds git objects; those that are there stay. Adds none, and says so, if the repository is gone or has no right to a
    /// file that one stands for.
    async fn add_git_objects(&self, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<bool>;

    /// These git objects; unknown ones are left out.
    async fn git_objects(&self, repo: RepoId, oids: &[Oid]) -> Result<Vec<GitRow>>;

    /// Commits from this one back through first parents, without the first `skip`, at most `limit`.
    async fn history(&self, repo: RepoId, from: Oid, skip: u64, limit: u64) -> Result<Vec<GitRow>>;

    /// The files registered in `scope` under these digests, with their lengths, in the order of digest and file hash. Only
    /// digests that were computed from the bytes count: see [`CareCatalog::digest_claims`](super::CareCatalog::digest_claims).
    async fn linked_files(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<LinkedFile>>;

    /// The namespaces that are spelled so in any case, this very spelling first.
    async fn spellings(&self, name: &str) -> Result<Vec<String>>;

    /// Adds a spelling of a namespace beside others of it, as catalogs from before names were unique without regard to
    /// case have them.
    async fn add_spelling(&self, name: &str) -> Result<()>;

    /// Adds namespaces; returns which were new, without regard to case.
    async fn add_namespaces(&self, rows: &[NamespaceRow]) -> Result<Vec<String>>;

    /// All namespaces that were added, in the order of their names.
    async fn namespaces(&self) -> Result<Vec<NamespaceRow>>;

    /// The user or organisation of this name, deleted ones too.
    async fn namespace(&self, name: &str) -> Result<Option<NamespaceRow>>;

    /// Disables or enables a user. Disabling revokes the user's browser sessions; enabling a deleted user makes the name
    /// a user again, without tokens, password and memberships. Tells whether there is such a user.
    async fn set_user_disabled(&self, name: &str, disabled: bool, now_s: u64) -> Result<bool>;

    /// Deletes a user or an organisation that owns no repository: its members, memberships and password are removed, its
    /// tokens revoked, and its name stays reserved. Returns repositories that it owns, some of them if there are many;
    /// nothing changes then.
    async fn delete_namespace(&self, name: &str, now_s: u64) -> Result<Vec<RepoName>>;

    /// Adds members, or gives them another role.
    async fn set_members(&self, rows: &[MemberRow]) -> Result<()>;

    /// Removes members; tells how many there were.
    async fn remove_members(&self, namespace: &str, members: &[String]) -> Result<u64>;

    /// Where this one is a member.
    async fn memberships(&self, member: &str) -> Result<Vec<MemberRow>>;

    /// Who is a member here.
    async fn members(&self, namespace: &str) -> Result<Vec<MemberRow>>;
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoRow {
    /// Names it for ever.
    pub id: RepoId,
    /// Names it now.
    pub name: RepoName,
    /// Whether only those with rights may know of it.
    pub private: bool,
    /// When it was made, Unix seconds.
    pub created_s: u64,
    /// When one of its refs last moved.
    pub updated_s: u64,
    /// Of one that was deleted: when nothing of it needs to be kept any more.
    pub reclaim_s: Option<u64>,
}

impl RepoRow {
    /// The repository as the content store knows it. In the trash it has a name that nobody can ask for.
    pub fn scope(&self) -> Result<Scope> {
        match self.reclaim_s {
            None => self.name.scope(),
            Some(_) => Scope::new(self.name.namespace.clone(), format!("trash/{}", self.id)),
        }
    }
}

impl RepoRow {
    /// What making this row another one means.
    pub(crate) fn deed(&self, to: &Self) -> Deed {
        let (name, new) = (self.name.to_string(), to.name.to_string());
        match (self.reclaim_s, to.reclaim_s) {
            (None, Some(until_s)) => Deed::new("repo.trash", name, format!("until {until_s}")),
            (Some(_), None) => Deed::new("repo.restore", new, ""),
            _ if name != new => Deed::new("repo.rename", name, new),
            _ => Deed::new("repo.visibility", name, if to.private { "private" } else { "public" }),
        }
    }
}

/// Which repositories to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoQuery {
    /// Of this kind.
    pub kind: Kind,
    /// Of this namespace.
    pub namespace: Option<String>,
    /// With this in `namespace/name`.
    pub search: Option<String>,
    /// Private ones of these namespaces besides all public ones; `None` for all.
    pub private_of: Option<Vec<String>>,
    /// After this namespace and name.
    pub after: Option<(String, String)>,
    /// At most so many.
    pub limit: u64,
}

/// Where a ref points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefRow {
    /// `refs/heads/main`.
    pub name: String,
    /// A commit.
    pub target: Oid,
}

/// Moves a ref, makes one (from nothing) or removes one (to nothing).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// `refs/heads/main`.
    pub name: String,
    /// Where it must point.
    pub from: Option<Oid>,
    /// Where it shall point.
    pub to: Option<Oid>,
}

impl RefChange {
    /// What it means.
    pub(crate) fn deed(&self, repo: &RepoName) -> Deed {
        let target = format!("{repo} {}", self.name);
        match (self.from, self.to) {
            (None, Some(to)) => Deed::new("ref.create", target, to.to_string()),
            (Some(from), Some(to)) => Deed::new("ref.move", target, format!("{from} to {to}")),
            (from, None) => {
                Deed::new("ref.delete", target, from.map_or_else(String::new, |from| from.to_string()))
            }
        }
    }
}

/// A git object of a repository, and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRow {
    /// Names it.
    pub oid: Oid,
    /// What it is.
    pub kind: ObjectKind,
    /// How long its body is.
    pub bytes: u64,
    /// The body, if it is small.
    pub body: Option<Vec<u8>>,
    /// The commit whose bundle has the body.
    pub bundle: Oid,
    /// Where in the bundle the body begins.
    pub offset: u64,
    /// The first parent, of a commit that has one.
    pub parent: Option<Oid>,
    /// How many commits there are from the first to this one; 0 for what is none.
    pub depth: u64,
    /// The large file a pointer blob stands for.
    pub linked: Option<LinkedFile>,
}

/// A large file of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedFile {
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// How many they are.
    pub bytes: u64,
    /// Names it in the content store.
    pub file: FileHash,
}

/// A user or an organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRow {
    /// Its name.
    pub name: String,
    /// Which of the two.
    pub is_organisation: bool,
    /// When it was added, Unix seconds.
    pub created_s: u64,
    /// Whether it may do anything.
    pub state: NamespaceState,
}

/// State of a user or an organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceState {
    /// Tokens, sessions and passwords work.
    Active,
    /// A user whose tokens, sessions and password do nothing for now.
    Disabled,
    /// Deleted; the name is reserved.
    Deleted,
}

impl NamespaceState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Active, Self::Disabled, Self::Deleted];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }

    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Active => 0,
            Self::Disabled => 1,
            Self::Deleted => 2,
        }
    }
}

/// The columns of `namespaces`.
pub(crate) type NamespaceColumns = (String, i64, i64, i64);

impl TryFrom<NamespaceColumns> for NamespaceRow {
    type Error = Error;

    fn try_from((name, kind, created, state): NamespaceColumns) -> Result<Self> {
        let created_s = number("time created", created)?;
        let state = NamespaceState::ALL.into_iter().find(|known| known.number() == state);
        let state = state.ok_or_else(|| damaged("state of a namespace"))?;
        Ok(Self { name, is_organisation: kind != 0, created_s, state })
    }
}

/// Somebody who belongs to an organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// The organisation.
    pub namespace: String,
    /// The user.
    pub member: String,
    /// Whether they may write there.
    pub writes: bool,
}

/// The columns of `repos`, in the order of the table.
pub(crate) type RepoColumns = (Vec<u8>, i64, String, String, i64, i64, i64, Option<i64>);

pub(crate) const REPO_COLUMNS: &str = "id, kind, namespace, name, private, created_s, updated_s, reclaim_s";

/// The columns of `repos`, and those of one of its refs.
pub(crate) type RepoAtColumns =
    (Vec<u8>, i64, String, String, i64, i64, i64, Option<i64>, Option<String>, Option<Vec<u8>>);

/// The columns of `git_objects` after the repository, in the order of the table.
pub(crate) type GitColumns = (
    Vec<u8>,
    i64,
    i64,
    Option<Vec<u8>>,
    Vec<u8>,
    i64,
    Option<Vec<u8>>,
    i64,
    Option<Vec<u8>>,
    Option<i64>,
    Option<Vec<u8>>,
);

pub(crate) const GIT_COLUMNS: &str =
    "oid, kind, bytes, body, bundle, bundle_offset, parent, depth, sha256, linked_bytes, file";

/// A row of `git_objects` is wide: fewer fit into one statement.
pub(crate) const GIT_BATCH_ROWS: usize = 500;

/// Walks from commit `$2` of repository `$1` to the first parents, from the `$3`th to the `$4`th; `g` has the columns.
///
/// Line by line: joined as it likes, SQLite reads the whole repository and looks each object up in the line.
pub(crate) fn history_statement(columns: &str) -> String {
    format!(
        "WITH RECURSIVE line (oid, parent, n) AS ( \
            SELECT oid, parent, CAST(0 AS BIGINT) FROM git_objects WHERE repo = $1 AND oid = $2 \
            UNION ALL \
            SELECT p.oid, p.parent, line.n + 1 FROM line CROSS JOIN git_objects p \
                WHERE p.repo = $1 AND p.oid = line.parent AND line.n < $4 \
         ) SELECT {columns} FROM line CROSS JOIN git_objects g WHERE g.repo = $1 AND g.oid = line.oid \
         AND line.n >= $3 AND line.n <= $4 ORDER BY line.n"
    )
}

impl TryFrom<RepoColumns> for RepoRow {
    type Error = Error;

    fn try_from(columns: RepoColumns) -> Result<Self> {
        let (id, kind, namespace, name, private, created, updated, reclaim) = columns;
        let kind = Kind::from_number(kind).ok_or_else(|| damaged("kind of a repository"))?;
        Ok(Self {
            id: RepoId::new(id.try_into().map_err(|_| damaged("repository id"))?),
            name: RepoName { kind, namespace, name },
            private: private != 0,
            created_s: number("time created", created)?,
            updated_s: number("time updated", updated)?,
            reclaim_s: reclaim.map(|time| number("time to reclaim", time)).transpose()?,
        })
    }
}

impl TryFrom<GitColumns> for GitRow {
    type Error = Error;

    fn try_from(columns: GitColumns) -> Result<Self> {
        let (oid, kind, bytes, body, bundle, offset, parent, depth, sha256, linked_bytes, file) = columns;
        let linked = match (sha256, linked_bytes, file) {
            (Some(sha256), Some(bytes), Some(file)) => Some(LinkedFile {
                sha256: Sha256::new(array("digest", sha256)?),
                bytes: number("length of a file", bytes)?,
                file: FileHash::new(array("file hash", file)?),
            }),
            _ => None,
        };
        Ok(Self {
            oid: oid_of(oid)?,
            kind: ObjectKind::from_number(kind).ok_or_else(|| damaged("kind of an object"))?,
            bytes: number("length of an object", bytes)?,
            body,
            bundle: oid_of(bundle)?,
            offset: number("place in a bundle", offset)?,
            parent: parent.map(oid_of).transpose()?,
            depth: number("depth of a commit", depth)?,
            linked,
        })
    }
}

pub(crate) fn oid_of(column: Vec<u8>) -> Result<Oid> {
    column.try_into().map(Oid::new).map_err(|_| damaged("object id"))
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the catalog holds an impossible {what}"))
}

/// `LIKE` takes some characters for more than themselves.
pub(crate) fn like(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern
}

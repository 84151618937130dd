//! The Hub side of the catalog: repositories, refs, git objects, users and organisations.
//!
//! Rows stand here, statements in the modules below; [`records`](super::records) and [`review`](super::review) add to the
//! same catalog.

#[cfg(test)]
mod contract;
mod git_objects;
mod people;
mod refs;
mod repos;

use xet::{FileHash, Sha256};

use crate::access::Scope;
use crate::audit::Deed;
use crate::db::{Db, FromRow, Row};
use crate::error::{Error, ErrorKind, Result};
use crate::repo::oid::{ObjectKind, Oid};
use crate::repo::{Kind, RepoId, RepoName};

/// Repositories, refs, git objects, users, organisations and members; pull requests and locks; records.
///
/// *Contract*: as for [`Catalog`](super::Catalog). A change of a ref names the target that it expects, and changes nothing
/// if the ref points elsewhere; git objects are named by their content, so adding one again changes nothing. A pull
/// request that is merged stays so; a path has one lock. A record of a higher version has everything that was written
/// before one of a lower version was gathered.
#[derive(Debug, Clone)]
pub struct RepoCatalog {
    pub(super) db: Db,
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

impl FromRow for NamespaceRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let name = row.text("name of a namespace")?;
        let is_organisation = row.flag("kind of a namespace")?;
        let created_s = row.number("time created")?;
        let state = row.signed("state of a namespace")?;
        let state = NamespaceState::ALL.into_iter().find(|known| known.number() == state);
        let state = state.ok_or_else(|| damaged("state of a namespace"))?;
        Ok(Self { name, is_organisation, created_s, state })
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

impl FromRow for MemberRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (namespace, member) = (row.text("organisation")?, row.text("member")?);
        Ok(Self { namespace, member, writes: row.flag("role")? })
    }
}

/// The columns of a [`RepoRow`].
pub(crate) const REPO_COLUMNS: &str = "id, kind, namespace, name, private, created_s, updated_s, reclaim_s";

/// The columns of a [`GitRow`], in the order of the table.
pub(crate) const GIT_COLUMNS: &str =
    "oid, kind, bytes, body, bundle, bundle_offset, parent, depth, sha256, linked_bytes, file";

/// A ref moves to a commit that was just added within this time.
pub(in crate::catalog) const FRESH_S: u64 = 3600;

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

impl FromRow for RepoRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let id = RepoId::new(row.array("repository id")?);
        let kind = Kind::from_number(row.signed("kind of a repository")?);
        let kind = kind.ok_or_else(|| damaged("kind of a repository"))?;
        let (namespace, name) = (row.text("namespace")?, row.text("name of a repository")?);
        Ok(Self {
            id,
            name: RepoName { kind, namespace, name },
            private: row.flag("visibility of a repository")?,
            created_s: row.number("time created")?,
            updated_s: row.number("time updated")?,
            reclaim_s: row.optional_number("time to reclaim")?,
        })
    }
}

impl FromRow for RefRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { name: row.text("name of a ref")?, target: Oid::new(row.array("object id")?) })
    }
}

impl FromRow for GitRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let oid = Oid::new(row.array("object id")?);
        let kind = ObjectKind::from_number(row.signed("kind of an object")?);
        let kind = kind.ok_or_else(|| damaged("kind of an object"))?;
        let bytes = row.number("length of an object")?;
        let body = row.optional_bytes("body of an object")?;
        let bundle = Oid::new(row.array("object id")?);
        let offset = row.number("place in a bundle")?;
        let parent = row.optional_array("object id")?.map(Oid::new);
        let depth = row.number("depth of a commit")?;
        let sha256 = row.optional_array("digest")?.map(Sha256::new);
        let linked_bytes = row.optional_number("length of a file")?;
        let file = row.optional_array("file hash")?.map(FileHash::new);
        let linked = match (sha256, linked_bytes, file) {
            (Some(sha256), Some(bytes), Some(file)) => Some(LinkedFile { sha256, bytes, file }),
            _ => None,
        };
        Ok(Self { oid, kind, bytes, body, bundle, offset, parent, depth, linked })
    }
}

/// Columns: digest, file hash, length.
impl FromRow for LinkedFile {
    fn from_row(row: &mut Row) -> Result<Self> {
        let sha256 = Sha256::new(row.array("digest")?);
        let file = FileHash::new(row.array("file hash")?);
        Ok(Self { sha256, bytes: row.number("length of a file")?, file })
    }
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

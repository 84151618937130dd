//! Rows of repositories, refs and git objects.

use xet::{FileHash, Sha256};

use crate::access::Scope;
use crate::audit::AuditEvent;
use crate::content::files::LinkedFile;
use crate::db::row::{FromRow, Row, damaged};
use crate::error::Result;
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::names::{Kind, RepoName};

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
    pub(crate) fn event(&self, to: &Self) -> AuditEvent {
        let (name, new) = (self.name.to_string(), to.name.to_string());
        match (self.reclaim_s, to.reclaim_s) {
            (None, Some(until_s)) => AuditEvent::new("repo.trash", name, format!("until {until_s}")),
            (Some(_), None) => AuditEvent::new("repo.restore", new, ""),
            _ if name != new => AuditEvent::new("repo.rename", name, new),
            _ => AuditEvent::new("repo.visibility", name, if to.private { "private" } else { "public" }),
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
    /// Maximum number of results.
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
    pub(crate) fn event(&self, repo: &RepoName) -> AuditEvent {
        let target = format!("{repo} {}", self.name);
        match (self.from, self.to) {
            (None, Some(to)) => AuditEvent::new("ref.create", target, to.to_string()),
            (Some(from), Some(to)) => AuditEvent::new("ref.move", target, format!("{from} to {to}")),
            (from, None) => {
                AuditEvent::new("ref.delete", target, from.map_or_else(String::new, |from| from.to_string()))
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

/// The columns of a [`RepoRow`].
pub(crate) const REPO_COLUMNS: &str = "id, kind, namespace, name, private, created_s, updated_s, reclaim_s";

/// The columns of a [`GitRow`], in the order of the table.
pub(crate) const GIT_COLUMNS: &str =
    "oid, kind, bytes, body, bundle, bundle_offset, parent, depth, sha256, linked_bytes, file";

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

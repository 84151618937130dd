//! Names of repositories: kind, namespace and name.

use std::fmt;

use crate::access::Scope;
use crate::error::{Error, ErrorKind, Result};

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
    pub(crate) fn check_new(&self) -> Result<()> {
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

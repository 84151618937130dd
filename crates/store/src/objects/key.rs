//! Keys of objects: see the table of [`objects`](super).

use std::fmt;
use std::str::FromStr;

use object_store::path::Path;
use xet::ShardHash;
use xet::hash::parse_hex;

use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Digest, Oid, RepoId, XorbKey};

/// Names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKey {
    /// A xorb with its footer.
    Xorb(XorbKey),
    /// A shard in stored form.
    Shard(ShardHash),
    /// The git objects of a commit.
    Bundle {
        /// The repository.
        repo: RepoId,
        /// The commit.
        commit: Oid,
    },
    /// Snapshot of a repository.
    Repo {
        /// The repository.
        repo: RepoId,
        /// The highest counts.
        version: u64,
    },
    /// Snapshot of users and quotas.
    People {
        /// The highest counts.
        version: u64,
    },
    /// A part of a file that arrives by parts.
    Part {
        /// The repository.
        repo: RepoId,
        /// The digest of the whole file, as it was announced.
        sha256: Digest,
        /// Counted from 1.
        number: u32,
    },
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, hash) = match self {
            Self::Xorb(key) => (XORBS, key.hash.to_string()),
            Self::Shard(hash) => (SHARDS, hash.to_string()),
            Self::Bundle { repo, commit } => return write!(f, "{COMMITS}/{repo}/{commit}"),
            Self::Repo { repo, version } => return write!(f, "{REPOS}/{repo}/{version:020}"),
            Self::People { version } => return write!(f, "{PEOPLE}/{version:020}"),
            Self::Part { repo, sha256, number } => return write!(f, "{PARTS}/{repo}/{sha256}-{number}"),
        };
        let fan = hash.get(..2).unwrap_or_default();
        write!(f, "{folder}/{fan}/{hash}")?;
        match self {
            Self::Xorb(key) => write!(f, "-{}", key.digest),
            _ => Ok(()),
        }
    }
}

impl FromStr for ObjectKey {
    type Err = Error;

    /// Reads a key, and only as it is written: another spelling would be another object.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::new(ErrorKind::Invalid, format!("not an object key: {text:?}"));
        let name = text.rsplit('/').next().unwrap_or_default();
        let key = match (text.split('/').next(), name.split_once('-')) {
            (Some(XORBS), Some((hash, digest))) => {
                let hash = hash.parse().map_err(|_| refuse())?;
                Self::Xorb(XorbKey { hash, digest: digest.parse().map_err(|_| refuse())? })
            }
            (Some(SHARDS), None) => Self::Shard(name.parse().map_err(|_| refuse())?),
            (Some(COMMITS), None) => {
                let repo = text.split('/').nth(1).and_then(parse_hex).ok_or_else(refuse)?;
                Self::Bundle { repo: RepoId::new(repo), commit: name.parse().map_err(|_| refuse())? }
            }
            (Some(REPOS), None) => {
                let repo = text.split('/').nth(1).and_then(parse_hex).ok_or_else(refuse)?;
                Self::Repo { repo: RepoId::new(repo), version: name.parse().map_err(|_| refuse())? }
            }
            (Some(PEOPLE), None) => Self::People { version: name.parse().map_err(|_| refuse())? },
            (Some(PARTS), Some((sha256, number))) => {
                let repo = text.split('/').nth(1).and_then(parse_hex).ok_or_else(refuse)?;
                let sha256 = sha256.parse().map_err(|_| refuse())?;
                Self::Part { repo: RepoId::new(repo), sha256, number: number.parse().map_err(|_| refuse())? }
            }
            _ => return Err(refuse()),
        };
        if key.to_string() == text { Ok(key) } else { Err(refuse()) }
    }
}

pub(crate) const XORBS: &str = "xorbs";

pub(crate) const SHARDS: &str = "shards";

pub(crate) const COMMITS: &str = "commits";

pub(crate) const REPOS: &str = "repos";

pub(crate) const PEOPLE: &str = "people";

pub(crate) const PARTS: &str = "parts";

pub(crate) fn path(key: &ObjectKey) -> Path {
    Path::from(key.to_string())
}

//! Paths in repositories, as users write them: `datasets/ann/words@v1:data/a.txt`.

use std::fmt;
use std::str::FromStr;

use xet::wire::{RepoKind, RepoName};

use crate::error::{Error, ErrorKind};

/// A repository, at a revision, and a path in it: `REPO[@REVISION][:PATH]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoPath {
    /// The repository.
    pub repo: RepoName,
    /// A branch, a tag or a commit; without one, `main`.
    pub revision: Option<String>,
    /// A path, as it was written: a slash at its end may mean something.
    pub path: Option<String>,
}

impl RepoPath {
    /// The revision, `main` where none was named.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repo)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.path.iter().try_for_each(|path| write!(f, ":{path}"))
    }
}

impl FromStr for RepoPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Neither names nor revisions have a colon, and names no at sign; paths may have both.
        let (place, path) = match text.split_once(':') {
            Some((place, path)) => (place, Some(path)),
            None => (text, None),
        };
        let (repo, revision) = match place.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (place, None),
        };
        let wrong = |what: &str| Err(Error::new(ErrorKind::Invalid, format!("{text:?}: {what}")));
        if revision.is_some_and(|revision| revision.is_empty() || revision.contains(char::is_control)) {
            return wrong("a branch, a tag or a commit should follow @");
        }
        let trimmed = path.map(|path| path.strip_suffix('/').unwrap_or(path));
        if trimmed.is_some_and(|path| !path.is_empty() && !is_path(path)) {
            return wrong("the path should have names between single slashes, and no . or ..");
        }
        let path = path.filter(|path| !path.is_empty() && *path != "/");
        let named: Option<RepoName> =
            repo.parse().ok().filter(|repo: &RepoName| repo.kind != RepoKind::Bucket);
        let repo = named.ok_or_else(|| {
            let message = format!(
                "{repo:?} names no repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset, spaces/NAMESPACE/NAME a space"
            );
            Error::new(ErrorKind::Invalid, message)
        })?;
        Ok(Self { repo, revision: revision.map(str::to_owned), path: path.map(str::to_owned) })
    }
}

/// Whether a repository can have a file of this name, and a folder on every system, too.
pub(crate) fn is_path(text: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    !text.contains(['\\', '\0']) && text.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_is_written() {
        for (text, kind, revision, path) in [
            ("ann/model", RepoKind::Model, None, None),
            ("datasets/ann/words@v1.0:a/b c.txt", RepoKind::Dataset, Some("v1.0"), Some("a/b c.txt")),
            ("spaces/ann/app@refs/pr/1", RepoKind::Space, Some("refs/pr/1"), None),
            ("ann/m:at@noon:12.txt", RepoKind::Model, None, Some("at@noon:12.txt")),
            ("ann/m:folder/", RepoKind::Model, None, Some("folder/")),
        ] {
            let place: RepoPath = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
            assert_eq!(
                (place.repo.kind, place.revision.as_deref(), place.path.as_deref()),
                (kind, revision, path)
            );
        }
        assert_eq!("ann/m:".parse::<RepoPath>().unwrap().path, None);
    }

    #[test]
    fn what_names_no_repository_is_refused() {
        for bad in [
            "",
            "ann",
            "ann/",
            "/m",
            "a/b/c",
            "datasets/a",
            "buckets/ann/b",
            "ann/m@",
            "ann/m@:x",
            "ann/..",
            "./m",
            "ann/m/",
            "an n/m",
            "ann/m:/a",
            "ann/m:a//b",
            "ann/m:../a",
            "ann/m:a/./b",
            "ann/m:a\\b",
            "ann/m@a\nb",
        ] {
            assert!(bad.parse::<RepoPath>().is_err(), "{bad:?}");
        }
    }
}

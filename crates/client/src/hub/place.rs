//! Names of repositories and of files in them, as people write them: `datasets/ann/words@v1:data/a.txt`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepoKind {
    /// A model.
    Model,
    /// A dataset.
    Dataset,
    /// A space.
    Space,
}

impl RepoKind {
    /// As paths of the API have it, and, but for models, names of repositories.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
        }
    }

    /// As bodies of requests have it.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
            Self::Space => "space",
        }
    }
}

/// Names a repository. Prints as it is written: `ann/model`, `datasets/ann/words`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repo {
    /// What it holds.
    pub kind: RepoKind,
    /// Whose it is.
    pub namespace: String,
    /// Its own name.
    pub name: String,
}

impl Repo {
    /// Without its kind.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RepoKind::Model => write!(f, "{}", self.id()),
            kind => write!(f, "{}/{}", kind.plural(), self.id()),
        }
    }
}

impl FromStr for Repo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let message = format!(
                "{text:?} names no repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset, spaces/NAMESPACE/NAME a space"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let parts: Vec<_> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            ["models", namespace, name] => (RepoKind::Model, namespace, name),
            ["datasets", namespace, name] => (RepoKind::Dataset, namespace, name),
            ["spaces", namespace, name] => (RepoKind::Space, namespace, name),
            // Half a name of another kind is no model.
            ["models" | "datasets" | "spaces", _] => return Err(wrong()),
            [namespace, name] => (RepoKind::Model, namespace, name),
            _ => return Err(wrong()),
        };
        let is_plain = |part: &str| {
            part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && !part.trim_matches('.').is_empty()
                && part.len() <= 96
        };
        match is_plain(namespace) && is_plain(name) {
            true => Ok(Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }),
            false => Err(wrong()),
        }
    }
}

/// A repository, at a revision, and a path in it: `REPO[@REVISION][:PATH]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The repository.
    pub repo: Repo,
    /// A branch, a tag or a commit; without one, `main`.
    pub revision: Option<String>,
    /// A path, as it was written: a slash at its end may mean something.
    pub path: Option<String>,
}

impl Place {
    /// The revision, `main` where none was named.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repo)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.path.iter().try_for_each(|path| write!(f, ":{path}"))
    }
}

impl FromStr for Place {
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
        Ok(Self { repo: repo.parse()?, revision: revision.map(str::to_owned), path: path.map(str::to_owned) })
    }
}

/// Whether a repository can have a file of this name, and a folder on every system, too.
pub fn is_path(text: &str) -> bool {
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
            let place: Place = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
            assert_eq!(
                (place.repo.kind, place.revision.as_deref(), place.path.as_deref()),
                (kind, revision, path)
            );
        }
        assert_eq!("models/ann/m".parse::<Repo>().unwrap().to_string(), "ann/m");
        assert_eq!("ann/m:".parse::<Place>().unwrap().path, None);
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
            assert!(bad.parse::<Place>().is_err(), "{bad:?}");
        }
    }
}

//! Names of repositories: `ann/model`, `datasets/ann/words`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::FormatError;

/// Kind of a repository; each has names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RepoKind {
    /// Weights and what belongs to them.
    #[serde(rename = "models")]
    Model,
    /// Data.
    #[serde(rename = "datasets")]
    Dataset,
    /// Applications; stored, never run.
    #[serde(rename = "spaces")]
    Space,
    /// Files without history.
    #[serde(rename = "buckets")]
    Bucket,
}

impl RepoKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Model, Self::Dataset, Self::Space, Self::Bucket];

    /// The segment of paths: `models`.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
            Self::Bucket => "buckets",
        }
    }

    /// The word in bodies of requests: `model`.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
            Self::Space => "space",
            Self::Bucket => "bucket",
        }
    }

    /// The kind of a segment of paths.
    pub fn from_plural(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == text)
    }
}

/// Name of a repository. Prints with its kind, but for models: `ann/model`, `datasets/ann/words`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoName {
    /// Kind of the repository.
    pub kind: RepoKind,
    /// The user or organisation that owns it.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl RepoName {
    /// `namespace/name`, without the kind.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RepoKind::Model => write!(f, "{}/{}", self.namespace, self.name),
            kind => write!(f, "{}/{}/{}", kind.plural(), self.namespace, self.name),
        }
    }
}

impl FromStr for RepoName {
    type Err = FormatError;

    /// Reads `NAMESPACE/NAME` and `KIND/NAMESPACE/NAME`. Servers refuse some names that this accepts.
    fn from_str(text: &str) -> Result<Self, FormatError> {
        let refuse = || FormatError::Text {
            at: 0,
            expected: "NAMESPACE/NAME for a model, datasets/NAMESPACE/NAME for a dataset, spaces/NAMESPACE/NAME for a space",
            found: text.chars().take(200).collect(),
        };
        let parts: Vec<_> = text.split('/').collect();
        let (kind, namespace, name) = match parts.as_slice() {
            // Half a name of another kind is no model.
            [first, _] if RepoKind::from_plural(first).is_some() => return Err(refuse()),
            [namespace, name] => (RepoKind::Model, *namespace, *name),
            [kind, namespace, name] => (RepoKind::from_plural(kind).ok_or_else(refuse)?, *namespace, *name),
            _ => return Err(refuse()),
        };
        let is_plain = |part: &str| {
            (1..=96).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                && !part.trim_matches('.').is_empty()
        };
        match is_plain(namespace) && is_plain(name) {
            true => Ok(Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }),
            false => Err(refuse()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_as_it_is_written() {
        for (text, kind) in [
            ("ann/model", RepoKind::Model),
            ("datasets/ann/words.v1", RepoKind::Dataset),
            ("spaces/ann/app_1", RepoKind::Space),
            ("buckets/ann/b-2", RepoKind::Bucket),
        ] {
            let name: RepoName = text.parse().unwrap();
            assert_eq!((name.to_string().as_str(), name.kind), (text, kind));
            assert!(text.ends_with(&name.id()));
        }
        assert_eq!("models/ann/m".parse::<RepoName>().unwrap().to_string(), "ann/m");
    }

    #[test]
    fn what_names_no_repository_is_refused() {
        let long = format!("ann/{}", "x".repeat(97));
        for bad in [
            "",
            "ann",
            "ann/",
            "/m",
            "a/b/c",
            "datasets/a",
            "ann/..",
            "./m",
            "ann/m/",
            "an n/m",
            "ann/é",
            &long,
        ] {
            assert!(bad.parse::<RepoName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn kinds_are_written_as_segments_of_paths() {
        for kind in RepoKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.plural()));
            assert_eq!(RepoKind::from_plural(kind.plural()), Some(kind));
            assert!(kind.plural().starts_with(kind.singular()));
        }
    }
}

//! Who may do what: the repository a caller speaks for, and whether it may write.
//!
//! A hash opens nothing by itself. A repository reads the files that were registered in it. Registering takes the range hash
//! of every term, which only a caller who has the chunks can compute, and xorbs that the caller sent, has registered, or is
//! allowed to find by the dedup policy.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// One repository: the unit of access. Prints as `namespace/repo`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    namespace: String,
    repo: String,
}

impl Scope {
    /// Bytes of a namespace, and of a repository's name.
    pub const NAME_BYTES_MAX: usize = 256;

    /// A repository of a namespace. The name may contain slashes (`datasets/corpus`), the namespace may not; neither
    /// may be empty, longer than [`Scope::NAME_BYTES_MAX`], or contain control characters.
    pub fn new(namespace: impl Into<String>, repo: impl Into<String>) -> Result<Self> {
        let (namespace, repo) = (namespace.into(), repo.into());
        let is_name = |name: &str| {
            (1..=Self::NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
        };
        if !is_name(&namespace) || !is_name(&repo) || namespace.contains('/') {
            let found = format!("{namespace}/{repo}").chars().take(80).collect::<String>();
            return Err(Error::new(ErrorKind::Invalid, format!("not a repository: {found:?}")));
        }
        Ok(Self { namespace, repo })
    }

    /// The user or organisation that owns the repository.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The repository's name within its namespace.
    pub fn repo(&self) -> &str {
        &self.repo
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.repo)
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (namespace, repo) = text.split_once('/').unwrap_or((text, ""));
        Self::new(namespace, repo)
    }
}

/// What a caller may do in one repository. Writing includes reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    scope: Scope,
    writes: bool,
    sender: Option<String>,
    is_exempt: bool,
}

impl Grant {
    /// May read.
    pub fn read(scope: Scope) -> Self {
        Self { scope, writes: false, sender: None, is_exempt: false }
    }

    /// May read and write.
    pub fn write(scope: Scope) -> Self {
        Self { scope, writes: true, sender: None, is_exempt: false }
    }

    /// The same, by this sender: what it sent to one repository it may refer to in another.
    #[must_use]
    pub fn sent_by(self, sender: impl Into<String>) -> Self {
        Self { sender: Some(sender.into()), ..self }
    }

    /// The sender, where it is known: a user or a token.
    pub fn sender(&self) -> Option<&str> {
        self.sender.as_deref()
    }

    /// The same for bytes that count against the quotas of stored bytes already.
    pub(crate) fn without_quota(self) -> Self {
        Self { is_exempt: true, ..self }
    }

    /// Whether what is stored is not held against quotas.
    pub(crate) fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    /// The repository.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Refuses a caller who may only read.
    pub fn expect_write(&self) -> Result<()> {
        match self.writes {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Denied,
                format!("no right to write to {scope}", scope = self.scope),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_namespace_and_a_name() {
        let scope: Scope = "ann/datasets/corpus".parse().unwrap();
        assert_eq!((scope.namespace(), scope.repo()), ("ann", "datasets/corpus"));
        assert_eq!(scope.to_string(), "ann/datasets/corpus");
        for bad in ["", "ann", "ann/", "/repo", "ann/re\npo", &format!("ann/{}", "r".repeat(257))] {
            assert_eq!(bad.parse::<Scope>().unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn a_reader_may_not_write() {
        let scope: Scope = "ann/repo".parse().unwrap();
        assert!(Grant::write(scope.clone()).expect_write().is_ok());
        assert_eq!(Grant::read(scope).expect_write().unwrap_err().kind(), ErrorKind::Denied);
    }
}

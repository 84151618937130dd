//! What went wrong in the store and what to do next.

use std::fmt;

use xet::FormatError;

/// What the caller should do next. The message is for people and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another writer was first. Read again, then retry.
    Conflict,
    /// Bytes we stored are damaged or gone. Retrying will not help; run `verify`.
    Corrupt,
    /// The caller may not do this. Ask with other rights.
    Denied,
    /// A quota is used up. Delete something, or ask for more; do not retry.
    Full,
    /// The store is set up wrongly, or wrong itself. Retrying will not help; tell its keeper.
    Internal,
    /// The request or its bytes are wrong. Fix them; do not retry.
    Invalid,
    /// There is no such thing, or the caller may not know of it. Check the name.
    NotFound,
    /// A disk, bucket or database does not answer, or is too busy. Retry later.
    Unavailable,
}

/// A kind, a message that names the thing, and the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Source>,
}

/// What everything here returns.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// An error without a deeper cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// An error that another one caused.
    pub fn caused(kind: ErrorKind, message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self { kind, message: message.into(), source: Some(source.into()) }
    }

    /// Wrong bytes from outside.
    pub fn invalid(what: impl Into<String>, source: FormatError) -> Self {
        Self::caused(ErrorKind::Invalid, what, source)
    }

    /// Wrong bytes from our own store.
    pub fn corrupt(what: impl Into<String>, source: FormatError) -> Self {
        Self::caused(ErrorKind::Corrupt, what, source)
    }

    /// What to do next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error under another kind: what is merely absent for one caller is damage for another.
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_and_why_and_keeps_the_cause() {
        let cause = FormatError::HashText { found: "x".into() };
        let error = Error::invalid("shard", cause.clone());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), format!("shard: {cause}"));
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(error.with_kind(ErrorKind::Corrupt).kind(), ErrorKind::Corrupt);
    }
}

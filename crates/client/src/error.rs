//! What went wrong and what to do next.

use std::fmt;
use std::io;
use std::path::Path;

/// What the caller should do next. The message is for people and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Reading is not allowed. Change the permissions or the user.
    Denied,
    /// The file is not what was asked for, or changed while it was read. Look at it, then try again.
    Invalid,
    /// The machine failed us. Trying again may help.
    Io,
    /// There is no such thing. Check the name.
    NotFound,
}

/// A kind, a message that names the thing, and the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<io::Error>,
}

/// What everything here returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error without a deeper cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// What the system said about `path`.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        };
        Self { kind, message: path.display().to_string(), source: Some(source) }
    }

    /// What to do next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
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
        self.source.as_ref().map(|source| source as _)
    }
}

//! Errors: a kind, which is advice, a message and a cause.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use xet::FormatError;

/// Advice to the caller. The message is for users and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes that arrived, or that lay in a cache, are not what their hash says. Fetch them again.
    Corrupt,
    /// Not allowed. Change the permissions, the user or the token.
    Denied,
    /// A URL is too old. Request a new one.
    Expired,
    /// A bug of this program. Report it.
    Internal,
    /// The file or the request is not what it should be. Correct it; a retry will not help.
    Invalid,
    /// The machine failed us. Trying again may help.
    Io,
    /// There is no such thing. Check the name.
    NotFound,
    /// The server does not answer, answers nonsense, or is too busy. Try again later.
    Unavailable,
}

/// A kind, a message that names the thing, and the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Source>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
}

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// An error without a deeper cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, retry_after: None, request_id: None }
    }

    /// An error that another one caused.
    pub fn caused(kind: ErrorKind, message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self { source: Some(source.into()), ..Self::new(kind, message) }
    }

    /// Wrong bytes from a peer.
    pub fn invalid(what: impl Into<String>, source: FormatError) -> Self {
        Self::caused(ErrorKind::Invalid, what, source)
    }

    /// An error of the operating system about `path`.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        };
        Self::caused(kind, path.display().to_string(), source)
    }

    /// The same error, with the time after which the server accepts another request.
    pub(crate) fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// The same error, with the request id of the server: its administrator finds it in the logs.
    pub(crate) fn with_request_id(mut self, id: Option<String>) -> Self {
        self.request_id = id;
        self
    }

    /// The kind, which says what to do next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The time after which the server accepts another request, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The request id of the server for the request that failed.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.message),
            None => f.write_str(&self.message),
        }?;
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

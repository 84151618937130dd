//! What a verb tells its caller when it fails.

use std::fmt;
use std::io;
use std::path::Path;

use xet::FormatError;

/// An error on its way to standard error.
#[derive(Debug)]
pub(crate) enum CliError {
    /// Reading or writing failed; the text names what.
    Io(String, io::Error),
    /// A file is not what it should be.
    Format(String, FormatError),
    /// Anything else, said in full.
    Message(String),
}

impl CliError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io(path.display().to_string(), error)
    }

    pub(crate) fn format(path: &Path, error: FormatError) -> Self {
        Self::Format(path.display().to_string(), error)
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(_, error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Format(what, error) => write!(f, "{what}: {error}"),
            Self::Message(text) => f.write_str(text),
        }
    }
}

impl From<io::Error> for CliError {
    /// Only standard output is written without a path.
    fn from(error: io::Error) -> Self {
        Self::Io("standard output".into(), error)
    }
}

impl From<client::Error> for CliError {
    fn from(error: client::Error) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

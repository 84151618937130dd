//! What a verb tells its caller when it fails.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use xet::FormatError;

/// An error on its way to standard error.
#[derive(Debug)]
pub(crate) enum CliError {
    /// Reading or writing failed; the text names what.
    Io(String, io::Error),
    /// Writing the result failed.
    Output(io::Error),
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
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// How a run ends that failed: without a word when whoever reads us has seen enough, as in `drystone chunks big | head`.
pub(crate) fn end(error: &CliError) -> ExitCode {
    if error.is_broken_pipe() {
        return ExitCode::SUCCESS;
    }
    complain(error);
    ExitCode::from(1)
}

/// [`end`] at once, from within work that would go on although nobody can see it.
pub(crate) fn end_now(error: io::Error) -> ! {
    let code = u8::from(end(&error.into()) != ExitCode::SUCCESS);
    std::process::exit(code.into())
}

/// A line on standard error. Where nobody listens nothing is lost, so a failure to say it is none.
pub(crate) fn complain(what: &dyn fmt::Display) {
    let _ = writeln!(io::stderr(), "drystone: {what}");
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Output(error) => write!(f, "standard output: {error}"),
            Self::Format(what, error) => write!(f, "{what}: {error}"),
            Self::Message(text) => f.write_str(text),
        }
    }
}

impl From<io::Error> for CliError {
    /// Only standard output is written without a path.
    fn from(error: io::Error) -> Self {
        Self::Output(error)
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

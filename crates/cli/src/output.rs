//! Errors and output of the verbs.

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
    /// Any other error, with its whole message.
    Message(String),
}

impl CliError {
    /// An error with a message that says everything.
    pub(crate) fn message(text: impl fmt::Display) -> Self {
        Self::Message(text.to_string())
    }

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

/// Exit code of a failed run. A closed pipe, as in `drystone chunks big | head`, is no error and prints nothing.
pub(crate) fn end(error: &CliError) -> ExitCode {
    if error.is_broken_pipe() {
        return ExitCode::SUCCESS;
    }
    complain(error);
    ExitCode::from(1)
}

/// Exits immediately with the code of [`end`]; for callbacks that cannot return an error after standard output was closed.
pub(crate) fn end_now(error: io::Error) -> ! {
    let code = u8::from(end(&error.into()) != ExitCode::SUCCESS);
    std::process::exit(code.into())
}

/// Prints a line to standard error. Failing to do so is ignored: there is nowhere to report it.
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

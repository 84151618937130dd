//! Errors and output of the verbs.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use shardpack::ErrorKind;

/// An error on its way to standard error.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something about a pack.
    Pack(shardpack::Error),
    /// Reading or writing another file failed.
    Io(String, io::Error),
    /// Writing the result failed.
    Output(io::Error),
    /// Any other error, with its whole message.
    Message(String),
}

impl Failure {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io(path.display().to_string(), error)
    }

    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}

/// Exit code of a failed run. A closed pipe, as in `shardpack list x | head`, is no error and prints nothing.
pub(crate) fn end(failure: &Failure) -> ExitCode {
    if matches!(failure, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    complain(failure);
    ExitCode::from(1)
}

/// Prints a line to standard error. Failing to do so is ignored: there is nowhere to report it.
pub(crate) fn complain(what: &dyn fmt::Display) {
    let _ = writeln!(io::stderr(), "shardpack: {what}");
}

/// Names the temporary files of killed writers that were removed.
pub(crate) fn report_leftovers(removed: &[PathBuf]) {
    for path in removed {
        complain(&format_args!("removed {}, left behind by a run that was killed", path.display()));
    }
}

/// Standard output, buffered. Flush it before the end.
pub(crate) fn stdout() -> BufWriter<io::Stdout> {
    BufWriter::with_capacity(64 << 10, io::stdout())
}

/// Prints one JSON document on one line.
pub(crate) fn print_json(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pack(error) if error.kind() == ErrorKind::Corrupt => {
                write!(f, "{error}; `shardpack verify` shows all damage, `repair` keeps the rest")
            }
            Self::Pack(error) => write!(f, "{error}"),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Output(error) => write!(f, "standard output: {error}"),
            Self::Message(text) => f.write_str(text),
        }
    }
}

impl From<shardpack::Error> for Failure {
    fn from(error: shardpack::Error) -> Self {
        Self::Pack(error)
    }
}

impl From<io::Error> for Failure {
    /// Only standard output is written without a path.
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

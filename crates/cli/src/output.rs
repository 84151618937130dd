//! Errors and output of the commands.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde::Serialize;
use serde_json::Value;
use xet::FormatError;

/// An error on its way to standard error.
#[derive(Debug)]
pub(crate) enum CliError {
    /// Reading or writing failed; the text names the file.
    Io(String, io::Error),
    /// Writing the result failed.
    Output(io::Error),
    /// A file does not have its format.
    Format(String, FormatError),
    /// A pack is damaged or cannot be read.
    Pack(shardpack::Error),
    /// Any other error, with its whole message.
    Message(String),
}

impl CliError {
    /// An error with a complete message.
    pub(crate) fn message(text: impl fmt::Display) -> Self {
        Self::Message(text.to_string())
    }

    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io(path.display().to_string(), error)
    }

    pub(crate) fn format(path: &Path, error: FormatError) -> Self {
        Self::Format(path.display().to_string(), error)
    }
}

/// Fails with a complete message.
pub(crate) fn fail<T>(text: impl fmt::Display) -> Result<T, CliError> {
    Err(CliError::message(text))
}

/// Exit code of a failed run. A closed pipe, as in `drystone chunks big | head`, is no error and prints nothing.
pub(crate) fn end(error: &CliError) -> ExitCode {
    if matches!(error, CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe) {
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
    let program = PROGRAM.get().copied().unwrap_or_default();
    let _ = writeln!(io::stderr(), "{program}: {what}");
}

/// Sets the name that messages begin with.
pub(crate) fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

static PROGRAM: OnceLock<&'static str> = OnceLock::new();

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
pub(crate) fn print_json(out: &mut impl Write, value: &impl Serialize) -> Result<(), CliError> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(out.write_all(b"\n")?)
}

/// Prints one JSON document on many lines.
pub(crate) fn print_json_pretty(out: &mut impl Write, value: &impl Serialize) -> Result<(), CliError> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(out.write_all(b"\n")?)
}

/// The value without fields that are null.
pub(crate) fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// Prints results as they come, as lines or as one JSON array: an array of a million files is never in memory.
pub(crate) struct Listing {
    out: BufWriter<io::Stdout>,
    json: bool,
    count: u64,
}

impl Listing {
    pub(crate) fn new(json: bool) -> Self {
        Self { out: stdout(), json, count: 0 }
    }

    /// Prints one result.
    pub(crate) fn print(
        &mut self,
        json: impl FnOnce() -> Value,
        line: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.count += 1;
        if self.json {
            let before = if self.count == 1 { "[\n" } else { ",\n" };
            return write!(self.out, "{before}  {}", json());
        }
        line(&mut self.out)?;
        self.out.write_all(b"\n")
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.json {
            self.out.write_all(if self.count == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        self.out.flush()
    }
}

/// Prints the result of a command: one JSON document, or lines of text.
pub(crate) fn print_result(
    json: bool,
    value: &impl Serialize,
    lines: impl IntoIterator<Item = String>,
) -> Result<(), CliError> {
    let mut out = stdout();
    match json {
        true => print_json(&mut out, value)?,
        false => lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(out.flush()?)
}

/// Exit code 0 if everything is well, else 1.
pub(crate) fn exit_code(is_well: bool) -> ExitCode {
    ExitCode::from(u8::from(!is_well))
}

/// Runs asynchronous work on the threads of a new runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Runtime::new();
    runtime.map_err(|error| CliError::Io("threads".to_owned(), error))?.block_on(work)
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Output(error) => write!(f, "standard output: {error}"),
            Self::Format(what, error) => write!(f, "{what}: {error}"),
            Self::Pack(error) if error.kind() == shardpack::ErrorKind::Corrupt => {
                write!(f, "{error}; `shardpack verify` shows all damage, `repair` keeps the rest")
            }
            Self::Pack(error) => write!(f, "{error}"),
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

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

impl From<shardpack::Error> for CliError {
    fn from(error: shardpack::Error) -> Self {
        Self::Pack(error)
    }
}

macro_rules! converted_to_messages {
    ($($error:ty),*) => {$(
        impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::message(error)
            }
        }
    )*};
}

converted_to_messages!(client::Error, reqwest::Error, server::ConfigError, store::Error, String);

//! `drystone hash`: the XET hash of files.

use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::cut::{CutFile, CutOptions, Progress};
use serde::Serialize;

use crate::output::{CliError, complain, end_now};
use crate::progress;

/// Print the XET hash of files
///
/// One line for each file: `<file hash> <size> <path>`. Directories are walked. Every core is used, also within one large
/// file, and memory does not grow with the size of the files. `-` reads standard input.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  drystone hash --sha256 model.safetensors data/")]
pub(crate) struct Hash {
    /// Files or directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Print a JSON array of {path, size, hash}
    #[arg(long)]
    json: bool,

    /// Print the SHA-256 too, after the hash
    #[arg(long)]
    sha256: bool,

    /// Workers [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

#[derive(Serialize)]
struct Line<'a> {
    path: std::borrow::Cow<'a, str>,
    size: u64,
    hash: xet::FileHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<xet::Sha256>,
}

impl Hash {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let mut options = CutOptions { sha256: self.sha256, ..CutOptions::default() };
        options.threads = self.threads.unwrap_or(options.threads);
        let progress = Progress::default();
        let mut printer = Printer { out: BufWriter::new(io::stdout()), json: self.json, printed: 0 };
        let mut failed = false;

        progress::watch(&progress, &self.paths, || {
            let files = client::walk::files(self.paths.clone());
            client::cut::hash_files(files, &options, &progress, |file| match file {
                Ok(file) => printer.print(&file).unwrap_or_else(|error| end_now(error)),
                Err(error) => {
                    complain(&error);
                    failed = true;
                }
            });
        });

        printer.finish()?;
        Ok(ExitCode::from(u8::from(failed)))
    }
}

/// Writes each result as it comes, also in JSON: an array of a million files is never held.
struct Printer<W> {
    out: W,
    json: bool,
    printed: usize,
}

impl<W: Write> Printer<W> {
    fn print(&mut self, file: &CutFile) -> io::Result<()> {
        if self.json {
            let path = file.path.to_string_lossy();
            self.out.write_all(if self.printed == 0 { b"[\n  " } else { b",\n  " })?;
            let line = Line { path, size: file.bytes, hash: file.hash, sha256: file.sha256 };
            serde_json::to_writer(&mut self.out, &line)?;
        } else {
            write!(self.out, "{} ", file.hash)?;
            if let Some(sha256) = file.sha256 {
                write!(self.out, "{sha256} ")?;
            }
            write!(self.out, "{} ", file.bytes)?;
            // A name need not be text.
            self.out.write_all(file.path.as_os_str().as_encoded_bytes())?;
            writeln!(self.out)?;
        }
        self.printed += 1;
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if self.json {
            self.out.write_all(if self.printed == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        self.out.flush()
    }
}

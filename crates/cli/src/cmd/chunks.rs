//! `drystone chunks`: where a file is cut.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::cut::{CutOptions, Progress};

use crate::output::{CliError, end_now};
use crate::progress;

/// Print the chunks of a file
///
/// One line for each chunk, in file order: `<chunk hash> <length>`. `-` reads standard input.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  drystone chunks model.safetensors | sort | uniq -d")]
pub(crate) struct Chunks {
    /// A file
    path: PathBuf,

    /// Print a JSON array of {hash, offset, length}
    #[arg(long)]
    json: bool,
}

impl Chunks {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let progress = Progress::default();
        let mut out = BufWriter::new(io::stdout());
        let mut offset = 0;
        let print = |hash: xet::ChunkHash, bytes: u32| {
            let written = if !self.json {
                writeln!(out, "{hash} {bytes}")
            } else {
                let before = if offset == 0 { "[\n" } else { ",\n" };
                write!(out, "{before}  {{\"hash\":\"{hash}\",\"offset\":{offset},\"length\":{bytes}}}")
            };
            written.unwrap_or_else(|error| end_now(error));
            offset += u64::from(bytes);
        };
        let path = self.path.clone();
        progress::watch(&progress, std::slice::from_ref(&self.path), || {
            client::cut::chunk_file(path, &CutOptions::default(), &progress, print)
        })?;
        if self.json {
            out.write_all(if offset == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `drystone chunks`: where a file is cut.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::cut::{CutOptions, Progress};
use serde_json::json;

use crate::output::{CliError, Listing, end_now};
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
        let mut listing = Listing::new(self.json);
        let mut offset = 0;
        let print = |hash: xet::ChunkHash, bytes: u32| {
            let printed = listing.print(
                || json!({"hash": hash, "offset": offset, "length": bytes}),
                |out| write!(out, "{hash} {bytes}"),
            );
            printed.unwrap_or_else(|error| end_now(error));
            offset += u64::from(bytes);
        };
        let path = self.path.clone();
        progress::watch(&progress, std::slice::from_ref(&self.path), || {
            client::cut::chunk_file(path, &CutOptions::default(), &progress, print)
        })?;
        listing.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `drystone hash`: the XET hash of files.

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::cut::{CutFile, CutOptions, Progress};
use serde_json::json;

use crate::output::{CliError, Listing, complain, end_now, exit_code, without_nulls};
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

impl Hash {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let mut options = CutOptions { sha256: self.sha256, ..CutOptions::default() };
        options.threads = self.threads.unwrap_or(options.threads);
        let progress = Progress::default();
        let mut listing = Listing::new(self.json);
        let mut failed = false;

        progress::watch(&progress, &self.paths, || {
            let files = client::walk::files(self.paths.clone());
            client::cut::hash_files(files, &options, &progress, |file| match file {
                Ok(file) => print(&mut listing, &file).unwrap_or_else(|error| end_now(error)),
                Err(error) => {
                    complain(&error);
                    failed = true;
                }
            });
        });

        listing.finish()?;
        Ok(exit_code(!failed))
    }
}

fn print(listing: &mut Listing, file: &CutFile) -> io::Result<()> {
    let CutFile { path, bytes, hash, sha256, .. } = file;
    listing.print(
        || {
            let path = path.to_string_lossy();
            without_nulls(json!({"path": path, "size": bytes, "hash": hash, "sha256": sha256}))
        },
        |out| {
            let sha256 = sha256.map_or_else(String::new, |sha256| format!("{sha256} "));
            write!(out, "{hash} {sha256}{bytes} ")?;
            // A name need not be text.
            out.write_all(path.as_os_str().as_encoded_bytes())
        },
    )
}

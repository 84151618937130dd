//! `drystone cas put`: upload files and print their XET hashes.

use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use client::Progress;
use client::push::{PushOptions, Pushed, push};
use indicatif::BinaryBytes;
use serde::Serialize;
use xet::wire::routes::TokenScope;

use super::Target;
use crate::output::{CliError, complain};
use crate::transfer;

/// Upload files and print their XET hashes
///
/// One line for each file: `<file hash> <size> <path>`. Directories are walked. Chunks that the store has are not sent;
/// a push that was interrupted goes on where it stopped when it is started again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone cas put --store data model.safetensors\n  \
                        drystone cas put --endpoint https://hub.example.com --token \"$TOKEN\" --json corpus/")]
pub(super) struct Put {
    /// Files or directories; `-` reads standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    target: Target,

    /// Print JSON: the files, and totals
    #[arg(long)]
    json: bool,

    /// Do everything but change the store
    #[arg(long)]
    dry_run: bool,

    /// Workers [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Memory for what is on its way, in bytes [default: 128 MiB for each worker, at most a quarter of the machine's, and 1 GiB]
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,

    /// Seconds after which to give up altogether
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,
}

#[derive(Serialize)]
struct Line<'a> {
    path: std::borrow::Cow<'a, str>,
    hash: xet::FileHash,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<xet::Sha256>,
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<Line<'a>>,
    logical_bytes: u64,
    new_bytes: u64,
    deduplicated_bytes: u64,
    sent_bytes: u64,
    xorbs: u64,
    shards: u64,
    saved_percent: f64,
    seconds: f64,
}

impl Put {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let mut failed = false;
        let mut paths = Vec::new();
        for path in client::walk::files(self.paths.clone()) {
            match path {
                Ok(path) => paths.push(path),
                Err(error) => {
                    complain(&error);
                    failed = true;
                }
            }
        }
        let progress = Arc::new(Progress::default());
        if io::stderr().is_terminal() {
            let sizes = paths.iter().filter_map(|path| path.metadata().ok()).map(|found| found.len());
            progress.total_bytes.set(sizes.sum());
        }
        let pushed = transfer::run(
            &progress,
            transfer::sent,
            transfer::in_time(self.deadline, self.push(paths, &progress)),
        )?;
        for error in &pushed.unread {
            complain(error);
            failed = true;
        }
        match self.json {
            true => print_json(&pushed)?,
            false => print_lines(&pushed)?,
        }
        Ok(ExitCode::from(u8::from(failed)))
    }

    async fn push(&self, paths: Vec<PathBuf>, progress: &Arc<Progress>) -> Result<Pushed, CliError> {
        let opened = self.target.open(TokenScope::Write).await?;
        let mut options =
            PushOptions { cache: opened.cache, dry_run: self.dry_run, ..PushOptions::default() };
        options.threads = self.threads.unwrap_or(options.threads);
        options.memory_bytes = self.memory.unwrap_or(options.memory_bytes);
        Ok(push(opened.cas, paths, options, progress.clone()).await?)
    }
}

/// Of the bytes of the files, how much was there already.
fn saved_percent(pushed: &Pushed) -> f64 {
    transfer::saved_percent(pushed.logical_bytes, pushed.new_bytes)
}

fn print_json(pushed: &Pushed) -> Result<(), CliError> {
    let line = |file: &'_ client::push::PushedFile| Line {
        path: file.path.to_string_lossy().into_owned().into(),
        hash: file.hash,
        size: file.bytes,
        sha256: file.sha256,
    };
    let report = Report {
        files: pushed.files.iter().map(line).collect(),
        logical_bytes: pushed.logical_bytes,
        new_bytes: pushed.new_bytes,
        deduplicated_bytes: pushed.deduplicated_bytes,
        sent_bytes: pushed.sent_bytes,
        xorbs: pushed.xorbs,
        shards: pushed.shards,
        saved_percent: saved_percent(pushed),
        seconds: pushed.elapsed.as_secs_f64(),
    };
    let mut out = io::BufWriter::new(io::stdout());
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn print_lines(pushed: &Pushed) -> Result<(), CliError> {
    let mut out = io::BufWriter::new(io::stdout());
    for file in &pushed.files {
        write!(out, "{} {} ", file.hash, file.bytes)?;
        // A name need not be text.
        out.write_all(file.path.as_os_str().as_encoded_bytes())?;
        writeln!(out)?;
    }
    out.flush()?;
    let seconds = pushed.elapsed.as_secs_f64();
    let rate = pushed.logical_bytes as f64 / seconds.max(1e-9);
    complain(&format_args!(
        "{} files, {}: {} new, {} known, {} sent in {} xorbs, saved {} %; {seconds:.1} s, {}/s",
        pushed.files.len(),
        BinaryBytes(pushed.logical_bytes),
        BinaryBytes(pushed.new_bytes),
        BinaryBytes(pushed.deduplicated_bytes),
        BinaryBytes(pushed.sent_bytes),
        pushed.xorbs,
        saved_percent(pushed),
        BinaryBytes(rate as u64),
    ));
    Ok(())
}

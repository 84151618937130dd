//! `drystone cas put`: upload files and print their XET hashes.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use client::Progress;
use client::push::{Pushed, push};
use indicatif::BinaryBytes;
use serde_json::json;
use xet::wire::routes::TokenScope;

use super::Target;
use crate::output::{CliError, complain, exit_code, print_json_pretty, stdout, without_nulls};
use crate::remote::PushArgs;
use crate::transfer;

/// Upload files and print their XET hashes
///
/// One line for each file: `<file hash> <size> <path>`. Directories are walked. Chunks that the store has are not sent;
/// a push that was interrupted goes on where it stopped when it is started again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone cas put --store data model.safetensors\n  \
                        drystone cas put --endpoint https://hub.example.com --token \"$TOKEN\" --json corpus/")]
pub(crate) struct Put {
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

    #[command(flatten)]
    push: PushArgs,
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
            transfer::in_time(self.push.deadline, self.push(paths, &progress)),
        )?;
        for error in &pushed.unread {
            complain(error);
            failed = true;
        }
        let saved_percent = transfer::saved_percent(pushed.logical_bytes, pushed.new_bytes);
        match self.json {
            true => print_json(&pushed, saved_percent)?,
            false => print_lines(&pushed, saved_percent)?,
        }
        Ok(exit_code(!failed))
    }

    async fn push(&self, paths: Vec<PathBuf>, progress: &Arc<Progress>) -> Result<Pushed, CliError> {
        let opened = self.target.open(TokenScope::Write).await?;
        let options = self.push.options(opened.cache, self.dry_run);
        Ok(push(opened.cas, paths, options, progress.clone()).await?)
    }
}

fn print_json(pushed: &Pushed, saved_percent: f64) -> Result<(), CliError> {
    let line = |file: &client::push::PushedFile| {
        let (path, sha256) = (file.path.to_string_lossy(), file.sha256);
        without_nulls(json!({"path": path, "hash": file.hash, "size": file.bytes, "sha256": sha256}))
    };
    let report = json!({
        "files": pushed.files.iter().map(line).collect::<Vec<_>>(), "logical_bytes": pushed.logical_bytes,
        "new_bytes": pushed.new_bytes, "deduplicated_bytes": pushed.deduplicated_bytes,
        "sent_bytes": pushed.sent_bytes, "xorbs": pushed.xorbs, "shards": pushed.shards,
        "saved_percent": saved_percent, "seconds": pushed.elapsed.as_secs_f64(),
    });
    let mut out = stdout();
    print_json_pretty(&mut out, &report)?;
    Ok(out.flush()?)
}

fn print_lines(pushed: &Pushed, saved_percent: f64) -> Result<(), CliError> {
    let mut out = stdout();
    for file in &pushed.files {
        write!(out, "{} {} ", file.hash, file.bytes)?;
        // A name need not be text.
        out.write_all(file.path.as_os_str().as_encoded_bytes())?;
        writeln!(out)?;
    }
    out.flush()?;
    let Pushed { files, logical_bytes, new_bytes, deduplicated_bytes, sent_bytes, xorbs, elapsed, .. } =
        pushed;
    let seconds = elapsed.as_secs_f64();
    let rate = BinaryBytes((*logical_bytes as f64 / seconds.max(1e-9)) as u64);
    let [all, new, known, sent] =
        [*logical_bytes, *new_bytes, *deduplicated_bytes, *sent_bytes].map(BinaryBytes);
    let moved = format!("{new} new, {known} known, {sent} sent in {xorbs} xorbs, saved {saved_percent} %");
    complain(&format_args!("{} files, {all}: {moved}; {seconds:.1} s, {rate}/s", files.len()));
    Ok(())
}

//! `drystone pull`: files out of a repository.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use client::Progress;
use client::hub::RepoPath;
use client::hub::download::{DownloadOptions, Downloaded, FileOutcome, download};
use indicatif::BinaryBytes;
use serde_json::json;

use crate::output::{CliError, complain, exit_code, print_json};
use crate::remote::{CachedHubArgs, PullArgs, SelectionArgs};
use crate::transfer;

/// Download a repository, or a file or folder of it
///
/// What is in a folder goes below DEST. A single file gets that name, or its own where DEST is a folder or ends in a slash. Existing
/// files stay, of changed ones only new chunks are fetched, and every file is verified before it gets its name.
/// Started again after an interruption, a download goes on where it stopped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone pull ann/model model/\n  \
                        drystone pull datasets/ann/corpus@v1.0 corpus/ --include '*.parquet'\n  \
                        drystone pull ann/model:config.json .\n  \
                        drystone pull --cache-dir cache ann/model model/ && drystone pull --cache-dir cache --offline ann/model again/")]
pub(crate) struct Pull {
    /// Repository, revision or path: NAMESPACE/NAME is a model; also datasets/… and spaces/…
    #[arg(value_name = "REPO[@REVISION][:PATH]")]
    from: RepoPath,

    /// Target directory or file
    #[arg(value_name = "DEST")]
    to: PathBuf,

    #[command(flatten)]
    selection: SelectionArgs,

    /// List what would be fetched, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Print totals as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hub: CachedHubArgs,

    #[command(flatten)]
    pull: PullArgs,
}

impl Pull {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let started = Instant::now();
        let progress = Arc::new(Progress::default());
        let work = transfer::in_time(self.pull.deadline, self.download(&progress));
        let downloaded = transfer::run(&progress, transfer::fetched, work)?;
        self.print(&downloaded, &progress, started.elapsed())?;
        Ok(exit_code(downloaded.failed == 0))
    }

    async fn download(&self, progress: &Arc<Progress>) -> Result<Downloaded, CliError> {
        let (hub, cache) = self.hub.open()?;
        let pull = self.pull.options(cache);
        let selection = self.selection.selection();
        let options = DownloadOptions { pull, selection, dry_run: self.dry_run };
        let lists = self.dry_run && !self.json;
        let mut each = |outcome: FileOutcome<'_>| match outcome {
            FileOutcome::Pulled(entry) if lists => {
                let _ = writeln!(io::stdout(), "{} {}", entry.bytes, entry.path);
            }
            FileOutcome::Failed(path, error) => complain(&format_args!("{path}: {error}")),
            _ => {}
        };
        Ok(download(&hub, &self.from, &self.to, &options, progress, &mut each).await?)
    }

    fn print(&self, downloaded: &Downloaded, progress: &Progress, elapsed: Duration) -> Result<(), CliError> {
        let Downloaded { commit, files, unchanged, failed, bytes, .. } = downloaded;
        let fetched_bytes = progress.wire_bytes.value();
        let saved_percent = transfer::saved_percent(*bytes, fetched_bytes);
        let seconds = elapsed.as_secs_f64();
        if self.json {
            let totals = json!({
                "repo": self.from.repo.to_string(), "revision": self.from.revision(), "commit": commit, "files": files,
                "unchanged": unchanged, "failed": failed, "bytes": bytes, "fetched_bytes": fetched_bytes,
                "from_cache_bytes": progress.known_bytes.value(), "reused_bytes": progress.reused_bytes.value(),
                "resumed_files": progress.resumed_files.value(), "leftovers_removed": progress.leftovers.value(),
                "saved_percent": saved_percent, "seconds": seconds,
            });
            return print_json(&mut io::stdout(), &totals);
        }
        transfer::report_leftovers(progress);
        let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
        let (bytes, fetched) = (BinaryBytes(*bytes), BinaryBytes(fetched_bytes));
        let files = format!("{files} files, {unchanged} unchanged{failed}, {bytes}");
        let saved = format!("{fetched} fetched, saved {saved_percent} %");
        complain(&format_args!("{files}: {saved}; {seconds:.1} s; commit {commit}"));
        Ok(())
    }
}

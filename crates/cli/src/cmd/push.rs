//! `drystone push`: files into a repository.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use client::hub::RepoPath;
use client::hub::upload::{FileOutcome, SourceFiles, UploadOptions, Uploaded, Visibility, upload};
use client::{ErrorKind, Progress};
use indicatif::BinaryBytes;
use serde_json::json;

use crate::output::{CliError, complain, exit_code, print_json};
use crate::remote::{CacheDirArgs, HubArgs, PushArgs, SelectionArgs};
use crate::transfer;

/// Upload files into a repository
///
/// What is in a folder goes into the repository, or below PATH in it, without the folder's own name. A single file keeps its name, or
/// gets PATH where that does not end in a slash. Files that the repository has are left out, chunks that the hub has are not sent, and an
/// upload that was interrupted goes on where it stopped when it is started again. Up to 10,000 files are one commit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone push model.safetensors ann/model\n  \
                        drystone push --create --private corpus/ datasets/ann/corpus\n  \
                        drystone push weights/ ann/model@experiment:checkpoints/7/ --include '*.bin' -m 'step 7000'\n  \
                        drystone push --dry-run corpus/ datasets/ann/corpus")]
pub(crate) struct Push {
    /// Files or folders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Target repository: NAMESPACE/NAME is a model; also datasets/… and spaces/…
    #[arg(required = true, value_name = "REPO[@REVISION][:PATH]")]
    to: RepoPath,

    #[command(flatten)]
    selection: SelectionArgs,

    /// Commit message
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Make the repository, and the branch, if there is none
    #[arg(long)]
    create: bool,

    /// With --create: only its owners may see it
    #[arg(long, requires = "create")]
    private: bool,

    /// List what would be sent, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Print totals as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hub: HubArgs,

    #[command(flatten)]
    cache_dir: CacheDirArgs,

    #[command(flatten)]
    push: PushArgs,
}

impl Push {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let progress = Arc::new(Progress::default());
        let uploaded = transfer::run(
            &progress,
            transfer::sent,
            transfer::in_time(self.push.deadline, self.upload(&progress)),
        )?;
        self.print(&uploaded)?;
        Ok(exit_code(uploaded.failed == 0))
    }

    async fn upload(&self, progress: &Arc<Progress>) -> Result<Uploaded, CliError> {
        let hub = self.hub.hub()?;
        let selection = self.selection.selection();
        let files = SourceFiles::find(self.paths.clone(), self.to.path.as_deref(), selection)?;
        let cache = self.cache_dir.store_dir(&format!("{} {}", hub.endpoint(), self.to.repo));
        let visibility = if self.private { Visibility::Private } else { Visibility::Public };
        let options = UploadOptions {
            push: self.push.options(cache, self.dry_run),
            message: self.message.clone(),
            description: String::new(),
            create: self.create.then_some(visibility),
        };
        let lists = self.dry_run && !self.json;
        let mut each = |outcome: FileOutcome<'_>| match outcome {
            FileOutcome::Put(local) if lists => {
                let _ = writeln!(io::stdout(), "{} {}", local.bytes, local.to);
            }
            FileOutcome::Failed(error) => complain(error),
            _ => {}
        };
        let uploaded = upload(&hub, &self.to, files, &options, progress, &mut each).await;
        uploaded.map_err(|error| match error.kind() {
            ErrorKind::NotFound if !self.create => {
                CliError::Message(format!("{error}; --create makes a repository or a branch that is missing"))
            }
            _ => error.into(),
        })
    }

    fn print(&self, uploaded: &Uploaded) -> Result<(), CliError> {
        let Uploaded { commit, commits, files, unchanged, ignored, failed, .. } = uploaded;
        let Uploaded { logical_bytes, new_bytes, sent_bytes, elapsed, .. } = uploaded;
        let saved_percent = transfer::saved_percent(*logical_bytes, *new_bytes);
        let seconds = elapsed.as_secs_f64();
        if self.json {
            let totals = json!({
                "repo": self.to.repo.to_string(), "revision": self.to.revision(), "commit": commit, "commits": commits,
                "files": files, "unchanged": unchanged, "ignored": ignored, "failed": failed,
                "logical_bytes": logical_bytes, "new_bytes": new_bytes, "sent_bytes": sent_bytes,
                "saved_percent": saved_percent, "seconds": seconds,
            });
            return print_json(&mut io::stdout(), &totals);
        }
        if let Some(commit) = commit {
            writeln!(io::stdout(), "{}", commit.oid)?;
        }
        let more = [(unchanged, "unchanged"), (ignored, "ignored by the repository"), (failed, "failed")];
        let more = more.iter().filter(|(count, _)| **count > 0);
        let more: String = more.map(|(count, what)| format!(", {count} {what}")).collect();
        let [all, new, sent] = [*logical_bytes, *new_bytes, *sent_bytes].map(BinaryBytes);
        let saved = format!("{new} new, {sent} sent, saved {saved_percent} %");
        complain(&format_args!("{files} files{more}, {all}: {saved}; {seconds:.1} s"));
        Ok(())
    }
}

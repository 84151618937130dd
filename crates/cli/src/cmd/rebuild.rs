//! `drystone rebuild`: a lost catalog, made again from the objects.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::upkeep::{RebuildProgress, Rebuilt};

use super::store_args::{StoreArgs, with_spinner};
use crate::output::{CliError, exit_code, print_result};

/// Make a lost catalog again, from the objects alone
///
/// The catalog must be empty or not there: move a broken one away first. Stop all servers. Repositories, who sees them, users, members, quotas
/// and the trash come back; tokens, passwords, locks of git-lfs and the audit log do not. `drystone serve` makes a new admin token.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  mv /srv/drystone/catalog.db /srv/drystone/catalog.broken\n  drystone rebuild --data /srv/drystone"
)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    place: StoreArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Rebuild {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let progress = RebuildProgress::default();
        let rebuilt = with_spinner(
            async {
                let store = self.place.open_for_rebuild().await?;
                store.upkeep().rebuild(&progress).await.map_err(CliError::message)
            },
            || format!("{} objects", progress.objects()),
        )?;
        let Rebuilt { xorbs, shards, files, lost_files, repos, commits, skipped } = &rebuilt;
        let value = json!({
            "xorbs": xorbs, "shards": shards, "files": files, "lost_files": lost_files, "repositories": repos,
            "commits": commits, "skipped": skipped,
        });
        let contents = format!("{files} files in {xorbs} xorbs, {shards} shards");
        let mut lines = vec![format!("{repos} repositories with {commits} commits, {contents}")];
        if *lost_files > 0 {
            let (namespace, repo) = store::upkeep::LOST;
            lines.push(format!("{lost_files} files that no commit refers to are kept as {namespace}/{repo}"));
        }
        lines.extend(skipped.iter().map(|skipped| format!("not used: {skipped}")));
        print_result(self.json, &value, lines)?;
        Ok(exit_code(skipped.is_empty()))
    }
}

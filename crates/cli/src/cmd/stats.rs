//! `drystone stats`: what a store holds, what it saves, and what could go.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::Scope;
use store::upkeep::{SweepOptions, SweepProgress};

use super::store_args::{StoreArgs, human, with_spinner};
use crate::output::CliError;

/// Show what a store holds: files, bytes, what deduplication saves, the largest repositories, what could be freed
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone stats --data /srv/drystone\n  drystone stats --top 50 --json")]
pub(crate) struct Stats {
    #[command(flatten)]
    place: StoreArgs,

    /// Number of repositories to show
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    top: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A repository as all commands name it: a model without its kind.
fn name_of(scope: &Scope) -> String {
    let name = super::token::repo_text(scope);
    name.strip_prefix("models/").map(str::to_owned).unwrap_or(name)
}

impl Stats {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let progress = SweepProgress::default();
        let (counts, logical, top, estimate, quotas) = with_spinner(
            async {
                let store = self.place.open().await?;
                let counts = store.upkeep().counts().await.map_err(CliError::message)?;
                let top = store.upkeep().top_repos(self.top).await.map_err(CliError::message)?;
                let options = SweepOptions::default();
                let estimate =
                    store.upkeep().estimate_sweep(&options, &progress).await.map_err(CliError::message)?;
                let logical = store.upkeep().logical_bytes().await.map_err(CliError::message)?;
                let quotas = store.content().quota_usage().await.map_err(CliError::message)?;
                Ok((counts, logical, top, estimate, quotas))
            },
            || format!("{} looked at", progress.now().1),
        )?;
        // What repositories say they have, against what is stored for it.
        let ratio = logical as f64 / counts.object_bytes.max(1) as f64;
        let reclaimable = estimate.xorb_bytes + estimate.orphan_bytes;
        let quotas: Vec<_> =
            quotas.iter().map(|(row, usage)| server::http::quota_json(row, *usage)).collect();
        let mut out = io::stdout().lock();
        if self.json {
            let repos: Vec<_> = top
                .iter()
                .map(|(scope, files, bytes)| json!({"repository": name_of(scope), "files": files, "bytes": bytes}))
                .collect();
            let value = json!({
                "files": counts.files, "file_bytes": counts.file_bytes, "repository_files": counts.repo_files,
                "repository_bytes": logical, "xorbs": counts.xorbs, "stored_bytes": counts.object_bytes,
                "raw_bytes": counts.raw_bytes, "shards": counts.shards, "dedup_chunks": counts.dedup,
                "dedup_ratio": ratio, "reclaimable_bytes": reclaimable, "top": repos, "quotas": quotas,
            });
            writeln!(out, "{value}")?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out, "files         {} in repositories, {} distinct", counts.repo_files, counts.files)?;
        writeln!(
            out,
            "bytes         {} in repositories, {} distinct",
            human(logical),
            human(counts.file_bytes)
        )?;
        writeln!(
            out,
            "stored        {} in {} xorbs ({} raw)",
            human(counts.object_bytes),
            counts.xorbs,
            human(counts.raw_bytes)
        )?;
        writeln!(out, "dedup ratio   {ratio:.2} (bytes in repositories for each byte stored)")?;
        writeln!(out, "reclaimable   {}", human(reclaimable))?;
        for (scope, files, bytes) in top {
            let repo = name_of(&scope);
            writeln!(out, "{:>12}  {files:>8} files  {repo}", human(bytes))?;
        }
        for quota in quotas.iter().filter_map(super::admin::quota_text) {
            writeln!(out, "quota         {quota}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

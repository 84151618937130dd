//! `drystone stats`: what a store holds, what deduplication saves, and what could be freed.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::Scope;
use store::upkeep::{GcOptions, GcProgress};

use super::store_args::{StoreArgs, human, with_spinner};
use crate::output::{CliError, print_result};

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
        let progress = GcProgress::default();
        let (counts, logical, top, estimate, quotas) = with_spinner(
            async {
                let store = self.place.open().await?;
                let counts = store.upkeep().counts().await?;
                let top = store.upkeep().top_repos(self.top).await?;
                let options = GcOptions::default();
                let estimate = store.upkeep().estimate_gc(&options, &progress).await?;
                let logical = store.upkeep().logical_bytes().await?;
                let quotas = store.content().quota_usage().await?;
                Ok((counts, logical, top, estimate, quotas))
            },
            || format!("{} examined", progress.now().1),
        )?;
        let ratio = logical as f64 / counts.object_bytes.max(1) as f64;
        let reclaimable = estimate.xorb_bytes + estimate.orphan_bytes;
        let quotas: Vec<_> = quotas.iter().map(|(row, usage)| server::quota_json(row, *usage)).collect();
        let repos: Vec<_> = top
            .iter()
            .map(
                |(scope, files, bytes)| json!({"repository": name_of(scope), "files": files, "bytes": bytes}),
            )
            .collect();
        let value = json!({
            "files": counts.files, "file_bytes": counts.file_bytes, "repository_files": counts.repo_files,
            "repository_bytes": logical, "xorbs": counts.xorbs, "stored_bytes": counts.object_bytes,
            "raw_bytes": counts.raw_bytes, "shards": counts.shards, "dedup_chunks": counts.dedup,
            "dedup_ratio": ratio, "reclaimable_bytes": reclaimable, "top": repos, "quotas": quotas,
        });
        let (file_bytes, raw_bytes) = (human(counts.file_bytes), human(counts.raw_bytes));
        let stored = human(counts.object_bytes);
        let mut lines = vec![
            format!("files         {} in repositories, {} distinct", counts.repo_files, counts.files),
            format!("bytes         {} in repositories, {file_bytes} distinct", human(logical)),
            format!("stored        {stored} in {} xorbs ({raw_bytes} raw)", counts.xorbs),
            format!("dedup ratio   {ratio:.2} (bytes in repositories for each byte stored)"),
            format!("reclaimable   {}", human(reclaimable)),
        ];
        let top = top.iter().map(|(scope, files, bytes)| (human(*bytes), files, name_of(scope)));
        lines.extend(top.map(|(bytes, files, repo)| format!("{bytes:>12}  {files:>8} files  {repo}")));
        let quotas = quotas.iter().filter_map(super::admin::quota_text);
        lines.extend(quotas.map(|quota| format!("quota         {quota}")));
        print_result(self.json, &value, lines)?;
        Ok(ExitCode::SUCCESS)
    }
}

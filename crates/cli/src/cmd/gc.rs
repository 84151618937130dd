//! `drystone gc`: deletes unreferenced data.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::upkeep::{
    CompactOptions, CompactProgress, Compacted, Estimate, SweepOptions, SweepProgress, Swept,
};

use super::store_args::{StoreArgs, human, seconds, with_spinner};
use crate::output::CliError;

/// Delete what no repository leads to any more, beside running servers or without
///
/// Unreferenced data is condemned first and deleted when the grace is over; until then a new reference restores it.
/// A server sweeps by itself once a day (`sweep_interval_s`). A run that would delete more than 20 % of all objects, or finds many that the
/// catalog does not know, changes nothing and ends with 1.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone gc --data /srv/drystone --dry-run\n  drystone gc --data /srv/drystone\n  \
                        drystone gc --data /srv/drystone --offline --grace 0   (no server may run)\n  \
                        drystone gc --allow-large-deletion   (after a large repository was deleted)"
)]
pub(crate) struct Gc {
    #[command(flatten)]
    place: StoreArgs,

    /// Grace before unreferenced data is deleted, such as 22d or 36h [default: `sweep_grace_s` of the configuration, else 22d]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    grace: Option<u64>,

    /// No server and no push uses the store: any grace will do, also 0
    #[arg(long)]
    offline: bool,

    /// Rows and objects to look at in a second [default: as many as possible]
    #[arg(long, value_name = "NUMBER")]
    rate: Option<u64>,

    /// First move what is needed of xorbs that are hardly used to smaller ones
    #[arg(long)]
    compact: bool,

    /// With --compact: xorbs of which at most this part is needed
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.5, requires = "compact")]
    live_share: f64,

    /// Delete also more than 20 % of all objects, or many that the catalog does not know
    #[arg(long)]
    allow_large_deletion: bool,

    /// Only say what would go
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Gc {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let options = SweepOptions {
            grace_s: self.grace.map_or_else(|| Ok(self.place.config()?.sweep_grace_s), Ok::<_, CliError>)?,
            offline: self.offline,
            rate_per_s: self.rate,
            allow_large_deletion: self.allow_large_deletion,
        };
        let progress = SweepProgress::default();
        let now = || {
            let (stage, seen) = progress.now();
            format!("{stage}: {seen} looked at")
        };
        if self.compact {
            self.compact()?;
        }
        let mut out = io::stdout().lock();
        if self.dry_run {
            let (estimate, refusal) = with_spinner(
                async {
                    let store = self.place.open().await?;
                    let estimate = store
                        .upkeep()
                        .estimate_sweep(&options, &progress)
                        .await
                        .map_err(CliError::message)?;
                    Ok((estimate, store.upkeep().sweep_refusal(&options).await.map_err(CliError::message)?))
                },
                now,
            )?;
            return show_estimate(&mut out, &estimate, refusal.as_deref(), self.json);
        }
        let swept = with_spinner(
            async {
                let store = self.place.open().await?;
                if self.offline && store.objects().is_shared() {
                    let message = "gc --offline needs the store for itself, and another process uses it: stop that, or leave out --offline";
                    return Err(CliError::Message(message.to_owned()));
                }
                let mut swept = store.upkeep().sweep(&options, &progress).await.map_err(CliError::message)?;
                swept.drafts.append(&mut store.upkeep().remove_drafts().await.map_err(CliError::message)?);
                Ok(swept)
            },
            now,
        )?;
        show_swept(&mut out, &swept, self.json)
    }
}

impl Gc {
    fn compact(&self) -> Result<(), CliError> {
        let options = CompactOptions { live_share_max: self.live_share, dry_run: self.dry_run };
        let progress = CompactProgress::default();
        let compacted = with_spinner(
            async {
                let store = self.place.open().await?;
                store.upkeep().compact(&options, &progress).await.map_err(CliError::message)
            },
            || format!("{} xorbs looked at", progress.looked_at()),
        )?;
        let mut out = io::stdout().lock();
        let Compacted { looked_at, rewritten, files, freed_bytes, busy } = compacted;
        if self.json {
            let value = json!({
                "looked_at": looked_at, "rewritten": rewritten, "moved_files": files, "freed_bytes": freed_bytes,
                "busy": busy,
            });
            writeln!(out, "{value}")?;
        } else {
            let verb = if self.dry_run { "would move" } else { "moved" };
            let freed = human(freed_bytes);
            writeln!(
                out,
                "{verb} {files} files out of {rewritten} of {looked_at} xorbs, which frees {freed} later"
            )?;
        }
        Ok(())
    }
}

/// Reads a part of the whole.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn show_estimate(
    out: &mut impl Write,
    estimate: &Estimate,
    refusal: Option<&str>,
    as_json: bool,
) -> Result<ExitCode, CliError> {
    let Estimate { git_objects, files, xorbs, xorb_bytes, ripe_bytes, orphans, orphan_bytes, skipped } =
        estimate;
    if as_json {
        let value = json!({
            "git_objects": git_objects, "files": files, "xorbs": xorbs, "reclaimable_bytes": xorb_bytes + orphan_bytes,
            "reclaimable_now_bytes": ripe_bytes + orphan_bytes, "orphans": orphans, "skipped": skipped,
            "refused": refusal,
        });
        writeln!(out, "{value}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "would drop {git_objects} git objects and {files} files, which leaves {xorbs} xorbs unused"
    )?;
    writeln!(
        out,
        "reclaimable: {}, of which {} now and the rest when the grace is over",
        human(xorb_bytes + orphan_bytes),
        human(ripe_bytes + orphan_bytes)
    )?;
    skipped.iter().try_for_each(|skipped| writeln!(out, "not looked through: {skipped}"))?;
    if let Some(refusal) = refusal {
        writeln!(out, "would be refused: {refusal}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends with 1 when something could not be looked through: its operator should know.
fn show_swept(out: &mut impl Write, swept: &Swept, as_json: bool) -> Result<ExitCode, CliError> {
    let Swept { git_objects, repo_files, files, condemned, deleted, deleted_bytes, orphans, drafts, skipped } =
        swept;
    let code = if skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if as_json {
        let value = json!({
            "git_objects": git_objects, "repo_files": repo_files, "files": files, "condemned": condemned,
            "deleted": deleted, "deleted_bytes": deleted_bytes, "orphans": orphans, "drafts": drafts.len(), "draft_names": drafts,
            "skipped": skipped,
        });
        writeln!(out, "{value}")?;
        return Ok(code);
    }
    writeln!(
        out,
        "dropped {git_objects} git objects and {files} files; condemned {condemned} xorbs and shards"
    )?;
    writeln!(
        out,
        "deleted {deleted} objects ({}), {orphans} of them unknown to the catalog, and {} drafts",
        human(*deleted_bytes),
        drafts.len()
    )?;
    drafts
        .iter()
        .try_for_each(|draft| writeln!(out, "removed {draft}, left by a process that was killed"))?;
    skipped.iter().try_for_each(|skipped| writeln!(out, "not swept: {skipped}"))?;
    Ok(code)
}

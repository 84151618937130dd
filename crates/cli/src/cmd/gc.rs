//! `drystone gc`: deletes unreferenced data.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::upkeep::{CompactOptions, CompactProgress, Compacted, Estimate, GcOptions, GcProgress, GcReport};

use super::store_args::{StoreArgs, human, leftover_lines, seconds, with_spinner};
use crate::output::{CliError, exit_code, fail, print_result};

/// Delete data that no repository refers to any more, with or without running servers
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

    /// No server and no push uses the store: allows any grace, also 0
    #[arg(long)]
    offline: bool,

    /// Rows and objects to examine in a second [default: as many as possible]
    #[arg(long, value_name = "NUMBER")]
    rate: Option<u64>,

    /// First move the used chunks of mostly unused xorbs to smaller ones
    #[arg(long)]
    compact: bool,

    /// With --compact: xorbs of which at most this part is needed
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.5, requires = "compact")]
    live_share: f64,

    /// Delete also more than 20 % of all objects, or many that the catalog does not know
    #[arg(long)]
    allow_large_deletion: bool,

    /// Only print what would be deleted
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Gc {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let options = GcOptions {
            grace_s: self.grace.map_or_else(|| Ok(self.place.config()?.sweep_grace_s), Ok::<_, CliError>)?,
            offline: self.offline,
            rate_per_s: self.rate,
            allow_large_deletion: self.allow_large_deletion,
        };
        let progress = GcProgress::default();
        let now = || {
            let (stage, seen) = progress.now();
            format!("{stage}: {seen} examined")
        };
        if self.compact {
            self.compact()?;
        }
        if self.dry_run {
            let (estimate, refusal) = with_spinner(
                async {
                    let store = self.place.open().await?;
                    let estimate = store.upkeep().estimate_gc(&options, &progress).await?;
                    Ok((estimate, store.upkeep().sweep_refusal(&options).await?))
                },
                now,
            )?;
            return print_estimate(self.json, &estimate, refusal.as_deref());
        }
        let report = with_spinner(
            async {
                let store = self.place.open().await?;
                if self.offline && store.objects().is_shared() {
                    return fail(
                        "gc --offline needs the store alone, and another process uses it: stop that, or leave out --offline",
                    );
                }
                let mut report = store.upkeep().collect_garbage(&options, &progress).await?;
                report.drafts.append(&mut store.upkeep().remove_drafts().await?);
                Ok(report)
            },
            now,
        )?;
        print_report(self.json, &report)
    }

    fn compact(&self) -> Result<(), CliError> {
        let options = CompactOptions { live_share_max: self.live_share, dry_run: self.dry_run };
        let progress = CompactProgress::default();
        let compacted = with_spinner(
            async { Ok(self.place.open().await?.upkeep().compact(&options, &progress).await?) },
            || format!("{} xorbs examined", progress.examined()),
        )?;
        let Compacted { examined, rewritten, files, freed_bytes, busy } = compacted;
        let verb = if self.dry_run { "would move" } else { "moved" };
        let freed = human(freed_bytes);
        print_result(
            self.json,
            &json!({
                "looked_at": examined, "rewritten": rewritten, "moved_files": files, "freed_bytes": freed_bytes,
                "busy": busy,
            }),
            [format!(
                "{verb} {files} files out of {rewritten} of {examined} xorbs, which frees {freed} later"
            )],
        )
    }
}

/// Reads a part of the whole.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn print_estimate(as_json: bool, estimate: &Estimate, refusal: Option<&str>) -> Result<ExitCode, CliError> {
    let Estimate { git_objects, files, xorbs, xorb_bytes, ripe_bytes, orphans, orphan_bytes, skipped } =
        estimate;
    let (bytes, now_bytes) = (xorb_bytes + orphan_bytes, ripe_bytes + orphan_bytes);
    let value = json!({
        "git_objects": git_objects, "files": files, "xorbs": xorbs, "reclaimable_bytes": bytes,
        "reclaimable_now_bytes": now_bytes, "orphans": orphans, "skipped": skipped, "refused": refusal,
    });
    let (all, now) = (human(bytes), human(now_bytes));
    let mut lines = vec![
        format!("would drop {git_objects} git objects and {files} files, which leaves {xorbs} xorbs unused"),
        format!("reclaimable: {all}, of which {now} now and the rest when the grace is over"),
    ];
    lines.extend(skipped.iter().map(|skipped| format!("not scanned: {skipped}")));
    lines.extend(refusal.map(|refusal| format!("would be refused: {refusal}")));
    print_result(as_json, &value, lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends with 1 when a repository could not be scanned.
fn print_report(as_json: bool, report: &GcReport) -> Result<ExitCode, CliError> {
    let GcReport {
        git_objects,
        repo_files,
        files,
        condemned,
        deleted,
        deleted_bytes,
        orphans,
        drafts,
        skipped,
    } = report;
    let value = json!({
        "git_objects": git_objects, "repo_files": repo_files, "files": files, "condemned": condemned,
        "deleted": deleted, "deleted_bytes": deleted_bytes, "orphans": orphans, "drafts": drafts.len(),
        "draft_names": drafts, "skipped": skipped,
    });
    let (bytes, draft_count) = (human(*deleted_bytes), drafts.len());
    let known = format!("{orphans} of them unknown to the catalog, and {draft_count} drafts");
    let mut lines = vec![
        format!(
            "dropped {git_objects} git objects and {files} files; condemned {condemned} xorbs and shards"
        ),
        format!("deleted {deleted} objects ({bytes}), {known}"),
    ];
    lines.extend(leftover_lines(drafts));
    lines.extend(skipped.iter().map(|skipped| format!("not swept: {skipped}")));
    print_result(as_json, &value, lines)?;
    Ok(exit_code(skipped.is_empty()))
}

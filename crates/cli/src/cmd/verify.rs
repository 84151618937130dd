//! `drystone verify`: checks that every object of the catalog exists, unchanged.

use std::iter;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::upkeep::{Damage, Repair, RepairOutcome, Verified, VerifyOptions, VerifyProgress};

use super::backup::folder::SnapshotCopy;
use super::store_args::{StoreArgs, human, seconds, with_spinner};
use crate::clock::now_s;
use crate::output::{CliError, exit_code, fail, print_result};

/// Check that every object of a store exists, or with --deep read them all
///
/// Ends with 0 if everything is sound and with 1 if something is damaged, with the names of the affected files and repositories.
/// Works beside running servers. `--data` may also be a backup, whose snapshot is checked too.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone verify --data /srv/drystone\n  drystone verify --data /srv/drystone --deep --rate 50\n  \
                        drystone verify --deep --repair --from s3://backup/drystone"
)]
pub(crate) struct Verify {
    #[command(flatten)]
    place: StoreArgs,

    /// Read and hash every object
    #[arg(long)]
    deep: bool,

    /// With --deep: skip what was found sound within this time, such as 30d; also resumes an interrupted run
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    within: Option<u64>,

    /// Resume where the last run was interrupted, or at the first damage it found
    #[arg(long)]
    resume: bool,

    /// MiB to read in a second [default: as many as possible]
    #[arg(long, value_name = "MIB")]
    rate: Option<u64>,

    /// Mark damaged objects: they are no longer offered, and the next upload repairs them
    #[arg(long)]
    repair: bool,

    /// With --repair: mark also more than 20 % of all xorbs
    #[arg(long, requires = "repair")]
    allow_large_repair: bool,

    /// With --repair: fetch damaged objects from this store, such as `s3://bucket/prefix` or `file:///copy`
    #[arg(long, value_name = "URL", requires = "repair")]
    from: Option<String>,

    /// Print JSON: one line for each damage, then one for all
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let repair = match (&self.from, self.repair) {
            (Some(url), _) => Some(Repair::From(server::open_existing_objects(url)?)),
            (None, true) => Some(Repair::Mark),
            (None, false) => None,
        };
        let options = VerifyOptions {
            deep: self.deep,
            rate_bytes_per_s: self.rate.map(|mib| mib.saturating_mul(1 << 20)),
            repair,
            resume: self.resume,
            allow_large_repair: self.allow_large_repair,
            since_s: self.within.map_or(0, |within| now_s().saturating_sub(within)),
        };
        let snapshot = SnapshotCopy::of_backup(&self.place.config()?.data)?;
        if snapshot.is_some() && (self.resume || self.within.is_some()) {
            return fail("a backup does not record what was verified: leave out --resume and --within");
        }
        let place = match &snapshot {
            Some(snapshot) => StoreArgs {
                catalog: Some(snapshot.catalog.clone()),
                objects: self.place.objects.clone().or_else(|| snapshot.objects.clone()),
                ..self.place.clone()
            },
            None => self.place.clone(),
        };
        let progress = VerifyProgress::default();
        let now = || {
            let (objects, bytes) = progress.now();
            format!("{objects} objects, {}", human(bytes))
        };
        let verified = with_spinner(
            async {
                let store = place.open().await?;
                store.upkeep().verify(&options, &progress).await.map_err(CliError::message)
            },
            now,
        )?;
        self.print(&verified)
    }

    fn print(&self, verified: &Verified) -> Result<ExitCode, CliError> {
        let Verified { objects, bytes, damages, refused } = verified;
        for Damage { what, why, files, repos, repaired } in damages {
            let done = match repaired {
                RepairOutcome::No => "nothing was done",
                RepairOutcome::Marked => "marked: the next upload repairs it",
                RepairOutcome::Restored => "restored",
                RepairOutcome::Removed => "the claim is removed",
            };
            let value =
                json!({"damaged": what, "why": why, "files": files, "repositories": repos, "done": done});
            let files = files.iter().map(|file| format!("  file {file}"));
            let repos = repos.iter().map(|repo| format!("  repository {repo}"));
            print_result(
                self.json,
                &value,
                iter::once(format!("{what}: {why} ({done})")).chain(files).chain(repos),
            )?;
        }
        let left = damages.iter().filter(|damage| !is_done(damage.repaired)).count();
        let value = json!({"objects": objects, "bytes": bytes, "damages": damages.len(), "left": left});
        let read = if self.deep { format!(", {} read", human(*bytes)) } else { String::new() };
        print_result(self.json, &value, [format!("{objects} objects{read}: {} damaged", damages.len())])?;
        match refused {
            Some(refused) => fail(refused),
            None => Ok(exit_code(left == 0)),
        }
    }
}

/// Whether nothing is left to do about a damage.
fn is_done(repaired: RepairOutcome) -> bool {
    matches!(repaired, RepairOutcome::Restored | RepairOutcome::Removed)
}

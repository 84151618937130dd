//! `drystone verify`: is everything the catalog names there, and as it was stored?

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use store::upkeep::{Damage, Mended, Repair, Verified, VerifyOptions, VerifyProgress};

use super::backup::folder::SnapshotCopy;
use super::store_args::{StoreArgs, human, now_s, seconds, with_spinner};
use crate::output::CliError;

/// Check a store: quickly that every object is there, or deeply by reading all of them
///
/// Ends with 0 if everything is sound and with 1 if something is damaged, which it names, with the files and repositories it touches.
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

    /// With --deep: leave out what was found sound within this time, such as 30d; what breaks off goes on so
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    within: Option<u64>,

    /// Go on where the last run was cut, or at the first damage it found
    #[arg(long)]
    resume: bool,

    /// MiB to read in a second [default: as many as possible]
    #[arg(long, value_name = "MIB")]
    rate: Option<u64>,

    /// Mark what is damaged: it is no longer offered, and the next upload of it heals it
    #[arg(long)]
    repair: bool,

    /// With --repair: mark also more than 20 % of all xorbs
    #[arg(long, requires = "repair")]
    allow_large_repair: bool,

    /// With --repair: fetch what is damaged from this store, such as `s3://bucket/prefix` or `file:///copy`
    #[arg(long, value_name = "URL", requires = "repair")]
    from: Option<String>,

    /// Print JSON: one line for each damage, then one for all
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let repair = match (&self.from, self.repair) {
            (Some(url), _) => {
                Some(Repair::From(server::house::open_existing_objects(url).map_err(CliError::message)?))
            }
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
            let message = "a backup does not record what was verified: leave out --resume and --within";
            return Err(CliError::Message(message.to_owned()));
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
        self.show(&verified)
    }

    fn show(&self, verified: &Verified) -> Result<ExitCode, CliError> {
        let mut out = io::stdout().lock();
        for damage in &verified.damages {
            let Damage { what, why, files, repos, mended } = damage;
            let done = match mended {
                Mended::No => "nothing was done",
                Mended::Marked => "marked: the next upload heals it",
                Mended::Restored => "restored",
                Mended::Removed => "the claim is removed",
            };
            if self.json {
                let value =
                    json!({"damaged": what, "why": why, "files": files, "repositories": repos, "done": done});
                writeln!(out, "{value}")?;
                continue;
            }
            writeln!(out, "{what}: {why} ({done})")?;
            files.iter().try_for_each(|file| writeln!(out, "  file {file}"))?;
            repos.iter().try_for_each(|repo| writeln!(out, "  repository {repo}"))?;
        }
        let left = verified.damages.iter().filter(|damage| !is_done(damage.mended)).count();
        let Verified { objects, bytes, damages, refused } = verified;
        if self.json {
            let value = json!({"objects": objects, "bytes": bytes, "damages": damages.len(), "left": left});
            writeln!(out, "{value}")?;
        } else {
            let read = if self.deep { format!(", {} read", human(*bytes)) } else { String::new() };
            writeln!(out, "{objects} objects{read}: {} damaged", damages.len())?;
        }
        out.flush()?;
        if let Some(refused) = refused {
            return Err(CliError::Message(refused.clone()));
        }
        Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// Whether nothing is left to do about a damage.
fn is_done(mended: Mended) -> bool {
    matches!(mended, Mended::Restored | Mended::Removed)
}

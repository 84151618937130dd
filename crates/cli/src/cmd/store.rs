//! `drystone store`: the objects of a store as a whole.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use store::copy::{Copied, CopyProgress, copy};

use super::keep::{human, said, watched};
use crate::output::CliError;

/// Copy the objects of a store
#[derive(Debug, Args)]
pub(crate) struct StoreCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Copy(Copy),
}

/// Copy what another store does not have yet, folder or bucket, beside running servers
///
/// Every object is proven where it arrives; one that is damaged is named and not copied. The catalog is not copied: back it up with the means of
/// its database, or make it again with `drystone rebuild`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone store copy file:///srv/drystone/objects s3://backup/drystone\n  \
                        drystone store copy s3://bucket/prefix file:///mnt/copy --dry-run"
)]
struct Copy {
    /// From where, such as `file:///srv/drystone/objects`
    #[arg(value_name = "FROM")]
    from: String,

    /// To where, such as `s3://bucket/prefix`
    #[arg(value_name = "TO")]
    to: String,

    /// Only say what would be copied
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StoreCommand {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let Verb::Copy(verb) = self.verb;
        verb.run()
    }
}

impl Copy {
    fn run(self) -> Result<ExitCode, CliError> {
        let progress = CopyProgress::default();
        let now = || {
            let (objects, bytes) = progress.now();
            format!("{objects} objects, {} copied", human(bytes))
        };
        let copied = watched(
            async {
                let from = server::house::open_objects(&self.from).map_err(said)?;
                let to = server::house::open_objects(&self.to).map_err(said)?;
                copy(&from, &to, self.dry_run, &progress).await.map_err(said)
            },
            now,
        )?;
        let Copied { objects, bytes, known, damaged } = &copied;
        let mut out = io::stdout().lock();
        if self.json {
            let value = json!({"objects": objects, "bytes": bytes, "known": known, "damaged": damaged});
            writeln!(out, "{value}")?;
        } else {
            let verb = if self.dry_run { "would copy" } else { "copied" };
            writeln!(out, "{verb} {objects} objects ({}); {known} were there", human(*bytes))?;
            damaged.iter().try_for_each(|damaged| writeln!(out, "damaged: {damaged}"))?;
        }
        Ok(if damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

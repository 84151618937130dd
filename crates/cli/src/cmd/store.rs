//! `drystone store`: the objects of a store as a whole.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use store::upkeep::{Copied, CopyOptions, CopyProgress, MigrateProgress, Migrated, copy, migrate};

use super::store_args::{human, with_spinner};
use crate::output::{CliError, exit_code, print_result};

#[derive(Debug, Subcommand)]
pub(crate) enum StoreVerb {
    Copy(Copy),
    Migrate(Migrate),
}

/// Copy the objects that another store, directory or bucket, does not have yet, beside running servers
///
/// Every object is checked where it arrives; one that is damaged is named and not copied. The catalog is not copied: `drystone backup` copies both,
/// in the right order.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone store copy file:///srv/drystone/objects s3://backup/drystone\n  \
                        drystone store copy s3://bucket/prefix file:///mnt/copy --dry-run"
)]
pub(crate) struct Copy {
    /// Source, such as `file:///srv/drystone/objects`
    #[arg(value_name = "FROM")]
    from: String,

    /// Target, such as `s3://bucket/prefix`
    #[arg(value_name = "TO")]
    to: String,

    /// Only print what would be copied
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StoreVerb {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Copy(verb) => verb.run(),
            Self::Migrate(verb) => verb.run(),
        }
    }
}

/// Move a catalog from SQLite to PostgreSQL: all rows, tokens and members included
///
/// Stop the server first; the database must be one that no server has used. The SQLite file stays as it is. Start the server with `--catalog` and
/// the new URL afterwards.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone store migrate --from sqlite:///srv/drystone/catalog.db --to postgres://drystone@db/drystone --dry-run\n  \
                        drystone store migrate --from sqlite:///srv/drystone/catalog.db --to postgres://drystone@db/drystone"
)]
pub(crate) struct Migrate {
    /// The catalog, `sqlite:///file`
    #[arg(long, value_name = "URL")]
    from: String,

    /// The empty database, `postgres://…`
    #[arg(long, value_name = "URL")]
    to: String,

    /// Copy everything, then discard the copy: proves that it would work
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Migrate {
    fn run(self) -> Result<ExitCode, CliError> {
        let progress = MigrateProgress::default();
        let work =
            async { migrate(&self.from, &self.to, self.dry_run, &progress).await.map_err(CliError::message) };
        let Migrated { tables } = with_spinner(work, || format!("{} rows", progress.rows()))?;
        let by_name: serde_json::Map<_, _> =
            tables.iter().map(|(name, rows)| (name.to_string(), json!(rows))).collect();
        let mut lines: Vec<_> = tables.iter().map(|(name, rows)| format!("{rows:>12}  {name}")).collect();
        lines.push(if self.dry_run { "would be migrated" } else { "migrated" }.to_owned());
        print_result(self.json, &json!({"rows": by_name, "dry_run": self.dry_run}), lines)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Copy {
    fn run(self) -> Result<ExitCode, CliError> {
        let progress = CopyProgress::default();
        let now = || {
            let (objects, bytes) = progress.now();
            format!("{objects} objects, {} copied", human(bytes))
        };
        let copied = with_spinner(
            async {
                let from = server::open_existing_objects(&self.from)?;
                let to = match server::open_existing_objects(&self.to) {
                    // Nothing is created to see what would be copied.
                    Err(error) if self.dry_run && error.kind() == store::ErrorKind::NotFound => {
                        store::Objects::open("memory:///", [])?
                    }
                    Err(error) if error.kind() == store::ErrorKind::NotFound => {
                        server::open_objects(&self.to)?
                    }
                    to => to?,
                };
                let options = CopyOptions { dry_run: self.dry_run, ..CopyOptions::default() };
                copy(&from, &to, options, &progress).await.map_err(CliError::message)
            },
            now,
        )?;
        let Copied { objects, bytes, known, damaged } = &copied;
        let value = json!({"objects": objects, "bytes": bytes, "known": known, "damaged": damaged});
        let verb = if self.dry_run { "would copy" } else { "copied" };
        let mut lines = vec![format!("{verb} {objects} objects ({}); {known} were there", human(*bytes))];
        lines.extend(damaged.iter().map(|damaged| format!("damaged: {damaged}")));
        print_result(self.json, &value, lines)?;
        Ok(exit_code(damaged.is_empty()))
    }
}

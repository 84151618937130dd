//! `drystone backup`: a copy of a store that can be restored, taken beside running servers.

pub(crate) mod folder;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use folder::{BackupFolder, Manifest};
use serde_json::json;
use server::{DataDir, ServeConfig};
use store::Objects;
use store::upkeep::{BackedUp, BackupProgress, BackupSource, BackupTarget, Prune, backup, expect_unused};

use super::store_args::{StoreArgs, human, leftover_lines, with_spinner};
use crate::clock::now_s;
use crate::output::{CliError, exit_code, fail, print_result};

/// Copy a store to a directory, beside running servers, so that it can be restored
///
/// First a snapshot of the catalog, then every object that the backup does not have yet, each checked where it arrives. Run it again to bring the
/// backup up to date, or to go on after it was killed; the backup before stays good until the new one is whole. `signing.key` is copied, for its
/// owner alone; `admin.token` is not. Parts of uploads that have not arrived whole are not copied.
///
/// Refuses a catalog that does not belong to the objects, as every command does: its snapshot would replace a good one. Ends with 1 if the
/// store itself has lost or damaged objects that are needed: they are named, and the rest is backed up; nothing is pruned then.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone backup /mnt/backup --data /srv/drystone\n  \
                        drystone backup /mnt/backup --objects s3://bucket/hub --catalog postgres://drystone@db/drystone --objects-dest s3://backup/hub\n  \
                        drystone restore /mnt/backup --data /srv/restored")]
pub(crate) struct Backup {
    /// The directory of the backup, created if missing
    #[arg(value_name = "DEST")]
    dest: PathBuf,

    #[command(flatten)]
    place: StoreArgs,

    /// Put the objects here instead of into DEST, such as `s3://bucket/prefix`
    #[arg(long, value_name = "URL")]
    objects_dest: Option<String>,

    /// Delete objects from the backup that the store no longer has and the snapshot does not need [default: keep all]
    #[arg(long)]
    prune: bool,

    /// With --prune: delete also more than 20 % of the backup's objects
    #[arg(long, requires = "prune")]
    allow_large_deletion: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let config = self.place.config()?;
        let data_dir = DataDir::new(&config.data);
        let source = source(&config, &data_dir)?;
        let folder = BackupFolder::open(&self.dest, &config)?;
        let objects_url = self.objects_url(&folder)?;
        let objects = folder.objects(&objects_url)?;
        if objects.overlaps(&source.objects) {
            let message =
                format!("{}: the objects of the backup would be those of the store", self.dest.display());
            return fail(message);
        }
        if folder.catalog().exists() {
            expect_unused(&folder.catalog())?;
        }
        let target = BackupTarget {
            objects,
            catalog: folder.catalog(),
            interrupted_s: folder.begin(now_s())?,
            prune: match (self.prune, self.allow_large_deletion) {
                (false, _) => Prune::Nothing,
                (true, false) => Prune::UnlessLarge,
                (true, true) => Prune::Everything,
            },
        };
        let progress = BackupProgress::default();
        let done = with_spinner(async { Ok(backup(&source, &target, now_s, &progress).await?) }, || {
            progress_line(&progress)
        })?;
        folder.copy_key(
            &config.signing_key_file.clone().unwrap_or_else(|| config.data.join(folder::KEY_FILE)),
        )?;
        let engine = if source.catalog.starts_with("sqlite:") { "sqlite" } else { "postgresql" };
        let manifest = Manifest::of(&done, engine, objects_url, now_s());
        folder.finish(&manifest)?;
        self.print(&done)
    }

    /// Target of the objects of this backup: always the same.
    fn objects_url(&self, folder: &BackupFolder) -> Result<Option<String>, CliError> {
        match (folder.manifest()?, &self.objects_dest) {
            (Some(before), Some(url)) if before.objects.as_ref() != Some(url) => {
                let there = before.objects.as_deref().unwrap_or("the directory itself");
                fail(format!(
                    "{}: the objects of this backup are in {there}; name that, or another DEST",
                    self.dest.display()
                ))
            }
            (Some(before), None) => Ok(before.objects),
            (_, url) => Ok(url.clone()),
        }
    }

    fn print(&self, done: &BackedUp) -> Result<ExitCode, CliError> {
        let BackedUp {
            snapshot_s,
            objects,
            bytes,
            known,
            pruned,
            needed,
            damaged,
            lost,
            prune_refused,
            leftovers,
            ..
        } = done;
        let value = json!({
            "snapshot_s": snapshot_s, "objects": objects, "bytes": bytes, "known": known, "pruned": pruned,
            "needed": needed, "damaged": damaged, "lost": lost, "prune_refused": prune_refused, "leftovers": leftovers,
        });
        let mut lines: Vec<_> = leftover_lines(leftovers).collect();
        lines.push(format!("copied {objects} objects ({}); {known} were there", human(*bytes)));
        lines.extend((*pruned > 0).then(|| format!("deleted {pruned} objects that are no longer needed")));
        lines.extend(damaged.iter().map(|name| format!("damaged or missing in the store: {name}")));
        let lost_line = |name| format!("missing in the store, and in the backup from before: {name}");
        lines.extend(lost.iter().map(lost_line));
        lines.extend(prune_refused.iter().map(|refusal| format!("not pruned: {refusal}")));
        lines.push(format!("backup of {needed} objects and the catalog: {}", self.dest.display()));
        print_result(self.json, &value, lines)?;
        Ok(exit_code(damaged.is_empty() && lost.is_empty() && prune_refused.is_none()))
    }
}

/// The existing store of these settings; nothing is created.
fn source(config: &ServeConfig, data_dir: &DataDir) -> Result<BackupSource, CliError> {
    let data = config.data.display();
    let catalog = match &config.catalog {
        Some(url) => url.expose().clone(),
        None if data_dir.catalog_file().exists() => folder::sqlite_url(&data_dir.catalog_file())?,
        None => {
            let message =
                format!("{data}: no catalog of a server; name another directory with --data, or --catalog");
            return fail(message);
        }
    };
    let objects = config.data.join("objects");
    let objects = match &config.objects {
        Some(url) => server::open_objects(url.expose())?,
        None if objects.is_dir() => Objects::local(&objects)?,
        None => {
            let message =
                format!("{data}: no objects of a server; name another directory with --data, or --objects");
            return fail(message);
        }
    };
    Ok(BackupSource { objects, catalog, names: data_dir.names(config) })
}

/// Progress of a backup or a restoration.
pub(super) fn progress_line(progress: &BackupProgress) -> String {
    let (objects, bytes) = progress.copy.now();
    let rows = match progress.snapshot.rows() {
        0 => String::new(),
        rows => format!(", {rows} rows"),
    };
    format!("{}: {objects} objects, {} copied{rows}", progress.step(), human(bytes))
}

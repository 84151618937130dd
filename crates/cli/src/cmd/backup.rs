//! `drystone backup`: a copy of a store that can be restored, taken beside running servers.

pub(crate) mod folder;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use folder::{BackupFolder, Manifest};
use serde_json::json;
use server::{House, ServeConfig};
use store::Objects;
use store::upkeep::{BackedUp, BackupProgress, BackupSource, BackupTarget, Prune, backup, expect_unused};

use super::store_args::{StoreArgs, human, now_s, with_spinner};
use crate::output::CliError;

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
    /// The directory of the backup, made if need be
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
        let house = House::new(&config.data);
        let source = source(&config, &house)?;
        let folder = BackupFolder::open(&self.dest, &config)?;
        let objects_url = self.objects_url(&folder)?;
        let objects = folder.objects(&objects_url)?;
        if objects.overlaps(&source.objects) {
            let message =
                format!("{}: the objects of the backup would be those of the store", self.dest.display());
            return Err(CliError::Message(message));
        }
        if folder.catalog().exists() {
            expect_unused(&folder.catalog()).map_err(CliError::message)?;
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
        let done = with_spinner(
            async { backup(&source, &target, now_s, &progress).await.map_err(CliError::message) },
            || shown(&progress),
        )?;
        folder.copy_key(
            &config.signing_key_file.clone().unwrap_or_else(|| config.data.join(folder::KEY_FILE)),
        )?;
        let engine = if source.catalog.starts_with("sqlite:") { "sqlite" } else { "postgresql" };
        let manifest = Manifest::of(&done, engine, objects_url, now_s());
        folder.finish(&manifest)?;
        self.show(&done)
    }

    /// Target of the objects of this backup: always the same.
    fn objects_url(&self, folder: &BackupFolder) -> Result<Option<String>, CliError> {
        match (folder.manifest()?, &self.objects_dest) {
            (Some(before), Some(url)) if before.objects.as_ref() != Some(url) => {
                let there = before.objects.as_deref().unwrap_or("the directory itself");
                let message = format!(
                    "{}: the objects of this backup are in {there}; name that, or another DEST",
                    self.dest.display()
                );
                Err(CliError::Message(message))
            }
            (Some(before), None) => Ok(before.objects),
            (_, url) => Ok(url.clone()),
        }
    }

    fn show(&self, done: &BackedUp) -> Result<ExitCode, CliError> {
        let BackedUp {
            snapshot_s, objects, bytes, known, pruned, needed, damaged, lost, prune_refused, ..
        } = done;
        let leftovers = &done.leftovers;
        let mut out = io::stdout().lock();
        if self.json {
            let value = json!({
                "snapshot_s": snapshot_s, "objects": objects, "bytes": bytes, "known": known, "pruned": pruned,
                "needed": needed, "damaged": damaged, "lost": lost, "prune_refused": prune_refused, "leftovers": leftovers,
            });
            writeln!(out, "{value}")?;
        } else {
            show_leftovers(&mut out, leftovers)?;
            writeln!(out, "copied {objects} objects ({}); {known} were there", human(*bytes))?;
            if *pruned > 0 {
                writeln!(out, "deleted {pruned} objects that are no longer needed")?;
            }
            damaged
                .iter()
                .try_for_each(|damaged| writeln!(out, "damaged or missing in the store: {damaged}"))?;
            lost.iter().try_for_each(|lost| {
                writeln!(out, "missing in the store, and in the backup from before: {lost}")
            })?;
            if let Some(refusal) = prune_refused {
                writeln!(out, "not pruned: {refusal}")?;
            }
            writeln!(out, "backup of {needed} objects and the catalog: {}", self.dest.display())?;
        }
        let is_whole = damaged.is_empty() && lost.is_empty() && prune_refused.is_none();
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// The store these settings name, which must be there: nothing is made.
fn source(config: &ServeConfig, house: &House) -> Result<BackupSource, CliError> {
    let data = config.data.display();
    let catalog = match &config.catalog {
        Some(url) => url.expose().clone(),
        None if house.catalog_file().exists() => folder::sqlite_url(&house.catalog_file())?,
        None => {
            let message =
                format!("{data}: no catalog of a server; name another directory with --data, or --catalog");
            return Err(CliError::Message(message));
        }
    };
    let objects = config.data.join("objects");
    let objects = match &config.objects {
        Some(url) => server::house::open_objects(url.expose()).map_err(CliError::message)?,
        None if objects.is_dir() => Objects::local(&objects).map_err(CliError::message)?,
        None => {
            let message =
                format!("{data}: no objects of a server; name another directory with --data, or --objects");
            return Err(CliError::Message(message));
        }
    };
    Ok(BackupSource { objects, catalog, names: house.names(config) })
}

pub(super) fn show_leftovers(out: &mut impl io::Write, leftovers: &[String]) -> io::Result<()> {
    leftovers.iter().try_for_each(|left| writeln!(out, "removed {left}, left by a process that was killed"))
}

/// Progress of a backup or a restoration.
pub(super) fn shown(progress: &BackupProgress) -> String {
    let (objects, bytes) = progress.copy.now();
    let rows = match progress.snapshot.rows() {
        0 => String::new(),
        rows => format!(", {rows} rows"),
    };
    format!("{}: {objects} objects, {} copied{rows}", progress.step(), human(bytes))
}

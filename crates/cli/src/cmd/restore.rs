//! `drystone restore`: a backup becomes a store again.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::{House, ServeConfig};
use store::Objects;
use store::upkeep::{BackupProgress, CatalogTarget, RestoreTarget, Restored, restore};

use super::backup::folder::{self, BackupFolder, Manifest};
use super::backup::{show_leftovers, shown};
use super::store_args::{StoreArgs, human, now_s, with_spinner};
use crate::output::CliError;

/// Restore a backup to an empty data directory, or to an empty bucket and database
///
/// Objects are checked where they arrive; the catalog comes last. Run it again to go on after it was killed. Tokens and passwords are those of the
/// time of the backup; `admin.token` is in no backup: where it is lost, `drystone token create --scope admin` makes another.
///
/// Ends with 1 if the backup does not have everything that the catalog needs: what is missing is named, and the rest is restored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone restore /mnt/backup --data /srv/drystone\n  \
                        drystone restore /mnt/backup --data /srv/drystone --objects s3://bucket/hub --catalog postgres://drystone@db/drystone")]
pub(crate) struct Restore {
    /// The directory of the backup
    #[arg(value_name = "SRC")]
    source: PathBuf,

    #[command(flatten)]
    place: StoreArgs,

    /// Restore the catalog also if it is not as the backup was written, because a server or command has written to it
    #[arg(long)]
    accept_changed_catalog: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let config = self.place.config()?;
        let (backup, manifest) = BackupFolder::open_whole(&self.source)?;
        let partial = config.data.join(PARTIAL);
        let is_resumed = partial.exists();
        if !is_resumed {
            expect_empty(&config.data)?;
        }
        let catalog = catalog_target(&config)?;
        if let CatalogTarget::File(file) = &catalog
            && file.exists()
        {
            if !is_resumed {
                let message = format!("{} is there already: name a catalog that is not", file.display());
                return Err(CliError::Message(message));
            }
            // The catalog comes last: it was whole before the run was cut.
            folder::end(&partial)?;
            return self.show(&config, &manifest, &Restored::default());
        }
        let from = backup.objects_to_read(&manifest.objects)?;
        let progress = BackupProgress::default();
        let restored = with_spinner(
            async {
                if let (false, CatalogTarget::Postgres { url, .. }) = (is_resumed, &catalog)
                    && store::Catalog::exists(url).await.map_err(CliError::message)?
                {
                    return Err(CliError::Message(
                        "the database is not empty: restore to an empty one".to_owned(),
                    ));
                }
                let failed = |error| CliError::Io(config.data.display().to_string(), error);
                folder::make_private(&config.data).map_err(failed)?;
                let objects = match &config.objects {
                    Some(url) => server::house::open_objects(url.expose()).map_err(CliError::message)?,
                    None => Objects::local(&config.data.join("objects")).map_err(CliError::message)?,
                };
                if !is_resumed && !objects.is_empty().await.map_err(CliError::message)? {
                    return Err(CliError::Message(
                        "the object store is not empty: restore to an empty one".to_owned(),
                    ));
                }
                let interrupted_s = folder::begin(&partial, now_s())?;
                folder::copy_key(&backup.key(), &config.data.join(folder::KEY_FILE))?;
                let catalog_sha256 = (!self.accept_changed_catalog).then(|| manifest.catalog_sha256.clone());
                let target = RestoreTarget { objects, catalog, catalog_sha256, interrupted_s };
                restore(&from, &backup.catalog(), &target, now_s, &progress).await.map_err(CliError::message)
            },
            || shown(&progress),
        )?;
        folder::end(&partial)?;
        self.show(&config, &manifest, &restored)
    }

    fn show(
        &self,
        config: &ServeConfig,
        manifest: &Manifest,
        restored: &Restored,
    ) -> Result<ExitCode, CliError> {
        let Restored { objects, bytes, known, needed, damaged, leftovers } = restored;
        let mut out = io::stdout().lock();
        if self.json {
            let value = json!({
                "snapshot_s": manifest.snapshot_s, "objects": objects, "bytes": bytes, "known": known,
                "needed": needed, "damaged": damaged, "leftovers": leftovers,
            });
            writeln!(out, "{value}")?;
        } else {
            show_leftovers(&mut out, leftovers)?;
            match objects + known {
                0 => writeln!(out, "everything was restored before")?,
                all => writeln!(out, "restored {all} objects ({}) and the catalog", human(*bytes))?,
            }
            damaged.iter().try_for_each(|damaged| writeln!(out, "not in the backup: {damaged}"))?;
            writeln!(out, "start it with: drystone serve --data {}", config.data.display())?;
        }
        Ok(if damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn catalog_target(config: &ServeConfig) -> Result<CatalogTarget, CliError> {
    let file = House::new(&config.data).catalog_file();
    let Some(url) = &config.catalog else { return Ok(CatalogTarget::File(file)) };
    let url = url.expose();
    match url.split(':').next() {
        Some("sqlite") => {
            Ok(CatalogTarget::File(store::upkeep::sqlite_file(url).map_err(CliError::message)?))
        }
        Some("postgres" | "postgresql") => {
            Ok(CatalogTarget::Postgres { url: url.clone(), draft: file.with_extension("restoring") })
        }
        _ => Err(CliError::Message("a catalog should be sqlite:… or postgres:…".to_owned())),
    }
}

/// Refuses a directory with files in it: what is there is not mixed with a backup. Empty directories, the lock file of the objects
/// and the draft of our note are what a run leaves that was killed before it wrote anything.
fn expect_empty(folder: &Path) -> Result<(), CliError> {
    for entry in walkdir::WalkDir::new(folder) {
        match entry {
            Ok(entry) if entry.file_type().is_dir() || entry.file_name() == ".lock" => {}
            Ok(entry) if entry.depth() == 1 && entry.file_name() == PARTIAL_DRAFT => {}
            Ok(_) => {
                let message = format!("{} is not empty: restore to an empty directory", folder.display());
                return Err(CliError::Message(message));
            }
            Err(error) if error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) => {}
            Err(error) => return Err(CliError::message(error)),
        }
    }
    Ok(())
}

const PARTIAL: &str = "restore.partial";
const PARTIAL_DRAFT: &str = "restore.partial.new";

//! `drystone restore`: turns a backup into a store.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::{DataDir, ServeConfig};
use store::Objects;
use store::upkeep::{BackupProgress, CatalogTarget, RestoreTarget, Restored, restore};

use super::backup::folder::{self, BackupFolder, Manifest};
use super::backup::progress_line;
use super::store_args::{StoreArgs, human, leftover_lines, with_spinner};
use crate::clock::now_s;
use crate::output::{CliError, exit_code, fail, print_result};

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
                return fail(format!("{} is there already: name a catalog that is not", file.display()));
            }
            // The catalog comes last: it was whole before the run was cut.
            folder::end(&partial)?;
            return self.print(&config, &manifest, &Restored::default());
        }
        let from = backup.objects_to_read(&manifest.objects)?;
        let progress = BackupProgress::default();
        let restored = with_spinner(
            async {
                if let (false, CatalogTarget::Postgres { url, .. }) = (is_resumed, &catalog)
                    && store::Catalog::exists(url).await?
                {
                    return fail("the database is not empty: restore to an empty one");
                }
                let failed = |error| CliError::io(&config.data, error);
                folder::make_private(&config.data).map_err(failed)?;
                let objects = match &config.objects {
                    Some(url) => server::open_objects(url.expose())?,
                    None => Objects::local(&config.data.join("objects"))?,
                };
                if !is_resumed && !objects.is_empty().await? {
                    return fail("the object store is not empty: restore to an empty one");
                }
                let interrupted_s = folder::begin(&partial, now_s())?;
                folder::copy_key(&backup.key(), &config.data.join(folder::KEY_FILE))?;
                let catalog_sha256 = (!self.accept_changed_catalog).then(|| manifest.catalog_sha256.clone());
                let target = RestoreTarget { objects, catalog, catalog_sha256, interrupted_s };
                restore(&from, &backup.catalog(), &target, now_s, &progress).await.map_err(CliError::message)
            },
            || progress_line(&progress),
        )?;
        folder::end(&partial)?;
        self.print(&config, &manifest, &restored)
    }

    fn print(
        &self,
        config: &ServeConfig,
        manifest: &Manifest,
        restored: &Restored,
    ) -> Result<ExitCode, CliError> {
        let Restored { objects, bytes, known, needed, damaged, leftovers } = restored;
        let value = json!({
            "snapshot_s": manifest.snapshot_s, "objects": objects, "bytes": bytes, "known": known,
            "needed": needed, "damaged": damaged, "leftovers": leftovers,
        });
        let mut lines: Vec<_> = leftover_lines(leftovers).collect();
        lines.push(match objects + known {
            0 => "everything was restored before".to_owned(),
            all => format!("restored {all} objects ({}) and the catalog", human(*bytes)),
        });
        lines.extend(damaged.iter().map(|damaged| format!("not in the backup: {damaged}")));
        lines.push(format!("start it with: drystone serve --data {}", config.data.display()));
        print_result(self.json, &value, lines)?;
        Ok(exit_code(damaged.is_empty()))
    }
}

fn catalog_target(config: &ServeConfig) -> Result<CatalogTarget, CliError> {
    let file = DataDir::new(&config.data).catalog_file();
    let Some(url) = &config.catalog else { return Ok(CatalogTarget::File(file)) };
    let url = url.expose();
    match url.split(':').next() {
        Some("sqlite") => Ok(CatalogTarget::File(store::upkeep::sqlite_file(url)?)),
        Some("postgres" | "postgresql") => {
            Ok(CatalogTarget::Postgres { url: url.clone(), draft: file.with_extension("restoring") })
        }
        _ => fail("a catalog should be sqlite:… or postgres:…"),
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
                return fail(format!("{} is not empty: restore to an empty directory", folder.display()));
            }
            Err(error) if error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) => {}
            Err(error) => return fail(error),
        }
    }
    Ok(())
}

const PARTIAL: &str = "restore.partial";
const PARTIAL_DRAFT: &str = "restore.partial.new";

//! Restore: a backup becomes a store again. Objects first, each checked where it arrives; the catalog last, so that a
//! restoration that was cut does not look like a store, and goes on when it is run again.

use std::path::{Path, PathBuf};

use crate::db::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::upkeep::backup::catalog_copy::snapshot;
use crate::upkeep::backup::check::check;
use crate::upkeep::backup::{
    BackupProgress, copy_snapshot, publish, remove_database, remove_leftovers, sqlite_url, with_suffix,
};
use crate::upkeep::migrate::{MigrateProgress, migrate};
use crate::upkeep::mirror_copy::{CopyOptions, copy};

/// Where a store is restored to.
#[derive(Debug)]
pub struct RestoreTarget {
    /// The objects.
    pub objects: Objects,
    /// The catalog.
    pub catalog: CatalogTarget,
    /// SHA-256 of the snapshot, to check it; `None` to take it as it is.
    pub catalog_sha256: Option<String>,
    /// A run before was killed after this Unix second: what it wrote since may not be checked.
    pub interrupted_s: Option<u64>,
}

/// Where the catalog is restored to.
#[derive(Debug, Clone)]
pub enum CatalogTarget {
    /// This file, which must not be there.
    File(PathBuf),
    /// This empty PostgreSQL database; a file for the time of the restoration is made here.
    Postgres {
        /// `postgres://…`
        url: String,
        /// A path that is not used.
        draft: PathBuf,
    },
}

/// What was restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Objects that were copied.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that a run before had copied.
    pub known: u64,
    /// Objects that the catalog needs.
    pub needed: u64,
    /// Those of them that the backup does not have whole.
    pub damaged: Vec<String>,
    /// What a killed run before had left, and was removed.
    pub leftovers: Vec<String>,
}

/// Restores the objects and the catalog of a backup.
pub async fn restore(
    objects: &Objects,
    catalog: &Path,
    target: &RestoreTarget,
    now_s: impl Fn() -> u64,
    progress: &BackupProgress,
) -> Result<Restored> {
    if let CatalogTarget::File(file) = &target.catalog
        && file.exists()
    {
        let message = format!("{} is there already: restore to an empty directory", file.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    progress.begin("catalog");
    let draft = match &target.catalog {
        CatalogTarget::File(file) => with_suffix(file, ".part"),
        CatalogTarget::Postgres { draft, .. } => draft.clone(),
    };
    let leftovers = remove_leftovers(&target.objects, &draft).await?;
    // First, so that a damaged snapshot is known before hours of copying. It is no store before it has its name.
    match &target.catalog_sha256 {
        Some(sha256) => copy_snapshot(catalog, &draft, sha256)?,
        None => snapshot(&sqlite_url(catalog)?, &draft, &progress.snapshot).await?,
    }
    progress.begin("objects");
    let options = CopyOptions { dry_run: false, recheck_since_s: target.interrupted_s };
    let copied = copy(objects, &target.objects, options, &progress.copy).await?;
    progress.begin("check of what was restored");
    let opened = Catalog::open_file(&draft).await?;
    let checked = check(&opened, &target.objects, None, now_s()).await;
    opened.close().await;
    let checked = checked?;
    progress.begin("catalog");
    match &target.catalog {
        CatalogTarget::File(file) => publish(&draft, file)?,
        CatalogTarget::Postgres { url, .. } => {
            let moved = migrate(&sqlite_url(&draft)?, url, false, &MigrateProgress::default()).await;
            remove_database(&draft)?;
            moved?;
        }
    }
    Ok(Restored {
        objects: copied.objects,
        bytes: copied.bytes,
        known: copied.known,
        needed: checked.needed,
        damaged: checked.missing,
        leftovers,
    })
}

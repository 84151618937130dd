//! Upkeep of a store: garbage collection, verification and repair, rebuilding a lost catalog, compaction, copies and
//! backups, statistics. Everything here runs beside servers unless it says otherwise.

pub(crate) mod backup;
pub(crate) mod compact;
pub(crate) mod examine;
pub(crate) mod gc;
pub mod identity;
pub(crate) mod inventory;
pub(crate) mod lease;
pub(crate) mod migrate;
pub(crate) mod mirror_copy;
pub(crate) mod rebuild;
pub(crate) mod restore;
pub(crate) mod verify;

pub use backup::catalog_copy::{SnapshotProgress, snapshot};
pub use backup::prune::Prune;
pub use backup::{
    BackedUp, BackupProgress, BackupSource, BackupTarget, backup, copy_snapshot, expect_unused,
    remove_database, sqlite_file, sqlite_url,
};
pub use compact::{CompactOptions, CompactProgress, Compacted};
pub use gc::estimate::Estimate;
pub use gc::rows::StoredKind;
pub use gc::{GRACE_S, GcOptions, GcProgress, GcReport};
pub use inventory::Counts;
pub use migrate::{MigrateProgress, Migrated, migrate};
pub use mirror_copy::{Copied, CopyOptions, CopyProgress, copy};
pub use rebuild::{LOST, RebuildProgress, Rebuilt};
pub use restore::{CatalogTarget, RestoreTarget, Restored, restore};
pub use verify::{Damage, Repair, RepairOutcome, Verified, VerifyOptions, VerifyProgress};

use std::sync::Arc;

use crate::budget::Workers;
use crate::clock::Clock;
use crate::content::Content;
use crate::db::Catalog;
use crate::hub::Hub;
use crate::objects::Objects;

/// Maintenance of a store.
#[derive(Debug)]
pub struct Upkeep {
    content: Arc<Content>,
    hub: Arc<Hub>,
    objects: Objects,
    db: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    workers: Workers,
    audit_s: u64,
}

impl Upkeep {
    pub(crate) fn new(
        content: &Arc<Content>,
        hub: &Arc<Hub>,
        objects: &Objects,
        db: &Arc<Catalog>,
        clock: Arc<dyn Clock>,
        workers: Workers,
        audit_s: u64,
    ) -> Self {
        let (content, hub, objects) = (content.clone(), hub.clone(), objects.clone());
        Self { content, hub, objects, db: db.clone(), clock, workers, audit_s }
    }
}

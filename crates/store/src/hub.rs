//! The Hub: repositories with their git objects and refs, users and organisations, tokens, quotas.
//!
//! A commit's new objects are one object of the store, its *bundle*: object first, rows second, the ref last. The ref is
//! compared and set in one statement, so of two commits on one branch the second sees the first or starts again. After each
//! change a `snapshot` of what no bundle holds is written, from which a lost catalog is rebuilt.

pub(crate) mod browse;
pub(crate) mod bundle;
pub(crate) mod commit;
pub(crate) mod commit_object;
pub(crate) mod diff;
pub(crate) mod edit_tree;
pub(crate) mod git_objects;
pub(crate) mod history;
pub(crate) mod listing;
pub(crate) mod locks;
pub(crate) mod merge;
pub(crate) mod people;
pub mod pointer;
pub(crate) mod pulls;
pub(crate) mod quotas;
pub(crate) mod reflog;
pub mod refs;
pub(crate) mod repos;
pub(crate) mod rows;
pub(crate) mod sizes;
pub(crate) mod snapshot;
pub(crate) mod spelling;
pub(crate) mod tokens;
pub(crate) mod trash;
pub(crate) mod tree;
pub(crate) mod undelete;

pub use browse::{BrowseQuery, MaintenanceSummary, Order, SizedRepo};
pub use bundle::Bundle;
pub use commit::{Committed, Operation, Request};
pub use commit_object::{Commit, Signature};
pub use diff::Change;
pub use git_objects::BLOB_BYTES_MAX;
pub use history::Past;
pub use listing::{Item, Listing, Page};
pub use locks::{LockQuery, LockRow};
pub use people::{MemberRow, NamespaceRow, NamespaceState};
pub use pulls::{PullQuery, PullRow, PullState};
pub use reflog::ReflogEntry;
pub use repos::large_endings;
pub use rows::{GitRow, RefChange, RefRow, RepoQuery, RepoRow};
pub use sizes::RepoSize;
pub use snapshot::collect::{PeopleSnapshot, RepoSnapshot};
pub use tokens::{Bound, Rights, TokenRow, Tokens};
pub use tree::{Entry, Mode, Tree};

use std::sync::Arc;

use git_objects::Trees;
use listing::LargeItems;
use refs::Heads;
use repos::Visible;

use crate::budget::Workers;
use crate::clock::Clock;
use crate::content::Content;
use crate::db::Catalog;
use crate::objects::Objects;

/// Repositories, users and quotas of a store.
#[derive(Debug)]
pub struct Hub {
    content: Arc<Content>,
    objects: Objects,
    db: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    workers: Workers,
    trees: Trees,
    heads: Heads,
    large_items: LargeItems,
    visible: Visible,
    /// Held while repositories are measured.
    measuring: tokio::sync::Mutex<()>,
    trash_s: u64,
}

impl Hub {
    pub(crate) fn new(
        content: &Arc<Content>,
        objects: &Objects,
        db: &Arc<Catalog>,
        clock: &Arc<dyn Clock>,
        workers: Workers,
        trash_s: u64,
    ) -> Self {
        Self {
            content: content.clone(),
            objects: objects.clone(),
            db: db.clone(),
            clock: clock.clone(),
            workers,
            trees: git_objects::trees(),
            heads: Heads::new(db),
            large_items: listing::large_items(),
            visible: repos::visible(),
            measuring: tokio::sync::Mutex::default(),
            trash_s,
        }
    }

    /// Access tokens and passwords.
    pub fn tokens(&self) -> Tokens {
        Tokens::new(&self.db)
    }
}

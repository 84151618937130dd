//! Prune: objects of a copy that neither its source nor its snapshot has any more.

use futures::stream::TryStreamExt as _;

use crate::content::{shards, xorbs};
use crate::db::Catalog;
use crate::error::Result;
use crate::objects::key::ObjectKey;
use crate::objects::{Folder, Objects};
use crate::upkeep::backup::check::missing;
use crate::upkeep::backup::{BackedUp, BackupTarget, PAGE};
use crate::upkeep::gc::limits::is_large_deletion;
use crate::upkeep::gc::unused_git;

/// Which objects to delete from a copy that are neither in the source any more nor needed by the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// None.
    Nothing,
    /// All, unless they are a large part of the copy: then none.
    UnlessLarge,
    /// All.
    Everything,
}

/// Deletes objects from the copy and counts them, or says why none was deleted.
pub(super) async fn prune(
    catalog: &Catalog,
    source: &Objects,
    target: &BackupTarget,
    done: &BackedUp,
) -> Result<std::result::Result<u64, String>> {
    let lost = done.damaged.len() + done.lost.len();
    if lost > 0 {
        return Ok(Err(format!("the store has lost {lost} objects that it needs: nothing was pruned")));
    }
    if target.prune == Prune::UnlessLarge {
        let pruned = walk(catalog, source, &target.objects, false).await?;
        if is_large_deletion(pruned.deleted, pruned.examined) {
            return Ok(Err(format!(
                "{} of {} objects of the backup are no longer in the store: nothing was pruned. If they can go, run \
                 \"drystone backup --prune --allow-large-deletion\"",
                pruned.deleted, pruned.examined
            )));
        }
    }
    Ok(Ok(walk(catalog, source, &target.objects, true).await?.deleted))
}

#[derive(Default)]
struct Pruned {
    examined: u64,
    deleted: u64,
}

/// Counts what can go, and deletes it if `delete` says so.
async fn walk(catalog: &Catalog, source: &Objects, copy: &Objects, delete: bool) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Repos, Folder::People] {
        let mut pages = copy.list(folder).try_chunks(PAGE as usize);
        while let Some(page) = pages.try_next().await.map_err(|cut| cut.1)? {
            let keys: Vec<_> = page.iter().filter_map(|listed| Some((listed.key?, 0))).collect();
            pruned.examined += keys.len() as u64;
            let mut gone = Vec::new();
            for key in missing(source, keys).await? {
                if !is_needed(catalog, &key).await? {
                    gone.push(key);
                }
            }
            pruned.deleted += gone.len() as u64;
            if delete {
                copy.delete_all(gone).await?;
            }
        }
    }
    Ok(pruned)
}

async fn is_needed(catalog: &Catalog, key: &ObjectKey) -> Result<bool> {
    Ok(match key {
        ObjectKey::Xorb(xorb) => {
            let rows = xorbs::xorbs(catalog, &[xorb.hash]).await?;
            rows.iter().any(|row| row.key == *xorb && !row.is_swept())
        }
        ObjectKey::Shard(hash) => !shards::shards(catalog, &[*hash]).await?.is_empty(),
        ObjectKey::Bundle { repo, commit } => {
            !unused_git::used_bundles(catalog, *repo, &[*commit]).await?.is_empty()
        }
        // Records are replaced by later ones, which are in the source.
        _ => false,
    })
}

//! Large deletions: a sweep that would delete a large part of a store is a sign of a lost, old or foreign catalog.
//!
//! A run first counts what it would delete, all that earlier runs condemned or began to delete included, and refuses a share
//! of the objects above [`SHARE_MAX`]. Objects that no row knows count at whatever age, because after an old backup of the
//! catalog they become deletable little by little, as their grace ends.

use futures::stream::TryStreamExt as _;

use crate::error::Result;
use crate::objects::{Folder, ListedObject};
use crate::upkeep::Upkeep;
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::gc::turn::Turn;
use crate::upkeep::gc::{
    FOREVER_S, GcOptions, GcProgress, GcReport, PAGE_LISTED, PAGE_ROWS, STABLE_S, Times, condemned,
};

/// What a run would delete, and of how many objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// All xorbs, shards and bundles.
    objects: u64,
    /// Which of them are xorbs and shards.
    content: u64,
    /// Xorbs and shards that no row knows, also those that are still in their grace.
    unknown: u64,
    /// Which of them would be deleted.
    unknown_deleted: u64,
    /// Bundles that would be deleted.
    bundles: u64,
    /// Rows whose objects would be deleted.
    rows: u64,
    /// Objects that this run deleted already.
    deleted: u64,
}

impl Deletion {
    fn total(&self) -> u64 {
        self.unknown_deleted + self.bundles + self.rows + self.deleted
    }

    /// Why this is too much for one run; `None` if it is not.
    pub(super) fn refusal(&self) -> Option<String> {
        let (total, objects, unknown) = (self.total(), self.objects, self.unknown);
        if is_large_deletion(total, objects) {
            return Some(format!(
                "garbage collection would delete {total} of {objects} objects ({unknown} unknown to the catalog), more than \
                 {SHARE_MAX} %: nothing was deleted. Check that the catalog is the right one and not an old backup \
                 (\"drystone config check\", \"drystone gc --dry-run\"); then run \"drystone gc --allow-large-deletion\""
            ));
        }
        let is_many = unknown > UNKNOWN_MAX
            || unknown > FEW && unknown.saturating_mul(100) > self.content.saturating_mul(UNKNOWN_SHARE_MAX);
        is_many.then(|| {
            format!(
                "{unknown} of {} xorbs and shards are unknown to the catalog, and garbage collection would delete them when \
                 their grace is over: nothing was deleted. An old backup of the catalog, or that of another store, is the \
                 usual cause: restore the right one or run \"drystone rebuild\" with a new catalog. If they can go, run \
                 \"drystone gc --allow-large-deletion\"",
                self.content
            )
        })
    }
}

/// Whether the share of objects is too large to delete without an explicit option.
pub(crate) fn is_large_deletion(deleted: u64, objects: u64) -> bool {
    deleted > FEW && deleted.saturating_mul(100) > objects.saturating_mul(SHARE_MAX)
}

impl Upkeep {
    /// Why a sweep with these options would be refused; changes nothing.
    pub async fn sweep_refusal(&self, options: &GcOptions) -> Result<Option<String>> {
        if options.allow_large_deletion {
            return Ok(None);
        }
        if let Some(refusal) = self.clock_refusal(options).await? {
            return Ok(Some(refusal));
        }
        let times = self.gc_times(options)?;
        let progress = GcProgress::default();
        let mut turn = Turn::watching(self, options, &progress);
        Ok(self.count_deletion(options, times, &mut turn).await?.refusal())
    }

    /// Counts before anything is changed.
    pub(super) async fn count_deletion(
        &self,
        options: &GcOptions,
        times: Times,
        turn: &mut Turn<'_>,
    ) -> Result<Deletion> {
        let mut deletion = Deletion { rows: self.count_rows(times, turn).await?, ..Deletion::default() };
        let stable_s = if options.offline { FOREVER_S } else { times.now_s.saturating_sub(STABLE_S) };
        for folder in [Folder::Xorbs, Folder::Shards] {
            let mut pages = self.objects.list(folder).try_chunks(PAGE_LISTED);
            while let Some(page) = pages.try_next().await.map_err(|broken| broken.1)? {
                turn.pace(page.len()).await?;
                let ours: Vec<&ListedObject> = page.iter().filter(|listed| listed.key.is_some()).collect();
                deletion.content += ours.len() as u64;
                // Younger ones may be of uploads whose row is still to come.
                let stable = ours.iter().filter(|listed| listed.modified_s < stable_s);
                let unknown = self.unknown(stable.filter_map(|listed| listed.key)).await?;
                deletion.unknown += unknown.len() as u64;
                let deleted = ours.iter().filter(|listed| {
                    listed.modified_s < times.old_s && listed.key.is_some_and(|key| unknown.contains(&key))
                });
                deletion.unknown_deleted += deleted.count() as u64;
            }
        }
        let (bundles, unused) = self.count_bundles(times, turn).await?;
        (deletion.objects, deletion.bundles) = (deletion.content + bundles, unused);
        if times.old_s == FOREVER_S {
            // Without a grace what becomes unused goes in the same run.
            let estimate = self.estimate_gc(options, &GcProgress::default()).await?;
            deletion.rows = deletion.rows.max(estimate.xorbs);
        }
        Ok(deletion)
    }

    /// Counts again when it is known what this run found unused.
    pub(super) async fn count_again(
        &self,
        before: &Deletion,
        times: Times,
        swept: &GcReport,
        turn: &mut Turn<'_>,
    ) -> Result<Deletion> {
        let (_, bundles) = self.count_bundles(times, turn).await?;
        let rows = self.count_rows(times, turn).await?;
        Ok(Deletion { bundles, rows, deleted: swept.deleted, ..before.clone() })
    }

    /// Rows that are to be given up in this run, or were by one before.
    async fn count_rows(&self, times: Times, turn: &mut Turn<'_>) -> Result<u64> {
        let (mut rows, mut after) = (0, Vec::new());
        loop {
            let abandoned = condemned::abandoned(&self.db, times.parts_s, &after, PAGE_ROWS).await?;
            let Some(last) = abandoned.last() else { break };
            after = last.to_vec();
            rows += abandoned.len() as u64;
            turn.pace(abandoned.len()).await?;
        }
        for of in StoredKind::ALL {
            let mut after = Vec::new();
            loop {
                let ripe = condemned::ripe(&self.db, of, times.old_s, &after, PAGE_ROWS).await?;
                let Some(last) = ripe.last() else { break };
                after = last.to_vec();
                rows += ripe.len() as u64;
                turn.pace(ripe.len()).await?;
            }
            let mut after = Vec::new();
            loop {
                let deletable = condemned::deletable(&self.db, of, &after, PAGE_ROWS).await?;
                let Some(last) = deletable.last() else { break };
                after = last.hash.to_vec();
                rows += deletable.len() as u64;
                turn.pace(deletable.len()).await?;
            }
        }
        Ok(rows)
    }

    /// All bundles, and those that would be deleted.
    async fn count_bundles(&self, times: Times, turn: &mut Turn<'_>) -> Result<(u64, u64)> {
        let (mut bundles, mut unused) = (0, 0);
        let mut pages = self.objects.list(Folder::Commits).try_chunks(PAGE_LISTED);
        while let Some(page) = pages.try_next().await.map_err(|broken| broken.1)? {
            turn.pace(page.len()).await?;
            bundles += page.iter().filter(|listed| listed.key.is_some()).count() as u64;
            let old = page.into_iter().filter(|listed| listed.modified_s < times.old_s);
            unused += self.unused_bundles(&old.collect::<Vec<_>>()).await?.len() as u64;
        }
        Ok((bundles, unused))
    }
}

/// Percent of all objects that one run deletes at most.
const SHARE_MAX: u64 = 20;

/// Percent of xorbs and shards that may be unknown, and how many at most.
const UNKNOWN_SHARE_MAX: u64 = 5;

const UNKNOWN_MAX: u64 = 100;

/// So few are never too many: in a small store every deletion is a large share.
const FEW: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_share_is_refused_and_a_few_objects_are_not() {
        let refused = |objects, rows, unknown| {
            let deletion = Deletion { objects, content: objects, rows, unknown, ..Deletion::default() };
            deletion.refusal().is_some()
        };
        assert!(!refused(10, 10, 0), "few");
        assert!(refused(17, 17, 0));
        assert!(!refused(100, 20, 0) && refused(100, 21, 0));
        assert!(!refused(100, 0, 10), "few");
        assert!(refused(100, 0, 11));
        assert!(!refused(1_000_000, 0, 100) && refused(1_000_000, 0, 101));
        let all = Deletion {
            objects: 100,
            unknown_deleted: 6,
            bundles: 5,
            rows: 5,
            deleted: 5,
            ..Deletion::default()
        };
        assert!(all.refusal().is_some(), "every sort counts");
    }
}

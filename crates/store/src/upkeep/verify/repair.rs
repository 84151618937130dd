//! Repair: damaged objects come from a second store, or from the next client that has them.

use crate::error::Result;
use crate::objects::key::ObjectKey;
use crate::upkeep::examine::examine;
use crate::upkeep::examine::examine_bundle;
use crate::upkeep::inventory;
use crate::upkeep::verify::{Repair, RepairOutcome, Verify, marks, xorb_key};

impl Verify<'_> {
    pub(super) async fn repair_object(&self, key: ObjectKey) -> Result<RepairOutcome> {
        let Some(repair) = &self.options.repair else { return Ok(RepairOutcome::No) };
        let now_s = self.upkeep.clock.now_s();
        if let Repair::From(other) = repair
            && examine(other, key, 0).await?.is_ok()
            && examine_bundle(&self.upkeep.db, other, key).await?.is_ok()
        {
            let body = other.whole(&key).await?;
            self.upkeep.objects.put(&key, vec![body]).await?;
            if let Some(xorb) = xorb_key(&key) {
                marks::note_verified(&self.upkeep.db, &[xorb], now_s).await?;
            }
            return Ok(RepairOutcome::Restored);
        }
        Ok(RepairOutcome::No)
    }

    /// Marks the damaged xorbs, unless they are a large part of all: then these are likely to be the wrong objects.
    pub(super) async fn mark(&mut self) -> Result<()> {
        let unmarked = std::mem::take(&mut self.unmarked);
        if unmarked.len() > FEW && !self.options.allow_large_repair {
            let (damaged, all) = (unmarked.len() as u64, inventory::counts(&self.upkeep.db).await?.xorbs);
            if damaged.saturating_mul(100) > all.saturating_mul(SHARE_MAX) {
                self.verified.refused = Some(format!(
                    "{damaged} of {all} xorbs are damaged or missing, more than {SHARE_MAX} %: none was marked. Check that the \
                     objects are the right ones and their disk is mounted; if they are lost, pass --allow-large-repair"
                ));
                return Ok(());
            }
        }
        let now_s = self.upkeep.clock.now_s();
        for (xorb, damage) in unmarked {
            if marks::mark_damaged(&self.upkeep.db, &[xorb], now_s).await? > 0
                && let Some(damage) = self.verified.damages.get_mut(damage)
            {
                damage.repaired = RepairOutcome::Marked;
            }
        }
        Ok(())
    }
}

/// Percent of all xorbs that one run marks at most, and how many are never too many.
const SHARE_MAX: u64 = 20;

const FEW: usize = 10;

//! Clock of a sweep: one that is years ahead makes everything old, the trash included.
//!
//! The time of each sweep is recorded in the catalog. A sweep a long time after the last one is refused, like a large deletion:
//! the server was off for so long, or its clock is wrong, and only an operator knows.

use crate::error::Result;
use crate::upkeep::gc::{FOREVER_S, GcOptions};
use crate::upkeep::{Upkeep, lease};

impl Upkeep {
    /// Why a sweep now would be too long after the last one.
    pub(super) async fn clock_refusal(&self, options: &GcOptions) -> Result<Option<String>> {
        if options.allow_large_deletion {
            return Ok(None);
        }
        let since_s = self.last_sweep_s().await?.map(|last_s| self.clock.now_s().saturating_sub(last_s));
        Ok(since_s.filter(|since_s| *since_s > PAUSE_S_MAX).map(|since_s| {
            format!(
                "the last garbage collection was {} days ago by this clock: nothing was deleted. A clock that is ahead would \
                 empty the trash and end every grace; set it. If it is right, run \"drystone gc --allow-large-deletion\" once",
                since_s / DAY_S
            )
        }))
    }

    /// Records that a sweep is done. The time never goes back: after a start with a clock at its zero, the right time is no jump.
    pub(super) async fn record_sweep(&self) -> Result<()> {
        let now_s = self.last_sweep_s().await?.unwrap_or(0).max(self.clock.now_s());
        lease::keep_lease(&self.db, RECORD, HOLDER, 0, &now_s.to_string()).await.map(|_| ())
    }

    async fn last_sweep_s(&self) -> Result<Option<u64>> {
        let text = lease::take_lease(&self.db, RECORD, HOLDER, FOREVER_S, 0).await?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

const RECORD: &str = "last sweep";

const HOLDER: &str = "store";

const DAY_S: u64 = 86_400;

/// A server that is off for longer is rare, and a clock that is wrong by less than this is wrong by a day or two.
const PAUSE_S_MAX: u64 = 180 * DAY_S;

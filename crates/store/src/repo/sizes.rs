//! Sizes of repositories, measured when somebody wants to see them and they may have changed.

use crate::Store;
use crate::catalog::BrowseCatalog;
use crate::error::Result;

impl Store {
    /// Measures the repositories that changed since they were last measured; tells how many. While somebody else in this
    /// process does, there is nothing to do.
    pub async fn measure_repos(&self) -> Result<u64> {
        let Ok(_only) = self.measuring.try_lock() else { return Ok(0) };
        let mut measured = 0;
        loop {
            let now_s = self.clock.now_s();
            // Sweep takes files away and changes nothing else: old measures are taken again.
            let repos = self.browse().unmeasured(now_s.saturating_sub(OLD_S), AT_ONCE).await?;
            self.browse().measure(&repos, now_s).await?;
            measured += repos.len() as u64;
            // What changed in this very second is still unmeasured, and would be for ever in this loop.
            let is_new = repos.iter().any(|repo| repo.updated_s >= now_s);
            if (repos.len() as u64) < AT_ONCE || is_new {
                return Ok(measured);
            }
        }
    }

    /// Lists for people.
    pub fn browse(&self) -> &BrowseCatalog {
        self.catalog.browse()
    }
}

const AT_ONCE: u64 = 200;
const OLD_S: u64 = 24 * 3600;

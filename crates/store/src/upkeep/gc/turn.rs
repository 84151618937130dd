//! A sweep's turn: one at a time, no faster than allowed, taken up where it broke off.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::upkeep::gc::{FOREVER_S, GcOptions, GcProgress, PAGE_ROWS, Stage};
use crate::upkeep::{Upkeep, lease};

/// Holds the lease. That keeps sweeps from doing the same work twice; what keeps them from harm is that each step checks
/// again before it acts.
pub(crate) struct Turn<'a> {
    upkeep: &'a Upkeep,
    progress: &'a GcProgress,
    rate_per_s: Option<u64>,
    rows: u64,
    holder: String,
    begin: Instant,
    seen: u64,
    stage: Stage,
    /// The last key of the stage that is done.
    after: Vec<u8>,
    /// Where the turn before broke off.
    resumed: Option<(usize, Vec<u8>)>,
    renewed_s: u64,
}

impl<'a> Turn<'a> {
    pub(super) async fn begin(
        upkeep: &'a Upkeep,
        options: &GcOptions,
        progress: &'a GcProgress,
    ) -> Result<Self> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes)
            .map_err(|source| Error::caused(ErrorKind::Internal, "the system has no randomness", source))?;
        let holder = u128::from_ne_bytes(bytes).to_string();
        let now_s = upkeep.clock.now_s();
        // Offline there is nobody to wait for, whatever the lease of a killed process says.
        let until_s = now_s.saturating_add(LEASE_S);
        let free_s = if options.offline { FOREVER_S } else { now_s };
        let place = lease::take_lease(&upkeep.db, LEASE, &holder, free_s, until_s).await?;
        let busy = || {
            let message = "another sweep is under way: let it end, or wait ten minutes if it was killed";
            Error::new(ErrorKind::Conflict, message)
        };
        let place = place.ok_or_else(busy)?;
        let resumed = if options.offline { None } else { parse(&place) };
        Ok(Self { holder, resumed, renewed_s: now_s, ..Self::watching(upkeep, options, progress) })
    }

    /// One that only looks: it needs no lease.
    pub(super) fn watching(upkeep: &'a Upkeep, options: &GcOptions, progress: &'a GcProgress) -> Self {
        Self {
            upkeep,
            progress,
            rate_per_s: options.rate_per_s,
            rows: if options.offline { ALONE_ROWS } else { PAGE_ROWS },
            holder: String::new(),
            begin: Instant::now(),
            seen: 0,
            stage: Stage::Drafts,
            after: Vec::new(),
            resumed: None,
            renewed_s: 0,
        }
    }

    /// Begins a stage; returns whether it is still to be done.
    pub(super) async fn enter(&mut self, stage: Stage) -> Result<bool> {
        let number = Stage::ALL.iter().position(|known| *known == stage).unwrap_or(0);
        (self.stage, self.after) = (stage, Vec::new());
        match self.resumed.take() {
            // What frees space at once, and what others rest on, is done in any case.
            Some((at, after)) if number < at => {
                self.resumed = Some((at, after));
                return Ok(matches!(stage, Stage::Drafts | Stage::Leftovers | Stage::Relate));
            }
            Some((at, after)) if number == at => self.after = after,
            _ => {}
        }
        self.renew_lease().await?;
        Ok(true)
    }

    /// How many rows to change at once.
    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn after(&self) -> &[u8] {
        &self.after
    }

    /// Records the number of rows examined, up to this key.
    pub(super) async fn step(&mut self, seen: usize, after: &[u8]) -> Result<()> {
        self.after = after.to_vec();
        self.pace(seen).await
    }

    /// Records the number of rows examined; waits if that was too fast.
    pub(super) async fn pace(&mut self, seen: usize) -> Result<()> {
        self.seen += seen as u64;
        self.progress.seen.store(self.seen, Ordering::Relaxed);
        if let Some(rate) = self.rate_per_s.filter(|rate| *rate > 0) {
            let due = Duration::from_secs_f64(self.seen as f64 / rate as f64);
            // Never so long that the lease runs out meanwhile.
            let wait = due.saturating_sub(self.begin.elapsed()).min(Duration::from_secs(LEASE_S / 4));
            tokio::time::sleep(wait).await;
        }
        let now_s = self.upkeep.clock.now_s();
        if now_s.abs_diff(self.renewed_s) >= LEASE_S / 4 { self.renew_lease().await } else { Ok(()) }
    }

    /// Ends with nothing done.
    pub(super) async fn refuse(self, message: String) -> Error {
        let denied = Error::new(ErrorKind::Denied, message);
        self.end().await.err().unwrap_or(denied)
    }

    pub(super) async fn end(self) -> Result<()> {
        lease::keep_lease(&self.upkeep.db, LEASE, &self.holder, 0, "").await.map(|_| ())
    }

    async fn renew_lease(&mut self) -> Result<()> {
        if self.holder.is_empty() {
            return Ok(());
        }
        let now_s = self.upkeep.clock.now_s();
        let after = xet::hash::hex(&self.after);
        let place = format!("{} {after}", self.stage.name());
        let until_s = now_s.saturating_add(LEASE_S);
        if !lease::keep_lease(&self.upkeep.db, LEASE, &self.holder, until_s, &place).await? {
            return Err(Error::new(ErrorKind::Conflict, "another sweep took over from this one"));
        }
        self.renewed_s = now_s;
        Ok(())
    }
}

/// Reads a place. One that cannot be read is none: the sweep begins at the beginning.
fn parse(place: &str) -> Option<(usize, Vec<u8>)> {
    let (name, key) = place.split_once(' ')?;
    let stage = Stage::ALL.iter().position(|stage| stage.name() == name)?;
    let byte = |at: usize| u8::from_str_radix(key.get(at..at + 2)?, 16).ok();
    Some((stage, (0..key.len()).step_by(2).map(byte).collect::<Option<_>>()?))
}

const LEASE: &str = "sweep";

const LEASE_S: u64 = 600;

/// Where nobody waits to write. Rows of one table are all over its indexes: the more go at once, the fewer pages are
/// written again and again.
const ALONE_ROWS: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_or_not_at_all() {
        assert_eq!(parse("files 00ff"), Some((4, vec![0, 255])));
        assert_eq!(parse("repos "), Some((3, vec![])));
        for bad in ["", "files", "nothing 00", "files 0", "files zz", "files é"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

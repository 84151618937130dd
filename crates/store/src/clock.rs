//! What time it is: the system's clock, and one that tests move by hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Tells the time.
///
/// *Contract*: Unix seconds; may stand still or step back, as real clocks do, so nothing may depend on its order.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// Now, in Unix seconds.
    fn now_s(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_s(&self) -> u64 {
        // A clock before 1970 is broken; reading it as 1970 harms nothing here.
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// A clock that moves when told.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_s: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(now_s: u64) -> Self {
        Self { now_s: AtomicU64::new(now_s) }
    }

    /// Sets the clock.
    pub fn set(&self, now_s: u64) {
        self.now_s.store(now_s, Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, seconds: u64) {
        self.now_s.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_s(&self) -> u64 {
        self.now_s.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_past_2020_and_the_manual_one_where_it_was_put() {
        assert!(SystemClock.now_s() > 1_577_836_800);
        let clock = ManualClock::at(5);
        clock.advance(7);
        assert_eq!(clock.now_s(), 12);
    }
}

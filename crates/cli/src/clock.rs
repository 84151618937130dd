//! The time of this machine.

use std::time::SystemTime;

/// Now, in Unix seconds.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

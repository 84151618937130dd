//! Names of temporary files and directories.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Text that no other process on this machine has now: three hexadecimal numbers.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{:x}-{:x}-{count:x}", std::process::id(), nanos)
}

/// Whether `text` is one that [`unique`] could have returned.
pub(crate) fn is_unique(text: &str) -> bool {
    let numbers: Vec<&str> = text.split('-').collect();
    let is_hex = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    numbers.len() == 3 && numbers.iter().all(is_hex)
}

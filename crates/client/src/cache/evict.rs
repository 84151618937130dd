//! Eviction: least recently used entries first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walkdir::WalkDir;

use super::STAGED;

/// Removes entries until at most nine tenths of `bytes_max` are left, if there are more than `bytes_max`; returns how many
/// bytes are left.
pub(super) fn down_to(folder: &Path, bytes_max: u64) -> u64 {
    let mut entries = list(folder);
    let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    if total <= bytes_max {
        return total;
    }
    entries.sort_by_key(|entry| entry.used);
    for entry in entries {
        if total <= bytes_max / 10 * 9 {
            break;
        }
        // Another process may read it now, and goes on reading; or may have removed it, and then it is gone as well.
        let _ = fs::remove_file(&entry.path);
        if let Some(parent) = entry.path.parent() {
            let _ = fs::remove_dir(parent); // unless others are in it
        }
        total -= entry.bytes;
    }
    total
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn list(folder: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    let staged = folder.join(STAGED);
    for found in WalkDir::new(folder).min_depth(2).into_iter().flatten() {
        let Ok(metadata) = found.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if found.path().starts_with(&staged) {
            // What a killed process left. Others are still being written.
            if used.elapsed().is_ok_and(|age| age > STAGED_AGE_MAX) {
                let _ = fs::remove_file(found.path());
            }
            continue;
        }
        entries.push(Entry { path: found.into_path(), bytes: metadata.len(), used });
    }
    entries
}

const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

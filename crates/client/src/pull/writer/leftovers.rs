//! Leftovers: temporary files of pulls that were killed, beside their targets.
//!
//! | name                             | of                                              | in use while locked |
//! |----------------------------------|-------------------------------------------------|---------------------|
//! | `NAME.part`, `NAME.part.journal` | a pull that a later one of `NAME` goes on with  | the journal         |
//! | `NAME.part-HEX-HEX-HEX`          | a pull beside another one of the same `NAME`    | the file            |

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::with_suffix;
use crate::pull::journal::{Journal, MAGIC};
use crate::temp_name::{is_unique, unique};

/// Removes what a killed pull left of a target that is complete, and says whether there was anything.
pub(crate) fn remove_leftover(target: &Path) -> bool {
    let part = with_suffix(target, ".part");
    let journal_path = Journal::path_of(&part);
    let Ok(mut journal) = File::options().read(true).write(true).open(&journal_path) else { return false };
    let mut magic = [0; MAGIC.len()];
    // Another file of that name is not ours; one that is locked is in use.
    if journal.try_lock().is_err() || journal.read_exact(&mut magic).is_err() || magic != *MAGIC {
        return false;
    }
    let _ = fs::remove_file(&part);
    fs::remove_file(&journal_path).is_ok()
}

/// Creates a temporary file of this pull alone, which no later pull resumes.
pub(super) fn create_own(target: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let path = with_suffix(target, &format!(".part-{}", unique()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        match file.try_lock() {
            // Another pull may have taken it for a leftover just before it was locked.
            Ok(()) if !path.exists() => {}
            Err(TryLockError::WouldBlock) => {}
            // Some file systems have no locks; there nothing is ever taken for a leftover.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok((path, file)),
        }
    }
}

/// Removes files of [`create_own`] whose pull is no more, and returns how many there were.
pub(super) fn remove_abandoned(target: &Path) -> u64 {
    let Some(name) = target.file_name().and_then(|name| name.to_str()) else { return 0 };
    let folder = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let is_own = |found: &str| {
        let suffix = found.strip_prefix(name).and_then(|rest| rest.strip_prefix(".part-"));
        suffix.is_some_and(is_unique)
    };
    let mut removed = 0;
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_own)
            && let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
            && fs::remove_file(entry.path()).is_ok()
        {
            removed += 1;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_pull_left_is_removed_and_nothing_that_is_in_use_or_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let names = || {
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let user = ["x.part-1", "x.part-1-2-3-4", "x.part-1-2-z", "y.part-1-2-3", "z.part", "z.part.journal"];
        user.iter().for_each(|name| fs::write(at(name), "of the user").unwrap());
        fs::write(at("x.part-1-2-3"), "killed").unwrap();
        let (own, file) = create_own(&at("x")).unwrap();
        assert_eq!(remove_abandoned(&at("x")), 1);
        assert_eq!(remove_abandoned(&at("x")), 0);
        assert!(!remove_leftover(&at("z")), "no journal of ours");
        drop(file);
        assert_eq!(remove_abandoned(&at("x")), 1);
        assert!(!own.exists());

        fs::write(at("x.part"), "half").unwrap();
        fs::write(at("x.part.journal"), [&MAGIC[..], &[7; 32]].concat()).unwrap();
        let in_use = File::options().write(true).open(at("x.part.journal")).unwrap();
        in_use.lock().unwrap();
        assert!(!remove_leftover(&at("x")));
        drop(in_use);
        assert!(remove_leftover(&at("x")) && !remove_leftover(&at("x")));
        assert_eq!(names(), user);
    }
}

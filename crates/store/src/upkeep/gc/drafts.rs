//! Drafts: files that a server wrote to when it was killed. They are never listed, so they are looked for by name.

use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::upkeep::Upkeep;
use crate::upkeep::gc::GcOptions;

impl Upkeep {
    /// Removes what killed processes left half written, if no other process uses the folder; returns the names. Only before
    /// this one writes anything. Buckets have none.
    pub async fn remove_drafts(&self) -> Result<Vec<String>> {
        remove_drafts(&self.objects).await
    }

    /// Removes drafts that are old, or all if no other process uses the folder; returns the names.
    pub(super) async fn collect_drafts(&self, options: &GcOptions) -> Result<Vec<String>> {
        let Some(folder) = self.objects.folder() else { return Ok(Vec::new()) };
        let age = match options.offline {
            true => Duration::ZERO,
            false => Duration::from_secs(options.grace_s.min(DAY_S)),
        };
        blocking(move || remove(&folder, age)).await?.map_err(failed)
    }
}

/// The same of objects without a catalog.
pub(crate) async fn remove_drafts(objects: &Objects) -> Result<Vec<String>> {
    let objects = objects.clone();
    let work = move || objects.alone(|folder| remove(folder, Duration::ZERO));
    Ok(blocking(work).await?.transpose().map_err(failed)?.unwrap_or_default())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

fn failed(source: impl Into<Cause>) -> Error {
    Error::caused(ErrorKind::Unavailable, "remove drafts", source)
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An upload that lasts writes to its draft, so that stays young.
const DAY_S: u64 = 86_400;

/// Drafts of the id are in the root, those of people in their folder, all others one folder below.
fn remove(root: &Path, age: Duration) -> io::Result<Vec<String>> {
    let is_named = |file: &fs::DirEntry| file.file_name().to_str().is_some_and(is_draft);
    let is_of_id = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with("store.json#");
    let mut drafts: Vec<_> =
        entries(root)?.into_iter().filter(|file| is_of_id(file) && is_named(file)).collect();
    for kind in ["xorbs", "shards", "commits", "repos", "people", "parts"] {
        for entry in entries(&root.join(kind))? {
            match entry.file_type()?.is_dir() {
                true => drafts.extend(entries(&entry.path())?.into_iter().filter(is_named)),
                false if is_named(&entry) => drafts.push(entry),
                false => {}
            }
        }
    }
    let mut removed = Vec::new();
    for file in drafts {
        let is_old = |modified| SystemTime::now().duration_since(modified).is_ok_and(|is| is >= age);
        match file.metadata().and_then(|meta| meta.modified()) {
            Ok(modified) if is_old(modified) => match fs::remove_file(file.path()) {
                Ok(()) => {
                    removed
                        .push(file.path().strip_prefix(root).unwrap_or(&file.path()).display().to_string());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            },
            // Published or given up meanwhile.
            _ => {}
        }
    }
    Ok(removed)
}

fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// `<name>#<digits>`.
fn is_draft(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(name, digits)| {
        !name.is_empty() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drafts_that_are_old_enough_go() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("xorbs").join("ab");
        fs::create_dir_all(&folder).unwrap();
        for name in ["abc#12", "abc", "abc#", "#1", "abc#1x"] {
            fs::write(folder.join(name), "x").unwrap();
        }
        fs::write(root.path().join("note#1"), "not in a folder of ours").unwrap();
        assert_eq!(remove(root.path(), Duration::from_secs(3600)).unwrap(), [""; 0]);
        fs::create_dir(root.path().join("people")).unwrap();
        for name in
            ["store.json#1", "store.json", "people/00000000000000000001#2", "people/00000000000000000001"]
        {
            fs::write(root.path().join(name), "x").unwrap();
        }
        let removed = ["store.json#1", "xorbs/ab/abc#12", "people/00000000000000000001#2"];
        assert_eq!(remove(root.path(), Duration::ZERO).unwrap(), removed);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        assert!(root.path().join("note#1").exists());
        assert_eq!(remove(&root.path().join("nowhere"), Duration::ZERO).unwrap(), [""; 0]);
    }
}

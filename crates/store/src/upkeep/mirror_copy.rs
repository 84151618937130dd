//! Copy: all objects of one store into another, each proven where it arrives; existing objects stay.
//!
//! Objects never change, so a copy can be taken beside servers, cut, and taken again: it then has what is new. With the copy
//! alone a catalog can be made again. A snapshot of the catalog fits a copy that began after the snapshot was taken, since
//! garbage collection deletes nothing that was needed less than its grace ago: see [`backup`](crate::backup).

use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::key::ObjectKey;
use crate::objects::{Folder, ListedObject, Objects};
use crate::upkeep::examine::examine;
use crate::upkeep::identity;

/// What a copy did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Objects that were copied.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that existed already.
    pub known: u64,
    /// Objects that are not sound where they come from, and were not copied.
    pub damaged: Vec<String>,
}

/// How far it is. Anyone may look.
#[derive(Debug, Default)]
pub struct CopyProgress {
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl CopyProgress {
    /// Objects and bytes so far.
    pub fn now(&self) -> (u64, u64) {
        (self.objects.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// How to copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyOptions {
    /// Only count what would be copied.
    pub dry_run: bool,
    /// Read again what was written to the copy since this Unix second: a run that was killed may not have checked it.
    pub recheck_since_s: Option<u64>,
}

/// Fails where one side is in the other, or `from` is not the objects of a store: a directory around or in them would be copied
/// with whatever else is there.
async fn require_stores(from: &Objects, to: &Objects) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    if from.overlaps(to) {
        return refuse(
            "the destination is the source, or one is in the other: choose another destination".to_owned(),
        );
    }
    if from.store_id().await?.is_none() && identity::is_empty(from).await? {
        let hint = from.misnamed().await?.map_or_else(String::new, |at| format!("; they are in {at}"));
        return refuse(format!("the source has no objects of a store{hint}"));
    }
    match (to.store_id().await?, to.misnamed().await?) {
        (None, Some(at)) => refuse(format!(
            "the destination is not the objects of a store, but {at} is: name that, or choose another destination"
        )),
        _ => Ok(()),
    }
}

/// Copies what `to` does not have. Parts of files that have not arrived whole stay behind. A target that belongs to another
/// store is refused: its catalog would not know the objects.
pub async fn copy(
    from: &Objects,
    to: &Objects,
    options: CopyOptions,
    progress: &CopyProgress,
) -> Result<Copied> {
    let mut copied = Copied::default();
    require_stores(from, to).await?;
    if let (Some(id), Some(other)) = (from.store_id().await?, to.store_id().await?)
        && id != other
    {
        let message = format!(
            "the objects to copy belong to store {}, those at the target to store {}; name another target",
            id.short(),
            other.short()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    // What tells one store from another goes first: nothing is mixed with another store's objects.
    for listed in from.list_others().await? {
        let done = copy_other(from, to, &listed, options).await?;
        copied.count(done, &listed, progress);
    }
    // Xorbs first of the others: a copy that was cut has nothing that refers to what it has not.
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Repos, Folder::People] {
        let objects = from.list(folder).map(|listed| async move {
            let listed = listed?;
            let done = match listed.key {
                Some(key) => copy_object(from, to, &listed, key, options).await?,
                None => copy_other(from, to, &listed, options).await?,
            };
            Ok::<_, Error>((done, listed))
        });
        let mut objects = objects.buffer_unordered(COPIES_AT_ONCE);
        while let Some((done, listed)) = objects.try_next().await? {
            copied.count(done, &listed, progress);
        }
    }
    Ok(copied)
}

impl Copied {
    fn count(&mut self, done: CopiedObject, listed: &ListedObject, progress: &CopyProgress) {
        match done {
            CopiedObject::New => {
                self.objects += 1;
                self.bytes += listed.bytes;
            }
            CopiedObject::Known => self.known += 1,
            CopiedObject::Damaged(why) => self.damaged.push(format!("{}: {why}", listed.path)),
        }
        progress.objects.store(self.objects + self.known, Ordering::Relaxed);
        progress.bytes.store(self.bytes, Ordering::Relaxed);
    }
}

/// What became of one object.
enum CopiedObject {
    New,
    Known,
    Damaged(String),
}

async fn copy_object(
    from: &Objects,
    to: &Objects,
    listed: &ListedObject,
    key: ObjectKey,
    options: CopyOptions,
) -> Result<CopiedObject> {
    if let Some(there) = to.stat(&listed.path).await?
        && there.bytes == listed.bytes
    {
        let is_checked = options.recheck_since_s.is_none_or(|since_s| there.modified_s < since_s);
        if is_checked || examine(to, key, listed.bytes).await?.is_ok() {
            return Ok(CopiedObject::Known);
        }
    }
    if options.dry_run {
        return Ok(CopiedObject::New);
    }
    let body = match from.whole(&key).await {
        Ok(body) => body,
        // Deleted by garbage collection since it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(CopiedObject::Known),
        Err(error) => return Err(error),
    };
    let bytes = body.len() as u64;
    to.put(&key, vec![body]).await?;
    match examine(to, key, bytes).await? {
        Ok(_) => Ok(CopiedObject::New),
        Err(why) => {
            to.delete(&key).await?;
            Ok(CopiedObject::Damaged(why))
        }
    }
}

/// Copies what this version has no key for. It never changes, so another content is that of another store.
async fn copy_other(
    from: &Objects,
    to: &Objects,
    listed: &ListedObject,
    options: CopyOptions,
) -> Result<CopiedObject> {
    let path = &listed.path;
    let Some(body) = from.read_path(path).await? else { return Ok(CopiedObject::Known) };
    match to.read_path(path).await? {
        Some(there) if there == body => return Ok(CopiedObject::Known),
        Some(_) => {
            let message = format!(
                "{path} differs in the destination, which holds the objects of another store: choose another destination"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        None if options.dry_run => return Ok(CopiedObject::New),
        None => {}
    }
    to.write_path(path, body.clone()).await?;
    match to.read_path(path).await? {
        Some(there) if there == body => Ok(CopiedObject::New),
        _ => Err(Error::new(ErrorKind::Corrupt, format!("{path} is not what was written just now"))),
    }
}

/// Each holds an object in memory, at most 65 MiB of a xorb.
const COPIES_AT_ONCE: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use object_store::memory::InMemory;
    use xet::ShardHash;

    use super::*;

    #[tokio::test]
    async fn what_is_sound_and_new_is_copied_once() {
        let (from, to) = (Objects::new(Arc::new(InMemory::new())), Objects::new(Arc::new(InMemory::new())));
        let body = Bytes::from_static(b"a shard by its hash");
        let (sound, lie) = (ObjectKey::Shard(ShardHash::of(&body)), ObjectKey::Shard(ShardHash::ZERO));
        from.put(&sound, vec![body.clone()]).await.unwrap();
        from.put(&lie, vec![body.clone()]).await.unwrap();
        let progress = CopyProgress::default();
        let dry_run = CopyOptions { dry_run: true, ..CopyOptions::default() };
        let would = copy(&from, &to, dry_run, &progress).await.unwrap();
        assert_eq!((would.objects, to.head(&sound).await.unwrap()), (2, None));
        let did = copy(&from, &to, CopyOptions::default(), &progress).await.unwrap();
        assert_eq!((did.objects, did.bytes, did.damaged.len()), (1, 19, 1), "{did:?}");
        assert_eq!(to.whole(&sound).await.unwrap(), body);
        assert_eq!(to.head(&lie).await.unwrap(), None);
        let again = copy(&from, &to, CopyOptions::default(), &progress).await.unwrap();
        assert_eq!((again.objects, again.known, again.damaged.len()), (0, 1, 1));
    }

    #[tokio::test]
    async fn objects_without_a_key_are_copied_and_identify_the_store() {
        let store = || Objects::new(Arc::new(InMemory::new()));
        let (from, to, other) = (store(), store(), store());
        let progress = CopyProgress::default();
        let body = Bytes::from_static(b"a shard by its hash");
        from.put(&ObjectKey::Shard(ShardHash::of(&body)), vec![body]).await.unwrap();
        for path in ["later.json", "later/version/object"] {
            from.write_path(path, Bytes::from_static(b"one")).await.unwrap();
        }
        let did = copy(&from, &to, CopyOptions::default(), &progress).await.unwrap();
        assert_eq!((did.objects, did.known), (3, 0));
        assert_eq!(to.read_path("later/version/object").await.unwrap().unwrap(), "one");
        assert_eq!(copy(&from, &to, CopyOptions::default(), &progress).await.unwrap().known, 3);
        other.write_path("later.json", Bytes::from_static(b"two")).await.unwrap();
        let refused = copy(&from, &other, CopyOptions::default(), &progress).await.unwrap_err();
        assert!(refused.to_string().contains("another store"), "{refused}");
    }

    #[tokio::test]
    async fn what_a_killed_copy_left_is_read_again() {
        let (from, to) = (Objects::new(Arc::new(InMemory::new())), Objects::new(Arc::new(InMemory::new())));
        let body = Bytes::from_static(b"a shard by its hash");
        let key = ObjectKey::Shard(ShardHash::of(&body));
        from.put(&key, vec![body.clone()]).await.unwrap();
        to.put(&key, vec![Bytes::from_static(b"a shard by its h4sh")]).await.unwrap();
        let progress = CopyProgress::default();
        let trusting = copy(&from, &to, CopyOptions::default(), &progress).await.unwrap();
        assert_eq!((trusting.objects, trusting.known), (0, 1));
        let options = CopyOptions { recheck_since_s: Some(0), ..CopyOptions::default() };
        assert_eq!(copy(&from, &to, options, &progress).await.unwrap().objects, 1);
        assert_eq!(to.whole(&key).await.unwrap(), body);
    }
}

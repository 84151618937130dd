//! Copy: all objects of one store into another, each proven where it arrives; what is there already stays.
//!
//! Objects never change, so a copy can be taken beside servers, broken off, and taken again: it then has what is new. With
//! the copy alone a catalog can be made again; a backup of the catalog from any time after the copy began fits too.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::{Folder, Listed, ObjectKey, Objects};
use crate::verify::examine;

/// What a copy did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Objects that were copied.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were there already.
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

/// Copies what `to` does not have. `dry_run` only counts it. A target that belongs to another store is refused: its catalog
/// would not know the objects.
pub async fn copy(from: &Objects, to: &Objects, dry_run: bool, progress: &CopyProgress) -> Result<Copied> {
    let mut copied = Copied::default();
    match (from.store_id().await?, to.store_id().await?) {
        (Some(id), Some(other)) if id != other => {
            let message = format!(
                "the objects to copy belong to store {}, those at the target to store {}; name another target",
                id.short(),
                other.short()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        (Some(id), None) if !dry_run => to.put_store_id(&id).await?,
        _ => {}
    }
    // Xorbs first: a copy that broke off has nothing that refers to what it has not.
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits] {
        let ones = from.list(folder).map(|listed| async move {
            let listed = listed?;
            let Some(key) = listed.key else { return Ok(None) };
            Ok::<_, Error>(Some((one(from, to, &listed, key, dry_run).await?, listed)))
        });
        let mut ones = ones.buffer_unordered(COPIES_AT_ONCE);
        while let Some(done) = ones.try_next().await? {
            match done {
                Some((One::Copied, listed)) => {
                    copied.objects += 1;
                    copied.bytes += listed.bytes;
                }
                Some((One::Known, _)) => copied.known += 1,
                Some((One::Damaged(why), listed)) => copied.damaged.push(format!("{}: {why}", listed.path)),
                None => {}
            }
            progress.objects.store(copied.objects + copied.known, Ordering::Relaxed);
            progress.bytes.store(copied.bytes, Ordering::Relaxed);
        }
    }
    Ok(copied)
}

enum One {
    Copied,
    Known,
    Damaged(String),
}

async fn one(from: &Objects, to: &Objects, listed: &Listed, key: ObjectKey, dry_run: bool) -> Result<One> {
    if to.head(&key).await? == Some(listed.bytes) {
        return Ok(One::Known);
    }
    if dry_run {
        return Ok(One::Copied);
    }
    let body = match from.whole(&key).await {
        Ok(body) => body,
        // Swept since it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(One::Known),
        Err(error) => return Err(error),
    };
    let bytes = body.len() as u64;
    to.put(&key, vec![body]).await?;
    match examine(to, key, bytes).await? {
        Ok(_) => Ok(One::Copied),
        Err(why) => {
            to.delete(&key).await?;
            Ok(One::Damaged(why))
        }
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
        let would = copy(&from, &to, true, &progress).await.unwrap();
        assert_eq!((would.objects, to.head(&sound).await.unwrap()), (2, None));
        let did = copy(&from, &to, false, &progress).await.unwrap();
        assert_eq!((did.objects, did.bytes, did.damaged.len()), (1, 19, 1), "{did:?}");
        assert_eq!(to.whole(&sound).await.unwrap(), body);
        assert_eq!(to.head(&lie).await.unwrap(), None);
        let again = copy(&from, &to, false, &progress).await.unwrap();
        assert_eq!((again.objects, again.known, again.damaged.len()), (0, 1, 1));
    }
}

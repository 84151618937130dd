//! Objects: bytes under keys, written once, in a directory or a bucket.
//!
//! | key                         | content                                                               |
//! |-----------------------------|-----------------------------------------------------------------------|
//! | `xorbs/ab/<hash>-<digest>`  | one xorb with its version 1 footer                                    |
//! | `shards/ab/<hash>`          | one accepted shard in stored form                                     |
//! | `commits/<repo>/<oid>`      | one bundle: the git objects a commit of a repository added            |
//! | `repos/<repo>/<version>`    | state of a repository besides its git objects                         |
//! | `people/<version>`          | users, organisations, their members, quotas and dedup policies        |
//! | `parts/<repo>/<sha256>-<n>` | one part of a file that arrives by parts, until all are there         |
//! | `store.json`                | the id of the store, which its catalog has too                        |
//!
//! `ab` are the first two digits of the hash in its string form. The digest is the BLAKE3 of the xorb's footer in plain
//! hexadecimal; the hash of a shard covers its bytes already. So a key says what can be read where, and writing it again
//! changes nothing that anyone can tell.

pub(crate) mod bucket;
pub(crate) mod key;
pub(crate) mod local;
pub(crate) mod presign;
pub(crate) mod store_id;
#[cfg(test)]
mod tests;
pub(crate) mod timed;

use std::fmt;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{GetOptions, GetResultPayload, ObjectStore, ObjectStoreExt as _, PutPayload};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::key::{COMMITS, ObjectKey, PARTS, PEOPLE, REPOS, SHARDS, XORBS, path};
use crate::objects::local::buffers::Blocks;
use crate::objects::local::lock;
use crate::objects::local::read::{self, ObjectReader};

/// Which objects to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// All xorbs.
    Xorbs,
    /// All shards.
    Shards,
    /// All bundles.
    Commits,
    /// Snapshots of repositories.
    Repos,
    /// Snapshots of users and quotas.
    People,
    /// All parts.
    Parts,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// What it is called.
    pub path: String,
    /// What that means; `None` for what is not ours.
    pub key: Option<ObjectKey>,
    /// How long it is.
    pub bytes: u64,
    /// When it was written, Unix seconds.
    pub modified_s: u64,
}

/// The objects of one store.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Where they are, if that is a folder of this machine.
    folder: Option<Arc<FilePath>>,
    /// Names the place, to tell whether two stores share it: the path of a directory, or the URL of a bucket.
    place: Option<Arc<str>>,
    /// Tells other processes that this one uses the folder.
    lock: Option<Arc<lock::FolderLock>>,
    pub(crate) blocks: Blocks,
    /// For what goes to disk, or is read from it, in order and in bulk.
    pub(crate) large_blocks: Blocks,
    /// Signs for the same store, where that has a signature of its own.
    signer: Option<Arc<dyn Signer>>,
}

impl fmt::Debug for Objects {
    /// By name only: what a bucket's client would tell of itself includes the keys to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.store)
    }
}

impl Objects {
    /// Objects in a directory, which is made if it is not there. Every write is on the disk before it is acknowledged.
    pub fn local(directory: &FilePath) -> Result<Self> {
        let open = || {
            std::fs::create_dir_all(directory)?;
            let store = LocalFileSystem::new_with_prefix(directory)?.with_fsync(true);
            Ok((store, directory.canonicalize()?))
        };
        let (store, folder) = open().map_err(|source: Cause| {
            Error::caused(ErrorKind::Internal, format!("{}", directory.display()), source)
        })?;
        let lock = lock::FolderLock::take(&folder).map(Arc::new);
        let place = Some(format!("file://{}", folder.display()).into());
        Ok(Self { folder: Some(folder.into()), place, lock, ..Self::new(Arc::new(store)) })
    }

    /// Objects in any store. It must be durable when it acknowledges.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        let store = Arc::new(timed::TimedObjects(store));
        Self {
            store,
            signer: None,
            folder: None,
            place: None,
            lock: None,
            blocks: Blocks::small(),
            large_blocks: Blocks::large(),
        }
    }

    /// Writes an object; when this returns it is durable. The bytes must be those the key speaks of, so writing again
    /// changes nothing, or repairs what was damaged. That is why this does not ask for absence: correctness may not rest
    /// on conditional writes, which some buckets lack.
    pub async fn put(&self, key: &ObjectKey, parts: Vec<Bytes>) -> Result<()> {
        let payload: PutPayload = parts.into_iter().collect();
        let put = self.store.put(&path(key), payload).await;
        put.map(|_| ()).map_err(|source| translate("write", &key.to_string(), source))
    }

    /// The bytes of a range, which must lie in the object.
    pub async fn range(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes> {
        let wanted = range.end.saturating_sub(range.start);
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let bytes = match self.store.get_range(&path(key), range.clone()).await {
            Ok(bytes) => bytes,
            Err(source) => return Err(self.explain(key, &range, source).await),
        };
        // Stores cut a range that passes the end.
        if bytes.len() as u64 != wanted {
            let message =
                format!("read {key}: {range:?} gave {} bytes: the object is too short", bytes.len());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(bytes)
    }

    /// The bytes of a range, which must lie in the object, piece by piece. Ends in an error when the object is too short.
    pub async fn stream(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        if range.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
        let get = match self.store.get_opts(&path(key), options).await {
            Ok(get) => get,
            Err(source) => return Err(self.explain(key, &range, source).await),
        };
        let key = key.to_string();
        let pieces = match get.payload {
            GetResultPayload::File(file, _) => {
                read::file(key.clone(), file.into(), get.range, self.blocks.clone())
            }
            GetResultPayload::Stream(pieces) => {
                let key = key.clone();
                pieces.map(move |piece| piece.map_err(|source| translate("read", &key, source))).boxed()
            }
        };
        Ok(read::whole(key, range, pieces))
    }

    /// An object to read ranges of; `None` when it is not there. One that lies in a folder is found and read without
    /// leaving the thread, if the system has it in memory.
    pub async fn reader(&self, key: &ObjectKey) -> Result<Option<ObjectReader>> {
        timed::timed("get", read::reader(self, key)).await
    }

    /// Where they are, if that is a folder of this machine.
    pub(crate) fn folder(&self) -> Option<Arc<FilePath>> {
        self.folder.clone()
    }

    /// Does work on the folder if nobody else uses it: what is half written there then is of processes that were killed.
    pub(crate) fn alone<T>(&self, work: impl FnOnce(&FilePath) -> T) -> Option<T> {
        let (folder, lock) = (self.folder.as_deref()?, self.lock.as_deref()?);
        lock.alone(|| work(folder))
    }

    /// Whether another process uses the folder that the objects are in. Of a bucket that is not known.
    pub fn is_shared(&self) -> bool {
        self.lock.as_deref().is_some_and(lock::FolderLock::is_shared)
    }

    /// Whether bytes are staged in files while they arrive.
    pub(crate) fn stages_in_files(&self) -> bool {
        self.folder.is_some()
    }

    /// Why a range could not be read. Stores refuse one that begins after the end in the same words as other things, and
    /// a cut object must not be taken for a bucket that is down.
    async fn explain(&self, key: &ObjectKey, range: &Range<u64>, source: object_store::Error) -> Error {
        let error = translate("read", &key.to_string(), source);
        if error.kind() != ErrorKind::Unavailable {
            return error;
        }
        match self.head(key).await {
            Ok(Some(bytes)) if bytes < range.end => {
                let message =
                    format!("read {key}: {range:?} passes its end at {bytes}: the object is too short");
                Error::new(ErrorKind::Corrupt, message)
            }
            _ => error,
        }
    }

    /// The whole object. For shards: a xorb is better read by ranges.
    pub async fn whole(&self, key: &ObjectKey) -> Result<Bytes> {
        let whole = async { self.store.get(&path(key)).await?.bytes().await };
        whole.await.map_err(|source| translate("read", &key.to_string(), source))
    }

    /// How long an object is; `None` when it is not there.
    pub async fn head(&self, key: &ObjectKey) -> Result<Option<u64>> {
        match self.store.head(&path(key)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(translate("look for", &key.to_string(), source)),
        }
    }

    /// Whether the store is there and lets us read it; says what is wrong.
    pub async fn check(&self) -> Result<()> {
        // Not by reading an object: a missing bucket would look like a missing object.
        let listed = self.store.list_with_delimiter(None).await;
        listed.map(|_| ()).map_err(|source| translate("list", "the object store", source))
    }

    /// Whether nothing is stored here. The lock file of a directory is no object.
    pub async fn is_empty(&self) -> Result<bool> {
        let listed = self.store.list_with_delimiter(None).await;
        let listed = listed.map_err(|source| translate("list", "the object store", source))?;
        let mut prefixes = listed.common_prefixes.iter();
        let is_empty = async |prefix| self.store.list(Some(prefix)).next().await.is_none();
        for prefix in prefixes.by_ref() {
            if !is_empty(prefix).await {
                return Ok(false);
            }
        }
        Ok(listed.objects.iter().all(|meta| meta.location.as_ref() == lock::LOCK_FILE))
    }

    /// Deletes an object; one that is not there is deleted already. A local deletion may be undone by a power cut.
    pub async fn delete(&self, key: &ObjectKey) -> Result<()> {
        match self.store.delete(&path(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(translate("delete", &key.to_string(), source)),
        }
    }

    /// Deletes many: a thousand per request for buckets, on one thread for directories.
    pub async fn delete_all(&self, keys: Vec<ObjectKey>) -> Result<()> {
        let Some(folder) = self.folder.clone() else {
            let paths = futures::stream::iter(keys).map(|key| Ok(path(&key))).boxed();
            let mut deleted = self.store.delete_stream(paths);
            while let Some(one) = deleted.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(source) => return Err(translate("delete", "objects", source)),
                }
            }
            return Ok(());
        };
        let remove = move || {
            keys.iter().try_for_each(|key| match std::fs::remove_file(folder.join(key.to_string())) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    Err(Error::caused(ErrorKind::Internal, format!("delete {key}"), source))
                }
                _ => Ok(()),
            })
        };
        let removed = timed::timed("delete", async {
            tokio::task::spawn_blocking(remove).await.map_err(|source| {
                Error::caused(ErrorKind::Internal, "the thread that deletes broke off", source)
            })?
        });
        removed.await
    }

    /// How long an object is and when it was written; `None` when it is not there.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<ListedObject>> {
        match self.store.head(&Path::from(path)).await {
            Ok(meta) => Ok(Some(listed(&meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(translate("look for", path, source)),
        }
    }

    /// The whole object of this path, whatever it is; `None` when it is not there.
    pub(crate) async fn read_path(&self, path: &str) -> Result<Option<Bytes>> {
        let whole = async { self.store.get(&Path::from(path)).await?.bytes().await };
        match whole.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(translate("read", path, source)),
        }
    }

    /// Writes an object under a path, for copies of what this version has no key for.
    pub(crate) async fn write_path(&self, path: &str, body: Bytes) -> Result<()> {
        let put = self.store.put(&Path::from(path), body.into()).await;
        put.map(|_| ()).map_err(|source| translate("write", path, source))
    }

    /// Whether these objects are those of `other`, or one place is in the other: a copy would be of itself.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (Some(one), Some(two)) = (&self.place, &other.place) else { return false };
        let is_in = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_in(one, two) || is_in(two, one)
    }

    /// The objects of a store in `objects/` here, or in the directory that this one is in: what a URL names that is a directory
    /// too short or too long.
    pub(crate) async fn misnamed(&self) -> Result<Option<String>> {
        let inside = format!("objects/{}", store_id::STORE_FILE);
        if self.read_path(&inside).await?.is_some() {
            return Ok(Some("its directory objects".to_owned()));
        }
        let around = self.folder.as_ref().and_then(|folder| folder.parent());
        let is_around = around.filter(|around| around.join(store_id::STORE_FILE).is_file());
        Ok(is_around.map(|around| around.display().to_string()))
    }

    /// Everything that is in none of the folders.
    pub(crate) async fn list_others(&self) -> Result<Vec<ListedObject>> {
        let failed = |source| translate("list", "the object store", source);
        let top = self.store.list_with_delimiter(None).await.map_err(failed)?;
        let is_object = |meta: &object_store::ObjectMeta| meta.location.as_ref() != lock::LOCK_FILE;
        let mut found: Vec<_> = top.objects.into_iter().filter(is_object).map(|meta| listed(&meta)).collect();
        let known = [XORBS, SHARDS, COMMITS, REPOS, PEOPLE, PARTS];
        for prefix in top.common_prefixes.iter().filter(|prefix| !known.contains(&prefix.as_ref())) {
            let mut inside = self.store.list(Some(prefix));
            while let Some(meta) = inside.next().await {
                found.push(listed(&meta.map_err(failed)?));
            }
        }
        Ok(found)
    }

    /// Everything in a folder, in no order, as it is found.
    pub fn list(&self, folder: Folder) -> BoxStream<'static, Result<ListedObject>> {
        let prefix = match folder {
            Folder::Xorbs => XORBS,
            Folder::Shards => SHARDS,
            Folder::Commits => COMMITS,
            Folder::Repos => REPOS,
            Folder::People => PEOPLE,
            Folder::Parts => PARTS,
        };
        let found = self.store.list(Some(&Path::from(prefix)));
        let translated =
            found.map(move |meta| Ok(listed(&meta.map_err(|source| translate("list", prefix, source))?)));
        translated.boxed()
    }
}

fn listed(meta: &object_store::ObjectMeta) -> ListedObject {
    let path = meta.location.to_string();
    let modified_s = u64::try_from(meta.last_modified.timestamp()).unwrap_or(0);
    ListedObject { key: path.parse().ok(), path, bytes: meta.size, modified_s }
}

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

pub(crate) fn translate(verb: &str, what: &str, source: object_store::Error) -> Error {
    use object_store::Error as E;
    let kind = match &source {
        E::NotFound { .. } => ErrorKind::NotFound,
        E::PermissionDenied { source, .. } | E::Unauthenticated { source, .. } => {
            return refused(verb, what, &source.to_string());
        }
        E::NotSupported { .. } => ErrorKind::Internal,
        E::NotImplemented { .. } | E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
            ErrorKind::Internal
        }
        E::Generic { source, .. } => {
            // Some calls keep the status to themselves and tell it only in words.
            let text = source.to_string();
            if ["status code: 401", "status code: 403"].iter().any(|status| text.contains(status)) {
                return refused(verb, what, &text);
            }
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Unavailable,
    };
    Error::caused(kind, format!("{verb} {what}"), source)
}

/// A bucket's answer repeats the request, session token included: only the error code is reported.
fn refused(verb: &str, what: &str, answer: &str) -> Error {
    let code = error_code(answer);
    let message = format!(
        "{verb} {what}: the bucket refuses this server{code}: check the access key, its secret and its rights"
    );
    Error::new(ErrorKind::Internal, message)
}

/// The code of a bucket's refusal, in parentheses.
fn error_code(answer: &str) -> String {
    let code = answer.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map(|(code, _)| code).filter(|code| code.bytes().all(|b| b.is_ascii_alphanumeric()));
    code.map_or_else(String::new, |code| format!(" ({code})"))
}

//! Ingest: a xorb arrives, is proven while it arrives, and is stored once.
//!
//! Whatever form it has on the way, it is stored with a version 1 footer. The object is durable before the catalog
//! names it; of two uploads of one hash the first row wins. The bytes of a hash follow from how its sender compressed it, so one
//! hash has many objects: uploads of one hash are stored one after the other, and only the first of a process is written. What
//! another server writes at the same moment is for sweep to find.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::runtime::Handle;
use xet::limits::XORB_STORED_BYTES_MAX;
use xet::xorb::{Form, XorbInfo, XorbScanner};
use xet::{FormatError, XorbHash};

use crate::access::Grant;
use crate::content::Content;
use crate::content::body::{self, BodyError, Segments};
use crate::content::quotas::{Need, Reservation};
use crate::content::rows::{XorbRow, XorbState};
use crate::content::uploads::{self, NewObject, UploadRow, XorbReference};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Digest, XorbKey};
use crate::objects::key::ObjectKey;
use crate::objects::local::buffers::{BLOCK_BYTES, LARGE_BYTES};
use crate::objects::local::write::{GrowingXorb, Staged};

/// What became of an uploaded xorb. It is stored either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredXorb {
    /// Whether the caller's repository had neither sent nor registered it before, or its object was damaged. Whether another
    /// repository has it is not reported.
    pub was_inserted: bool,
}

/// The records of a xorb that this process has made.
#[derive(Debug)]
pub enum Records {
    /// In memory, in pieces of any size.
    Memory(Vec<Bytes>),
    /// Written already.
    Growing(Box<GrowingXorb>),
}

impl Records {
    fn bytes(&self) -> u64 {
        match self {
            Self::Memory(parts) => parts.iter().map(|part| part.len() as u64).sum(),
            Self::Growing(growing) => growing.stored_bytes(),
        }
    }
}

impl From<Vec<Bytes>> for Records {
    fn from(parts: Vec<Bytes>) -> Self {
        Self::Memory(parts)
    }
}

impl From<Box<GrowingXorb>> for Records {
    fn from(growing: Box<GrowingXorb>) -> Self {
        Self::Growing(growing)
    }
}

impl Content {
    /// Stores the xorb named `hash`. Bytes with another hash leave nothing behind.
    ///
    /// `declared_bytes` is the length the sender announced, if it did: memory is set aside for so much, and a body that
    /// is longer is refused.
    pub async fn put_xorb<S>(
        &self,
        grant: &Grant,
        hash: XorbHash,
        declared_bytes: Option<u64>,
        pieces: S,
    ) -> Result<StoredXorb>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        grant.expect_write()?;
        let what = format!("xorb {hash}");
        let bytes_max = body::limit(&what, declared_bytes, XORB_STORED_BYTES_MAX)?;
        let known = self.references(grant, &[hash]).await?;
        let pending = self.reserve_upload(grant, &known, declared_bytes.unwrap_or(1)).await?;
        let _memory = self.memory.reserve(self.upload_memory(bytes_max)).await;
        // What the caller may know to be here is proven again, since its sender believes it is stored, but not written again.
        // What others have is written like anything new: the time it takes tells nothing.
        let is_known = is_known_to_caller(&known);
        let salt = Salt::over(&known)?;
        let mut staged = match is_known {
            true => None,
            false => Some(Staged::begin(&self.objects, hash).await?),
        };

        let mut scanner = XorbScanner::new(Some(hash));
        let refuse = |source| Error::invalid(what.clone(), source);
        let is_small = bytes_max <= BLOCK_BYTES as u64;
        let blocks = if is_small { &self.objects.blocks } else { &self.objects.large_blocks };
        let mut arriving = Segments::new(&what, blocks, bytes_max, pieces);
        // Looked at where it is: to hand it to another thread costs a tenth of the work, and other uploads have theirs. The
        // little that decodes to much takes as long as a whole xorb at worst, since it is one.
        while let Some(segment) = arriving.next_seen(|bytes| scanner.push(bytes).map_err(refuse)).await? {
            if let Some(staged) = &mut staged {
                staged.push(segment).await?;
            }
        }
        let sealed = self.workers.run(move || seal(scanner, salt)).await?.map_err(refuse)?;
        // The length of a body that announced none is known only now.
        let pending = match declared_bytes {
            Some(_) => pending,
            None => {
                drop(pending);
                self.reserve_upload(grant, &known, sealed.object_bytes()).await?
            }
        };
        let (store, grant) = (self.clone(), grant.clone());
        // On a task of its own: a sender that hangs up now must not leave an object that nothing counts.
        let storing = tokio::spawn(async move {
            let _pending = pending;
            let Some(staged) = staged else { return store.store_sealed(&grant, sealed, None).await };
            // Other uploads may have stored the xorb since this one began.
            let _lock = store.xorb_locks.lock(hash).await;
            let known = store.references(&grant, &[hash]).await?;
            match known.iter().any(|known| known.row.is_there()) {
                _ if is_known_to_caller(&known) => store.store_sealed(&grant, sealed, None).await,
                true => store.store_again(&grant, sealed, staged).await,
                false => store.store_sealed(&grant, sealed, Some(staged)).await,
            }
        });
        storing.await.map_err(|source| Error::caused(ErrorKind::Internal, "store a xorb", source))?
    }

    /// Memory to reserve for an upload of `body_bytes`: the whole body for buckets, staging buffers for local directories.
    pub fn upload_memory(&self, body_bytes: u64) -> u64 {
        if self.objects.stages_in_files() { body_bytes.min(STAGED_BYTES) } else { body_bytes }
    }

    /// Room for the records of a xorb that this process is making, for `put_own_xorb`; `None` when they are to be kept in
    /// memory. Opens a file: not for a thread that serves others. What is written goes to disk on the threads of `runtime`.
    pub fn grow(&self, runtime: Handle) -> Option<Box<GrowingXorb>> {
        GrowingXorb::begin(&self.objects, runtime).map(Box::new)
    }

    /// Stores a xorb that this process built itself, from chunks it has hashed: nothing is decompressed or hashed
    /// again, and all else is as in `put_xorb`. `records` are its records, in order. Never for untrusted bytes.
    pub async fn put_own_xorb(
        &self,
        grant: &Grant,
        info: Arc<XorbInfo>,
        records: impl Into<Records>,
    ) -> Result<StoredXorb> {
        grant.expect_write()?;
        let records = records.into();
        let (expected, found) = (info.stored_bytes(), records.bytes());
        if expected != found {
            let message = format!("xorb {}: {found} bytes of records, expected {expected}", info.hash());
            return Err(Error::new(ErrorKind::Internal, message));
        }
        let known = self.references(grant, &[info.hash()]).await?;
        let _pending = self.reserve_upload(grant, &known, found).await?;
        let now_s = self.clock.now_s();
        let upload = upload_row(grant, info.hash(), found, now_s);
        let recorded = uploads::record_upload(&self.db, &upload, None).await?;
        if recorded.row.as_ref().is_some_and(XorbRow::is_live) {
            return Ok(StoredXorb { was_inserted: recorded.is_new });
        }
        let salt = Salt::over(&known)?;
        let sealed = self.workers.run({
            let info = info.clone();
            move || {
                let footer = salt.footer(&info);
                (Digest::of(&footer), footer)
            }
        });
        let (digest, footer) = sealed.await?;
        let key = XorbKey { hash: info.hash(), digest };
        let object_bytes = found + footer.len() as u64;
        match records {
            Records::Memory(mut parts) => {
                parts.push(footer.into());
                self.objects.put(&ObjectKey::Xorb(key), parts).await?;
            }
            Records::Growing(growing) => growing.finish(key, footer).await?,
        }
        self.add_row(key, object_bytes, info, upload, salt).await
    }

    /// Object first, row second. `staged` is `None` where the caller may know that the xorb is here.
    async fn store_sealed(
        &self,
        grant: &Grant,
        sealed: Sealed,
        staged: Option<Staged>,
    ) -> Result<StoredXorb> {
        let object_bytes = sealed.object_bytes();
        let Sealed { info, footer, digest, salt } = sealed;
        let upload = upload_row(grant, info.hash(), object_bytes, self.clock.now_s());
        let Some(staged) = staged else {
            let recorded = uploads::record_upload(&self.db, &upload, None).await?;
            return match recorded.row.as_ref().is_some_and(XorbRow::is_live) {
                true => Ok(StoredXorb { was_inserted: recorded.is_new }),
                false => Err(deleted_by_gc(info.hash())),
            };
        };
        let key = XorbKey { hash: info.hash(), digest };
        staged.finish(key, info.stored_bytes(), footer).await?;
        self.add_row(key, object_bytes, Arc::new(info), upload, salt).await
    }

    /// Records an upload of a xorb that others have, which its sender must not learn from the time it takes: what came is
    /// written like a new object, under a key that nothing else has, and deleted after the answer.
    async fn store_again(&self, grant: &Grant, sealed: Sealed, staged: Staged) -> Result<StoredXorb> {
        let object_bytes = sealed.object_bytes();
        let Sealed { info, footer, digest, .. } = sealed;
        let (hash, stored_bytes) = (info.hash(), info.stored_bytes());
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|source| Error::caused(ErrorKind::Internal, "the system has no randomness", source))?;
        let twin = XorbKey { hash, digest: Digest::new(bytes) };
        staged.finish(twin, stored_bytes, footer).await?;
        let upload = upload_row(grant, hash, object_bytes, self.clock.now_s());
        let recorded = uploads::record_upload(&self.db, &upload, None).await;
        let row = recorded.as_ref().ok().and_then(|recorded| recorded.row.clone()).filter(XorbRow::is_live);
        if row.as_ref().is_some_and(|row| row.key == XorbKey { hash, digest }) {
            self.footers.remember(XorbKey { hash, digest }, Arc::new(info)).await;
        }
        let (store, recipe_xorb) = (self.clone(), row.as_ref().map(XorbRow::recipe_xorb));
        tokio::spawn(async move {
            // What is left over is for sweep to find.
            store.objects.delete(&ObjectKey::Xorb(twin)).await.ok();
            if let Some(recipe_xorb) = recipe_xorb {
                // Its shard comes next, and will ask.
                store.footers.of(&recipe_xorb).await.ok();
            }
        });
        match row {
            Some(_) => Ok(StoredXorb { was_inserted: recorded?.is_new }),
            None => recorded.and(Err(deleted_by_gc(hash))),
        }
    }

    /// Adds the row of a xorb whose object is stored, and that the repository sent it.
    async fn add_row(
        &self,
        key: XorbKey,
        object_bytes: u64,
        info: Arc<XorbInfo>,
        upload: UploadRow,
        salt: Salt,
    ) -> Result<StoredXorb> {
        let now_s = upload.uploaded_s;
        let row = XorbRow {
            key,
            object_bytes,
            raw_bytes: info.raw_bytes(),
            chunk_count: info.chunk_count(),
            state: XorbState::Live,
            created_s: now_s,
            referenced_s: now_s,
            verified_s: now_s,
        };
        let object = NewObject { row: row.clone(), has_fresh_key: salt != Salt::NONE };
        let mut recorded = uploads::record_upload(&self.db, &upload, Some(&object)).await?;
        let mut is_repaired = false;
        if let Some(stands) = recorded.row.take().filter(|stands| !stands.is_live()) {
            is_repaired = stands.state == XorbState::Damaged && self.repair(&stands, &row, &info).await?;
            if !is_repaired {
                return Err(deleted_by_gc(key.hash));
            }
            recorded.is_new = uploads::record_upload(&self.db, &upload, None).await?.is_new;
        }
        if recorded.was_inserted || is_repaired {
            // Its shard comes next, and will ask.
            self.footers.remember(key, info).await;
        }
        Ok(StoredXorb { was_inserted: recorded.is_new || is_repaired })
    }

    /// Reserves room for an upload under the quotas of its repository. What the repository has counts already.
    async fn reserve_upload(
        &self,
        grant: &Grant,
        known: &[XorbReference],
        bytes: u64,
    ) -> Result<Reservation> {
        let is_counted = known.iter().any(|known| known.sent_bytes.is_some() || known.is_registered);
        let physical_bytes = if is_counted || grant.is_exempt() { 0 } else { bytes };
        self.reserve_quota(grant.scope(), Need { physical_bytes, ..Need::default() }).await
    }
}

/// Whether a xorb is there and the caller may know it.
fn is_known_to_caller(known: &[XorbReference]) -> bool {
    known.iter().any(|known| known.row.is_there() && known.is_provable())
}

/// Locks under which uploads of one xorb are stored and recorded, one after the other. A lock is taken when the whole body has
/// arrived, so no upload waits for the client of another.
#[derive(Debug, Clone)]
pub(crate) struct XorbLocks(moka::future::Cache<XorbHash, Arc<tokio::sync::Mutex<()>>>);

impl XorbLocks {
    pub(crate) fn new() -> Self {
        Self(moka::future::Cache::builder().max_capacity(LOCKS_MAX).time_to_idle(LOCK_IDLE).build())
    }

    async fn lock(&self, xorb: XorbHash) -> tokio::sync::OwnedMutexGuard<()> {
        self.0.get_with(xorb, async { Arc::default() }).await.lock_owned().await
    }
}

/// Locks that are kept, about 200 bytes each, and for how long after their last use. Dropping one too early costs an object that
/// garbage collection finds.
const LOCKS_MAX: u64 = 10_000;
const LOCK_IDLE: Duration = Duration::from_secs(300);

fn upload_row(grant: &Grant, xorb: XorbHash, object_bytes: u64, uploaded_s: u64) -> UploadRow {
    let (scope, sender) = (grant.scope().clone(), grant.sender().map(str::to_owned));
    UploadRow { scope, sender, xorb, object_bytes, uploaded_s }
}

/// Memory of an upload whose bytes are staged in a file: a block that fills, one at the disk, one that waits for it, what a chunk
/// decodes to, and the buffer of its connection.
const STAGED_BYTES: u64 = 3 * LARGE_BYTES as u64 + 2 * BLOCK_BYTES as u64;

/// The records as they came get a footer of our own: the one that came may be old or carry a nonce.
fn seal(scanner: XorbScanner, salt: Salt) -> std::result::Result<Sealed, FormatError> {
    let info = scanner.finish()?.info;
    let footer = salt.footer(&info);
    Ok(Sealed { digest: Digest::of(&footer), footer: footer.into(), info, salt })
}

/// What a xorb turned out to be, and what its object ends in and is called.
struct Sealed {
    info: XorbInfo,
    footer: Bytes,
    digest: Digest,
    salt: Salt,
}

impl Sealed {
    fn object_bytes(&self) -> u64 {
        self.info.stored_bytes() + self.footer.len() as u64
    }
}

/// What makes an object's key its own: zeros, or a number in the footer that readers skip.
///
/// Sweep may delete the object of a xorb at any time after it gave it up. So a xorb that is uploaded again meanwhile gets other
/// bytes, thus another digest and key, and a deletion that is late finds nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt([u8; 4]);

impl Salt {
    pub(crate) const NONE: Self = Self([0; 4]);

    /// The salt for a xorb of which this is known.
    fn over(known: &[XorbReference]) -> Result<Self> {
        if !known.iter().any(|known| known.row.is_swept()) {
            return Ok(Self::NONE);
        }
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes)
            .map_err(|source| Error::caused(ErrorKind::Internal, "the system has no randomness", source))?;
        // All zeros would be no salt.
        bytes[0] |= 1;
        Ok(Self(bytes))
    }

    fn footer(self, info: &XorbInfo) -> Vec<u8> {
        let mut footer = Vec::new();
        info.encode_footer(Form::V1, &mut footer);
        let nonce = footer.len().checked_sub(NONCE_FROM_END).and_then(|at| footer.get_mut(at..at + 4));
        nonce.expect("a footer ends in a nonce, reserved bytes and its length").copy_from_slice(&self.0);
        footer
    }
}

/// Nonce, reserved bytes and length end a footer.
const NONCE_FROM_END: usize = 4 + 12 + 4;

fn deleted_by_gc(hash: XorbHash) -> Error {
    Error::new(ErrorKind::Unavailable, format!("xorb {hash} was just swept: send it again"))
}

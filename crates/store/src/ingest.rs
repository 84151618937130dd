//! Ingest: a xorb arrives, is proven while it arrives, and is stored once.
//!
//! Whatever form it has on the way, it is stored with a version 1 footer. The object is durable before the catalog
//! names it; of two uploads of one hash the first row wins, and the other object is for sweep to find.

use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use tokio::runtime::Handle;
use xet::limits::XORB_STORED_BYTES_MAX;
use xet::xorb::{Form, XorbInfo, XorbScanner};
use xet::{FormatError, XorbHash};

use crate::Store;
use crate::access::Grant;
use crate::blocks::{BLOCK_BYTES, LARGE_BYTES};
use crate::body::{self, BodyError, Segments};
use crate::catalog::rows::{XorbRow, XorbState};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::stage::{GrowingXorb, Staged};
use crate::objects::{Digest, ObjectKey, XorbKey};
use crate::quota::Need;

/// What became of an uploaded xorb. It is stored either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingested {
    /// Whether this upload stored it.
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

impl Store {
    /// Takes in the xorb named `hash`. Bytes that are anything else leave nothing behind.
    ///
    /// `declared_bytes` is the length the sender announced, if it did: memory is set aside for so much, and a body that
    /// is longer is refused.
    pub async fn ingest<S>(
        &self,
        grant: &Grant,
        hash: XorbHash,
        declared_bytes: Option<u64>,
        pieces: S,
    ) -> Result<Ingested>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        grant.expect_write()?;
        let what = format!("xorb {hash}");
        let bytes_max = body::limit(&what, declared_bytes, XORB_STORED_BYTES_MAX)?;
        let need = Need { physical_bytes: declared_bytes.unwrap_or(1), ..Need::default() };
        self.expect_quota(grant.scope(), need).await?;
        let _memory = self.memory.reserve(self.ingest_bytes(bytes_max)).await;
        // What is here already is proven again, since its sender believes it is stored, but not written again.
        let known = self.catalog.xorbs(&[hash]).await?;
        let salt = Salt::over(&known)?;
        let mut staged = match known.iter().any(XorbRow::is_there) {
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
        self.keep(sealed, staged).await
    }

    /// Bytes of memory that an upload of so many bytes takes: all of them, unless they can be put aside as they come.
    pub fn ingest_bytes(&self, body_bytes: u64) -> u64 {
        if self.objects.stages_in_files() { body_bytes.min(STAGED_BYTES) } else { body_bytes }
    }

    /// Room for the records of a xorb that this process is making, for [`Store::place`]; `None` when they are to be kept in
    /// memory. Opens a file: not for a thread that serves others. What is written goes to disk on the threads of `runtime`.
    pub fn grow(&self, runtime: Handle) -> Option<Box<GrowingXorb>> {
        GrowingXorb::begin(&self.objects, runtime).map(Box::new)
    }

    /// Takes in a xorb that this process has made itself, from chunks it has hashed: nothing is decompressed or hashed
    /// again, and all else is as in [`Store::ingest`]. `records` are its records, in order. Never for a stranger's bytes.
    pub async fn place(
        &self,
        grant: &Grant,
        info: Arc<XorbInfo>,
        records: impl Into<Records>,
    ) -> Result<Ingested> {
        grant.expect_write()?;
        let records = records.into();
        let (expected, found) = (info.stored_bytes(), records.bytes());
        if expected != found {
            let message = format!("xorb {}: {found} bytes of records, expected {expected}", info.hash());
            return Err(Error::new(ErrorKind::Internal, message));
        }
        self.expect_quota(grant.scope(), Need { physical_bytes: found, ..Need::default() }).await?;
        let now_s = self.clock.now_s();
        if !self.catalog.touch_xorbs(&[info.hash()], now_s).await?.is_empty() {
            return Ok(Ingested { was_inserted: false });
        }
        let salt = Salt::over(&self.catalog.xorbs(&[info.hash()]).await?)?;
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
        self.note(key, object_bytes, info, now_s, salt).await
    }

    /// Object first, row second.
    async fn keep(&self, sealed: Sealed, staged: Option<Staged>) -> Result<Ingested> {
        let Sealed { info, footer, digest, salt } = sealed;
        let now_s = self.clock.now_s();
        if !self.catalog.touch_xorbs(&[info.hash()], now_s).await?.is_empty() {
            return Ok(Ingested { was_inserted: false });
        }
        let staged = staged.ok_or_else(|| swept(info.hash()))?;
        let key = XorbKey { hash: info.hash(), digest };
        let object_bytes = info.stored_bytes() + footer.len() as u64;
        staged.finish(key, info.stored_bytes(), footer).await?;
        self.note(key, object_bytes, Arc::new(info), now_s, salt).await
    }

    /// Adds the row of a xorb whose object is stored.
    async fn note(
        &self,
        key: XorbKey,
        object_bytes: u64,
        info: Arc<XorbInfo>,
        now_s: u64,
        salt: Salt,
    ) -> Result<Ingested> {
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
        let mut was_inserted = salt != Salt::NONE && self.catalog.sweep().replace_swept(&row).await?;
        if !was_inserted {
            let added = self.catalog.add_xorbs(std::slice::from_ref(&row)).await?;
            was_inserted = added.first().is_some_and(|added| added.was_inserted);
            if let Some(added) = added.into_iter().find(|added| !added.row.is_live()) {
                let is_damaged = added.row.state == XorbState::Damaged;
                was_inserted = is_damaged && self.heal(&added.row, &row, &info).await?;
                if !was_inserted {
                    return Err(swept(key.hash));
                }
            }
        }
        if was_inserted {
            // Its shard comes next, and will ask.
            self.footers.remember(key, info).await;
        }
        Ok(Ingested { was_inserted })
    }
}

/// What an upload holds when its bytes are put aside: a block that fills, one at the disk, one that waits for it, what a chunk
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

/// What makes an object's key its own: zeros, or a number in the footer that readers skip.
///
/// Sweep may delete the object of a xorb at any time after it gave it up. So a xorb that comes again meanwhile gets other
/// bytes, thus another digest and key, and a deletion that is late finds nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt([u8; 4]);

impl Salt {
    pub(crate) const NONE: Self = Self([0; 4]);

    /// The salt for a xorb of which this is known.
    fn over(known: &[XorbRow]) -> Result<Self> {
        if !known.iter().any(XorbRow::is_swept) {
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

fn swept(hash: XorbHash) -> Error {
    Error::new(ErrorKind::Unavailable, format!("xorb {hash} was just swept: send it again"))
}

//! CAS: the content-addressed store that a push or a pull works on, a server or a local directory.
//!
//! *Contract.* Every call may be repeated: a second upload of the same thing is a success. An answer means durable: a
//! xorb or shard that was acknowledged is there after a crash. Calls may run at the same time. Implementations retry
//! what is worth retrying by themselves; an error that comes out is final, except [`ErrorKind::Expired`], after which
//! the caller requests a new URL.

mod connect;
pub mod http;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use xet::plan::PlanTerm;
use xet::wire::Reconstruction;
use xet::xorb::XorbInfo;
use xet::{ChunkHash, FileHash, XorbHash};

use crate::error::Result;
use crate::progress::Progress;

pub use connect::connect;
pub(crate) use connect::connect_with;

#[cfg(doc)]
use crate::ErrorKind;

/// A content-addressed store as a client sees it: over HTTP, or a folder on this machine.
#[async_trait]
pub trait Cas: Send + Sync + fmt::Debug {
    /// How a file, or a range of its bytes, is put together. `None` when the range starts at or past the end. A file
    /// that is not there is [`ErrorKind::NotFound`].
    async fn reconstruction(
        &self,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Option<Reconstruction>>;

    /// How several whole files are put together, at most [`BATCH_FILES_MAX`](xet::limits::BATCH_FILES_MAX), where the store answers
    /// that at once; else `None`. When one of them is not there, all of it is [`ErrorKind::NotFound`].
    async fn reconstructions(&self, _files: &[FileHash]) -> Result<Option<Batch>> {
        Ok(None)
    }

    /// Stored bytes of a xorb, from a URL of a reconstruction, as they arrive. A URL that is too old is
    /// [`ErrorKind::Expired`]: request the reconstruction again. The stream may end early with an error, never without;
    /// the rest of the range can then be requested.
    async fn fetch(&self, url: &str, stored: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>>;

    /// A shard, with its footer, that lists an eligible chunk and its neighbours; `None` when there is none.
    async fn dedup(&self, chunk: ChunkHash) -> Result<Option<Bytes>>;

    /// Stores a xorb. True when it was new.
    async fn put_xorb(&self, xorb: &Xorb) -> Result<bool>;

    /// Room for the stored chunks of a xorb that has no name yet, where the store can take them as they are made; else `None`,
    /// and they are kept in memory for [`put_xorb`](Self::put_xorb). Blocks, as its writes do.
    fn start_xorb(&self) -> Option<Box<dyn StreamingXorb>> {
        None
    }

    /// Registers a shard in upload form. Its xorbs must be stored. The progress of the server shows in `progress`.
    async fn put_shard(&self, shard: Bytes, progress: &Progress) -> Result<()>;

    /// The chunks of a file with their raw lengths, in order, where the store offers that; else `None`.
    async fn chunk_list(&self, file: FileHash) -> Result<Option<Vec<(ChunkHash, u32)>>>;
}

/// A xorb that is written while it is made. Dropped unfinished, it leaves nothing behind.
#[async_trait]
pub trait StreamingXorb: Send + fmt::Debug {
    /// Appends stored chunks. A failure is returned by [`finish`](Self::finish).
    fn write(&mut self, stored: &[u8]);

    /// Gives up, and gives the stored chunks back, to be a part of another xorb; itself, if it cannot. Blocks.
    fn reclaim(self: Box<Self>) -> std::result::Result<Vec<u8>, Box<dyn StreamingXorb>>;

    /// All stored chunks were written, and this is what they are. True when the xorb was new.
    async fn finish(self: Box<Self>, info: Arc<XorbInfo>) -> Result<bool>;
}

/// How several files are put together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Each file's terms, in the order asked.
    pub files: Vec<Vec<PlanTerm>>,
    /// Downloads for all of them; the terms are those of the files, one after another.
    pub fetches: Reconstruction,
}

/// A finished xorb on its way: what it holds, and the stored chunks without footer, in order. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Xorb {
    /// What it holds.
    pub info: Arc<XorbInfo>,
    /// The stored chunks of its chunks, one after another, in pieces of any size.
    pub chunks: Vec<Bytes>,
}

impl Xorb {
    /// Names the xorb.
    pub(crate) fn hash(&self) -> XorbHash {
        self.info.hash()
    }
}

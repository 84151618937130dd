//! Ingest: a xorb arrives, is proven while it arrives, and is stored once.
//!
//! Whatever form it has on the way, it is stored with a version 1 footer. The object is durable before the catalog
//! names it; of two uploads of one hash the first row wins, and the other object is for sweep to find.

use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use tokio::task::JoinHandle;
use xet::limits::XORB_STORED_BYTES_MAX;
use xet::xorb::{Form, XorbInfo, XorbScanner};
use xet::{FormatError, XorbHash};

use crate::Store;
use crate::access::Grant;
use crate::body::{self, BodyError, Segments};
use crate::catalog::rows::{XorbRow, XorbState};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::{Digest, ObjectKey, XorbKey};
use crate::workers::{Workers, join};

/// What became of an uploaded xorb. It is stored either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingested {
    /// Whether this upload stored it.
    pub was_inserted: bool,
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
        let _memory = self.memory.reserve(bytes_max).await;

        let mut scan = Scan::new(self.workers.clone(), hash);
        let mut segments = Vec::new();
        let mut arriving = Segments::new(&what, bytes_max, pieces);
        while let Some(segment) = arriving.next().await? {
            segments.push(segment.clone());
            scan.push(segment).await?;
        }
        let info = Arc::new(scan.finish().await?);
        let sealed = self.workers.run({
            let info = info.clone();
            move || Sealed::new(&info, segments)
        });
        self.keep(&info, sealed.await?).await
    }

    /// Takes in a xorb that this process has made itself, from chunks it has hashed: nothing is decompressed or hashed
    /// again, and all else is as in [`Store::ingest`]. `records` are its records, in order. Never for a stranger's bytes.
    pub async fn place(&self, grant: &Grant, info: Arc<XorbInfo>, records: Vec<Bytes>) -> Result<Ingested> {
        grant.expect_write()?;
        let (expected, found) =
            (info.stored_bytes(), records.iter().map(|part| part.len() as u64).sum::<u64>());
        if expected != found {
            let message = format!("xorb {}: {found} bytes of records, expected {expected}", info.hash());
            return Err(Error::new(ErrorKind::Internal, message));
        }
        let sealed = self.workers.run({
            let info = info.clone();
            move || Sealed::new(&info, records)
        });
        self.keep(&info, sealed.await?).await
    }

    /// Object first, row second.
    async fn keep(&self, info: &Arc<XorbInfo>, sealed: Sealed) -> Result<Ingested> {
        let now_s = self.clock.now_s();
        if !self.catalog.touch_xorbs(&[info.hash()], now_s).await?.is_empty() {
            return Ok(Ingested { was_inserted: false });
        }
        let key = XorbKey { hash: info.hash(), digest: sealed.digest };
        self.objects.put(&ObjectKey::Xorb(key), sealed.parts).await?;
        let row = XorbRow {
            key,
            object_bytes: sealed.object_bytes,
            raw_bytes: info.raw_bytes(),
            chunk_count: info.chunk_count(),
            state: XorbState::Live,
            created_s: now_s,
            referenced_s: now_s,
            verified_s: now_s,
        };
        let added = self.catalog.add_xorbs(&[row]).await?;
        let was_inserted = added.first().is_some_and(|added| added.was_inserted);
        if was_inserted {
            // Its shard comes next, and will ask.
            self.footers.remember(key, info.clone()).await;
        }
        Ok(Ingested { was_inserted })
    }
}

/// Verifies a xorb on the workers while the next segment arrives: at most one segment is with them.
struct Scan {
    workers: Workers,
    hash: XorbHash,
    /// `None` while the scanner is at work.
    scanner: Option<XorbScanner>,
    at_work: Option<JoinHandle<(XorbScanner, std::result::Result<(), FormatError>)>>,
}

impl Scan {
    fn new(workers: Workers, hash: XorbHash) -> Self {
        Self { workers, hash, scanner: Some(XorbScanner::new(Some(hash))), at_work: None }
    }

    async fn push(&mut self, segment: Bytes) -> Result<()> {
        let mut scanner = self.idle().await?;
        let work = move || {
            let pushed = scanner.push(&segment);
            (scanner, pushed)
        };
        self.at_work = Some(self.workers.start(work).await);
        Ok(())
    }

    /// What the xorb holds, now that all of it was pushed.
    async fn finish(mut self) -> Result<XorbInfo> {
        let scanner = self.idle().await?;
        let scanned = self.workers.run(|| scanner.finish()).await?;
        Ok(scanned.map_err(|source| self.refuse(source))?.info)
    }

    /// The scanner, once it has nothing to do.
    async fn idle(&mut self) -> Result<XorbScanner> {
        if let Some(scanner) = self.scanner.take() {
            return Ok(scanner);
        }
        let at_work = self.at_work.take().expect("a scanner is idle or at work");
        let (scanner, pushed) = join(at_work).await?;
        pushed.map_err(|source| self.refuse(source))?;
        Ok(scanner)
    }

    fn refuse(&self, source: FormatError) -> Error {
        Error::invalid(format!("xorb {}", self.hash), source)
    }
}

/// A xorb as it is stored.
struct Sealed {
    parts: Vec<Bytes>,
    object_bytes: u64,
    digest: Digest,
}

impl Sealed {
    /// The records as they came, and a footer of our own: the one that came may be old or carry a nonce.
    fn new(info: &XorbInfo, segments: Vec<Bytes>) -> Self {
        let mut left = info.stored_bytes();
        let mut parts = Vec::with_capacity(segments.len() + 1);
        for mut segment in segments {
            segment.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= segment.len() as u64;
            parts.push(segment);
        }
        let mut footer = Vec::new();
        info.encode_footer(Form::V1, &mut footer);
        let object_bytes = info.stored_bytes() + footer.len() as u64;
        parts.push(footer.into());
        let digest = Digest::of(parts.iter().map(|part| &**part));
        Self { parts, object_bytes, digest }
    }
}

//! A file of the hub as the source of a pack.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

use bytes::Bytes;
use futures::TryStreamExt as _;
use shardpack::Source;
use store::hub::{Item, RepoRow};
use store::{Grant, Store};
use tokio::runtime::Handle;
use xet::FileHash;
use xet::wire::ErrorCode;

use crate::http::error::ApiError;

/// Reads ranges of a file. Its calls wait, so they are for threads that may.
pub(super) struct HubSource {
    name: String,
    bytes: u64,
    /// Bytes that may still be read.
    left: AtomicU64,
    from: From,
    runtime: Handle,
}

enum From {
    /// What git has.
    Memory(Bytes),
    Store {
        store: Box<Store>,
        grant: Grant,
        file: FileHash,
    },
}

impl HubSource {
    /// The source of a file, of which no more than `read_bytes_max` are read.
    pub(super) async fn open(
        store: &Store,
        grant: Grant,
        repo: &RepoRow,
        item: &Item,
        read_bytes_max: u64,
    ) -> Result<Self, ApiError> {
        let from = match (&item.linked, &item.row) {
            (Some(linked), _) => From::Store { store: Box::new(store.clone()), grant, file: linked.file },
            (None, Some(row)) => From::Memory(store.hub().git_body(repo.id, row).await?),
            (None, None) => return Err(ApiError::new(ErrorCode::Corrupt, "the file's row is gone")),
        };
        let left = AtomicU64::new(read_bytes_max);
        Ok(Self { name: item.path.clone(), bytes: item.bytes, left, from, runtime: Handle::current() })
    }

    fn read(&self, range: Range<u64>, mut buffer: &mut [u8]) -> io::Result<()> {
        let mut put = |piece: &[u8]| {
            let (head, rest) = std::mem::take(&mut buffer)
                .split_at_mut_checked(piece.len())
                .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            head.copy_from_slice(piece);
            buffer = rest;
            Ok::<_, io::Error>(())
        };
        match &self.from {
            From::Memory(bytes) => {
                let span = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let piece = span.and_then(|(start, end)| bytes.get(start..end));
                put(piece.ok_or(io::ErrorKind::UnexpectedEof)?)?;
            }
            From::Store { store, grant, file } => self.runtime.block_on(async {
                let mut pieces =
                    store.content().read_file(grant, *file, range).await.map_err(io::Error::other)?;
                while let Some(piece) = pieces.try_next().await.map_err(io::Error::other)? {
                    put(&piece)?;
                }
                Ok::<_, io::Error>(())
            })?,
        }
        if buffer.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Source for HubSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let needed = buffer.len() as u64;
        let spend = |left: u64| left.checked_sub(needed);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
            return Err(io::Error::other("more would have to be read of it than a page may"));
        }
        let end = offset.checked_add(needed).filter(|end| *end <= self.bytes);
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if needed == 0 { Ok(()) } else { self.read(offset..end, buffer) }
    }
}

impl fmt::Debug for HubSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubSource")
            .field("name", &self.name)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

//! A file in a hub, read by ranges: for file objects, and for packs that stay where they are.

mod block_cache;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use client::hub::{Entry, RepoPath, download};
use client::pull::Puller;
use client::{Error, ErrorKind, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use self::block_cache::BlockCache;
use crate::connection::Connection;
use crate::process::{ForkSafe, runtime, wait};

/// A file of a repository, as it was when it was opened.
#[pyclass(frozen, module = "drystone")]
#[derive(Debug, Clone)]
pub(crate) struct RemoteFile {
    inner: Arc<Opened>,
}

#[derive(Debug)]
struct Opened {
    client: Arc<Connection>,
    /// Its revision is a commit, so what is read does not change.
    place: RepoPath,
    entry: Entry,
    name: String,
    puller: ForkSafe<Puller>,
    /// For packs, and clients with a cache.
    blocks: Option<BlockCache>,
}

impl RemoteFile {
    pub(crate) async fn find(client: &Arc<Connection>, place: RepoPath, is_pack: bool) -> Result<Self> {
        let name = place.to_string();
        let hub = client.hub()?;
        let commit = hub.commit_id(&place.repo, place.revision()).await?;
        let entry = hub.entry(&place.repo, &commit, place.path.as_deref().unwrap_or_default()).await?;
        if entry.is_folder {
            return Err(Error::new(ErrorKind::Invalid, format!("{name}: is a folder; name a file in it")));
        }
        let blocks = match (entry.xet, &client.cache_dir) {
            (Some(hash), Some(folder)) if is_pack => {
                let folder = folder.join("packs");
                let opened = BlockCache::open(&folder, &hash.to_string(), entry.bytes, client.cache_bytes);
                opened.map_err(|error| Error::io(&folder, error))?
            }
            _ => None,
        };
        let (client, place) = (Arc::clone(client), RepoPath { revision: Some(commit), ..place });
        let puller = ForkSafe::new();
        Ok(Self { inner: Arc::new(Opened { client, place, entry, name, puller, blocks }) })
    }

    /// Fills `out` with bytes from the beginning of `range`, which is not longer.
    async fn read_into(&self, range: Range<u64>, mut out: &mut [u8]) -> Result<()> {
        let Opened { client, place, entry, name, puller, blocks } = &*self.inner;
        let hub = client.hub()?;
        let requested = range.end - range.start;
        let read = match entry.xet {
            Some(file) => {
                let puller = match puller.existing() {
                    Some(puller) => puller,
                    None => {
                        // Files with a block cache need no chunk cache.
                        let options = client.pull_options(blocks.is_none())?;
                        let made = download::puller(&hub, &place.repo, place.revision(), options).await?;
                        puller.get_or_init(|| Ok::<_, Error>(made))?
                    }
                };
                puller.stream(file, range, &mut out).await?
            }
            None => download::cat(&hub, place, range, client.pull_options(true)?, &mut out).await?,
        };
        if read != requested {
            let message = format!("{name}: {requested} bytes were requested, {read} came");
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(())
    }

    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let range = range.start.min(self.inner.entry.bytes)..range.end.min(self.inner.entry.bytes);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| Error::new(ErrorKind::Invalid, "more bytes than this machine can hold"))?;
        let mut bytes = vec![0; len];
        self.read_into(range, &mut bytes).await?;
        Ok(bytes)
    }
}

impl RemoteFile {
    /// [`read_into`](Self::read_into), by way of the blocks on this disk.
    async fn read_cached(&self, range: Range<u64>, out: &mut [u8], refetch: bool) -> Result<()> {
        let Some(blocks) = &self.inner.blocks else { return self.read_into(range, out).await };
        let gaps = if refetch { vec![blocks.blocks_of(&range)] } else { blocks.missing(&range) };
        for gap in gaps {
            let bytes = self.read(gap.clone()).await?;
            blocks.write(gap.start, &bytes).map_err(|error| Error::io(Path::new(&self.inner.name), error))?;
        }
        blocks.read_at(range.start, out).map_err(|error| Error::io(Path::new(&self.inner.name), error))
    }

    fn read_at_with(&self, offset: u64, buffer: &mut [u8], refetch: bool) -> io::Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.inner.entry.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buffer.is_empty() {
            return Ok(());
        }
        // What is on this disk needs no runtime.
        match &self.inner.blocks {
            Some(blocks) if !refetch && blocks.missing(&(offset..end)).is_empty() => {
                blocks.read_at(offset, buffer)
            }
            _ => runtime()?.block_on(self.read_cached(offset..end, buffer, refetch)).map_err(to_io),
        }
    }
}

#[pymethods]
impl RemoteFile {
    /// Its length.
    #[getter]
    fn size(&self) -> u64 {
        self.inner.entry.bytes
    }

    /// Repository, revision and path, as they were given.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The bytes from `start` to before `stop`, or to the end of the file where that comes first.
    fn read_range<'py>(&self, py: Python<'py>, start: u64, stop: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = wait(py, &Arc::default(), None, async || self.read(start..stop.max(start)).await)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __repr__(&self) -> String {
        format!("<drystone.RemoteFile {:?}, {} B>", self.inner.name, self.inner.entry.bytes)
    }
}

/// A pack that stays in the hub.
impl shardpack::Source for RemoteFile {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.inner.entry.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_at_with(offset, buffer, false)
    }

    fn read_again(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_at_with(offset, buffer, true)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let reads = ranges.iter().map(|range| {
            let range = range.start..range.end.max(range.start);
            async move {
                if range.end > self.inner.entry.bytes {
                    return Err(Error::new(ErrorKind::Invalid, "the range reaches beyond the end"));
                }
                // No longer than the file.
                let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
                if !range.is_empty() {
                    self.read_cached(range, &mut bytes, false).await?;
                }
                Ok(bytes)
            }
        });
        let reads = futures::stream::iter(reads).buffered(RANGES_AT_ONCE).try_collect();
        runtime()?.block_on(reads).map_err(to_io)
    }
}

/// Prefix that tells addresses in a hub from local paths.
pub(crate) const SCHEME: &str = "drystone://";

/// The packs that `NAMESPACE/NAME[@REVISION]/PATH` names: braces in it are expanded, and a folder stands for the packs in it.
pub(crate) fn packs(
    client: &Arc<Connection>,
    text: &str,
) -> std::result::Result<Vec<Arc<dyn shardpack::Source>>, shardpack::Error> {
    let find = |text: String| async move {
        let place = place_of(&text)?;
        let path = place.path.clone().unwrap_or_default();
        if path.ends_with(".shardpack") {
            return Ok(vec![RemoteFile::find(client, place, true).await?]);
        }
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let hub = client.hub()?;
            let folder = path.trim_end_matches('/');
            let page = hub.tree(&place.repo, place.revision(), folder, false, next.as_deref()).await?;
            for entry in page.entries.into_iter().filter(|entry| entry.path.ends_with(".shardpack")) {
                found.push(
                    RemoteFile::find(client, RepoPath { path: Some(entry.path), ..place.clone() }, true)
                        .await?,
                );
            }
            next = page.next;
            if next.is_none() {
                return Ok(found);
            }
        }
    };
    let found = futures::stream::iter(shardpack::set::expand_braces(text)?.into_iter().map(find));
    let found = found.buffered(RANGES_AT_ONCE).try_collect::<Vec<_>>();
    let found = runtime()?.block_on(found).map_err(to_io)?;
    Ok(found.into_iter().flatten().map(|file| Arc::new(file) as _).collect())
}

/// `[datasets/]NAMESPACE/NAME[@REVISION]/PATH` as a place.
fn place_of(text: &str) -> Result<RepoPath> {
    let names =
        if ["datasets/", "models/", "spaces/"].iter().any(|kind| text.starts_with(kind)) { 3 } else { 2 };
    let mut parts = text.splitn(names + 1, '/');
    let repo: Vec<_> = parts.by_ref().take(names).collect();
    let path = parts.next().map_or(String::new(), |path| format!(":{path}"));
    format!("{}{path}", repo.join("/")).parse()
}

fn to_io(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::Denied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Ranges of a batch that are fetched at the same time.
const RANGES_AT_ONCE: usize = 16;

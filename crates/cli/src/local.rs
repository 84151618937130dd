//! A store in a folder of this machine, as a client sees it: no server, no sockets, the same objects and rows.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use client::cas::{Batch, Cas, StreamingXorb, Xorb};
use client::{Error, ErrorKind, Progress, Result};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use server::{DataDir, OpenStore, Opening, Secret, ServeConfig};
use store::content::Planned;
use store::{Grant, GrowingXorb, ObjectKey, Scope, Store};
use tokio::runtime::Handle;
use xet::plan::Plan;
use xet::wire::{Reconstruction, ReconstructionV2};
use xet::xorb::XorbInfo;
use xet::{ChunkHash, FileHash};

/// A store directory, opened for one repository.
pub(crate) struct LocalCas {
    store: Store,
    grant: Grant,
    runtime: Handle,
}

impl fmt::Debug for LocalCas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCas").field("objects", self.store.objects()).finish_non_exhaustive()
    }
}

impl LocalCas {
    /// Opens the data folder of a server, which need not run. Objects and catalog are in it unless they are elsewhere.
    pub(crate) async fn open(
        folder: &Path,
        objects: Option<&str>,
        catalog: Option<&str>,
        scope: Scope,
        opening: Opening,
    ) -> Result<Self> {
        let data_dir = DataDir::new(folder);
        let secret = |url: Option<&str>| url.map(|url| Secret::new(url.to_owned()));
        let config =
            ServeConfig { objects: secret(objects), catalog: secret(catalog), ..ServeConfig::default() };
        let OpenStore { objects, catalog, .. } =
            data_dir.open_parts(&config, opening).await.map_err(translate)?;
        let keys = data_dir.keys_or_new().map_err(|error| Error::io(folder, error))?;
        let store = DataDir::store(&config, &keys, objects, catalog);
        Ok(Self { store, grant: Grant::write(scope), runtime: Handle::current() })
    }
}

#[async_trait]
impl Cas for LocalCas {
    async fn reconstruction(
        &self,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Option<Reconstruction>> {
        let planned = match self.store.content().plan(&self.grant, file, range).await.map_err(translate)? {
            Planned::Covered(planned) => planned,
            Planned::PastEnd { .. } => return Ok(None),
        };
        // The object's own key is the URL: only `fetch` below reads it. One for each fetch, in the plan's order.
        let mut keys = planned.keys.iter();
        let v2 = ReconstructionV2::from_plan(&planned.plan, usize::MAX, |_, _| {
            keys.next().map_or_else(String::new, |key| ObjectKey::Xorb(*key).to_string())
        });
        v2.try_into().map(Some).map_err(|source| Error::invalid(format!("file {file}"), source))
    }

    async fn fetch(&self, url: &str, stored: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let key: ObjectKey = url.parse().map_err(translate)?;
        let pieces = self.store.objects().stream_once(&key, stored).await.map_err(translate)?;
        Ok(pieces.map(|piece| piece.map_err(translate)).boxed())
    }

    async fn dedup(&self, chunk: ChunkHash) -> Result<Option<Bytes>> {
        self.store.content().dedup(&self.grant, chunk).await.map_err(translate)
    }

    async fn put_xorb(&self, xorb: &Xorb) -> Result<bool> {
        let inserted =
            self.store.content().put_own_xorb(&self.grant, xorb.info.clone(), xorb.chunks.clone()).await;
        Ok(inserted.map_err(translate)?.was_inserted)
    }

    fn start_xorb(&self) -> Option<Box<dyn StreamingXorb>> {
        let xorb = self.store.content().grow(self.runtime.clone())?;
        Some(Box::new(LocalGrowing { store: self.store.clone(), grant: self.grant.clone(), xorb }))
    }

    async fn put_shard(&self, shard: Bytes, _progress: &Progress) -> Result<()> {
        let (bytes, progress) = (shard.len() as u64, store::content::Progress::default());
        let body = stream::iter([Ok(shard)]);
        self.store
            .content()
            .register(&self.grant, Some(bytes), body, &progress)
            .await
            .map(|_| ())
            .map_err(translate)
    }

    async fn reconstructions(&self, files: &[FileHash]) -> Result<Option<Batch>> {
        let planned = self.store.content().plan_batch(&self.grant, files).await.map_err(translate)?;
        let split: Vec<_> = planned.plan.files.iter().map(|(_, terms)| terms.clone()).collect();
        let plan = Plan { offset_into_first_range: 0, terms: split.concat(), fetches: planned.plan.fetches };
        let mut keys = planned.keys.iter();
        let v2 = ReconstructionV2::from_plan(&plan, usize::MAX, |_, _| {
            keys.next().map_or_else(String::new, |key| ObjectKey::Xorb(*key).to_string())
        });
        let fetches = v2.try_into().map_err(|source| Error::invalid("a batch of files", source))?;
        Ok(Some(Batch { files: split, fetches }))
    }

    async fn chunk_list(&self, file: FileHash) -> Result<Option<Vec<(ChunkHash, u32)>>> {
        match self.store.content().chunk_list(&self.grant, file, 0, usize::MAX).await {
            Ok(chunks) => Ok(Some(chunks)),
            Err(error) if error.kind() == store::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(translate(error)),
        }
    }
}

/// A xorb that is written while it is built.
#[derive(Debug)]
struct LocalGrowing {
    store: Store,
    grant: Grant,
    xorb: Box<GrowingXorb>,
}

#[async_trait]
impl StreamingXorb for LocalGrowing {
    fn write(&mut self, stored: &[u8]) {
        self.xorb.write(stored);
    }

    fn reclaim(self: Box<Self>) -> std::result::Result<Vec<u8>, Box<dyn StreamingXorb>> {
        let Self { store, grant, xorb } = *self;
        xorb.take_back().map_err(|xorb| Box::new(Self { store, grant, xorb }) as Box<dyn StreamingXorb>)
    }

    async fn finish(self: Box<Self>, info: Arc<XorbInfo>) -> Result<bool> {
        let inserted = self.store.content().put_own_xorb(&self.grant, info, self.xorb).await;
        Ok(inserted.map_err(translate)?.was_inserted)
    }
}

/// A folder's error, as a client tells it.
fn translate(error: store::Error) -> Error {
    let kind = match error.kind() {
        store::ErrorKind::Corrupt => ErrorKind::Corrupt,
        store::ErrorKind::Denied => ErrorKind::Denied,
        store::ErrorKind::Invalid => ErrorKind::Invalid,
        store::ErrorKind::NotFound => ErrorKind::NotFound,
        store::ErrorKind::Conflict | store::ErrorKind::Unavailable => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    };
    Error::caused(kind, "store", error)
}

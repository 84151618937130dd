//! A server in this process, on a folder and a port of its own.

use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use client::cas::http::{HttpCas, HttpOptions};
use client::cas::{Cas, Xorb};
use client::push::{PushOptions, Pushed};
use client::retry::RetryPolicy;
use client::token::{Token, Tokens};
use client::{Error, ErrorKind, Progress, Result};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use server::Origin;
use server::{AppState, Claims, DataDir, Key, KeyRing, ServeConfig};
use tempfile::TempDir;
use testkit::origin::{ORIGIN, add_origin};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use xet::wire::Reconstruction;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;
use xet::xorb::{ChunkDecoder, ChunkReader};
use xet::{ChunkHash, FileHash};

pub(crate) struct Hub {
    pub(crate) address: SocketAddr,
    folder: TempDir,
    state: AppState,
    serving: JoinHandle<()>,
}

impl Hub {
    pub(crate) async fn start() -> Self {
        Self::start_as(server::app).await
    }

    /// A server that knows no version 2 of anything, nor what only ours know.
    pub(crate) async fn start_old() -> Self {
        let gone = || axum::routing::any(async || axum::http::StatusCode::NOT_FOUND);
        let old = |state| {
            let routes =
                axum::Router::new().route("/v2/{*rest}", gone()).route("/v1/drystone/{*rest}", gone());
            routes.route("/v1/reconstructions", gone()).fallback_service(server::app(state))
        };
        Self::start_as(old).await
    }

    async fn start_as(app: impl FnOnce(AppState) -> axum::Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (config, keys) = (ServeConfig::default(), KeyRing::new(Key::new([7; 32])));
        let store = DataDir::new(&folder.path().join("data")).open(&config, &keys).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = AppState::new(config, &keys, address).with_store(store.clone());
        add_origin(store.catalog()).await;
        let app = app(state.clone());
        let serving = tokio::spawn({
            let state = state.clone();
            async move {
                server::serve(listener, app, &state, std::future::pending()).await.unwrap();
            }
        });
        Self { address, folder, state, serving }
    }

    pub(crate) fn token(&self, scope: TokenScope) -> Token {
        let repo = RepoName { kind: RepoKind::Model, namespace: "ann".into(), name: "a".into() };
        let claims = Claims::new("ann", Origin::Token(ORIGIN.into()), scope, repo, self.state.now_s(), 3600);
        Token::new(self.state.cas_tokens().issue(&claims).token.expose().clone())
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn cas(&self) -> Arc<dyn Cas> {
        Arc::new(self.cas_at(&format!("http://{}", self.address), quick()))
    }

    pub(crate) fn cas_at(&self, url: &str, options: HttpOptions) -> HttpCas {
        let tokens = Arc::new(Tokens::fixed(self.token(TokenScope::Write)));
        HttpCas::new(url, Some(tokens), options).unwrap()
    }

    pub(crate) fn options(&self) -> PushOptions {
        PushOptions { cache: Some(self.folder.path().join("cache")), ..PushOptions::default() }
    }

    /// Writes files and tells where they are.
    pub(crate) fn write(&self, data: &[Vec<u8>]) -> Vec<PathBuf> {
        let folder = self.folder.path().join("files");
        fs::create_dir_all(&folder).unwrap();
        let write = |(n, data): (usize, &Vec<u8>)| {
            let path = folder.join(n.to_string());
            fs::write(&path, data).unwrap();
            path
        };
        data.iter().enumerate().map(write).collect()
    }

    pub(crate) async fn push(&self, paths: &[PathBuf], options: PushOptions) -> Result<Pushed> {
        client::push::push(self.cas(), paths.to_vec(), options, Progress::default().into()).await
    }

    /// A file as any client would get it: planned, fetched, decompressed.
    pub(crate) async fn read(&self, file: FileHash) -> Vec<u8> {
        read(&*self.cas(), file).await
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn read(cas: &dyn Cas, file: FileHash) -> Vec<u8> {
    let found = cas.reconstruction(file, None).await.unwrap().unwrap();
    let mut out = Vec::new();
    let mut decoder = ChunkDecoder::new();
    for term in &found.terms {
        let (url, range) = found.find(term).unwrap();
        let mut pieces = cas.fetch(url, range.stored_bytes.clone()).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let mut reader = ChunkReader::new(&bytes, 0, &mut decoder);
        let mut number = range.chunks.start;
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if term.chunks.contains(&number) {
                out.extend_from_slice(chunk.raw);
            }
            number += 1;
        }
    }
    out
}

/// Waits that suit a test: soon done, and long enough for a loaded machine.
pub(crate) fn quick() -> HttpOptions {
    let retry = RetryPolicy { wait: Duration::from_millis(20), ..RetryPolicy::default() };
    HttpOptions { retry, ..HttpOptions::default() }
}

/// Files below a folder.
pub(crate) fn files_of(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let count = |entry: fs::DirEntry| if entry.path().is_dir() { files_of(&entry.path()) } else { 1 };
    entries.map(|entry| count(entry.unwrap())).sum()
}

/// A store that accepts a few xorbs and then refuses everything, like a client that is killed.
#[derive(Debug)]
pub(crate) struct Dying {
    cas: Arc<dyn Cas>,
    left: AtomicU64,
}

impl Dying {
    pub(crate) fn after_xorbs(cas: Arc<dyn Cas>, xorbs: u64) -> Arc<Self> {
        Arc::new(Self { cas, left: AtomicU64::new(xorbs) })
    }
}

#[async_trait]
impl Cas for Dying {
    async fn reconstruction(
        &self,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Option<Reconstruction>> {
        self.cas.reconstruction(file, range).await
    }

    async fn fetch(&self, url: &str, stored: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.cas.fetch(url, stored).await
    }

    async fn dedup(&self, chunk: ChunkHash) -> Result<Option<Bytes>> {
        self.cas.dedup(chunk).await
    }

    async fn put_xorb(&self, xorb: &Xorb) -> Result<bool> {
        let stored = self.cas.put_xorb(xorb).await?;
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Ok(stored),
            Err(_) => Err(Error::new(ErrorKind::Denied, "killed")),
        }
    }

    async fn put_shard(&self, _shard: Bytes, _progress: &Progress) -> Result<()> {
        Err(Error::new(ErrorKind::Denied, "killed"))
    }

    async fn chunk_list(&self, file: FileHash) -> Result<Option<Vec<(ChunkHash, u32)>>> {
        self.cas.chunk_list(file).await
    }
}

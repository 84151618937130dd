//! A server on a real socket, over a store that fails on demand, and clients for it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::local::LocalFileSystem;
use server::{AppState, Claims, Key, KeyRing, Origin, ServeConfig, StreamTiming};
use store::clock::SystemClock;
use store::upkeep::Counts;
use store::{Catalog, DedupOptions, Objects, Options, Store};
use tempfile::TempDir;
use testkit::corpus;
use testkit::faulty::{Faults, FaultyObjects, faulty_catalog};
use testkit::http::Http;
use testkit::origin::{ORIGIN, add_origin};
use testkit::upload::{Cas, Upload};
use tokio::runtime::Runtime;
use xet::compress::Policy;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;

/// A running server. Everything in it ends when it is dropped.
pub(crate) struct Hub {
    pub(crate) state: AppState,
    pub(crate) faults: Faults,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) store: Store,
    pub(crate) http: Http,
    // Before the folder: what runs must not outlive it.
    runtime: Option<Runtime>,
    folder: TempDir,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self::with(|_| {}, StreamTiming::default())
    }

    /// A server with some settings changed.
    pub(crate) fn with(change: impl FnOnce(&mut ServeConfig), timing: StreamTiming) -> Self {
        let mut config = ServeConfig::default();
        change(&mut config);
        let folder = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let catalog = runtime.block_on(Catalog::open_file(&folder.path().join("catalog.db"))).unwrap();
        let catalog: Arc<Catalog> = Arc::new(catalog);
        runtime.block_on(add_origin(&catalog));
        let objects = folder.path().join("objects");
        std::fs::create_dir_all(&objects).unwrap();
        let faults = Faults::default();
        let local = Arc::new(LocalFileSystem::new_with_prefix(objects).unwrap());
        let objects = Objects::new(Arc::new(FaultyObjects::new(local, faults.clone())));
        let faulty = faulty_catalog(&catalog, &faults);
        let options = Options {
            body_bytes_max: config.limits.memory_bytes,
            dedup: DedupOptions { secret: [9; 32], ..DedupOptions::default() },
            ..Options::default()
        };
        let store = Store::new(objects, faulty, Arc::new(SystemClock), &options);
        let keys = KeyRing::new(Key::new([7; 32]));
        let state = AppState::new(config, &keys, listener.local_addr().unwrap())
            .with_store(store.clone())
            .with_stream_timing(timing);
        let served = state.clone();
        runtime.spawn(async move {
            let app = server::app(served.clone());
            server::serve(listener, app, &served, std::future::pending()).await
        });
        let http = Http::new(&state.base_url);
        Self { state, faults, catalog, store, http, runtime: Some(runtime), folder }
    }

    pub(crate) fn claims(&self, scope: TokenScope, name: &str, ttl_s: u64) -> Claims {
        let repo = RepoName { kind: RepoKind::Model, namespace: "ann".into(), name: name.into() };
        Claims::new("ann", Origin::Token(ORIGIN.into()), scope, repo, self.state.now_s(), ttl_s)
    }

    pub(crate) fn token(&self, scope: TokenScope, name: &str) -> String {
        self.state.cas_tokens().issue(&self.claims(scope, name, 3600)).token.expose().clone()
    }

    /// A client that may write to this repository.
    pub(crate) fn cas(&self, name: &str) -> Cas {
        Cas::new(&self.state.base_url, &self.token(TokenScope::Write, name))
    }

    /// All that is stored: rows, and files with their lengths, also those that are no objects.
    pub(crate) fn stored(&self) -> (Counts, Vec<(String, u64)>) {
        let mut files = Vec::new();
        walk(&self.folder.path().join("objects"), &mut files);
        files.sort();
        (self.block_on(store::testing::counts(&self.catalog)).unwrap(), files)
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(work)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.faults.disarm();
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(10));
    }
}

fn walk(folder: &Path, files: &mut Vec<(String, u64)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path(), files),
            false => files.push((entry.path().display().to_string(), entry.metadata().unwrap().len())),
        }
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Files of several kinds, and what a client sends for them.
pub(crate) fn sample(seed: u64) -> (Vec<Vec<u8>>, Upload) {
    let data = vec![
        corpus::noise(seed, 300_000),
        corpus::text(seed + 1, 200_000),
        Vec::new(),
        corpus::text(seed + 2, 100),
    ];
    let files: Vec<_> = data.iter().map(Vec::as_slice).collect();
    let upload = Upload::of(&files, 3, Policy::Auto);
    (data, upload)
}

//! Pulls from the real server, over HTTP and through a network that misbehaves.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::cas::http::{HttpCas, HttpOptions};
use client::pull::{FileRequest, Patience, PullOptions, Puller};
use client::push::PushOptions;
use client::retry::RetryPolicy;
use client::token::{Token, Tokens};
use client::{Cas, ErrorKind, Progress};
use server::Origin;
use server::{AppState, Claims, DataDir, Key, KeyRing, ServeConfig};
use tempfile::TempDir;
use testkit::corpus::noise;
use testkit::origin::{ORIGIN, add_origin};
use testkit::proxy::{Fault, Proxy, Way};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use xet::FileHash;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;

/// A server whose every byte, data URLs included, goes through a proxy.
struct Hub {
    proxy: Proxy,
    state: AppState,
    folder: TempDir,
    serving: JoinHandle<()>,
}

impl Hub {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (config, keys) = (ServeConfig::default(), KeyRing::new(Key::new([7; 32])));
        let store = DataDir::new(&folder.path().join("data")).open(&config, &keys).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let seen_at = proxy.url().strip_prefix("http://").unwrap().parse().unwrap();
        let state = AppState::new(config, &keys, seen_at).with_store(store.clone());
        add_origin(store.catalog()).await;
        let serving = tokio::spawn({
            let state = state.clone();
            async move {
                let app = server::app(state.clone());
                server::serve(listener, app, &state, std::future::pending()).await.unwrap();
            }
        });
        Self { proxy, state, folder, serving }
    }

    /// A client of its own, with connections of its own.
    fn cas(&self, repo: &str, scope: TokenScope) -> Arc<dyn Cas> {
        let repo = RepoName { kind: RepoKind::Model, namespace: "ann".into(), name: repo.into() };
        let claims = Claims::new("ann", Origin::Token(ORIGIN.into()), scope, repo, self.state.now_s(), 3600);
        let token = Token::new(self.state.cas_tokens().issue(&claims).token.expose().clone());
        let retry = RetryPolicy { wait: Duration::from_millis(20), ..RetryPolicy::default() };
        let options = HttpOptions { retry, answer_timeout: Duration::from_secs(3), ..HttpOptions::default() };
        Arc::new(HttpCas::new(&self.proxy.url(), Some(Arc::new(Tokens::fixed(token))), options).unwrap())
    }

    fn puller(&self) -> Puller {
        let patience = Patience {
            hedge_after: Duration::from_millis(500),
            stall_after: Duration::from_secs(2),
            ..Patience::default()
        };
        let deadline = Some(Duration::from_secs(120));
        let options = PullOptions { patience, deadline, sync: false, reuse: false, ..PullOptions::default() };
        Puller::new(self.cas("a", TokenScope::Read), options)
    }

    async fn push(&self, data: &[Vec<u8>]) -> Vec<FileHash> {
        let folder = self.folder.path().join("in");
        fs::create_dir_all(&folder).unwrap();
        let write = |(n, data): (usize, &Vec<u8>)| -> PathBuf {
            let path = folder.join(n.to_string());
            fs::write(&path, data).unwrap();
            path
        };
        let paths = data.iter().enumerate().map(write).collect();
        let cas = self.cas("a", TokenScope::Write);
        let pushed = client::push::push(cas, paths, PushOptions::default(), Progress::default().into()).await;
        pushed.unwrap().files.iter().map(|file| file.hash).collect()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_comes_back_alone_and_together() {
    let hub = Hub::start().await;
    let mut data: Vec<_> = [0, 1, 8191, 131_073, 9_000_000].map(|size| noise(size as u64, size)).into();
    data.extend((100..400).map(|n| noise(n, 20_000 + n as usize)));
    let hashes = hub.push(&data).await;
    let puller = hub.puller();
    for (n, hash) in hashes.iter().enumerate().take(5) {
        let request = FileRequest::new(*hash, hub.at(&format!("out-{n}")));
        puller.file(&request).await.unwrap();
        assert!(fs::read(&request.target).unwrap() == data[n], "{n}");
    }
    let root = hub.at("many");
    let requests: Vec<_> = hashes
        .iter()
        .enumerate()
        .map(|(n, hash)| FileRequest::new(*hash, root.join(n.to_string())))
        .collect();
    puller.files(&requests, &root, &mut |_, result| assert!(result.is_ok(), "{result:?}")).await.unwrap();
    for (request, data) in requests.iter().zip(&data) {
        assert!(fs::read(&request.target).unwrap() == *data);
    }
    let mut out = Vec::new();
    puller.stream(hashes[4], 4_000_000..4_000_500, &mut out).await.unwrap();
    assert!(out == data[4][4_000_000..4_000_500]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chunk_list_is_that_of_the_file_and_for_its_readers() {
    let hub = Hub::start().await;
    let data = noise(1, 5_000_000);
    let file = hub.push(std::slice::from_ref(&data)).await[0];
    let list = hub.cas("a", TokenScope::Read).chunk_list(file).await.unwrap().unwrap();
    assert_eq!(xet::merkle::file_hash(list.iter().map(|(hash, bytes)| (*hash, u64::from(*bytes)))), file);
    assert_eq!(list.len(), xet::chunk::cut(&data).len());
    assert_eq!(hub.cas("another", TokenScope::Read).chunk_list(file).await.unwrap(), None);
    assert_eq!(hub.cas("a", TokenScope::Read).chunk_list(FileHash::ZERO).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_version_saves_the_wire() {
    let hub = Hub::start().await;
    let old = noise(2, 8_000_000);
    let mut new = old.clone();
    new.splice(3_000_000..3_000_000, noise(3, 500));
    let hashes = hub.push(&[old.clone(), new.clone()]).await;
    let target = hub.at("file");
    fs::write(&target, &old).unwrap();
    let before = hub.proxy.bytes(Way::Down);
    let puller =
        Puller::new(hub.cas("a", TokenScope::Read), PullOptions { sync: false, ..PullOptions::default() });
    puller.file(&FileRequest::new(hashes[1], &target)).await.unwrap();
    assert!(fs::read(&target).unwrap() == new);
    let wire = hub.proxy.bytes(Way::Down) - before;
    assert!(wire < 500_000, "{wire}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_network_ends_in_the_right_file_or_a_clear_error() {
    let hub = Hub::start().await;
    let data = noise(4, 12_000_000);
    let file = hub.push(std::slice::from_ref(&data)).await[0];
    let down = Way::Down;
    let mut succeeded = 0;
    let cases: Vec<[Fault; 2]> = vec![
        [Fault::Cut(down, 0), Fault::Cut(down, 3_000_000)],
        [Fault::Cut(down, 5_000_000), Fault::Cut(down, 70_000)],
        [Fault::Stall(down, 0), Fault::Stall(down, 2_000_000)],
        [Fault::Corrupt(down, 4_000_000), Fault::Corrupt(down, 300)],
        [Fault::Clean, Fault::Corrupt(down, 6_000_000)],
        [Fault::Status(429, 1), Fault::Status(500, 1)],
        [Fault::Status(503, 1), Fault::Status(403, 1)],
        [Fault::Clean, Fault::Status(403, 1)],
        [Fault::Refuse, Fault::Refuse],
        [Fault::Slow(down, 4_000_000), Fault::Slow(down, 300)],
    ];
    let count = cases.len();
    for faults in cases {
        let target = hub.at("file");
        fs::write(&target, "old").unwrap();
        hub.proxy.plan(faults);
        let request = FileRequest::new(file, &target);
        match hub.puller().file(&request).await {
            Ok(_) => {
                succeeded += 1;
                assert!(fs::read(&target).unwrap() == data, "{faults:?}");
            }
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Internal, "{faults:?}: {error}");
                assert_eq!(fs::read(&target).unwrap(), b"old", "{faults:?}: {error}");
                clear(&hub.proxy).await;
                hub.puller().file(&request).await.unwrap();
                assert!(fs::read(&target).unwrap() == data, "{faults:?}");
            }
        }
        clear(&hub.proxy).await;
        assert_eq!(parts(hub.folder.path()), 0, "{faults:?}");
    }
    assert!(succeeded >= count - 3, "only {succeeded} of {count}");
}

/// Spends the faults nobody met.
async fn clear(proxy: &Proxy) {
    while proxy.planned() > 0 {
        let address = proxy.url().strip_prefix("http://").unwrap().to_owned();
        drop(tokio::net::TcpStream::connect(address).await.unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn parts(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".part")).count()
}

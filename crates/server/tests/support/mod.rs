//! Servers over every kind of objects and catalog, and what tests do with them.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use server::{
    AppState, Claims, DataDir, DataUrlPolicy, DataUrls, DedupPolicy, Key, KeyRing, Origin, ServeConfig,
};
use store::upkeep::Counts;
use store::{Catalog, Objects, Store};
use tempfile::TempDir;
use testkit::Vectors;
use testkit::origin::{ORIGIN, add_origin};
use testkit::postgres::Postgres;
use testkit::s3::S3;
use tower::ServiceExt as _;
use xet::compress::Policy;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;
use xet::wire::{ErrorBody, Reconstruction, ReconstructionV2, XorbUploaded, parse_json};
use xet::xorb::{ChunkDecoder, ChunkReader, Form, SealedXorb, XorbBuilder};
use xet::{ChunkHash, XorbHash};

/// The servers that objects and catalogs are stored on; gone when dropped.
pub(crate) struct Backends {
    pub(crate) s3: S3,
    /// `None` where PostgreSQL is not installed.
    pub(crate) postgres: Option<Postgres>,
}

/// One kind of objects with one kind of catalog, and where clients fetch from.
pub(crate) struct Backend<'a> {
    places: &'a Backends,
    in_bucket: bool,
    in_postgres: bool,
    data_urls: DataUrlPolicy,
}

impl Backends {
    pub(crate) fn start() -> Self {
        Self { s3: S3::start(), postgres: Postgres::start() }
    }

    /// Every place there is, one after another; a failed test shows which it was in. Tests of another S3 server than
    /// ours leave the folder out.
    pub(crate) fn all(&self) -> impl Iterator<Item = Backend<'_>> {
        use DataUrlPolicy::{Bucket, Server};
        let kinds = [(false, Server), (true, Server), (true, Bucket)];
        let place = move |(in_bucket, data_urls), in_postgres| Backend {
            places: self,
            in_bucket,
            in_postgres,
            data_urls,
        };
        let all = kinds.into_iter().flat_map(move |kind| [place(kind, false), place(kind, true)]);
        let bytes_max = all.filter(move |place| self.postgres.is_some() || !place.in_postgres);
        bytes_max.filter(move |place| self.s3.is_ours() || place.in_bucket).inspect(|place| {
            let objects = if place.in_bucket { "bucket" } else { "folder" };
            let catalog = if place.in_postgres { "PostgreSQL" } else { "SQLite" };
            println!("objects in a {objects}, catalog in {catalog}, data from {:?}", place.data_urls);
        })
    }
}

impl Backend<'_> {
    /// A new server on nothing.
    pub(crate) async fn hub(&self) -> Hub {
        self.hub_with(ServeConfig::default().dedup).await
    }

    /// The same with another dedup policy.
    pub(crate) async fn hub_with(&self, dedup: DedupPolicy) -> Hub {
        let folder = tempfile::tempdir().unwrap();
        let config = ServeConfig { data_urls: self.data_urls, dedup, ..ServeConfig::default() };
        let keys = KeyRing::new(Key::new([7; 32]));
        let objects = match self.in_bucket {
            true => Objects::open(&self.places.s3.fresh_bucket(), self.places.s3.environment()).unwrap(),
            false => Objects::local(folder.path()).unwrap(),
        };
        let catalog = match (&self.places.postgres, self.in_postgres) {
            (Some(postgres), true) => Catalog::open_or_create(&postgres.fresh_database()).await.unwrap(),
            _ => Arc::new(store::Catalog::open_file(&folder.path().join("catalog.db")).await.unwrap()),
        };
        add_origin(&catalog).await;
        let store = DataDir::store(&config, &keys, objects, catalog);
        let data_urls = DataUrls::choose(&config, &store).await.unwrap();
        let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap());
        let state = state.with_store(store.clone()).with_data_urls(data_urls);
        let client = reqwest::Client::new();
        Hub { app: server::app(state.clone()), state, store, client, _folder: folder }
    }
}

/// A server in this process.
pub(crate) struct Hub {
    pub(crate) app: Router,
    pub(crate) state: AppState,
    pub(crate) store: Store,
    client: reqwest::Client,
    _folder: TempDir,
}

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Hub {
    /// A new server on a folder, with these settings.
    pub(crate) async fn local(config: ServeConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = ServeConfig { data: folder.path().to_owned(), ..config };
        let keys = KeyRing::new(Key::new([7; 32]));
        let store = DataDir::new(folder.path()).open(&config, &keys).await.unwrap();
        add_origin(store.catalog()).await;
        let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap()).with_store(store.clone());
        let client = reqwest::Client::new();
        Self { app: server::app(state.clone()), state, store, client, _folder: folder }
    }

    pub(crate) fn token(&self, scope: TokenScope, name: &str) -> String {
        let repo = RepoName { kind: RepoKind::Model, namespace: "ann".into(), name: name.into() };
        let claims = Claims::new("ann", Origin::Token(ORIGIN.into()), scope, repo, self.state.now_s(), 60);
        self.state.cas_tokens().issue(&claims).token.expose().clone()
    }

    pub(crate) async fn send(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Got {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if method == "POST" {
            request = request.header("content-length", body.len());
        }
        let response = self.app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        assert!(head.headers.contains_key("x-request-id"));
        expect_documented(method, uri, head.status.as_u16());
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        if head.status.as_u16() >= 400 && method != "HEAD" {
            let refusal: ErrorBody = parse_json(&body).unwrap();
            assert_eq!(refusal.code.status(), head.status.as_u16());
        }
        Got { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn post(&self, uri: &str, body: &[u8]) -> Got {
        let token = format!("Bearer {}", self.token(TokenScope::Write, "a"));
        self.send("POST", uri, &[("authorization", &token)], body.to_vec()).await
    }

    pub(crate) async fn get(&self, uri: &str, range: Option<&str>) -> Got {
        let token = format!("Bearer {}", self.token(scope_of(uri), "a"));
        let mut headers = vec![("authorization", token.as_str())];
        headers.extend(range.map(|range| ("range", range)));
        self.send("GET", uri, &headers, Vec::new()).await
    }

    pub(crate) async fn head(&self, uri: &str) -> Got {
        let token = format!("Bearer {}", self.token(scope_of(uri), "a"));
        self.send("HEAD", uri, &[("authorization", &token)], Vec::new()).await
    }

    pub(crate) async fn upload_xorb(&self, hash: &XorbHash, bytes: &[u8]) -> bool {
        let got = self.post(&format!("/v1/xorbs/default/{hash}"), bytes).await;
        assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
        parse_json::<XorbUploaded>(&got.body).unwrap().was_inserted
    }

    /// What a reconstruction gives, `bytes_max` bytes at most, its data fetched without a token.
    pub(crate) async fn rebuild(&self, found: &Reconstruction, bytes_max: u64) -> Vec<u8> {
        let mut chunks: HashMap<(XorbHash, u32), Vec<u8>> = HashMap::new();
        for (xorb, fetch) in &found.fetches {
            for at in &fetch.ranges {
                let stored = &at.range.stored_bytes;
                let range = format!("bytes={}-{}", stored.start, stored.end - 1);
                let got = self.fetch(&fetch.urls[at.url], &range).await;
                assert_eq!((got.status, got.body.len() as u64), (206, stored.end - stored.start));
                let mut decoder = ChunkDecoder::new();
                let mut reader = ChunkReader::new(&got.body, 0, &mut decoder);
                let mut number = at.range.chunks.start;
                while let Some(chunk) = reader.next_chunk().unwrap() {
                    chunks.insert((*xorb, number), chunk.raw.to_vec());
                    number += 1;
                }
                assert_eq!(number, at.range.chunks.end);
            }
        }
        let terms = found.terms.iter().flat_map(|term| term.chunks.clone().map(|n| (term.xorb, n)));
        let mut out: Vec<u8> = terms.flat_map(|place| chunks[&place].clone()).collect();
        out.drain(..found.offset_into_first_range as usize);
        out.truncate(bytes_max as usize);
        out
    }

    /// Fetches data as clients do: without a token. What the bucket keeps comes over the network.
    pub(crate) async fn fetch(&self, url: &str, range: &str) -> Got {
        if let Some(uri) = url.strip_prefix(&self.state.base_url) {
            return self.send("GET", uri, &[("range", range)], Vec::new()).await;
        }
        let answer = self.client.get(url).header("range", range).send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Got { status, headers, body: answer.bytes().await.unwrap().to_vec() }
    }

    /// URLs of data lead to where it should be, and a bucket's URLs are for one range each.
    pub(crate) fn check_urls(&self, found: &ReconstructionV2) {
        let fetches: Vec<_> = found.xorbs.values().flatten().collect();
        let from_bucket = matches!(self.state.data_urls, DataUrls::Bucket(_));
        for fetch in &fetches {
            assert_eq!(fetch.url.starts_with(&self.state.base_url), !from_bucket, "{}", fetch.url);
            assert!(!from_bucket || fetch.ranges.len() == 1);
        }
        let urls: HashSet<_> = fetches.iter().map(|fetch| &fetch.url).collect();
        assert_eq!(urls.len(), fetches.len());
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.store.upkeep().counts().await.unwrap()
    }
}

pub(crate) fn build<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> SealedXorb {
    let mut builder = XorbBuilder::new(Policy::Auto);
    chunks.for_each(|chunk| builder.push(ChunkHash::of(chunk), chunk).unwrap());
    builder.seal(Form::Footerless).unwrap()
}

pub(crate) fn chunks_of(vectors: &Vectors) -> HashMap<ChunkHash, Vec<u8>> {
    let mut chunks = HashMap::new();
    for input in vectors.manifest.shards.iter().flat_map(|group| &group.inputs) {
        let data = vectors.make(&input.recipe);
        let mut start = 0;
        for end in xet::chunk::cut(&data) {
            chunks.insert(ChunkHash::of(&data[start..end]), data[start..end].to_vec());
            start = end;
        }
    }
    chunks
}

/// The `OpenAPI` document lists every status that an operation was seen to answer with.
fn expect_documented(method: &str, uri: &str, status: u16) {
    let doc: serde_json::Value = serde_json::from_str(server::OPENAPI).unwrap();
    let path = uri.split('?').next().unwrap();
    let fits = |template: &str| {
        let (a, b): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.starts_with('{') || a == b)
    };
    let item = doc["paths"].as_object().unwrap().iter().find(|(template, item)| {
        let mut aliases = item["x-aliases"].as_array().into_iter().flatten();
        fits(template) || aliases.any(|alias| fits(alias.as_str().unwrap()))
    });
    let (template, item) = item.unwrap_or_else(|| panic!("{path} is not documented"));
    let listed = &item[method.to_lowercase()]["responses"][status.to_string()];
    assert!(listed.is_object(), "{method} {template} answered {status}, which is not documented");
}

/// What a request takes: those who write ask what is stored.
fn scope_of(uri: &str) -> TokenScope {
    match uri.contains("/chunks/") || uri.contains("/xorbs/") {
        true => TokenScope::Write,
        false => TokenScope::Read,
    }
}

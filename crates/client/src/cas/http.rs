//! A content-addressed store over HTTP.
//!
//! The token goes to the CAS routes alone, never to data URLs, and only over TLS or to this machine unless told
//! otherwise. Requests that fail for now are made again; a body that stands still is given up.

pub(crate) mod answer;
mod body;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, redirect};
use tokio::sync::Semaphore;
use url::{Host, Url};
use xet::wire::reconstruction::{FileKey, Term};
use xet::wire::routes::{self, PREFIX_DEDUP};
use xet::wire::{
    Batch, Frame, FrameReader, HttpRange, Reconstruction, ReconstructionV1, ReconstructionV2, ShardUploaded,
    XorbUploaded, chunk_list, encode_json, parse_json,
};
use xet::{ChunkHash, FileHash, limits};

use super::{Cas, Xorb};
use crate::cas;
use crate::error::{Error, ErrorKind, Result};
use crate::permits::{self, Bandwidth};
use crate::progress::{Counter, Progress};
use crate::retry::RetryPolicy;
use crate::token::{Token, Tokens};
use answer::{broken, is_missing_route, read_all, refuse};
use body::{Pieces, Watch};

/// How to speak to a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Sends the token also over plain HTTP to other machines, where anyone on the way can read it.
    pub token_in_clear: bool,
    /// A proxy for everything; by default what the environment says (`HTTPS_PROXY`, `NO_PROXY`).
    pub proxy: Option<String>,
    /// Certificates (PEM) to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// A body that moves fewer than [`HttpOptions::floor_bytes`] in this time is given up.
    pub stall_timeout: Duration,
    /// What a body must move in each [`HttpOptions::stall_timeout`].
    pub floor_bytes: u64,
    /// How long the other side may think after it has everything.
    pub answer_timeout: Duration,
    /// How often to try.
    pub retry: RetryPolicy,
    /// The most bytes to send, and to receive, each second.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Requests at the same time; fewer where the system allows few open files.
    pub connections_max: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            token_in_clear: false,
            proxy: None,
            ca_files: Vec::new(),
            connect_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            floor_bytes: 16 * 1024,
            answer_timeout: Duration::from_secs(300),
            retry: RetryPolicy::default(),
            bandwidth_bytes_per_s: None,
            connections_max: 64,
        }
    }
}

/// The CAS routes of a server.
pub struct HttpCas {
    base: String,
    client: Client,
    tokens: Option<Arc<Tokens>>,
    options: HttpOptions,
    connections: Arc<Semaphore>,
    up: Option<Arc<Bandwidth>>,
    down: Option<Arc<Bandwidth>>,
    /// The server answered a version 1 route after it knew no version 2.
    old_reconstructions: AtomicBool,
    old_shards: AtomicBool,
    retries: Counter,
}

impl fmt::Debug for HttpCas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCas").field("base", &self.base).finish_non_exhaustive()
    }
}

impl HttpCas {
    /// The server at `endpoint`, such as `https://hub.example.com`.
    pub fn new(endpoint: &str, tokens: Option<Arc<Tokens>>, options: HttpOptions) -> Result<Self> {
        let url = Url::parse(endpoint)
            .map_err(|source| Error::caused(ErrorKind::Invalid, format!("endpoint {endpoint:?}"), source))?;
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("endpoint {endpoint:?}: should begin with https:// or http://");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if tokens.is_some() && !options.token_in_clear && !is_private(&url) {
            let message =
                format!("endpoint {endpoint:?}: a token is only sent over https, or to this machine");
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let client = client(&options)?;
        let bandwidth = || options.bandwidth_bytes_per_s.map(|rate| Arc::new(Bandwidth::new(rate)));
        Ok(Self {
            base: endpoint.trim_end_matches('/').to_owned(),
            client,
            tokens,
            connections: Arc::new(Semaphore::new(permits::connections(options.connections_max))),
            up: bandwidth(),
            down: bandwidth(),
            old_reconstructions: AtomicBool::new(false),
            old_shards: AtomicBool::new(false),
            retries: Counter::default(),
            options,
        })
    }

    /// Where its routes are.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Requests that were made again since this was made.
    pub fn retries(&self) -> u64 {
        self.retries.value()
    }

    /// One request to a CAS route, tried as often as it is worth; answers below 400 and those `pass` lets through come
    /// back.
    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Pieces>,
        edit: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync,
        pass: impl Fn(StatusCode) -> bool + Send + Sync,
    ) -> Result<Response> {
        let url = format!("{}{path}", self.base);
        self.options
            .retry
            .run(&self.retries, || async {
                let _connection = self.connections.acquire().await.expect("the semaphore is never closed");
                let mut token = match &self.tokens {
                    Some(tokens) => tokens.current().await?,
                    None => None,
                };
                let mut answer = self.attempt(&method, &url, body.as_ref(), token.as_ref(), &edit).await?;
                // A token may have been taken back, or our clock may be wrong: once, with another.
                if answer.status() == StatusCode::UNAUTHORIZED
                    && let (Some(tokens), Some(refused)) = (&self.tokens, &token)
                    && let Some(other) = tokens.instead_of(refused).await?
                {
                    token = Some(other);
                    answer = self.attempt(&method, &url, body.as_ref(), token.as_ref(), &edit).await?;
                }
                match answer.status() {
                    status if status.is_success() || pass(status) => Ok(answer),
                    _ => Err(refuse(path, answer).await),
                }
            })
            .await
    }

    async fn attempt(
        &self,
        method: &Method,
        url: &str,
        body: Option<&Pieces>,
        token: Option<&Token>,
        edit: &(impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync),
    ) -> Result<Response> {
        let mut request = edit(self.client.request(method.clone(), url));
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| Error::new(ErrorKind::Denied, "the token has characters no token has"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let watch = Watch::new(body.map_or(0, Pieces::bytes));
        if let Some(body) = body {
            let stream = body.stream(watch.clone(), self.up.clone());
            request = request.header(CONTENT_LENGTH, body.bytes()).body(reqwest::Body::wrap_stream(stream));
        }
        let options = &self.options;
        tokio::select! {
            sent = request.send() => sent.map_err(|source| broken(url, &source)),
            () = watch.stalled(options.stall_timeout, options.floor_bytes, options.answer_timeout) => {
                let message = format!("{url}: no progress for {:?}", options.stall_timeout);
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// A small answer, whole.
    async fn small(&self, path: &str, answer: Response, bytes_max: u64) -> Result<Bytes> {
        read_all(path, answer, bytes_max, self.options.stall_timeout).await
    }

    async fn put_shard_v1(&self, shard: &Bytes) -> Result<()> {
        let body = Some(Pieces::new(vec![shard.clone()]));
        let answer = self.call(Method::POST, routes::SHARDS_V1, body, |request| request, |_| false).await?;
        let bytes = self.small(routes::SHARDS_V1, answer, SMALL_BYTES_MAX).await?;
        let _: ShardUploaded =
            parse_json(&bytes).map_err(|source| Error::invalid(routes::SHARDS_V1, source))?;
        Ok(())
    }

    /// `false` when the server does not know the route.
    async fn put_shard_v2(&self, shard: &Bytes, progress: &Progress) -> Result<bool> {
        let path = routes::SHARDS_V2;
        self.options
            .retry
            .run(&progress.retries, || async {
                let body = Some(Pieces::new(vec![shard.clone()]));
                let answer = self.call(Method::POST, path, body, |request| request, is_missing_route).await?;
                if is_missing_route(answer.status()) {
                    return Ok(false);
                }
                self.read_frames(path, answer, progress).await?;
                Ok(true)
            })
            .await
    }

    async fn read_frames(&self, path: &str, answer: Response, progress: &Progress) -> Result<()> {
        let request_id = answer::request_id(&answer);
        let fail = |kind, message: String| Error::new(kind, message).with_request_id(request_id.clone());
        let mut reader = FrameReader::new();
        let mut pieces = answer.bytes_stream();
        let take = |frame: Frame| match frame {
            Frame::Validating { verified, total } => {
                progress.terms_verified.set(verified);
                progress.terms_total.set(total);
                Ok(false)
            }
            Frame::Result { .. } => Ok(true),
            Frame::Error { message, retryable } => {
                let kind = if retryable { ErrorKind::Unavailable } else { ErrorKind::Invalid };
                Err(fail(kind, format!("shard: {message}")))
            }
            _ => Ok(false),
        };
        loop {
            let piece =
                tokio::time::timeout(self.options.answer_timeout, pieces.next()).await.map_err(|_| {
                    fail(
                        ErrorKind::Unavailable,
                        format!("{path}: no word for {:?}", self.options.answer_timeout),
                    )
                })?;
            let Some(piece) = piece else { break };
            let piece = piece.map_err(|source| broken(path, &source))?;
            let mut piece = &piece[..];
            while let Some(frame) = reader.read(&mut piece).map_err(|source| Error::invalid(path, source))? {
                if take(frame)? {
                    return Ok(());
                }
            }
        }
        let end = reader.finish().map_err(|source| Error::invalid(path, source))?;
        if end.frame.map(take).transpose()? == Some(true) {
            return Ok(());
        }
        // Sending it again is safe: registering twice is registering once.
        Err(fail(ErrorKind::Unavailable, format!("{path}: the answer ended without an outcome")))
    }
}

#[async_trait]
impl Cas for HttpCas {
    async fn reconstruction(
        &self,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Option<Reconstruction>> {
        let range = match range {
            Some(range) => match HttpRange::from_half_open(&range) {
                Some(range) => Some(format!("bytes={range}")),
                None => return Ok(None),
            },
            None => None,
        };
        let edit = |request: RequestBuilder| match &range {
            Some(range) => request.header(RANGE, range),
            None => request,
        };
        let past_end = |status| status == StatusCode::RANGE_NOT_SATISFIABLE;
        if !self.old_reconstructions.load(Ordering::Relaxed) {
            let path = routes::reconstruction_v2(&file);
            let pass = |status| past_end(status) || is_missing_route(status);
            let answer = self.call(Method::GET, &path, None, edit, pass).await?;
            if past_end(answer.status()) {
                return Ok(None);
            }
            if !is_missing_route(answer.status()) {
                let bytes = self.small(&path, answer, JSON_BYTES_MAX).await?;
                let parsed: ReconstructionV2 =
                    parse_json(&bytes).map_err(|source| Error::invalid(&path, source))?;
                return parsed.try_into().map(Some).map_err(|source| Error::invalid(path, source));
            }
        }
        let path = routes::reconstruction_v1(&file);
        let answer = self.call(Method::GET, &path, None, edit, past_end).await?;
        if past_end(answer.status()) {
            return Ok(None);
        }
        let bytes = self.small(&path, answer, JSON_BYTES_MAX).await?;
        let parsed: ReconstructionV1 = parse_json(&bytes).map_err(|source| Error::invalid(&path, source))?;
        self.old_reconstructions.store(true, Ordering::Relaxed);
        parsed.try_into().map(Some).map_err(|source| Error::invalid(path, source))
    }

    async fn fetch(&self, url: &str, stored: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let Some(range) = HttpRange::from_half_open(&stored) else {
            return Ok(futures::stream::empty().boxed());
        };
        let wanted = range.len_bytes();
        // A data URL carries its own proof, which must not end up in messages.
        let shown = url.split('?').next().unwrap_or_default().to_owned();
        let work = || async {
            let connection = self.connections.clone().acquire_owned().await.expect("never closed");
            let request = self.client.get(url).header(RANGE, format!("bytes={range}"));
            let sent = tokio::time::timeout(self.options.answer_timeout, request.send()).await;
            let sent = sent.map_err(|_| Error::new(ErrorKind::Unavailable, format!("{shown}: no answer")))?;
            let answer = sent.map_err(|source| broken(&shown, &source.without_url()))?;
            match answer.status() {
                StatusCode::FORBIDDEN => {
                    let error = refuse(&shown, answer).await;
                    Err(Error::caused(ErrorKind::Expired, shown.clone(), error))
                }
                status if status.is_success() => Ok((answer, connection)),
                _ => Err(refuse(&shown, answer).await),
            }
        };
        let (answer, connection) = self.options.retry.run(&self.retries, work).await?;
        Ok(body::received(shown, answer, wanted, stored.start, &self.options, self.down.clone(), connection))
    }

    async fn dedup(&self, chunk: ChunkHash) -> Result<Option<Bytes>> {
        let path = routes::chunk(PREFIX_DEDUP, &chunk);
        let missing = |status| status == StatusCode::NOT_FOUND;
        let answer = self.call(Method::GET, &path, None, |request| request, missing).await?;
        if missing(answer.status()) {
            return Ok(None);
        }
        self.small(&path, answer, limits::SHARD_BYTES_MAX).await.map(Some)
    }

    async fn put_xorb(&self, xorb: &Xorb) -> Result<bool> {
        let path = routes::xorb(&xorb.hash());
        let body = Some(Pieces::new(xorb.records.clone()));
        let answer = self.call(Method::POST, &path, body, |request| request, |_| false).await?;
        let bytes = self.small(&path, answer, SMALL_BYTES_MAX).await?;
        let uploaded: XorbUploaded = parse_json(&bytes).map_err(|source| Error::invalid(path, source))?;
        Ok(uploaded.was_inserted)
    }

    async fn put_shard(&self, shard: Bytes, progress: &Progress) -> Result<()> {
        if !self.old_shards.load(Ordering::Relaxed) && self.put_shard_v2(&shard, progress).await? {
            return Ok(());
        }
        self.put_shard_v1(&shard).await?;
        self.old_shards.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn reconstructions(&self, files: &[FileHash]) -> Result<Option<cas::Batch>> {
        let prefix = routes::PREFIX_DEFAULT;
        let keys: Vec<_> =
            files.iter().map(|hash| FileKey { prefix: prefix.to_owned(), hash: *hash }).collect();
        let body = Some(Pieces::new(vec![encode_json(&keys).into()]));
        let json = |request: RequestBuilder| request.header(CONTENT_TYPE, routes::content_type::JSON);
        // What the server does not know, and files it does not have, are both 404: the caller asks one by one.
        let pass = |status| is_missing_route(status) || status == StatusCode::METHOD_NOT_ALLOWED;
        let answer = self.call(Method::POST, routes::BATCH, body, json, pass).await?;
        if pass(answer.status()) {
            return Ok(None);
        }
        let bytes = self.small(routes::BATCH, answer, JSON_BYTES_MAX).await?;
        let wrong = |source| Error::invalid(routes::BATCH, source);
        let batch: Batch = parse_json(&bytes).map_err(wrong)?;
        let mut terms = Vec::new();
        let mut split = Vec::new();
        for file in files {
            let Some(list) = batch.files.get(file) else { return Ok(None) };
            split.push(list.iter().map(Term::to_plan).collect());
            terms.extend_from_slice(list);
        }
        let all = ReconstructionV1 { offset_into_first_range: 0, terms, fetch_info: batch.fetch_info };
        Ok(Some(cas::Batch { files: split, fetches: all.try_into().map_err(wrong)? }))
    }

    async fn chunk_list(&self, file: FileHash) -> Result<Option<Vec<(ChunkHash, u32)>>> {
        let mut chunks = Vec::new();
        loop {
            let path = routes::chunk_list(&file, chunks.len() as u64);
            let answer = self.call(Method::GET, &path, None, |request| request, is_missing_route).await?;
            // Other servers have no such route, and that is all there is to it.
            if is_missing_route(answer.status()) {
                return Ok(None);
            }
            let page = self.small(&path, answer, chunk_list::PAGE_BYTES_MAX).await?;
            let page = chunk_list::parse(&page).map_err(|source| Error::invalid(path, source))?;
            let is_last = page.len() < chunk_list::PAGE_CHUNKS_MAX;
            chunks.extend(page);
            if is_last {
                return Ok(Some(chunks));
            }
            if chunks.len() > CHUNKS_MAX {
                return Ok(None);
            }
        }
    }
}

/// Whether a token may go there: over TLS, or not off this machine.
pub(crate) fn is_private(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || is_loopback
}

/// A client without a token of its own, as [`HttpCas`] uses it.
pub(crate) fn client(options: &HttpOptions) -> Result<Client> {
    let invalid = |what: &str, source: reqwest::Error| Error::caused(ErrorKind::Invalid, what, source);
    let mut builder = Client::builder()
        .user_agent(concat!("drystone/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true)
        .redirect(redirect::Policy::limited(3))
        .referer(false);
    if let Some(proxy) = &options.proxy {
        builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(|source| invalid("proxy", source))?);
    }
    for file in &options.ca_files {
        let pem = std::fs::read(file).map_err(|error| Error::io(file, error))?;
        let name = file.display().to_string();
        let certificates =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|source| invalid(&name, source))?;
        if certificates.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, format!("{name}: no certificate in it")));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|source| invalid("http client", source))
}

/// Chunks of a file that are worth knowing: some 256 GiB.
const CHUNKS_MAX: usize = 4 << 20;
/// Answers that are a few fields.
const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// A reconstruction: a term takes some 150 bytes.
const JSON_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_only_where_nobody_listens() {
        let tokens = || Some(Arc::new(Tokens::fixed(Token::new("secret"))));
        for (endpoint, fine) in [
            ("https://hub.example.com", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost:1", true),
            ("http://hub.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            let made = HttpCas::new(endpoint, tokens(), HttpOptions::default());
            assert_eq!(made.is_ok(), fine, "{endpoint}");
            assert!(HttpCas::new(endpoint, None, HttpOptions::default()).is_ok());
            let open = HttpOptions { token_in_clear: true, ..HttpOptions::default() };
            assert!(HttpCas::new(endpoint, tokens(), open).is_ok());
        }
        for bad in ["", "hub", "ftp://hub", "file:///tmp"] {
            let error = HttpCas::new(bad, None, HttpOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}

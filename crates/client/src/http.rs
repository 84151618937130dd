//! HTTP requests to one server, with retries.
//!
//! The token goes to this server alone, never to data URLs, and only over TLS or to this machine unless told
//! otherwise. Requests that fail for now are made again; a body that stands still is given up.

pub(crate) mod answer;
mod body;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName, HeaderValue, RANGE};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use tokio::sync::Semaphore;
use url::{Host, Url};
use xet::wire::HttpRange;

use crate::budget::{self, Bandwidth};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Counter;
use crate::retry::RetryPolicy;
use crate::token::{Token, Tokens};
use answer::{broken, read_all, refuse, unreached};
use body::{Pieces, Watch};

/// How to connect to a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Sends the token also over plain HTTP to other machines, where anybody on the network can read it.
    pub token_in_clear: bool,
    /// A proxy for everything; by default what the environment says (`HTTPS_PROXY`, `NO_PROXY`).
    pub proxy: Option<String>,
    /// Certificates (PEM) to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// A body that moves fewer than [`HttpOptions::floor_bytes`] in this time is given up.
    pub stall_timeout: Duration,
    /// Bytes that a body must move in each [`HttpOptions::stall_timeout`].
    pub floor_bytes: u64,
    /// Longest wait for an answer after the server has the whole request.
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

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    method: Method,
    /// Below the server's address.
    path: &'a str,
    headers: Vec<(HeaderName, String)>,
    body: Option<Pieces>,
    pass: fn(StatusCode) -> bool,
}

impl<'a> Request<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, headers: Vec::new(), body: None, pass: |_| false }
    }

    /// A body, in pieces of any size.
    pub(crate) fn post(path: &'a str, body: Vec<Bytes>) -> Self {
        Self { method: Method::POST, body: Some(Pieces::new(body)), ..Self::get(path) }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Which refusals are answers to the caller.
    pub(crate) fn accept_status(mut self, pass: fn(StatusCode) -> bool) -> Self {
        self.pass = pass;
        self
    }
}

/// A server, and how to speak to it.
pub(crate) struct Http {
    base: String,
    client: Client,
    tokens: Option<Arc<Tokens>>,
    pub(crate) options: HttpOptions,
    connections: Arc<Semaphore>,
    up: Option<Arc<Bandwidth>>,
    down: Option<Arc<Bandwidth>>,
    /// Whether the server ever answered.
    reached: AtomicBool,
    pub(crate) retries: Counter,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Http {
    /// The server at `endpoint`, such as `https://hub.example.com`.
    pub(crate) fn new(endpoint: &str, tokens: Option<Arc<Tokens>>, options: HttpOptions) -> Result<Self> {
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
            connections: Arc::new(Semaphore::new(budget::connections(options.connections_max))),
            up: bandwidth(),
            down: bandwidth(),
            reached: AtomicBool::new(false),
            retries: Counter::default(),
            options,
        })
    }

    /// Address below which its routes are.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// One request, tried as often as it is worth; answers below 400 and those it lets pass come back.
    pub(crate) async fn send(&self, request: &Request<'_>) -> Result<Response> {
        self.with_retries(|| self.send_once(request)).await
    }

    /// Sends a request and reads its whole answer of at most `bytes_max` bytes.
    pub(crate) async fn send_and_read(&self, request: &Request<'_>, bytes_max: u64) -> Result<Bytes> {
        let work = || async { self.read_body(request.path, self.send_once(request).await?, bytes_max).await };
        self.with_retries(work).await
    }

    /// Does `work` as often as it is worth. A server that never answered is tried for a second or two only: its URL is wrong,
    /// or it does not run, and the user should know soon.
    async fn with_retries<T, F>(&self, mut work: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut attempt = 1;
        loop {
            let error = match work().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let is_worth_it = self.reached.load(Ordering::Relaxed) || attempt < UNREACHED_ATTEMPTS_MAX;
            let wait = self.options.retry.pause(attempt, &error).filter(|_| is_worth_it);
            let Some(wait) = wait else { return Err(error) };
            tokio::time::sleep(wait).await;
            self.retries.add(1);
            attempt += 1;
        }
    }

    /// One request, once.
    pub(crate) async fn send_once(&self, request: &Request<'_>) -> Result<Response> {
        let _connection = self.connections.acquire().await.expect("the semaphore is never closed");
        self.send_with_token(request).await
    }

    async fn send_with_token(&self, request: &Request<'_>) -> Result<Response> {
        let url = format!("{}{}", self.base, request.path);
        let token = match &self.tokens {
            Some(tokens) => tokens.current().await?,
            None => None,
        };
        let mut answer = self.attempt(&url, request, token.as_ref()).await?;
        // A token may have been taken back, or our clock may be wrong: once, with another.
        if answer.status() == StatusCode::UNAUTHORIZED
            && let (Some(tokens), Some(refused)) = (&self.tokens, &token)
            && let Some(other) = tokens.instead_of(refused).await?
        {
            answer = self.attempt(&url, request, Some(&other)).await?;
        }
        match answer.status() {
            status if status.is_success() || (request.pass)(status) => Ok(answer),
            _ => Err(refuse(request.path, answer).await),
        }
    }

    async fn attempt(&self, url: &str, request: &Request<'_>, token: Option<&Token>) -> Result<Response> {
        let mut builder = self.client.request(request.method.clone(), url);
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| Error::new(ErrorKind::Denied, "the token has characters no token has"))?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        let watch = Watch::new(request.body.as_ref().map_or(0, Pieces::bytes));
        if let Some(body) = &request.body {
            let stream = body.stream(watch.clone(), self.up.clone());
            builder = builder.header(CONTENT_LENGTH, body.bytes()).body(reqwest::Body::wrap_stream(stream));
        }
        let options = &self.options;
        tokio::select! {
            sent = builder.send() => match sent {
                Ok(answer) => {
                    self.reached.store(true, Ordering::Relaxed);
                    Ok(answer)
                }
                Err(source) if self.reached.load(Ordering::Relaxed) => Err(broken(url, &source)),
                Err(source) => Err(unreached(&self.base, &source)),
            },
            () = watch.stalled(options.stall_timeout, options.floor_bytes, options.answer_timeout) => {
                let message = format!("{url}: no progress for {:?}", options.stall_timeout);
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// A small answer, whole.
    pub(crate) async fn read_body(&self, path: &str, answer: Response, bytes_max: u64) -> Result<Bytes> {
        read_all(path, answer, bytes_max, self.options.stall_timeout).await
    }

    /// Bytes of a path of this server, as they arrive: exactly those, or an error at the end.
    pub(crate) async fn stream(
        &self,
        path: &str,
        requested: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let Some(range) = HttpRange::from_half_open(&requested) else {
            return Ok(Box::pin(futures::stream::empty()));
        };
        let request = Request::get(path).header(RANGE, format!("bytes={range}"));
        let connection = self.connections.clone().acquire_owned().await.expect("never closed");
        let answer = self.send_with_token(&request).await?;
        Ok(body::received(path.to_owned(), answer, requested, &self.options, self.down.clone(), connection))
    }

    /// Bytes of a data URL, which may be of another server and gets no token.
    pub(crate) async fn stream_data(
        &self,
        url: &str,
        requested: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let Some(range) = HttpRange::from_half_open(&requested) else {
            return Ok(Box::pin(futures::stream::empty()));
        };
        // A data URL carries its own proof, which must not end up in messages.
        let display_url = url.split('?').next().unwrap_or_default().to_owned();
        let work = || async {
            let connection = self.connections.clone().acquire_owned().await.expect("never closed");
            let request = self.client.get(url).header(RANGE, format!("bytes={range}"));
            let sent = tokio::time::timeout(self.options.answer_timeout, request.send()).await;
            let sent =
                sent.map_err(|_| Error::new(ErrorKind::Unavailable, format!("{display_url}: no answer")))?;
            let answer = sent.map_err(|source| broken(&display_url, &source.without_url()))?;
            match answer.status() {
                StatusCode::FORBIDDEN => {
                    let error = refuse(&display_url, answer).await;
                    Err(Error::caused(ErrorKind::Expired, display_url.clone(), error))
                }
                status if status.is_success() => Ok((answer, connection)),
                _ => Err(refuse(&display_url, answer).await),
            }
        };
        let (answer, connection) = self.options.retry.run(&self.retries, work).await?;
        Ok(body::received(display_url, answer, requested, &self.options, self.down.clone(), connection))
    }
}

/// Attempts at a server that never answered.
const UNREACHED_ATTEMPTS_MAX: u32 = 3;

/// Whether a token may go there: over TLS, or not off this machine.
fn is_private(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || is_loopback
}

/// A client without a token of its own.
fn client(options: &HttpOptions) -> Result<Client> {
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
            let made = Http::new(endpoint, tokens(), HttpOptions::default());
            assert_eq!(made.is_ok(), fine, "{endpoint}");
            assert!(Http::new(endpoint, None, HttpOptions::default()).is_ok());
            let open = HttpOptions { token_in_clear: true, ..HttpOptions::default() };
            assert!(Http::new(endpoint, tokens(), open).is_ok());
        }
        for bad in ["", "hub", "ftp://hub", "file:///tmp"] {
            let error = Http::new(bad, None, HttpOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}

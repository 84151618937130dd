//! Server state that handlers share.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use store::{Scope, Store};
use xet::wire::HttpRange;
use xet::wire::routes::TokenScope;

use crate::auth::Authenticator;
use crate::auth::cas_token::CasTokens;
use crate::budget::Budget;
use crate::config::ServeConfig;
use crate::disk::{Disk, DiskFull};
use crate::metrics::Metrics;
use crate::net::rate::RateLimit;
use crate::net::shutdown::Health;
use crate::net::tls::Tls;
use crate::render::Renderer;
use crate::secret::KeyRing;
use crate::upload_progress::RunningUploads;
use crate::urls::data_url::{DataKey, RangeCount, Signer};
use crate::urls::host::{DataUrls, ServerUrls};
use crate::urls::lfs_url::LfsSigner;

/// A clock in Unix seconds; tests bring their own.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// State of a server; clones are the same one.
#[derive(Debug, Clone)]
pub struct AppState(Arc<StateInner>);

/// The fields of [`AppState`].
pub struct StateInner {
    /// The URL that clients append paths to.
    pub base_url: String,
    /// The settings.
    pub config: ServeConfig,
    /// Signs data URLs.
    pub(crate) signer: Signer,
    /// Whether clients fetch data from the server or from the bucket.
    pub data_urls: DataUrls,
    /// Checks tokens and passwords.
    pub(crate) auth: Authenticator,
    /// Signs URLs of whole files.
    pub(crate) lfs_signer: LfsSigner,
    /// Memory that uploads share.
    pub budget: Budget,
    /// Memory that data responses share: slow readers wait for each other, and no upload waits for them.
    pub answers: Budget,
    /// The disk of the objects, where it is watched.
    pub(crate) disk: Option<Disk>,
    /// Uploads of browsers that are under way.
    pub(crate) uploads: RunningUploads,
    /// Renders cards, previews and diffs.
    pub(crate) renderer: Renderer,
    /// Whether the server accepts requests.
    pub(crate) health: Health,
    /// Metrics, where they are counted.
    pub(crate) metrics: Option<Metrics>,
    /// Limit on requests from one address, if there is one.
    pub(crate) rate: Option<RateLimit>,
    /// Start of the time that the limit counts in.
    pub(crate) started: Instant,
    clock: Clock,
    /// The store, once it is open.
    pub(crate) store: Option<Store>,
    /// The certificate, where the server speaks TLS itself.
    pub(crate) tls: Option<Tls>,
    /// Timing of streamed responses.
    pub(crate) stream_timing: StreamTiming,
}

/// Timing of responses that report progress while work goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamTiming {
    /// Time to wait for the end before the response begins with frames.
    pub patience: Duration,
    /// Time between two looks for progress.
    pub step: Duration,
    /// Longest silence: clients and proxies close connections that are silent for long.
    pub heartbeat: Duration,
}

impl Default for StreamTiming {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(2),
            step: Duration::from_millis(500),
            heartbeat: Duration::from_secs(20),
        }
    }
}

impl AppState {
    /// State of a server that listens at `bound` with these settings and keys, on the system's clock, without metrics.
    pub fn new(config: ServeConfig, keys: &KeyRing, bound: SocketAddr) -> Self {
        let (shares, waiting_max) = (config.limits.memory_shares(), u64::from(config.limits.connections_max));
        let clock: Clock = Arc::new(system_clock);
        let cas_tokens = CasTokens::new(keys);
        let auth =
            Authenticator::new(config.auth, cas_tokens, config.limits.token_requests_per_s, clock.clone());
        Self(Arc::new(StateInner {
            base_url: config.base_url(bound),
            signer: Signer::new(keys),
            data_urls: DataUrls::default(),
            auth,
            lfs_signer: LfsSigner::new(keys),
            budget: Budget::new(shares.uploads_bytes, waiting_max),
            answers: Budget::new(shares.answers_bytes, waiting_max),
            disk: Disk::of(&config),
            uploads: RunningUploads::default(),
            renderer: Renderer::default(),
            health: Health::default(),
            metrics: None,
            rate: RateLimit::new(config.limits.requests_per_s),
            started: Instant::now(),
            clock,
            store: None,
            tls: None,
            stream_timing: StreamTiming::default(),
            config,
        }))
    }

    /// The same on another clock.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        self.change(|state| {
            state.auth.set_clock(clock.clone());
            state.clock = clock;
        })
    }

    /// The same with metrics.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        self.change(|state| state.metrics = Some(metrics))
    }

    /// The same behind TLS.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        self.change(|state| state.tls = Some(tls))
    }

    /// The same over a store.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        self.change(|state| {
            state.auth.set_store(&store);
            state.store = Some(store);
        })
    }

    /// The same with data URLs of another kind.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_data_urls(self, data_urls: DataUrls) -> Self {
        self.change(|state| state.data_urls = data_urls)
    }

    /// The same with another timing of streamed responses.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_stream_timing(self, timing: StreamTiming) -> Self {
        self.change(|state| state.stream_timing = timing)
    }

    /// Now, in Unix seconds.
    pub fn now_s(&self) -> u64 {
        (self.clock)()
    }

    /// Issues and checks CAS tokens.
    pub fn cas_tokens(&self) -> &CasTokens {
        &self.auth.cas_tokens
    }

    /// A data URL of this server that opens `ranges` of an object; see `ServerUrls::url`.
    pub fn data_url(&self, key: &DataKey, ranges: &[HttpRange]) -> Result<String, RangeCount> {
        self.server_urls().url(key, ranges, false)
    }

    /// The scope of the content that a token opens, or why it opens none.
    pub async fn content_scope(&self, token: &str, needed: TokenScope) -> Result<Scope, String> {
        let scope = self.auth.authorize(Ok(Some(&format!("Bearer {token}"))), needed).await;
        scope.map_err(|error| error.to_string())?.ok_or_else(|| "the token names no content".to_owned())
    }

    /// Longest pause of a client in the middle of a body.
    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_secs(self.config.limits.body_timeout_s)
    }

    /// Refuses an upload that would leave too little space on the disk.
    pub(crate) fn require_disk_space(&self, bytes: u64) -> Result<(), DiskFull> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.require_space(bytes))
    }

    /// Makes data URLs that the server signs.
    pub(crate) fn server_urls(&self) -> ServerUrls<'_> {
        let (base_url, signer) = (&self.base_url, &self.signer);
        ServerUrls { base_url, signer, ttl_s: self.config.url_ttl_s, now_s: self.now_s() }
    }

    fn change(mut self, change: impl FnOnce(&mut StateInner)) -> Self {
        change(Arc::get_mut(&mut self.0).expect("the state is not shared before the server starts"));
        self
    }
}

impl Deref for AppState {
    type Target = StateInner;

    fn deref(&self) -> &StateInner {
        &self.0
    }
}

impl fmt::Debug for StateInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateInner")
            .field("config", &self.config)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

fn system_clock() -> u64 {
    // A clock before 1970 is broken; taken as 1970, every token and URL is still good, and logs show the time.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

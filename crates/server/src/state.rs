//! What handlers share.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::http::{HeaderMap, Uri, header};
use store::Store;
use xet::wire::HttpRange;
use xet::wire::routes::TokenScope;

use crate::auth::{self, CasTokens, Claims, TokenHash};
use crate::budget::Budget;
use crate::config::ServeConfig;
use crate::http::LfsSigner;
use crate::http::health::Health;
use crate::metrics::Metrics;
use crate::rate::RateLimit;
use crate::secret::KeyRing;
use crate::sign::{self, DataKey, Grant, RangeCount, Signer};
use crate::urls::DataUrls;

/// Tells the time in Unix seconds; tests bring their own.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The shared state; clones are the same one.
#[derive(Debug, Clone)]
pub struct AppState(Arc<Shared>);

/// The fields of [`AppState`].
pub struct Shared {
    /// What clients append paths to.
    pub base_url: String,
    /// What the server was told.
    pub config: ServeConfig,
    /// Signs data URLs.
    pub signer: Signer,
    /// Where clients fetch data.
    pub data_urls: DataUrls,
    /// Gives and checks CAS tokens.
    pub tokens: CasTokens,
    /// Signs URLs of whole files.
    pub(crate) lfs: LfsSigner,
    /// The bytes that what clients send shares.
    pub budget: Budget,
    /// The bytes that what they are sent shares. Apart from the others: a client that reads slowly, or not at all,
    /// holds some for as long as it likes, and must not stop those who write.
    pub answers: Budget,
    /// Whether the server takes requests.
    pub health: Health,
    /// The numbers, if they are kept.
    pub metrics: Option<Metrics>,
    /// The limit on requests, if there is one.
    pub(crate) rate: Option<RateLimit>,
    /// What the limit counts from.
    pub(crate) started: Instant,
    /// The time.
    pub clock: Clock,
    /// What the server serves, once it is open.
    pub store: Option<Store>,
    /// The token of whoever keeps the server, if there is one.
    pub admin: Option<TokenHash>,
    /// How an answer keeps company with who waits for it.
    pub pace: Pace,
}

/// How an answer that takes long keeps company with the client that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long the end is waited for before the answer begins with frames.
    pub patience: Duration,
    /// How often is looked for progress.
    pub step: Duration,
    /// How long nothing may be said: clients and proxies close what is silent for long.
    pub heartbeat: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(2),
            step: Duration::from_millis(500),
            heartbeat: Duration::from_secs(20),
        }
    }
}

impl AppState {
    /// The state of a server that listens at `bound` with these settings and keys, on the system's clock, without
    /// metrics.
    pub fn new(config: ServeConfig, keys: &KeyRing, bound: SocketAddr) -> Self {
        let waiting_max = u64::from(config.limits.connections_max);
        let (bodies_bytes, answers_bytes) = config.limits.memory_shares();
        let shared = Shared {
            base_url: config.base_url(bound),
            rate: RateLimit::new(config.limits.requests_per_s),
            started: Instant::now(),
            config,
            signer: Signer::new(keys),
            data_urls: DataUrls::default(),
            tokens: CasTokens::new(keys),
            lfs: LfsSigner::new(keys),
            budget: Budget::new(bodies_bytes, waiting_max),
            answers: Budget::new(answers_bytes, waiting_max),
            health: Health::default(),
            metrics: None,
            clock: Arc::new(system_clock),
            store: None,
            admin: None,
            pace: Pace::default(),
        };
        Self(Arc::new(shared))
    }

    /// The same on another clock.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        self.change(|shared| shared.clock = clock)
    }

    /// The same with metrics.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        self.change(|shared| shared.metrics = Some(metrics))
    }

    /// The same over a store.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        self.change(|shared| shared.store = Some(store))
    }

    /// The same with data URLs of another kind.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_data_urls(self, data_urls: DataUrls) -> Self {
        self.change(|shared| shared.data_urls = data_urls)
    }

    /// The same with a token for whoever keeps the server.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_admin(self, admin: TokenHash) -> Self {
        self.change(|shared| shared.admin = Some(admin))
    }

    /// The same at another pace.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_pace(self, pace: Pace) -> Self {
        self.change(|shared| shared.pace = pace)
    }

    /// How long a client may send nothing in the middle of a body.
    pub fn body_timeout(&self) -> Duration {
        Duration::from_secs(self.config.limits.body_timeout_s)
    }

    /// Now, in Unix seconds.
    pub fn now_s(&self) -> u64 {
        (self.clock)()
    }

    /// What the caller's token says, when it allows this; `None` where tokens are off and everyone may.
    pub fn authorize(
        &self,
        headers: &HeaderMap,
        needed: TokenScope,
    ) -> Result<Option<Claims>, auth::Refusal> {
        if !self.config.auth {
            // Nobody is refused; a good token still says which repository is meant.
            let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let token = auth::bearer(text).ok();
            return Ok(token.and_then(|token| self.tokens.verify(token, self.now_s()).ok()));
        }
        let header = headers.get(header::AUTHORIZATION);
        let text = header.map(|value| value.to_str().map_err(|_| auth::Refusal::Malformed)).transpose()?;
        let claims = self.tokens.verify(auth::bearer(text)?, self.now_s())?;
        claims.allow(needed, None)?;
        Ok(Some(claims))
    }

    /// A URL of this server that opens `ranges` of an object for at least as long as URLs are good.
    ///
    /// It expires on a round time, so that for a while everyone who may read the same ranges gets the same URL, and
    /// caches on the way have a use.
    pub fn data_url(&self, key: &DataKey, ranges: &[HttpRange]) -> Result<String, RangeCount> {
        let ttl_s = self.config.url_ttl_s;
        let expires_s = self.now_s().saturating_add(ttl_s).checked_next_multiple_of((ttl_s / 8).max(1));
        let path = self.signer.sign(key, ranges, expires_s.unwrap_or(u64::MAX))?;
        Ok(format!("{}{path}", self.base_url))
    }

    /// What a request on a data URL may have.
    pub fn grant(&self, uri: &Uri, headers: &HeaderMap) -> Result<Grant, sign::Refusal> {
        let range = headers.get(header::RANGE).map(|value| value.to_str().unwrap_or_default());
        self.signer.verify(uri.path(), uri.query().unwrap_or_default(), range, self.now_s())
    }

    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::get_mut(&mut self.0).expect("the state is not shared before the server starts"));
        self
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

fn system_clock() -> u64 {
    // A clock before 1970 is broken; taken as 1970, every token and URL is still good, and logs show the time.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

//! What handlers share.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::http::{HeaderMap, Uri, header};
use store::Store;
use xet::wire::routes::TokenScope;
use xet::wire::{ErrorCode, HttpRange};

use crate::auth::sign_in_limit::SignInLimit;
use crate::auth::{self, CasTokens, Claims, People, Person, people, personal};
use crate::budget::Budget;
use crate::config::ServeConfig;
use crate::disk::Disk;
use crate::http::LfsSigner;
use crate::http::error::Refused;
use crate::http::health::Health;
use crate::metrics::Metrics;
use crate::rate::RateLimit;
use crate::render::Renderer;
use crate::secret::KeyRing;
use crate::sign::{self, DataKey, Grant, RangeCount, Signer};
use crate::tls::Tls;
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
    /// The bytes uploads share.
    pub budget: Budget,
    /// The bytes data answers share: readers who are slow wait for each other, and nobody who uploads waits for them.
    pub answers: Budget,
    /// The disk objects are on, if they are on one that is watched.
    pub(crate) disk: Option<Disk>,
    /// Uploads of browsers that are under way.
    pub(crate) running: crate::web::running::Running,
    /// Renders cards, previews and diffs.
    pub(crate) renderer: Renderer,
    /// Whether the server takes requests.
    pub health: Health,
    /// The numbers, if they are kept.
    pub metrics: Option<Metrics>,
    /// The limit on requests, if there is one.
    pub(crate) rate: Option<RateLimit>,
    /// The limit on requests with one token, if there is one.
    pub(crate) token_rate: Option<RateLimit<String>>,
    /// The limit on password attempts.
    pub(crate) sign_ins: SignInLimit,
    /// What the limit counts from.
    pub(crate) started: Instant,
    /// The time.
    pub clock: Clock,
    /// What the server serves, once it is open.
    pub store: Option<Store>,
    /// The certificate to show, where the server speaks TLS itself.
    pub tls: Option<Tls>,
    /// Whose tokens are known, once there is a store to ask.
    pub people: Option<People>,
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
        let (shares, waiting_max) = (config.limits.memory_shares(), u64::from(config.limits.connections_max));
        let shared = Shared {
            base_url: config.base_url(bound),
            rate: RateLimit::new(config.limits.requests_per_s),
            token_rate: RateLimit::new(config.limits.token_requests_per_s),
            disk: Disk::of(&config),
            sign_ins: SignInLimit::default(),
            started: Instant::now(),
            config,
            signer: Signer::new(keys),
            data_urls: DataUrls::default(),
            tokens: CasTokens::new(keys),
            lfs: LfsSigner::new(keys),
            budget: Budget::new(shares.uploads_bytes, waiting_max),
            answers: Budget::new(shares.answers_bytes, waiting_max),
            running: Default::default(),
            renderer: Renderer::default(),
            health: Health::default(),
            metrics: None,
            clock: Arc::new(system_clock),
            store: None,
            tls: None,
            people: None,
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

    /// The same behind TLS.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        self.change(|shared| shared.tls = Some(tls))
    }

    /// The same over a store.
    ///
    /// # Panics
    ///
    /// When the state is in use already.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        self.change(|shared| {
            shared.people = Some(People::new(store.clone()));
            shared.store = Some(store);
        })
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

    /// The repository the caller speaks for, when their token allows this there; `None` where tokens are off and
    /// everyone may. Takes CAS tokens, and personal ones that are bound to one repository.
    pub async fn authorize(
        &self,
        headers: &HeaderMap,
        needed: TokenScope,
    ) -> Result<Option<store::Scope>, Refused> {
        if !self.config.auth {
            // Nobody is refused; a good token still says which repository is meant.
            let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let token = auth::bearer(text).ok();
            return match token.and_then(|token| self.tokens.verify(token, self.now_s()).ok()) {
                Some(claims) => self.open_scope(&claims).await.map(Some),
                None => Ok(None),
            };
        }
        let token = token_in(headers)?;
        if personal::is_token(token) {
            let person = self.known(token, false).await?;
            let scope = person.only_scope(people::rights_for(needed))?;
            store::audit::name(&auth::Identity::from(person.principal()).actor);
            return Ok(Some(scope.clone()));
        }
        let claims = self.tokens.verify(token, self.now_s())?;
        claims.allow(needed)?;
        self.admit(&claims.jti)?;
        let access = self.content_access(&claims, needed).await?.ok_or(auth::Refusal::Void)?;
        store::audit::name(&claims.sub);
        Ok(Some(access.scope))
    }

    /// What claims allow now, if that includes `needed`: `None` when the access that they were made for has ended.
    pub(crate) async fn content_access(
        &self,
        claims: &Claims,
        needed: TokenScope,
    ) -> Result<Option<auth::access::Access>, Refused> {
        Ok(self.people()?.access(claims, needed, self.now_s()).await?)
    }

    /// The scope that claims name where access control is off: the repository follows its id.
    async fn open_scope(&self, claims: &Claims) -> Result<store::Scope, Refused> {
        let (Some(id), Some(people)) = (claims.repo_id, &self.people) else {
            return Ok(claims.repo.scope()?);
        };
        let access = people.open_access(id, &claims.repo, self.now_s()).await?.ok_or(auth::Refusal::Void)?;
        Ok(access.scope)
    }

    /// Sender of an upload: what was sent to one repository, the same sender may refer to in another.
    pub(crate) async fn sender(&self, headers: &HeaderMap) -> Option<String> {
        if !self.config.auth {
            return Some("anyone".to_owned());
        }
        let (people, now_s) = (self.people().ok()?, self.now_s());
        let token = token_in(headers).ok()?;
        if personal::is_token(token) {
            return Some(people.of(token, now_s, false).await.ok()?.ok()?.sender());
        }
        let claims = self.tokens.verify(token, now_s).ok()?;
        people.access(&claims, TokenScope::Write, now_s).await.ok()??.sender
    }

    /// Whoever showed a personal token; `None` where tokens are off.
    pub async fn person(&self, headers: &HeaderMap) -> Result<Option<Person>, Refused> {
        match self.config.auth {
            true => Ok(Some(self.known(token_in(headers)?, false).await?)),
            false => Ok(None),
        }
    }

    /// Refuses an upload of so many bytes where the disk would be too full with it.
    pub(crate) fn expect_room(&self, bytes: u64) -> Result<(), Refused> {
        match &self.disk {
            Some(disk) if !disk.has_room_for(bytes) => {
                let message =
                    "the server's disk is almost full: it takes no uploads until there is more room";
                Err(Refused::new(ErrorCode::StorageFull, message))
            }
            _ => Ok(()),
        }
    }

    /// Counts a request with a token that was found good, so that nobody can use up what is another's.
    pub(crate) fn admit(&self, token_id: &str) -> Result<(), Refused> {
        let Some(rate) = &self.token_rate else { return Ok(()) };
        let admitted = rate.admit_key(token_id.to_owned(), self.started.elapsed());
        admitted.map_err(|wait| Refused::too_many("too many requests with this token", wait))
    }

    /// Whose personal token this is; counts the request. See [`People::of`] for `fresh`.
    pub(crate) async fn known(&self, token: &str, fresh: bool) -> Result<Person, Refused> {
        let person = self.people()?.of(token, self.now_s(), fresh).await??;
        self.admit(&person.token().id)?;
        Ok(person)
    }

    fn people(&self) -> Result<&People, Refused> {
        let none = || Refused::new(ErrorCode::Unavailable, "there is no store behind this server");
        self.people.as_ref().ok_or_else(none)
    }

    /// A URL of this server that opens `ranges` of an object for at least as long as URLs are good.
    ///
    /// It expires on a round time, so that for a while everyone who may read the same ranges gets the same URL, and
    /// caches on the way have a use.
    pub fn data_url(&self, key: &DataKey, ranges: &[HttpRange]) -> Result<String, RangeCount> {
        self.data_url_for(key, ranges, false)
    }

    /// The same, of a private repository or not.
    pub(crate) fn data_url_for(
        &self,
        key: &DataKey,
        ranges: &[HttpRange],
        is_private: bool,
    ) -> Result<String, RangeCount> {
        let ttl_s = self.config.url_ttl_s;
        let expires_s = self.now_s().saturating_add(ttl_s).checked_next_multiple_of((ttl_s / 8).max(1));
        let path = self.signer.sign_for(key, ranges, expires_s.unwrap_or(u64::MAX), is_private)?;
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

/// The token a request shows.
fn token_in(headers: &HeaderMap) -> Result<&str, auth::Refusal> {
    let header = headers.get(header::AUTHORIZATION);
    let text = header.map(|value| value.to_str().map_err(|_| auth::Refusal::Malformed)).transpose()?;
    auth::bearer(text)
}

fn system_clock() -> u64 {
    // A clock before 1970 is broken; taken as 1970, every token and URL is still good, and logs show the time.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

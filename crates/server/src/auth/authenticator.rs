//! Authentication of callers: from the text of a token, or a password, to a [`Principal`] or the scope of its content.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use store::hub::{NamespaceState, Rights};
use store::{Scope, Store};
use xet::wire::routes::TokenScope;

use crate::auth::access::Access;
use crate::auth::cas_token::{CasTokens, Claims};
use crate::auth::principal::{ANYONE, Principal};
use crate::auth::sign_in_limit::SignInLimit;
use crate::auth::token_store::{TokenHolder, TokenStore};
use crate::auth::{Refusal, bearer, password, personal_token, scope_of};
use crate::net::rate::RateLimit;

/// Why a caller is not authenticated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthError {
    /// Its token opens nothing, or not this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many requests or attempts.
    #[error("{message}")]
    TooMany {
        /// Of what.
        message: &'static str,
        /// How long to wait.
        wait: Duration,
    },
    /// No store with tokens is open.
    #[error("there is no store behind this server")]
    NoStore,
    /// The catalog failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Checks tokens and passwords, and limits how often that is done.
pub(crate) struct Authenticator {
    /// Whether tokens are required at all.
    is_required: bool,
    /// Issues and checks CAS tokens.
    pub(crate) cas_tokens: CasTokens,
    /// Reads personal tokens, once a store is open.
    token_store: Option<TokenStore>,
    /// Limit on requests with one token, if there is one.
    token_rate: Option<RateLimit<String>>,
    /// Limit on password attempts.
    sign_ins: SignInLimit,
    /// Start of the time that limits count in.
    started: Instant,
    /// Now, in Unix seconds.
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Authenticator {
    /// An authenticator without a store.
    pub(crate) fn new(
        is_required: bool,
        cas_tokens: CasTokens,
        token_requests_per_s: u32,
        clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> Self {
        Self {
            is_required,
            cas_tokens,
            token_store: None,
            token_rate: RateLimit::new(token_requests_per_s),
            sign_ins: SignInLimit::default(),
            started: Instant::now(),
            clock,
        }
    }

    /// Sets the store whose tokens are accepted.
    pub(crate) fn set_store(&mut self, store: &Store) {
        self.token_store = Some(TokenStore::new(store.clone()));
    }

    /// Sets the clock.
    pub(crate) fn set_clock(&mut self, clock: Arc<dyn Fn() -> u64 + Send + Sync>) {
        self.clock = clock;
    }

    /// Whether tokens are required at all.
    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    fn now_s(&self) -> u64 {
        (self.clock)()
    }

    fn token_store(&self) -> Result<&TokenStore, AuthError> {
        self.token_store.as_ref().ok_or(AuthError::NoStore)
    }

    /// The caller who sent this `Authorization` header; `None` without one.
    pub(crate) async fn principal(
        &self,
        authorization: Result<Option<&str>, Refusal>,
    ) -> Result<Option<Principal>, AuthError> {
        if !self.is_required {
            return Ok(Some(Principal::anyone()));
        }
        let Some(text) = authorization? else { return Ok(None) };
        match basic_password(text) {
            Some(password) => self.identify(&password).await.map(Some),
            None => self.identify(bearer(Some(text))?).await.map(Some),
        }
    }

    /// The caller with this token. A CAS token identifies no one: it opens content only.
    pub(crate) async fn identify(&self, token: &str) -> Result<Principal, AuthError> {
        // huggingface.js sends no token that does not begin so: users put it before ours.
        let token = token.strip_prefix("hf_").unwrap_or(token);
        if personal_token::is_token(token) {
            return Ok(self.authenticate(token, true).await?.principal.clone());
        }
        self.cas_tokens.verify(token, self.now_s())?;
        Err(Refusal::CasToken.into())
    }

    /// The holder of a personal token; counts the request. See [`TokenStore::holder`] for `fresh`.
    pub(crate) async fn authenticate(&self, token: &str, fresh: bool) -> Result<Arc<TokenHolder>, AuthError> {
        let holder = self.token_store()?.holder(token, self.now_s(), fresh).await??;
        self.limit_rate(&holder.token.id)?;
        Ok(holder)
    }

    /// The content that the caller may use, when its token allows `needed` there; `None` where tokens are not required and
    /// none says which content is meant. Accepts CAS tokens, and personal ones that are bound to one repository.
    pub(crate) async fn authorize(
        &self,
        authorization: Result<Option<&str>, Refusal>,
        needed: TokenScope,
    ) -> Result<Option<Scope>, AuthError> {
        if !self.is_required {
            // No one is refused; a good token still says which repository is meant.
            let token = authorization.ok().flatten().and_then(|text| bearer(Some(text)).ok());
            return match token.and_then(|token| self.cas_tokens.verify(token, self.now_s()).ok()) {
                Some(claims) => self.open_scope(&claims).await.map(Some),
                None => Ok(None),
            };
        }
        let token = bearer(authorization?)?;
        if personal_token::is_token(token) {
            let holder = self.authenticate(token, false).await?;
            let scope = holder.principal.only_scope(rights_for(needed))?;
            store::audit::name(&holder.principal.actor);
            return Ok(Some(scope.clone()));
        }
        let claims = self.cas_tokens.verify(token, self.now_s())?;
        claims.allow(needed)?;
        self.limit_rate(&claims.jti)?;
        let access = self.access(&claims, needed).await?.ok_or(Refusal::Void)?;
        store::audit::name(&claims.sub);
        Ok(Some(access.scope))
    }

    /// What claims allow now, if that includes `needed`: `None` when the access that they were issued for has ended.
    pub(crate) async fn access(
        &self,
        claims: &Claims,
        needed: TokenScope,
    ) -> Result<Option<Access>, AuthError> {
        Ok(self.token_store()?.access(claims, needed, self.now_s()).await?)
    }

    /// The scope that claims name where access control is off: the repository follows its id.
    async fn open_scope(&self, claims: &Claims) -> Result<Scope, AuthError> {
        let (Some(id), Some(tokens)) = (claims.repo_id, &self.token_store) else {
            return Ok(scope_of(&claims.repo)?);
        };
        let access = tokens.open_access(id, &claims.repo, self.now_s()).await?.ok_or(Refusal::Void)?;
        Ok(access.scope)
    }

    /// Sender of an upload: what was sent to one repository, the same sender may refer to in another.
    pub(crate) async fn sender(&self, authorization: Option<&str>) -> Option<String> {
        if !self.is_required {
            return Some(ANYONE.to_owned());
        }
        let (tokens, now_s) = (self.token_store.as_ref()?, self.now_s());
        let token = bearer(authorization).ok()?;
        if personal_token::is_token(token) {
            return Some(tokens.holder(token, now_s, false).await.ok()?.ok()?.principal.sender());
        }
        let claims = self.cas_tokens.verify(token, now_s).ok()?;
        tokens.access(&claims, TokenScope::Write, now_s).await.ok()??.sender
    }

    /// Counts a request with a token that was found good, so that no one can use up the limit of another's.
    fn limit_rate(&self, token_id: &str) -> Result<(), AuthError> {
        let Some(rate) = &self.token_rate else { return Ok(()) };
        let admitted = rate.admit_key(token_id.to_owned(), self.started.elapsed());
        let message = "too many requests with this token";
        admitted.map_err(|wait| AuthError::TooMany { message, wait })
    }

    /// Whether this is the password of a user who is not disabled. Every other name costs as much as a user's. The attempt
    /// counts for its address before it is checked.
    pub(crate) async fn is_password(
        &self,
        store: &Store,
        address: IpAddr,
        name: &str,
        password: &str,
    ) -> Result<bool, AuthError> {
        let attempt = self.sign_ins.begin(address, name, self.started.elapsed());
        let message = "too many attempts to sign in from this address: wait a minute";
        let attempt = attempt.map_err(|wait| AuthError::TooMany { message, wait })?;
        let found = store.hub().tokens().password(name).await?;
        let user = store.hub().namespace(name).await?;
        let is_active =
            user.is_some_and(|user| user.state == NamespaceState::Active && !user.is_organisation);
        let is_known = found.is_some() && is_active;
        let is_right = is_known & password::verify(password, found).await;
        if is_right {
            self.sign_ins.succeed(&attempt);
        }
        Ok(is_right)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("is_required", &self.is_required).finish_non_exhaustive()
    }
}

/// Rights that a scope of the protocol needs.
fn rights_for(scope: TokenScope) -> Rights {
    match scope {
        TokenScope::Read => Rights::Read,
        TokenScope::Write => Rights::Write,
    }
}

/// The password of a `Basic` header, which is how git sends a token.
fn basic_password(header: &str) -> Option<String> {
    let (scheme, encoded) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    Some(decoded.split_once(':')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_sends_a_token_as_a_password() {
        assert_eq!(basic_password("Basic YW5uOmRzX3g6eQ==").as_deref(), Some("ds_x:y"));
        for other in ["Bearer YW5uOmRzX3g=", "Basic", "Basic !", "Basic YW5u"] {
            assert_eq!(basic_password(other), None, "{other}");
        }
    }
}

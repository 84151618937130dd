//! Who asks, as the store wants to know it, and what for.

use std::str::FromStr;

use axum::http::{HeaderMap, Uri};
use store::{Scope, Store};
use xet::FormatError;
use xet::wire::ErrorCode;
use xet::wire::routes::TokenScope;

use super::error::Refused;
use crate::state::AppState;

/// Someone with a token that allows what they ask for, and the store they ask.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) store: Store,
    pub(super) grant: store::Grant,
}

impl Caller {
    /// Checks the token before anything else, so that strangers learn nothing.
    pub(super) async fn check(
        state: &AppState,
        headers: &HeaderMap,
        needed: TokenScope,
    ) -> Result<Self, Refused> {
        let scope = match state.authorize(headers, needed).await? {
            Some(scope) => scope,
            // Where tokens are off there is one repository, and it is everyone's.
            None => Scope::new("anyone", "cas")?,
        };
        let grant = match needed {
            TokenScope::Read => store::Grant::read(scope),
            TokenScope::Write => match state.sender(headers).await {
                Some(sender) => store::Grant::write(scope).sent_by(sender),
                None => store::Grant::write(scope),
            },
        };
        Ok(Self { store: store_of(state)?, grant })
    }
}

impl Caller {
    /// Whether what the caller reads is for its repository alone: caches that serve others must not keep it.
    pub(super) async fn is_private(&self, state: &AppState) -> Result<bool, Refused> {
        match state.config.auth {
            true => Ok(!self.store.hub().is_public(self.grant.scope()).await?),
            false => Ok(false),
        }
    }
}

/// The store behind the server.
pub(super) fn store_of(state: &AppState) -> Result<Store, Refused> {
    let none = || Refused::new(ErrorCode::Unavailable, "there is no store behind this server");
    state.store.clone().ok_or_else(none)
}

/// The hash that every path about one thing ends in.
pub(super) fn hash_in<H: FromStr<Err = FormatError>>(uri: &Uri) -> Result<H, Refused> {
    let text = uri.path().rsplit('/').next().unwrap_or_default();
    text.parse().map_err(|error| Refused::new(ErrorCode::Invalid, format!("the path: {error}")))
}

/// The same, of a path with a prefix before the hash. What the prefix is means nothing, but it must be a name: whoever
/// sends anything else is up to something, or not a client.
pub(super) fn prefixed_hash_in<H: FromStr<Err = FormatError>>(uri: &Uri) -> Result<H, Refused> {
    let prefix = uri.path().rsplit('/').nth(1).unwrap_or_default();
    let is_name = (1..=64).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_name {
        let message =
            "the path: a prefix is up to 64 letters, digits, dashes and underscores, such as default";
        return Err(Refused::new(ErrorCode::Invalid, message));
    }
    hash_in(uri)
}

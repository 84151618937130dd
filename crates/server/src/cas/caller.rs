//! Callers of the CAS API: their grant on the content, and the hash that the path names.

use std::str::FromStr;

use axum::http::{HeaderMap, Uri};
use store::{Scope, Store};
use xet::FormatError;
use xet::wire::ErrorCode;
use xet::wire::routes::TokenScope;

use crate::http::authorization;
use crate::http::error::ApiError;
use crate::state::AppState;

/// Someone with a token that allows what they ask for, and the store they ask.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) store: Store,
    pub(crate) grant: store::Grant,
}

impl Caller {
    /// Checks the token before anything else, so that callers without one learn nothing.
    pub(crate) async fn check(
        state: &AppState,
        headers: &HeaderMap,
        needed: TokenScope,
    ) -> Result<Self, ApiError> {
        let scope = match state.auth.authorize(authorization(headers), needed).await? {
            Some(scope) => scope,
            // Where tokens are off there is one repository, and it is everyone's.
            None => Scope::new("anyone", "cas")?,
        };
        let grant = match needed {
            TokenScope::Read => store::Grant::read(scope),
            TokenScope::Write => match state.auth.sender(authorization(headers).ok().flatten()).await {
                Some(sender) => store::Grant::write(scope).sent_by(sender),
                None => store::Grant::write(scope),
            },
        };
        Ok(Self { store: state.store.clone().ok_or_else(ApiError::no_store)?, grant })
    }
}

impl Caller {
    /// Whether what the caller reads is for its repository alone: caches that serve others must not keep it.
    pub(crate) async fn is_private(&self, state: &AppState) -> Result<bool, ApiError> {
        match state.config.auth {
            true => Ok(!self.store.hub().is_public(self.grant.scope()).await?),
            false => Ok(false),
        }
    }
}

/// The hash that every path about one object ends in.
pub(crate) fn hash_in<H: FromStr<Err = FormatError>>(uri: &Uri) -> Result<H, ApiError> {
    let text = uri.path().rsplit('/').next().unwrap_or_default();
    text.parse().map_err(|error| ApiError::new(ErrorCode::Invalid, format!("the path: {error}")))
}

/// The same, of a path with a prefix before the hash. What the prefix is means nothing, but it must be a name:
/// no client sends anything else.
pub(crate) fn prefixed_hash_in<H: FromStr<Err = FormatError>>(uri: &Uri) -> Result<H, ApiError> {
    let prefix = uri.path().rsplit('/').nth(1).unwrap_or_default();
    let is_name = (1..=64).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_name {
        let message =
            "the path: a prefix is up to 64 letters, digits, dashes and underscores, such as default";
        return Err(ApiError::new(ErrorCode::Invalid, message));
    }
    hash_in(uri)
}

//! Protection from cross-site requests: forms carry a token that only pages of the server know.

use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::secret::hex;

/// The token that forms of a session carry.
pub(super) fn form_token(session: Option<&str>) -> String {
    let digest = Sha256::digest(format!("drystone form {}", session.unwrap_or_default()));
    hex(digest.get(..16).unwrap_or_default())
}

/// Refuses a request that another site made the browser send.
pub(super) fn require_same_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host_of = |origin: &str| origin.split_once("://").map(|(_, host)| host.to_owned());
    let is_own = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => host_of(origin).as_deref() == text("host"),
        // No browser of this century.
        (None, None) => true,
    };
    match is_own {
        true => Ok(()),
        false => Err(ApiError::new(ErrorCode::Forbidden, "this comes from another site")),
    }
}

/// Refuses a change that no page of the server sent.
pub(super) fn require_form_token(
    headers: &HeaderMap,
    session: Option<&str>,
    sent: Option<&str>,
) -> Result<(), ApiError> {
    require_same_origin(headers)?;
    match sent == Some(form_token(session).as_str()) {
        true => Ok(()),
        false => Err(ApiError::new(ErrorCode::Forbidden, "the form is out of date: load the page again")),
    }
}

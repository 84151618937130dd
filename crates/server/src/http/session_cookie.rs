//! The cookie that carries the session token of a browser.

use axum::http::{HeaderMap, header};

use crate::auth::personal_token;

/// Name of the cookie.
pub(crate) const COOKIE: &str = "drystone-session";

/// The session token that a browser sends.
pub(crate) fn session_token(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let token = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value).next()?;
    personal_token::is_token(token).then(|| token.to_owned())
}

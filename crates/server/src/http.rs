//! HTTP that all APIs share: errors, bodies, ranges, queries, limits around every request, the request log.

pub(crate) mod body;
pub(crate) mod error;
pub(crate) mod health;
pub(crate) mod media_type;
mod parameters;
mod preconditions;
pub(crate) mod query;
pub(crate) mod ranges;
pub(crate) mod refusal_time;
mod request_log;
pub(crate) mod router;
pub(crate) mod session_cookie;
pub(crate) mod time;
mod unread_body;
pub(crate) mod upload;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use xet::wire::encode_json;
use xet::wire::routes::content_type;

use crate::auth::{self, AuthError, Principal, Refusal};
use crate::state::AppState;

/// A JSON response that is about now and about one caller.
pub(crate) fn json<T: serde::Serialize + ?Sized>(body: &T) -> Response<Body> {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    ];
    (headers, encode_json(body)).into_response()
}

/// The `Authorization` header of a request.
pub(crate) fn authorization(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let header = headers.get(header::AUTHORIZATION);
    header.map(|value| value.to_str().map_err(|_| Refusal::Malformed)).transpose()
}

/// The caller who sent a request with these headers; `None` without a token.
pub(crate) async fn principal(state: &AppState, headers: &HeaderMap) -> Result<Option<Principal>, AuthError> {
    state.auth.principal(authorization(headers)).await
}

/// The bearer token of a request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<&str, Refusal> {
    auth::bearer(authorization(headers)?)
}

//! JSON bodies of requests, read strictly, and fields and links of responses.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use xet::wire::parse_json;

use crate::http::error::ApiError;
use crate::http::upload::read_small_body;

/// A small JSON body; an empty one is an empty object.
pub(crate) async fn small_json<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = read_small_body(body, BODY_BYTES_MAX).await?;
    parse_small(&bytes)
}

pub(crate) fn parse_small<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    // The parser would take a list for the fields in their order.
    if !is_object(bytes) {
        return Err(ApiError::invalid("the body: expected an object"));
    }
    parse_json(bytes).map_err(|error| ApiError::invalid(format!("the body: {error}")))
}

/// Whether JSON begins as an object.
pub(crate) fn is_object(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'{')
}

/// Sets a field of an object.
pub(crate) fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// Text without what no name has, and PostgreSQL does not take.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, "")
}

/// Adds the URL of the next page.
pub(crate) fn next_link(response: &mut Response<Body>, url: &str) {
    if let Ok(link) = HeaderValue::from_str(&format!("<{url}>; rel=\"next\"")) {
        response.headers_mut().insert(header::LINK, link);
    }
}

/// The longest body of a small request.
const BODY_BYTES_MAX: usize = 1 << 20;

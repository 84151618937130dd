//! Request headers that would change the result and that are not honoured: refused by name, and never ignored.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, Method, header};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::urls::data_url::DATA_ROUTE;

/// Refuses a request with such a header.
pub(crate) fn check(request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let has = |name: &HeaderName| headers.contains_key(name);
    let invalid = |message: String| Err(ApiError::new(ErrorCode::Invalid, message));
    if let Some(name) = METHOD_OVERRIDES.iter().find(|name| headers.contains_key(**name)) {
        return invalid(format!("{name}: send the request with the method that is meant"));
    }
    if let Some(coding) = other_than(headers, &header::CONTENT_ENCODING, "identity") {
        return invalid(format!("Content-Encoding: bodies are accepted as they are, not as {coding}"));
    }
    if let Some(expected) = other_than(headers, &header::EXPECT, "100-continue") {
        return invalid(format!("Expect: {expected} is not supported"));
    }
    if let Some(coding) = other_than(headers, &header::TRANSFER_ENCODING, "chunked") {
        return invalid(format!("Transfer-Encoding: bodies are accepted in chunks, not as {coding}"));
    }
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if codings.map(|value| value.as_bytes().split(|byte| *byte == b',').count()).sum::<usize>() > 1 {
        return invalid("Transfer-Encoding: given more than once".to_owned());
    }
    if let Some(name) = ONCE.iter().find(|name| headers.get_all(**name).iter().count() > 1) {
        return invalid(format!("{name}: given more than once"));
    }
    if has(&header::CONTENT_RANGE) {
        return invalid("Content-Range: parts of a body are not supported".to_owned());
    }
    let conditions: &[HeaderName] = match (request.method(), has_entity_tag(request)) {
        (&Method::GET | &Method::HEAD | &Method::OPTIONS, true) => &[],
        // Without a date of change or an entity tag the others are about caches only.
        (&Method::GET | &Method::HEAD | &Method::OPTIONS, false) => &[header::IF_MATCH, header::IF_RANGE],
        _ => &[header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE, header::IF_RANGE],
    };
    match conditions.iter().find(|name| has(name)) {
        Some(name) => invalid(format!("{name}: this request takes no conditions")),
        None => Ok(()),
    }
}

/// The first value of a header that is not the only one that is understood.
fn other_than(headers: &HeaderMap, name: &HeaderName, understood: &str) -> Option<String> {
    let values = headers.get_all(name).into_iter();
    let texts = values.flat_map(|value| value.to_str().unwrap_or("?").split(',').map(str::trim));
    let other = texts.filter(|text| !text.is_empty()).find(|text| !text.eq_ignore_ascii_case(understood));
    other.map(|text| text.chars().take(40).collect())
}

/// Whether what the path names has an entity tag, with which [`crate::http::ranges`] compares conditions.
fn has_entity_tag(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let segments = ["/resolve/", "/resolve-cache/", "/raw/"];
    route == DATA_ROUTE || route.starts_with("/lfs/") || segments.iter().any(|part| route.contains(part))
}

/// Headers by which proxies and frameworks send another method than the request's own.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Headers with one value: of two, one would be ignored.
const ONCE: [&str; 6] =
    ["authorization", "content-type", "if-range", "range", "x-drystone-word", "x-range-dirty"];

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn refused(method: &str, name: &str, value: &str) -> Option<String> {
        let request = Request::builder().method(method).uri("/x").header(name, value);
        check(&request.body(Body::empty()).unwrap()).err().map(|refused| refused.message().to_owned())
    }

    #[test]
    fn a_header_that_is_not_honoured_is_refused_by_its_name() {
        for (method, name, value) in [
            ("POST", "x-http-method-override", "DELETE"),
            ("GET", "x-method-override", "DELETE"),
            ("PUT", "content-encoding", "gzip"),
            ("PUT", "content-encoding", "identity, gzip"),
            ("POST", "expect", "200-ok"),
            ("PUT", "content-range", "bytes 0-9/20"),
            ("PUT", "if-match", "\"a\""),
            ("POST", "if-none-match", "*"),
            ("DELETE", "if-unmodified-since", "Sat, 29 Oct 1994 19:43:31 GMT"),
            ("GET", "if-match", "\"a\""),
            ("GET", "if-range", "\"a\""),
            ("PUT", "transfer-encoding", "gzip, chunked"),
            ("PUT", "transfer-encoding", "chunked, chunked"),
        ] {
            let message = refused(method, name, value).unwrap_or_default().to_ascii_lowercase();
            assert!(message.contains(name), "{method} {name}: {message}");
        }
        for (method, name, value) in [
            ("PUT", "content-encoding", "identity"),
            ("PUT", "expect", "100-Continue"),
            ("GET", "if-none-match", "\"a\""),
            ("GET", "if-modified-since", "Sat, 29 Oct 1994 19:43:31 GMT"),
            ("POST", "content-type", "application/json"),
            ("PUT", "transfer-encoding", "chunked"),
        ] {
            assert_eq!(refused(method, name, value), None, "{method} {name}");
        }
    }

    #[test]
    fn a_header_with_two_values_where_one_counts_is_refused() {
        for name in ONCE {
            let request = Request::builder().header(name, "a").header(name, "b").body(Body::empty()).unwrap();
            let refused = check(&request).unwrap_err();
            assert!(refused.message().starts_with(name), "{name}: {}", refused.message());
        }
        let two = Request::builder().header("accept", "a").header("accept", "b").header("range", "bytes=0-1");
        assert!(check(&two.body(Body::empty()).unwrap()).is_ok());
    }
}

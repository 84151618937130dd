//! Answers to requests for (parts of) something with a known length: 200, 206, 304, 416, with one range or several.
//!
//! Two ways to ask: by the headers alone, where the whole is open to the caller, and by a [`DataGrant`] of a signed URL,
//! where only its ranges are.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use xet::limits;
use xet::wire::multipart::Boundary;
use xet::wire::range::parse_ranges;
use xet::wire::routes::content_type;
use xet::wire::{ContentRange, ErrorCode, HttpRange};

use crate::http::body::{self, Pieces};
use crate::http::error::{ApiError, Dialect};
use crate::secret::{hex, random};
use crate::urls::data_url::DataGrant;

/// A representation of known length, in the sense of RFC 9110.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Representation {
    /// How long it is.
    pub total_bytes: u64,
    /// Its strong entity tag, without the quotes; visible ASCII.
    pub etag: String,
    /// Its media type.
    pub content_type: &'static str,
    /// How long it may be kept.
    pub cache: Cache,
}

/// How long an answer may be kept, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// By the caller, who must revalidate it each time.
    Revalidate,
    /// By everyone, or by the caller, as it never changes, until the URL expires.
    Until {
        /// When the URL expires, in Unix seconds.
        expires_s: u64,
        /// Now, in Unix seconds.
        now_s: u64,
        /// By the caller alone.
        is_private: bool,
    },
}

/// Answers a request for a representation that is open as a whole.
pub(crate) fn answer<F>(
    method: &Method,
    headers: &HeaderMap,
    representation: &Representation,
    open: F,
) -> Response<Body>
where
    F: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    if if_match_fails(headers, representation) {
        return precondition_failed(representation);
    }
    if etag_matches(headers, header::IF_NONE_MATCH, &representation.etag, Strength::Weak) {
        return not_modified(representation);
    }
    match select(method, headers, representation) {
        Selection::Whole => whole(method, representation, open),
        Selection::Ranges(ranges) => partial(representation, &ranges, open),
        Selection::Unsatisfiable => unsatisfiable(representation),
    }
}

/// Answers a request on a data URL: the granted ranges and nothing else of the representation.
pub(crate) fn answer_granted<F>(
    method: &Method,
    headers: &HeaderMap,
    representation: &Representation,
    grant: &DataGrant,
    open: F,
) -> Response<Body>
where
    F: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    if if_match_fails(headers, representation) {
        return precondition_failed(representation);
    }
    if etag_matches(headers, header::IF_NONE_MATCH, &representation.etag, Strength::Weak) {
        return not_modified(representation);
    }
    // Elsewhere this would make the answer the whole representation, which is not granted here.
    if headers.contains_key(header::IF_RANGE)
        && !etag_matches(headers, header::IF_RANGE, &representation.etag, Strength::Strong)
    {
        let error = ApiError::new(ErrorCode::UrlExpired, "If-Range names other bytes than the URL");
        return error.with_dialect(Dialect::Cas).into_response();
    }
    if method == Method::HEAD {
        return whole(method, representation, open);
    }
    // Signed ranges come from the catalog: one past the end means that the object is not what it was.
    if grant.ranges.iter().any(|range| range.last() >= representation.total_bytes) {
        return unsatisfiable(representation);
    }
    partial(representation, &grant.ranges, open)
}

/// Length of the longest range that a request selects.
pub(crate) fn longest_bytes(headers: &HeaderMap, total_bytes: u64) -> u64 {
    let header = headers.get(header::RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Ok(specs) = parse_ranges(header, limits::HEADER_RANGES_MAX) else { return total_bytes };
    let spans = specs.iter().filter_map(|spec| spec.resolve(total_bytes));
    spans.map(|span| span.end.saturating_sub(span.start)).max().unwrap_or(total_bytes)
}

/// What a request selects.
enum Selection {
    Whole,
    Ranges(Vec<HttpRange>),
    Unsatisfiable,
}

/// Reads `Range` and `If-Range`.
fn select(method: &Method, headers: &HeaderMap, representation: &Representation) -> Selection {
    // HTTP defines ranges for GET alone and wants the header ignored elsewhere.
    if method != Method::GET || !headers.contains_key(header::RANGE) {
        return Selection::Whole;
    }
    if headers.contains_key(header::IF_RANGE)
        && !etag_matches(headers, header::IF_RANGE, &representation.etag, Strength::Strong)
    {
        return Selection::Whole;
    }
    let header = headers.get(header::RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let specs = match parse_ranges(header, limits::HEADER_RANGES_MAX) {
        Ok(specs) => specs,
        Err(xet::FormatError::Range { .. }) => return Selection::Unsatisfiable,
        // What is no range is as if it were not there.
        Err(_) => return Selection::Whole,
    };
    let spans =
        specs.iter().filter_map(|spec| HttpRange::from_half_open(&spec.resolve(representation.total_bytes)?));
    let ranges: Vec<HttpRange> = spans.collect();
    // Overlapping ranges could make us send any multiple of the representation for one small request.
    let sum = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len_bytes()));
    if ranges.is_empty() || sum > representation.total_bytes {
        return Selection::Unsatisfiable;
    }
    Selection::Ranges(ranges)
}

fn whole<F>(method: &Method, representation: &Representation, open: F) -> Response<Body>
where
    F: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    let head_only = method == Method::HEAD;
    let body = if head_only { Body::empty() } else { body::single(open, 0..representation.total_bytes) };
    let mut response = with_headers(StatusCode::OK, representation, body);
    put(&mut response, header::CONTENT_TYPE, representation.content_type);
    put(&mut response, header::CONTENT_LENGTH, &representation.total_bytes.to_string());
    response
}

fn partial<F>(representation: &Representation, ranges: &[HttpRange], open: F) -> Response<Body>
where
    F: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    if let [range] = ranges {
        let content_range =
            ContentRange::Part { range: *range, total_bytes: Some(representation.total_bytes) };
        let mut response =
            with_headers(StatusCode::PARTIAL_CONTENT, representation, body::single(open, range.half_open()));
        put(&mut response, header::CONTENT_TYPE, representation.content_type);
        put(&mut response, header::CONTENT_LENGTH, &range.len_bytes().to_string());
        put(&mut response, header::CONTENT_RANGE, &content_range.to_string());
        return response;
    }
    // Random, so that nobody can store data that contains the boundary for readers that search for it.
    let boundary = Boundary::new(&hex(&random::<16>())).expect("hexadecimal is allowed in a boundary");
    let Some(multipart) = body::multipart(open, boundary, representation.total_bytes, ranges) else {
        return unsatisfiable(representation);
    };
    let mut response = with_headers(StatusCode::PARTIAL_CONTENT, representation, multipart.body);
    put(&mut response, header::CONTENT_TYPE, &multipart.content_type);
    put(&mut response, header::CONTENT_LENGTH, &multipart.len_bytes.to_string());
    response
}

fn not_modified(representation: &Representation) -> Response<Body> {
    with_headers(StatusCode::NOT_MODIFIED, representation, Body::empty())
}

/// Whether `If-Match` names other bytes.
fn if_match_fails(headers: &HeaderMap, representation: &Representation) -> bool {
    let is_any = |value: &HeaderValue| value.as_bytes().trim_ascii() == b"*";
    headers.contains_key(header::IF_MATCH)
        && !etag_matches(headers, header::IF_MATCH, &representation.etag, Strength::Strong)
        && !headers.get_all(header::IF_MATCH).into_iter().any(is_any)
}

fn precondition_failed(representation: &Representation) -> Response<Body> {
    let refused = ApiError::new(ErrorCode::Invalid, "If-Match names other bytes than these");
    let mut response = refused.with_dialect(Dialect::Cas).into_response();
    *response.status_mut() = StatusCode::PRECONDITION_FAILED;
    put(&mut response, header::ETAG, &format!("\"{}\"", representation.etag));
    response
}

fn unsatisfiable(representation: &Representation) -> Response<Body> {
    let error = ApiError::new(ErrorCode::RangeNotSatisfiable, "no such range of bytes");
    let mut response = error.with_dialect(Dialect::Cas).into_response();
    let content_range = ContentRange::Unsatisfied { total_bytes: representation.total_bytes };
    put(&mut response, header::CONTENT_RANGE, &content_range.to_string());
    response
}

/// An answer with the headers that all but refusals have.
fn with_headers(status: StatusCode, representation: &Representation, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    put(&mut response, header::ACCEPT_RANGES, "bytes");
    put(&mut response, header::ETAG, &format!("\"{}\"", representation.etag));
    match representation.cache {
        Cache::Revalidate => put(&mut response, header::CACHE_CONTROL, "private, no-cache"),
        Cache::Until { expires_s, now_s, is_private } => {
            let audience = if is_private { "private" } else { "public" };
            let age_s = expires_s.saturating_sub(now_s);
            put(&mut response, header::CACHE_CONTROL, &format!("{audience}, immutable, max-age={age_s}"));
            // Beyond the year 9999 dates have no form in HTTP; no one signs for that long.
            let expires = UNIX_EPOCH + Duration::from_secs(expires_s.min(253_402_300_799));
            put(&mut response, header::EXPIRES, &httpdate::fmt_http_date(expires));
        }
    }
    response
}

/// How entity tags are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    /// `W/` does not matter.
    Weak,
    /// A tag with `W/` is like no other.
    Strong,
}

/// Whether a header's list of entity tags has this one, or the star.
fn etag_matches(headers: &HeaderMap, name: HeaderName, etag: &str, strength: Strength) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| {
        let plain = match strength {
            Strength::Weak if tag == "*" => return true,
            Strength::Weak => tag.strip_prefix("W/").unwrap_or(tag),
            Strength::Strong => tag,
        };
        plain.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(etag)
    })
}

/// Sets a header whose value is ours and therefore sound.
fn put(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// A xorb as a representation, with the caching headers of the draft.
pub(crate) fn xorb(grant: &DataGrant, total_bytes: u64, now_s: u64) -> Representation {
    let cache = Cache::Until { expires_s: grant.expires_s, now_s, is_private: grant.is_private };
    Representation { total_bytes, etag: grant.key.xorb.to_string(), content_type: content_type::BYTES, cache }
}

#[cfg(test)]
mod tests;

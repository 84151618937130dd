//! HTTP responses: the error of a status, and reading of a body up to a limit.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use xet::wire::routes::header;
use xet::wire::{ErrorBody, code, parse_json};

use crate::error::{Error, ErrorKind, Result};

/// A server without a route says 404 or 501; then there is an older route to try.
pub(crate) fn is_missing_route(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED)
}

/// The error that an answer is.
pub(crate) async fn refuse(what: &str, answer: Response) -> Error {
    let status = answer.status();
    let request_id = request_id(&answer);
    let retry_after = retry_after(&answer, SystemTime::now());
    let body = read_all(what, answer, REFUSAL_BYTES_MAX, Duration::from_secs(10)).await.unwrap_or_default();
    let message = parse_json::<ErrorBody>(&body).map(|body| body.error).unwrap_or_default();
    let message =
        if message.is_empty() { status.canonical_reason().unwrap_or("refused").to_owned() } else { message };
    let message: String = message.chars().filter(|c| !c.is_control()).take(500).collect();
    let message = format!("{what}: {message} (status {})", status.as_u16());
    Error::new(kind(status), message).with_retry_after(retry_after).with_request_id(request_id)
}

fn kind(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Denied,
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
        status if code::is_retryable(status.as_u16()) => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}

/// The error of a request that got no answer, or half of one.
pub(crate) fn broken(what: &str, source: &reqwest::Error) -> Error {
    let reason = reason(source);
    Error::new(kind_of_failure(source, &reason), format!("{what}: {reason}"))
}

/// The same at a server that has never answered, with what is likely wrong.
pub(crate) fn unreached(endpoint: &str, source: &reqwest::Error) -> Error {
    let reason = reason(source);
    let kind = kind_of_failure(source, &reason);
    let hint = match kind {
        ErrorKind::Unavailable if reason.contains("InvalidContentType") => {
            ": the server does not speak TLS there; try http://"
        }
        ErrorKind::Unavailable if reason.contains("invalid HTTP version") => {
            ": the server may expect TLS there; try https://"
        }
        ErrorKind::Unavailable => ": check that the URL is right and that the server is running",
        _ => "",
    };
    Error::new(kind, format!("cannot reach {endpoint}: {reason}{hint}"))
}

/// The library's own text stops at "error sending request"; the reason is at the bottom.
fn reason(source: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = source;
    while let Some(deeper) = reason.source() {
        reason = deeper;
    }
    reason.to_string()
}

/// Failures in transfer may be temporary; a request that cannot be sent at all cannot be retried, and who is not
/// trusted now will not be in a minute.
fn kind_of_failure(source: &reqwest::Error, reason: &str) -> ErrorKind {
    match source {
        source if source.is_builder() || source.is_redirect() => ErrorKind::Invalid,
        source if source.is_connect() && reason.contains("certificate") => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    }
}

/// A body of at most `bytes_max` bytes.
pub(crate) async fn read_all(
    what: &str,
    mut answer: Response,
    bytes_max: u64,
    stall_timeout: Duration,
) -> Result<Bytes> {
    let too_long =
        || Error::new(ErrorKind::Invalid, format!("{what}: the answer is longer than {bytes_max} bytes"));
    if answer.content_length().is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_long());
    }
    let mut body = BytesMut::new();
    loop {
        let piece = tokio::time::timeout(stall_timeout, answer.chunk()).await;
        let piece = piece
            .map_err(|_| Error::new(ErrorKind::Unavailable, format!("{what}: the answer stands still")))?;
        match piece.map_err(|source| broken(what, &source))? {
            Some(piece) if (body.len() + piece.len()) as u64 > bytes_max => return Err(too_long()),
            Some(piece) => body.extend_from_slice(&piece),
            None => return Ok(body.freeze()),
        }
    }
}

/// The name the server gave to the request.
pub(crate) fn request_id(answer: &Response) -> Option<String> {
    let id = answer.headers().get(header::REQUEST_ID)?.to_str().ok()?;
    Some(id.chars().take(100).collect())
}

/// Seconds, or a date.
fn retry_after(answer: &Response, now: SystemTime) -> Option<Duration> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    match text.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

const REFUSAL_BYTES_MAX: u64 = 64 * 1024;

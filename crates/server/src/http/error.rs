//! Refusals: what the domain says no to, as HTTP.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use store::ErrorKind;
use store::content::{Mismatch, MissingXorb};
use xet::FormatError;
use xet::wire::routes::content_type;
use xet::wire::{ErrorBody, ErrorCode, encode_json};

use crate::{auth, budget, sign};

/// A refusal on its way out. The code decides the status, in the table of [`xet::wire::code`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    code: ErrorCode,
    message: String,
    retry_after_s: Option<u32>,
}

impl Refused {
    /// A refusal with a message for people, who may be strangers: it must not tell what they may not know.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        // The reference client does not heed the header, but proxies and others do.
        let retry_after_s = matches!(code, ErrorCode::TooManyRequests | ErrorCode::Unavailable).then_some(1);
        Self { code, message: message.into(), retry_after_s }
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Too many requests, and how long to wait.
    pub(crate) fn too_many(message: &str, wait: Duration) -> Self {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Self::new(ErrorCode::TooManyRequests, message).retry_after(seconds)
    }

    /// For people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// For programs.
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        let body = encode_json(&ErrorBody { error: self.message, code: self.code });
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON));
        // A refusal is about now and about one caller.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.code == ErrorCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<auth::Refusal> for Refused {
    fn from(refusal: auth::Refusal) -> Self {
        metrics::counter!("drystone_tokens_refused_total", "reason" => refusal.reason()).increment(1);
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<sign::Refusal> for Refused {
    fn from(refusal: sign::Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<budget::Refusal> for Refused {
    fn from(refusal: budget::Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

impl From<store::Error> for Refused {
    fn from(error: store::Error) -> Self {
        let source = std::error::Error::source(&error);
        // A body that was refused while it arrived comes back as the cause.
        if let Some(refused) = source.and_then(|source| source.downcast_ref::<Self>()) {
            return refused.clone();
        }
        let is_hash = source.is_some_and(|source| {
            matches!(source.downcast_ref(), Some(FormatError::Hash { .. }))
                || source.downcast_ref().is_some_and(Mismatch::is_hash)
        });
        let is_missing = source.and_then(|source| source.downcast_ref::<MissingXorb>()).is_some();
        let (code, message) = match error.kind() {
            ErrorKind::Invalid if is_hash => (ErrorCode::HashMismatch, None),
            ErrorKind::Invalid if is_missing => (ErrorCode::MissingXorb, None),
            ErrorKind::Invalid => (ErrorCode::Invalid, None),
            ErrorKind::Conflict => (ErrorCode::Conflict, None),
            ErrorKind::Denied => (ErrorCode::Forbidden, None),
            ErrorKind::Full => (ErrorCode::QuotaExceeded, None),
            ErrorKind::NotFound => (ErrorCode::NotFound, None),
            ErrorKind::Corrupt => (ErrorCode::Corrupt, Some("stored bytes are damaged")),
            ErrorKind::Unavailable => (ErrorCode::Unavailable, Some("the store does not answer")),
            _ => (ErrorCode::Internal, Some("the store failed")),
        };
        // What is wrong behind the server is for its keeper, and names places and keys.
        let message = match message {
            None => error.to_string(),
            Some(message) => {
                tracing::error!(%error, "the store");
                format!("{message}; the server's log has more under this request id")
            }
        };
        Self::new(code, message)
    }
}

/// The answer in place of one that panicked. What the panic says is logged and not sent.
// The layer hands the panic over as it caught it.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn caught_panic(panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = text, "a request panicked");
    metrics::counter!("drystone_panics_total").increment(1);
    Refused::new(ErrorCode::Internal, "the server failed; its log has more under this request id")
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_status_and_a_json_body() {
        for code in ErrorCode::ALL {
            let response = Refused::new(*code, "no").into_response();
            assert_eq!(response.status().as_u16(), code.status());
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
            assert_eq!(response.headers().contains_key(header::WWW_AUTHENTICATE), code.status() == 401);
            assert_eq!(
                response.headers().contains_key(header::RETRY_AFTER),
                matches!(code.status(), 429 | 503)
            );
        }
        assert_eq!(
            Refused::new(ErrorCode::Unavailable, "").retry_after(9).into_response().headers()["retry-after"],
            "9"
        );
    }

    #[test]
    fn refusals_keep_their_code() {
        assert_eq!(Refused::from(auth::Refusal::Missing).code().status(), 401);
        assert_eq!(Refused::from(auth::Refusal::Repository).code().status(), 403);
        assert_eq!(Refused::from(sign::Refusal::Expired).code(), ErrorCode::UrlExpired);
        assert_eq!(Refused::from(budget::Refusal::Busy).code().status(), 503);
    }
}

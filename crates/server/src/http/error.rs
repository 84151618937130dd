//! Errors as HTTP responses, in the dialect of each API.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use store::ErrorKind;
use store::content::{Mismatch, MissingXorb};
use store::ids::Oid;
use xet::FormatError;
use xet::wire::routes::content_type;
use xet::wire::{ErrorBody, ErrorCode, encode_json};

use crate::urls::data_url;
use crate::{auth, budget, disk};

/// How an API writes its errors. All have the status and the JSON body of the CAS API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Nothing else.
    Cas,
    /// Headers that clients of the Hub decide by.
    Hub,
    /// The same for git-lfs.
    Lfs,
    /// The same with a page as the body, for browsers.
    Page,
}

/// An error on its way out. The code decides the status, in the table of [`xet::wire::code`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    code: ErrorCode,
    message: String,
    retry_after_s: Option<u32>,
    /// `X-Error-Code`, which clients of the Hub decide by.
    name: Option<&'static str>,
    /// A status other than that of the code.
    status: Option<StatusCode>,
    /// The commit in which something was not found: clients cache that.
    commit: Option<String>,
    /// A dialect other than that of the route.
    dialect: Option<Dialect>,
}

impl ApiError {
    /// An error with a message for untrusted clients: it must not contain what they may not know.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        // The reference client ignores the header, but proxies and others do not.
        let retry_after_s = matches!(code, ErrorCode::TooManyRequests | ErrorCode::Unavailable).then_some(1);
        let message = message.into();
        Self { code, message, retry_after_s, name: None, status: None, commit: None, dialect: None }
    }

    /// An invalid request.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, message)
    }

    /// Too many requests, and how long to wait.
    pub(crate) fn too_many(message: &str, wait: Duration) -> Self {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Self { retry_after_s: Some(seconds), ..Self::new(ErrorCode::TooManyRequests, message) }
    }

    /// No store behind the server.
    pub(crate) fn no_store() -> Self {
        Self::new(ErrorCode::Unavailable, "there is no store behind this server")
    }

    /// No such repository, or none that the caller may know of. Anonymous callers may try with a token.
    pub(crate) fn repo_not_found(is_anonymous: bool) -> Self {
        let code = if is_anonymous { ErrorCode::Unauthorized } else { ErrorCode::NotFound };
        Self::new(code, "no such repository, or not with this token").named("RepoNotFound")
    }

    /// No such revision.
    pub(crate) fn revision_not_found(revision: &str) -> Self {
        let revision: String = revision.chars().take(80).collect();
        Self::new(ErrorCode::NotFound, format!("no revision {revision:?}")).named("RevisionNotFound")
    }

    /// No such file or directory.
    pub(crate) fn entry_not_found(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(ErrorCode::NotFound, format!("no file or folder {path:?}")).named("EntryNotFound")
    }

    /// Sets the name that clients of the Hub decide by.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the commit in which something was not found.
    pub(crate) fn at(mut self, commit: Oid) -> Self {
        self.commit = Some(commit.to_string());
        self
    }

    /// Sets another status than that of the code.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets another dialect than that of the route.
    pub(crate) fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// Sets the dialect by who reads the error where no route says it: a page for browsers, JSON for programs.
    pub(crate) fn for_reader(self, headers: &HeaderMap) -> Self {
        self.with_dialect(if wants_page(headers) { Dialect::Page } else { Dialect::Cas })
    }

    /// The message for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The code for programs.
    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }

    fn insert_hub_headers(&self, headers: &mut HeaderMap) {
        let values = [
            ("x-error-code", self.name),
            ("x-repo-commit", self.commit.as_deref()),
            ("x-error-message", Some(self.message.as_str())),
        ];
        for (name, value) in values {
            if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Whether a browser goes to a page: browsers name HTML first, programs accept anything or JSON.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.trim_start().starts_with("text/html"))
}

/// Message of an error that is to be displayed as a page; an extension of its response.
#[derive(Debug, Clone)]
pub(crate) struct PageMessage(pub(crate) String);

/// Completes an error response in the dialect of its route; other responses stay.
pub(crate) fn write_dialect(response: &mut Response<Body>, of_route: Dialect) {
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return };
    match error.dialect.unwrap_or(of_route) {
        Dialect::Cas => {}
        Dialect::Hub | Dialect::Lfs => error.insert_hub_headers(response.headers_mut()),
        Dialect::Page => {
            error.insert_hub_headers(response.headers_mut());
            response.extensions_mut().insert(PageMessage(error.message));
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let body = encode_json(&ErrorBody { error: self.message.clone(), code: self.code });
        let mut response = Response::new(Body::from(body));
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.status_mut() = self.status.unwrap_or(status);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON));
        // An error is about now and about one caller.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.code == ErrorCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<auth::Refusal> for ApiError {
    fn from(refusal: auth::Refusal) -> Self {
        metrics::counter!("drystone_tokens_refused_total", "reason" => refusal.reason()).increment(1);
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<auth::AuthError> for ApiError {
    fn from(error: auth::AuthError) -> Self {
        match error {
            auth::AuthError::Refused(refusal) => refusal.into(),
            auth::AuthError::TooMany { message, wait } => Self::too_many(message, wait),
            auth::AuthError::NoStore => Self::no_store(),
            auth::AuthError::Store(error) => error.into(),
        }
    }
}

impl From<data_url::Refusal> for ApiError {
    fn from(refusal: data_url::Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<budget::Refusal> for ApiError {
    fn from(refusal: budget::Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

impl From<disk::DiskFull> for ApiError {
    fn from(full: disk::DiskFull) -> Self {
        Self::new(ErrorCode::StorageFull, full.to_string())
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<store::Error> for ApiError {
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
        // Faults behind the server name hosts and keys: they are for the administrator, in the log.
        let message = match message {
            None => error.to_string(),
            Some(message) => {
                tracing::error!(%error, "the store");
                format!("{message}; the server's log has more under this request id")
            }
        };
        // What handlers of the Hub do not check themselves, and is not found, is a path of a commit.
        let name = (error.kind() == ErrorKind::NotFound).then_some("EntryNotFound");
        Self { name, ..Self::new(code, message) }
    }
}

/// The response in place of one that panicked. The text of the panic is logged and not sent.
// The layer hands the panic over as it caught it.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn caught_panic(panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = text, "a request panicked");
    metrics::counter!("drystone_panics_total").increment(1);
    let message = "the server failed; its log has more under this request id";
    ApiError::new(ErrorCode::Internal, message).with_dialect(Dialect::Cas).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_status_and_a_json_body() {
        for code in ErrorCode::ALL {
            let response = ApiError::new(*code, "no").into_response();
            assert_eq!(response.status().as_u16(), code.status());
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
            assert_eq!(response.headers().contains_key(header::WWW_AUTHENTICATE), code.status() == 401);
            assert_eq!(
                response.headers().contains_key(header::RETRY_AFTER),
                matches!(code.status(), 429 | 503)
            );
        }
        let slow_down = ApiError::too_many("", Duration::from_secs(8)).into_response();
        assert_eq!(slow_down.headers()["retry-after"], "9");
    }

    #[test]
    fn refusals_keep_their_code() {
        assert_eq!(ApiError::from(auth::Refusal::Missing).code().status(), 401);
        assert_eq!(ApiError::from(auth::Refusal::Repository).code().status(), 403);
        assert_eq!(ApiError::from(data_url::Refusal::Expired).code(), ErrorCode::UrlExpired);
        assert_eq!(ApiError::from(budget::Refusal::Busy).code().status(), 503);
    }

    #[test]
    fn each_dialect_has_its_headers() {
        let written = |dialect| {
            let mut response = ApiError::repo_not_found(false).into_response();
            write_dialect(&mut response, dialect);
            response
        };
        assert!(!written(Dialect::Cas).headers().contains_key("x-error-code"));
        for dialect in [Dialect::Hub, Dialect::Lfs, Dialect::Page] {
            let response = written(dialect);
            assert_eq!(response.headers()["x-error-code"], "RepoNotFound");
            assert!(response.headers()["x-error-message"].to_str().unwrap().contains("no such repository"));
            let is_page = response.extensions().get::<PageMessage>().is_some();
            assert_eq!(is_page, dialect == Dialect::Page);
        }
        let mut response = ApiError::invalid("no").with_dialect(Dialect::Cas).into_response();
        write_dialect(&mut response, Dialect::Hub);
        assert!(!response.headers().contains_key("x-error-message"), "the error's own dialect comes first");
    }
}

//! Refusals of the Hub API: a status, a code for programs, and text for people.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use store::ErrorKind;
use store::ids::Oid;
use xet::wire::ErrorCode;

use crate::http::error::Refused;
use crate::{auth, budget};

/// A refusal of the Hub API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubError {
    /// What clients decide by.
    code: Option<&'static str>,
    /// Another status than the refusal's own.
    status: Option<StatusCode>,
    /// The commit in which something was not found: clients remember that.
    commit: Option<String>,
    refused: Refused,
}

impl HubError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: None, status: None, commit: None, refused: Refused::new(code, message) }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, message)
    }

    /// No such repository, or none the caller may know of. Who shows no token may try with one.
    pub(crate) fn repo_not_found(is_anonymous: bool) -> Self {
        let code = if is_anonymous { ErrorCode::Unauthorized } else { ErrorCode::NotFound };
        Self::new(code, "no such repository, or not with this token").named("RepoNotFound")
    }

    pub(crate) fn revision_not_found(revision: &str) -> Self {
        let revision: String = revision.chars().take(80).collect();
        Self::new(ErrorCode::NotFound, format!("no revision {revision:?}")).named("RevisionNotFound")
    }

    pub(crate) fn entry_not_found(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(ErrorCode::NotFound, format!("no file or folder {path:?}")).named("EntryNotFound")
    }

    /// A code for programs.
    pub(crate) fn named(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The commit that was looked at.
    pub(crate) fn at(mut self, commit: Oid) -> Self {
        self.commit = Some(commit.to_string());
        self
    }

    /// For people.
    pub(crate) fn message(&self) -> &str {
        self.refused.message()
    }

    /// Another status.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }
}

impl IntoResponse for HubError {
    fn into_response(self) -> Response<Body> {
        let message = self.refused.message().to_owned();
        let mut response = self.refused.into_response();
        if let Some(status) = self.status {
            *response.status_mut() = status;
        }
        let headers = response.headers_mut();
        if let Some(code) = self.code {
            headers.insert(HeaderName::from_static("x-error-code"), HeaderValue::from_static(code));
        }
        if let Some(commit) = self.commit.and_then(|commit| HeaderValue::from_str(&commit).ok()) {
            headers.insert(HeaderName::from_static("x-repo-commit"), commit);
        }
        if let Ok(message) = HeaderValue::from_str(&message) {
            headers.insert(HeaderName::from_static("x-error-message"), message);
        }
        response
    }
}

impl From<Refused> for HubError {
    fn from(refused: Refused) -> Self {
        Self { code: None, status: None, commit: None, refused }
    }
}

impl From<store::Error> for HubError {
    fn from(error: store::Error) -> Self {
        let kind = error.kind();
        let refused = Self::from(Refused::from(error));
        match kind {
            // Of what handlers do not look for themselves only paths of commits are not found.
            ErrorKind::NotFound => refused.named("EntryNotFound"),
            _ => refused,
        }
    }
}

impl From<auth::Refusal> for HubError {
    fn from(refusal: auth::Refusal) -> Self {
        Self::from(Refused::from(refusal))
    }
}

impl From<budget::Refusal> for HubError {
    fn from(refusal: budget::Refusal) -> Self {
        Self::from(Refused::from(refusal))
    }
}

//! Requests for pages: the caller is who sends a token, else who is signed in.

use std::ops::Deref;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::http;
use crate::http::error::{ApiError, Dialect, wants_page};
use crate::http::router::{is_repo_path, nothing_here};
use crate::http::session_cookie::session_token;
use crate::hub::request::HubRequest;
use crate::state::AppState;

/// A request for a page.
pub(super) struct Visit {
    request: HubRequest,
    /// The token of the browser's session.
    pub(super) session: Option<String>,
}

impl Visit {
    /// A request by the user who is signed in. The session is accepted for changes too: callers must check that the browser
    /// sent the request from a page of the server.
    pub(super) async fn by_session(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let session = session_token(&parts.headers);
        // Tokens in headers are for programs, and outweigh a cookie.
        let who = match http::principal(state, &parts.headers).await? {
            None => match &session {
                Some(token) => state.auth.identify(token).await.ok(),
                None => None,
            },
            who => who,
        };
        Ok(Self { request: HubRequest::by(who, parts, state).await?, session })
    }

    /// Makes the caller anonymous.
    pub(super) fn forget(&mut self) {
        self.request.who = None;
        self.session = None;
    }

    pub(super) fn into_request(self) -> HubRequest {
        self.request
    }
}

impl Deref for Visit {
    type Target = HubRequest;

    fn deref(&self) -> &HubRequest {
        &self.request
    }
}

impl FromRequestParts<AppState> for Visit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        if !is_repo_path(parts.uri.path()) {
            return Err(match wants_page(&parts.headers) {
                true => nothing_here(),
                false => nothing_here().with_dialect(Dialect::Hub),
            });
        }
        Self::by_session(parts, state).await
    }
}

//! A refusal as a page.

use askama::Template;
use axum::body::Body;
use axum::http::{Response, header};
use axum::response::IntoResponse;

use super::page::{self, Frame};
use crate::http::HubError;

/// A refusal somebody reads in a browser; the status and the headers are those of the Hub API.
#[derive(Debug)]
pub(crate) struct PageError {
    error: HubError,
    /// Programs that came to a page by mistake read JSON.
    as_json: bool,
}

impl PageError {
    /// A refusal for a program.
    pub(super) fn json(error: impl Into<HubError>) -> Self {
        Self { error: error.into(), as_json: true }
    }
}

impl<E: Into<HubError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self { error: error.into(), as_json: false }
    }
}

impl PageError {
    /// The refusal, for programs.
    pub(super) fn into_inner(self) -> HubError {
        self.error
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    status: u16,
    title: &'static str,
    message: String,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response<Body> {
        let message = self.error.message().to_owned();
        let refused = self.error.into_response();
        if self.as_json {
            return refused;
        }
        let status = refused.status();
        let title = match status.as_u16() {
            401 => "Not without signing in",
            403 => "Not allowed",
            404 => "Nothing here",
            400..=499 => "That did not work",
            _ => "The server has trouble",
        };
        let frame = Frame { title: title.to_owned(), ..Frame::default() };
        let mut response = page::answer(&ErrorPage { frame, status: status.as_u16(), title, message });
        *response.status_mut() = status;
        // What programs decide by, and when to come back.
        for (name, value) in refused.headers() {
            if *name != header::CONTENT_TYPE && *name != header::CACHE_CONTROL {
                response.headers_mut().insert(name, value.clone());
            }
        }
        response
    }
}

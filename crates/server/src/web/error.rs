//! A refusal as a page.

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use axum::response::IntoResponse;

use super::page::{self, Frame};
use super::session;
use crate::http::HubError;
use crate::state::AppState;

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

/// What an error page says, kept with the response until it is known who reads it.
#[derive(Debug, Clone)]
struct ErrorContent {
    status: u16,
    title: &'static str,
    message: String,
}

impl ErrorContent {
    fn page(&self, frame: Frame) -> Response<Body> {
        let Self { status, title, message } = self.clone();
        let frame = Frame { title: title.to_owned(), ..frame };
        page::answer(&ErrorPage { frame, status, title, message })
    }
}

/// The session of a browser, for the header of an error page.
pub(crate) struct Viewer(HeaderMap);

impl Viewer {
    /// The viewer, where a browser goes to a page.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let names = [header::COOKIE, header::AUTHORIZATION];
        let pairs = names
            .iter()
            .flat_map(|name| headers.get_all(name).iter().map(move |value| (name.clone(), value.clone())));
        super::wants_page(headers).then(|| Self(pairs.collect()))
    }

    /// Puts the name of who is signed in into the header of an error page; other responses stay.
    pub(crate) async fn finish(self, state: &AppState, mut response: Response<Body>) -> Response<Body> {
        let Some(content) = response.extensions_mut().remove::<ErrorContent>() else { return response };
        let session = session::of(&self.0);
        let who = match (state.who(&self.0).await, &session) {
            (Ok(None), Some(token)) => state.identify(token).await.ok(),
            (who, _) => who.ok().flatten(),
        };
        if who.is_some() {
            let page = content.page(Frame::of(who.as_ref(), session.as_deref()));
            *response.body_mut() = page.into_body();
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        response
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
        let content = ErrorContent { status: status.as_u16(), title, message };
        let mut response = content.page(Frame::default());
        *response.status_mut() = status;
        response.extensions_mut().insert(content);
        // What programs decide by, and when to come back.
        for (name, value) in refused.headers() {
            if *name != header::CONTENT_TYPE && *name != header::CACHE_CONTROL {
                response.headers_mut().insert(name, value.clone());
            }
        }
        response
    }
}

//! A page as an answer: the frame every template stands in, and the headers every page has.

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;

use crate::auth::Principal;
use crate::web::visit::Visit;
use crate::web::{assets, csrf};

/// What the layout shows around a page.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    /// The title of the window.
    pub(super) title: String,
    /// The entry of the main menu the page belongs to.
    pub(super) section: &'static str,
    /// Who is signed in.
    pub(super) who: Option<String>,
    /// Whether the user is an administrator.
    pub(super) is_admin: bool,
    /// Whether they can sign out: a token in a header cannot.
    pub(super) is_signed_in: bool,
    /// What forms carry, so that no other site can send them.
    pub(super) word: String,
    /// What is in the search box.
    pub(super) search: String,
}

impl Frame {
    /// The frame of a page.
    pub(super) fn new(visit: &Visit, section: &'static str, title: impl Into<String>) -> Self {
        Self { title: title.into(), section, ..Self::of(visit.who.as_ref(), visit.session.as_deref()) }
    }

    /// The frame of a page without a title, for a caller.
    pub(super) fn of(who: Option<&Principal>, session: Option<&str>) -> Self {
        Self {
            is_admin: who.is_some_and(Principal::is_admin),
            is_signed_in: who.is_some() && session.is_some(),
            who: who.map(|who| who.name.clone()),
            word: csrf::form_token(session),
            ..Self::default()
        }
    }

    /// Where an asset is.
    pub(super) fn asset(&self, stem: &str) -> String {
        assets::url(stem)
    }

    /// How the menu marks the page's own section.
    pub(super) fn current(&self, section: &str) -> &'static str {
        if self.section == section { "page" } else { "false" }
    }
}

/// A page on its way out.
pub(super) fn answer(template: &impl Template) -> Response<Body> {
    match template.render() {
        Ok(html) => with_headers(StatusCode::OK, html),
        Err(error) => {
            tracing::error!(%error, "a page could not be made");
            with_headers(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made".to_owned())
        }
    }
}

/// HTML with the headers every page has.
pub(super) fn with_headers(status: StatusCode, html: String) -> Response<Body> {
    let mut response = (status, html).into_response();
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    // What a page shows depends on who looks, and may change at once.
    (header::CACHE_CONTROL, "private, no-cache"),
    (header::VARY, "Authorization, Cookie"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Nothing from elsewhere, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

//! Errors as pages for browsers.

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, header};
use axum::middleware::Next;

use crate::http;
use crate::http::error::{PageMessage, wants_page};
use crate::http::session_cookie::session_token;
use crate::state::AppState;
use crate::web::page::{self, Frame};

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    status: u16,
    title: &'static str,
    message: String,
}

/// Middleware that gives errors in the dialect of pages their body; other responses stay.
pub(crate) async fn render_errors(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let viewer = wants_page(request.headers()).then(|| viewer_headers(request.headers()));
    let mut response = next.run(request).await;
    let Some(PageMessage(message)) = response.extensions_mut().remove() else { return response };
    let status = response.status().as_u16();
    let title = match status {
        401 => "Not without signing in",
        403 => "Not allowed",
        404 => "Nothing here",
        400..=499 => "That did not work",
        _ => "The server has trouble",
    };
    let frame = match viewer {
        Some(headers) => frame_for(&state, &headers).await,
        None => Frame::default(),
    };
    let frame = Frame { title: title.to_owned(), ..frame };
    let (page, body) = page::answer(&ErrorPage { frame, status, title, message }).into_parts();
    *response.body_mut() = body;
    response.headers_mut().remove(header::CONTENT_LENGTH);
    // The headers of pages replace those of the error; what programs decide by stays.
    response.headers_mut().extend(page.headers);
    response
}

/// The headers that tell who is signed in.
fn viewer_headers(headers: &HeaderMap) -> HeaderMap {
    let names = [header::COOKIE, header::AUTHORIZATION];
    let pairs = names
        .iter()
        .flat_map(|name| headers.get_all(name).iter().map(move |value| (name.clone(), value.clone())));
    pairs.collect()
}

/// The frame with the name of the user who is signed in.
async fn frame_for(state: &AppState, headers: &HeaderMap) -> Frame {
    let session = session_token(headers);
    let who = match (http::principal(state, headers).await, &session) {
        (Ok(None), Some(token)) => state.auth.identify(token).await.ok(),
        (who, _) => who.ok().flatten(),
    };
    match who {
        Some(who) => Frame::of(Some(&who), session.as_deref()),
        None => Frame::default(),
    }
}

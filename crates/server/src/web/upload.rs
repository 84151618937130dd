//! Upload in a browser: files dropped on a page. The server cuts them, so they share their chunks with all others.
//!
//! The page does what clients of the Hub do: it asks where each file goes, sends the large ones, then makes one commit.

use askama::Template;
use axum::body::Body;
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderMap, Response, header};
use axum::response::IntoResponse as _;
use serde_json::json;
use store::Grant;
use store::content::{Need, intake_bytes};
use store::hub::pointer;
use xet::wire::ErrorCode;

use super::page::{Frame, answer};
use super::repo::Place;
use super::running::Upload;
use super::{PageError, Visit, session};
use crate::http::{Asked, HubError, hub_commit, hub_decide, json as json_answer, upload};
use crate::state::AppState;

#[derive(Template)]
#[template(path = "upload.html")]
struct UploadPage {
    frame: Frame,
    place: Place,
}

/// `GET /{repo}/upload/{revision}`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, PageError> {
    let place = Place::of(&visit).await?;
    visit.expect_write(place.name())?;
    let frame = Frame::new(&visit, place.section(), format!("Upload to {}", place.name().id()));
    Ok(answer(&UploadPage { frame, place }))
}

/// Somebody who is signed in, at the server's own page.
async fn trusted(state: &AppState, request: Request) -> Result<(Asked, Request), HubError> {
    let (mut parts, body) = request.into_parts();
    let said = parts.headers.get(WORD).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let visit = Visit::by_session(&mut parts, state).await.map_err(PageError::into_inner)?;
    session::expect_word(&parts.headers, visit.session.as_deref(), said.as_deref())?;
    Ok((visit.into_asked(), Request::from_parts(parts, body)))
}

/// `POST /{repo}/upload/{revision}/-/decide`: which files go where, as for clients.
pub(super) async fn decide(
    axum::extract::State(state): axum::extract::State<AppState>,
    request: Request,
) -> Result<Response<Body>, HubError> {
    let (asked, request) = trusted(&state, request).await?;
    hub_decide(asked, Body::from_request(request, &state).await.unwrap_or_default()).await
}

/// `POST /{repo}/upload/{revision}/-/commit`: all of it in one commit, as for clients.
pub(super) async fn commit(
    axum::extract::State(state): axum::extract::State<AppState>,
    request: Request,
) -> Result<Response<Body>, HubError> {
    let (asked, request) = trusted(&state, request).await?;
    hub_commit(asked, request).await
}

/// `PUT /{repo}/upload/{revision}/-/file`: the bytes of one large file. Answers with its digest and what was new.
pub(super) async fn file(
    axum::extract::State(state): axum::extract::State<AppState>,
    request: Request,
) -> Result<Response<Body>, HubError> {
    let (asked, request) = trusted(&state, request).await?;
    let repo = asked.writable().await?;
    let (parts, body) = request.into_parts();
    let bytes = length(&parts.headers)?;
    let scope = repo.name.scope()?;
    asked.store.content().expect_quota(&scope, Need { logical_bytes: bytes, ..Need::default() }).await?;
    state.expect_room(bytes)?;
    let upload = Upload::begin(&state, asked.name()?, asked.query.value("id"));
    let memory = intake_bytes(bytes).min(state.budget.usage().total_bytes);
    let permit = state.budget.acquire(memory).await?;
    let pieces = upload::flowing(&parts.headers, body, bytes, state.body_timeout());
    let taken =
        asked.store.content().take_in_any(&Grant::write(scope), bytes, pieces, &upload.progress).await?;
    drop(permit);
    metrics::counter!("drystone_taken_in_bytes_total", "new" => "true").increment(taken.new_bytes);
    let told = json!({"oid": pointer::hex(&taken.sha256), "size": taken.bytes, "newBytes": taken.new_bytes});
    Ok(json_answer(&told).into_response())
}

/// `GET /{repo}/upload/{revision}/-/file?id=`: how far the upload of that name is.
pub(super) async fn progress(asked: Asked) -> Result<Response<Body>, HubError> {
    asked.writable().await?;
    let found = asked.state.running.of(asked.name()?, asked.query.value("id").unwrap_or_default());
    let (received_bytes, new_bytes) =
        found.ok_or_else(|| HubError::new(ErrorCode::NotFound, "no such upload is under way here"))?;
    Ok(json_answer(&json!({"receivedBytes": received_bytes, "newBytes": new_bytes})).into_response())
}

fn length(headers: &HeaderMap) -> Result<u64, HubError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.ok_or_else(|| HubError::new(ErrorCode::Invalid, "how long the file is must be said"))
}

/// The header with the word of the session.
const WORD: &str = "x-drystone-word";

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
use store::intake::intake_bytes;
use store::quota::Need;
use store::repo::pointer;
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::http::{json as json_answer, upload};
use crate::hub::commit;
use crate::hub::preupload;
use crate::hub::request::Asked;
use crate::state::AppState;
use crate::upload_progress::RunningUpload;
use crate::web::csrf::require_form_token;
use crate::web::page::{Frame, answer};
use crate::web::repo::Place;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "upload.html")]
struct UploadPage {
    frame: Frame,
    place: Place,
}

/// `GET /{repo}/upload/{revision}`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = Place::of(&visit).await?;
    visit.require_write(place.name())?;
    let frame = Frame::new(&visit, place.section(), format!("Upload to {}", place.name().id()));
    Ok(answer(&UploadPage { frame, place }))
}

/// Somebody who is signed in, at the server's own page.
async fn trusted(state: &AppState, request: Request) -> Result<(Asked, Request), ApiError> {
    let (mut parts, body) = request.into_parts();
    let said = parts.headers.get(WORD).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let visit = Visit::by_session(&mut parts, state).await?;
    require_form_token(&parts.headers, visit.session.as_deref(), said.as_deref())?;
    Ok((visit.into_asked(), Request::from_parts(parts, body)))
}

/// `POST /{repo}/upload/{revision}/-/decide`: which files go where, as for clients.
pub(super) async fn decide(
    axum::extract::State(state): axum::extract::State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (asked, request) = trusted(&state, request).await?;
    preupload::decide_for_page(asked, Body::from_request(request, &state).await.unwrap_or_default()).await
}

/// `POST /{repo}/upload/{revision}/-/commit`: all of it in one commit, as for clients.
pub(super) async fn commit(
    axum::extract::State(state): axum::extract::State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (asked, request) = trusted(&state, request).await?;
    commit::receive(asked, request).await
}

/// `PUT /{repo}/upload/{revision}/-/file`: the bytes of one large file. Answers with its digest and what was new.
pub(super) async fn file(
    axum::extract::State(state): axum::extract::State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (asked, request) = trusted(&state, request).await?;
    let repo = asked.writable().await?;
    let (parts, body) = request.into_parts();
    let bytes = length(&parts.headers)?;
    let scope = repo.name.scope()?;
    asked.store.expect_quota(&scope, Need { logical_bytes: bytes, ..Need::default() }).await?;
    state.require_disk_space(bytes)?;
    let upload = RunningUpload::begin(&state.uploads, asked.name()?, asked.query.value("id"));
    let memory = intake_bytes(bytes).min(state.budget.usage().total_bytes);
    let permit = state.budget.acquire(memory).await?;
    let pieces = upload::flowing(&parts.headers, body, bytes, state.body_timeout());
    let taken = asked.store.take_in_any(&Grant::write(scope), bytes, pieces, &upload.progress).await?;
    drop(permit);
    metrics::counter!("drystone_taken_in_bytes_total", "new" => "true").increment(taken.new_bytes);
    let told = json!({"oid": pointer::hex(&taken.sha256), "size": taken.bytes, "newBytes": taken.new_bytes});
    Ok(json_answer(&told).into_response())
}

/// `GET /{repo}/upload/{revision}/-/file?id=`: how far the upload of that name is.
pub(super) async fn progress(asked: Asked) -> Result<Response<Body>, ApiError> {
    asked.writable().await?;
    let found = asked.state.uploads.progress(asked.name()?, asked.query.value("id").unwrap_or_default());
    let (received_bytes, new_bytes) =
        found.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "no such upload is under way here"))?;
    Ok(json_answer(&json!({"receivedBytes": received_bytes, "newBytes": new_bytes})).into_response())
}

fn length(headers: &HeaderMap) -> Result<u64, ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.ok_or_else(|| ApiError::new(ErrorCode::Invalid, "how long the file is must be said"))
}

/// The header with the word of the session.
const WORD: &str = "x-drystone-word";

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
use store::content::{Need, put_file_memory};
use store::hub::pointer;
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::http::{json as json_answer, upload};
use crate::hub::request::HubRequest;
use crate::hub::{commit, preupload};
use crate::state::AppState;
use crate::upload_progress::RunningUpload;
use crate::web::csrf::require_form_token;
use crate::web::page::{Frame, answer};
use crate::web::repo::RepoView;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "upload.html")]
struct UploadPage {
    frame: Frame,
    place: RepoView,
}

/// `GET /{repo}/upload/{revision}`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = RepoView::of(&visit).await?;
    visit.require_create(place.name())?;
    let frame = Frame::new(&visit, place.section(), format!("Upload to {}", place.name().id()));
    Ok(answer(&UploadPage { frame, place }))
}

/// A request of a user who is signed in, from a page of the server.
async fn trusted(state: &AppState, incoming: Request) -> Result<(HubRequest, Request), ApiError> {
    let (mut parts, body) = incoming.into_parts();
    let sent = parts.headers.get(WORD).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let visit = Visit::by_session(&mut parts, state).await?;
    require_form_token(&parts.headers, visit.session.as_deref(), sent.as_deref())?;
    Ok((visit.into_request(), Request::from_parts(parts, body)))
}

/// `POST /{repo}/upload/{revision}/-/decide`: which files go where, as for clients.
pub(super) async fn decide(
    axum::extract::State(state): axum::extract::State<AppState>,
    incoming: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, incoming) = trusted(&state, incoming).await?;
    preupload::decide_for_page(request, Body::from_request(incoming, &state).await.unwrap_or_default()).await
}

/// `POST /{repo}/upload/{revision}/-/commit`: all of it in one commit, as for clients.
pub(super) async fn commit(
    axum::extract::State(state): axum::extract::State<AppState>,
    incoming: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, incoming) = trusted(&state, incoming).await?;
    commit::receive(request, incoming).await
}

/// `PUT /{repo}/upload/{revision}/-/file`: the bytes of one large file. Answers with its digest and what was new.
pub(super) async fn file(
    axum::extract::State(state): axum::extract::State<AppState>,
    incoming: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, incoming) = trusted(&state, incoming).await?;
    let repo = request.require_write().await?;
    let (parts, body) = incoming.into_parts();
    let bytes = length(&parts.headers)?;
    let scope = repo.name.scope()?;
    request.store.content().expect_quota(&scope, Need { logical_bytes: bytes, ..Need::default() }).await?;
    state.require_disk_space(bytes)?;
    let upload = RunningUpload::begin(&state.uploads, request.name()?, request.query.value("id"));
    let memory = put_file_memory(bytes).min(state.budget.usage().total_bytes);
    let permit = state.budget.acquire(memory).await?;
    let pieces = upload::flowing(&parts.headers, body, bytes, state.body_timeout());
    let taken = request
        .store
        .content()
        .put_file_unhashed(&Grant::write(scope), bytes, pieces, &upload.progress)
        .await?;
    drop(permit);
    metrics::counter!("drystone_taken_in_bytes_total", "new" => "true").increment(taken.new_bytes);
    let stored =
        json!({"oid": pointer::hex(&taken.sha256), "size": taken.bytes, "newBytes": taken.new_bytes});
    Ok(json_answer(&stored).into_response())
}

/// `GET /{repo}/upload/{revision}/-/file?id=`: how far the upload of that name is.
pub(super) async fn progress(request: HubRequest) -> Result<Response<Body>, ApiError> {
    request.require_write().await?;
    let found =
        request.state.uploads.progress(request.name()?, request.query.value("id").unwrap_or_default());
    let (received_bytes, new_bytes) =
        found.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "no such upload is under way here"))?;
    Ok(json_answer(&json!({"receivedBytes": received_bytes, "newBytes": new_bytes})).into_response())
}

fn length(headers: &HeaderMap) -> Result<u64, ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.ok_or_else(|| ApiError::new(ErrorCode::Invalid, "how long the file is must be sent"))
}

/// The header with the word of the session.
const WORD: &str = "x-drystone-word";

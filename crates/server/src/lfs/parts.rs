//! Very large files by parts: one URL for each, and one to say that all are there.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::Grant;
use store::content::{MultipartFile, Need, put_file_memory};
use store::hub::RepoRow;

use crate::http::error::ApiError;
use crate::http::{json as answer, upload};
use crate::hub::json::small_json;
use crate::hub::request::HubRequest;
use crate::lfs::signed::{Object, checked, named, url};
use crate::state::AppState;
use crate::urls::lfs_url::Action;

/// Whether a file is sent in parts by those who can.
pub(crate) fn applies(state: &AppState, bytes: u64) -> bool {
    bytes > state.config.limits.lfs_part_bytes.saturating_mul(WHOLE_PARTS)
}

/// How a file is cut into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) part_bytes: u64,
    pub(crate) count: u64,
}

impl Layout {
    /// Parts of the length that is set, or longer ones where they would be too many.
    pub(crate) fn of(state: &AppState, bytes: u64) -> Self {
        let part_bytes = state.config.limits.lfs_part_bytes.max(bytes.div_ceil(PARTS_MAX)).max(1);
        Self { part_bytes, count: bytes.div_ceil(part_bytes) }
    }
}

/// Where to send the parts.
pub(crate) fn actions(request: &HubRequest, repo: &RepoRow, object: &Object, layout: &Layout) -> Value {
    let Layout { part_bytes, count } = *layout;
    let mut header = Map::from_iter([("chunk_size".to_owned(), json!(part_bytes.to_string()))]);
    for number in 1..=count {
        let href = url(request, repo, Action::Part { number, part_bytes }, object);
        header.insert(format!("{number:05}"), json!(href));
    }
    json!({
        "upload": {"href": url(request, repo, Action::Join { part_bytes }, object), "header": header},
        "verify": {"href": url(request, repo, Action::Verify, object)},
    })
}

/// `PUT` of one part.
pub(crate) async fn receive(request: HubRequest, incoming: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = incoming.into_parts();
    let number = request.param("number").parse().map_err(|_| ApiError::invalid("a number is expected"))?;
    let part_bytes = part_bytes(&request);
    let signed = checked(&request, Action::Part { number, part_bytes }).await?;
    let repo = named(&request).await?;
    let file = MultipartFile { sha256: signed.sha256, bytes: signed.bytes, part_bytes };
    let bytes_max = file.bytes_of(number).unwrap_or_default();
    request.state.require_disk_space(bytes_max)?;
    let need = Need { logical_bytes: signed.bytes, physical_bytes: bytes_max };
    request.store.content().expect_quota(&repo.name.scope()?, need).await?;
    let bounds = upload::Bounds {
        bytes_max,
        memory_factor: 1,
        held_bytes_max: u64::MAX,
        silence: request.state.body_timeout(),
    };
    let upload::Upload { pieces, permit, .. } =
        upload::read(&parts.headers, body, &request.state.budget, bounds).await?;
    request.store.content().put_part(repo.id, &repo.name.scope()?, &file, number, pieces).await?;
    drop(permit);
    let mut response = StatusCode::OK.into_response();
    // Clients give it back with the list of parts; the digest of the whole is what counts.
    let etag = HeaderValue::from_str(&format!("\"{number}\""));
    response.headers_mut().extend(etag.ok().map(|etag| (header::ETAG, etag)));
    Ok(response)
}

/// What a client says when it has sent all parts. The digest of the file is what counts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Joined {
    oid: Option<String>,
    #[serde(default)]
    parts: Vec<JoinedPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JoinedPart {
    part_number: u64,
    #[serde(rename = "etag")]
    _etag: Option<String>,
}

/// `POST` when all parts are there.
pub(crate) async fn join(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let part_bytes = part_bytes(&request);
    let joined: Joined = small_json(body).await?;
    let signed = checked(&request, Action::Join { part_bytes }).await?;
    let file = MultipartFile { sha256: signed.sha256, bytes: signed.bytes, part_bytes };
    if joined.oid.is_some_and(|oid| oid != request.param("oid")) {
        return Err(ApiError::invalid("oid: the URL is of another object"));
    }
    if joined.parts.iter().any(|part| file.bytes_of(part.part_number).is_none()) {
        return Err(ApiError::invalid("parts: the file has no part of this number"));
    }
    let repo = named(&request).await?;
    let grant = Grant::write(repo.name.scope()?);
    let found = request.store.content().stored_files(grant.scope(), &[signed.sha256], None).await?;
    // A client that did not receive the response retries.
    if !found.iter().any(|found| found.bytes == signed.bytes) {
        request.state.require_disk_space(signed.bytes)?;
        let memory = put_file_memory(signed.bytes).min(request.state.budget.usage().total_bytes);
        let _permit = request.state.budget.acquire(memory).await?;
        let taken = request.store.content().join_parts(&grant, repo.id, &file).await?;
        metrics::counter!("drystone_taken_in_bytes_total", "new" => "true").increment(taken.new_bytes);
    }
    Ok(answer(&json!({"success": true})))
}

/// The length of a part when the URL was made; it is part of what is signed.
fn part_bytes(request: &HubRequest) -> u64 {
    request.query.number("part").unwrap_or(0)
}

/// Parts of one file.
const PARTS_MAX: u64 = 10_000;
/// Most parts of a file that is sent whole: it is not worth storing twice.
const WHOLE_PARTS: u64 = 64;

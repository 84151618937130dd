//! Reconstructions: what to fetch for a file, a part of it, or several files; and how long a file is.

use std::collections::HashSet;
use std::ops::Range;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use store::content::{Planned, Reconstruction};
use xet::wire::range::parse_ranges;
use xet::wire::routes::{TokenScope, parse_batch_query};
use xet::wire::{Batch, ContentRange, ErrorCode, RangeSpec, ReconstructionV1, ReconstructionV2, parse_json};
use xet::{FileHash, limits};

use crate::cas::caller::{Caller, hash_in};
use crate::cas::xorbs::length_only;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::upload::read_small_body;
use crate::state::AppState;

/// Version 1: a URL for each range.
pub(crate) async fn v1(State(state): State<AppState>, request: Request) -> Result<Response<Body>, Answer> {
    let (found, is_private) = plan(&state, &request.into_parts().0).await?;
    let urls =
        state.data_urls.url_for(state.server_urls(), &found.plan.fetches, &found.keys, is_private).await?;
    Ok(json(&ReconstructionV1::from_plan(&found.plan, |xorb, ranges| urls.of(xorb, ranges))))
}

/// Version 2: a URL for all ranges of a xorb, as far as URLs may grow; for each range, where the bucket signs them.
pub(crate) async fn v2(State(state): State<AppState>, request: Request) -> Result<Response<Body>, Answer> {
    let (found, is_private) = plan(&state, &request.into_parts().0).await?;
    let urls =
        state.data_urls.url_for(state.server_urls(), &found.plan.fetches, &found.keys, is_private).await?;
    let ranges_max = urls.ranges_max();
    Ok(json(&ReconstructionV2::from_plan(&found.plan, ranges_max, |xorb, ranges| urls.of(xorb, ranges))))
}

/// Several files, named in the query.
pub(crate) async fn batch_by_query(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, _) = request.into_parts();
    let caller = Caller::check(&state, &request.headers, TokenScope::Read).await?;
    let files = parse_batch_query(request.uri.query().unwrap_or_default(), limits::BATCH_FILES_MAX);
    let files = files.map_err(|error| ApiError::new(ErrorCode::Invalid, format!("the query: {error}")))?;
    batch(&state, &caller, &files).await
}

/// Several files, named in the body.
pub(crate) async fn batch_by_body(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = Caller::check(&state, &parts.headers, TokenScope::Read).await?;
    let body = read_small_body(body, BATCH_BYTES_MAX).await?;
    let keys: Vec<NamedFile> = parse_json(&body)
        .map_err(|error| ApiError::new(ErrorCode::Invalid, format!("not a list of files: {error}")))?;
    if keys.len() > limits::BATCH_FILES_MAX {
        let message = format!("a batch has at most {} files", limits::BATCH_FILES_MAX);
        return Err(ApiError::new(ErrorCode::Invalid, message));
    }
    let files: Vec<_> = keys.iter().map(|key| key.hash).collect();
    batch(&state, &caller, &files).await
}

/// A file in the body of a batch: a `FileKey` without other fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedFile {
    /// Whatever it is, files have one name.
    #[serde(rename = "prefix")]
    _prefix: String,
    hash: FileHash,
}

async fn batch(state: &AppState, caller: &Caller, files: &[FileHash]) -> Result<Response<Body>, ApiError> {
    // A file that is named again is in the answer already.
    let mut seen = HashSet::new();
    let files: Vec<FileHash> = files.iter().copied().filter(|file| seen.insert(*file)).collect();
    let found = caller.store.content().plan_batch(&caller.grant, &files).await?;
    let is_private = caller.is_private(state).await?;
    let urls =
        state.data_urls.url_for(state.server_urls(), &found.plan.fetches, &found.keys, is_private).await?;
    Ok(json(&Batch::from_plan(&found.plan, |xorb, ranges| urls.of(xorb, ranges))))
}

/// Whether a file is here, and how long it is.
pub(crate) async fn head(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, _) = request.into_parts();
    let caller = Caller::check(&state, &request.headers, TokenScope::Read).await?;
    let file: FileHash = hash_in(&request.uri)?;
    Ok(length_only(caller.store.content().file_bytes(&caller.grant, file).await?))
}

/// The plan, and whether the repository is private.
async fn plan(state: &AppState, request: &Parts) -> Result<(Reconstruction, bool), Answer> {
    let caller = Caller::check(state, &request.headers, TokenScope::Read).await?;
    let Caller { store, grant } = &caller;
    let file: FileHash = hash_in(&request.uri)?;
    let range = match requested_range(&request.headers)? {
        None => None,
        Some(spec) => Some(match spec.half_open() {
            Some(range) => range,
            None => last_bytes(&spec, store.content().file_bytes(grant, file).await?)?,
        }),
    };
    match store.content().plan(grant, file, range).await? {
        Planned::Covered(found) => Ok((found, caller.is_private(state).await?)),
        Planned::PastEnd { file_bytes } => Err(Answer::PastEnd { file_bytes }),
    }
}

/// The range that was requested. One that cannot be read is refused: an answer about the whole file would be taken for
/// one about the range.
fn requested_range(headers: &HeaderMap) -> Result<Option<RangeSpec>, ApiError> {
    let Some(header) = headers.get(header::RANGE) else { return Ok(None) };
    let refuse = |reason: String| ApiError::new(ErrorCode::Invalid, format!("the Range header: {reason}"));
    let text = header.to_str().map_err(|error| refuse(error.to_string()))?;
    match parse_ranges(text, 1).map_err(|error| refuse(error.to_string()))?.as_slice() {
        [spec] => Ok(Some(*spec)),
        _ => Err(refuse("expected one range".to_owned())),
    }
}

fn last_bytes(spec: &RangeSpec, file_bytes: u64) -> Result<Range<u64>, Answer> {
    spec.resolve(file_bytes).ok_or(Answer::PastEnd { file_bytes })
}

/// An answer that is no plan.
pub(crate) enum Answer {
    Refused(ApiError),
    /// The end of the file, which is what 416 tells clients. An unknown file must never get it.
    PastEnd {
        file_bytes: u64,
    },
}

impl<E: Into<ApiError>> From<E> for Answer {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Refused(refused) => refused.into_response(),
            Self::PastEnd { file_bytes } => {
                let refused = ApiError::new(ErrorCode::RangeNotSatisfiable, "the range begins after the end");
                let mut response = refused.into_response();
                let unsatisfied = ContentRange::Unsatisfied { total_bytes: file_bytes }.to_string();
                if let Ok(value) = HeaderValue::from_str(&unsatisfied) {
                    response.headers_mut().insert(header::CONTENT_RANGE, value);
                }
                response
            }
        }
    }
}

/// Bytes of the largest batch, generously written.
const BATCH_BYTES_MAX: usize = 256 * limits::BATCH_FILES_MAX;

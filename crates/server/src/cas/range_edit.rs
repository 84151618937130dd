//! Edits: what a client must know to replace ranges of a file it does not have.

use std::ops::Range;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use store::content::EDIT_CHUNKS_MAX;
use xet::FileHash;
use xet::wire::ErrorCode;
use xet::wire::range::parse_bounded_ranges;
use xet::wire::routes::{TokenScope, header as names};

use crate::cas::caller::{Caller, hash_in};
use crate::http::error::ApiError;
use crate::http::json;
use crate::state::AppState;

/// The windows around the dirty ranges of a file. Who may have a file's reconstruction may have this.
pub(crate) async fn windows(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, _) = request.into_parts();
    let Caller { store, grant } = Caller::check(&state, &request.headers, TokenScope::Read).await?;
    let file: FileHash = hash_in(&request.uri)?;
    let invalid = |message: String| ApiError::new(ErrorCode::Invalid, message);
    let header = request.headers.get(names::RANGE_DIRTY).and_then(|value| value.to_str().ok());
    let header = header.ok_or_else(|| {
        invalid(format!("say in {} which bytes will be replaced, such as bytes=0-99", names::RANGE_DIRTY))
    })?;
    let ranges = parse_bounded_ranges(header, DIRTY_RANGES_MAX)
        .map_err(|error| invalid(format!("{}: {error}", names::RANGE_DIRTY)))?;
    let file_bytes = store.content().file_bytes(&grant, file).await?;
    let dirty: Option<Vec<_>> = ranges.iter().map(|range| range.clip_to(file_bytes)).collect();
    let dirty = dirty.ok_or_else(|| {
        invalid(format!("{}: a range begins at or after the end, {file_bytes}", names::RANGE_DIRTY))
    })?;
    // Each chunk takes memory until its gap is summed up.
    let chunks = (file_bytes / CHUNK_BYTES_FEW + 1).min(EDIT_CHUNKS_MAX);
    let _permit = state.answers.acquire(chunks * CHUNK_MEMORY_BYTES).await?;
    let found = store.content().edit_windows(&grant, file, &joined(dirty)).await?;
    let found = found.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "the file has too many chunks to plan edits of it: send it whole")
    })?;
    Ok(json(&found))
}

/// In order, and each byte once.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Ranges in one request.
const DIRTY_RANGES_MAX: usize = 1024;
/// Chunks of any client are longer than this on average.
const CHUNK_BYTES_FEW: u64 = 32 * 1024;
/// Memory that a chunk takes while it is read.
const CHUNK_MEMORY_BYTES: u64 = 40;

//! Dedup queries.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use xet::ChunkHash;
use xet::wire::ErrorCode;
use xet::wire::routes::{TokenScope, content_type};

use crate::cas::caller::{Caller, prefixed_hash_in};
use crate::http::error::ApiError;
use crate::state::AppState;

/// The shard that tells where a chunk is. The prefix of the path means nothing: clients send two.
pub(crate) async fn find(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, _) = request.into_parts();
    let Caller { store, grant } = Caller::check(&state, &request.headers, TokenScope::Write).await?;
    let chunk: ChunkHash = prefixed_hash_in(&request.uri)?;
    let shard = store.content().dedup(&grant, chunk).await?;
    let found = if shard.is_some() { "hit" } else { "miss" };
    metrics::counter!("drystone_dedup_queries_total", "found" => found).increment(1);
    let shard = shard.ok_or_else(|| ApiError::new(ErrorCode::NotFound, format!("no chunk {chunk}")))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::BYTES)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600")),
        (header::VARY, HeaderValue::from_static("authorization")),
    ];
    Ok((headers, shard).into_response())
}

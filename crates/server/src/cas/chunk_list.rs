//! Chunk lists: what a file is made of, for a client that has an older version of it. Our own addition to the protocol.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use xet::FileHash;
use xet::wire::ErrorCode;
use xet::wire::chunk_list::{PAGE_CHUNKS_MAX, encode, parse_query};
use xet::wire::routes::{TokenScope, content_type};

use crate::cas::caller::{Caller, hash_in};
use crate::http::error::ApiError;
use crate::state::AppState;

/// A page of the chunks of a file. Who may have a file's reconstruction may have this.
pub(crate) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, _) = request.into_parts();
    let Caller { store, grant } = Caller::check(&state, &request.headers, TokenScope::Read).await?;
    let file: FileHash = hash_in(&request.uri)?;
    let from = parse_query(request.uri.query().unwrap_or_default())
        .map_err(|error| ApiError::new(ErrorCode::Invalid, format!("the query: {error}")))?;
    let chunks = store.content().chunk_list(&grant, file, from, PAGE_CHUNKS_MAX).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::BYTES)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600")),
        (header::VARY, HeaderValue::from_static("authorization")),
    ];
    Ok((headers, encode(&chunks)).into_response())
}

//! `POST` and `HEAD` of xorbs.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse;
use xet::XorbHash;
use xet::wire::routes::{TokenScope, content_type};
use xet::wire::{ErrorCode, XorbUploaded};

use crate::cas::caller::{Caller, prefixed_hash_in};
use crate::http::error::ApiError;
use crate::http::{json, refusal_time, upload};
use crate::state::AppState;

/// Stores a xorb while it arrives.
pub(crate) async fn receive(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let begin = Instant::now();
    let (parts, body) = request.into_parts();
    let Caller { store, grant } = Caller::check(&state, &parts.headers, TokenScope::Write).await?;
    let hash: XorbHash = prefixed_hash_in(&parts.uri)?;
    state.require_disk_space(upload::announced_len(&parts.headers).unwrap_or(0))?;
    let bounds = upload::Bounds {
        bytes_max: state.config.limits.xorb_body_bytes_max,
        memory_factor: 1,
        held_bytes_max: store.content().upload_memory(state.config.limits.xorb_body_bytes_max),
        silence: state.body_timeout(),
    };
    let arriving = upload::arriving(&parts.headers, body, &state.budget, bounds).await?;
    let declared_bytes = arriving.announced_bytes;
    let stored = store.content().put_xorb(&grant, hash, declared_bytes, arriving.pieces).await?;
    drop(arriving.permit);
    metrics::counter!("drystone_xorbs_received_total", "new" => stored.was_inserted.to_string()).increment(1);
    metrics::histogram!("drystone_ingest_seconds").record(begin.elapsed().as_secs_f64());
    Ok(json(&XorbUploaded { was_inserted: stored.was_inserted }))
}

/// Whether a xorb is here, as far as the dedup policy lets a writer know, and how long its object is.
pub(crate) async fn head(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (request, _) = request.into_parts();
    let Caller { store, grant } = Caller::check(&state, &request.headers, TokenScope::Write).await?;
    let hash: XorbHash = prefixed_hash_in(&request.uri)?;
    let begin = tokio::time::Instant::now();
    match store.content().xorb_bytes(&grant, hash).await? {
        Some(bytes) => Ok(length_only(bytes)),
        None => {
            refusal_time::wait(begin).await;
            Err(ApiError::new(ErrorCode::NotFound, format!("no xorb {hash}")))
        }
    }
}

/// A response to `HEAD`: the length of the object.
pub(crate) fn length_only(bytes: u64) -> Response<Body> {
    let headers = [
        (header::CONTENT_LENGTH, HeaderValue::from(bytes)),
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::BYTES)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    ];
    (headers, Body::empty()).into_response()
}

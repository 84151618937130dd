//! The telemetry sink: reports are read, counted and forgotten.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use xet::limits;
use xet::wire::routes::TokenScope;
use xet::wire::{ErrorCode, Telemetry, parse_json};

use crate::http::authorization;
use crate::http::error::ApiError;
use crate::http::upload::read_small_body;
use crate::state::AppState;

pub(crate) async fn receive(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    state.auth.authorize(authorization(&headers), TokenScope::Read).await?;
    let bytes = read_small_body(body, limits::TELEMETRY_BYTES_MAX).await?;
    let report: Telemetry = parse_json(&bytes)
        .map_err(|error| ApiError::new(ErrorCode::Invalid, format!("not a report: {error}")))?;
    // A label for each name that clients invent would never end.
    let event = EVENTS.iter().find(|event| **event == report.event).unwrap_or(&"other");
    metrics::counter!("drystone_telemetry_reports_total", "event" => *event).increment(1);
    Ok(StatusCode::OK)
}

const EVENTS: &[&str] = &["xet_upload_summary", "xet_download_summary", "xet_transfer_heartbeat"];

//! The telemetry sink: reports are read, counted and forgotten.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use bytes::BytesMut;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use xet::limits;
use xet::wire::routes::TokenScope;
use xet::wire::{ErrorCode, Telemetry, parse_json};

use super::error::Refused;
use crate::state::AppState;

pub(super) async fn sink(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Refused> {
    state.authorize(&headers, TokenScope::Read).await?;
    let bytes = read_body(body, limits::TELEMETRY_BYTES_MAX).await?;
    let report: Telemetry = parse_json(&bytes)
        .map_err(|error| Refused::new(ErrorCode::Invalid, format!("not a report: {error}")))?;
    // A label for each of what strangers send would never end.
    let event = EVENTS.iter().find(|event| **event == report.event).unwrap_or(&"other");
    metrics::counter!("drystone_telemetry_reports_total", "event" => *event).increment(1);
    Ok(StatusCode::OK)
}

/// A whole body of at most `bytes_max`. For small ones: large bodies take a permit of the memory budget first.
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<bytes::Bytes, Refused> {
    let mut body = Limited::new(body, bytes_max);
    let mut bytes = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(SILENCE, body.frame()).await;
        let frame = frame.map_err(|_| Refused::new(ErrorCode::Timeout, "the body stopped coming"))?;
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Refused::new(ErrorCode::TooLarge, format!("the body is longer than {bytes_max} bytes"))
            } else {
                Refused::new(ErrorCode::Invalid, "the body broke off")
            }
        })?;
        if let Ok(piece) = frame.into_data() {
            bytes.extend_from_slice(&piece);
        }
    }
}

/// How long a client may send nothing in the middle of a small body.
const SILENCE: Duration = Duration::from_secs(30);

const EVENTS: &[&str] = &["xet_upload_summary", "xet_download_summary", "xet_transfer_heartbeat"];

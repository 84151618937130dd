//! `/health` and `/ready` for whoever decides whether to send requests here, `/metrics` for whoever watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse;
use store::hub::Rights;
use xet::wire::routes::content_type;
use xet::wire::{ErrorCode, encode_json};

use super::error::Refused;
use crate::state::AppState;

/// Whether the server takes requests. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health {
    stopping: Arc<AtomicBool>,
}

impl Health {
    /// From now on others should be asked instead.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether [`Health::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// The body of a healthy answer.
#[derive(serde::Serialize)]
struct Healthy {
    status: &'static str,
    version: &'static str,
}

pub(super) async fn health(State(state): State<AppState>) -> Result<Response<Body>, Refused> {
    if state.health.is_stopping() {
        return Err(Refused::new(ErrorCode::Unavailable, "the server is stopping"));
    }
    let body = encode_json(&Healthy { status: "ok", version: env!("CARGO_PKG_VERSION") });
    Ok(with_type(content_type::JSON, body))
}

/// Whether the catalog and the objects answer. Asks both for what is not there: the answer costs little.
pub(super) async fn ready(State(state): State<AppState>) -> Result<Response<Body>, Refused> {
    let store = super::caller::store_of(&state)?;
    store.ping().await?;
    health(State(state)).await
}

pub(super) async fn metrics(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Response<Body>, Refused> {
    let nothing = || Refused::new(ErrorCode::NotFound, "this server shows no metrics");
    let metrics = state.metrics.as_ref().ok_or_else(nothing)?;
    if !state.config.metrics_are_open().ok_or_else(nothing)?
        && let Some(person) = state.person(&headers).await?
    {
        person.allow_anywhere(Rights::Admin)?;
    }
    state.budget.record("uploads");
    state.answers.record("answers");
    Ok(with_type("text/plain; version=0.0.4", metrics.render().into_bytes()))
}

fn with_type(content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

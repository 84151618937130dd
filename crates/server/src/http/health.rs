//! `/health` and `/ready` for load balancers, `/metrics` for monitoring, `/openapi.json` for programs.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use store::hub::Rights;
use xet::wire::routes::content_type;
use xet::wire::{ErrorCode, encode_json};

use crate::http::error::ApiError;
use crate::http::router::{Route, not_found};
use crate::state::AppState;

/// The body of a healthy answer.
#[derive(serde::Serialize)]
struct Healthy {
    status: &'static str,
    version: &'static str,
}

async fn health(State(state): State<AppState>) -> Result<Response<Body>, ApiError> {
    if state.health.is_stopping() {
        return Err(ApiError::new(ErrorCode::Unavailable, "the server is stopping"));
    }
    let body = encode_json(&Healthy { status: "ok", version: env!("CARGO_PKG_VERSION") });
    Ok(with_type(content_type::JSON, body))
}

/// Whether the catalog and the objects answer. Queries both for a hash that does not exist: the answer is cheap.
async fn ready(State(state): State<AppState>) -> Result<Response<Body>, ApiError> {
    let store = state.store.as_ref().ok_or_else(ApiError::no_store)?;
    store.ping().await?;
    health(State(state)).await
}

async fn metrics(State(state): State<AppState>, headers: HeaderMap) -> Result<Response<Body>, ApiError> {
    let nothing = || ApiError::new(ErrorCode::NotFound, "this server shows no metrics");
    let metrics = state.metrics.as_ref().ok_or_else(nothing)?;
    if !state.config.metrics_are_open().ok_or_else(nothing)? && state.auth.is_required() {
        let holder = state.auth.authenticate(super::bearer_token(&headers)?, false).await?;
        holder.principal.require(Rights::Admin)?;
    }
    state.budget.record("uploads");
    state.answers.record("answers");
    Ok(with_type("text/plain; version=0.0.4", metrics.render().into_bytes()))
}

/// Description of every route for programs. Written by hand; tests compare it with the routes and with the responses they see.
pub const OPENAPI: &str = include_str!("openapi.json");

/// `GET /openapi.json`.
async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON))], OPENAPI)
}

/// The routes of the server itself.
pub(crate) fn routes() -> Vec<Route> {
    let routes = [
        ("/health", get(health)),
        ("/ready", get(ready)),
        ("/metrics", get(metrics)),
        ("/openapi.json", get(openapi)),
        // Clients that hold grants from elsewhere try them here first and go on when there are none.
        ("/v1/xorb-grants/{*rest}", any(not_found)),
    ];
    routes.into_iter().map(|(path, methods)| (path.to_owned(), methods)).collect()
}

fn with_type(content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

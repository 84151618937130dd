//! Routes and what all of them share.

pub mod data;
pub mod error;
pub mod health;
pub mod observe;
pub mod telemetry;
pub mod token;
pub mod upload;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, Method, Response, header};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, any, get};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use xet::wire::ErrorCode;
use xet::wire::routes::{Endpoint, header as names};

use crate::door::Peer;
use crate::state::AppState;
use error::Refused;

/// What is answered without a store.
pub const ROUTED: &[Endpoint] = &[Endpoint::Telemetry];

/// What cannot be answered before there is a store behind the server.
pub const NEEDS_STORE: &[Endpoint] = &[
    Endpoint::ReconstructionV1,
    Endpoint::ReconstructionV2,
    Endpoint::BatchReconstruction,
    Endpoint::Chunk,
    Endpoint::Xorb,
    Endpoint::ShardsV1,
    Endpoint::ShardsV2,
    Endpoint::ShardKeyed,
    Endpoint::File,
    Endpoint::FileChunkHashes,
];

/// The whole server, as far as it goes without a store.
pub fn app(state: AppState) -> Router {
    let routes = Router::new()
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        // Clients that hold grants from elsewhere try them here first and go on when there are none.
        .route("/v1/xorb-grants/{*rest}", any(nothing_here));
    let routes = at_every_path(routes, Endpoint::Telemetry, &axum::routing::post(telemetry::sink));
    finish(routes, state)
}

/// Adds an endpoint under every path clients have for it.
pub fn at_every_path(
    routes: Router<AppState>,
    endpoint: Endpoint,
    methods: &MethodRouter<AppState>,
) -> Router<AppState> {
    endpoint.templates().iter().fold(routes, |routes, path| routes.route(path, methods.clone()))
}

/// Puts around routes what every answer needs: request ids, logs, metrics, CORS, and a 500 instead of a panic.
pub fn finish(routes: Router<AppState>, state: AppState) -> Router {
    routes
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), limit_rate))
        .layer(CatchPanicLayer::custom(error::caught_panic))
        .layer(cors())
        .layer(axum::middleware::from_fn(observe::observe))
        .with_state(state)
}

/// Lets scripts of any site talk to the server. They prove who they are by a token and never by a cookie, so nothing
/// is opened that the site could not have anyway.
fn cors() -> CorsLayer {
    let name = HeaderName::from_static;
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::RANGE,
            header::IF_RANGE,
            header::IF_NONE_MATCH,
            name(names::XET_SESSION_ID),
            name(names::RANGE_DIRTY),
        ])
        .expose_headers([
            header::ACCEPT_RANGES,
            header::CONTENT_LENGTH,
            header::CONTENT_RANGE,
            header::ETAG,
            header::LINK,
            header::RETRY_AFTER,
            name(names::REQUEST_ID),
            name(names::XET_HASH),
            name(names::XET_CAS_URL),
            name(names::XET_ACCESS_TOKEN),
            name(names::XET_TOKEN_EXPIRATION),
            name(names::XET_REFRESH_ROUTE),
            name(names::LINKED_SIZE),
            name(names::LINKED_ETAG),
        ])
        .max_age(std::time::Duration::from_secs(24 * 3600))
}

/// Turns away an address that asks too often. Health is not counted: whoever asks for it restarts servers.
async fn limit_rate(
    State(state): State<AppState>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if let (Some(rate), Some(Extension(ConnectInfo(Peer(address))))) = (&state.rate, peer)
        && request.uri().path() != "/health"
        && let Err(wait) = rate.admit(address.ip(), state.started.elapsed())
    {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        let refused = Refused::new(ErrorCode::TooManyRequests, "too many requests from this address");
        return refused.retry_after(seconds).into_response();
    }
    next.run(request).await
}

async fn nothing_here() -> Refused {
    Refused::new(ErrorCode::NotFound, "there is nothing at this path")
}

async fn wrong_method() -> Refused {
    Refused::new(ErrorCode::MethodNotAllowed, "this path has another method")
}

#[cfg(test)]
mod tests;

//! Routes and what all of them share.

mod caller;
mod chunk;
mod chunk_list;
pub mod data;
mod edits;
pub mod error;
pub mod health;
mod hub;
mod linger;
pub mod observe;
mod parameters;
mod preconditions;
mod reconstruction;
mod refusal_time;
mod shard;
pub mod telemetry;
pub mod token;
pub mod upload;
mod xorb;

use std::panic::AssertUnwindSafe;

use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri, header};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, any, get, head, post};
use axum::{Extension, Router};
use futures::FutureExt as _;
use tower_http::cors::{AllowOrigin, CorsLayer};
use xet::wire::routes::{Endpoint, content_type, header as names};
use xet::wire::{ErrorCode, encode_json};

use crate::door::Peer;
use crate::sign::DATA_ROUTE;
use crate::state::AppState;
use crate::web;
use error::Refused;

pub(crate) use hub::{Asked, HubError, LfsSigner, Query, SEARCH_BYTES_MAX, encoded, hub_commit, hub_decide};
pub use hub::{dedup_json, deed_json, iso, left_json, quota_json};
pub(crate) use telemetry::read_body;

/// What is answered.
pub const ROUTED: &[Endpoint] = &[
    Endpoint::ReconstructionV1,
    Endpoint::ReconstructionV2,
    Endpoint::BatchReconstruction,
    Endpoint::Chunk,
    Endpoint::Xorb,
    Endpoint::ShardsV1,
    Endpoint::ShardsV2,
    Endpoint::ShardKeyed,
    Endpoint::File,
    Endpoint::Telemetry,
    Endpoint::FileChunkHashes,
    Endpoint::ChunkList,
];

/// The whole server.
pub fn app(state: AppState) -> Router {
    let routes = table().into_iter();
    finish(routes.fold(Router::new(), |routes, (path, methods)| routes.route(&path, methods)), state)
}

/// Every path that is answered, with its parameters in braces.
pub fn paths() -> Vec<String> {
    table().into_iter().map(|(path, _)| path).collect()
}

/// A path and what is answered there.
pub(crate) type Route = (String, MethodRouter<AppState>);

/// Every route there is.
fn table() -> Vec<Route> {
    let own = [
        ("/health", get(health::health)),
        ("/ready", get(health::ready)),
        ("/metrics", get(health::metrics)),
        ("/openapi.json", get(openapi)),
        (DATA_ROUTE, get(data::serve)),
        // Clients that hold grants from elsewhere try them here first and go on when there are none.
        ("/v1/xorb-grants/{*rest}", any(nothing_here)),
    ];
    let own = own.into_iter().map(|(path, methods)| (path.to_owned(), methods));
    let tokens = token::paths().map(|path| (path, get(token::give)));
    let endpoints = [
        (Endpoint::ReconstructionV1, get(reconstruction::v1)),
        (Endpoint::ReconstructionV2, get(reconstruction::v2)),
        (
            Endpoint::BatchReconstruction,
            get(reconstruction::batch_by_query).post(reconstruction::batch_by_body),
        ),
        (Endpoint::Chunk, get(chunk::find)),
        (Endpoint::Xorb, post(xorb::receive).head(xorb::head)),
        (Endpoint::ShardsV1, post(shard::receive_v1)),
        (Endpoint::ShardsV2, post(shard::receive_v2)),
        (Endpoint::ShardKeyed, post(shard::receive_v1)),
        (Endpoint::File, head(reconstruction::head)),
        (Endpoint::Telemetry, post(telemetry::sink)),
        (Endpoint::FileChunkHashes, get(edits::windows)),
        (Endpoint::ChunkList, get(chunk_list::list)),
    ];
    // An endpoint is under every path clients have for it.
    let endpoints = endpoints.into_iter().flat_map(|(endpoint, methods)| {
        endpoint.templates().iter().map(move |path| ((*path).to_owned(), methods.clone()))
    });
    own.chain(tokens).chain(endpoints).chain(hub::routes()).chain(web::routes()).collect()
}

/// Puts around routes what every answer needs: request ids, logs, metrics, CORS, and a 500 instead of a panic.
pub fn finish(routes: Router<AppState>, state: AppState) -> Router {
    routes
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), guard))
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
            name("x-repo-commit"),
            name("x-error-code"),
            name("x-error-message"),
            name("x-total-count"),
        ])
        .max_age(std::time::Duration::from_secs(24 * 3600))
}

/// Turns away an address that asks too often; of the others, bodies may be left unread, and a panic is an answer too.
/// Health is not counted: whoever asks for it restarts servers.
async fn guard(
    State(state): State<AppState>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if let (Some(rate), Some(Extension(ConnectInfo(Peer(address))))) = (&state.rate, peer)
        && request.uri().path() != "/health"
        && let Err(wait) = rate.admit(address.ip(), state.started.elapsed())
    {
        drop(linger::lingering(&state, request));
        return Refused::too_many("too many requests from this address", wait).into_response();
    }
    if let Err(refused) = understood(&request) {
        let refused = web::refuse(request.headers(), refused);
        drop(linger::lingering(&state, request));
        return refused;
    }
    let viewer = web::Viewer::of(request.headers());
    let answered = AssertUnwindSafe(next.run(linger::lingering(&state, request))).catch_unwind();
    let response = answered.await.unwrap_or_else(error::caught_panic);
    match viewer {
        Some(viewer) => viewer.finish(&state, response).await,
        None => response,
    }
}

/// Refuses what would change the result and means nothing here: query parameters that the route does not have, and headers
/// that are not honoured.
fn understood(request: &Request) -> Result<(), Refused> {
    preconditions::check(request)?;
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let check = |route| parameters::check(request.method(), route, request.uri().query());
    let checked = route.map_or(Ok(()), check);
    checked.map_err(|message| Refused::new(ErrorCode::Invalid, message))
}

/// A JSON answer that is about now and about one caller.
pub(crate) fn json<T: serde::Serialize + ?Sized>(body: &T) -> Response<Body> {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    ];
    (headers, encode_json(body)).into_response()
}

/// What is answered, told to programs. Kept by hand; tests compare it with the routes and with the answers they see.
pub const OPENAPI: &str = include_str!("http/openapi.json");

async fn openapi() -> impl axum::response::IntoResponse {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON))], OPENAPI)
}

async fn nothing_here(headers: HeaderMap) -> Response<Body> {
    web::refuse(&headers, Refused::new(ErrorCode::NotFound, "there is nothing at this path"))
}

async fn wrong_method(matched: Option<MatchedPath>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let is_page = matched.is_some_and(|path| path.as_str() == web::REPO_PAGE);
    match is_page && web::is_nothing(uri.path()) {
        true => nothing_here(headers).await,
        false => Refused::new(ErrorCode::MethodNotAllowed, "this path has another method").into_response(),
    }
}

#[cfg(test)]
mod tests;

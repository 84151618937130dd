//! The router: every API's routes, and around them limits, strictness, errors, CORS and the request log.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, Response, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse as _;
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use futures::FutureExt as _;
use store::names::{Kind, RepoName};
use tower_http::cors::{AllowOrigin, CorsLayer};
use xet::wire::ErrorCode;
use xet::wire::routes::header as names;

use super::error::{self, ApiError, Dialect};
use super::{parameters, preconditions, request_log, unread_body};
use crate::net::listener::Peer;
use crate::state::AppState;

/// A path, with its parameters in braces, and the handlers of its methods.
pub(crate) type Route = (String, MethodRouter<AppState>);

/// Routes of the APIs, each with the dialect of its errors, and what every request passes through.
pub(crate) fn build(apis: Vec<(Dialect, Vec<Route>)>, state: &AppState) -> Router<AppState> {
    let mut dialects = HashMap::new();
    let mut router = Router::new();
    for (dialect, routes) in apis {
        for (path, methods) in routes {
            router = router.route(&path, methods);
            dialects.insert(path, dialect);
        }
    }
    let guard_state = (state.clone(), Arc::new(dialects));
    router
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(guard_state, guard))
}

/// Adds what every response needs: CORS headers, a request id and a log line.
pub(crate) fn finish(router: Router<AppState>, state: AppState) -> Router {
    router.layer(cors()).layer(from_fn(request_log::log)).with_state(state)
}

/// Lets scripts of any site use the server. They authenticate by a token and never by a cookie, so nothing is opened that the
/// site could not have anyway.
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
        .max_age(Duration::from_secs(24 * 3600))
}

/// Refuses an address with too many requests and requests that are not understood; of the others, bodies may be left unread,
/// a panic becomes a response, and errors are written in the dialect of their route. Requests for `/health` are not counted:
/// process managers restart servers by them.
async fn guard(
    State((state, dialects)): State<(AppState, Arc<HashMap<String, Dialect>>)>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let dialect = route.and_then(|route| dialects.get(route)).copied().unwrap_or(Dialect::Cas);
    let mut response = if let (Some(rate), Some(Extension(ConnectInfo(Peer(address))))) = (&state.rate, peer)
        && request.uri().path() != "/health"
        && let Err(wait) = rate.admit(address.ip(), state.started.elapsed())
    {
        drop(unread_body::drain_unread_body(&state, request));
        let error = ApiError::too_many("too many requests from this address", wait);
        error.with_dialect(Dialect::Cas).into_response()
    } else if let Err(error) = require_understood(&request) {
        let error = error.for_reader(request.headers());
        drop(unread_body::drain_unread_body(&state, request));
        error.into_response()
    } else {
        let answered = next.run(unread_body::drain_unread_body(&state, request));
        AssertUnwindSafe(answered).catch_unwind().await.unwrap_or_else(error::caught_panic)
    };
    error::write_dialect(&mut response, dialect);
    response
}

/// Refuses what would change the result and means nothing here: query parameters that the route does not have, and headers
/// that are not honoured.
fn require_understood(request: &Request) -> Result<(), ApiError> {
    preconditions::check(request)?;
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let check = |route| parameters::check(request.method(), route, request.uri().query());
    route.map_or(Ok(()), check).map_err(ApiError::invalid)
}

/// The response where no route is.
pub(crate) async fn not_found(headers: HeaderMap) -> Response<Body> {
    nothing_here().for_reader(&headers).into_response()
}

/// The error where no route is.
pub(crate) fn nothing_here() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "there is nothing at this path")
}

async fn wrong_method(matched: Option<MatchedPath>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let is_page = matched.is_some_and(|path| path.as_str() == REPO_PAGE);
    if is_page && !is_repo_path(uri.path()) {
        return not_found(headers).await;
    }
    let error = ApiError::new(ErrorCode::MethodNotAllowed, "this path has another method");
    error.with_dialect(Dialect::Cas).into_response()
}

/// The page of a model: the route that every path of two parts matches.
pub(crate) const REPO_PAGE: &str = "/{namespace}/{name}";

/// Whether a path may be about a repository. One of two parts that are no names only looks like it: the page of models must not
/// make `/api/none` anything else than nothing. Pages of the server itself begin with a dash.
pub(crate) fn is_repo_path(path: &str) -> bool {
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(namespace), Some(name), None) if namespace != "-" => {
            RepoName::new(Kind::Model, namespace, name).is_ok()
        }
        _ => true,
    }
}

//! The whole server: the routes of every API in one router, and the loop that serves it.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;

use crate::http::error::Dialect;
use crate::http::router::{self, Route};
use crate::net::listener::Timeouts;
use crate::net::shutdown::{self, ServeOptions, Stopped};
use crate::state::AppState;
use crate::{cas, http, hub, lfs, web};

pub use crate::http::health::OPENAPI;

/// The server as a router.
pub fn app(state: AppState) -> Router {
    let router = router::build(apis(), &state);
    let router = router.layer(from_fn_with_state(state.clone(), web::error_page::render_errors));
    router::finish(router, state)
}

/// Every path that is routed, with its parameters in braces.
pub fn paths() -> Vec<String> {
    apis().into_iter().flat_map(|(_, routes)| routes).map(|(path, _)| path).collect()
}

/// Every route, with the dialect of its errors.
fn apis() -> Vec<(Dialect, Vec<Route>)> {
    vec![
        (Dialect::Cas, http::health::routes()),
        (Dialect::Cas, cas::routes()),
        (Dialect::Hub, hub::routes()),
        (Dialect::Lfs, lfs::routes()),
        (Dialect::Page, web::routes()),
        (Dialect::Hub, web::upload_routes()),
    ]
}

/// Serves `app` until `stop` is done, and then lets requests finish, as the settings of `state` say.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    state: &AppState,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Stopped> {
    let (config, limits) = (&state.config, &state.config.limits);
    let options = ServeOptions {
        limits: config.connection_limits(),
        timeouts: Timeouts {
            header: Duration::from_secs(limits.header_timeout_s),
            keep_alive: Duration::from_secs(limits.keep_alive_s),
            idle: Duration::from_secs(limits.idle_timeout_s),
        },
        tls: state.tls.clone(),
        health: state.health.clone(),
        delay: Duration::from_secs(config.shutdown_delay_s),
        grace: Duration::from_secs(config.shutdown_grace_s),
    };
    shutdown::serve(listener, app, options, stop).await
}

#[cfg(test)]
mod tests;

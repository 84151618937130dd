//! One id, one log line and a few numbers for every request.
//!
//! A chunk that is not known is no news: its line is for those who look for a fault. The line has the path but neither
//! query nor headers: tokens and signatures are in those.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, Method, Response};
use axum::middleware::Next;
use store::audit::{self, Actor};
use tracing::Instrument as _;
use xet::wire::routes::{Endpoint, header as names};

use crate::secret::{hex, random};

pub(crate) async fn log(request: Request, next: Next) -> Response<Body> {
    let id = hex(&random::<16>());
    let method = method_label(request.method());
    let route =
        request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |path| path.as_str().to_owned());
    let path = request.uri().path();
    let (path, _) = path.split_at(path.floor_char_boundary(PATH_BYTES_MAX));
    let path = path.to_owned();
    let is_dedup = Endpoint::Chunk.templates().contains(&route.as_str());
    let span = tracing::info_span!("request", id, session = session(&request));

    let in_flight = InFlight::enter();
    let begin = Instant::now();
    // What the request changes is noted under its id, and under the name of the caller once that is known.
    let answered = audit::by(Actor::of_request(id.as_str()), next.run(request));
    let mut response = answered.instrument(span.clone()).await;
    let seconds = begin.elapsed().as_secs_f64();
    drop(in_flight);

    let status = response.status().as_u16();
    metrics::counter!("drystone_http_requests_total", "method" => method, "route" => route.clone(), "status" => status.to_string())
        .increment(1);
    metrics::histogram!("drystone_http_request_seconds", "route" => route).record(seconds);
    span.in_scope(|| {
        let ms = (seconds * 1e6).round() / 1e3;
        match status {
            500.. => tracing::warn!(method, path, status, ms, "answered"),
            404 if is_dedup => tracing::debug!(method, path, status, ms, "answered"),
            _ => tracing::info!(method, path, status, ms, "answered"),
        }
    });
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HeaderName::from_static(names::REQUEST_ID), id);
    }
    response
}

/// The client's session, if it named one that can stand in a log.
fn session(request: &Request) -> Option<&str> {
    let text = request.headers().get(names::XET_SESSION_ID)?.to_str().ok()?;
    let sound = text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    sound.then_some(text)
}

/// A method as a label. Clients can invent methods, and every new label costs memory for ever.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Counts a request while it lasts, also when the client goes away in the middle.
struct InFlight;

impl InFlight {
    fn enter() -> Self {
        metrics::gauge!("drystone_http_requests_in_flight").increment(1.0);
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!("drystone_http_requests_in_flight").decrement(1.0);
    }
}

const PATH_BYTES_MAX: usize = 512;

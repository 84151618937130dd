//! The serving loop, and a shutdown that lets requests finish.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::body::{Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::ServiceExt as _;

use xet::wire::routes::content_type;
use xet::wire::{ErrorBody, ErrorCode, encode_json};

use crate::config::ConnectionLimits;
use crate::net::limits::{Busy, Slot};
use crate::net::listener::{Connection, Listener, Peer, Timeouts};
use crate::net::tls::Tls;

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request was answered.
    Cleanly,
    /// Some were still running when the grace was over.
    Cut,
}

/// Whether the server accepts requests. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    stopping: Arc<AtomicBool>,
}

impl Health {
    /// Marks the server as stopping: requests should go to other servers.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether [`Health::stop`] was called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// Options of a server that serves connections.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    pub(crate) limits: ConnectionLimits,
    pub(crate) timeouts: Timeouts,
    pub(crate) tls: Option<Tls>,
    /// Marked when the server begins to stop.
    pub(crate) health: Health,
    /// Time between that and the end of accepting connections.
    pub(crate) delay: Duration,
    /// Time that requests have to finish after that.
    pub(crate) grace: Duration,
}

/// Serves until `stop` is done. Afterwards `/ready` reports that the server stops, and for the delay of the settings all else
/// goes on, so that proxies find out before connections are refused. Then accepts no more connections and waits for requests to
/// finish, but not longer than the grace.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Stopped> {
    let ServeOptions { limits, timeouts, tls, health, delay, grace } = options;
    let mut listener = Listener::new(listener, limits, timeouts).with_tls(tls);
    let mut http = http1::Builder::new();
    // The connection itself ends what takes too long, and knows whether a request has begun.
    http.timer(TokioTimer::new()).header_read_timeout(None);
    // A client that has sent all it has to send still gets its answer.
    http.half_close(true);
    let (stopping, stopped) = watch::channel(());
    let stop = async {
        stop.await;
        health.stop();
        tokio::time::sleep(delay).await;
    };
    let mut stop = pin!(stop);
    loop {
        let (connection, address) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let (app, slot) = (app.clone(), connection.slot());
        let closing = slot.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(Peer(address)));
            let busy = slot.begin(request.uri().path() == "/health");
            let app = app.clone();
            async move {
                let Some(busy) = busy else { return Ok(crowded()) };
                let response = app.oneshot(request).await;
                response.map(|response| response.map(|body| Body::new(BusyBody { body, _busy: busy })))
            }
        });
        let connection = http.serve_connection(TokioIo::new(connection), service);
        tokio::spawn(run(connection, closing, stopped.clone()));
    }
    drop((listener, stopped));
    // No one listens when there is no connection.
    let _ = stopping.send(());
    tokio::select! {
        () = stopping.closed() => Ok(Stopped::Cleanly),
        () = tokio::time::sleep(grace) => Ok(Stopped::Cut),
    }
}

/// An answer on its way, which keeps its connection from being taken for idle.
struct BusyBody {
    body: Body,
    _busy: Busy,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The response to a request of an address that has as many as it may have.
fn crowded() -> Response<Body> {
    let code = ErrorCode::Unavailable;
    let body = ErrorBody { error: "too many requests at once from this address".to_owned(), code };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::RETRY_AFTER, HeaderValue::from_static("1")),
        (header::CONNECTION, HeaderValue::from_static("close")),
    ];
    (StatusCode::SERVICE_UNAVAILABLE, headers, encode_json(&body)).into_response()
}

/// Answers the requests of one connection, until its slot is needed; once the server stops, the one that has begun and no
/// other.
async fn run<S>(
    connection: http1::Connection<TokioIo<Connection>, S>,
    slot: Arc<Slot>,
    mut stopped: watch::Receiver<()>,
) where
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = slot.evicted() => return,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients leave in the middle all the time.
        tracing::debug!(%error, "a connection ended");
    }
}

/// Reads the certificate again at each SIGHUP, where the system has signals.
pub async fn reload_on_hangup(tls: Tls) {
    #[cfg(unix)]
    {
        let hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup());
        let Ok(mut hangup) = hangup else { return };
        while hangup.recv().await.is_some() {
            match tls.reload() {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(error) => tracing::error!(%error, "the certificate stays as it was"),
            }
        }
    }
    #[cfg(not(unix))]
    drop(tls);
}

/// Done at Ctrl-C, or at SIGTERM where the system has signals.
pub async fn stop_signal() {
    let interrupt = async {
        // Without a handler the default one ends the process, which is what the signal means.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Method};
    use axum::routing::get;
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;
    use crate::config::ServeConfig;
    use crate::http::ranges::{Cache, Representation, answer};
    use crate::secret::{Key, KeyRing};
    use crate::state::AppState;

    /// Starts a server with one route; the sender tells it to stop.
    async fn start(
        handler: axum::routing::MethodRouter,
        grace_s: u64,
    ) -> (TcpStream, AppState, oneshot::Sender<()>, tokio::task::JoinHandle<io::Result<Stopped>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = ServeConfig { shutdown_grace_s: grace_s, ..ServeConfig::default() };
        let state = AppState::new(config, &KeyRing::new(Key::random()), address);
        let (stop_tx, stop) = oneshot::channel::<()>();
        let stop = async move { drop(stop.await) };
        let (app, served) = (Router::new().route("/", handler), state.clone());
        let server = tokio::spawn(async move { crate::serve(listener, app, &served, stop).await });
        (TcpStream::connect(address).await.unwrap(), state, stop_tx, server)
    }

    async fn send(connection: &mut TcpStream, headers: &str) {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
    }

    /// Everything until the connection ends.
    async fn receive(connection: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        let heard = tokio::time::timeout(Duration::from_secs(20), connection.read_to_end(&mut answer)).await;
        // A connection that was cut may end in an error; what came before is what counts.
        drop(heard.expect("the connection ends"));
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request whose answer takes `work`, then tells the server to stop.
    async fn stop_in_the_middle(work: Duration, grace_s: u64) -> (Stopped, TcpStream) {
        let (begun_tx, mut begun) = tokio::sync::mpsc::channel(1);
        let slow = get(move || async move {
            begun_tx.send(()).await.unwrap();
            tokio::time::sleep(work).await;
            "done"
        });
        let (mut connection, state, stop, server) = start(slow, grace_s).await;
        send(&mut connection, "").await;
        begun.recv().await.unwrap();
        assert!(!state.health.is_stopping());
        stop.send(()).unwrap();
        let stopped = server.await.unwrap().unwrap();
        assert!(state.health.is_stopping());
        (stopped, connection)
    }

    #[tokio::test]
    async fn a_request_that_has_begun_is_finished() {
        let (stopped, mut connection) = stop_in_the_middle(Duration::from_millis(100), 60).await;
        assert_eq!(stopped, Stopped::Cleanly);
        let answer = receive(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_not_waited_for() {
        let (stopped, _) = stop_in_the_middle(Duration::from_secs(60), 0).await;
        assert_eq!(stopped, Stopped::Cut);
    }

    /// A thousand bytes, of which those after `good` cannot be read.
    fn representation_broken_after(good: u64) -> axum::routing::MethodRouter {
        get(move |method: Method, headers: HeaderMap| async move {
            let cache = Cache::Revalidate;
            let representation =
                Representation { total_bytes: 1000, etag: "t".into(), content_type: "text/plain", cache };
            let response: axum::http::Response<Body> =
                answer(&method, &headers, &representation, move |range| {
                    let piece = |at| {
                        if at < good { Ok(Bytes::from_static(b"x")) } else { Err(io::Error::other("disk")) }
                    };
                    stream::iter(range.map(piece).collect::<Vec<_>>()).boxed()
                });
            response
        })
    }

    #[tokio::test]
    async fn ranges_go_out_with_a_length_and_not_in_chunks() {
        let (mut connection, _, _stop, _) = start(representation_broken_after(1000), 0).await;
        send(&mut connection, "Range: bytes=0-9,20-29\r\n").await;
        let answer = receive(&mut connection).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 206") && !head.contains("transfer-encoding"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
    }

    #[tokio::test]
    async fn bytes_that_cannot_be_read_break_the_transfer_off() {
        // Whether anything was on its way before the error is up to the library; what matters is that it is not whole.
        let (mut connection, _, _stop, _) = start(representation_broken_after(15), 0).await;
        send(&mut connection, "Range: bytes=10-29\r\n").await;
        let answer = receive(&mut connection).await;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(body.len() < 20 && !answer.contains("chunked"), "{answer}");
    }
}

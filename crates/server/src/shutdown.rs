//! Serving until told to stop, and stopping without dropping what has begun.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::door::{Door, Peer};
use crate::state::AppState;

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request was answered.
    Cleanly,
    /// Some were still running when the grace was over.
    Cut,
}

/// Serves until `stop` is done, then takes no more connections and waits for requests to finish, but not longer than
/// the grace of the settings.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    state: &AppState,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Stopped> {
    let (health, limits) = (state.health.clone(), &state.config.limits);
    let grace = Duration::from_secs(state.config.shutdown_grace_s);
    let door = Door::new(listener, limits.connections_max, Duration::from_secs(limits.idle_timeout_s));
    let app = app.into_make_service_with_connect_info::<Peer>();
    let (stopping, stopped) = oneshot::channel();
    let signal = async move {
        stop.await;
        health.stop();
        // No one listens when the server has failed before.
        let _ = stopping.send(());
    };
    let over = async {
        // An error says that the signal will never come.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = async { axum::serve(door, app).with_graceful_shutdown(signal).await } => {
            served.map(|()| Stopped::Cleanly)
        }
        () = over => Ok(Stopped::Cut),
    }
}

/// Done when the process is asked to end: Ctrl-C, or SIGTERM where there is such a thing.
pub async fn asked_to_end() {
    let interrupt = async {
        // Without a handler the default one ends the process, which is what was asked for.
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
    use axum::body::Body;
    use axum::http::{HeaderMap, Method};
    use axum::routing::get;
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;
    use crate::config::ServeConfig;
    use crate::ranges::{Cache, Thing, answer};
    use crate::secret::{Key, KeyRing};

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
        let server = tokio::spawn(async move { serve(listener, app, &served, stop).await });
        (TcpStream::connect(address).await.unwrap(), state, stop_tx, server)
    }

    async fn ask(connection: &mut TcpStream, headers: &str) {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
    }

    /// Everything until the connection ends.
    async fn hear(connection: &mut TcpStream) -> String {
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
        ask(&mut connection, "").await;
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
        let answer = hear(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_not_waited_for() {
        let (stopped, _) = stop_in_the_middle(Duration::from_secs(60), 0).await;
        assert_eq!(stopped, Stopped::Cut);
    }

    /// A thousand bytes, of which those after `good` cannot be read.
    fn thing_broken_after(good: u64) -> axum::routing::MethodRouter {
        get(move |method: Method, headers: HeaderMap| async move {
            let cache = Cache::NoStore;
            let thing = Thing { total_bytes: 1000, etag: "t".into(), content_type: "text/plain", cache };
            let response: axum::http::Response<Body> = answer(&method, &headers, &thing, move |range| {
                let piece =
                    |at| if at < good { Ok(Bytes::from_static(b"x")) } else { Err(io::Error::other("disk")) };
                stream::iter(range.map(piece).collect::<Vec<_>>()).boxed()
            });
            response
        })
    }

    #[tokio::test]
    async fn ranges_go_out_with_a_length_and_not_in_chunks() {
        let (mut connection, _, _stop, _) = start(thing_broken_after(1000), 0).await;
        ask(&mut connection, "Range: bytes=0-9,20-29\r\n").await;
        let answer = hear(&mut connection).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 206") && !head.contains("transfer-encoding"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
    }

    #[tokio::test]
    async fn bytes_that_cannot_be_read_break_the_transfer_off() {
        // Whether anything was on its way before the error is up to the library; what matters is that it is not whole.
        let (mut connection, _, _stop, _) = start(thing_broken_after(15), 0).await;
        ask(&mut connection, "Range: bytes=10-29\r\n").await;
        let answer = hear(&mut connection).await;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(body.len() < 20 && !answer.contains("chunked"), "{answer}");
    }
}

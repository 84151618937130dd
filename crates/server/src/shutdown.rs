//! Serving until told to stop, and stopping without dropping what has begun.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::http::health::Health;

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request was answered.
    Cleanly,
    /// Some were still running when the grace was over.
    Cut,
}

/// Serves until `stop` is done, then takes no more connections and waits up to `grace` for requests to finish.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    health: Health,
    stop: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<Stopped> {
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
        served = async { axum::serve(listener, app).with_graceful_shutdown(signal).await } => {
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
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    /// Starts a server whose one answer takes `work`, sends it a request, tells it to stop, and returns what came of both.
    async fn stop_in_the_middle(work: Duration, grace: Duration) -> (Stopped, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (begun_tx, mut begun) = tokio::sync::mpsc::channel(1);
        let slow = get(move || async move {
            begun_tx.send(()).await.unwrap();
            tokio::time::sleep(work).await;
            "done"
        });
        let (stop_tx, stop) = oneshot::channel::<()>();
        let health = Health::default();
        let stop = async move { drop(stop.await) };
        let server =
            tokio::spawn(serve(listener, Router::new().route("/", slow), health.clone(), stop, grace));

        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        begun.recv().await.unwrap();
        assert!(!health.is_stopping());
        stop_tx.send(()).unwrap();
        let stopped = server.await.unwrap().unwrap();
        assert!(health.is_stopping());
        let mut answer = Vec::new();
        // A cut connection may end in an error; what came before it is what counts.
        let read =
            tokio::time::timeout(Duration::from_millis(500), connection.read_to_end(&mut answer)).await;
        drop(read);
        (stopped, String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test]
    async fn a_request_that_has_begun_is_finished() {
        let (stopped, answer) = stop_in_the_middle(Duration::from_millis(100), Duration::from_secs(60)).await;
        assert_eq!(stopped, Stopped::Cleanly);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_not_waited_for() {
        let (stopped, _) = stop_in_the_middle(Duration::from_secs(60), Duration::from_millis(50)).await;
        assert_eq!(stopped, Stopped::Cut);
    }
}

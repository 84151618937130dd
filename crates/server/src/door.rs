//! The listener: lets in so many connections at a time and closes those on which nothing happens.
//!
//! When all places are taken, new connections wait in the system's queue. Without the time limit a client could hold a
//! place for ever by sending nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A TCP listener with limits.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Door {
    /// Lets at most `connections_max` in at a time, each until it was idle for so long.
    pub fn new(listener: TcpListener, connections_max: u32, idle: Duration) -> Self {
        let places = usize::try_from(connections_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { listener, places: Arc::new(Semaphore::new(places)), idle }
    }
}

impl Listener for Door {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        // Axum's own way for TCP logs what fails and tries again.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Answers are written in few large pieces; waiting to join them only delays. Without it they still arrive.
        let _ = stream.set_nodelay(true);
        let timer = Box::pin(tokio::time::sleep(self.idle));
        let connection = Connection { stream, idle: self.idle, last: Instant::now(), timer, _place: place };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection in its place.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    idle: Duration,
    /// When bytes last moved, in either direction.
    last: Instant,
    timer: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Passes on what came of moving bytes; turns a wait that is too long into an error.
    fn watch<T>(&mut self, moved: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.last = Instant::now();
            return moved;
        }
        // The timer is set anew only when it fires, and not for each piece that moves.
        while self.timer.as_mut().poll(context).is_ready() {
            let over = self.last + self.idle;
            if Instant::now() >= over {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(over);
        }
        Poll::Pending
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let moved = Pin::new(&mut this.stream).poll_read(cx, buf);
        this.watch(moved, cx)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let moved = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.watch(moved, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let moved = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.watch(moved, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(*stream.remote_addr())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn door(connections_max: u32, idle: Duration) -> (Door, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Door::new(listener, connections_max, idle), address)
    }

    #[tokio::test]
    async fn a_connection_waits_until_another_leaves() {
        let (mut door, address) = door(1, Duration::from_secs(60)).await;
        let _first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let (inside, _) = door.accept().await;
        let soon = tokio::time::timeout(Duration::from_millis(50), door.accept()).await;
        assert!(soon.is_err());
        drop(inside);
        tokio::time::timeout(Duration::from_secs(10), door.accept()).await.expect("the place is free again");
    }

    #[tokio::test]
    async fn a_silent_connection_is_closed_and_a_busy_one_is_not() {
        let (mut door, address) = door(4, Duration::from_millis(200)).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut inside, peer) = door.accept().await;
        assert_eq!(peer, client.local_addr().unwrap());
        let mut byte = [0];
        for _ in 0..6 {
            client.write_all(b"x").await.unwrap();
            inside.read_exact(&mut byte).await.unwrap();
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        let error = inside.read_exact(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

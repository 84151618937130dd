//! The listener: accepts a limited number of connections, and closes those on which nothing happens.
//!
//! When all slots are taken, the connection that is idle for longest is closed for the new one. Where all have requests, new
//! connections wait in the system's queue.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_rustls::Accept;
use tokio_rustls::server::TlsStream;

use crate::config::ConnectionLimits;
use crate::net::limits::{Admitted, Phase, Slot, Slots};
use crate::net::tls::Tls;

/// A TCP listener with limits, with or without TLS.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    slots: Slots,
    timeouts: Timeouts,
    tls: Option<Tls>,
}

/// How long a connection may take for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// For the TLS handshake and the first header, and for each later header from its first byte.
    pub header: Duration,
    /// Between an answer and the next request.
    pub keep_alive: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
}

impl Listener {
    /// A listener with these limits.
    pub(crate) fn new(listener: TcpListener, limits: ConnectionLimits, timeouts: Timeouts) -> Self {
        Self { listener, slots: Slots::new(limits), timeouts, tls: None }
    }

    /// The same behind TLS, if there is any.
    #[must_use]
    pub(crate) fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// The next connection. The TLS handshake runs on the first read, so a slow client cannot block `accept`.
    pub(crate) async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // Axum's own way for TCP logs what fails and tries again.
            let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
            let slot = loop {
                match self.slots.admit(address.ip()) {
                    Admitted::Yes(slot) => break Some(slot),
                    Admitted::Full => self.slots.freed().await,
                    Admitted::AddressFull => break None,
                }
            };
            match slot {
                Some(slot) => return (self.connection(stream, slot), address),
                None => self.turn_away(&stream),
            }
        }
    }

    fn connection(&self, stream: TcpStream, slot: Arc<Slot>) -> Connection {
        // Answers are written in few large pieces; waiting to join them only delays. Without it they still arrive.
        let _ = stream.set_nodelay(true);
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some(tls) => Stream::Handshake(Box::new(tls.acceptor().accept(stream))),
        };
        let (timeouts, last) = (self.timeouts, Instant::now());
        let timer = Box::pin(tokio::time::sleep(timeouts.header.min(timeouts.idle)));
        Connection { stream, timeouts, last, timer, slot }
    }

    /// Answers a client whose address has all connections it may have, if that is possible without waiting.
    fn turn_away(&self, stream: &TcpStream) {
        metrics::counter!("drystone_connections_refused_total").increment(1);
        if self.tls.is_none() {
            let _ = stream.try_write(TURNED_AWAY);
        }
    }
}

/// The answer to a connection for which its address has no slot.
const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Type: application/json\r\nContent-Length: 75\r\n\r\n\
    {\"error\":\"too many connections from this address\",\"code\":\"unavailable\"}   \n";

/// What bytes move over.
enum Stream {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    /// The handshake failed; every further call gets the same error.
    Failed,
}

/// Something bytes move over both ways.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

impl Stream {
    /// The pipe, once there is one.
    fn ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&mut dyn Io>> {
        if let Self::Handshake(accept) = self {
            match ready!(Pin::new(&mut **accept).poll(context)) {
                Ok(stream) => *self = Self::Tls(Box::new(stream)),
                Err(error) => {
                    metrics::counter!("drystone_tls_handshakes_failed_total").increment(1);
                    *self = Self::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match self {
            Self::Plain(stream) => Ok(stream),
            Self::Tls(stream) => Ok(&mut **stream),
            Self::Handshake(_) | Self::Failed => Err(io::ErrorKind::ConnectionAborted.into()),
        })
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Handshake(_) => "Handshake",
            Self::Tls(_) => "Tls",
            Self::Failed => "Failed",
        })
    }
}

/// One connection in its slot.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    timeouts: Timeouts,
    /// When bytes last moved, in either direction.
    last: Instant,
    timer: Pin<Box<Sleep>>,
    slot: Arc<Slot>,
}

impl Connection {
    /// The slot of this connection.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        self.slot.clone()
    }

    /// When it is closed unless something happens before.
    fn deadline(&self) -> Instant {
        let since = self.slot.since();
        let idle = self.last + self.timeouts.idle;
        match since.phase {
            Phase::Opened | Phase::Head => idle.min(since.at + self.timeouts.header),
            Phase::Waiting => idle.min(since.at + self.timeouts.keep_alive),
            Phase::Busy | Phase::Answered => idle,
        }
    }

    /// Moves bytes; turns a wait that is too long into an error.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        go: impl FnOnce(Pin<&mut dyn Io>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let moved = match self.stream.ready(context) {
            Poll::Ready(Ok(pipe)) => go(Pin::new(pipe), context),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        self.in_time(moved, context)
    }

    fn in_time<T>(&mut self, moved: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.last = Instant::now();
            return moved;
        }
        // The timer is set anew only when it fires or is too late, and not for each piece that moves.
        let over = self.deadline();
        if over < self.timer.deadline() {
            self.timer.as_mut().reset(over);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let over = self.deadline();
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
        let before = buf.filled().len();
        let read = this.watch(cx, |pipe, cx| pipe.poll_read(cx, buf));
        if read.is_ready() && buf.filled().len() > before {
            this.slot.has_received();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().watch(cx, |pipe, cx| pipe.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().watch(cx, |pipe, cx| pipe.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
            Stream::Handshake(_) | Stream::Failed => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let pipe = ready!(this.stream.ready(cx))?;
        ready!(Pin::new(pipe).poll_flush(cx))?;
        // The library has nothing left to write when it gets here.
        if this.slot.has_flushed() {
            // From here on it may be idle for less long: the timer must know, also if nothing is read any more.
            let _ = this.in_time(Poll::<io::Result<()>>::Pending, cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pipe = ready!(self.get_mut().stream.ready(cx))?;
        Pin::new(pipe).poll_shutdown(cx)
    }
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub SocketAddr);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn listener(total: usize, idle: Duration) -> (Listener, SocketAddr) {
        let minute = Duration::from_secs(60);
        patient(total, Timeouts { header: minute, keep_alive: minute, idle }).await
    }

    async fn patient(total: usize, timeouts: Timeouts) -> (Listener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Listener::new(listener, ConnectionLimits { total, per_address: total }, timeouts), address)
    }

    #[tokio::test]
    async fn a_connection_waits_while_others_have_requests_and_replaces_one_that_is_idle() {
        let limits = ConnectionLimits { total: 1, per_address: 10 };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let minute = Duration::from_secs(60);
        let timeouts = Timeouts { header: minute, keep_alive: minute, idle: minute };
        let mut listener = Listener::new(listener, limits, timeouts);
        let _first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let (mut inside, _) = listener.accept().await;
        let slot = inside.slot();
        let busy = slot.begin(false).unwrap();
        let waiting = tokio::spawn(async move { listener.accept().await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        drop(busy);
        inside.flush().await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), slot.evicted())
            .await
            .expect("it is closed for another");
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("which gets its slot").unwrap();
    }

    #[tokio::test]
    async fn a_header_has_its_time_from_the_first_byte_and_an_idle_connection_another() {
        let (header, keep_alive) = (Duration::from_millis(100), Duration::from_millis(600));
        let (mut listener, address) =
            patient(9, Timeouts { header, keep_alive, idle: Duration::from_secs(60) }).await;
        let read = async |inside: &mut Connection| {
            let begin = Instant::now();
            let error = loop {
                match inside.read_u8().await {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            (error.kind(), begin.elapsed())
        };
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut inside, _) = listener.accept().await;
        client.write_all(b"GET /").await.unwrap();
        let (kind, took) = read(&mut inside).await;
        assert!(kind == io::ErrorKind::TimedOut && took < keep_alive, "{kind} {took:?}");
        for sent in [&b""[..], b"GET /"] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut inside, _) = listener.accept().await;
            drop(inside.slot().begin(false).unwrap());
            inside.flush().await.unwrap();
            client.write_all(sent).await.unwrap();
            let (kind, took) = read(&mut inside).await;
            assert_eq!((kind, took >= keep_alive), (io::ErrorKind::TimedOut, sent.is_empty()), "{took:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_connection_is_closed_and_a_busy_one_is_not() {
        let (mut listener, address) = listener(4, Duration::from_millis(200)).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut inside, peer) = listener.accept().await;
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

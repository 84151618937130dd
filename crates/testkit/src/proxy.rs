//! A proxy that misbehaves: it passes bytes on between a client and a server, and does to some connections what networks do.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Which bytes: those the client sends, or those it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What happens to one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Clean,
    /// It ends after this many bytes.
    Cut(Way, u64),
    /// It stays open, and after this many bytes nothing more arrives.
    Stall(Way, u64),
    /// The bit with the value 1 of the byte at this offset is turned over.
    Corrupt(Way, u64),
    /// At most this many bytes pass each second.
    Slow(Way, u64),
    /// The first request is answered with this status and `Retry-After`, and never reaches the server.
    Status(u16, u32),
    /// It is refused at once.
    Refuse,
}

/// A proxy in front of one server, at a port of its own. Ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    faults: Mutex<VecDeque<Fault>>,
    connections: AtomicU64,
    up_bytes: AtomicU64,
    down_bytes: AtomicU64,
}

impl Proxy {
    /// Starts a proxy in front of `server`.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let listening = tokio::spawn({
            let shared = shared.clone();
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    let fault =
                        shared.faults.lock().expect("not poisoned").pop_front().unwrap_or(Fault::Clean);
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        // A connection that fails is what this is for.
                        let _ = connection(client, server, fault, &shared).await;
                    });
                }
            }
        });
        Ok(Self { address, shared, listening })
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Does this to the next connections, one each; those after them are clean.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.faults.lock().expect("not poisoned").extend(faults);
    }

    /// Faults that no connection has met yet.
    pub fn planned(&self) -> usize {
        self.shared.faults.lock().expect("not poisoned").len()
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Bytes that passed so far, one way.
    pub fn bytes(&self, way: Way) -> u64 {
        match way {
            Way::Up => self.shared.up_bytes.load(Ordering::Relaxed),
            Way::Down => self.shared.down_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn connection(
    mut client: TcpStream,
    server: SocketAddr,
    fault: Fault,
    shared: &Shared,
) -> io::Result<()> {
    match fault {
        Fault::Refuse => return Ok(()),
        Fault::Status(status, retry_after_s) => return refuse(&mut client, status, retry_after_s).await,
        _ => {}
    }
    let server = TcpStream::connect(server).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pass(from_client, to_server, Of { fault, way: Way::Up }, &shared.up_bytes);
    let down = pass(from_server, to_client, Of { fault, way: Way::Down }, &shared.down_bytes);
    // A cut ends both ways at once; an end of one way alone does not.
    tokio::pin!(up, down);
    tokio::select! {
        ended = &mut up => if ended? { down.await?; },
        ended = &mut down => if ended? { up.await?; },
    }
    Ok(())
}

/// Answers the first request by itself, and reads the rest of it away so that the answer is not lost in a reset.
async fn refuse(client: &mut TcpStream, status: u16, retry_after_s: u32) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut seen = Vec::new();
    while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut buffer).await? {
            0 => return Ok(()),
            n => seen.extend_from_slice(&buffer[..n]),
        }
    }
    let head = format!(
        "HTTP/1.1 {status} Fault\r\nretry-after: {retry_after_s}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    client.shutdown().await?;
    while let Ok(Ok(1..)) = tokio::time::timeout(Duration::from_secs(5), client.read(&mut buffer)).await {}
    Ok(())
}

/// A fault as one way of a connection sees it.
struct Of {
    fault: Fault,
    way: Way,
}

/// Passes bytes on until there are no more (`true`), or the connection is to be cut (`false`).
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    Of { fault, way }: Of,
    count: &AtomicU64,
) -> io::Result<bool> {
    let mut buffer = vec![0; 64 * 1024];
    let mut at = 0_u64;
    loop {
        let room = match fault {
            Fault::Cut(on, after) if on == way && at == after => return Ok(false),
            Fault::Stall(on, after) if on == way && at == after => return std::future::pending().await,
            Fault::Cut(on, after) | Fault::Stall(on, after) if on == way => after - at,
            Fault::Slow(on, rate) if on == way => (rate / 10).max(1),
            _ => buffer.len() as u64,
        };
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(buffer.len());
        let n = from.read(&mut buffer[..room]).await?;
        if n == 0 {
            to.shutdown().await?;
            return Ok(true);
        }
        if let Fault::Corrupt(on, place) = fault
            && on == way
            && (at..at + n as u64).contains(&place)
        {
            buffer[usize::try_from(place - at).unwrap_or_default()] ^= 1;
        }
        if matches!(fault, Fault::Slow(on, _) if on == way) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        to.write_all(&buffer[..n]).await?;
        at += n as u64;
        count.fetch_add(n as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says back what it hears.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = socket.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn say(proxy: &Proxy, text: &[u8]) -> Vec<u8> {
        let mut socket = TcpStream::connect(proxy.address).await.unwrap();
        let mut heard = Vec::new();
        if socket.write_all(text).await.is_ok() && socket.shutdown().await.is_ok() {
            let _ = socket.read_to_end(&mut heard).await;
        }
        heard
    }

    #[tokio::test]
    async fn each_connection_meets_its_fault_and_the_rest_are_clean() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        proxy.plan([
            Fault::Clean,
            Fault::Cut(Way::Down, 3),
            Fault::Corrupt(Way::Up, 1),
            Fault::Slow(Way::Down, 50),
            Fault::Refuse,
            Fault::Status(429, 7),
        ]);
        assert_eq!(say(&proxy, b"hello").await, b"hello");
        assert_eq!(say(&proxy, b"hello").await, b"hel");
        assert_eq!(say(&proxy, b"hello").await, b"hdllo");
        assert_eq!(say(&proxy, b"hello").await, b"hello");
        assert_eq!(say(&proxy, b"hello").await, b"");
        let refused = say(&proxy, b"GET / HTTP/1.1\r\n\r\n").await;
        assert!(
            refused.starts_with(b"HTTP/1.1 429 ")
                && refused.windows(14).any(|text| text == b"retry-after: 7")
        );
        assert_eq!(say(&proxy, b"hello").await, b"hello");
        assert_eq!((proxy.connections(), proxy.planned()), (7, 0));
        assert!(proxy.bytes(Way::Up) >= 20);
    }

    #[tokio::test]
    async fn a_stalled_connection_stays_open_and_silent() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        proxy.plan([Fault::Stall(Way::Down, 2)]);
        let mut socket = TcpStream::connect(proxy.address).await.unwrap();
        socket.write_all(b"hello").await.unwrap();
        let mut two = [0; 2];
        socket.read_exact(&mut two).await.unwrap();
        let more = tokio::time::timeout(Duration::from_millis(300), socket.read(&mut two)).await;
        assert!(more.is_err(), "{more:?}");
    }
}

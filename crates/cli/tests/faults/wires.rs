//! What stands between: a balancer that asks servers whether they are ready, and a wire that breaks, slows or refuses.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use testkit::http::{Http, RequestBody};

/// Passes each connection on to the next server that is ready. One it cannot pass on it drops: the client sees that.
pub(crate) struct Balancer {
    pub(crate) url: String,
    shared: Arc<Servers>,
}

struct Servers {
    all: Vec<(SocketAddr, AtomicBool)>,
    turn: AtomicUsize,
    ended: AtomicBool,
}

impl Balancer {
    /// Takes its place before the servers are started, which need to know it.
    pub(crate) fn reserve() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, url)
    }

    pub(crate) fn start(listener: TcpListener, servers: &[SocketAddr]) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let all = servers.iter().map(|address| (*address, AtomicBool::new(false))).collect();
        let shared = Arc::new(Servers { all, turn: AtomicUsize::new(0), ended: AtomicBool::new(false) });
        for n in 0..servers.len() {
            let shared = shared.clone();
            thread::spawn(move || {
                while !shared.ended.load(Ordering::Relaxed) {
                    let (address, ready) = &shared.all[n];
                    let answer = Http::new(&format!("http://{address}")).send(
                        "GET",
                        "/ready",
                        &[],
                        RequestBody::Nothing,
                    );
                    ready.store(answer.is_ok_and(|answer| answer.status == 200), Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(50));
                }
            });
        }
        let passing = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if passing.ended.load(Ordering::Relaxed) {
                    return;
                }
                let ready: Vec<_> =
                    passing.all.iter().filter(|(_, ready)| ready.load(Ordering::Relaxed)).collect();
                let turn = passing.turn.fetch_add(1, Ordering::Relaxed);
                let Some((address, _)) = ready.get(turn % ready.len().max(1)) else { continue };
                if let Ok(server) = TcpStream::connect(address) {
                    join(client, server, |_, _| true);
                }
            }
        });
        Self { url, shared }
    }

    pub(crate) fn ready(&self) -> usize {
        self.shared.all.iter().filter(|(_, ready)| ready.load(Ordering::Relaxed)).count()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Wakes the one that waits for connections.
        drop(TcpStream::connect(self.url.trim_start_matches("http://")));
    }
}

/// What a wire does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Passes everything on.
    Pass,
    /// Refuses and cuts.
    Cut,
    /// Waits before every piece.
    Slow,
    /// Answers what would store something with 507.
    Full,
}

/// A wire to a server that can be moved to another one.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<(SocketAddr, Mode)>,
    open: Mutex<Vec<TcpStream>>,
}

impl Wire {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { state: Mutex::new((server, Mode::Pass)), open: Mutex::default() });
        let passing = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, mode) = *passing.state.lock().unwrap();
                let Ok(server) = TcpStream::connect(server) else { continue };
                if mode == Mode::Cut {
                    continue;
                }
                passing
                    .open
                    .lock()
                    .unwrap()
                    .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let shared = passing.clone();
                join(client, server, move |piece, client| {
                    let mode = shared.state.lock().unwrap().1;
                    if mode == Mode::Slow {
                        thread::sleep(Duration::from_millis(100));
                    }
                    if mode == Mode::Full && (piece.starts_with(b"PUT ") || piece.starts_with(b"POST ")) {
                        let full = "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                        let _ = client.write_all(full.as_bytes());
                        return false;
                    }
                    true
                });
            }
        });
        Self { address, shared }
    }

    /// From now on; what is open is cut.
    pub(crate) fn set(&self, mode: Mode) {
        self.shared.state.lock().unwrap().1 = mode;
        self.cut();
    }

    /// To another server; what is open is cut.
    pub(crate) fn move_to(&self, server: SocketAddr) {
        self.shared.state.lock().unwrap().0 = server;
        self.cut();
    }

    fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Passes bytes on both ways. What the client sends is shown first, and ends it all when that is refused.
fn join(
    client: TcpStream,
    server: TcpStream,
    mut inspect: impl FnMut(&[u8], &mut TcpStream) -> bool + Send + 'static,
) {
    let (mut up, mut down) = (client.try_clone().unwrap(), client);
    let (mut to, mut from) = (server.try_clone().unwrap(), server);
    thread::spawn(move || {
        let mut piece = vec![0; 65_536];
        while let Ok(read @ 1..) = up.read(&mut piece) {
            if !inspect(&piece[..read], &mut up) || to.write_all(&piece[..read]).is_err() {
                let _ = up.shutdown(Shutdown::Both);
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let mut piece = vec![0; 65_536];
        while let Ok(read @ 1..) = from.read(&mut piece) {
            if down.write_all(&piece[..read]).is_err() {
                let _ = from.shutdown(Shutdown::Both);
                break;
            }
        }
        let _ = down.shutdown(Shutdown::Write);
    });
}

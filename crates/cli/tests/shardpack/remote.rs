//! Packs over HTTP and HTTPS, from a server of a few lines that answers ranges and redirects, counts and wants tokens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testkit::command::Call;

use super::{Folder, files, keys, shardpack};

/// A server of one pack: under `/pack` for everyone, under `/private` with a token. `/moved` redirects to the first, `/away` to
/// the server `elsewhere`; `/plain` supports no ranges.
#[derive(Clone)]
struct Site {
    pack: Vec<u8>,
    elsewhere: String,
    requests: Arc<AtomicUsize>,
    tokens_seen: Arc<AtomicUsize>,
}

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Site {
    fn new(pack: Vec<u8>) -> Self {
        Self { pack, elsewhere: String::new(), requests: Arc::default(), tokens_seen: Arc::default() }
    }

    /// Serves in the clear, or over TLS; the base URL.
    fn serve(&self, tls: Option<Arc<rustls::ServerConfig>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let base = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let site = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (site, tls) = (site.clone(), tls.clone());
                thread::spawn(move || {
                    let stream: Box<dyn Stream> = match tls {
                        Some(config) => {
                            let connection = rustls::ServerConnection::new(config).unwrap();
                            Box::new(rustls::StreamOwned::new(connection, stream))
                        }
                        None => Box::new(stream),
                    };
                    site.answer_all(stream);
                });
            }
        });
        base
    }

    fn answer_all(&self, stream: Box<dyn Stream>) {
        let mut input = BufReader::new(stream);
        loop {
            let (mut path, mut range, mut token) = (String::new(), None, None);
            loop {
                let mut line = String::new();
                if input.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some(rest) = line.strip_prefix("GET ") {
                    path = rest.split(' ').next().unwrap().to_owned();
                } else if let Some((name, value)) = line.trim_end().split_once(": ") {
                    match name.to_ascii_lowercase().as_str() {
                        "range" => range = value.strip_prefix("bytes=").map(str::to_owned),
                        "authorization" => token = Some(value.to_owned()),
                        _ => {}
                    }
                }
                if line == "\r\n" {
                    break;
                }
            }
            self.tokens_seen.fetch_add(usize::from(token.is_some()), Ordering::Relaxed);
            let is_allowed = path != "/private" || token.as_deref() == Some("Bearer secret");
            let (head, body) = match (path.as_str(), range) {
                _ if !is_allowed => ("401 Unauthorized".to_owned(), &b""[..]),
                ("/moved", _) => ("302 Found\r\nLocation: /pack".to_owned(), &b""[..]),
                ("/away", _) => (format!("302 Found\r\nLocation: {}/pack", self.elsewhere), &b""[..]),
                ("/plain", _) => ("200 OK".to_owned(), self.pack.as_slice()),
                ("/pack" | "/private", Some(range)) => self.part(&range),
                _ => ("404 Not Found".to_owned(), &b""[..]),
            };
            let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
            let output = input.get_mut();
            let sent = output.write_all(head.as_bytes()).and_then(|()| output.write_all(body));
            if sent.and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    }

    fn part(&self, range: &str) -> (String, &[u8]) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let size = self.pack.len();
        let (first, last) = range.split_once('-').unwrap();
        let (first, end) = if first.is_empty() {
            (size - size.min(last.parse().unwrap()), size)
        } else {
            (first.parse().unwrap(), size.min(last.parse::<usize>().unwrap() + 1))
        };
        let head = format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{size}", end - 1);
        (head, &self.pack[first..end])
    }
}

/// A certificate for `localhost` in a file, and a server's configuration with it.
fn certificate(folder: &Folder) -> (String, Arc<rustls::ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = folder.put("ca.pem", made.cert.pem());
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()];
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    (file, Arc::new(config))
}

fn cat(url: &str) -> Call {
    shardpack(["cat", url, "images2/image002", "left.jpg"])
}

fn wanted() -> Vec<u8> {
    files()["images2/image002.left.jpg"].clone()
}

#[test]
fn a_record_of_a_remote_pack_takes_three_requests() {
    let folder = Folder::with_pack();
    let site = Site::new(folder.read("a.shardpack"));
    let address = site.serve(None);
    let remote = format!("{address}/pack");
    let image = cat(&remote).run();
    assert_eq!(image.stdout, wanted(), "{}", image.stderr);
    // The end, the key of the record, the record.
    assert!(site.requests.swap(0, Ordering::Relaxed) <= 3);
    assert_eq!(keys(&remote), keys(&folder.at("a.shardpack")));
    assert_eq!(keys(&format!("{address}/{{moved,pack}}")).len(), 26);
    shardpack(["verify", &remote]).run().ok();
    shardpack(["extract", &remote, "--output", &folder.at("out")]).run().ok();
    assert_eq!(folder.all("out"), files());
}

#[test]
fn a_server_that_cannot_help_is_named() {
    let address = Site::new(b"not a pack at all".to_vec()).serve(None);
    for (path, message) in [("/none", "/none"), ("/plain", "ranges"), ("/pack", "not a ShardPack file")] {
        let complaint = shardpack(["list", &format!("{address}{path}")]).run().fails(1);
        assert!(complaint.contains(message), "{complaint}");
    }
    assert_eq!(shardpack(["verify", &format!("{address}/pack")]).run().code, Some(2));
}

#[test]
fn a_private_pack_is_read_over_tls_with_a_token() {
    let folder = Folder::with_pack();
    let (ca_file, tls) = certificate(&folder);
    let site = Site::new(folder.read("a.shardpack"));
    let address = site.serve(Some(tls));
    let private = format!("{address}/private");
    for call in [
        cat(&private).args(["--token", "secret"]),
        cat(&private).env("DRYSTONE_TOKEN", "secret").env("HF_TOKEN", "other"),
        cat(&private).env("HF_TOKEN", "secret").env("HF_ENDPOINT", &address),
    ] {
        let image = call.args(["--ca-file", &ca_file]).run();
        assert_eq!(image.stdout, wanted(), "{}", image.stderr);
    }
    let denied = cat(&private).args(["--ca-file", &ca_file]).run().fails(1);
    assert!(denied.contains("--token"), "{denied}");
    let elsewhere = [("DRYSTONE_TOKEN", "secret"), ("DRYSTONE_ENDPOINT", "https://other.example")];
    let call = elsewhere.iter().fold(cat(&private), |call, (name, value)| call.env(name, value));
    call.args(["--ca-file", &ca_file]).run().fails(1);
    let distrusted = cat(&private).args(["--token", "secret"]).run().fails(1);
    assert!(distrusted.contains("certificate"), "{distrusted}");
}

#[test]
fn a_token_stays_with_the_server_it_is_for() {
    let folder = Folder::with_pack();
    let (ca_file, tls) = certificate(&folder);
    let other = Site::new(folder.read("a.shardpack"));
    let site = Site { elsewhere: other.serve(None), ..Site::new(folder.read("a.shardpack")) };
    let address = site.serve(None);
    let image = cat(&format!("{address}/away")).args(["--token", "secret"]).run();
    assert_eq!(image.stdout, wanted(), "{}", image.stderr);
    assert!(site.tokens_seen.load(Ordering::Relaxed) > 0);
    assert_eq!(other.tokens_seen.load(Ordering::Relaxed), 0);

    let moved = format!("{}/away", site.serve(Some(tls)));
    let refused = cat(&moved).args(["--ca-file", &ca_file]).run().fails(1);
    assert!(refused.contains("leaves https"), "{refused}");
    let clear = cat("http://192.0.2.1/x").args(["--token", "secret"]).run().fails(1);
    assert!(clear.contains("only sent over https"), "{clear}");
}

//! A server on a real socket: TLS, slow clients, stopping, and limits that only show there.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use server::TlsFiles;
use server::{AppState, Key, KeyRing, ServeConfig};
use server::{Stopped, serve};
use server::{Tls, TlsError};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

struct Running {
    address: SocketAddr,
    state: AppState,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<Stopped>>,
}

async fn start(config: ServeConfig, tls: Option<Tls>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut state = AppState::new(config, &KeyRing::new(Key::new([7; 32])), address);
    if let Some(tls) = tls {
        state = state.with_tls(tls);
    }
    let (stop, answers) = oneshot::channel::<()>();
    let (app, served) = (server::app(state.clone()), state.clone());
    let ended =
        tokio::spawn(async move { serve(listener, app, &served, async { drop(answers.await) }).await });
    Running { address, state, stop, ended }
}

fn certificate() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// Writes a pair of files, as an operator would put them.
fn put(folder: &Path, made: &CertifiedKey<KeyPair>) -> TlsFiles {
    let files = TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    files
}

fn with_tls() -> (TempDir, CertifiedKey<KeyPair>, TlsFiles, ServeConfig) {
    let (folder, made) = (tempfile::tempdir().unwrap(), certificate());
    let files = put(folder.path(), &made);
    let config = ServeConfig {
        tls_cert: Some(files.cert.clone()),
        tls_key: Some(files.key.clone()),
        ..ServeConfig::default()
    };
    (folder, made, files, config)
}

/// A client that believes one certificate.
async fn connect(
    address: SocketAddr,
    believed: &CertificateDer<'static>,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(believed.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends")
}

/// Queries the server's health on a connection that ends with the answer.
async fn health(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_server_with_a_certificate_speaks_tls_and_nothing_else() {
    let (_folder, made, files, config) = with_tls();
    let running = start(config, Some(Tls::open(&files).unwrap())).await;
    assert_eq!(running.state.base_url, format!("https://{}", running.address));
    let mut stream = connect(running.address, made.cert.der()).await.unwrap();
    assert!(health(&mut stream).await.starts_with("HTTP/1.1 200"));

    assert!(connect(running.address, certificate().cert.der()).await.is_err(), "another's certificate");
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // How the connection ends is up to the system; what matters is that no answer came.
    let _ = within(plain.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    let mut again = connect(running.address, made.cert.der()).await.unwrap();
    assert!(health(&mut again).await.starts_with("HTTP/1.1 200"), "untrusted clients do not stop it");
    running.stop.send(()).unwrap();
    assert_eq!(within(running.ended).await.unwrap().unwrap(), Stopped::Cleanly);
}

#[tokio::test]
async fn a_new_certificate_is_shown_once_it_was_read_again() {
    let (folder, old, files, config) = with_tls();
    let tls = Tls::open(&files).unwrap();
    let running = start(config, Some(tls.clone())).await;
    let new = certificate();
    put(folder.path(), &new);
    assert!(connect(running.address, new.cert.der()).await.is_err(), "nobody answers it to");
    tls.reload().unwrap();
    let mut stream = connect(running.address, new.cert.der()).await.unwrap();
    assert!(health(&mut stream).await.starts_with("HTTP/1.1 200"));
    assert!(connect(running.address, old.cert.der()).await.is_err());

    std::fs::write(&files.key, "nothing").unwrap();
    assert!(tls.reload().is_err());
    assert!(connect(running.address, new.cert.der()).await.is_ok(), "a bad file changes nothing");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let (folder, _, files, _) = with_tls();
    let error_of = |files: &TlsFiles| Tls::open(files).unwrap_err().to_string();
    let other = folder.path().join("other.pem");
    let secret = certificate().signing_key.serialize_pem();
    std::fs::write(&other, &secret).unwrap();
    let mismatch = Tls::open(&TlsFiles { key: other.clone(), ..files.clone() }).unwrap_err();
    assert!(matches!(mismatch, TlsError::Mismatch { .. }), "{mismatch}");
    assert!(mismatch.to_string().contains("other.pem") && mismatch.to_string().contains("cert.pem"));

    assert!(error_of(&TlsFiles { cert: other.clone(), ..files.clone() }).contains("no certificate"));
    assert!(error_of(&TlsFiles { key: files.cert.clone(), ..files.clone() }).contains("no private key"));
    assert!(error_of(&TlsFiles { key: folder.path().join("gone"), ..files.clone() }).contains("gone"));
    let body = secret.lines().nth(1).unwrap();
    std::fs::write(&other, secret.replace(body, &format!("!!{}", &body[2..]))).unwrap();
    let damaged = error_of(&TlsFiles { key: other, ..files });
    assert!(damaged.contains("other.pem") && !damaged.contains(&body[2..]), "{damaged}");
}

#[tokio::test]
async fn a_client_that_sends_its_header_slowly_is_let_go() {
    let (_folder, _, files, mut config) = with_tls();
    config.limits.header_timeout_s = 1;
    let plain = ServeConfig { tls_cert: None, tls_key: None, ..config.clone() };
    // A request that never gets to its end, and a hello that never does.
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let tls = Some(Tls::open(&files).unwrap());
    for (config, tls, first) in [(plain, None, &b"GET / HTTP/1.1\r\nx: "[..]), (config, tls, &hello)] {
        let running = start(config, tls).await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(first).await.unwrap();
        let drip = async {
            // A letter now and then, and never an end: without a limit this would go on for ever.
            while stream.write_all(b"G").await.is_ok() {
                let mut byte = [0];
                match tokio::time::timeout(Duration::from_millis(100), stream.read(&mut byte)).await {
                    Err(_) | Ok(Ok(1..)) => {}
                    Ok(_) => return,
                }
            }
        };
        within(drip).await;
    }
}

#[tokio::test]
async fn a_connection_that_waits_ends_when_the_server_stops() {
    let running = start(ServeConfig::default(), None).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut start = [0; 12];
    within(stream.read_exact(&mut start)).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    running.stop.send(()).unwrap();
    assert_eq!(
        within(running.ended).await.unwrap().unwrap(),
        Stopped::Cleanly,
        "it was stored alive and idle"
    );
}

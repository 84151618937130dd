//! A real S3 server for tests: buckets in a temporary folder, on a free port, gone when dropped.
//!
//! It checks signatures and their expiry. Other servers, such as Ceph's, are tested in its place where the environment
//! names one: `DRYSTONE_TEST_S3` is its URL, `DRYSTONE_TEST_S3_KEY` and `DRYSTONE_TEST_S3_SECRET` a user that may make
//! buckets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process, thread};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A running server, ours or the one the environment names.
#[derive(Debug)]
pub struct S3 {
    endpoint: String,
    key: String,
    secret: String,
    buckets: AtomicU32,
    /// `None` for a server that others keep.
    ours: Option<Ours>,
}

#[derive(Debug)]
struct Ours {
    folder: TempDir,
    /// Ends the server's thread when dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl S3 {
    /// Starts a server, or takes the one that the environment names.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start() -> Self {
        match env::var("DRYSTONE_TEST_S3") {
            Ok(endpoint) => {
                let (key, secret) = (variable("DRYSTONE_TEST_S3_KEY"), variable("DRYSTONE_TEST_S3_SECRET"));
                Self { endpoint, key, secret, buckets: AtomicU32::new(0), ours: None }
            }
            Err(_) => Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))),
        }
    }

    /// Starts a server of our own at an address.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_at(address: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let service = service(folder.path());
        let (started, running) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        // On a thread of its own: the runtime of a test may be busy, or have no other thread.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let listener = TcpListener::bind(address).await.expect("there is a free port");
                started.send(listener.local_addr().expect("a bound port")).expect("the test waits");
                tokio::select! {
                    () = serve(listener, service) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = running.recv().expect("the S3 server starts");
        Self {
            endpoint: format!("http://{address}"),
            key: KEY.to_owned(),
            secret: SECRET.to_owned(),
            buckets: AtomicU32::new(0),
            ours: Some(Ours { folder, stop: Some(stop), thread: Some(thread) }),
        }
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The name of the user who may do everything.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// That user's secret.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The URL of a new, empty bucket, or of a new, empty place in one.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn fresh_bucket(&self) -> String {
        let number = self.buckets.fetch_add(1, Ordering::Relaxed);
        match &self.ours {
            Some(ours) => {
                let name = format!("bucket-{number}");
                fs::create_dir(ours.folder.path().join(&name)).expect("a bucket is a folder");
                format!("s3://{name}/some/prefix")
            }
            // An external server has one bucket; tests of several processes share it.
            None => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
                let bucket =
                    env::var("DRYSTONE_TEST_S3_BUCKET").unwrap_or_else(|_| "drystone-test".to_owned());
                format!("s3://{bucket}/{}-{}-{number}", process::id(), now.as_nanos())
            }
        }
    }

    /// Settings of a client of this server, as environment variables.
    pub fn environment(&self) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", &self.key),
            ("AWS_SECRET_ACCESS_KEY", &self.secret),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Whether it is the server of this module and not one that the environment names.
    pub fn is_ours(&self) -> bool {
        self.ours.is_some()
    }

    /// Where the bytes of a bucket's URL are, on our own server: to damage them.
    pub fn folder(&self, bucket: &str) -> Option<PathBuf> {
        Some(self.ours.as_ref()?.folder.path().join(bucket.strip_prefix("s3://")?))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

fn service(folder: &Path) -> S3Service {
    let mut builder = S3ServiceBuilder::new(FileSystem::new(folder).expect("the folder is there"));
    builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
    builder.build()
}

async fn serve(listener: TcpListener, service: S3Service) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let service = service.clone();
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that goes away is no concern of ours.
            let _ = server.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("DRYSTONE_TEST_S3 needs {name} as well"))
}

const KEY: &str = "testkey";
const SECRET: &str = "the-secret-of-tests";

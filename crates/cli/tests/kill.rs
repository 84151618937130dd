//! `kill -9` in the middle of uploads, again and again: what was acknowledged is there, what is visible is whole.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, thread};

use store::Objects;
use testkit::command::Call;
use testkit::corpus::{self, SplitMix64};
use testkit::postgres::Postgres;
use testkit::upload::{Cas, Failed, Upload};
use xet::FileHash;
use xet::compress::Policy;

const DRYSTONE: &str = env!("CARGO_BIN_EXE_drystone");

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_fifty_times() {
    killed(50, None);
}

#[test]
fn nor_when_the_catalog_is_in_postgres() {
    let Some(postgres) = Postgres::start() else { return };
    killed(5, Some(&postgres.fresh_database()));
}

fn killed(rounds: u64, catalog: Option<&str>) {
    let seed = match env::var("DRYSTONE_TEST_SEED") {
        Ok(text) => text.parse().expect("DRYSTONE_TEST_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64,
    };
    eprintln!("DRYSTONE_TEST_SEED={seed} does this again, as far as timing allows");
    let mut random = SplitMix64::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut known = Known::default();
    let mut token = None;
    let mut round = 0;
    // Where kills fall is left to chance: they go on until both sides of an acknowledgement were met.
    while round < rounds || !known.met_both(rounds) {
        assert!(round < 10 * rounds, "kills come too early or too late: {:?}", known.counts());
        let mut server = Server::start(&data, catalog);
        let token = token.get_or_insert_with(|| make_token(&data, catalog));
        let cas = Cas::new(&server.url, token);
        known.check(&cas, false);
        // After `answers` responses and a little more: in the middle of some operation.
        let (answers, more_us) = (random.below(16), random.below(12_000));
        let answered = AtomicU64::new(0);
        let uploaded = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..UPLOADERS {
                let (cas, answered, uploaded, seed) = (&cas, &answered, &uploaded, random.word());
                scope.spawn(move || uploader(cas, seed, answered, uploaded));
            }
            let end = Instant::now() + Duration::from_secs(30);
            while answered.load(Ordering::SeqCst) < answers && Instant::now() < end {
                thread::sleep(Duration::from_micros(200));
            }
            thread::sleep(Duration::from_micros(more_us));
            server.kill();
        });
        assert!(answered.load(Ordering::SeqCst) >= answers, "round {round}: the server does not answer");
        known.add(uploaded.into_inner().unwrap());
        round += 1;
    }
    let server = Server::start(&data, catalog);
    let cas = Cas::new(&server.url, &token.unwrap());
    known.check(&cas, true);
    let objects = check_objects(&data.join("objects"));
    let (acknowledged, unknown) = known.counts();
    eprintln!("{round} kills: {acknowledged} files acknowledged, {unknown} not, {objects} objects sound");
}

/// Uploads at the same time; each has one request under way when the server dies.
const UPLOADERS: usize = 3;

/// A file that an uploader sent.
struct UploadedFile {
    hash: FileHash,
    bytes: Vec<u8>,
    acknowledged: bool,
}

/// Uploads new files, and now and then old ones, until the server is gone.
fn uploader(cas: &Cas, seed: u64, answered: &AtomicU64, uploaded: &Mutex<Vec<UploadedFile>>) {
    let mut random = SplitMix64::new(seed);
    let shared = corpus::noise(1, 90_000);
    let mut last = None;
    loop {
        let upload_seed = match last {
            Some(seed) if random.below(4) == 0 => seed,
            _ => random.word(),
        };
        last = Some(upload_seed);
        let mut of_upload = SplitMix64::new(upload_seed);
        let noise = corpus::noise(of_upload.word(), 10_000 + of_upload.below(120_000) as usize);
        // The second file has chunks that other uploads have, in other xorbs or in the same.
        let files = [noise.clone(), [&shared[..], &noise[..5000]].concat()];
        let upload = Upload::of(&[&files[0], &files[1]], 2, Policy::Auto);
        let path = if random.below(2) == 0 { "/v1/shards" } else { "/v2/shards" };
        let mut sent = Ok(());
        for xorb in &upload.xorbs {
            sent = cas.put_xorb(xorb);
            if sent.is_err() {
                break;
            }
            answered.fetch_add(1, Ordering::SeqCst);
        }
        let sent = sent.and_then(|()| cas.put_shard(path, &upload.shard()));
        if let Err(Failed::Refused { status, message, .. }) = &sent {
            panic!("refused: {status} {message}");
        }
        let acknowledged = sent.is_ok();
        let files = upload.files.iter().zip(files).map(|(file, bytes)| UploadedFile {
            hash: file.hash,
            bytes,
            acknowledged,
        });
        uploaded.lock().unwrap().extend(files);
        if !acknowledged {
            return;
        }
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

/// All files that were ever sent.
#[derive(Default)]
struct Known {
    files: HashMap<FileHash, UploadedFile>,
    /// Since the last check.
    fresh: Vec<FileHash>,
}

impl Known {
    fn add(&mut self, uploaded: Vec<UploadedFile>) {
        for uploaded in uploaded {
            self.fresh.push(uploaded.hash);
            let file =
                self.files.entry(uploaded.hash).or_insert(UploadedFile { acknowledged: false, ..uploaded });
            file.acknowledged |= uploaded.acknowledged;
        }
    }

    /// Reads what is new, or everything. What was acknowledged must exist; what was not may, but then whole.
    fn check(&mut self, cas: &Cas, everything: bool) {
        let fresh = std::mem::take(&mut self.fresh);
        let hashes: Vec<_> = if everything { self.files.keys().copied().collect() } else { fresh };
        for hash in hashes {
            let file = &self.files[&hash];
            match cas.file(&hash).unwrap() {
                Some(bytes) => assert!(bytes == file.bytes, "{hash} came back with other bytes"),
                None => assert!(!file.acknowledged, "{hash} was acknowledged and is gone"),
            }
        }
    }

    fn counts(&self) -> (usize, usize) {
        let acknowledged = self.files.values().filter(|file| file.acknowledged).count();
        (acknowledged, self.files.len() - acknowledged)
    }

    /// Whether enough files were acknowledged, and enough were cut off, for `rounds` of kills.
    fn met_both(&self, rounds: u64) -> bool {
        let (acknowledged, unknown) = self.counts();
        acknowledged as u64 > rounds && unknown as u64 > rounds / 2
    }
}

/// Runs `drystone check` on every object; what a write left unfinished must not be listed as one.
fn check_objects(folder: &Path) -> usize {
    let mut files = Vec::new();
    for kind in ["xorbs", "shards"] {
        walk(&folder.join(kind), &mut files);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let listed = runtime.block_on(async {
        use futures::TryStreamExt as _;
        let objects = Objects::local(folder).unwrap();
        let mut listed = HashMap::new();
        for part in [store::objects::Folder::Xorbs, store::objects::Folder::Shards] {
            let found: Vec<_> = objects.list(part).try_collect().await.unwrap();
            listed.extend(found.into_iter().map(|found| (folder.join(&found.path), found.key)));
        }
        listed
    });
    for file in &files {
        let is_draft = file.file_name().unwrap().to_str().unwrap().contains('#');
        assert_eq!(listed.contains_key(file), !is_draft, "{}", file.display());
    }
    let queue = Mutex::new(listed.iter());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((path, key)) = queue.lock().unwrap().next() else { return };
                    assert!(key.is_some(), "{} is no object", path.display());
                    let name = path.file_name().unwrap().to_str().unwrap();
                    let (kind, hash) = match name.split_once('-') {
                        Some((hash, _)) => ("xorb-stored", hash),
                        None => ("shard-stored", name),
                    };
                    let args = ["check", "--as", kind, "--hash", hash, path.to_str().unwrap()];
                    Call::new(DRYSTONE).args(args).run().ok();
                }
            });
        }
    });
    listed.len()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path(), files),
            false => files.push(entry.path()),
        }
    }
}

fn make_token(data: &Path, catalog: Option<&str>) -> String {
    let args = ["token", "create", "--scope", "write", "--repo", "ann/model", "--cas", "--json", "--data"];
    let catalog = catalog.into_iter().flat_map(|catalog| ["--catalog", catalog]);
    let made = Call::new(DRYSTONE).args(args).args([data]).args(catalog).run().ok();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

/// The real server.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(data: &Path, catalog: Option<&str>) -> Self {
        let mut command = Command::new(DRYSTONE);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("DRYSTONE_")) {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("DRYSTONE_LOG_LEVEL", "error");
        if let Some(catalog) = catalog {
            command.args(["--catalog", catalog]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url =
            lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
        let url = url.unwrap_or_else(|| panic!("the server ended: {:?}", child.wait()));
        Self { child, url }
    }

    /// No handler runs, nothing is flushed: SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Writers, readers and sweepers at once on real databases, with a grace of seconds: nothing is lost, nothing is wrong.
//!
//! The clock runs 600 times as fast, so that a grace of an hour and more passes in seconds. `DRYSTONE_STRESS_S=600` goes
//! on for longer.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::HashMap;
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{TryStreamExt as _, stream};
use object_store::local::LocalFileSystem;
use sha2::Digest as _;
use store::content::Progress;
use store::hub::refs::MAIN;
use store::hub::{Operation, RepoRow, Request};
use store::names::{Kind, RepoName};
use store::upkeep::{CompactOptions, CompactProgress, GcOptions, GcProgress, VerifyOptions, VerifyProgress};
use store::{Clock, DedupOptions, ErrorKind, Grant, Objects, Options, Store};
use testkit::corpus::{self, SplitMix64};
use testkit::faulty::{Dates, Faults, FaultyObjects};
use testkit::postgres::Postgres;
use testkit::upload::Upload;
use xet::compress::{Policy, Scheme};
use xet::{FileHash, Sha256};

/// A clock that runs fast.
#[derive(Debug)]
struct FastClock(Instant);

impl Clock for FastClock {
    fn now_s(&self) -> u64 {
        1_800_000_000 + (self.0.elapsed().as_secs_f64() * 600.0) as u64
    }
}

const GRACE_S: u64 = 4200;
const WRITERS: u64 = 8;
const READERS: u64 = 4;

#[test]
fn nothing_is_lost_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    stress(&format!("sqlite://{}", folder.path().join("catalog.db").display()));
}

#[test]
fn nothing_is_lost_on_postgres() {
    let Some(postgres) = Postgres::start() else { return };
    stress(&postgres.fresh_database());
}

fn stress(catalog: &str) {
    let seconds = env::var("DRYSTONE_STRESS_S").map_or(60, |text| text.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(catalog, Duration::from_secs(seconds)));
}

/// What all share.
struct World {
    stores: Vec<Store>,
    /// Files that a commit was acknowledged for, by repository, path and digest; a path has its last.
    there: Mutex<HashMap<(u64, String), Sha256>>,
    is_over: AtomicBool,
    commits: AtomicU64,
    reads: AtomicU64,
    refused: AtomicU64,
    deleted: AtomicU64,
}

async fn run(catalog: &str, length: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(FastClock(Instant::now()));
    let dates = Dates::new(clock.clone());
    let local = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let mut stores = Vec::new();
    // As three servers: nothing in common but the store.
    for _ in 0..3 {
        let objects = FaultyObjects::dated(local.clone(), Faults::default(), dates.clone());
        let dedup = DedupOptions { answer_s: 60, ..DedupOptions::default() };
        let options = Options { dedup, threads: 2, ..Options::default() };
        let catalog = store::Catalog::open_or_create(catalog).await.unwrap();
        stores.push(Store::new(Objects::new(Arc::new(objects)), catalog, clock.clone(), &options));
    }
    for n in 0..WRITERS {
        stores[0].hub().create_repo(&name(n), false, "ann").await.unwrap();
    }
    let world = Arc::new(World {
        stores,
        there: Mutex::default(),
        is_over: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        deleted: AtomicU64::new(0),
    });
    let mut tasks = Vec::new();
    for n in 0..WRITERS {
        tasks.push(tokio::spawn(writer(world.clone(), n)));
    }
    for n in 0..READERS {
        tasks.push(tokio::spawn(reader(world.clone(), n)));
    }
    for n in 0..2 {
        tasks.push(tokio::spawn(sweeper(world.clone(), n)));
    }
    tokio::time::sleep(length).await;
    world.is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let last = &world.stores[0];
    let there: Vec<_> =
        world.there.lock().unwrap().iter().map(|(at, sha256)| (at.clone(), *sha256)).collect();
    for ((n, path), sha256) in &there {
        assert!(is_readable(last, *n, path, *sha256).await, "{path} of {n} is gone");
    }
    let options = VerifyOptions { deep: true, ..VerifyOptions::default() };
    let verified = last.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
    assert_eq!(verified.damages, []);
    let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
    let (commits, reads) = (count(&world.commits), count(&world.reads));
    let (refused, deleted) = (count(&world.refused), count(&world.deleted));
    eprintln!(
        "{commits} commits, {reads} reads, {refused} refused, {deleted} objects deleted, {} files left",
        there.len()
    );
    assert!(commits > WRITERS && reads > READERS && deleted > 0, "too little happened");
}

fn name(n: u64) -> RepoName {
    RepoName::new(Kind::Model, "ann", &format!("r{n}")).unwrap()
}

/// Pushes new and old content, commits some of it, forgets history.
async fn writer(world: Arc<World>, n: u64) {
    let mut random = SplitMix64::new(n);
    let repo = world.stores[0].hub().repo(&name(n)).await.unwrap().unwrap();
    let grant = Grant::write(repo.name.scope().unwrap());
    while !world.is_over.load(Ordering::SeqCst) {
        let store = &world.stores[random.below(3) as usize];
        // Few contents, so that writers meet in the same xorbs, which come and go.
        let data = corpus::text(random.below(60), 30_000);
        let policy = if random.below(2) == 0 { Policy::Auto } else { Policy::Always(Scheme::Raw) };
        let upload = Upload::of(&[&data], 1 + random.below(3) as usize, policy);
        if let Err(error) = push(store, &grant, &upload).await {
            assert!(is_fair(&error), "push: {error}");
            world.refused.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let path = format!("f{}", random.below(3));
        let sha256 = upload.files[0].sha256.unwrap();
        match random.below(8) {
            0 => continue,
            1 => match store.hub().squash(&repo, MAIN, "ann", "all at once").await {
                Ok(_) => {}
                Err(error) => assert!(is_fair(&error), "squash: {error}"),
            },
            _ => {}
        }
        let put = Operation::PutLinked { path: path.clone(), sha256, bytes: None };
        match commit(store, &repo, put).await {
            Ok(()) => {
                world.there.lock().unwrap().insert((n, path), sha256);
                world.commits.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                assert!(is_fair(&error), "commit: {error}");
                world.refused.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Deleted just now, overtaken by a grace of seconds, or too much at once: a retry succeeds.
fn is_fair(error: &store::Error) -> bool {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Conflict => true,
        ErrorKind::Invalid => {
            error.to_string().contains("no sound file") || error.to_string().contains("not stored")
        }
        _ => false,
    }
}

async fn push(store: &Store, grant: &Grant, upload: &Upload) -> store::Result<()> {
    for xorb in &upload.xorbs {
        let bytes = Bytes::from(xorb.bytes.clone());
        let declared = Some(bytes.len() as u64);
        store.content().put_xorb(grant, xorb.info.hash(), declared, stream::iter([Ok(bytes)])).await?;
    }
    let shard = Bytes::from(upload.shard());
    let (declared, progress) = (Some(shard.len() as u64), Progress::default());
    store.content().register(grant, declared, stream::iter([Ok(shard)]), &progress).await.map(|_| ())
}

async fn commit(store: &Store, repo: &RepoRow, operation: Operation) -> store::Result<()> {
    let (author, message) = ("ann".into(), "a commit".into());
    let request =
        Request { ref_name: MAIN.into(), parent: None, author, message, operations: vec![operation] };
    store.hub().commit(repo, &request).await.map(|_| ())
}

async fn reader(world: Arc<World>, n: u64) {
    let mut random = SplitMix64::new(100 + n);
    while !world.is_over.load(Ordering::SeqCst) {
        let known: Vec<_> = world.there.lock().unwrap().keys().cloned().collect();
        let Some((repo, path)) = known.get(random.below(known.len().max(1) as u64) as usize).cloned() else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let store = &world.stores[random.below(3) as usize];
        let row = store.hub().repo(&name(repo)).await.unwrap().unwrap();
        let at = store.hub().ref_target(row.id, MAIN).await.unwrap().unwrap();
        // A squash may have taken the commit since: what it leads to stays for a grace.
        let Some(item) = store.hub().find_path(row.id, at, &path).await.unwrap() else {
            panic!("{path} is gone")
        };
        let linked = item.linked.unwrap();
        let bytes = read(store, repo, linked.file).await;
        assert!(digest(&bytes) == linked.sha256, "{path} of {repo} has other bytes");
        world.reads.fetch_add(1, Ordering::SeqCst);
    }
}

async fn is_readable(store: &Store, repo: u64, path: &str, sha256: Sha256) -> bool {
    let row = store.hub().repo(&name(repo)).await.unwrap().unwrap();
    let at = store.hub().ref_target(row.id, MAIN).await.unwrap().unwrap();
    let Some(item) = store.hub().find_path(row.id, at, path).await.unwrap() else { return false };
    let linked = item.linked.unwrap();
    linked.sha256 == sha256 && digest(&read(store, repo, linked.file).await) == sha256
}

async fn read(store: &Store, repo: u64, file: FileHash) -> Vec<u8> {
    let grant = Grant::read(name(repo).scope().unwrap());
    let bytes = store.content().file_bytes(&grant, file).await.unwrap();
    let pieces: Vec<Bytes> =
        store.content().read_file(&grant, file, 0..bytes).await.unwrap().try_collect().await.unwrap();
    pieces.concat()
}

async fn sweeper(world: Arc<World>, n: usize) {
    let options = GcOptions { grace_s: GRACE_S, allow_large_deletion: true, ..GcOptions::default() };
    while !world.is_over.load(Ordering::SeqCst) {
        match world.stores[n].upkeep().collect_garbage(&options, &GcProgress::default()).await {
            Ok(swept) => {
                assert_eq!(swept.skipped, [""; 0]);
                world.deleted.fetch_add(swept.deleted, Ordering::SeqCst);
            }
            Err(error) => assert!(is_fair(&error), "sweep: {error}"),
        }
        let compact = CompactOptions { live_share_max: 0.9, dry_run: false };
        if let Err(error) = world.stores[n].upkeep().compact(&compact, &CompactProgress::default()).await {
            // What it reads may be deleted meanwhile.
            assert!(is_fair(&error) || error.kind() == ErrorKind::Corrupt, "compact: {error}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn digest(bytes: &[u8]) -> Sha256 {
    Sha256::new(sha2::Sha256::digest(bytes).into())
}

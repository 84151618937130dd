//! A disk that is full, too little memory, too few descriptors: requests are refused, nothing is lost, work goes on after.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use testkit::upload::{Cas, Failed, Upload};
use xet::compress::Policy;

use super::{Plan, until};

/// A disk of its own in memory. `None`, with a word about it, where it cannot be mounted.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped: a disk that is full needs the right to mount one");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(self.path()).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn bytes(seed: u64) -> Vec<u8> {
    testkit::corpus::noise(seed, 1_000_000)
}

fn upload(seed: u64) -> Upload {
    Upload::of(&[&bytes(seed)], 1000, Policy::Auto)
}

/// Uploads until one is refused; answers with the seeds that were acknowledged, and the status.
fn fill(cas: &Cas, from: u64) -> (Vec<u64>, u16) {
    let mut acknowledged = Vec::new();
    for seed in from..from + 200 {
        match cas.upload(&upload(seed), "/v1/shards") {
            Ok(()) => acknowledged.push(seed),
            Err(Failed::Refused { status, .. }) => return (acknowledged, status),
            Err(Failed::Broken(error)) => panic!("no answer: {error}"),
        }
    }
    panic!("the disk does not fill up");
}

fn check(cas: &Cas, acknowledged: &[u64]) {
    for seed in acknowledged {
        assert!(
            cas.file(&upload(*seed).files[0].hash).unwrap() == Some(bytes(*seed)),
            "{seed} was acknowledged"
        );
    }
}

#[test]
fn before_the_disk_is_full_uploads_are_refused_and_a_sweep_makes_room() {
    let Some(disk) = Disk::mount("size=40m") else { return };
    let plan = Plan::new(&disk.path().join("data")).set("disk_free_bytes_min", "12000000");
    let mut server = plan.start();
    let cas = plan.client(&server.url);
    let (acknowledged, status) = fill(&cas, 1);
    assert_eq!(status, 507);
    assert!(acknowledged.len() > 5);
    check(&cas, &acknowledged);
    // Nothing refers to any of it. There is room enough left to delete it.
    assert!(server.terminate().success());
    let (code, message) = plan.maintain(&["gc", "--offline", "--grace", "0", "--allow-large-deletion"]);
    assert_eq!(code, Some(0), "{message}");
    let server = plan.start();
    let cas = plan.client(&server.url);
    cas.upload(&upload(500), "/v1/shards").unwrap();
    check(&cas, &[500]);
}

#[test]
fn on_a_disk_that_is_full_to_the_last_byte_nothing_acknowledged_is_lost() {
    let Some(disk) = Disk::mount("size=24m") else { return };
    let plan = Plan::new(&disk.path().join("data")).set("disk_free_bytes_min", "0");
    let mut server = plan.start();
    let cas = plan.client(&server.url);
    let (mut acknowledged, status) = fill(&cas, 1);
    assert!(matches!(status, 500 | 503 | 507), "{status}");
    assert!(server.is_running(), "{}", plan.log());
    check(&cas, &acknowledged);
    // Killed while it is full, and started with room again.
    server.kill();
    disk.resize("48m");
    let mut server = plan.start();
    let cas = plan.client(&server.url);
    check(&cas, &acknowledged);
    cas.upload(&upload(500), "/v1/shards").unwrap();
    acknowledged.push(500);
    check(&cas, &acknowledged);
    assert!(server.terminate().success());
    let (code, message) = plan.maintain(&["verify", "--deep"]);
    assert_eq!(code, Some(0), "{message}");
}

/// A group of processes with a limit of memory. `None`, with a word about it, where there is none to be had.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("drystone-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        for (root, limit) in
            [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        {
            let group = Self(Path::new(root).join(&name));
            if std::fs::create_dir(&group.0).is_err() {
                continue;
            }
            if group.0.join(limit).exists() && std::fs::write(group.0.join(limit), bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        eprintln!("skipped: a limit of memory needs the right to make a group");
        None
    }

    fn add(&self, process: u32) {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Not before the last process is gone, whose end takes a moment.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

#[test]
fn many_uploads_at_once_stay_below_a_limit_of_memory() {
    let Some(group) = Group::new(256 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::new(&folder.path().join("data")).set("memory_bytes", "134217728");
    let mut server = plan.start();
    group.add(server.child.id());
    let cas = plan.client(&server.url);
    let uploads: Vec<_> = (0..24).map(|seed| upload_of(seed, 8_000_000)).collect();
    thread::scope(|scope| {
        for upload in &uploads {
            // A request that finds no memory left waits, or is answered with a status that says to retry.
            scope.spawn(|| {
                until("it is acknowledged", || match cas.upload(upload, "/v1/shards") {
                    Ok(()) => true,
                    Err(Failed::Refused { status: 429 | 503, .. }) => false,
                    Err(failed) => panic!("{failed:?}"),
                });
            });
        }
    });
    assert!(server.is_running(), "{}", plan.log());
    for (seed, upload) in (0..).zip(&uploads) {
        let found = cas.file(&upload.files[0].hash).unwrap();
        assert!(found == Some(testkit::corpus::noise(seed, 8_000_000)), "{seed}");
    }
}

fn upload_of(seed: u64, len: usize) -> Upload {
    Upload::of(&[&testkit::corpus::noise(seed, len)], 1000, Policy::Auto)
}

#[test]
fn without_free_descriptors_a_server_waits_and_goes_on_when_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = Plan::new(&folder.path().join("data"));
    plan.wrapper = ["prlimit", "--nofile=80:80"].map(str::to_owned).to_vec();
    if Command::new("prlimit").arg("--version").output().is_err() {
        eprintln!("skipped: prlimit is not installed");
        return;
    }
    let mut server = plan.start();
    let cas = plan.client(&server.url);
    cas.upload(&upload(1), "/v1/shards").unwrap();
    // More than it can open and fewer than the system lets wait, and none of them says anything.
    let idle: Vec<_> = (0..120).map_while(|_| TcpStream::connect(server.address()).ok()).collect();
    assert!(idle.len() > 80);
    thread::sleep(std::time::Duration::from_millis(500));
    assert!(server.is_running(), "{}", plan.log());
    drop(idle);
    until("it answers again", || cas.file(&upload(1).files[0].hash).is_ok_and(|found| found.is_some()));
    check(&cas, &[1]);
    cas.upload(&upload(2), "/v1/shards").unwrap();
    check(&cas, &[2]);
    assert!(server.is_running(), "{}", plan.log());
}

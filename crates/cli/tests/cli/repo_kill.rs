//! A push and a pull that are killed at random points, again and again: each goes on where it stopped, and what is sent twice
//! is counted.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use testkit::corpus::{SplitMix64, noise};

use super::repo::Site;
use super::{json, number};

const KILLS: u64 = 30;
const BYTES: usize = 200 << 20;
const XORB: u64 = 64 << 20;

#[test]
fn a_push_and_a_pull_that_are_killed_go_on_where_they_stopped() {
    let seed = match std::env::var("DRYSTONE_TEST_SEED") {
        Ok(text) => text.parse().expect("DRYSTONE_TEST_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64,
    };
    eprintln!("DRYSTONE_TEST_SEED={seed} does this again, as far as timing allows");
    let mut random = SplitMix64::new(seed);
    let site = Site::start();
    let file = site.folder.put("file.bin", noise(seed, BYTES));
    let warm_up = site.folder.put("warm-up.bin", noise(seed + 1, 1000));
    site.call(&["push", "--create", &warm_up, "ann/m"]).run().ok();

    // Xorbs are sent one at a time, so that a kill costs one at most.
    let push = ["push", "--memory", "1", &file, "ann/m"];
    let ended = killed_often(&site, &push, &mut random, |n| {
        fs::write(&file, noise(seed + 1 + n, BYTES)).unwrap();
    });
    json(site.call(&[&push[..], &["--json"]].concat()));
    let needed = (ended + 1) * BYTES as u64;
    let again = counter(&site, "drystone_received_bytes_total").saturating_sub(needed);
    eprintln!("push: {KILLS} kills, {again} bytes sent again beside {needed}");
    assert!(again < (KILLS + 1) * (XORB + (1 << 20)), "{again} bytes were sent again");

    // Without a cache: only what lies beside the file is gone on with.
    let out = site.folder.at("out/file.bin");
    let pull = ["pull", "--no-cache", "--connections", "1", "ann/m:file.bin", &out];
    let ended = killed_often(&site, &pull, &mut random, |_| fs::remove_file(&out).unwrap());
    let claimed =
        fs::metadata(site.folder.at("out/file.bin.part.journal")).map_or(0, |journal| journal.len());
    let pulled = json(site.call(&[&pull[..], &["--json"]].concat()));
    assert!(fs::read(&out).unwrap() == fs::read(&file).unwrap());
    let (here, fetched) = (number(&pulled, "reused_bytes"), number(&pulled, "fetched_bytes"));
    let again = (here + fetched).saturating_sub(BYTES as u64);
    eprintln!("pull: {KILLS} kills, {ended} ended before; then {here} bytes were there, {again} came again");
    // A journal takes 36 bytes for each chunk; what was there is not fetched again, but for the chunk that was being written.
    assert!(here + (1 << 20) >= claimed / 36 * 8192, "{claimed} bytes of journal: {pulled}");
    assert!(here + fetched >= BYTES as u64, "{pulled}");
    assert_eq!(fs::read_dir(site.folder.at("out")).unwrap().count(), 1, "nothing is left beside the file");
}

/// Starts the command and kills it, [`KILLS`] times. When it ends before that, `anew` creates more work; returns how often.
fn killed_often(site: &Site, args: &[&str], random: &mut SplitMix64, anew: impl Fn(u64)) -> u64 {
    let (mut kills, mut ended) = (0, 0);
    while kills < KILLS {
        let mut child = command(site, args).spawn().unwrap();
        let end = Instant::now() + Duration::from_micros(random.below(1_200_000));
        while Instant::now() < end && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            ended += 1;
            assert!(ended < 10 * KILLS, "too fast to be killed");
            anew(ended);
            continue;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    ended
}

fn command(site: &Site, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drystone"));
    let admin = fs::read_to_string(site.folder.at("data/admin.token")).unwrap();
    command.args(args).env("DRYSTONE_ENDPOINT", &site.server.url).env("DRYSTONE_TOKEN", admin.trim());
    command.env("DRYSTONE_CACHE_DIR", site.folder.at("cache")).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A counter of the server.
fn counter(site: &Site, name: &str) -> u64 {
    let url = format!("{}/metrics", site.server.url);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = runtime.block_on(async { reqwest::get(url).await.unwrap().text().await.unwrap() });
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|value| value as u64).sum()
}

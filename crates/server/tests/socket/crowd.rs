//! Many clients at once and little memory: everyone is served or gets a time to retry, and no one starves the others.

use std::io::Read as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use server::StreamTiming;

use crate::hub::{Hub, until};
use futures::FutureExt as _;
use testkit::corpus;
use testkit::http::RequestBody;
use testkit::upload::{Failed, Upload};
use xet::compress::Policy;
use xet::wire::routes::TokenScope;
use xet::wire::{ReconstructionV2, parse_json};

const MIB: u64 = 1 << 20;

/// A hub with so much memory, and bodies that fit into it a few at a time.
fn small_hub(memory_bytes: u64, waiting_max: u32) -> Hub {
    let change = |config: &mut server::ServeConfig| {
        config.limits.memory_bytes = memory_bytes;
        config.limits.xorb_body_bytes_max = 2 * MIB;
        config.limits.shard_body_bytes_max = MIB;
        config.limits.connections_max = waiting_max;
    };
    Hub::with(change, StreamTiming::default())
}

#[test]
fn overlapping_uploads_all_succeed_within_a_small_budget() {
    let hub = small_hub(6 * MIB, 4096);
    let shared = corpus::noise(1, 900_000);
    let (done, retries, peak) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let usage = hub.state.budget.usage();
                assert!(usage.in_use_bytes <= usage.total_bytes, "{usage:?}");
                peak.fetch_max(usage.in_use_bytes, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(300));
            }
        });
        let uploads: Vec<_> = (0..32)
            .map(|n: u64| {
                let (hub, shared, retries) = (&hub, &shared, &retries);
                scope.spawn(move || {
                    // Everyone has most of what the others have, cut at another place, and something of their own.
                    let at = n as usize * 20_000;
                    let data =
                        [&shared[at..], &corpus::noise(100 + n % 8, 150_000)[..], &shared[..at]].concat();
                    let upload = Upload::of(&[&data], 8, Policy::Auto);
                    let cas = hub.cas(&format!("repo-{}", n % 4));
                    let path = if n.is_multiple_of(2) { "/v1/shards" } else { "/v2/shards" };
                    let end = Instant::now() + Duration::from_secs(120);
                    while let Err(failed) = cas.upload(&upload, path) {
                        match failed {
                            Failed::Refused { status: 429 | 503, .. } if Instant::now() < end => {}
                            other => panic!("{other:?}"),
                        }
                        retries.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(50));
                    }
                    assert!(cas.file(&upload.files[0].hash).unwrap().unwrap() == data);
                })
            })
            .collect();
        let ended: Vec<_> = uploads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(Result::unwrap);
    });
    assert!(peak.load(Ordering::SeqCst) > MIB, "they were not at it together");
    until("the memory", || hub.state.budget.usage().in_use_bytes == 0);
    assert_eq!(hub.state.budget.usage().waiting, 0);
}

/// When too many wait for memory already, one more is refused with a time to retry.
#[test]
fn a_client_that_finds_too_many_waiting_gets_a_time_to_retry() {
    let hub = small_hub(2 * MIB, 4096);
    let held = hub.state.budget.try_acquire(hub.state.budget.usage().total_bytes).unwrap();
    let upload = Upload::of(&[&corpus::noise(5, 300_000)], 8, Policy::Auto);
    let path = format!("/v1/xorbs/default/{}", upload.xorbs[0].info.hash());
    let authorization = format!("Bearer {}", hub.token(TokenScope::Write, "a"));
    // The budget lets as many wait as there may be connections: one more cannot come by a connection, so they are made
    // to wait here.
    let waiting: Vec<_> = (0..4096).map(|_| Box::pin(hub.state.budget.acquire(1))).collect();
    hub.block_on(async {
        let mut waiting = waiting;
        for waiter in &mut waiting {
            assert!(waiter.as_mut().now_or_never().is_none());
        }
        let (http, bytes) = (hub.http.clone(), upload.xorbs[0].bytes.clone());
        let waiting = tokio::task::spawn_blocking(move || {
            http.send("POST", &path, &[("authorization", &authorization)], RequestBody::Whole(&bytes))
                .unwrap()
        });
        let answer = waiting.await.unwrap();
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u32>().is_ok()));
        assert!(answer.text().contains("memory"), "{}", answer.text());
    });
    drop(held);
    hub.cas("a").upload(&upload, "/v1/shards").unwrap();
}

/// Connections that ask for data and read none of it cost what is on its way to them, and stop nobody else.
#[test]
fn readers_that_read_nothing_stop_no_upload() {
    let hub = small_hub(16 * MIB, 4096);
    let data = corpus::noise(1, 1_900_000);
    let upload = Upload::of(&[&data], 1000, Policy::Auto);
    let cas = hub.cas("a");
    cas.upload(&upload, "/v1/shards").unwrap();
    let answer = cas.get(&format!("/v2/reconstructions/{}", upload.files[0].hash)).unwrap();
    let found: ReconstructionV2 = parse_json(&answer.body).unwrap();
    let fetch = &found.xorbs.values().next().unwrap()[0];
    let url = fetch.url.strip_prefix(&hub.state.base_url).unwrap();
    let range = format!("bytes={}", fetch.ranges[0].bytes);
    let silent: Vec<TcpStream> = (0..64)
        .map(|_| {
            let stream = hub.http.connect().unwrap();
            let request = format!("GET {url} HTTP/1.1\r\nhost: a\r\nrange: {range}\r\n\r\n");
            std::io::Write::write_all(&mut &stream, request.as_bytes()).unwrap();
            stream
        })
        .collect();
    // As many as can have begun to answer have; the others wait.
    thread::sleep(Duration::from_millis(300));
    for seed in 10..14 {
        let upload = Upload::of(&[&corpus::noise(seed, 600_000)], 8, Policy::Auto);
        cas.upload(&upload, "/v2/shards").unwrap();
    }
    // They are served in turn, as those before them leave.
    for mut stream in silent {
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 206");
    }
}

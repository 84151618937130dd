//! Pushes to the real server, over HTTP: what arrives, what is not sent twice, and what a bad network does to it.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod faults;
mod hub;

use std::fs;
use std::path::PathBuf;

use client::pull::{FileRequest, PullOptions, Puller};
use client::push::{PushOptions, PushedFile};
use client::{ErrorKind, Progress};
use hub::{Hub, files_of};
use testkit::corpus::noise;
use xet::FileHash;

fn hash_of(data: &[u8]) -> FileHash {
    let mut start = 0;
    let chunk = |end: usize| {
        let chunk = &data[start..end];
        start = end;
        (xet::ChunkHash::of(chunk), chunk.len() as u64)
    };
    xet::merkle::file_hash(xet::chunk::cut(data).into_iter().map(chunk))
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_every_size_arrive() {
    let hub = Hub::start().await;
    let sizes = [0, 1, 8191, 8192, 8193, 131_071, 131_072, 131_073, 1_000_000, 70 << 20];
    let data: Vec<_> = sizes.iter().map(|size| noise(*size as u64, *size)).collect();
    let paths = hub.write(&data);
    let pushed = hub.push(&paths, hub.options()).await.unwrap();
    let files: Vec<_> = pushed.files.iter().map(|file| (file.path.clone(), file.bytes, file.hash)).collect();
    let expected: Vec<_> = paths
        .iter()
        .zip(&data)
        .map(|(path, data)| (path.clone(), data.len() as u64, hash_of(data)))
        .collect();
    assert_eq!(files, expected);
    for (file, data) in pushed.files.iter().zip(&data) {
        let digest = <sha2::Sha256 as sha2::Digest>::digest(data);
        assert_eq!(file.sha256.unwrap().as_bytes()[..], digest[..]);
        assert!(hub.read(file.hash).await == *data, "{} bytes", data.len());
    }
    let all: u64 = data.iter().map(|data| data.len() as u64).sum();
    assert_eq!((pushed.logical_bytes, pushed.new_bytes, pushed.deduplicated_bytes), (all, all, 0));
    assert_eq!(
        (pushed.xorbs, pushed.shards),
        (2, 1),
        "noise of 72 MiB takes two xorbs, however many workers"
    );
}

/// Each version is pushed by a client without a cache, which has to query.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_modified_file_only_what_changed_is_sent() {
    let hub = Hub::start().await;
    let old = noise(1, 20 << 20);
    let [path] = &hub.write(std::slice::from_ref(&old))[..] else { panic!() };
    hub.push(std::slice::from_ref(path), hub.options()).await.unwrap();
    let inserted = [&old[..5_000_000], b"something new", &old[5_000_000..]].concat();
    let deleted = [&old[..9_000_000], &old[9_100_000..]].concat();
    let appended = [&old[..], &noise(2, 100_000)].concat();
    for (name, data) in [("inserted", inserted), ("deleted", deleted), ("appended", appended)] {
        fs::write(path, &data).unwrap();
        let options = PushOptions { cache: None, ..hub.options() };
        let pushed = hub.push(std::slice::from_ref(path), options).await.unwrap();
        assert!(hub.read(pushed.files[0].hash).await == data, "{name}");
        assert!(pushed.new_bytes > 0 && pushed.new_bytes < 600_000, "{name}: {} new", pushed.new_bytes);
        assert_eq!(pushed.new_bytes + pushed.deduplicated_bytes, data.len() as u64);
        assert!(pushed.sent_bytes < 700_000, "{name}: {} sent", pushed.sent_bytes);
    }
}

/// The first chunk finds the first xorb, and the end of each the one behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_found_xorb_after_xorb() {
    let hub = Hub::start().await;
    let mut data = noise(1, 300 << 20);
    let paths = hub.write(std::slice::from_ref(&data));
    let first = hub.push(&paths, hub.options()).await.unwrap();
    assert!(first.xorbs >= 5);
    data[150 << 20] ^= 1;
    fs::write(&paths[0], &data).unwrap();
    let second = hub.push(&paths, PushOptions { cache: None, ..hub.options() }).await.unwrap();
    assert!(second.new_bytes > 0 && second.new_bytes < 400_000, "{} new", second.new_bytes);
}

/// No dedup query is made: the old version alone has the known chunks.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_is_sent_by_what_changed_from_the_old_one() {
    let hub = Hub::start().await;
    let (old, other) = (noise(1, 30 << 20), noise(2, 30 << 20));
    // Its chunks are in more than one place: the middle was there before.
    let paths = hub.write(&[old[10 << 20..20 << 20].to_vec(), other.clone(), old.clone()]);
    hub.push(&paths[..2], hub.options()).await.unwrap();
    let pushed = hub.push(&paths, hub.options()).await.unwrap();
    let new = [&old[..12_000_000], b"something new", &old[12_000_000..]].concat();
    fs::write(&paths[2], &new).unwrap();
    let plain = PushOptions { cache: None, query: false, ..hub.options() };
    let options = PushOptions { bases: vec![pushed.files[2].hash, FileHash::ZERO], ..plain.clone() };
    let from_old = hub.push(&paths[2..], options).await.unwrap();
    assert!(from_old.new_bytes > 0 && from_old.new_bytes < 300_000, "{} new", from_old.new_bytes);
    assert!(hub.read(from_old.files[0].hash).await == new);
    let alone = hub.push(&paths[2..], PushOptions { dry_run: true, ..plain }).await.unwrap();
    assert_eq!(alone.new_bytes, new.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn pushing_again_sends_no_xorb_with_or_without_a_cache() {
    let hub = Hub::start().await;
    let paths = hub.write(&[noise(1, 3 << 20), noise(2, 50_000), noise(1, 3 << 20)]);
    let first = hub.push(&paths, hub.options()).await.unwrap();
    assert_eq!((first.deduplicated_bytes, first.xorbs), (3 << 20, 1), "the third is the first again");
    for cache in [hub.options().cache, None] {
        let again = hub.push(&paths, PushOptions { cache, ..hub.options() }).await.unwrap();
        assert_eq!((again.new_bytes, again.xorbs), (0, 0));
        assert_eq!(again.files, first.files);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_thousand_small_files_share_a_few_xorbs() {
    let hub = Hub::start().await;
    let data: Vec<_> = (0..3000).map(|n| noise(n, (n as usize * 37) % 40_000)).collect();
    let paths = hub.write(&data);
    let pushed = hub.push(&paths, hub.options()).await.unwrap();
    assert_eq!(
        pushed.files.iter().map(|file| &file.path).collect::<Vec<_>>(),
        paths.iter().collect::<Vec<_>>()
    );
    assert!(pushed.xorbs <= 2, "{} xorbs", pushed.xorbs);
    for n in (0..3000).step_by(271) {
        assert!(hub.read(pushed.files[n].hash).await == data[n], "{n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_for_one_xorb_is_enough() {
    let hub = Hub::start().await;
    let paths = hub.write(&(0..4).map(|n| noise(n, 30 << 20)).collect::<Vec<_>>());
    let options = PushOptions { memory_bytes: 1, ..hub.options() };
    let pushed = hub.push(&paths, options).await.unwrap();
    assert_eq!((pushed.files.len(), pushed.new_bytes), (4, 4 * (30 << 20)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_does_not_stop_the_others() {
    let hub = Hub::start().await;
    let mut paths = hub.write(&[noise(1, 1000), noise(2, 1000)]);
    paths.insert(1, PathBuf::from("no/such/file"));
    let pushed = hub.push(&paths, hub.options()).await.unwrap();
    assert_eq!((pushed.files.len(), pushed.unread.len()), (2, 1));
    assert_eq!(pushed.unread[0].kind(), ErrorKind::NotFound);
    assert!(pushed.unread[0].to_string().contains("no/such/file"));
}

/// Files of less than 1 MiB are taken together.
#[tokio::test(flavor = "multi_thread")]
async fn short_files_between_long_ones_and_missing_ones_arrive_in_their_order() {
    let hub = Hub::start().await;
    let block = 1 << 20;
    let sizes = [0, 300_000, block, 5, block - 1, block + 1, 0, 300_000, 300_000, 300_000, 300_000, 300_000];
    let sizes = sizes.into_iter().chain(3 * block..3 * block + 2).chain((0..200).map(|n| n * 97));
    let data: Vec<_> = sizes.enumerate().map(|(n, size)| noise(n as u64, size)).collect();
    let mut paths = hub.write(&data);
    for threads in [1, 3] {
        let missing = PathBuf::from("no/such/file");
        [2, 5, 9].into_iter().for_each(|at| paths.insert(at, missing.clone()));
        let options = PushOptions { threads: threads.try_into().unwrap(), cache: None, ..hub.options() };
        let pushed = hub.push(&paths, options).await.unwrap();
        assert_eq!(pushed.unread.len(), 3, "{:?}", pushed.unread);
        paths.retain(|path| *path != missing);
        assert_eq!(
            pushed.files.iter().map(|file| &file.path).collect::<Vec<_>>(),
            paths.iter().collect::<Vec<_>>()
        );
        for (file, data) in pushed.files.iter().zip(&data) {
            let digest = <sha2::Sha256 as sha2::Digest>::digest(data);
            assert_eq!(file.sha256.unwrap().as_bytes()[..], digest[..], "{} bytes", data.len());
            assert_eq!((file.bytes, file.hash), (data.len() as u64, hash_of(data)));
            assert!(hub.read(file.hash).await == *data, "{} bytes", data.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_reports_the_same_and_changes_nothing() {
    let hub = Hub::start().await;
    let paths = hub.write(&[noise(1, 2 << 20)]);
    let before = files_of(&hub.data().join("objects"));
    let dry = hub.push(&paths, PushOptions { dry_run: true, ..hub.options() }).await.unwrap();
    assert_eq!(files_of(&hub.data().join("objects")), before);
    let wet = hub.push(&paths, hub.options()).await.unwrap();
    assert_eq!((dry.files, dry.new_bytes, dry.sent_bytes), (wet.files, wet.new_bytes, wet.sent_bytes));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_only_the_first_versions_will_do() {
    let hub = Hub::start_old().await;
    let data = [noise(1, 3 << 20), noise(2, 100), Vec::new()];
    let paths = hub.write(&data);
    let pushed = hub.push(&paths, hub.options()).await.unwrap();
    assert_eq!((pushed.files.len(), pushed.new_bytes), (3, (3 << 20) + 100));
    let puller = Puller::new(hub.cas(), PullOptions { sync: false, ..PullOptions::default() });
    let root = hub.data().with_file_name("out");
    let request = |(n, file): (usize, &PushedFile)| FileRequest::new(file.hash, root.join(n.to_string()));
    let requests: Vec<_> = pushed.files.iter().enumerate().map(request).collect();
    puller.files(&requests, &root, &mut |_, result| assert!(result.is_ok(), "{result:?}")).await.unwrap();
    for (request, data) in requests.iter().zip(&data) {
        assert!(fs::read(&request.target).unwrap() == *data);
    }
    let mut out = Vec::new();
    puller.stream(pushed.files[0].hash, 1_000_000..1_000_010, &mut out).await.unwrap();
    assert!(out == data[0][1_000_000..1_000_010]);
    // Chunks are still found: that route has one version.
    let again = hub.push(&paths, PushOptions { cache: None, ..hub.options() }).await.unwrap();
    assert_eq!(again.new_bytes, 0);
}

/// The xorbs were acknowledged and the push died: they are noted, and not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_died_before_its_shard_goes_on_where_it_stopped() {
    let hub = Hub::start().await;
    let data = noise(1, 150 << 20);
    let paths = hub.write(std::slice::from_ref(&data));
    let cas = hub.cas();
    let dying = hub::Dying::after_xorbs(cas, 1);
    let options = hub.options();
    let failed =
        client::push::push(dying.clone(), paths.clone(), options.clone(), Progress::default().into()).await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Denied);
    let again = hub.push(&paths, options).await.unwrap();
    assert!(again.deduplicated_bytes >= 60 << 20, "{} known", again.deduplicated_bytes);
    assert!(hub.read(again.files[0].hash).await == data);
}

/// A server that lost its xorbs refuses the shard; the client forgets what it remembered and sends everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_wrong_costs_one_more_try() {
    let (old, new) = (Hub::start().await, Hub::start().await);
    let data = noise(1, 3 << 20);
    let paths = old.write(std::slice::from_ref(&data));
    old.push(&paths, old.options()).await.unwrap();
    let pushed = new.push(&paths, old.options()).await.unwrap();
    assert_eq!((pushed.new_bytes, pushed.deduplicated_bytes), (3 << 20, 0));
    assert!(new.read(pushed.files[0].hash).await == data);
}

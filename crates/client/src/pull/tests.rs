mod memory_cas;

use std::fs;
use std::ops::Range;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use testkit::corpus::noise;

use super::*;
use memory_cas::{Fault, MemoryCas};

/// Impatient, so that a test of waiting does not.
fn quick() -> PullOptions {
    let patience = Patience {
        hedge_after: Duration::from_millis(150),
        stall_after: Duration::from_millis(600),
        bytes_per_s_min: 1024,
        attempts_max: 3,
    };
    PullOptions { patience, sync: false, ..PullOptions::default() }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Half noise, half something that shrinks.
fn mixed(seed: u64, len: usize) -> Vec<u8> {
    let mut data = noise(seed, len);
    for block in data.chunks_mut(200_000).step_by(2) {
        let half = block.len() / 2;
        block[half..].iter_mut().for_each(|byte| *byte &= 3);
    }
    data
}

#[tokio::test]
async fn files_of_every_size_come_back_whole_and_leave_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let cas = Arc::new(MemoryCas::default());
    let puller = Puller::new(cas.clone(), quick());
    for size in [0, 1, 8191, 8192, 8193, 131_071, 131_072, 131_073, 5_000_000] {
        let data = mixed(size as u64, size);
        let request = FileRequest::new(cas.add(&data, 20), dir.path().join("file"));
        let pulled = puller.file(&request).await.unwrap();
        assert_eq!(pulled, Pulled { bytes: size as u64, unchanged: false });
        assert!(fs::read(&request.target).unwrap() == data, "{size}");
        assert_eq!(names(dir.path()), ["file"]);
        assert!(puller.file(&request).await.unwrap().unchanged);
    }
    let missing =
        puller.file(&FileRequest::new(FileHash::new([5; 32]), dir.path().join("other"))).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(!dir.path().join("other").exists());
    let folder = puller.file(&FileRequest::new(FileHash::ZERO, dir.path())).await.unwrap_err();
    assert_eq!(folder.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn every_fault_ends_in_the_right_file_or_a_clear_error() {
    let data = mixed(1, 3_000_000);
    for (name, fault) in [
        ("cut", Fault::Cut(120_000)),
        ("cut at once", Fault::Cut(0)),
        ("stall", Fault::Stall(70_000)),
        ("stall at once", Fault::Stall(0)),
        ("flip", Fault::Flip(100_123)),
        ("flip a header", Fault::Flip(1)),
        ("expired", Fault::Refuse(ErrorKind::Expired)),
        ("away", Fault::Refuse(ErrorKind::Unavailable)),
        ("trickle", Fault::Trickle(Duration::from_millis(20))),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("file");
        let cas = Arc::new(MemoryCas::default());
        let file = cas.add(&data, 12);
        fs::write(&target, vec![1; 5_000_000]).unwrap();
        // Once or a few times: the pull gets over it.
        for _ in 0..3 {
            cas.fault(fault.clone());
        }
        Puller::new(cas.clone(), quick()).file(&FileRequest::new(file, &target)).await.unwrap();
        assert!(fs::read(&target).unwrap() == data, "{name}");
        assert_eq!(names(dir.path()), ["file"], "{name}");

        // Always, and never a whole chunk: it says so, and what is at the target stays.
        fs::write(&target, "old").unwrap();
        cas.always(Some(match fault {
            Fault::Cut(_) => Fault::Cut(5000),
            Fault::Stall(_) => Fault::Stall(5000),
            fault => fault,
        }));
        let options = PullOptions { deadline: Some(Duration::from_secs(60)), ..quick() };
        let error =
            Puller::new(cas.clone(), options).file(&FileRequest::new(file, &target)).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt | ErrorKind::Expired),
            "{name}: {error}"
        );
        assert_eq!(fs::read(&target).unwrap(), b"old", "{name}");
        if name.starts_with("cut") {
            assert!(error.to_string().contains("(request r-7)"), "{error}");
        }
        // And when the hub is well again, so is the pull.
        cas.always(None);
        Puller::new(cas, quick()).file(&FileRequest::new(file, &target)).await.unwrap();
        assert!(fs::read(&target).unwrap() == data, "{name}");
    }
}

#[tokio::test]
async fn a_hub_that_rots_is_an_error_and_a_chunk_list_saves_the_rest() {
    let data = mixed(2, 2_000_000);
    for lists_chunks in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("file");
        let cas = Arc::new(MemoryCas { lists_chunks, ..MemoryCas::default() });
        let file = cas.add(&data, 5);
        cas.rot(&file);
        fs::write(&target, "old").unwrap();
        let error =
            Puller::new(cas.clone(), quick()).file(&FileRequest::new(file, &target)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }
    // One flipped bit on the way, in data that no format protects: found by the file hash, fetched again alone.
    let cas = Arc::new(MemoryCas { lists_chunks: true, ..MemoryCas::default() });
    let data = noise(3, 4_000_000);
    let file = cas.add(&data, 8);
    let dir = tempfile::tempdir().unwrap();
    cas.fault(Fault::Flip(100_000));
    let request = FileRequest::new(file, dir.path().join("file"));
    Puller::new(cas.clone(), quick()).file(&request).await.unwrap();
    assert!(fs::read(&request.target).unwrap() == data);
    assert!(cas.fetched() < 4_400_000, "{}", cas.fetched());
}

#[tokio::test]
async fn an_older_version_gives_its_chunks_and_only_the_rest_is_fetched() {
    let cas = Arc::new(MemoryCas { lists_chunks: true, ..MemoryCas::default() });
    let old = mixed(4, 6_000_000);
    let mut new = old.clone();
    new.splice(2_000_000..2_000_100, noise(5, 50_000));
    new.truncate(5_500_000);
    cas.add(&old, 30);
    let file = cas.add(&new, 30);
    let dir = tempfile::tempdir().unwrap();
    let request = FileRequest::new(file, dir.path().join("file"));
    fs::write(&request.target, &old).unwrap();
    let puller = Puller::new(cas.clone(), quick());
    puller.file(&request).await.unwrap();
    assert!(fs::read(&request.target).unwrap() == new);
    let fetched = puller.progress().wire_bytes.value();
    assert!(fetched == cas.fetched() && fetched < 700_000, "{fetched}");
    assert!(puller.progress().reused_bytes.value() > 4_800_000);
}

#[tokio::test]
async fn a_stopped_pull_goes_on_and_fetches_little_again() {
    let data = mixed(6, 8_000_000);
    let cas = Arc::new(MemoryCas::default());
    let file = cas.add(&data, 10);
    let dir = tempfile::tempdir().unwrap();
    let request = FileRequest::new(file, dir.path().join("file"));
    let mut fetched = 0;
    for good in [3_usize, 5, 4] {
        let (before, base) = (cas.fetched(), cas.fetches.load(Ordering::Relaxed));
        cas.always(None);
        let puller = Puller::new(cas.clone(), PullOptions { connections_max: 1, ..quick() });
        {
            let pull = puller.file(&request);
            tokio::pin!(pull);
            loop {
                tokio::select! {
                    done = &mut pull => { done.unwrap(); break; }
                    () = tokio::time::sleep(Duration::from_millis(1)) => {
                        if cas.fetches.load(Ordering::Relaxed) - base >= good as u64 { break; }
                    }
                }
            }
        }
        fetched += cas.fetched() - before;
        assert!(!request.target.exists() || fs::read(&request.target).unwrap() == data);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let puller = Puller::new(cas.clone(), quick());
    puller.file(&request).await.unwrap();
    assert!(fs::read(&request.target).unwrap() == data);
    let total = cas.fetched();
    assert!(fetched > 0 && total < data.len() as u64 + 3 * 1_500_000, "{total}");
}

#[tokio::test]
async fn two_pulls_of_one_target_both_succeed() {
    let data = mixed(7, 3_000_000);
    let cas = Arc::new(MemoryCas::default());
    let file = cas.add(&data, 10);
    let dir = tempfile::tempdir().unwrap();
    let request = FileRequest::new(file, dir.path().join("file"));
    let pullers: Vec<_> = (0..3).map(|_| Puller::new(cas.clone(), quick())).collect();
    let pulls = pullers.iter().map(|puller| puller.file(&request));
    for pulled in futures::future::join_all(pulls).await {
        pulled.unwrap();
    }
    assert!(fs::read(&request.target).unwrap() == data);
    assert_eq!(names(dir.path()), ["file"]);
}

#[tokio::test]
async fn ranges_stream_in_order_and_the_whole_is_verified() {
    let data = mixed(8, 5_000_000);
    let cas = Arc::new(MemoryCas::default());
    let file = cas.add(&data, 10);
    // Windows of a megabyte.
    let puller = Puller::new(cas.clone(), PullOptions { memory_bytes_max: 4 << 20, ..quick() });
    for range in [
        0..u64::MAX,
        0..1,
        0..5_000_000,
        1_048_575..1_048_577,
        3_333_333..4_999_999,
        4_999_999..9_000_000,
        7_000_000..8_000_000,
        5..5,
    ] {
        let mut out = Vec::new();
        let written = puller.stream(file, range.clone(), &mut out).await.unwrap();
        let size = data.len() as u64;
        let expected = &data[range.start.min(size) as usize..range.end.min(size) as usize];
        assert!(out == expected && written == out.len() as u64, "{range:?}");
    }
    cas.rot(&file);
    let error = puller.stream(file, 0..u64::MAX, &mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_range_is_verified_where_the_hub_lists_the_chunks() {
    let data = noise(9, 2_000_000);
    let cas = Arc::new(MemoryCas { lists_chunks: true, ..MemoryCas::default() });
    let file = cas.add(&data, 10);
    let puller = Puller::new(cas.clone(), quick());
    let mut out = Vec::new();
    // A bit that flips on the way, in data that no format protects: seen, and fetched again.
    cas.fault(Fault::Flip(100));
    puller.stream(file, 10..5000, &mut out).await.unwrap();
    assert!(out == data[10..5000]);
    cas.rot(&file);
    out.clear();
    let error = puller.stream(file, 10..5000, &mut out).await.unwrap_err();
    assert_eq!((error.kind(), out.len()), (ErrorKind::Corrupt, 0), "{error}");
}

#[tokio::test]
async fn sparse_ranges_are_where_they_belong() {
    let data = noise(9, 5_000_000);
    let cas = Arc::new(MemoryCas::default());
    let file = cas.add(&data, 10);
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("file");
    let puller = Puller::new(cas.clone(), quick());
    let ranges: [Range<u64>; 2] = [1_000_000..1_000_010, 4_000_000..4_100_000];
    assert_eq!(puller.sparse(file, &ranges, &target).await.unwrap(), 4_100_000);
    let got = fs::read(&target).unwrap();
    for range in ranges {
        let range = range.start as usize..range.end as usize;
        assert!(got[range.clone()] == data[range]);
    }
    assert!(cas.fetched() < 700_000);
}

#[tokio::test]
async fn many_small_files_take_few_requests_and_fail_alone() {
    for answers_batches in [true, false] {
        let cas = Arc::new(MemoryCas { answers_batches, ..MemoryCas::default() });
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("out");
        let files: Vec<Vec<u8>> = (0..300).map(|n| mixed(n, (n as usize * 7919) % 90_000)).collect();
        let together: Vec<u8> = files.concat();
        cas.add(&together, 4000); // so that the files share xorbs, as a push of a folder packs them
        let mut requests: Vec<FileRequest> = files
            .iter()
            .enumerate()
            .map(|(n, data)| FileRequest::new(cas.add(data, 4000), root.join(format!("d{}/{n}", n % 7))))
            .collect();
        requests.push(FileRequest::new(requests[5].file, root.join("again")));
        let large = mixed(1000, 40 << 20);
        requests.push(FileRequest::new(cas.add(&large, 4000), root.join("large")));
        let puller = Puller::new(cas.clone(), quick());
        let mut results = vec![0; requests.len()];
        let mut report = |n: usize, result: Result<Pulled>| {
            result.unwrap();
            results[n] += 1;
        };
        puller.files(&requests, &root, &mut report).await.unwrap();
        assert!(results.iter().all(|count| *count == 1));
        for (request, data) in requests.iter().zip(&files) {
            assert!(fs::read(&request.target).unwrap() == *data);
        }
        assert!(fs::read(root.join("large")).unwrap() == large);
        assert!(fs::read(root.join("again")).unwrap() == files[5]);
        if answers_batches {
            assert!(cas.plans.load(Ordering::Relaxed) < 10);
        }
        let fetched = cas.fetched();

        // Again: nothing is fetched. One changed, one gone, one unknown: only those.
        fs::write(root.join("d0/0"), "changed").unwrap();
        fs::remove_file(root.join("d1/8")).unwrap();
        requests.push(FileRequest::new(FileHash::new([9; 32]), root.join("unknown")));
        let (mut unchanged, mut failed) = (0, Vec::new());
        let mut report = |n: usize, result: Result<Pulled>| match result {
            Ok(pulled) => unchanged += usize::from(pulled.unchanged),
            Err(error) => failed.push((n, error.kind())),
        };
        puller.files(&requests, &root, &mut report).await.unwrap();
        assert_eq!((unchanged, failed), (300, vec![(302, ErrorKind::NotFound)]));
        assert!(cas.fetched() - fetched < 400_000);
        assert!(
            fs::read(root.join("d0/0")).unwrap() == files[0]
                && fs::read(root.join("d1/8")).unwrap() == files[8]
        );
        assert!(names(&root).iter().all(|name| !name.starts_with('.')));
    }
}

#[tokio::test]
async fn what_is_cached_is_not_fetched_and_suffices_offline() {
    let data = mixed(10, 6_000_000);
    let small: Vec<Vec<u8>> = (20..40).map(|n| mixed(n, 30_000)).collect();
    let cas = Arc::new(MemoryCas { answers_batches: true, ..MemoryCas::default() });
    let file = cas.add(&data, 10);
    let dir = tempfile::tempdir().unwrap();
    let requests: Vec<_> = (0..)
        .zip(&small)
        .map(|(n, data)| FileRequest::new(cas.add(data, 10), dir.path().join(format!("out/{n}"))))
        .collect();
    let cache = Arc::new(Cache::open(&dir.path().join("cache"), 1 << 30).unwrap());
    let options = PullOptions { cache: Some(cache), reuse: false, ..quick() };
    let target = dir.path().join("file");
    let root = dir.path().join("out");
    Puller::new(cas.clone(), options.clone()).file(&FileRequest::new(file, &target)).await.unwrap();
    let mut good = |_: usize, result: Result<Pulled>| assert!(result.is_ok(), "{result:?}");
    Puller::new(cas.clone(), options.clone()).files(&requests, &root, &mut good).await.unwrap();
    let fetched = cas.fetched();

    fs::remove_dir_all(&root).unwrap();
    let puller = Puller::offline(options.clone());
    puller.file(&FileRequest::new(file, &target)).await.unwrap();
    assert!(fs::read(&target).unwrap() == data);
    let mut good = |_: usize, result: Result<Pulled>| assert!(result.is_ok(), "{result:?}");
    puller.files(&requests, &root, &mut good).await.unwrap();
    assert!(small.iter().zip(&requests).all(|(data, request)| fs::read(&request.target).unwrap() == *data));
    let mut out = Vec::new();
    puller.stream(file, 1_000_000..2_000_000, &mut out).await.unwrap();
    assert!(out == data[1_000_000..2_000_000]);
    assert!(puller.progress().known_bytes.value() >= 6_600_000);
    let missing =
        puller.file(&FileRequest::new(FileHash::new([1; 32]), dir.path().join("x"))).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);

    // Damage every entry: each is found out and fetched again, and the file is right.
    let entries = walkdir::WalkDir::new(dir.path().join("cache/xorbs"));
    for entry in entries.into_iter().flatten().filter(|entry| entry.file_type().is_file()) {
        let mut bytes = fs::read(entry.path()).unwrap();
        bytes[20_000] ^= 4;
        fs::write(entry.path(), bytes).unwrap();
    }
    Puller::new(cas.clone(), options).file(&FileRequest::new(file, &target)).await.unwrap();
    assert!(fs::read(&target).unwrap() == data);
    assert!(cas.fetched() > fetched);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happens to the part and its journal between two pulls, the second ends with the right file.
    #[test]
    fn damage_to_what_a_stopped_pull_left_never_makes_a_wrong_file(
        good in 1..5_u64,
        journal_flip in prop::option::of(0..4000_usize),
        journal_len in prop::option::of(0..4000_usize),
        part_flip in prop::option::of(0..2_000_000_usize),
        part_len in prop::option::of(0..2_000_000_usize),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        runtime.block_on(async {
            let data = mixed(11, 2_000_000);
            let cas = Arc::new(MemoryCas::default());
            let file = cas.add(&data, 6);
            let dir = tempfile::tempdir().unwrap();
            let request = FileRequest::new(file, dir.path().join("file"));
            for _ in 0..good {
                cas.fault(Fault::Cut(1_000_000));
            }
            cas.always(Some(Fault::Refuse(ErrorKind::Denied)));
            let options = PullOptions { connections_max: 1, ..quick() };
            Puller::new(cas.clone(), options).file(&request).await.unwrap_err();
            cas.always(None);
            let damage = |name: &str, flip: Option<usize>, len: Option<usize>| {
                let path = dir.path().join(name);
                let mut bytes = fs::read(&path).unwrap();
                if let Some(len) = len { bytes.truncate(len) }
                if let (Some(place), false) = (flip, bytes.is_empty()) {
                    let place = place % bytes.len();
                    bytes[place] ^= 1;
                }
                fs::write(&path, bytes).unwrap();
            };
            damage("file.part.journal", journal_flip, journal_len);
            damage("file.part", part_flip, part_len);
            // A file that does not begin like a journal may be the user's, and stays.
            let journal = fs::read(dir.path().join("file.part.journal")).unwrap();
            let is_journal = super::journal::MAGIC.starts_with(&journal[..journal.len().min(8)]);
            Puller::new(cas.clone(), quick()).file(&request).await.unwrap();
            assert!(fs::read(&request.target).unwrap() == data);
            let left: &[&str] = if is_journal { &["file"] } else { &["file", "file.part", "file.part.journal"] };
            assert_eq!(names(dir.path()), left);
        });
    }
}

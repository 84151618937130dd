use std::fs;

use testkit::corpus::noise;

use super::*;

fn threads(threads: usize) -> CutOptions {
    CutOptions { threads: NonZeroUsize::new(threads).unwrap(), sha256: true }
}

/// What the pure crate says, from one buffer.
fn expected(data: &[u8]) -> (Vec<(ChunkHash, u32)>, FileHash) {
    let mut start = 0;
    let mut chunks = Vec::new();
    for cut in xet::chunk::cut(data) {
        chunks.push((ChunkHash::of(&data[start..cut]), (cut - start) as u32));
        start = cut;
    }
    let hash = xet::merkle::file_hash(chunks.iter().map(|(hash, bytes)| (*hash, u64::from(*bytes))));
    (chunks, hash)
}

/// Every kind of data that makes runs meet early, late or never, at several numbers of workers.
#[test]
fn runs_on_many_threads_give_what_one_reader_gives() {
    let dir = tempfile::tempdir().unwrap();
    let random = noise(1, 9_000_001);
    let mut crowded = noise(2, 6 << 20);
    let trigger = {
        let found = xet::chunk::first_candidate(&random).unwrap();
        random[found - 64..found].to_vec()
    };
    // A candidate every 5000 bytes: most are too early to be cuts, so a run starts out of step.
    for place in (0..crowded.len() - 64).step_by(5000) {
        crowded[place..place + 64].copy_from_slice(&trigger);
    }
    // Long stretches without candidates, shifted so that runs do not begin where they are cut.
    let mut shifted = random[..300_007].to_vec();
    shifted.resize(12 << 20, 0);
    shifted.extend_from_slice(&random[..5 << 20]);
    for (name, data) in
        [("random", random), ("zeros", vec![0; (8 << 20) + 3]), ("crowded", crowded), ("shifted", shifted)]
    {
        let path = dir.path().join(name);
        fs::write(&path, &data).unwrap();
        let (chunks, hash) = expected(&data);
        for count in [1, 2, 3, 7] {
            let mut seen = Vec::new();
            let progress = Progress::default();
            let file =
                chunk_file(path.clone(), &threads(count), &progress, |hash, bytes| seen.push((hash, bytes)));
            let file = file.unwrap();
            assert_eq!(file.hash, hash, "{name} on {count}");
            assert_eq!(seen, chunks, "{name} on {count}");
            assert_eq!(file.bytes, data.len() as u64);
            assert_eq!(
                file.sha256.unwrap().as_bytes()[..],
                <sha2::Sha256 as sha2::Digest>::digest(&data)[..]
            );
        }
    }
}

#[test]
fn results_come_in_the_order_of_the_paths_and_errors_do_not_stop_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for i in 0..200_usize {
        let path = dir.path().join(format!("{i}"));
        let len = if i == 3 { 5 << 20 } else { i * 997 % 200_000 };
        if i % 50 != 7 {
            fs::write(&path, noise(i as u64, len)).unwrap();
        }
        paths.push(path);
    }
    let mut seen = Vec::new();
    let progress = Progress::default();
    hash_files(paths.iter().cloned().map(Ok), &threads(3), &progress, |file| seen.push(file));
    assert_eq!(seen.len(), paths.len());
    assert_eq!(progress.files(), 200);
    for (i, (path, file)) in paths.iter().zip(seen).enumerate() {
        match file {
            Ok(file) => {
                assert_eq!(&file.path, path);
                assert_eq!(file.hash, expected(&fs::read(path).unwrap()).1);
            }
            Err(error) => {
                assert_eq!((i % 50, error.kind()), (7, crate::ErrorKind::NotFound));
                assert!(error.to_string().contains(path.to_str().unwrap()));
            }
        }
    }
}

#[test]
fn an_empty_file_is_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty");
    fs::write(&path, b"").unwrap();
    let file = chunk_file(path, &threads(2), &Progress::default(), |_, _| panic!("no chunks")).unwrap();
    assert_eq!((file.bytes, file.hash), (0, FileHash::ZERO));
}

/// The reader is given a length and the file ends before it.
#[test]
fn a_file_that_shrinks_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short");
    fs::write(&path, noise(1, 1000)).unwrap();
    let file = fs::File::open(&path).unwrap();
    let cut = run::cut(&file, 0..2000, 2000, &mut blocks::Scratch::default(), &Progress::default());
    assert!(cut.unwrap_err().to_string().contains("shrank"));
}

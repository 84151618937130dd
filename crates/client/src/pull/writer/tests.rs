use testkit::corpus::noise;
use xet::merkle::file_hash;

use super::*;

/// Data in chunks of 1000 bytes, with its file hash.
fn sample(len: usize) -> (Vec<u8>, Vec<Chunk>, FileHash) {
    let data = noise(3, len);
    let chunks: Vec<_> = data
        .chunks(1000)
        .map(|chunk| Chunk { hash: ChunkHash::of(chunk), bytes: chunk.len() as u32 })
        .collect();
    let hash = file_hash(chunks.iter().map(|chunk| (chunk.hash, u64::from(chunk.bytes))));
    (data, chunks, hash)
}

fn write(parts: &Vec<PartFile>, data: &[u8], chunks: &[Chunk], range: Range<usize>) {
    let at = range.start * 1000;
    let end = (range.end * 1000).min(data.len());
    parts.write(0, at as u64, &data[at..end], &chunks[range]).unwrap();
}

#[test]
fn a_longer_file_at_the_target_leaves_no_tail() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("file");
    fs::write(&target, vec![b'x'; 100_000]).unwrap();
    let (data, chunks, hash) = sample(9500);
    let (part, claims) = PartFile::open(hash, target.clone()).unwrap();
    assert!(claims.is_empty());
    part.reserve(50_000).unwrap();
    let parts = vec![part];
    write(&parts, &data, &chunks, 5..10);
    assert!(!parts[0].is_right(9500));
    assert_eq!(parts[0].missing(9500), vec![0..5000]);
    write(&parts, &data, &chunks, 0..5);
    assert!(parts[0].is_right(9500) && !parts[0].is_right(9501));
    assert_eq!(fs::read(&target).unwrap().len(), 100_000, "not touched yet");
    parts[0].finalize(9500, true).unwrap();
    parts[0].rename(true).unwrap();
    assert_eq!(fs::read(&target).unwrap(), data);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_later_pull_takes_what_is_there_and_not_what_is_only_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("deep/file");
    let (data, chunks, hash) = sample(20_000);
    let (part, _) = PartFile::open(hash, target.clone()).unwrap();
    let parts = vec![part];
    write(&parts, &data, &chunks, 0..6);
    write(&parts, &data, &chunks, 10..20);
    drop(parts);
    // A power cut: some bytes that the journal claims never reached the disk.
    let part_path = target.with_file_name("file.part");
    let mut bytes = fs::read(&part_path).unwrap();
    bytes[12_345] ^= 1;
    bytes.truncate(18_500);
    fs::write(&part_path, bytes).unwrap();

    let (part, claims) = PartFile::open(hash, target).unwrap();
    let verified: u64 = claims.iter().map(|claim| part.verify(claim).unwrap()).sum();
    assert_eq!(verified, 6000 + 2000 + 5000);
    assert_eq!(part.missing(20_000), [6000..10_000, 12_000..13_000, 18_000..20_000]);
    let (other, claims) = PartFile::open(hash, part.target.clone()).unwrap();
    assert!(claims.is_empty() && other.path != part.path, "two pulls do not share a part");
    let paths = (part.path.clone(), other.path.clone());
    drop((part, other));
    assert!(paths.0.exists() && !paths.1.exists());
}

#[test]
fn chunks_that_are_not_in_the_list_are_refused_before_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (data, chunks, hash) = sample(5000);
    let (part, _) = PartFile::open(hash, dir.path().join("file")).unwrap();
    let list: Vec<_> = chunks.iter().map(|chunk| (chunk.hash, chunk.bytes)).collect();
    part.expect(Expected::new(&list));
    let parts = vec![part];
    write(&parts, &data, &chunks, 1..3);
    let moved = parts.write(0, 0, &data[1000..2000], &chunks[1..2]);
    assert_eq!(moved.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(parts[0].missing(5000), [0..1000, 3000..5000]);
}

#[test]
fn a_disk_that_fails_fails_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let stage = StagingDir::new(dir.path()).unwrap();
    let (data, chunks, hash) = sample(1000);
    let parts: Vec<_> =
        (0..2).map(|n| PartFile::staged(hash, dir.path().join(n.to_string()), &stage)).collect();
    fs::create_dir(&parts[0].path).unwrap();
    for file in 0..2 {
        parts.write(file, 0, &data, &chunks).unwrap();
    }
    assert!(parts[0].take_error().is_some() && parts[1].take_error().is_none());
    assert!(parts[1].is_right(1000));
    parts[1].rename(false).unwrap();
    assert_eq!(fs::read(dir.path().join("1")).unwrap(), data);
}

/// Files that happen to be called as ours would be.
#[test]
fn a_file_of_the_user_is_never_taken_for_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("file");
    for (name, other) in [("file.part", "file.part.journal"), ("file.part.journal", "file.part")] {
        let own = dir.path().join(name);
        fs::write(&own, "precious").unwrap();
        let (data, chunks, hash) = sample(9500);
        let (part, claims) = PartFile::open(hash, target.clone()).unwrap();
        assert!(claims.is_empty());
        let parts = vec![part];
        write(&parts, &data, &chunks, 0..chunks.len());
        let size = data.len() as u64;
        assert!(parts[0].is_right(size));
        parts[0].finalize(size, false).unwrap();
        parts[0].rename(false).unwrap();
        drop(parts);
        assert_eq!(fs::read(&own).unwrap(), b"precious", "{name}");
        assert_eq!(fs::read(&target).unwrap(), data);
        assert!(!dir.path().join(other).exists());
        fs::remove_file(own).unwrap();
    }
}

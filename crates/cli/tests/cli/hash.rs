//! `hash` and `chunks`: golden values, folders, standard input, memory.

use std::fs;

use serde_json::json;
use testkit::vectors::model::Input;
use testkit::{Vectors, corpus, hex, sha256, twin};

use super::{Folder, drystone, json, number, text};

/// Larger inputs are left to the tests of the crates.
const INPUT_BYTES_MAX: u64 = 20_000_000;

fn inputs(vectors: &Vectors) -> impl Iterator<Item = &Input> {
    vectors.manifest.inputs.iter().filter(|input| input.size <= INPUT_BYTES_MAX)
}

/// Files of the golden inputs, in a folder of 16 folders whose sorted order is that of the manifest.
fn written(vectors: &Vectors) -> (Folder, Vec<(&Input, String)>) {
    let folder = Folder::new();
    let mut listed = Vec::new();
    for (n, input) in inputs(vectors).enumerate() {
        let below = format!("{:02x}", n / 32);
        fs::create_dir_all(folder.path().join(&below)).unwrap();
        let path = folder.put(&format!("{below}/{n:04}-{}", input.name), vectors.make(&input.recipe));
        listed.push((input, path));
    }
    (folder, listed)
}

#[test]
fn every_input_has_the_hashes_and_chunks_of_the_reference() {
    let vectors = Vectors::open();
    let (folder, listed) = written(&vectors);

    let found = json(drystone(["hash", "--json", "--sha256", &folder.at("")]));
    let expected = listed.iter().map(|(input, path)| {
        let Input { size, file_hash, sha256, .. } = input;
        json!({"path": path, "size": size, "hash": file_hash, "sha256": sha256})
    });
    for (found, expected) in found.as_array().unwrap().iter().zip(expected) {
        assert_eq!(*found, expected);
    }
    assert_eq!(found.as_array().unwrap().len(), listed.len());

    let paths = listed.iter().map(|(_, path)| path.as_str());
    let lines = drystone(["hash"].into_iter().chain(paths)).run().ok();
    let expected = listed.iter().map(|(input, path)| format!("{} {} {path}\n", input.file_hash, input.size));
    assert_eq!(lines, expected.collect::<String>());

    for (input, path) in &listed {
        let lines = drystone(["chunks", path]).run().ok();
        let expected = vectors.chunks(input).into_iter().map(|(hash, length)| format!("{hash} {length}\n"));
        assert!(lines == expected.collect::<String>(), "{}", input.name);
    }
}

#[test]
fn the_sha256_follows_the_hash_when_requested() {
    let folder = Folder::new();
    let path = folder.put("some data", "some data");
    let hash = twin::hash_to_string(&twin::compute_file_hash(&twin::leaves(b"some data")));
    let digest = hex(&sha256(b"some data"));
    assert_eq!(drystone(["hash", &path]).run().ok(), format!("{hash} 9 {path}\n"));
    assert_eq!(drystone(["hash", "--sha256", &path]).run().ok(), format!("{hash} {digest} 9 {path}\n"));
    let found = json(drystone(["hash", "--json", &path]));
    assert_eq!(found, json!([{"path": path, "size": 9, "hash": hash}]));
}

/// Also with a file that several workers share.
#[test]
fn the_number_of_workers_changes_nothing() {
    let folder = Folder::new();
    let path = folder.put("big", corpus::text(3, 9_000_000));
    let [one, many] = ["1", "5"]
        .map(|threads| drystone(["hash", "--json", "--sha256", "--threads", threads, &path]).run().ok());
    assert_eq!(one, many);
}

#[test]
fn standard_input_is_read_for_a_dash() {
    let data = corpus::noise(1, 3_000_000);
    let folder = Folder::new();
    let path = folder.put("data", &data);
    let hash = |call: testkit::command::Call| text(&json(call)[0], "hash").to_owned();
    let from_file = hash(drystone(["hash", "--json", &path]));
    assert_eq!(from_file, hash(drystone(["hash", "--json", "-"]).stdin(data.clone())));
    let chunks = drystone(["chunks", &path]).run().ok();
    assert_eq!(chunks, drystone(["chunks", "-"]).stdin(data).run().ok());
    assert!(drystone(["hash", "-"]).run().ok().ends_with(" 0 -\n"));
}

#[test]
fn chunks_in_json_carry_their_offsets() {
    let data = corpus::noise(2, 1_000_000);
    let folder = Folder::new();
    let path = folder.put("data", &data);
    let found = json(drystone(["chunks", "--json", &path]));
    let mut offset = 0;
    for (chunk, (hash, length)) in found.as_array().unwrap().iter().zip(twin::leaves(&data)) {
        let hash = twin::hash_to_string(&hash);
        assert_eq!(*chunk, json!({"hash": hash, "offset": offset, "length": length}));
        offset += number(chunk, "length");
    }
    assert_eq!(offset, data.len() as u64);
}

#[test]
fn nothing_gives_an_empty_answer() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("none")).unwrap();
    let empty = folder.put("empty", "");
    assert_eq!(drystone(["hash", &folder.at("none")]).run().ok(), "");
    assert_eq!(json(drystone(["hash", "--json", &folder.at("none")])), json!([]));
    assert_eq!(drystone(["chunks", &empty]).run().ok(), "");
    assert_eq!(json(drystone(["chunks", "--json", &empty])), json!([]));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_hashed() {
    let folder = Folder::new();
    let (first, last) = (folder.put("first", "1"), folder.put("last", "2"));
    let missing = folder.at("missing");
    let ended = drystone(["hash", &first, &missing, &last]).run();
    let lines = String::from_utf8(ended.stdout.clone()).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains(&first) && lines.contains(&last), "{lines}");
    assert!(ended.fails(1).contains(&missing));

    let ended = drystone(["hash", "--json", &missing, &first]).run();
    let found: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert!(ended.fails(1).contains(&missing));

    for path in [&missing, &folder.at("")] {
        assert!(drystone(["chunks", path]).run().fails(1).contains(path.as_str()));
    }
}

/// Nobody, not even the superuser, can read page zero of a program.
#[cfg(target_os = "linux")]
#[test]
fn an_unreadable_entry_of_a_folder_does_not_stop_the_rest() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.put("a", "1");
    std::os::unix::fs::symlink("/proc/self/mem", folder.path().join("b")).unwrap();
    folder.put("c", "2");
    let locked = folder.path().join("d");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let is_superuser = fs::read_dir(&locked).is_ok();

    let ended = drystone(["hash", &folder.at("")]).run();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    let lines = String::from_utf8(ended.stdout.clone()).unwrap();
    let names: Vec<_> = lines.lines().map(|line| &line[line.len() - 1..]).collect();
    assert_eq!(names, ["a", "c"]);
    let complaints = ended.fails(1);
    assert!(complaints.contains(&folder.at("b")), "{complaints}");
    assert!(is_superuser || complaints.contains(&folder.at("d")), "{complaints}");
}

/// A name need not be text.
#[cfg(target_os = "linux")]
#[test]
fn a_name_is_printed_byte_for_byte() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(folder.path().join(name), "x").unwrap();
    let ended = drystone([std::ffi::OsStr::new("hash"), name]).dir(folder.path()).run();
    assert!(ended.stdout.ends_with(b" 1 caf\xe9\n"), "{ended:?}");
}

/// A gibibyte that takes no room on the disk. Linux tells the most a process ever held as `VmHWM`; the last reading before
/// it ends misses at most some milliseconds.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_file() {
    const FILE_BYTES: u64 = 1 << 30;
    const HELD_KIB_MAX: u64 = 64 * 1024;
    let folder = Folder::new();
    let path = folder.put("sparse", "");
    fs::File::options().write(true).open(&path).unwrap().set_len(FILE_BYTES).unwrap();

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_drystone"));
    let mut child = command.args(["hash", &path]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut held_kib = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let read = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        held_kib = held_kib.max(read.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    let ended = child.wait_with_output().unwrap();

    let chunk = vec![0; 128 * 1024];
    let leaf = (twin::compute_chunk_hash(&chunk), chunk.len() as u64);
    let leaves = vec![leaf; usize::try_from(FILE_BYTES).unwrap() / chunk.len()];
    let hash = twin::hash_to_string(&twin::compute_file_hash(&leaves));
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), format!("{hash} {FILE_BYTES} {path}\n"));
    assert!((1..HELD_KIB_MAX).contains(&held_kib), "{held_kib} KiB");
}

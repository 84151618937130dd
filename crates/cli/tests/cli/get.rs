//! `drystone cas get`, from a store directory.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use testkit::corpus::noise;

use super::{Folder, drystone, json, number, text};

/// Stores files and tells their hashes.
fn store(folder: &Folder, files: &[String]) -> Vec<String> {
    let args = ["cas", "put", "--no-cache", "--json", "--store", &folder.at("store")];
    let put = json(drystone(args).args(files).timeout(Duration::from_secs(300)));
    put["files"].as_array().unwrap().iter().map(|file| text(file, "hash").to_owned()).collect()
}

fn get(folder: &Folder, args: &[&str]) -> testkit::command::Call {
    let store = folder.at("store");
    drystone(["cas", "get", "--no-cache", "--no-sync", "--store", &store].iter().chain(args))
        .timeout(Duration::from_secs(300))
}

#[test]
fn a_file_comes_back_whole_in_ranges_and_on_standard_output() {
    let folder = Folder::new();
    let data = noise(1, 3_000_000);
    let hash = &store(&folder, &[folder.put("in", &data)])[0];
    let out = folder.at("out");
    fs::write(&out, vec![0; 5_000_000]).unwrap();
    let totals = json(get(&folder, &[hash, "-o", &out, "--json"]));
    assert_eq!((number(&totals, "files"), number(&totals, "bytes")), (1, 3_000_000));
    assert!(number(&totals, "fetched_bytes") >= 2_900_000);
    assert!(folder.read("out") == data);

    let totals = json(get(&folder, &[hash, "-o", &out, "--json"]));
    assert_eq!(number(&totals, "fetched_bytes"), 0, "it is there already");
    let whole = get(&folder, &[hash, "-o", "-"]).run();
    assert!(whole.code == Some(0) && whole.stdout == data);
    let part = get(&folder, &[hash, "-o", "-", "--range", "1000000-1000100", "--range", "2999990-"]).run();
    assert!(part.stdout == [&data[1_000_000..1_000_100], &data[2_999_990..]].concat());
    get(&folder, &[hash, "-o", &out, "--range", "5-10"]).run().ok();
    assert!(folder.read("out") == data[5..10]);
    get(&folder, &[hash, "-o", &out, "--range", "100-200", "--sparse"]).run().ok();
    assert!(folder.read("out")[100..200] == data[100..200]);

    let digest: String = testkit::sha256(&data).iter().map(|byte| format!("{byte:02x}")).collect();
    get(&folder, &[hash, "-o", &folder.at("checked"), "--sha256", &digest]).run().ok();
    let wrong = get(&folder, &[hash, "-o", &folder.at("wrong"), "--sha256", &"0".repeat(64)]).run().fails(1);
    assert!(wrong.contains("SHA-256") && !folder.names().contains(&"wrong".to_owned()), "{wrong}");
    let unknown = get(&folder, &[&"1".repeat(64), "-o", &folder.at("unknown")]).run().fails(1);
    assert!(unknown.contains(&"1".repeat(64)), "{unknown}");
}

#[test]
fn an_older_version_saves_fetching() {
    let folder = Folder::new();
    let old = noise(2, 4_000_000);
    let mut new = old.clone();
    new.splice(1_000_000..1_000_000, noise(3, 1000));
    let hashes = store(&folder, &[folder.put("old", &old), folder.put("new", &new)]);
    let out = folder.put("out", &old);
    let totals = json(get(&folder, &[&hashes[1], "-o", &out, "--json"]));
    assert!(folder.read("out") == new);
    assert!(
        number(&totals, "fetched_bytes") < 400_000 && number(&totals, "reused_bytes") > 3_600_000,
        "{totals}"
    );
}

#[test]
fn a_list_fills_a_folder_and_a_path_that_leaves_it_is_refused() {
    let folder = Folder::new();
    let files: Vec<Vec<u8>> = (0..200).map(|n| noise(n, (n as usize * 1237) % 50_000)).collect();
    let paths: Vec<_> =
        files.iter().enumerate().map(|(n, data)| folder.put(&format!("in-{n}"), data)).collect();
    let hashes = store(&folder, &paths);
    let list: Vec<_> = hashes
        .iter()
        .enumerate()
        .map(|(n, hash)| json!({"hash": hash, "path": format!("d{}/{n}", n % 3)}))
        .collect();
    let list = folder.put("list.json", serde_json::to_vec(&list).unwrap());
    let out = folder.at("out");
    let totals = json(get(&folder, &["--from-json", &list, "-o", &out, "--json"]));
    assert_eq!((number(&totals, "files"), number(&totals, "failed")), (200, 0));
    for (n, data) in files.iter().enumerate() {
        assert!(folder.read(&format!("out/d{}/{n}", n % 3)) == *data, "{n}");
    }
    let again = json(get(&folder, &["--from-json", &list, "-o", &out, "--json"]));
    assert_eq!((number(&again, "files"), number(&again, "fetched_bytes")), (200, 0));

    let bad = json!([{"hash": hashes[0], "path": "ok"}, {"hash": hashes[1], "path": "../escaped"}]);
    let bad = folder.put("bad.json", bad.to_string());
    let output = get(&folder, &["--from-json", &bad, "-o", &out]).run().fails(1);
    assert!(output.contains("../escaped") && !folder.names().contains(&"escaped".to_owned()), "{output}");
    let unknown = json!([{"hash": hashes[3], "path": "x/3"}, {"hash": "1".repeat(64), "path": "x/unknown"}]);
    let unknown = folder.put("unknown.json", unknown.to_string());
    let output = get(&folder, &["--from-json", &unknown, "-o", &out]).run().fails(1);
    assert!(output.contains("x/unknown") && folder.read("out/x/3") == files[3], "{output}");
}

#[test]
fn the_cache_serves_offline() {
    let folder = Folder::new();
    let data = noise(5, 2_000_000);
    let hash = &store(&folder, &[folder.put("in", &data)])[0];
    let (cache, place) = (folder.at("cache"), folder.at("store"));
    let out = folder.at("out");
    let with_cache = |args: &[&str]| {
        drystone(["cas", "get", hash, "-o", &out, "--json", "--cache-dir", &cache].iter().chain(args))
    };
    with_cache(&["--offline"]).run().fails(1);
    json(with_cache(&["--store", &place]));
    fs::remove_file(&out).unwrap();
    let totals = json(with_cache(&["--offline"]));
    assert_eq!((number(&totals, "fetched_bytes"), number(&totals, "from_cache_bytes")), (0, 2_000_000));
    assert!(folder.read("out") == data);
}

/// Killed at fifteen moments, the pull goes on each time, loses nothing it had, and ends with the right file.
#[test]
fn a_killed_pull_goes_on() {
    let folder = Folder::new();
    let data = noise(6, 60_000_000);
    let hash = &store(&folder, &[folder.put("in", &data)])[0];
    let (place, out) = (folder.at("store"), folder.at("out"));
    let journal = folder.path().join("out.part.journal");
    let (mut kills, mut claimed, mut lived_on) = (0, 0, 0);
    let mut wait_ms = 15;
    while kills < 15 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drystone"))
            .args(["cas", "get", "--no-cache", "--no-sync", "--store", &place, hash, "-o", &out])
            .args(["--threads", "1", "--connections", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        if fs::exists(&out).unwrap() {
            // It was faster this time. That too must be right, and is tried again from the start.
            assert!(folder.read("out") == data);
            fs::remove_file(&out).unwrap();
            // Killed before it removed its journal, it leaves claims about a file that is gone.
            let _ = fs::remove_file(&journal);
            (claimed, wait_ms) = (0, 15);
            continue;
        }
        let now = journal.metadata().map_or(0, |metadata| metadata.len());
        assert!(now >= claimed, "claims were lost: {claimed} then {now}");
        lived_on += u32::from(now > claimed && claimed > 40);
        claimed = now;
        wait_ms = (wait_ms * 7 / 5 + 10) % 600;
    }
    let has_claim = fs::read(&journal).is_ok_and(|bytes| has_a_whole_record(&bytes));
    let totals = json(get(&folder, &[hash, "-o", &out, "--json"]));
    assert!(folder.read("out") == data);
    assert_eq!(folder.names(), ["in", "out", "store"]);
    let (fetched, reused) = (number(&totals, "fetched_bytes"), number(&totals, "reused_bytes"));
    // What came before is not fetched again, but for the chunks at the edges of what is missing.
    assert!(fetched + reused <= 61_000_000, "{totals}; went on {lived_on} times");
    if has_claim {
        assert!(reused > 0 && number(&totals, "resumed_files") == 1, "{totals}");
    }
}

/// What stands at the target decides how it is written; nothing but a regular file is replaced.
#[cfg(target_os = "linux")]
#[test]
fn a_stream_is_written_to_a_link_stays_and_a_directory_is_refused() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let folder = Folder::new();
    let data = noise(7, 300_000);
    let hash = &store(&folder, &[folder.put("in", &data)])[0];
    let digest: String = testkit::sha256(&data).iter().map(|byte| format!("{byte:02x}")).collect();
    for stdout in ["-", "/dev/stdout", "/dev/fd/1"] {
        let whole = get(&folder, &[hash, "-o", stdout, "--sha256", &digest]).run();
        assert!(whole.code == Some(0) && whole.stdout == data, "{stdout}: {}", whole.stderr);
        let wrong = get(&folder, &[hash, "-o", stdout, "--sha256", &"0".repeat(64)]).run();
        assert!(wrong.code == Some(1) && wrong.stderr.contains("SHA-256"), "{stdout}: {}", wrong.stderr);
        let refused = get(&folder, &[hash, "-o", stdout, "--json"]).run().fails(1);
        assert!(refused.contains("nothing else"), "{refused}");
    }

    let fifo = folder.at("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for range in [&[][..], &["--range", "1000-2000"]] {
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        get(&folder, &[&[hash, "-o", &fifo], range].concat()).run().ok();
        let expected = if range.is_empty() { &data[..] } else { &data[1000..2000] };
        assert!(reader.join().unwrap() == expected);
    }
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    let holes = get(&folder, &[hash, "-o", &fifo, "--range", "5-10", "--sparse"]).run().fails(1);
    assert!(holes.contains("regular file"), "{holes}");

    for (link, target) in [("link", "there"), ("dangling", "made")] {
        symlink(target, folder.path().join(link)).unwrap();
    }
    folder.put("there", "old");
    for (link, target) in [("link", "there"), ("dangling", "made")] {
        get(&folder, &[hash, "-o", &folder.at(link)]).run().ok();
        assert!(folder.path().join(link).is_symlink() && folder.read(target) == data);
    }
    let list = folder.put("list.json", json!([{"hash": hash, "path": "dangling"}]).to_string());
    fs::remove_file(folder.path().join("made")).unwrap();
    get(&folder, &["--from-json", &list, "-o", folder.path().to_str().unwrap()]).run().ok();
    assert!(folder.path().join("dangling").is_symlink() && folder.read("made") == data);

    let complaint = get(&folder, &[hash, "-o", folder.path().to_str().unwrap()]).run().fails(1);
    assert!(complaint.contains("is a directory; name a file in it"), "{complaint}");
}

/// Temporary files of pulls that were killed long ago, of files that are complete by now.
#[test]
fn leftovers_of_a_complete_file_are_removed_and_named_and_files_of_the_user_are_not() {
    let folder = Folder::new();
    let data = noise(8, 300_000);
    let hash = &store(&folder, &[folder.put("in", &data)])[0];
    let out = folder.at("out");
    get(&folder, &[hash, "-o", &out]).run().ok();
    folder.put("out.part", "half");
    folder.put("out.part.journal", [&b"DRYPART1"[..], &[7; 32]].concat());
    let ended = get(&folder, &[hash, "-o", &out]).run();
    assert!(ended.code == Some(0) && ended.stderr.contains("removed 1 leftover of"), "{}", ended.stderr);
    assert_eq!(folder.names(), ["in", "out", "store"]);

    // Without a journal of ours the file belongs to another program.
    folder.put("out.part", "precious");
    fs::remove_file(&out).unwrap();
    let totals = json(get(&folder, &[hash, "-o", &out, "--json"]));
    assert_eq!((number(&totals, "resumed_files"), number(&totals, "leftovers_removed")), (0, 0));
    assert!(folder.read("out") == data && folder.read("out.part") == b"precious");
}

/// Whether the first record of a journal is all there; a kill may have cut it. Its count of chunks is at 44.
fn has_a_whole_record(journal: &[u8]) -> bool {
    let Some(count) = journal.get(44..48) else { return false };
    let chunks = u32::from_le_bytes(count.try_into().unwrap()) as usize;
    journal.len() >= 40 + 16 + 36 * chunks
}

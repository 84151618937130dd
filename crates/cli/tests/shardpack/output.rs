//! Where a verb writes: standard output, pipes, devices, links, files; and what a killed run left.

use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::process::Command;
use std::thread;

use super::*;

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Each verb that writes a pack or an archive, without its output.
fn verbs(folder: &Folder) -> Vec<Vec<String>> {
    let (input, pack) = (folder.at("in"), folder.at("a.shardpack"));
    let verb = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        verb(&["create", "--input", &input]),
        verb(&["merge", &pack]),
        verb(&["split", &pack, "--fraction", "1"]),
        verb(&["convert", "--from", "shardpack", &pack]),
        verb(&["convert", &pack, "--to", "webdataset"]),
        verb(&["convert", &pack, "--to", "parquet"]),
        verb(&["repair", &pack]),
        verb(&["index", &pack]),
    ]
}

fn call(verb: &[String], output: &str) -> Call {
    shardpack(verb.iter().map(String::as_str).chain(["--output", output]))
}

#[test]
fn every_verb_streams_to_standard_output_and_to_a_fifo_and_keeps_links() {
    let folder = Folder::with_pack();
    let fifo = folder.at("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for verb in verbs(&folder) {
        let file = folder.at("file");
        call(&verb, &file).run().ok();
        let expected = folder.read("file");
        assert!(!expected.is_empty(), "{verb:?}");

        for stdout in ["-", "/dev/stdout"] {
            let ended = call(&verb, stdout).run();
            assert_eq!(ended.code, Some(0), "{verb:?} {stdout}: {}", ended.stderr);
            assert!(ended.stdout == expected, "{verb:?} {stdout}");
        }
        let reader = thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        call(&verb, &fifo).run().ok();
        assert!(reader.join().unwrap() == expected, "{verb:?}");
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());

        call(&verb, "/dev/null").run().ok();
        assert!(call(&verb, "/dev/full").run().fails(1).contains("/dev/full"), "{verb:?}");

        folder.put("target", "old");
        symlink("target", folder.path().join("link")).unwrap();
        call(&verb, &folder.at("link")).run().ok();
        assert!(folder.path().join("link").is_symlink() && folder.read("target") == expected, "{verb:?}");

        let complaint = call(&verb, &folder.at("in")).run().fails(1);
        assert!(complaint.contains("is a directory; name a file in it"), "{verb:?}: {complaint}");
        for name in ["file", "link", "target"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        assert_eq!(names(&folder), ["a.shardpack", "fifo", "in"], "{verb:?}");
    }
}

#[test]
fn several_packs_do_not_go_to_one_stream_and_reports_do_not_go_between_bytes() {
    let folder = Folder::with_pack();
    let (input, pack) = (folder.at("in"), folder.at("a.shardpack"));
    for words in [
        &["create", "--input", &input, "--shard-size", "1KB"][..],
        &["merge", &pack, "--shard-size", "1KB"],
        &["split", &pack, "--count", "2"],
        &["convert", &pack, "--to", "webdataset", "--shard-size", "1KB"],
    ] {
        for stream in ["-", "/dev/stdout", "/dev/null"] {
            let ended = shardpack(words.iter().copied().chain(["--output", stream])).run();
            assert_eq!(ended.code, Some(1), "{words:?}");
            assert!(ended.stderr.contains("is a stream"), "{words:?}: {}", ended.stderr);
            assert!(ended.stdout.is_empty(), "{words:?}");
        }
    }
    let complaint = shardpack(["merge", &pack, "--json", "--output", "-"]).run().fails(1);
    assert!(complaint.contains("--json"), "{complaint}");
    let same = ["split", &pack, "--fraction", "0.5", "--output", "-", "--rest", "/dev/stdout"];
    assert!(shardpack(same).run().fails(1).contains("--rest"));
    let ended = shardpack(["merge", &pack, "--output", "-"]).run();
    assert!(ended.stderr.contains("13 records"), "{}", ended.stderr);
}

#[test]
fn an_archive_that_is_there_is_replaced_only_on_demand_and_extract_replaces_no_device() {
    let folder = Folder::with_pack();
    let (pack, tar) = (folder.at("a.shardpack"), folder.put("a.tar", "precious"));
    assert!(shardpack(["extract", &pack, "--output", &tar]).run().fails(1).contains("--force"));
    assert_eq!(folder.read("a.tar"), b"precious");
    shardpack(["extract", &pack, "--output", &tar, "--force"]).run().ok();
    let archive = folder.read("a.tar");
    assert!(shardpack(["extract", &pack, "--output", "/dev/stdout"]).run().stdout == archive);

    fs::create_dir(folder.path().join("out")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.at("out/README")).status().unwrap().success());
    let complaint = shardpack(["extract", &pack, "--output", &folder.at("out"), "--force"]).run().fails(1);
    assert!(complaint.contains("README") && complaint.contains("no regular file"), "{complaint}");
    assert!(fs::symlink_metadata(folder.at("out/README")).unwrap().file_type().is_fifo());
}

#[test]
fn a_failed_conversion_leaves_what_was_there() {
    let folder = Folder::with_pack();
    let damaged = {
        let mut bytes = folder.read("a.shardpack");
        let middle = bytes.len() / 3;
        bytes[middle..middle + 64].fill(0xff);
        folder.put("damaged.shardpack", bytes)
    };
    for to in ["webdataset", "parquet", "shardpack"] {
        let output = folder.put("out", "precious");
        shardpack(["convert", "--from", "shardpack", &damaged, "--to", to, "--output", &output])
            .run()
            .fails(1);
        assert_eq!(folder.read("out"), b"precious", "{to}");
    }
    assert_eq!(names(&folder), ["a.shardpack", "damaged.shardpack", "in", "out"]);
}

#[test]
fn what_a_killed_run_left_is_removed_and_named_by_the_next() {
    let folder = Folder::with_pack();
    let (pack, left) = (folder.at("a.shardpack"), ".b.shardpack.4294967-0.part");
    let others = [".c.shardpack.4294967-0.part", "b.shardpack.part", ".b.shardpack.part"];
    for other in others {
        folder.put(other, "of the user");
    }
    for verb in verbs(&folder) {
        folder.put(left, "half a pack");
        let ended = call(&verb, &folder.at("b.shardpack")).run();
        assert_eq!(ended.code, Some(0), "{verb:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("removed {}", folder.at(left))), "{verb:?}: {}", ended.stderr);
        assert!(!folder.path().join(left).exists(), "{verb:?}");
    }
    folder.put(".n-000007.shardpack.4294967-3.part", "half a pack");
    let numbered = ["merge", &pack, "--shard-size", "1MB", "--output", &folder.at("n.shardpack")];
    let ended = shardpack(numbered).run();
    assert!(ended.stderr.contains("n-000007"), "{}", ended.stderr);
    assert!(others.iter().all(|other| folder.path().join(other).exists()));
}

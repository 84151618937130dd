//! What holds for every verb: help, exit codes, pipes that close.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::corpus;

use super::{Folder, drystone};

const VERBS: [&[&str]; 26] = [
    &["hash"],
    &["chunks"],
    &["inspect"],
    &["check"],
    &["xorb", "build"],
    &["xorb", "unpack"],
    &["shard", "build"],
    &["shard", "dump"],
    &["cas", "put"],
    &["serve"],
    &["token", "create"],
    &["token", "list"],
    &["token", "revoke"],
    &["gc"],
    &["verify"],
    &["backup"],
    &["restore"],
    &["rebuild"],
    &["stats"],
    &["store", "copy"],
    &["store", "migrate"],
    &["config", "check"],
    &["completions"],
    &["demo"],
    &["doctor"],
    &["man"],
];

#[test]
fn every_verb_has_help_with_an_example() {
    let all = drystone(["--help"]).run().ok();
    for verb in VERBS {
        assert!(all.contains(verb[0]), "{all}");
        for flag in ["--help", "-h"] {
            let help = drystone(verb).args([flag]).run().ok();
            assert!(help.contains("Example"), "{verb:?}: {help}");
            assert!(help.contains(&format!("  drystone {}", verb.join(" "))), "{verb:?}: {help}");
        }
    }
    assert!(drystone(["--version"]).run().ok().starts_with("drystone "));
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = Folder::new();
    drystone(["man", &folder.at("man")]).run().ok();
    for verb in VERBS {
        let page = folder.read(&format!("man/drystone-{}.1", verb.join("-")));
        assert!(String::from_utf8(page).unwrap().contains(".SH NAME"), "{verb:?}");
    }
    assert!(drystone(["man"]).run().ok().contains(".SH SUBCOMMANDS"));
}

#[test]
fn wrong_usage_ends_with_two() {
    let wrong: &[&[&str]] = &[
        &[],
        &["no-such-verb"],
        &["hash"],
        &["hash", "--no-such-flag", "x"],
        &["hash", "--threads", "0", "x"],
        &["chunks"],
        &["chunks", "a", "b"],
        &["inspect"],
        &["check", "x"],
        &["check", "--as", "tarball", "x"],
        &["check", "--as", "xorb-upload", "--hash", "beef", "x"],
        &["xorb"],
        &["xorb", "build", "x"],
        &["xorb", "build", "x", "-o", "y", "--scheme", "zip"],
        &["xorb", "unpack", "x"],
        &["xorb", "unpack", "x", "-o", "y", "--chunks", "z"],
        &["shard", "build", "-o", "y"],
        &["shard", "build", "-o", "y", "x", "--from", "z"],
        &["shard", "build", "-o", "y", "x", "--key", "beef"],
        &["completions", "tcl"],
        // Options that would mean nothing beside the others.
        &["shard", "build", "-o", "y", "--from", "z", "--scheme", "lz4"],
        &["shard", "build", "-o", "y", "--from", "z", "--footer", "v1"],
        &["cas", "put", "--store", "d", "--proxy", "http://127.0.0.1:1", "x"],
        &["cas", "put", "--store", "d", "--ca-file", "x.pem", "x"],
        &["cas", "put", "--store", "d", "--bandwidth", "1", "x"],
        &["cas", "put", "--store", "d", "--token-in-clear", "x"],
        &["cas", "put", "--catalog", "sqlite:x", "x"],
        &["push", "--private", "x", "ann/m"],
        &["gc", "--live-share", "0.3"],
        &["verify", "--from", "d"],
        &["verify", "--allow-large-repair"],
        &["admin", "--token", "x", "user", "list"],
        &["admin", "--endpoint", "http://127.0.0.1:1", "--data", "d", "user", "list"],
        &["admin", "undelete", "ann/m", "--list", "--as", "b"],
        &["admin", "undelete", "ann/m", "a.txt", "--list"],
        &["admin", "user", "password", "ann", "--stdin", "--remove"],
        &["pull", "ann/m", "d", "--no-cache", "--cache-bytes", "5"],
        &["pull", "ann/m", "d", "--no-cache", "--offline"],
        &["token", "create", "--scope", "read", "--cas"],
        &["token", "create", "--scope", "read", "--repo", "ann/m", "--everywhere"],
        &["demo", "--files", "d", "--json"],
        // What they need is in conflict with what is given.
        &["token", "create", "--scope", "read", "--cas", "--namespace", "ann"],
        &["token", "create", "--scope", "read", "--cas", "--everywhere"],
        &["admin", "--token", "x", "--data", "d", "user", "list"],
        &["admin", "user", "list", "--token", "x", "--config", "c.toml"],
        &["cas", "put", "--endpoint", "http://127.0.0.1:1", "--objects", "s3://bucket", "x"],
        &["cas", "put", "--endpoint", "http://127.0.0.1:1", "--catalog", "sqlite://c.db", "x"],
        &["cas", "get", "--from-json", "list", "--sparse", "d"],
    ];
    for &args in wrong {
        let ended = drystone(args).run();
        assert!(ended.stdout.is_empty(), "{args:?}");
        assert!(!ended.fails(2).is_empty(), "{args:?}");
    }
}

#[test]
fn a_missing_file_ends_with_one_and_is_named() {
    let verbs: [&[&str]; 9] = [
        &["hash"],
        &["chunks"],
        &["inspect"],
        &["check", "--as", "xorb-upload"],
        &["check", "--as", "shard-stored"],
        &["xorb", "build", "-o", "-"],
        &["xorb", "unpack", "-o", "-"],
        &["shard", "build", "-o", "-"],
        &["shard", "dump"],
    ];
    for verb in verbs {
        let complaint = drystone(verb).args(["no/such/file"]).run().fails(1);
        assert!(
            complaint.contains("no/such/file") && complaint.lines().count() == 1,
            "{verb:?}: {complaint}"
        );
    }
    let folder = Folder::new();
    let input = folder.put("input", "data");
    let nowhere = folder.at("no/such/folder/out");
    for verb in ["xorb", "shard"] {
        let complaint = drystone([verb, "build", &input, "-o", &nowhere]).run().fails(1);
        assert!(complaint.contains(&nowhere), "{complaint}");
    }
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = drystone(["completions", shell]).run().ok();
        for word in ["inspect", "unpack", "xorb-upload", "sha256"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
}

/// `drystone … | head -1` is no error, whatever the verb; nor does it go on for ever when the input does.
#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(1, 2_000_000));
    let xorb = folder.at("a.xorb");
    drystone(["xorb", "build", &input, "-o", &xorb]).run().ok();
    drystone(["shard", "build", &input, "-o", &folder.at("a.shard")]).run().ok();
    let shard = folder.at("a.shard");
    let out = folder.at("out");
    let calls: [&[&str]; 14] = [
        &["hash", &input],
        &["hash", "--json", &input],
        &["chunks", &input],
        &["chunks", "--json", &input],
        &["chunks", "/dev/zero"],
        &["inspect", &xorb],
        &["inspect", "--json", &shard],
        &["check", "--as", "xorb-upload", &xorb],
        &["check", "--as", "shard-upload", "--json", &shard],
        &["xorb", "build", &input, "-o", &out],
        &["xorb", "unpack", &xorb, "-o", "-"],
        &["shard", "build", &input, "-o", &out],
        &["shard", "dump", &shard],
        &["completions", "bash"],
    ];
    for args in calls {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drystone"));
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let end = Instant::now() + Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = child.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), complaint.as_ref()), (Some(0), ""), "{args:?}");
    }
}

/// A full disk is named by the file that did not fit.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(1, 500_000));
    let xorb = folder.at("a.xorb");
    drystone(["xorb", "build", &input, "-o", &xorb]).run().ok();
    let calls: [&[&str]; 6] = [
        &["hash", &input],
        &["chunks", &input],
        &["inspect", &xorb],
        &["check", "--as", "xorb-upload", &xorb],
        &["xorb", "unpack", &xorb, "-o", "-"],
        &["completions", "zsh"],
    ];
    for args in calls {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drystone"));
        let ended = command.args(args).stdout(full).output().unwrap();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{args:?}");
        assert!(complaint.contains("standard output"), "{args:?}: {complaint}");
    }
    let complaint = drystone(["xorb", "unpack", &xorb, "-o", "/dev/full"]).run().fails(1);
    assert!(complaint.contains("/dev/full"), "{complaint}");
}

//! What holds for every verb: help, exit codes, pipes that close.

use std::process::{Command, Stdio};

use super::{Folder, shardpack};

const VERBS: [&str; 12] = [
    "create",
    "list",
    "cat",
    "extract",
    "verify",
    "repair",
    "stats",
    "merge",
    "split",
    "index",
    "convert",
    "completions",
];

#[test]
fn every_verb_has_help_with_an_example() {
    let all = shardpack(["--help"]).run().ok();
    for verb in VERBS {
        assert!(all.contains(verb), "{all}");
        for flag in ["--help", "-h"] {
            let help = shardpack([verb, flag]).run().ok();
            assert!(
                help.contains("Example") && help.contains(&format!("shardpack {verb}")),
                "{verb}: {help}"
            );
        }
    }
    assert!(shardpack(["--version"]).run().ok().starts_with("shardpack "));
    for shell in ["bash", "zsh", "fish"] {
        let script = shardpack(["completions", shell]).run().ok();
        assert!(script.contains("extract") && script.contains("record-size-limit"), "{shell}");
    }
}

#[test]
fn wrong_usage_ends_with_two() {
    let wrong: &[&[&str]] = &[
        &[],
        &["no-such-verb"],
        &["create"],
        &["create", "--input", "x"],
        &["create", "--input", "x", "--output", "y", "--compression", "rar"],
        &["create", "--input", "x", "--output", "y", "--record-size-limit", "much"],
        &["create", "--input", "x", "--output", "y", "--metadata", "novalue"],
        &["create", "--input", "x", "--output", "y", "--shard-count", "0"],
        &["list"],
        &["extract", "x"],
        &["repair", "x"],
        &["split", "x", "--output", "y"],
        &["split", "x", "--output", "y", "--fraction", "2"],
        &["list", "x", "--range", "5"],
        // Options that would mean nothing beside the others.
        &["split", "x", "--output", "y", "--keys", "k", "--fraction", "0.5"],
        &["split", "x", "--output", "y", "--count", "2", "--seed", "1"],
        &["merge", "x", "--output", "y", "--missing", "skip"],
        &["merge", "x", "--output", "y", "--missing", "skip", "--apply", "a"],
        &["merge", "x", "--output", "y", "--compression", "lz4"],
        &["merge", "x", "--output", "y", "--apply", "a", "--column", "b"],
        &["create", "--manifest", "m", "--output", "y", "--hidden"],
        &["create", "--manifest", "m", "--output", "y", "--follow-links"],
        &["create", "--manifest", "m", "--output", "y", "--group", "first-dot"],
    ];
    for &args in wrong {
        let ended = shardpack(args).run();
        assert!(ended.stdout.is_empty(), "{args:?}");
        assert!(!ended.fails(2).is_empty(), "{args:?}");
    }
}

#[test]
fn a_missing_file_ends_with_one_and_is_named() {
    let verbs: [&[&str]; 8] = [
        &["list"],
        &["cat", "--ordinal", "0"],
        &["extract", "--output", "out"],
        &["stats"],
        &["merge", "--output", "out"],
        &["split", "--count", "1", "--output", "out"],
        &["index"],
        &["repair", "--output", "out"],
    ];
    let folder = Folder::new();
    for verb in verbs {
        let complaint = shardpack(verb).args(["no/such/pack"]).dir(folder.path()).run().fails(1);
        assert!(
            complaint.contains("no/such/pack") && complaint.lines().count() == 1,
            "{verb:?}: {complaint}"
        );
    }
    let complaint = shardpack(["create", "-i", "no/such", "-o", "out"]).dir(folder.path()).run().fails(1);
    assert!(complaint.contains("no/such"), "{complaint}");
    assert!(folder.all("").is_empty(), "{:?}", folder.all(""));
}

/// `shardpack … | head -1` is no error.
#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::with_pack();
    let pack = folder.at("a.shardpack");
    let calls: [&[&str]; 7] = [
        &["list", &pack],
        &["list", "--json", &pack],
        &["cat", &pack, "README"],
        &["extract", &pack, "--output", "-"],
        &["verify", &pack],
        &["stats", &pack],
        &["index", &pack],
    ];
    for args in calls {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardpack"));
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), complaint.as_ref()), (Some(0), ""), "{args:?}");
    }
}

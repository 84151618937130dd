//! `check`: verdicts on sound, adversarial and published files.

use serde_json::json;
use testkit::vectors::model::{AdversarialKind, Expect};
use testkit::{Vectors, corpus};

use super::{Folder, drystone, json, number, text, vector};

#[test]
fn every_adversarial_file_gets_its_verdict() {
    let vectors = Vectors::open();
    for case in &vectors.manifest.adversarial {
        let kind = match case.kind {
            AdversarialKind::XorbFooter => "xorb-stored",
            AdversarialKind::XorbFooterless => "xorb-upload",
            AdversarialKind::ShardUpload => "shard-upload",
            AdversarialKind::ShardStored => "shard-stored",
        };
        let path = vector(&vectors, &case.file);
        let hash = case.xorb_hash.as_ref().map(|hash| format!("--hash={hash}"));
        let call = || drystone(["check", "--as", kind, &path].into_iter().chain(hash.as_deref()));
        let ended = call().run();
        let (code, complaint) = (ended.code.unwrap(), &ended.stderr);
        match case.expect {
            Expect::Accept => assert_eq!(code, 0, "{}: {complaint}", case.file),
            Expect::Reject => assert_eq!(code, 1, "{}: {}", case.file, case.basis),
            Expect::Unspecified => assert!(code <= 1, "{}: {complaint}", case.file),
        }
        assert!(!complaint.contains("panic"), "{}: {complaint}", case.file);
        assert_eq!(complaint.contains("offset"), code == 1, "{}: {complaint}", case.file);
        assert_eq!(complaint.contains(&path), code == 1, "{}: {complaint}", case.file);

        // The same verdict for programs; inspecting and dumping it must not break either.
        let ended = call().args(["--json"]).run();
        let verdict: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!((ended.code, &verdict["sound"]), (Some(code), &json!(code == 0)), "{}", case.file);
        assert_eq!(verdict["offset"].is_u64() && verdict["reason"].is_string(), code == 1, "{verdict}");
        for verb in [&["inspect"][..], &["inspect", "--json"], &["shard", "dump"], &["xorb", "unpack", "-o-"]]
        {
            let ended = drystone(verb).args([&path]).run();
            assert!(matches!(ended.code, Some(0 | 1)), "{verb:?} {}: {}", case.file, ended.stderr);
            assert!(!ended.stderr.contains("panic"), "{verb:?} {}: {}", case.file, ended.stderr);
        }
    }
}

#[test]
fn every_golden_file_is_sound_in_its_form_only() {
    let vectors = Vectors::open();
    for xorb in &vectors.manifest.xorbs {
        for file in &xorb.files {
            let path = vector(&vectors, &file.file);
            let check = |kind| drystone(["check", "--as", kind, "--hash", &xorb.xorb_hash, &path]).run();
            let output = check("xorb-upload").ok();
            assert!(output.contains(&xorb.xorb_hash) && output.contains("sound"), "{output}");
            let stored = check("xorb-stored");
            assert_eq!(
                stored.code,
                Some(i32::from(file.footer.is_none())),
                "{}: {}",
                file.file,
                stored.stderr
            );
        }
    }
    for file in vectors.manifest.shards.iter().flat_map(|shard| &shard.files) {
        let path = vector(&vectors, &file.file);
        let check = |kind| drystone(["check", "--as", kind, &path]).run();
        match file.footer {
            Some(_) => drop(check("shard-stored").ok()),
            None => {
                check("shard-upload").ok();
                assert!(check("shard-stored").fails(1).contains("offset"), "{}", file.file);
            }
        }
    }
}

#[test]
fn published_files_are_sound() {
    let vectors = Vectors::open();
    let Some(official) = &vectors.manifest.official else { return };
    let ev = &official.ev_population;
    for (name, file) in &ev.shards {
        let kind = if name.ends_with("no-footer") { "shard-upload" } else { "shard-stored" };
        drystone(["check", "--as", kind, &vector(&vectors, file)]).run().ok();
    }
    drystone(["check", "--as", "shard-stored", &vector(&vectors, &official.gpt2_dedup_shard.shard)])
        .run()
        .ok();

    let xorb = vector(&vectors, &ev.xorb_prefix);
    let output = drystone(["check", "--as", "xorb-upload", &xorb]).run().ok();
    assert!(output.contains(&format!("{} chunks", ev.xorb_prefix_chunks)), "{output}");
    drystone(["check", "--as", "xorb-stored", &xorb]).run().fails(1);
    drystone(["check", "--as", "xorb-upload", "--hash", &ev.xorb_hash, &xorb]).run().fails(1);
}

#[test]
fn the_hash_of_a_shard_is_that_of_its_bytes() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(1, 100_000));
    let shard = folder.at("up.shard");
    let hash = drystone(["shard", "build", &input, "-o", &shard]).run().ok();
    let hash = hash.trim_end();
    let check = |hash| drystone(["check", "--as", "shard-upload", "--json", "--hash", hash, &shard]);
    let verdict = json(check(hash));
    assert_eq!(verdict, json!({"sound": true, "hash": hash}));
    let other = "0".repeat(64);
    assert!(check(&other).run().fails(1).contains("offset 0"));
}

#[test]
fn a_flipped_bit_is_found_where_it_is() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(9, 300_000));
    let xorb = folder.at("whole");
    drystone(["xorb", "build", &input, "-o", &xorb]).run().ok();
    let described = json(drystone(["inspect", "--json", &xorb]));
    let second = &described["chunks"][1];
    let (start, end) =
        (number(second, "offset"), number(second, "offset") + 8 + number(second, "stored_bytes"));
    let mut bytes = folder.read("whole");
    bytes[usize::try_from(start).unwrap() + 4000] ^= 0x10;
    let flipped = folder.put("flipped", bytes);

    let ended = drystone(["check", "--as", "xorb-stored", "--json", &flipped]).run();
    let verdict: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    // The chunk is sound by its form; that its hash differs shows against the footer.
    assert!(number(&verdict, "offset") >= start, "{verdict}, chunk at {start}..{end}");
    assert!(text(&verdict, "reason").contains("hash"), "{verdict}");
    ended.fails(1);
}

#[test]
fn what_can_never_be_ours_is_refused_without_reading_it_all() {
    #[cfg(target_os = "linux")]
    for kind in ["xorb-upload", "xorb-stored", "shard-upload", "shard-stored"] {
        let complaint = drystone(["check", "--as", kind, "/dev/zero"]).run().fails(1);
        assert!(complaint.contains("offset"), "{complaint}");
    }
    let folder = Folder::new();
    let empty = folder.put("empty", "");
    for kind in ["xorb-upload", "xorb-stored", "shard-upload", "shard-stored"] {
        let complaint = drystone(["check", "--as", kind, &empty]).run().fails(1);
        assert!(complaint.contains("offset"), "{complaint}");
    }
}

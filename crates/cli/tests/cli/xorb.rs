//! `xorb build` and `xorb unpack`.

use std::fs;

use testkit::{corpus, twin};

use super::{Folder, drystone, json, number, text};

const SCHEMES: [&str; 4] = ["auto", "none", "lz4", "bg4-lz4"];
const FOOTERS: [&str; 3] = ["none", "v0", "v1"];

#[test]
fn every_scheme_and_footer_gives_the_files_back() {
    let folder = Folder::new();
    let parts = [corpus::text(1, 400_000), corpus::f32_ramp(0.0, 0.25, 300_000), corpus::noise(1, 100_000)];
    let names = ["text", "ramp", "noise"];
    let paths: Vec<_> = names.iter().zip(&parts).map(|(name, part)| folder.put(name, part)).collect();
    let raw = parts.concat();
    // Each file is cut on its own.
    let leaves: Vec<_> = parts.iter().flat_map(|part| twin::leaves(part)).collect();
    let expected = twin::hash_to_string(&twin::compute_merkle_root(&leaves));

    for scheme in SCHEMES {
        for footer in FOOTERS {
            let xorb = folder.at("out.xorb");
            let options = ["xorb", "build", "--scheme", scheme, "--footer", footer, "-o", &xorb];
            let hash = drystone(options).args(&paths).run().ok();
            assert_eq!(hash, format!("{expected}\n"), "{scheme} {footer}");
            let check = |kind| drystone(["check", "--as", kind, "--hash", &expected, &xorb]).run();
            check("xorb-upload").ok();
            assert_eq!(check("xorb-stored").code, Some(i32::from(footer == "none")), "{scheme} {footer}");

            let described = json(drystone(["inspect", "--json", &xorb]));
            assert_eq!(text(&described, "footer"), footer);
            assert_eq!(number(&described, "size"), fs::metadata(&xorb).unwrap().len());
            let found = |name: &str| {
                described["chunks"].as_array().unwrap().iter().any(|chunk| chunk["scheme"] == name)
            };
            match scheme {
                "none" => assert!(!found("lz4") && !found("bg4-lz4")),
                "lz4" => assert!(found("lz4") && !found("bg4-lz4")),
                "bg4-lz4" => assert!(!found("lz4") && found("bg4-lz4")),
                _ => assert!(found("lz4") && found("bg4-lz4") && found("none")),
            }

            drystone(["xorb", "unpack", &xorb, "-o", &folder.at("back")]).run().ok();
            assert!(folder.read("back") == raw, "{scheme} {footer}");
        }
    }
    assert_eq!(folder.names(), ["back", "noise", "out.xorb", "ramp", "text"]);
}

#[test]
fn standard_output_takes_xorbs_and_raw_bytes() {
    let folder = Folder::new();
    let data = corpus::text(4, 200_000);
    let input = folder.put("input", &data);
    drystone(["xorb", "build", &input, "-o", &folder.at("out")]).run().ok();
    let ended = drystone(["xorb", "build", &input, "-o", "-"]).run();
    assert!(ended.code == Some(0) && ended.stdout == folder.read("out"), "{}", ended.stderr);
    let ended = drystone(["xorb", "unpack", &folder.at("out"), "-o", "-"]).run();
    assert!(ended.code == Some(0) && ended.stdout == data, "{}", ended.stderr);
}

#[test]
fn chunks_go_to_files_of_their_own() {
    let folder = Folder::new();
    let data = corpus::noise(3, 500_000);
    let input = folder.put("input", &data);
    let xorb = folder.at("out");
    drystone(["xorb", "build", &input, "-o", &xorb]).run().ok();
    let chunks = folder.path().join("chunks");
    drystone(["xorb", "unpack", &xorb, "--chunks", chunks.to_str().unwrap()]).run().ok();
    let leaves = twin::leaves(&data);
    assert_eq!(fs::read_dir(&chunks).unwrap().count(), leaves.len());
    let read = |(n, (hash, _)): (usize, &(twin::Bytes32, u64))| {
        fs::read(chunks.join(format!("{n:04}-{}", twin::hash_to_string(hash)))).unwrap()
    };
    assert!(leaves.iter().enumerate().flat_map(read).collect::<Vec<_>>() == data);
}

#[test]
fn what_does_not_fit_leaves_nothing_behind() {
    let folder = Folder::new();
    let input = folder.path().join("big");
    fs::File::create(&input).unwrap().set_len(65 << 20).unwrap();
    let input = input.to_str().unwrap();
    let complaint = drystone(["xorb", "build", input, "-o", &folder.at("out")]).run().fails(1);
    assert!(complaint.contains("64 MiB") && complaint.contains("--xorbs"), "{complaint}");
    assert!(complaint.contains(input), "{complaint}");

    let empty = folder.put("empty", "");
    let complaint = drystone(["xorb", "build", &empty, "-o", &folder.at("out")]).run().fails(1);
    assert!(complaint.contains("empty"), "{complaint}");

    let missing = folder.at("missing");
    let complaint = drystone(["xorb", "build", &missing, "-o", &folder.at("out")]).run().fails(1);
    assert!(complaint.contains(&missing), "{complaint}");
    assert_eq!(folder.names(), ["big", "empty"]);
}

#[test]
fn a_damaged_xorb_is_not_unpacked() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(6, 700_000));
    drystone(["xorb", "build", &input, "-o", &folder.at("whole")]).run().ok();
    let mut bytes = folder.read("whole");
    bytes[600_000] ^= 1;
    let damaged = folder.put("damaged", bytes);
    for to in [["-o", &folder.at("out")], ["--chunks", &folder.at("out")]] {
        let complaint = drystone(["xorb", "unpack", &damaged]).args(to).run().fails(1);
        assert!(complaint.contains("offset") && complaint.contains(&damaged), "{complaint}");
    }
    let other = "1".repeat(64);
    let complaint =
        drystone(["xorb", "unpack", &folder.at("whole"), "--hash", &other, "-o", &folder.at("out")])
            .run()
            .fails(1);
    assert!(complaint.contains(&other), "{complaint}");
    assert_eq!(folder.names(), ["damaged", "input", "whole"]);
}

/// A device is written to, never replaced; a link keeps pointing where it did.
#[cfg(target_os = "linux")]
#[test]
fn devices_and_links_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(6, 50_000));
    drystone(["xorb", "build", &input, "-o", &folder.at("target")]).run().ok();
    let expected = folder.read("target");

    // A pipe of ours stands for a device: were it replaced, nobody else would suffer.
    let pipe = folder.path().join("pipe");
    assert_eq!(
        testkit::command::Call::new("/usr/bin/env").args(["mkfifo", pipe.to_str().unwrap()]).run().code,
        Some(0)
    );
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    drystone(["xorb", "build", &input, "-o", pipe.to_str().unwrap()]).run().ok();
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(reader.join().unwrap() == expected);

    folder.put("target", "old");
    symlink("target", folder.path().join("link")).unwrap();
    drystone(["xorb", "build", &input, "-o", &folder.at("link")]).run().ok();
    assert!(fs::symlink_metadata(folder.at("link")).unwrap().is_symlink());
    assert!(folder.read("target") == expected);

    // The rights are those of any new file.
    let script = format!(
        "umask 077; exec {} xorb build {input} -o {}",
        env!("CARGO_BIN_EXE_drystone"),
        folder.at("private")
    );
    testkit::command::Call::new("/bin/sh").args(["-c", &script]).run().ok();
    assert_eq!(fs::metadata(folder.at("private")).unwrap().permissions().mode() & 0o777, 0o600);
}

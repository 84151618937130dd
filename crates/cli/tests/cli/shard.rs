//! `shard build` and `shard dump`: what they describe can be had back, byte for byte.

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};
use testkit::vectors::model::{ShardFile, ShardInput};
use testkit::{Vectors, corpus, hex, sha256, twin};

use super::{Folder, drystone, json, number, text, vector};

/// Files that share chunks among them and within themselves, one of them empty, one there twice.
fn files(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let base = corpus::noise(1, 900_000);
    let mut longer = base.clone();
    longer.extend(corpus::text(2, 300_000));
    let moved = [&base[500_000..], &base[..500_000]].concat();
    let parts = [base.clone(), longer, moved, base, vec![0; 700_000], Vec::new(), b"!".to_vec()];
    parts.into_iter().enumerate().map(|(n, data)| (folder.put(&format!("file{n}"), &data), data)).collect()
}

#[test]
fn terms_and_xorbs_give_every_file_back() {
    let folder = Folder::new();
    let files = files(&folder);
    for (scheme, footer) in [("auto", "none"), ("none", "v1"), ("bg4-lz4", "v0")] {
        let (shard, xorbs) = (folder.at("up.shard"), folder.at(&format!("xorbs-{footer}")));
        let options = ["-o", &shard, "--xorbs", &xorbs, "--scheme", scheme, "--footer", footer];
        let hash =
            drystone(["shard", "build"]).args(options).args(files.iter().map(|file| &file.0)).run().ok();
        drystone(["check", "--as", "shard-upload", "--hash", hash.trim_end(), &shard]).run().ok();
        come_back(&shard, &xorbs, footer != "none", files.iter().map(|file| &file.1));
    }
}

#[test]
fn a_large_file_takes_several_xorbs() {
    let folder = Folder::new();
    let data = corpus::noise(7, 66 << 20);
    let input = folder.put("big", &data);
    let (shard, xorbs) = (folder.at("up.shard"), folder.at("xorbs"));
    let options = ["-o", &shard, "--xorbs", &xorbs, "--scheme", "none", "--form", "stored"];
    drystone(["shard", "build", &input]).args(options).run().ok();
    drystone(["check", "--as", "shard-stored", &shard]).run().ok();
    assert_eq!(fs::read_dir(&xorbs).unwrap().count(), 2);
    come_back(&shard, &xorbs, false, [&data]);
}

/// Unpacks the xorbs and puts every file together again, from what the shard says alone.
fn come_back<'a>(shard: &str, xorbs: &str, with_footer: bool, files: impl IntoIterator<Item = &'a Vec<u8>>) {
    let described = json(drystone(["shard", "dump", shard]));
    let mut raw_of = HashMap::new();
    for xorb in described["xorbs"].as_array().unwrap() {
        let hash = text(xorb, "hash");
        let path = format!("{xorbs}/{hash}");
        assert_eq!(fs::metadata(&path).unwrap().len(), number(xorb, "stored_bytes"));
        let kind = if with_footer { "xorb-stored" } else { "xorb-upload" };
        drystone(["check", "--as", kind, "--hash", hash, &path]).run().ok();
        let raw = drystone(["xorb", "unpack", "-o", "-", &path]).run();
        assert_eq!((raw.code, raw.stdout.len() as u64), (Some(0), number(xorb, "raw_bytes")));
        raw_of.insert(hash, (raw.stdout, xorb));
    }
    assert_eq!(fs::read_dir(xorbs).unwrap().count(), raw_of.len());

    let mut rebuilt = HashMap::new();
    for file in described["files"].as_array().unwrap() {
        let mut data = Vec::new();
        for term in file["terms"].as_array().unwrap() {
            let (raw, xorb) = &raw_of[text(term, "xorb")];
            let [start, end] = [0, 1].map(|n| usize::try_from(term["chunks"][n].as_u64().unwrap()).unwrap());
            let chunks = &xorb["chunks"].as_array().unwrap()[start..end];
            let at = usize::try_from(number(&chunks[0], "raw_start")).unwrap();
            let bytes = usize::try_from(number(term, "raw_bytes")).unwrap();
            data.extend_from_slice(&raw[at..at + bytes]);
            let hashes: Vec<_> =
                chunks.iter().map(|chunk| twin::string_to_hash(text(chunk, "hash"))).collect();
            let range = twin::compute_verification_hash(&hashes, 0, hashes.len());
            assert_eq!(text(term, "verification"), twin::hash_to_string(&range));
        }
        assert_eq!(number(file, "size"), data.len() as u64);
        assert_eq!(text(file, "sha256"), hex(&sha256(&data)));
        assert!(rebuilt.insert(data, text(file, "hash")).is_none(), "a file is there twice");
    }
    let mut seen = std::collections::HashSet::new();
    for file in files {
        let hash = twin::hash_to_string(&twin::compute_file_hash(&twin::leaves(file)));
        assert_eq!(rebuilt.get(file), Some(&hash.as_str()));
        seen.insert(file);
    }
    assert_eq!(seen.len(), rebuilt.len());
}

#[test]
fn every_form_is_sound() {
    let folder = Folder::new();
    let files = files(&folder);
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let forms: [(&str, &[&str], &str); 8] = [
        ("upload", &[], "shard-upload"),
        ("stored", &[], "shard-stored"),
        ("minimal", &[], "shard-stored"),
        ("dedup", &[], "shard-stored"),
        ("stored", &["--no-verification", "--no-sha256"], "shard-stored"),
        ("upload", &["--no-verification"], "shard-upload"),
        ("dedup", &["--key", key, "--created", "5", "--expires", "77"], "shard-stored"),
        ("stored", &["--key", key], "shard-stored"),
    ];
    for (form, options, kind) in forms {
        let shard = folder.at("out.shard");
        let build = drystone(["shard", "build", "--form", form, "-o", &shard]).args(options);
        let hash = build.args(files.iter().map(|file| &file.0)).run().ok();
        drystone(["check", "--as", kind, "--hash", hash.trim_end(), &shard]).run().ok();

        let found = json(drystone(["shard", "dump", &shard]));
        let listed = found["files"].as_array().unwrap();
        assert_eq!(listed.len(), if form == "dedup" { 0 } else { 6 }, "{form}: six different files");
        assert_eq!(found.get("footer").is_some(), form != "upload");
        assert_eq!(found.get("tables").is_some(), form == "stored");
        let has = |option| options.contains(&option);
        for file in listed {
            assert_eq!(file.get("sha256").is_none(), has("--no-sha256"));
            for term in file["terms"].as_array().unwrap() {
                assert_eq!(term.get("verification").is_none(), has("--no-verification"));
            }
        }
        if has("--created") {
            assert_eq!((&found["footer"]["created"], &found["footer"]["expires"]), (&json!(5), &json!(77)));
        }
        if has("--key") {
            assert_eq!(text(&found["footer"], "chunk_hash_key"), key);
            let chunk = twin::leaves(&files[0].1)[0].0;
            let keyed = twin::blake3_keyed_hash(&testkit::unhex32(key), &chunk);
            assert_eq!(text(&found["xorbs"][0]["chunks"][0], "hash"), twin::hash_to_string(&keyed));
        }
        if form == "dedup" {
            let flags = number(&found["xorbs"][0]["chunks"][0], "flags");
            assert_eq!(flags, 1 << 31, "a chunk that begins a file is eligible");
        }
        comes_again(&shard, form);
    }
}

/// Dumps a shard and builds it from that: the same bytes.
fn comes_again(shard: &str, name: &str) {
    let dumped = drystone(["shard", "dump", shard]).run().ok();
    let ended = drystone(["shard", "build", "--from", "-", "-o", "-"]).stdin(dumped).run();
    assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
    assert!(ended.stdout == fs::read(shard).unwrap(), "{name}: other bytes");
}

#[test]
fn every_golden_shard_is_built_again_from_its_dump() {
    let vectors = Vectors::open();
    for file in vectors.manifest.shards.iter().flat_map(|shard| &shard.files) {
        comes_again(&vector(&vectors, &file.file), &file.file);
    }
    let Some(official) = &vectors.manifest.official else { return };
    for file in official.ev_population.shards.values().chain([&official.gpt2_dedup_shard.shard]) {
        comes_again(&vector(&vectors, file), file);
    }
}

/// From the dump of an upload, the bytes the reference gives the other forms.
#[test]
fn the_forms_of_golden_shards_follow_from_their_uploads() {
    let vectors = Vectors::open();
    let mut compared = 0;
    for group in &vectors.manifest.shards {
        let upload = group.files.iter().find(|file| file.form.kind == "upload").unwrap();
        let dumped = drystone(["shard", "dump", &vector(&vectors, &upload.file)]).run().ok();
        for file in group.files.iter().filter(|file| file.form.hmac_key.is_none()) {
            let Some(options) = options_for(file) else { continue };
            let build = drystone(["shard", "build", "--from", "-", "-o", "-"]).args(options);
            let built = build.stdin(dumped.clone()).run();
            assert_eq!(built.code, Some(0), "{}: {}", file.file, built.stderr);
            assert!(built.stdout == vectors.read(&file.file), "{}", file.file);
            compared += 1;
        }
    }
    assert!(compared >= 24, "{compared}");
}

/// From the files themselves, where the reference puts all chunks into one xorb as we do.
#[test]
fn golden_shards_are_built_from_their_files() {
    let vectors = Vectors::open();
    let folder = Folder::new();
    let mut compared = 0;
    for group in &vectors.manifest.shards {
        if group.mode != "merged" || group.num_bytes_on_disk_filled || group.inputs.is_empty() {
            continue;
        }
        let input =
            |(n, input): (usize, &ShardInput)| folder.put(&n.to_string(), vectors.make(&input.recipe));
        let inputs: Vec<_> = group.inputs.iter().enumerate().map(input).collect();
        let left_out = [("--no-sha256", group.with_sha256), ("--no-verification", group.with_verification)];
        for file in &group.files {
            let Some(options) = options_for(file) else { continue };
            let left_out = left_out.iter().filter(|option| !option.1).map(|option| option.0);
            let built =
                drystone(["shard", "build", "-o", "-"]).args(options).args(left_out).args(&inputs).run();
            assert_eq!(built.code, Some(0), "{}: {}", file.file, built.stderr);
            assert!(built.stdout == vectors.read(&file.file), "{}", file.file);
            compared += 1;
        }
    }
    assert!(compared >= 18, "{compared}");
}

/// How to ask for the form a golden shard has; none where there are no words for it.
fn options_for(file: &ShardFile) -> Option<Vec<String>> {
    let form = match file.form.kind.as_str() {
        "upload" => "upload",
        "stored" | "keyed_full" => "stored",
        "xorb_only" => "dedup",
        "dedup" if file.chunk_lookup.is_none() => "dedup",
        _ => return None,
    };
    let mut options = vec!["--form".to_owned(), form.to_owned()];
    if let Some(footer) = &file.footer {
        let (created, expires) = (footer.shard_creation_timestamp, footer.expiry());
        options.extend([format!("--created={created}"), format!("--expires={expires}")]);
        if file.form.hmac_key.is_some() {
            options.push(format!("--key={}", footer.chunk_hash_hmac_key_raw_hex));
        }
    }
    Some(options)
}

#[test]
fn a_description_that_is_wrong_is_named_with_its_line() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(1, 10_000));
    drystone(["shard", "build", &input, "-o", &folder.at("a.shard")]).run().ok();
    let dumped = drystone(["shard", "dump", &folder.at("a.shard")]).run().ok();
    let line = dumped.lines().position(|line| line.contains("\"raw_bytes\"")).unwrap() + 1;
    let broken = folder.put("broken.json", dumped.replacen("\"raw_bytes\": ", "\"raw_bytes\": x", 1));

    let complaint = drystone(["shard", "build", "--from", &broken, "-o", &folder.at("b")]).run().fails(1);
    assert!(complaint.contains(&format!("line {line} ")) && complaint.contains(&broken), "{complaint}");
    let complaint =
        drystone(["shard", "build", "--from", "-", "-o", &folder.at("b")]).stdin("{").run().fails(1);
    assert!(complaint.contains("line 1 "), "{complaint}");

    // JSON, but of a xorb.
    drystone(["xorb", "build", &input, "-o", &folder.at("a.xorb")]).run().ok();
    let xorb = drystone(["inspect", "--json", &folder.at("a.xorb")]).run().ok();
    let complaint =
        drystone(["shard", "build", "--from", "-", "-o", &folder.at("b")]).stdin(xorb).run().fails(1);
    assert!(complaint.contains("line 2 "), "{complaint}");
    assert!(!folder.names().contains(&"b".to_owned()));
}

#[test]
fn a_key_has_no_place_in_an_upload() {
    let folder = Folder::new();
    let input = folder.put("input", corpus::noise(1, 10_000));
    let (key, out) = ("12".repeat(32), folder.at("out"));
    for option in [["--key", &key], ["--created", "1"], ["--expires", "1"]] {
        let build = drystone(["shard", "build", &input, "-o", &out]).args(option);
        let complaint = build.args(["--form", "upload"]).run().fails(2);
        assert!(complaint.contains(option[0]), "{complaint}");
    }
    drystone(["shard", "build", &input, "-o", &out, "--created", "1"]).run().ok();
    drystone(["check", "--as", "shard-stored", &out]).run().ok();

    drystone(["shard", "build", &input, "--key", &key, "--form", "stored", "-o", &out]).run().ok();
    let dumped = drystone(["shard", "dump", &out]).run().ok();
    let call = drystone(["shard", "build", "--from", "-", "--form", "upload", "-o", &folder.at("b")]);
    let complaint = call.stdin(dumped).run().fails(1);
    assert!(complaint.contains("keyed"), "{complaint}");
    assert_eq!(folder.names(), ["input", "out"]);
}

/// The dump says what `inspect` says.
#[test]
fn a_dump_is_what_inspect_shows() {
    let vectors = Vectors::open();
    let path = vector(&vectors, &vectors.manifest.shards[0].files[0].file);
    let dumped: Value = json(drystone(["shard", "dump", &path]));
    assert_eq!(dumped, json(drystone(["inspect", "--json", &path])));
}

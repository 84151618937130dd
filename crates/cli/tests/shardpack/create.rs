//! Making packs and getting everything out of them again.

use super::{Folder, files, json, keys, shardpack};

/// The command of the specification, word for word.
#[test]
fn the_example_of_the_specification_works() {
    let folder = Folder::new();
    folder.put_all("input_data_directory", &files());
    let ended = shardpack([
        "create",
        "--input",
        "input_data_directory",
        "--output",
        "dataset-train-000000.shardpack",
        "--record-size-limit",
        "1GB",
        "--compression",
        "lz4",
        "--metadata",
        "creator=MyName",
        "training=true",
    ])
    .dir(folder.path())
    .run();
    let message = ended.ok();
    assert!(message.contains("13 records") && message.contains("31 entries"), "{message}");
    let pack = folder.at("dataset-train-000000.shardpack");
    let list = json(["list", &pack, "--json"]);
    assert_eq!(list["metadata"], serde_json::json!({ "creator": "MyName", "training": "true" }));
    let records = list["records"].as_array().unwrap();
    let one = records.iter().find(|record| record["key"] == "images1/image001").unwrap();
    let entries: Vec<_> = one["entries"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&entries[0]["name"], &entries[0]["content_type"]),
        (&"left.jpg".into(), &"image/jpeg".into())
    );
    assert_eq!((&entries[1]["name"], &entries[1]["compression"]), (&"meta.json".into(), &"lz4".into()));
    shardpack(["verify", &pack]).run().ok();

    // The sketch of the specification reads by offset: list shows them, cat takes them.
    let offset = one["offset"].to_string();
    let by_offset = shardpack(["cat", &pack, "--offset", &offset, "left.jpg"]).run();
    assert_eq!(by_offset.stdout, files()["images1/image001.left.jpg"]);
}

#[test]
fn files_come_back_byte_for_byte_whatever_the_grouping_and_compression() {
    let folder = Folder::new();
    let files = files();
    folder.put_all("in", &files);
    let input = folder.at("in");
    for group in ["first-dot", "last-dot", "dir", "file"] {
        for compression in ["none", "gzip", "lz4", "zstd", "auto"] {
            let name = format!("{group}-{compression}");
            let (pack, out) = (folder.at(&format!("{name}.shardpack")), folder.at(&name));
            let options = ["--group", group, "--compression", compression];
            shardpack(["create", "--input", &input, "--output", &pack]).args(options).run().ok();
            shardpack(["verify", &pack]).run().ok();
            shardpack(["extract", &pack, "--output", &out]).run().ok();
            assert_eq!(folder.all(&name), files, "{name}");
        }
    }
    assert_eq!(keys(&folder.at("dir-none.shardpack")), [".", "images0", "images1", "images2"]);
    assert_eq!(keys(&folder.at("file-none.shardpack")).len(), files.len());
}

#[test]
fn the_same_files_give_the_same_bytes_on_any_number_of_threads() {
    let folder = Folder::new();
    folder.put_all("in", &files());
    let input = folder.at("in");
    for (name, threads) in [("a", "1"), ("b", "4")] {
        let pack = folder.at(name);
        let options = ["--compression", "zstd", "--threads", threads];
        shardpack(["create", "-i", &input, "-o", &pack]).args(options).run().ok();
    }
    assert_eq!(folder.read("a"), folder.read("b"));
    shardpack(["create", "-i", &input, "-o", &folder.at("c"), "--timestamp"]).run().ok();
    assert_ne!(folder.read("a"), folder.read("c"));
}

#[test]
fn packs_follow_each_other_by_size_and_by_count() {
    let folder = Folder::new();
    folder.put_all("in", &files());
    let input = folder.at("in");
    let by_size = folder.at("size/train.shardpack");
    std::fs::create_dir(folder.path().join("size")).unwrap();
    let made = json(["create", "-i", &input, "-o", &by_size, "--shard-size", "6KB", "--json"]);
    let packs = made["packs"].as_array().unwrap();
    assert!(packs.len() > 2 && packs.iter().all(|pack| pack["bytes"].as_u64().unwrap() <= 6000), "{made}");
    assert!(packs[1]["pack"].as_str().unwrap().ends_with("train-000001.shardpack"));
    assert_eq!(keys(&folder.at("size")).len(), 13);
    assert_eq!(keys(&folder.at("size/train-{000000..000002}.shardpack"))[0], "README");

    let made =
        json(["create", "-i", &input, "-o", &folder.at("n.shardpack"), "--shard-count", "4", "--json"]);
    assert_eq!(made["packs"].as_array().unwrap().len(), 4);
}

#[test]
fn a_tar_from_standard_input_and_a_manifest_are_input_too() {
    let folder = Folder::with_pack();
    let pack = folder.at("a.shardpack");
    let tar = shardpack(["extract", &pack, "--output", "-"]).run();
    assert_eq!(tar.code, Some(0), "{}", tar.stderr);
    let again = folder.at("again.shardpack");
    shardpack(["create", "--input", "-", "--output", &again]).stdin(tar.stdout).run().ok();
    assert_eq!(keys(&again), keys(&pack));
    assert_eq!(
        folder.read("again.shardpack"),
        folder.read("a.shardpack"),
        "the same samples, the same bytes"
    );

    folder.put("files/x.png", b"png");
    let line = r#"{"key": "k", "metadata": {"label": 3}, "files": ["files/x.png", {"path": "files/x.png", "name": "y", "content_type": "a/b"}]}"#;
    let manifest = folder.put("list.jsonl", line);
    let out = folder.at("manifest.shardpack");
    shardpack(["create", "--manifest", &manifest, "--output", &out]).run().ok();
    let record = json(["cat", &out, "k"]);
    assert_eq!(record["metadata"], serde_json::json!({ "label": 3 }));
    assert_eq!(record["entries"][0]["content_type"], "image/png");
    assert_eq!(record["entries"][1]["content_type"], "a/b");
    for (text, message) in
        [("{", "line 1"), (r#"{"key":"a","files":["none"]}"#, "none"), (r#"{"key":"a","own":1}"#, "own")]
    {
        let manifest = folder.put("wrong.jsonl", text);
        let complaint = shardpack(["create", "--manifest", &manifest, "--output", &out]).run().fails(1);
        assert!(complaint.contains(message), "{complaint}");
    }
}

#[test]
fn files_that_would_be_the_same_entry_are_named() {
    let folder = Folder::new();
    folder.put("in/x", "1");
    folder.put("in/x.x", "2");
    let complaint = shardpack(["create", "-i", &folder.at("in"), "-o", &folder.at("o")]).run().fails(1);
    assert!(complaint.contains("in/x ") && complaint.contains("in/x.x"), "{complaint}");
    assert!(!folder.path().join("o").exists());
}

#[test]
fn a_record_above_the_limit_is_an_error_left_out_or_divided() {
    let folder = Folder::new();
    for name in ["a.1", "a.2", "a.3", "b.1"] {
        folder.put(&format!("in/{name}"), vec![7; 600]);
    }
    let (input, out) = (folder.at("in"), folder.at("o.shardpack"));
    let create = |oversize: &str| {
        shardpack(["create", "-i", &input, "-o", &out, "--record-size-limit", "1500", "--oversize", oversize])
            .run()
    };
    let complaint = create("error").fails(1);
    assert!(complaint.contains("\"a\"") && complaint.contains("--oversize"), "{complaint}");
    assert!(create("skip").stderr.contains("\"a\""));
    assert_eq!(keys(&out), ["b"]);
    create("split").ok();
    assert_eq!(keys(&out), ["a", "a#1", "b"]);
}

#[test]
fn hidden_files_links_and_types_follow_the_options() {
    let folder = Folder::new();
    folder.put("in/.hidden.txt", "h");
    folder.put("in/cloud.las", "l");
    let (input, out) = (folder.at("in"), folder.at("o.shardpack"));
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.put("target", "t"), folder.path().join("in/link.txt")).unwrap();
    shardpack(["create", "-i", &input, "-o", &out]).run().ok();
    assert_eq!(keys(&out), ["cloud"]);
    let options = ["--hidden", "--follow-links", "--content-type", "las=x/las"];
    shardpack(["create", "-i", &input, "-o", &out]).args(options).run().ok();
    assert_eq!(
        keys(&out),
        if cfg!(unix) { vec![".hidden", "cloud", "link"] } else { vec![".hidden", "cloud"] }
    );
    assert_eq!(json(["cat", &out, "cloud"])["entries"][0]["content_type"], "x/las");
}

#[test]
fn one_entry_and_one_record_are_shown() {
    let folder = Folder::with_pack();
    let pack = folder.at("a.shardpack");
    let image = shardpack(["cat", &pack, "images2/image002", "left.jpg"]).run();
    assert_eq!(image.stdout, files()["images2/image002.left.jpg"]);
    let record = json(["cat", &pack, "images2/image002"]);
    assert_eq!(record["key"], "images2/image002");
    assert!(record["entries"][2]["text"].as_str().unwrap().starts_with("{\"n\":2"), "{record}");
    assert_eq!(json(["cat", &pack, "--ordinal", "0"])["key"], "README");
    for (args, message) in [
        (vec!["cat", &pack, "nobody"], "nobody"),
        (vec!["cat", &pack, "README", "x"], "README"),
        (vec!["cat", &pack, "--ordinal", "99"], "99"),
        (vec!["cat", &pack, "--offset", "3"], "3"),
        (vec!["cat", &pack], "--ordinal"),
    ] {
        let complaint = shardpack(args).run().fails(1);
        assert!(complaint.contains(message), "{complaint}");
    }
    let long = shardpack(["list", &pack, "--long", "--range", "1-3"]).run().ok();
    assert_eq!(long.lines().count(), 2, "{long}");
    assert!(long.contains("left.jpg:"), "{long}");
}

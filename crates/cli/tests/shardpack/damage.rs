//! Damaged packs, packs that are none, and names that lead elsewhere.

use super::{Folder, files, json, keys, shardpack};

#[test]
fn verify_ends_with_0_1_or_2() {
    let folder = Folder::with_pack();
    let (pack, sound) = (folder.at("a.shardpack"), folder.read("a.shardpack"));
    let report = shardpack(["verify", &pack]).run().ok();
    assert!(report.contains("sound, 13 records"), "{report}");
    assert_eq!(json(["verify", &pack, "--json"])["sound"], true);

    let jpeg = &files()["images0/image003.left.jpg"];
    let at = sound.windows(jpeg.len()).position(|window| window == jpeg).unwrap();
    let mut bytes = sound.clone();
    bytes[at + 5] ^= 1;
    let flipped = folder.put("flipped.shardpack", &bytes);
    let ended = shardpack(["verify", &flipped]).run();
    let report = String::from_utf8(ended.stdout.clone()).unwrap();
    assert_eq!(ended.code, Some(1));
    for word in ["flipped.shardpack", "images0/image003", "left.jpg", &at.to_string()] {
        assert!(report.contains(word), "{report} does not name {word}");
    }
    assert_eq!(shardpack(["verify", "--quick", &flipped]).run().code, Some(0));
    let complaint = shardpack(["cat", &flipped, "images0/image003", "left.jpg"]).run().fails(1);
    assert!(complaint.contains("images0/image003") && complaint.contains("left.jpg"), "{complaint}");
    // The other entry of the same record is sound.
    assert_eq!(
        shardpack(["cat", &flipped, "images0/image003", "meta.json"]).run().stdout,
        files()["images0/image003.meta.json"]
    );

    let cut = folder.put("cut.shardpack", &sound[..sound.len() * 8 / 10]);
    assert_eq!(shardpack(["verify", &cut]).run().code, Some(1));
    assert_eq!(shardpack(["verify", &folder.put("text", "hello, this is text")]).run().code, Some(2));
    assert_eq!(shardpack(["verify", &folder.put("empty", "")]).run().code, Some(2));
    assert_eq!(shardpack(["verify", &pack, &flipped]).run().code, Some(1));
    assert_eq!(shardpack(["verify", &folder.at("none")]).run().code, Some(1));
}

#[test]
fn repair_keeps_every_whole_record_and_lists_the_rest() {
    let folder = Folder::with_pack();
    let (all, sound) = (keys(&folder.at("a.shardpack")), folder.read("a.shardpack"));
    let list = json(["list", &folder.at("a.shardpack"), "--json"]);
    let ends: Vec<u64> = list["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["offset"].as_u64().unwrap() + record["size"].as_u64().unwrap())
        .collect();
    let len = sound.len() * 6 / 10;
    let whole = ends.iter().filter(|&&end| end <= len as u64).count();
    let cut = folder.put("cut.shardpack", &sound[..len]);
    let complaint = shardpack(["list", &cut]).run().fails(1);
    assert!(complaint.contains("repair"), "{complaint}");
    assert_eq!(shardpack(["list", &cut, "--recover"]).run().ok().lines().count(), whole);

    let new = folder.at("new.shardpack");
    let repaired = json(["repair", &cut, "--output", &new, "--json"]);
    assert_eq!(
        (repaired["kept"].as_u64(), repaired["lost"].as_array().unwrap().len()),
        (Some(whole as u64), 1)
    );
    assert_eq!(repaired["lost"][0]["key"], all[whole].as_str());
    shardpack(["verify", &new]).run().ok();
    assert_eq!(keys(&new), all[..whole]);
    assert_eq!(folder.read("cut.shardpack"), sound[..len], "the damaged pack is not touched");
    let complaint = shardpack(["repair", &cut, "--output", &cut]).run().fails(1);
    assert!(complaint.contains("in place"), "{complaint}");
    shardpack(["repair", &folder.put("text", "no pack"), "--output", &new]).run().fails(1);
}

/// Untrusted keys and names: none is written outside the folder or over an existing file.
#[cfg(unix)]
#[test]
fn no_name_leads_out_of_the_output_folder() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    folder.put("x", "data");
    for (number, (key, name)) in [
        ("../up", "txt"),
        ("/abs", "txt"),
        ("a/../../up", "txt"),
        ("a", "/../../up"),
        ("a//b", "x"),
        ("..", ""),
        ("a/./b", "c"),
    ]
    .iter()
    .enumerate()
    {
        let line = serde_json::json!({ "key": key, "files": [{ "path": "x", "name": name }] });
        let manifest = folder.put("m.jsonl", line.to_string());
        let pack = folder.at(&format!("{number}.shardpack"));
        shardpack(["create", "--manifest", &manifest, "--output", &pack]).run().ok();
        let out = folder.at("deep/er/out");
        let before = folder.all("");
        let complaint = shardpack(["extract", &pack, "--output", &out]).run().fails(1);
        assert!(complaint.contains("would be the file"), "{key}: {complaint}");
        let mut after = folder.all("");
        after.retain(|name, _| !before.contains_key(name));
        assert!(after.is_empty(), "{key}: {after:?}");
    }

    // A link in the way is not followed, and nothing is replaced unasked.
    let folder = Folder::with_pack();
    std::fs::create_dir_all(folder.path().join("out")).unwrap();
    std::fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
    symlink(folder.path().join("elsewhere"), folder.path().join("out/images0")).unwrap();
    shardpack(["extract", &folder.at("a.shardpack"), "--output", &folder.at("out")]).run().fails(1);
    assert!(folder.all("elsewhere").is_empty());
    let pack = folder.at("a.shardpack");
    let again = folder.at("again");
    shardpack(["extract", &pack, "--output", &again]).run().ok();
    let complaint = shardpack(["extract", &pack, "--output", &again]).run().fails(1);
    assert!(complaint.contains("--force"), "{complaint}");
    shardpack(["extract", &pack, "--output", &again, "--force"]).run().ok();
    assert_eq!(folder.all("again"), files());
}

#[test]
fn a_damaged_record_can_be_left_out() {
    let folder = Folder::with_pack();
    let mut bytes = folder.read("a.shardpack");
    let jpeg = &files()["images0/image003.left.jpg"];
    let at = bytes.windows(jpeg.len()).position(|window| window == jpeg).unwrap();
    bytes[at] ^= 1;
    let pack = folder.put("b.shardpack", bytes);
    shardpack(["extract", &pack, "--output", &folder.at("one")]).run().fails(1);
    let ended = shardpack(["extract", &pack, "--output", &folder.at("two"), "--skip-damaged"]).run();
    assert!(ended.code == Some(1) && ended.stderr.contains("images0/image003"), "{}", ended.stderr);
    assert_eq!(folder.all("two").len(), files().len() - 2);
}

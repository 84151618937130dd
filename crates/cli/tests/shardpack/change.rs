//! Merging, dividing, counting.

use super::{Folder, files, json, keys, shardpack};

#[test]
fn what_was_divided_is_merged_to_the_same_bytes() {
    let folder = Folder::with_pack();
    let pack = folder.at("a.shardpack");
    for (how, value) in [("--count", "5"), ("--size", "5KB")] {
        let name = how.trim_start_matches('-');
        let out = folder.at(&format!("{name}/part.shardpack"));
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let made = json(["split", &pack, how, value, "--output", &out, "--json"]);
        assert!(made["packs"].as_array().unwrap().len() > 2, "{made}");
        let whole = folder.at(&format!("{name}.shardpack"));
        shardpack(["merge", &folder.at(name), "--output", &whole]).run().ok();
        assert_eq!(folder.read(&format!("{name}.shardpack")), folder.read("a.shardpack"));
    }
    let complaint = shardpack(["merge", &pack, &pack, "--output", &folder.at("twice")]).run().fails(1);
    assert!(complaint.contains("README"), "{complaint}");
    shardpack(["merge", &pack, &pack, "--output", &folder.at("twice"), "--allow-repeated"]).run().ok();
    assert_eq!(keys(&folder.at("twice")).len(), 26);
    shardpack(["verify", &folder.at("twice")]).run().ok();
}

#[test]
fn a_fraction_and_a_list_of_keys_choose_records() {
    let folder = Folder::new();
    for n in 0..400 {
        folder.put(&format!("in/{n:04}.txt"), n.to_string());
    }
    let pack = folder.at("all.shardpack");
    shardpack(["create", "-i", &folder.at("in"), "-o", &pack]).run().ok();
    let (val, train) = (folder.at("val.shardpack"), folder.at("train.shardpack"));
    shardpack(["split", &pack, "--fraction", "0.25", "-o", &val, "--rest", &train]).run().ok();
    let (in_val, in_train) = (keys(&val), keys(&train));
    assert!((60..140).contains(&in_val.len()), "{}", in_val.len());
    assert_eq!(in_val.len() + in_train.len(), 400);
    assert!(in_val.iter().all(|key| !in_train.contains(key)));
    // The same keys go the same way from another pack.
    let half = folder.at("half.shardpack");
    shardpack(["split", &train, "--fraction", "0.25", "-o", &half]).run().ok();
    assert!(keys(&half).is_empty());

    let list = folder.put("keys.txt", "0007\n0123\n");
    shardpack(["split", &pack, "--keys", &list, "-o", &half]).run().ok();
    assert_eq!(keys(&half), ["0007", "0123"]);
    let list = folder.put("keys.txt", "0007\nnobody\n");
    assert!(shardpack(["split", &pack, "--keys", &list, "-o", &half]).run().fails(1).contains("nobody"));
}

#[test]
fn columns_are_put_side_by_side() {
    let folder = Folder::new();
    for n in 0..5 {
        folder.put(&format!("left/{n}.left.txt"), "l");
        folder.put(&format!("right/{n}.right.txt"), "r");
    }
    folder.put("left/9.left.txt", "alone");
    for side in ["left", "right"] {
        let out = folder.at(&format!("{side}.shardpack"));
        shardpack(["create", "-i", &folder.at(side), "-o", &out, "--column", side]).run().ok();
    }
    let (left, right, both) =
        (folder.at("left.shardpack"), folder.at("right.shardpack"), folder.at("both.shardpack"));
    let merge = |missing: &str| {
        shardpack(["merge", &left, "--column", &right, "--missing", missing, "--output", &both]).run()
    };
    assert!(merge("error").fails(1).contains("\"9\""));
    merge("skip").ok();
    assert_eq!(keys(&both).len(), 5);
    merge("partial").ok();
    assert_eq!(keys(&both).len(), 6);
    assert_eq!(json(["cat", &both, "3"])["entries"].as_array().unwrap().len(), 2);
}

#[test]
fn counts_and_the_dataset_index_are_right() {
    let folder = Folder::with_pack();
    let pack = folder.at("a.shardpack");
    let stats = json(["stats", &pack, "--json"]);
    let payload: usize = files().values().map(Vec::len).sum();
    assert_eq!((stats["records"].as_u64(), stats["entries"].as_u64()), (Some(13), Some(31)));
    assert_eq!(stats["payload_bytes"].as_u64(), Some(payload as u64));
    assert!(shardpack(["stats", &pack]).run().ok().contains("left.jpg"));
    let against = json(["stats", &pack, "--against", &pack, "--json"]);
    assert_eq!(against["new_bytes"].as_u64(), Some(0));

    let index = json(["index", &pack]);
    assert_eq!(index["packs"][0]["name"], "a.shardpack");
    shardpack(["index", &pack, "--write"]).run().ok();
    assert_eq!(keys(folder.path().to_str().unwrap()).len(), 13);
    assert!(folder.path().join("dataset.shardpack.json").exists());
}

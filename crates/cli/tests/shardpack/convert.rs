//! From and to other formats. The others' bytes are made here, by hand.

use super::{Folder, json, keys, shardpack};

#[test]
fn webdataset_goes_there_and_back() {
    let folder = Folder::with_pack();
    let (pack, tar) = (folder.at("a.shardpack"), folder.at("a.tar"));
    shardpack(["convert", &pack, "--to", "webdataset", "--output", &tar]).run().ok();
    let back = folder.at("back.shardpack");
    shardpack(["convert", &tar, "--output", &back]).run().ok();
    assert_eq!(folder.read("back.shardpack"), folder.read("a.shardpack"));
    shardpack(["convert", &pack, "--to", "webdataset", "--output", &tar, "--shard-size", "20KB"]).run().ok();
    shardpack(["convert", &folder.at("a-{000000..000001}.tar"), "--output", &back]).run().ok();
    assert_eq!(keys(&back), keys(&pack)[..keys(&back).len()]);
    let cut = folder.put("cut.tar", &folder.read("a.tar")[..3000]);
    assert!(shardpack(["convert", &cut, "--output", &back]).run().fails(1).contains("cut.tar"));
    assert!(
        shardpack(["convert", &folder.put("x.what", ""), "--output", &back])
            .run()
            .fails(1)
            .contains("--from")
    );
}

#[test]
fn an_image_folder_becomes_images_with_classes() {
    let folder = Folder::new();
    for (class, name) in [("cat", "1.jpg"), ("cat", "2.png"), ("dog", "3.jpg")] {
        folder.put(&format!("in/{class}/{name}"), name);
    }
    let out = folder.at("o.shardpack");
    shardpack(["convert", "--from", "image-folder", &folder.at("in"), "--output", &out]).run().ok();
    assert_eq!(keys(&out), ["cat/1", "cat/2", "dog/3"]);
    let dog = json(["cat", &out, "dog/3"]);
    assert_eq!(dog["metadata"], serde_json::json!({ "class": "dog", "label": 1 }));
    assert_eq!(dog["entries"][1]["text"], "1");
}

fn masked(data: &[u8]) -> [u8; 4] {
    ::shardpack::layout::crc(&[data]).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn tfrecord(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    [&len[..], &masked(&len), data, &masked(data)].concat()
}

fn field(number: u8, data: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(data.len()).unwrap()], data].concat()
}

#[test]
fn tfrecords_become_records_and_their_examples_entries() {
    let folder = Folder::new();
    let feature = |name: &str, kind: u8, list: &[u8]| {
        field(1, &[field(1, name.as_bytes()), field(2, &field(kind, list))].concat())
    };
    let image = feature("image", 1, &field(1, b"\xff\xd8\xff\xe0 jpeg"));
    let label = feature("label", 3, &field(1, &[7, 0x80, 0x01]));
    let weight = feature("weight", 2, &field(1, &1.5_f32.to_le_bytes()));
    let example = field(1, &[image, label, weight].concat());
    let file = [tfrecord(&example), tfrecord(b"\x00not an example")].concat();
    let input = folder.put("data.tfrecord", &file);
    let out = folder.at("o.shardpack");
    shardpack(["convert", &input, "--output", &out]).run().ok();
    let first = json(["cat", &out, "data/00000000"]);
    let shown: Vec<_> = first["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["name"].clone(), e["content_type"].clone(), e["text"].clone()))
        .collect();
    assert_eq!(shown[0], ("image".into(), "image/jpeg".into(), serde_json::Value::Null));
    assert_eq!(shown[1], ("label".into(), "application/json".into(), "[7,128]".into()));
    assert_eq!(shown[2].2, "[1.5]");
    assert_eq!(shardpack(["cat", &out, "data/00000001", "data"]).run().stdout, b"\x00not an example");

    let mut damaged = file.clone();
    damaged[20] ^= 1;
    let input = folder.put("bad.tfrecord", &damaged);
    assert!(shardpack(["convert", &input, "--output", &out]).run().fails(1).contains("CRC"));
    let input = folder.put("cut.tfrecord", &file[..file.len() - 3]);
    assert!(shardpack(["convert", &input, "--output", &out]).run().fails(1).contains("cut"));
}

#[test]
fn mds_shards_become_records() {
    let folder = Folder::new();
    // Two columns without a fixed size and one of 8 bytes, two samples.
    let sample = |text: &[u8], image: &[u8], number: i64| -> Vec<u8> {
        let sizes = [text.len(), image.len()].map(|len| u32::try_from(len).unwrap().to_le_bytes()).concat();
        [&sizes, text, image, &number.to_le_bytes()[..]].concat()
    };
    let samples = [sample(b"hello", b"\xff\xd8", 5), sample(b"", b"x", -1)];
    let head = 4 * 4;
    let mut offsets = vec![head];
    for sample in &samples {
        offsets.push(offsets.last().unwrap() + sample.len());
    }
    let mut shard = 2_u32.to_le_bytes().to_vec();
    for offset in offsets {
        shard.extend(u32::try_from(offset).unwrap().to_le_bytes());
    }
    shard.extend(samples.concat());
    folder.put("mds/shard.00000.mds", &shard);
    let index = serde_json::json!({ "version": 2, "shards": [{
        "column_names": ["caption", "image", "n"],
        "column_encodings": ["str", "jpeg", "int"],
        "column_sizes": [null, null, 8],
        "compression": null, "format": "mds", "hashes": [],
        "raw_data": { "basename": "shard.00000.mds", "bytes": shard.len(), "hashes": {} },
        "samples": 2, "size_limit": 1000, "version": 2, "zip_data": null,
    }]});
    folder.put("mds/index.json", index.to_string());
    let out = folder.at("o.shardpack");
    shardpack(["convert", &folder.at("mds"), "--output", &out]).run().ok();
    assert_eq!(keys(&out), ["shard.00000/00000000", "shard.00000/00000001"]);
    let first = json(["cat", &out, "shard.00000/00000000"]);
    assert_eq!(first["entries"][0]["text"], "hello");
    assert_eq!(first["entries"][2]["text"], "5");
    assert_eq!(shardpack(["cat", &out, "shard.00000/00000001", "n"]).run().stdout, b"-1");
    folder.put("mds/shard.00000.mds", &shard[..shard.len() - 1]);
    assert!(shardpack(["convert", &folder.at("mds"), "--output", &out]).run().fails(1).contains("sample 1"));
}

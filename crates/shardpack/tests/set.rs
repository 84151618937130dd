//! Datasets of many packs: names, numbering, columns, overlays, dataset index.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod samples;

use std::fs;
use std::path::Path;

use samples::{encode, many, sample};
use shardpack::layout::RecordFlags;
use shardpack::set::{
    Columns, DATASET_INDEX_NAME, DatasetIndex, MissingPolicy, OverlaidSet, PackSet, resolve,
};
use shardpack::{ErrorKind, ReadOptions, Record, WriteOptions};

/// Key, and name and content of each entry.
type Sample<'a> = (&'a str, Vec<(&'a str, &'a [u8])>);

fn put(folder: &Path, name: &str, records: &[Record]) -> String {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, encode(records, WriteOptions::default())).unwrap();
    path.to_str().unwrap().to_owned()
}

fn open(inputs: &[String]) -> PackSet {
    PackSet::open(inputs, &ReadOptions::default()).unwrap()
}

fn flagged(flags: RecordFlags, record: Record) -> Record {
    Record { flags, ..record }
}

#[test]
fn records_are_numbered_through_however_the_packs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let records = many(23);
    for (number, part) in records.chunks(5).enumerate() {
        put(folder.path(), &format!("train-{number:06}.shardpack"), part);
    }
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let list: Vec<_> = (0..5).map(|number| at(&format!("train-{number:06}.shardpack"))).collect();
    let ways = [
        vec![at("train-{000000..000004}.shardpack")],
        vec![at("train-*.shardpack")],
        vec![at("train-00000[0-4].shard????")],
        vec![at("")],
        list,
        vec![at("train-{000000,000001}.shardpack"), at("train-{000002..000004}.shardpack")],
    ];
    for inputs in ways {
        let set = open(&inputs);
        assert_eq!((set.len(), set.packs().len()), (23, 5), "{inputs:?}");
        for (ordinal, record) in (0..).zip(&records) {
            assert_eq!(set.read_record(ordinal).unwrap(), *record);
            assert_eq!(set.find(&record.key).unwrap(), Some(ordinal));
        }
        let ordinals = [22, 0, 7, 7, 13];
        let batch = set.read_batch(&ordinals).unwrap();
        for (ordinal, record) in ordinals.iter().zip(batch) {
            assert_eq!(record.unwrap(), records[*ordinal as usize]);
        }
        assert_eq!(set.iter_records().map(Result::unwrap).collect::<Vec<_>>(), records);
        assert!(set.read_record(23).is_err() && set.read_batch(&[23]).is_err());
        assert_eq!(set.read_key("none").unwrap_err().kind(), ErrorKind::NotFound);
    }
    for wrong in ["val-*.shardpack", "train-{000000..000009}.shardpack", "nowhere.shardpack", "{x"] {
        assert!(PackSet::open(&[at(wrong)], &ReadOptions::default()).is_err(), "{wrong}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(resolve(&[empty.path().to_str().unwrap()]).is_err());
}

#[test]
fn a_dataset_index_names_the_packs_of_a_folder_and_nothing_outside_it() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "b/x.shardpack", &many(3));
    put(folder.path(), "a.shardpack", &many(2));
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let set = open(&[at("b/x.shardpack"), at("a.shardpack")]);
    let index = DatasetIndex::of(&set, folder.path());
    assert_eq!((index.records, index.packs[0].name.as_str()), (5, "b/x.shardpack"));
    fs::write(at(DATASET_INDEX_NAME), serde_json::to_vec(&index).unwrap()).unwrap();
    for input in [at(""), at(DATASET_INDEX_NAME)] {
        let again = open(&[input]);
        assert_eq!((again.len(), again.identity()), (5, set.identity()));
    }
    for name in ["/etc/passwd", "../x.shardpack", ""] {
        let mut lying = index.clone();
        lying.packs[0].name = name.into();
        fs::write(at(DATASET_INDEX_NAME), serde_json::to_vec(&lying).unwrap()).unwrap();
        assert_eq!(resolve(&[at("")]).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
    }
}

#[test]
fn columns_join_by_number_when_their_keys_are_the_same_and_by_key_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let column = |name: &str, keys: &[&str]| {
        let records: Vec<_> = keys.iter().map(|key| sample(key, &[(name, key.as_bytes())])).collect();
        open(&[put(folder.path(), &format!("{name}-{}.shardpack", keys.len()), &records)])
    };
    let left = column("left", &["a", "b", "c"]);
    let same = Columns::join(left.clone(), vec![column("right", &["a", "b", "c"])], MissingPolicy::Error);
    assert!(same.is_aligned());
    let record = same.read_record(1).unwrap().unwrap();
    assert_eq!((record.key.as_str(), record.entry("left").unwrap().data.as_slice()), ("b", b"b".as_slice()));
    assert_eq!(record.entry("right").unwrap().data, b"b");

    let other = column("depth", &["c", "a"]);
    let joined = |missing| Columns::join(left.clone(), vec![other.clone()], missing);
    assert!(!joined(MissingPolicy::Error).is_aligned());
    assert_eq!(joined(MissingPolicy::Error).read_record(1).unwrap_err().kind(), ErrorKind::NotFound);
    let keys = |columns: &Columns| -> Vec<_> {
        columns.iter_records().map(|record| record.unwrap()).map(|r| (r.key, r.file_entries.len())).collect()
    };
    assert_eq!(keys(&joined(MissingPolicy::Skip)), [("a".into(), 2), ("c".into(), 2)]);
    assert_eq!(keys(&joined(MissingPolicy::Partial)), [("a".into(), 2), ("b".into(), 1), ("c".into(), 2)]);
    let twice = Columns::join(left.clone(), vec![left], MissingPolicy::Error).read_record(0).unwrap_err();
    assert!(twice.to_string().contains("\"left\""), "{twice}");
}

#[test]
fn overlays_replace_by_name_delete_and_add() {
    let folder = tempfile::tempdir().unwrap();
    let base: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|key| sample(key, &[("img", b"image"), ("label", b"old")])).collect();
    let patch = |key: &str, label: &[u8]| flagged(RecordFlags::OVERLAY, sample(key, &[("label", label)]));
    let gone = |key: &str| flagged(RecordFlags::TOMBSTONE, sample(key, &[]));
    let first = [
        patch("b", b"new"),
        gone("c"),
        sample("e", &[("img", b"added")]),
        sample("d", &[("only", b"whole")]),
    ];
    let second = [
        patch("b", b"newest"),
        patch("e", b"e"),
        gone("a"),
        flagged(RecordFlags::OVERLAY, sample("c", &[("label", b"back")])),
    ];
    let set = |name: &str, records: &[Record]| open(&[put(folder.path(), name, records)]);
    let layered = OverlaidSet::new(
        set("base.shardpack", &base),
        vec![set("1.shardpack", &first), set("2.shardpack", &second)],
    )
    .unwrap();
    assert_eq!(layered.len(), 4);
    let records: Vec<_> = layered.iter_records().map(Result::unwrap).collect();
    let samples: Vec<Sample<'_>> = records
        .iter()
        .map(|r| {
            (
                r.key.as_str(),
                r.file_entries.iter().map(|e| (e.file_name.as_str(), e.data.as_slice())).collect(),
            )
        })
        .collect();
    let expected: [Sample<'_>; 4] = [
        ("b", vec![("img", b"image"), ("label", b"newest")]),
        ("c", vec![("label", b"back")]),
        ("d", vec![("only", b"whole")]),
        ("e", vec![("img", b"added"), ("label", b"e")]),
    ];
    assert_eq!(samples, expected);
    assert!(layered.read_record(4).is_err());
    assert!(records.iter().all(|record| !record.flags.is_overlay()));

    let plain = OverlaidSet::new(set("base.shardpack", &base), Vec::new()).unwrap();
    assert_eq!(plain.iter_records().map(Result::unwrap).collect::<Vec<_>>(), base);
}

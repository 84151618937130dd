//! Packs in `testdata/shardpack/v1`: made once, never changed, read by every version.
//!
//! Each has a JSON beside it: for every record its key, and for every entry name, content type and BLAKE3 of the content.
//! `SHARDPACK_GOLDEN=make` makes those that are missing.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod samples;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use samples::{encode, many, memory, reader};
use shardpack::check::{VerifyOptions, verify};
use shardpack::layout::{MetaFormat, RecordFlags};
use shardpack::{FileEntry, Method, Record, ShardPackReader, Source, WriteOptions};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/shardpack/v1"))
}

/// Every pack by its name, with what it was made of.
fn packs() -> Vec<(&'static str, Vec<Record>, WriteOptions)> {
    let plain = WriteOptions::default();
    let with = |compression| WriteOptions { compression, chunk_bytes: 1000, ..plain.clone() };
    let metadata = Some(br#"{"creator":"MyName","training":"true"}"#.to_vec());
    let mut overlay = many(3);
    for (record, flags) in
        overlay.iter_mut().zip([RecordFlags::OVERLAY, RecordFlags::TOMBSTONE, RecordFlags(0)])
    {
        record.flags = flags;
        record.metadata = br#"{"label":3}"#.to_vec();
        record.meta_format = MetaFormat::Json;
    }
    overlay[2]
        .file_entries
        .push(FileEntry { content_type: "application/x-own".into(), ..FileEntry::default() });
    vec![
        ("plain", many(12), WriteOptions { metadata, ..plain.clone() }),
        ("empty", Vec::new(), plain.clone()),
        ("aligned", many(4), WriteOptions { align_bytes: 4096, ..plain.clone() }),
        ("gzip", many(12), with(Method::Gzip)),
        ("lz4", many(12), with(Method::Lz4)),
        ("zstd", many(12), with(Method::Zstd)),
        ("overlay", overlay, WriteOptions { digests: true, column: "label".into(), ..plain }),
    ]
}

fn described(reader: &ShardPackReader) -> serde_json::Value {
    let entry = |entry: FileEntry| {
        serde_json::json!([entry.file_name, entry.content_type, blake3::hash(&entry.data).to_hex().as_str()])
    };
    let record = |record: Result<Record, shardpack::Error>| {
        let record = record.unwrap();
        serde_json::json!([record.key, record.file_entries.into_iter().map(entry).collect::<Vec<_>>()])
    };
    reader.iter_records().map(record).collect()
}

#[test]
fn every_golden_pack_is_read_and_made_again() {
    for (name, records, options) in packs() {
        let (pack, json) =
            (folder().join(name).with_extension("shardpack"), folder().join(name).with_extension("json"));
        let made = encode(&records, options.clone());
        if std::env::var_os("SHARDPACK_GOLDEN").is_some() && !pack.exists() {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&pack, &made).unwrap();
            fs::write(&json, described(&reader(&made)).to_string() + "\n").unwrap();
        }
        let golden = fs::read(&pack).unwrap();
        let source: Arc<dyn Source> = memory(&golden);
        let report =
            verify(&source, VerifyOptions { decode_bytes_max: 1 << 20, quick: false }, |_| {}).unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.faults);
        let expected: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(described(&reader(&golden)), expected, "{name}");
        // Compressors may find better bytes one day, and the end names the writer's version; records as they are never
        // change.
        if options.compression == Method::None {
            let end = usize::try_from(reader(&golden).index().footer().records_end()).unwrap();
            assert!(made[..end] == golden[..end], "{name}: the writer makes other bytes than it did");
        }
    }
}

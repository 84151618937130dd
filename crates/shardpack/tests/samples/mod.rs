//! Samples and packs for tests, made with the crate's own writer.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "every test uses a part of this")]

use std::sync::Arc;

use shardpack::source::MemorySource;
use shardpack::write::RecordDraft;
use shardpack::{FileEntry, PackEncoder, ReadOptions, Record, ShardPackReader, WriteOptions};

/// A record of these entries, whose types follow from their names.
pub fn sample(key: &str, entries: &[(&str, &[u8])]) -> Record {
    let entry = |&(name, data): &(&str, &[u8])| FileEntry {
        file_name: name.into(),
        content_type: match name.rsplit('.').next() {
            Some("jpg") => "image/jpeg",
            Some("json") => "application/json",
            Some("txt") => "text/plain",
            _ => "application/octet-stream",
        }
        .into(),
        data: data.into(),
        ..FileEntry::default()
    };
    Record { key: key.into(), file_entries: entries.iter().map(entry).collect(), ..Record::default() }
}

/// Records of one to three entries: noise, text that shrinks, nothing.
pub fn many(count: u64) -> Vec<Record> {
    let one = |n: u64| {
        let noise = testkit::corpus::noise(n, 200 + (n as usize * 37) % 600);
        let text =
            format!("{{\"number\": {n}, \"caption\": \"a stone in the field\"}}\n").repeat(n as usize % 60);
        let entries = [("left.jpg", noise.as_slice()), ("meta.json", text.as_bytes()), ("none", b"")];
        sample(&format!("images{}/image{n:06}", n % 3), &entries[..1 + n as usize % 3])
    };
    (0..count).map(one).collect()
}

pub fn encode(records: &[Record], options: WriteOptions) -> Vec<u8> {
    let mut encoder = PackEncoder::new(options).unwrap();
    let mut bytes = Vec::new();
    for record in records {
        encoder.push(&RecordDraft::from(record), &mut bytes).unwrap();
    }
    let finished = encoder.finish(&mut bytes).unwrap();
    assert_eq!(finished.bytes, bytes.len() as u64);
    bytes
}

pub fn memory(bytes: &[u8]) -> Arc<MemorySource> {
    Arc::new(MemorySource::new("memory.shardpack", bytes.to_vec()))
}

pub fn reader(bytes: &[u8]) -> ShardPackReader {
    ShardPackReader::from_source(memory(bytes), ReadOptions::default()).unwrap()
}

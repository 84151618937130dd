//! Makes packs of anything: what was written is sound and comes back, whatever the options.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use shardpack::source::MemorySource;
use shardpack::write::{EntryDraft, RecordDraft};
use shardpack::{Method, Outline, PackEncoder, ReadOptions, ShardPackReader, WriteOptions};

// First byte: method and alignment. Then records: length of key, length of data, key and data.
fuzz_target!(|bytes: &[u8]| {
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    let methods = [Method::None, Method::Gzip, Method::Lz4, Method::Zstd, Method::Auto];
    let options = WriteOptions {
        compression: methods[usize::from(first & 7) % methods.len()],
        align_bytes: 8 << (first >> 3 & 7),
        chunk_bytes: if first & 0x40 == 0 { 0 } else { 7 },
        digests: first & 0x80 != 0,
        ..WriteOptions::default()
    };
    let Ok(mut encoder) = PackEncoder::new(options) else { return };
    let (mut out, mut written) = (Vec::new(), Vec::new());
    while let [key_len, data_len, more @ ..] = rest {
        let (key_bytes, more) = more.split_at(more.len().min(usize::from(*key_len)));
        let (data, more) = more.split_at(more.len().min(usize::from(*data_len)));
        rest = more;
        let key = String::from_utf8_lossy(key_bytes);
        let entry = EntryDraft { name: &key, content_type: "text/plain", data, compression: None };
        let draft = RecordDraft { key: &key, entries: vec![entry], ..RecordDraft::default() };
        let before = out.len();
        if encoder.push(&draft, &mut out).is_ok() {
            written.push((key.into_owned(), data.to_vec()));
        } else {
            assert_eq!(out.len(), before, "a record that is refused leaves nothing");
        }
    }
    encoder.finish(&mut out).expect("the end of a pack can be written");
    assert!(Outline::parse(&out).expect("it is a pack").is_sound());
    let source = Arc::new(MemorySource::new("fuzz", out));
    let reader = ShardPackReader::from_source(source, ReadOptions::default()).expect("it opens");
    let read = reader.iter_records().map(|record| {
        let mut record = record.expect("it is sound");
        (record.key, record.file_entries.remove(0).data)
    });
    assert!(read.eq(written));
});

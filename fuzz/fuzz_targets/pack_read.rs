//! Opens anything as a pack and reads all of it: by number, key, batch, stream and part, with recovery where the end is missing.
#![no_main]

use std::io::Cursor;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use shardpack::check::{VerifyOptions, verify};
use shardpack::source::MemorySource;
use shardpack::{OnError, Outline, ReadOptions, ShardPackReader, Source, StreamReader, Verify};

fuzz_target!(|bytes: &[u8]| {
    let source: Arc<dyn Source> = Arc::new(MemorySource::new("fuzz", bytes.to_vec()));
    let options = ReadOptions {
        on_error: OnError::Skip,
        recover: true,
        entry_bytes_max: 1 << 20,
        ..ReadOptions::default()
    };
    let sound = Outline::parse(bytes).is_ok_and(|outline| outline.is_sound());
    let _ =
        StreamReader::new(Cursor::new(bytes), "fuzz", Verify::Crc, 1 << 20).filter_map(Result::ok).count();
    let Ok(reader) = ShardPackReader::from_source(Arc::clone(&source), options) else {
        assert!(!sound, "a sound pack opens");
        return;
    };
    let records: Vec<_> = reader.iter_records().filter_map(Result::ok).collect();
    for (ordinal, record) in (0..4).zip(&records) {
        let _ = reader.find(&record.key);
        let _ = reader.read_entry_range(ordinal, 0, 1..100);
        let _ = reader.frames_of(ordinal);
    }
    let ordinals: Vec<u64> = (0..reader.len().min(50)).rev().collect();
    let _ = reader.read_batch(&ordinals);
    let _ = verify(&source, VerifyOptions { quick: false, decode_bytes_max: 1 << 20 }, |_| {});
});

//! Reads anything as a pack, and what was sound once more after it was cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack::{Outline, has_pack_magic};

fuzz_target!(|bytes: &[u8]| {
    let Ok(outline) = Outline::parse(bytes) else { return };
    assert!(has_pack_magic(bytes, bytes));
    assert_eq!(outline.footer.is_none(), outline.truncated.is_some());
    let size = bytes.len() as u64;
    for record in &outline.records {
        assert!(record.offset + record.size <= size);
        for entry in &record.entries {
            assert!(entry.data_offset + entry.stored_size <= record.offset + record.size);
        }
    }
    if !outline.is_sound() {
        return;
    }
    // Without its last byte a sound pack is walked, and the walk finds what the index named.
    let cut = Outline::parse(&bytes[..bytes.len() - 1]).expect("it begins as a pack does");
    assert_eq!(cut.records, outline.records);
    assert_eq!((cut.truncated, cut.records_end), (outline.records_end, outline.records_end));
});

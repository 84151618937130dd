//! Any text as the query of a batch: no panic, and what parses is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::ChunkHash;
use xet::wire::routes::{self, TokenScope};

const FILES_MAX: usize = 16;

fuzz_target!(|data: &[u8]| {
    let Ok(query) = std::str::from_utf8(data) else { return };
    if let Ok(files) = routes::parse_batch_query(query, FILES_MAX) {
        assert!(files.len() <= FILES_MAX);
        let path = routes::batch(&files);
        let again = path.split_once('?').map_or("", |(_, query)| query);
        assert_eq!(routes::parse_batch_query(again, FILES_MAX), Ok(files));
    }

    // Whatever a segment is made of, it stays one segment.
    let sound = |path: &str| path.bytes().all(|b| b.is_ascii_graphic() && !b"?#&\"<>\\".contains(&b));
    let segment = routes::segment(query);
    assert!(sound(&segment) && !segment.contains('/'));
    let path = routes::chunk(query, &ChunkHash::ZERO);
    assert!(sound(&path) && path.split('/').count() == 5);
    let path = routes::token("models", "org/name", TokenScope::Read, Some(query));
    assert!(sound(&path) && path.split('/').count() == 7);
    assert!(sound(&routes::token(query, query, TokenScope::Write, None)));
});

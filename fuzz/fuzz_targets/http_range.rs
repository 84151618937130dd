//! Any text as a range header: no panic, ranges stay inside what they are of, and print as they were read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::wire::range::{self, ContentRange};

fuzz_target!(|data: &[u8]| {
    // The first eight bytes are the size of what the ranges are of.
    let Some((size, text)) = data.split_first_chunk() else { return };
    let (size, Ok(text)) = (u64::from_le_bytes(*size), std::str::from_utf8(text)) else { return };
    if let Ok(specs) = range::parse_ranges(text, 16) {
        assert!((1..=16).contains(&specs.len()));
        for spec in &specs {
            if let Some(bytes) = spec.resolve(size) {
                assert!(bytes.start < bytes.end && bytes.end <= size);
            }
            let _ = spec.half_open();
            assert_eq!(range::parse_ranges(&format!("bytes={spec}"), 1), Ok(vec![*spec]));
        }
    }
    if let Ok(ranges) = range::parse_bounded_ranges(text, 16) {
        assert_eq!(range::parse_bounded_ranges(&range::header_value(&ranges), 16), Ok(ranges));
    }
    if let Ok(content) = text.parse::<ContentRange>() {
        assert_eq!(content.to_string().parse::<ContentRange>(), Ok(content));
    }
});

//! Any bytes as a multipart answer: no panic, and every part has the bytes its range promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::wire::multipart::{self, Boundary};

fuzz_target!(|data: &[u8]| {
    // The first line is the content type, the rest the body.
    let cut = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (header, body) = data.split_at(cut);
    let boundary = std::str::from_utf8(header).ok().and_then(Boundary::of_content_type);
    if let Some(boundary) = &boundary {
        assert_eq!(Boundary::of_content_type(&boundary.content_type()).as_ref(), Some(boundary));
    }
    let boundary = boundary.or_else(|| Boundary::new("SEP")).expect("a sound boundary");
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    if let Ok(parts) = multipart::parse(body, &boundary, 16) {
        assert!(parts.len() <= 16);
        for part in parts {
            assert_eq!(part.bytes.len() as u64, part.range.len_bytes());
        }
    }
});

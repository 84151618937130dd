//! Any bytes are a run of chunk records or are refused; a run is also a xorb without footer, and reads back by range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::ChunkHash;
use xet::compress::Decompressor;
use xet::xorb::{ChunkDecoder, ChunkReader, read_chunks, verify};

fuzz_target!(|data: &[u8]| {
    // The first two bytes choose a range of chunks.
    let Some(([a, b], bytes)) = data.split_first_chunk() else { return };
    let mut decoder = ChunkDecoder::new();
    let mut reader = ChunkReader::new(bytes, 0, &mut decoder);
    let (mut chunks, mut raw, mut end) = (Vec::new(), Vec::<u8>::new(), 0);
    let whole = loop {
        match reader.next_chunk() {
            Ok(Some(chunk)) => {
                assert_eq!(chunk.hash, ChunkHash::of(chunk.raw));
                assert_eq!(chunk.stored.start, end);
                end = chunk.stored.end;
                chunks.push(chunk.hash);
                raw.extend(chunk.raw);
            }
            Ok(None) => break true,
            Err(error) => {
                assert!((end..=bytes.len() as u64).contains(&error.at()));
                break false;
            }
        }
    };

    let Ok(scanned) = verify(bytes, None, false) else {
        assert!(!whole || chunks.is_empty() || chunks.len() > 8192 || raw.len() > 64 << 20);
        return;
    };
    let info = &scanned.info;
    assert!(info.chunks().iter().map(|place| place.hash).eq(chunks));

    let count = info.chunk_count() + 1;
    let (a, b) = (u32::from(*a) % count, u32::from(*b) % count);
    let range = a.min(b)..a.max(b);
    let expected = info.raw_range(range.clone()).unwrap();
    let mut read = Vec::<u8>::new();
    read_chunks(info, range, bytes, 0, &mut Decompressor::new(), &mut read).unwrap();
    assert_eq!(read, raw[expected.start as usize..expected.end as usize]);
});

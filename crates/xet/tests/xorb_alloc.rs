//! Reading and building xorbs takes little memory, and none that an untrusted number sizes.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use testkit::alloc::{CountingAllocator, Peak, measure};
use testkit::{corpus, damage};
use xet::ChunkHash;
use xet::compress::{Decompressor, Policy};
use xet::xorb::{
    ChunkDecoder, ChunkReader, Footer, Form, SealedXorb, XorbBuilder, XorbScanner, read_chunks, verify,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const NONE: Peak = Peak { bytes: 0, largest: 0 };

fn chunks(count: u64, len: usize) -> Vec<Vec<u8>> {
    let chunk = |seed: u64| match seed % 3 {
        0 => corpus::noise(seed, len),
        1 => corpus::text(seed, len),
        _ => corpus::f32_noise(seed, 0.1, len),
    };
    (0..count).map(chunk).collect()
}

fn seal(builder: &mut XorbBuilder, chunks: &[Vec<u8>], form: Form) -> SealedXorb {
    for chunk in chunks {
        builder.push(ChunkHash::of(chunk), chunk).unwrap();
    }
    builder.seal(form).unwrap()
}

#[test]
fn a_scan_holds_no_more_than_a_chunk() {
    let sealed = seal(&mut XorbBuilder::new(Policy::Auto), &chunks(60, 128 * 1024), Form::V1);
    for step in [1000, 100_000, sealed.bytes.len()] {
        let (scanned, peak) = measure(|| {
            let mut scanner = XorbScanner::new(Some(sealed.info.hash()));
            for piece in sealed.bytes.chunks(step) {
                scanner.push(piece)?;
            }
            scanner.finish()
        });
        assert_eq!(scanned.unwrap().info, sealed.info);
        assert!(peak.bytes < 1024 * 1024, "pieces of {step}: {peak:?}");
    }
}

#[test]
fn a_warm_reader_does_not_allocate() {
    let sealed = seal(&mut XorbBuilder::new(Policy::Auto), &chunks(30, 50_000), Form::V1);
    let stored = &sealed.bytes[..sealed.info.stored_bytes() as usize];

    let mut decoder = ChunkDecoder::new();
    let mut walk = || {
        let mut reader = ChunkReader::new(stored, 0, &mut decoder);
        while reader.next_chunk().unwrap().is_some() {}
    };
    walk();
    assert_eq!(measure(walk).1, NONE);

    let (mut decompressor, mut out) = (Decompressor::new(), Vec::new());
    let mut read = || {
        out.clear();
        read_chunks(&sealed.info, 3..27, stored, 0, &mut decompressor, &mut out).unwrap();
    };
    read();
    assert_eq!(measure(read).1, NONE);
}

#[test]
fn a_warm_builder_allocates_a_list_of_chunks_and_little_else() {
    let mut builder = XorbBuilder::new(Policy::Auto);
    let chunks = chunks(30, 50_000);
    let hashes: Vec<_> = chunks.iter().map(|chunk| ChunkHash::of(chunk)).collect();
    let buffer = seal(&mut builder, &chunks, Form::V1).bytes;
    builder.recycle(buffer);
    let (_, peak) = measure(|| {
        for (hash, chunk) in hashes.iter().zip(&chunks) {
            builder.push(*hash, chunk).unwrap();
        }
        builder.seal(Form::V1).unwrap()
    });
    assert!(peak.bytes < 16 * 1024, "{peak:?}");
}

#[test]
fn no_lie_takes_more_memory_than_a_chunk() {
    for form in [Form::V0, Form::V1] {
        let sealed = seal(&mut XorbBuilder::new(Policy::Auto), &chunks(3, 200), form);
        for (what, lie) in damage::lies_everywhere(&sealed.bytes) {
            let (_, peak) = measure(|| Footer::parse(&lie, 0));
            assert!(peak.bytes < 4 * lie.len(), "{what}: {peak:?}");
            let (_, peak) = measure(|| verify(&lie, None, false));
            assert!(peak.bytes < 512 * 1024, "{what}: {peak:?}");
        }
    }
}

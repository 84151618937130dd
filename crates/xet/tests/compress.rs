//! Compression against the golden vectors, under damage, and by its memory.

use testkit::alloc::{CountingAllocator, Peak, measure};
use testkit::vectors::Vectors;
use testkit::vectors::model::Adversarial;
use testkit::{corpus, damage, hex, sha256, unhex};
use xet::compress::{Compressor, Decompressor, Policy, Scheme, bg4};
use xet::{ChunkHash, merkle};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn golden_chunks_decode_to_their_chunks() {
    let vectors = Vectors::open();
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    for chunk in &vectors.manifest.chunk_records {
        let name = &chunk.file;
        let bytes = vectors.read(name);
        let payload = &bytes[8..];
        let (scheme, _, raw_len) = chunk.header;
        let scheme = Scheme::parse(4, scheme).unwrap();
        let mut raw = vec![0xa5; raw_len as usize];
        decompressor.decompress(8, scheme, payload, &mut raw).unwrap();
        assert!(raw == vectors.make(&chunk.recipe), "{name}");
        assert_eq!(ChunkHash::of(&raw).to_string(), chunk.chunk_hash, "{name}");
        assert_eq!(hex(&sha256(&raw)), chunk.raw_sha256, "{name}");

        // No format requires this, but a change of the encoder should not pass unseen.
        let Ok(requested) = chunk.requested_scheme.parse() else { continue };
        let mut ours = Vec::new();
        let used = compressor.compress(Policy::Always(requested), &raw, &mut ours);
        assert_eq!((used, ours.len()), (scheme, payload.len()), "{name}");
    }
}

/// Linked blocks, content lengths and checksums, as the common LZ4 library writes them.
#[test]
fn frames_of_another_encoder_decode_to_the_chunks_of_their_xorb() {
    let vectors = Vectors::open();
    let foreign = |case: &&Adversarial| case.file.contains("foreign");
    let mut seen = 0;
    for case in vectors.manifest.adversarial.iter().filter(foreign) {
        let bytes = vectors.read(&case.file);
        let mut rest = &bytes[..];
        let mut leaves = Vec::new();
        while let [0, a, b, c, scheme, d, e, f, tail @ ..] = rest {
            let (stored_len, raw_len) = ([*a, *b, *c, 0], [*d, *e, *f, 0]);
            let (stored, next) = tail.split_at(u32::from_le_bytes(stored_len) as usize);
            let mut raw = vec![0; u32::from_le_bytes(raw_len) as usize];
            let scheme = Scheme::parse(0, *scheme).unwrap();
            Decompressor::new().decompress(0, scheme, stored, &mut raw).unwrap();
            leaves.push((ChunkHash::of(&raw), raw.len() as u64));
            rest = next;
        }
        assert_eq!(Some(merkle::xorb_hash(leaves).to_string()), case.xorb_hash, "{}", case.file);
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn golden_byte_groups_are_ours() {
    for case in &Vectors::open().manifest.byte_grouping {
        let (raw, expected) = (unhex(&case.raw), unhex(&case.grouped));
        let (mut grouped, mut back) = (vec![0; raw.len()], vec![0; raw.len()]);
        bg4::group(&raw, &mut grouped);
        assert_eq!(grouped, expected);
        bg4::ungroup(&grouped, &mut back);
        assert_eq!(back, raw);
    }
}

fn chunks(len: usize) -> Vec<Vec<u8>> {
    vec![
        corpus::noise(1, len),
        corpus::constant(0, len),
        corpus::text(2, len),
        corpus::period(10_000, 3, len),
        corpus::f32_ramp(0.0, 0.001, len),
        corpus::f32_noise(4, 0.05, len),
        corpus::bf16_gaussian(5, 0.02, len),
    ]
}

#[test]
fn a_chunk_costs_no_allocation_once_the_buffers_have_grown() {
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    let mut out = Vec::with_capacity(131_072);
    let mut raw = vec![0; 131_072];
    let policies = ["auto", "none", "lz4", "bg4-lz4"].map(|name| name.parse::<Policy>().unwrap());
    let mut run = |chunk: &[u8], policy: Policy| {
        out.clear();
        let scheme = compressor.compress(policy, chunk, &mut out);
        decompressor.decompress(0, scheme, &out, &mut raw[..chunk.len()]).unwrap();
        assert!(raw[..chunk.len()] == *chunk);
    };
    for chunk in chunks(131_072) {
        policies.iter().for_each(|policy| run(&chunk, *policy));
    }
    for len in [0, 100, 9_000, 65_536, 131_072] {
        for chunk in chunks(len) {
            for policy in policies {
                let ((), peak) = measure(|| run(&chunk, policy));
                assert_eq!(peak, Peak::default(), "{policy}, {len} bytes");
            }
        }
    }
}

#[test]
fn damaged_payloads_are_refused_or_decode_and_allocate_little() {
    let chunk = [corpus::text(6, 300), corpus::f32_ramp(0.0, 0.5, 300)].concat();
    for scheme in [Scheme::Raw, Scheme::Lz4, Scheme::GroupedLz4] {
        let mut sound = Vec::new();
        assert_eq!(Compressor::new().compress(Policy::Always(scheme), &chunk, &mut sound), scheme);
        let decode = |bytes: &[u8]| {
            let mut raw = vec![0; chunk.len()];
            let (result, peak) = measure(|| Decompressor::new().decompress(0, scheme, bytes, &mut raw));
            assert!(peak.bytes < 10_000, "{peak:?}");
            result
        };
        decode(&sound).unwrap();
        for (what, bytes) in damage::truncations(&sound).chain(damage::extensions(&sound)) {
            let error = decode(&bytes).expect_err(&what);
            assert!(error.at() <= bytes.len() as u64, "{what}: {error}");
        }
        for (what, bytes) in damage::flips(&sound).chain(damage::lies_everywhere(&sound)) {
            if let Err(error) = decode(&bytes) {
                assert!(error.at() <= bytes.len() as u64, "{what}: {error}");
            }
        }
    }
}

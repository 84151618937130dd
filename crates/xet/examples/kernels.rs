//! Prints what each stage of the protocol costs on one core, as a ratio to copying memory and to BLAKE3.
//!
//! `cargo run --release -p drystone-xet --example kernels [MIB] [ROUNDS]`. Every probe runs once a round, in turn; figures are
//! medians over the rounds, in CPU time of this thread.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::hint::black_box;

use sha2::Digest;
use xet::ChunkHash;
use xet::chunk::{self, Chunker};
use xet::compress::{Compressor, Decompressor, Policy, Scheme, bg4};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let mib: usize = numbers.next().unwrap_or(32);
    let rounds: usize = numbers.next().unwrap_or(7);
    for (kind, data) in [
        ("random", testkit::corpus::noise(1, mib << 20)),
        ("text", testkit::corpus::text(2, mib << 20)),
        ("bf16 weights", testkit::corpus::bf16_gaussian(3, 0.02, mib << 20)),
    ] {
        println!("\n{kind}, {mib} MiB, {rounds} rounds");
        println!("{:<28} {:>7} {:>8} {:>8}", "stage", "GB/s", "/memcpy", "/blake3");
        table(&data, rounds);
    }
}

/// A stage and the code that does it once over the whole data.
type Probe<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn table(data: &[u8], rounds: usize) {
    let cuts = chunk::cut(data);
    let chunks: Vec<&[u8]> =
        cuts.iter().scan(0, |start, &cut| Some(&data[std::mem::replace(start, cut)..cut])).collect();
    let chunks = chunks.as_slice();
    let stored: Vec<_> = [Scheme::Lz4, Scheme::GroupedLz4].map(|scheme| compressed(chunks, scheme)).into();
    let mut copy = vec![1; data.len()];
    let mut scratch = vec![0; 1 << 18];
    let mut grouped = vec![0; 1 << 18];

    let mut probes: Vec<Probe<'_>> = vec![
        ("memcpy", Box::new(|| black_box(&mut copy).copy_from_slice(data))),
        ("blake3, chunk by chunk", Box::new(|| chunks.iter().for_each(|c| _ = black_box(ChunkHash::of(c))))),
        ("gear", Box::new(|| drop(black_box(chunk::cut(data))))),
        ("gear + blake3, 512 KiB", Box::new(|| fused(data))),
        ("sha256", Box::new(|| _ = black_box(sha2::Sha256::digest(data)))),
        ("gear + sha256, 512 KiB", Box::new(|| cut_and_digest(data))),
        ("group", Box::new(|| chunks.iter().for_each(|c| bg4::group(c, &mut scratch[..c.len()])))),
        ("ungroup", Box::new(|| chunks.iter().for_each(|c| bg4::ungroup(c, &mut grouped[..c.len()])))),
    ];
    for policy in [Policy::Always(Scheme::Lz4), Policy::Always(Scheme::GroupedLz4), Policy::Auto] {
        let name = match policy {
            Policy::Auto => "compress auto",
            Policy::Always(Scheme::Lz4) => "compress lz4",
            Policy::Always(_) => "compress bg4-lz4",
        };
        let mut compressor = Compressor::new();
        let mut out = Vec::new();
        probes.push((
            name,
            Box::new(move || {
                for chunk in chunks {
                    out.clear();
                    compressor.compress(policy, chunk, &mut out);
                }
            }),
        ));
    }
    for (name, stored) in ["decompress lz4", "decompress bg4-lz4"].into_iter().zip(&stored) {
        let mut decompressor = Decompressor::new();
        let mut raw = vec![0; 1 << 17];
        probes.push((
            name,
            Box::new(move || {
                for (scheme, bytes, len) in stored {
                    decompressor.decompress(0, *scheme, bytes, &mut raw[..*len]).expect("our own bytes");
                }
            }),
        ));
    }

    let mut seconds = vec![Vec::new(); probes.len()];
    for round in 0..=rounds {
        for (times, (_, probe)) in seconds.iter_mut().zip(&mut probes) {
            let start = now();
            probe();
            let spent = now() - start;
            // The first round warms up caches, buffers and the clock.
            if round > 0 {
                times.push(spent);
            }
        }
    }
    for ((name, _), times) in probes.iter().zip(&seconds) {
        let ratio = |base: &[f64]| median(base.iter().zip(times).map(|(base, time)| base / time).collect());
        let speed = median(times.iter().map(|time| data.len() as f64 / time / 1e9).collect());
        println!("{name:<28} {speed:>7.2} {:>8.3} {:>8.3}", ratio(&seconds[0]), ratio(&seconds[1]));
    }
}

/// Cuts and hashes while the bytes are in the cache, as the tools do.
fn fused(data: &[u8]) {
    let mut chunker = Chunker::new();
    let mut cuts = Vec::new();
    let mut start = 0;
    for block in data.chunks(512 << 10) {
        cuts.clear();
        chunker.push(block, &mut cuts);
        for &cut in &cuts {
            black_box(ChunkHash::of(&data[start..cut as usize]));
            start = cut as usize;
        }
    }
    black_box(ChunkHash::of(&data[start..]));
}

/// Cuts a block, then digests it while it is in the cache, as a push does.
fn cut_and_digest(data: &[u8]) {
    let (mut chunker, mut digest, mut cuts) = (Chunker::new(), sha2::Sha256::new(), Vec::new());
    for block in data.chunks(512 << 10) {
        chunker.push(block, &mut cuts);
        digest.update(block);
    }
    black_box((digest.finalize(), cuts));
}

fn compressed(chunks: &[&[u8]], scheme: Scheme) -> Vec<(Scheme, Vec<u8>, usize)> {
    let mut compressor = Compressor::new();
    let one = |chunk: &&[u8]| {
        let mut out = Vec::new();
        (compressor.compress(Policy::Always(scheme), chunk, &mut out), out, chunk.len())
    };
    chunks.iter().map(one).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Seconds this thread has spent on a processor.
fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

//! Rates of reading and writing packs, as ratios to raw reads and writes of the same samples on the same machine.
//!
//!     cargo run --release -p shardpack --example rates -- FOLDER A|B SAMPLES ROUNDS
//!
//! Per CPU second, because machines are shared. A: 30 to 70 KB of noise and a JSON of 300 bytes. B: 400 to 1,600 bytes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use shardpack::source::{FileSource, MapSource};
use shardpack::write::{EntryDraft, RecordDraft};
use shardpack::{
    ReadOptions, RecordRef, ShardPackReader, ShardPackWriter, Source, StreamReader, Verify, WriteOptions,
};

struct Sample {
    key: String,
    entries: Vec<(&'static str, &'static str, Vec<u8>)>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, folder, workload, count, rounds] = args.as_slice() else {
        println!("rates FOLDER A|B SAMPLES ROUNDS");
        return;
    };
    let samples = samples(workload, count.parse().unwrap());
    for _ in 0..rounds.parse().unwrap() {
        round(folder, workload, &samples);
    }
}

fn round(folder: &str, workload: &str, samples: &[Sample]) {
    let (raw, pack) = (format!("{folder}/rates.raw"), format!("{folder}/rates.shardpack"));
    let count = samples.len() as f64;
    let payload: usize = samples.iter().flat_map(|s| &s.entries).map(|entry| entry.2.len()).sum();

    let mut places = Vec::new();
    let raw_write = cpu(|| {
        let mut file = std::io::BufWriter::with_capacity(1 << 20, File::create(&raw).unwrap());
        let mut at = 0;
        for sample in samples {
            let start = at;
            for (_, _, data) in &sample.entries {
                file.write_all(data).unwrap();
                at += data.len() as u64;
            }
            places.push(start..at);
        }
        file.flush().unwrap();
    });
    let write = cpu(|| {
        let mut writer = ShardPackWriter::create_with(&pack, WriteOptions::default(), 1).unwrap();
        for sample in samples {
            let entries = sample.entries.iter().map(|(name, content_type, data)| EntryDraft {
                name,
                content_type,
                data,
                compression: None,
            });
            writer
                .write_draft(&RecordDraft {
                    key: &sample.key,
                    entries: entries.collect(),
                    ..RecordDraft::default()
                })
                .unwrap();
        }
        writer.finalize().unwrap();
    });
    let size = std::fs::metadata(&pack).unwrap().len();

    let file = File::open(&raw).unwrap();
    let raw_size = file.metadata().unwrap().len();
    let raw_sequential = cpu(|| {
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < raw_size {
            at += file.read_at(&mut buffer, at).unwrap() as u64;
        }
    });
    let stream = cpu(|| {
        let mut reader = StreamReader::new(File::open(&pack).unwrap(), "pack", Verify::Crc, 1 << 30);
        let mut seen = 0;
        while reader.next_with(check).unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, samples.len());
    });
    let open =
        |source: Arc<dyn Source>| ShardPackReader::from_source(source, ReadOptions::default()).unwrap();
    let reader = open(Arc::new(FileSource::open(&pack).unwrap()));
    let sequential = cpu(|| {
        let mut records = reader.iter_records();
        while let Some(seen) = records.next_with(check) {
            seen.unwrap();
        }
    });

    let reads: u32 = if workload == "A" { 6000 } else { 100_000 };
    let mut numbers = Numbers(3);
    let ordinals: Vec<u64> = (0..reads).map(|_| numbers.below(samples.len() as u64)).collect();
    // Turn by turn, and the first one changes: the machine is faster in one second than in the next.
    let (mut raw_random, mut random) = (0.0, 0.0);
    let (mut raw_buffer, mut buffer) = (vec![0; 256 << 10], Vec::new());
    for (turn, ordinals) in ordinals.chunks(ordinals.len() / RANDOM_TURNS).enumerate() {
        for is_raw in [turn % 2 == 0, turn % 2 == 1] {
            let all = |one: &mut dyn FnMut(u64)| cpu(|| ordinals.iter().for_each(|&ordinal| one(ordinal)));
            if is_raw {
                raw_random += all(&mut |ordinal| {
                    let place = &places[ordinal as usize];
                    let len = (place.end - place.start) as usize;
                    file.read_exact_at(&mut raw_buffer[..len], place.start).unwrap();
                });
            } else {
                random += all(&mut |ordinal| reader.with_record_in(ordinal, &mut buffer, check).unwrap());
            }
        }
    }
    let mapped = open(Arc::new(MapSource::open(&pack).unwrap()));
    for &ordinal in &ordinals {
        mapped.with_record(ordinal, |record| Ok(black_box(record.key().len()))).unwrap();
    }
    let map = cpu(|| {
        for &ordinal in &ordinals {
            mapped.with_record(ordinal, check).unwrap();
        }
    });
    let opened = cpu(|| drop(black_box(open(Arc::new(FileSource::open(&pack).unwrap())))));
    println!(
        "{{\"workload\":{workload:?},\"samples\":{count},\"write\":{:.2},\"stream\":{:.2},\"sequential\":{:.2},\"random\":{:.2},\"map\":{:.2},\"open_ms\":{:.2},\"extra_bytes\":{:.1},\"raw_random_per_s\":{:.0}}}",
        raw_write / write,
        raw_sequential / stream,
        raw_sequential / sequential,
        raw_random / random,
        raw_random / map,
        opened * 1e3,
        (size as f64 - payload as f64) / count,
        f64::from(reads) / raw_random,
    );
    std::fs::remove_file(raw).unwrap();
    std::fs::remove_file(pack).unwrap();
}

const RANDOM_TURNS: usize = 20;

/// Everything in a record that has a CRC.
fn check(record: &RecordRef<'_>) -> Result<(), shardpack::Error> {
    record.check()
}

fn samples(workload: &str, count: usize) -> Vec<Sample> {
    let mut numbers = Numbers(42);
    let pool: Vec<u8> = (0..(64_usize << 20) / 8).flat_map(|_| numbers.next().to_le_bytes()).collect();
    let mut one = |n: usize| {
        let at = numbers.below(pool.len() as u64 - 80_000) as usize;
        if workload == "A" {
            let len = 30_000 + numbers.below(40_000) as usize;
            let caption = "lorem ipsum dolor sit amet ".repeat(9);
            let json = format!("{{\"id\":{n},\"label\":{},\"caption\":\"{caption}\"}}", numbers.below(1000));
            let image = ("jpg", "image/jpeg", pool[at..at + len].to_vec());
            Sample {
                key: format!("train/{n:09}"),
                entries: vec![image, ("json", "application/json", json.into_bytes())],
            }
        } else {
            let len = 400 + numbers.below(1200) as usize;
            Sample {
                key: format!("doc/{n:09}"),
                entries: vec![("txt", "text/plain", pool[at..at + len].to_vec())],
            }
        }
    };
    (0..count).map(&mut one).collect()
}

/// CPU seconds of the process that `work` takes.
fn cpu(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let start = now();
    work();
    now() - start
}

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

//! Packs that were cut or changed: everything undamaged is still delivered, everything else is reported.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod samples;

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use samples::{encode, many, memory, reader, sample};
use shardpack::check::{Report, VerifyOptions, verify};
use shardpack::recover::find_records;
use shardpack::repair::{RepairOptions, RepairSummary, repair};
use shardpack::source::MemorySource;
use shardpack::{
    ErrorKind, Method, OnError, Outline, ReadOptions, Record, ShardPackReader, Source, StreamReader, Verify,
    WriteOptions,
};
use testkit::alloc::{CountingAllocator, measure};
use testkit::damage;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Buffers of a reader and of decoders, and far less than any number in a small pack could claim.
const PEAK_BYTES_MAX: usize = 24 << 20;

fn source(bytes: &[u8]) -> Arc<dyn Source> {
    memory(bytes)
}

fn check(bytes: &[u8]) -> Result<Report, shardpack::Error> {
    verify(&source(bytes), VerifyOptions { quick: false, decode_bytes_max: 1 << 20 }, |_| {})
}

fn repaired(bytes: &[u8], options: &RepairOptions) -> Result<(RepairSummary, Vec<u8>), shardpack::Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.shardpack");
    let repaired = repair(&source(bytes), &path, options, |_| {})?;
    Ok((repaired, std::fs::read(path).unwrap()))
}

fn keys(bytes: &[u8]) -> Vec<String> {
    reader(bytes).iter_records().map(|record| record.unwrap().key).collect()
}

/// Reads with everything there is: no panic, no memory by a number from the pack. What is delivered is what was written.
fn survive(what: &str, bytes: &[u8], truth: &[Record]) {
    let work = || {
        let options = ReadOptions { on_error: OnError::Skip, recover: true, ..ReadOptions::default() };
        let mut found = Vec::new();
        if let Ok(reader) = ShardPackReader::from_source(source(bytes), options) {
            found.extend(reader.iter_records().filter_map(Result::ok));
            for record in truth {
                if let Ok(Some(ordinal)) = reader.find(&record.key) {
                    found.extend(reader.read_record(ordinal).ok());
                }
            }
            for (ordinal, number) in [(0, 0), (1, 1)] {
                let _ = reader.read_entry_range(ordinal, number, 0..u64::MAX);
            }
            let _ = reader.index().statistics();
        }
        found.extend(StreamReader::new(Cursor::new(bytes), "s", Verify::Crc, 1 << 20).filter_map(Result::ok));
        let _ = find_records(source(bytes).as_ref(), |_| {});
        let _ = Outline::parse(bytes);
        found
    };
    let (found, peak) = measure(|| catch_unwind(AssertUnwindSafe(work)));
    let found = found.unwrap_or_else(|_| panic!("{what}: panicked"));
    assert!(peak.bytes <= PEAK_BYTES_MAX, "{what}: held {} bytes", peak.bytes);
    for record in found {
        let original = truth.iter().find(|original| original.key == record.key);
        assert!(
            original.is_some_and(|original| same(original, &record)),
            "{what}: delivered other than was written"
        );
    }
}

fn same(a: &Record, b: &Record) -> bool {
    let contents = |record: &Record| -> Vec<_> {
        record.file_entries.iter().map(|entry| (entry.file_name.clone(), entry.data.clone())).collect()
    };
    a.key == b.key && a.metadata == b.metadata && contents(a) == contents(b)
}

fn small() -> (Vec<Record>, Vec<u8>) {
    let mut records = many(5);
    records.push(Record {
        metadata: b"{}".to_vec(),
        ..sample("zz", &[("x.txt", &b"to be or not to be ".repeat(20))])
    });
    let options = WriteOptions {
        compression: Method::Lz4,
        digests: true,
        metadata: Some(b"{}".to_vec()),
        ..WriteOptions::default()
    };
    let bytes = encode(&records, options);
    (records, bytes)
}

#[test]
fn every_cut_delivers_every_whole_record_and_is_reported() {
    let (records, sound) = small();
    let index = reader(&sound);
    let ends: Vec<u64> = (0..index.len()).map(|ordinal| index.record_range(ordinal).unwrap().end).collect();
    for (what, bytes) in damage::truncations(&sound) {
        let whole = ends.iter().filter(|&&end| end <= bytes.len() as u64).count();
        let mut stream = StreamReader::new(Cursor::new(&bytes), "s", Verify::Crc, 1 << 20);
        let streamed: Vec<_> = stream.by_ref().collect();
        let good = streamed.iter().filter(|record| record.is_ok()).count();
        assert_eq!(good, whole, "{what}");
        // A stream does not need what comes after the marker.
        let marker_end = ends.last().unwrap() + 16;
        assert_eq!(streamed.iter().any(Result::is_err), (bytes.len() as u64) < marker_end, "{what}");
        let opened = ShardPackReader::from_source(source(&bytes), ReadOptions::default());
        assert!(opened.is_err(), "{what}");
        if bytes.len() < 12 {
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::Invalid, "{what}");
            continue;
        }
        let report = check(&bytes).unwrap();
        assert!(!report.is_sound(), "{what}");
        assert_eq!(report.records as usize, whole, "{what}");
        if bytes.len() % 13 == 0 {
            let (repaired, new) = repaired(&bytes, &RepairOptions::default()).unwrap();
            assert_eq!(repaired.recovered as usize, whole, "{what}");
            assert!(Outline::parse(&new).unwrap().is_sound(), "{what}");
            assert_eq!(
                keys(&new),
                records.iter().take(whole).map(|record| record.key.clone()).collect::<Vec<_>>()
            );
        }
    }
}

/// Every single byte: the change is reported, and no record but the one it is in is lost.
#[test]
fn every_changed_byte_is_reported_and_costs_at_most_its_own_record() {
    let (records, sound) = small();
    let index = reader(&sound);
    let ranges: Vec<_> = (0..index.len()).map(|ordinal| index.record_range(ordinal).unwrap()).collect();
    for (what, bytes) in damage::flips(&sound) {
        let at = (0..sound.len()).find(|&at| sound[at] != bytes[at]).unwrap() as u64;
        let report = check(&bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!report.is_sound(), "{what}: not noticed");

        let options = ReadOptions { on_error: OnError::Skip, recover: true, ..ReadOptions::default() };
        let reader = ShardPackReader::from_source(source(&bytes), options).unwrap();
        let read: Vec<_> = reader.iter_records().filter_map(Result::ok).collect();
        for (record, range) in records.iter().zip(&ranges) {
            let delivered = read.iter().any(|read| same(read, record));
            assert!(delivered || range.contains(&at), "{what}: lost {} though it is sound", record.key);
        }
        assert!(
            read.iter().all(|read| records.iter().any(|record| same(read, record))),
            "{what}: wrong bytes"
        );
    }
}

/// The same without the index, which is what makes it hard.
#[test]
fn every_changed_byte_of_the_records_costs_one_record_without_an_index_too() {
    let (records, sound) = small();
    let end = reader(&sound).index().footer().records_end() as usize;
    let ranges: Vec<_> = (0..records.len() as u64).map(|n| reader(&sound).record_range(n).unwrap()).collect();
    for (what, bytes) in damage::flips_in(&sound[..end], 0..end) {
        let at = (0..end).find(|&at| sound[at] != bytes[at]).unwrap() as u64;
        let found = find_records(source(&bytes).as_ref(), |_| {}).unwrap();
        let missing: Vec<_> = ranges.iter().filter(|range| !found.ranges().contains(range)).collect();
        assert!(missing.iter().all(|range| range.contains(&at)), "{what}: lost {missing:?}");
        let extra = found.ranges().iter().filter(|range| !ranges.contains(range)).count();
        assert_eq!(extra, 0, "{what}: found records that are none");
    }
}

#[test]
fn nothing_in_a_small_pack_makes_a_reader_panic_or_take_much_memory() {
    let (records, sound) = small();
    survive("sound", &sound, &records);
    for (what, bytes) in damage::truncations(&sound).chain(damage::extensions(&sound)) {
        survive(&what, &bytes, &records);
    }
    for (what, bytes) in damage::flips(&sound).step_by(3) {
        survive(&what, &bytes, &records);
    }
    for at in (0..sound.len() - 8).step_by(8) {
        for (what, bytes) in damage::lies_u64(&sound, at) {
            survive(&what, &bytes, &records);
        }
    }
}

/// Sizes that lie with the right CRC: the decoder believes the content, not the number.
#[test]
fn an_entry_that_claims_a_huge_content_is_refused_without_memory_for_it() {
    for method in [Method::Gzip, Method::Lz4, Method::Zstd] {
        let text = vec![b'a'; 5000];
        let options = WriteOptions { compression: method, ..WriteOptions::default() };
        let sound = encode(&[sample("k", &[("a.txt", &text)])], options);
        for claim in [5001_u64, 1 << 24, 1 << 30, 1 << 50, u64::MAX] {
            let mut bytes = sound.clone();
            let entry_at = 40;
            bytes[entry_at..entry_at + 8].copy_from_slice(&claim.to_le_bytes());
            let sum = shardpack::layout::crc(&[
                &bytes[entry_at..entry_at + 20],
                &bytes[entry_at + 24..entry_at + 37],
            ]);
            bytes[entry_at + 20..entry_at + 24].copy_from_slice(&sum.to_le_bytes());
            let options = ReadOptions { entry_bytes_max: u64::MAX, ..ReadOptions::default() };
            let reader = ShardPackReader::from_source(source(&bytes), options).unwrap();
            let (read, peak) = measure(|| reader.read_record(0));
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "{method:?} {claim}");
            assert!(peak.bytes <= PEAK_BYTES_MAX, "{method:?} {claim}: {peak:?}");
            let limited =
                reader.with_options(ReadOptions { entry_bytes_max: 5000, ..ReadOptions::default() });
            assert_eq!(limited.read_record(0).unwrap_err().kind(), ErrorKind::TooLarge);
        }
    }
}

#[test]
fn two_damaged_neighbours_and_a_missing_piece_cost_only_themselves() {
    let records: Vec<_> =
        (0..8).map(|n| sample(&format!("k{n}"), &[("a", &[n; 500]), ("b", &[n; 300])])).collect();
    let sound = encode(&records, WriteOptions::default());
    let size = 2048.min(reader(&sound).record_range(0).unwrap().end as usize);
    // Headers of 2 and 4: the record between them lands on nothing.
    let mut bytes = sound.clone();
    bytes[2 * size + 3] ^= 1;
    bytes[4 * size + 3] ^= 1;
    bytes.truncate(8 * size);
    let (first, new) = repaired(&bytes, &RepairOptions::default()).unwrap();
    assert_eq!(keys(&new), ["k0", "k1", "k3", "k5", "k6", "k7"]);
    assert_eq!((first.recovered, first.lost.len(), first.by_index), (6, 2, false));

    // 80 bytes are gone from the middle of record 3, and the end is cut.
    let mut bytes = sound[..8 * size].to_vec();
    bytes.drain(3 * size + 400..3 * size + 480);
    let (second, new) = repaired(&bytes, &RepairOptions::default()).unwrap();
    assert_eq!(keys(&new), ["k0", "k1", "k2", "k4", "k5", "k6", "k7"]);
    assert_eq!(second.lost[0].key.as_deref(), Some("k3"));
}

/// A pack in an entry of a record whose header is damaged: its records are not records of this pack.
#[test]
fn a_pack_inside_an_entry_is_not_taken_for_records() {
    let inner = encode(&many(4), WriteOptions::default());
    let records = [
        sample("before", &[("x", b"1")]),
        sample("holder", &[("inner", &inner)]),
        sample("after", &[("x", b"2")]),
    ];
    let sound = encode(&records, WriteOptions::default());
    let at = reader(&sound).record_range(1).unwrap().start as usize;
    let mut bytes = sound.clone();
    bytes[at] ^= 8;
    bytes.truncate(bytes.len() - 20);
    let (_, new) = repaired(&bytes, &RepairOptions::default()).unwrap();
    assert_eq!(keys(&new), ["before", "after"]);
}

#[test]
fn a_repaired_pack_is_sound_keeps_its_metadata_and_its_bytes() {
    let (records, sound) = small();
    let (all, new) = repaired(&sound, &RepairOptions::default()).unwrap();
    assert_eq!((all.recovered as usize, all.lost.len(), all.by_index), (records.len(), 0, true));
    assert_eq!(reader(&new).index().user_metadata(), Some(b"{}".as_slice()));
    let end = reader(&sound).index().footer().records_end() as usize;
    assert_eq!(new[..end], sound[..end], "records are copied byte for byte");
    assert!(check(&new).unwrap().is_sound());

    let two = [sample("k", &[("good", b"good data"), ("bad", b"bad data")]), sample("l", &[("x", b"y")])];
    let mut bytes = encode(&two, WriteOptions::default());
    let at = bytes.windows(8).position(|window| window == b"bad data").unwrap();
    bytes[at] ^= 1;
    let (whole, new) = repaired(&bytes, &RepairOptions::default()).unwrap();
    assert_eq!((whole.recovered, keys(&new)), (1, vec!["l".to_owned()]));
    assert!(whole.lost[0].why.contains("\"bad\""), "{}", whole.lost[0].why);
    let (partial, new) = repaired(&bytes, &RepairOptions { keep_partial: true }).unwrap();
    assert_eq!((partial.recovered, partial.partial, partial.lost.len()), (2, 1, 1));
    assert_eq!(reader(&new).read_record(0).unwrap().file_entries.len(), 1);
}

#[test]
fn sections_that_lie_with_a_right_crc_are_reported() {
    let records = many(4);
    let options = WriteOptions { digests: true, ..WriteOptions::default() };
    let sound = encode(&records, options);
    let outline = Outline::parse(&sound).unwrap();
    for section in &outline.sections {
        // User metadata is free, and the writer section is not compared.
        if u32::from(section.kind) <= 2 {
            continue;
        }
        let mut bytes = sound.clone();
        let at = section.offset as usize;
        let payload_at = at + 24;
        let changed = if u32::from(section.kind) == 8 {
            bytes[payload_at..].windows(10).position(|window| window == b"\"records\":").unwrap()
                + payload_at
                + 10
        } else {
            payload_at
        };
        bytes[changed] ^= 1;
        reseal(&mut bytes, at, section.payload_len as usize, &outline);
        let report = check(&bytes).unwrap();
        assert!(!report.is_sound(), "{:?}", section.kind);
        assert_eq!(keys(&bytes), records.iter().map(|record| record.key.clone()).collect::<Vec<_>>());
    }
}

fn reseal(bytes: &mut [u8], section_at: usize, payload_len: usize, outline: &Outline) {
    let footer_at = bytes.len() - 64;
    let sections_at = outline.sections[0].offset as usize;
    let crc = |bytes: &[u8]| shardpack::layout::crc(&[bytes]).to_le_bytes();
    let payload = crc(&bytes[section_at + 24..section_at + 24 + payload_len]);
    bytes[section_at + 16..section_at + 20].copy_from_slice(&payload);
    let all = crc(&bytes[sections_at..footer_at]);
    bytes[footer_at + 36..footer_at + 40].copy_from_slice(&all);
    let footer =
        shardpack::layout::crc(&[&bytes[footer_at..footer_at + 52], &bytes[footer_at + 56..]]).to_le_bytes();
    bytes[footer_at + 52..footer_at + 56].copy_from_slice(&footer);
}

#[test]
fn bytes_that_are_no_pack_are_invalid_and_not_corrupt() {
    for bytes in [&b""[..], b"hello", &[0; 5000], b"PK\x03\x04 a zip file, more or less"] {
        let opened = ShardPackReader::from_source(
            source(bytes),
            ReadOptions { recover: true, ..ReadOptions::default() },
        );
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(check(bytes).unwrap_err().kind(), ErrorKind::Invalid);
    }
    let named = ShardPackReader::from_source(
        Arc::new(MemorySource::new("what.bin", vec![1; 100])),
        ReadOptions::default(),
    );
    assert!(named.unwrap_err().to_string().starts_with("what.bin: "));
}

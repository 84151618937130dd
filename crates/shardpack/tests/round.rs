//! What is written is read: by number, key, offset, batch, stream and map, and the bytes depend on the samples alone.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod samples;

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use samples::{encode, many, memory, reader, sample};
use shardpack::layout::{MetaFormat, RecordFlags};
use shardpack::read::RunOptions;
use shardpack::source::{MapSource, MemorySource};
use shardpack::write::PackSummary;
use shardpack::{
    Compression, ErrorKind, FileEntry, Method, OnError, Outline, ReadOptions, Record, ShardPackReader,
    ShardPackWriter, Source, StreamReader, Verify, WriteOptions,
};

const METHODS: [Method; 5] = [Method::None, Method::Gzip, Method::Lz4, Method::Zstd, Method::Auto];

/// As records come back: how an entry was stored shows.
fn contents(record: &Record) -> Record {
    let mut record = record.clone();
    for entry in &mut record.file_entries {
        entry.compression = Compression::None;
    }
    record
}

#[test]
fn every_way_of_reading_gives_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for method in METHODS {
        for align_bytes in [8, 64, 4096] {
            let records = many(40);
            let options = WriteOptions {
                compression: method,
                align_bytes,
                chunk_bytes: 1000,
                ..WriteOptions::default()
            };
            let bytes = encode(&records, options);
            assert!(Outline::parse(&bytes).unwrap().is_sound());
            let path = folder.path().join("a.shardpack");
            std::fs::write(&path, &bytes).unwrap();
            let sources: [Arc<dyn Source>; 3] = [
                memory(&bytes),
                Arc::new(shardpack::source::FileSource::open(&path).unwrap()),
                Arc::new(MapSource::open(&path).unwrap()),
            ];
            for source in sources {
                let reader = ShardPackReader::from_source(source, ReadOptions::default()).unwrap();
                assert_eq!(reader.len(), 40);
                for (ordinal, record) in (0..).zip(&records) {
                    assert_eq!(contents(&reader.read_record(ordinal).unwrap()), *record);
                    assert_eq!(reader.find(&record.key).unwrap(), Some(ordinal));
                    assert_eq!(reader.read_key_of(ordinal).unwrap(), record.key);
                    let offset = reader.index().offsets()[ordinal as usize];
                    assert_eq!(reader.read_record_at_offset(offset).unwrap().key, record.key);
                    for entry in &record.file_entries {
                        assert_eq!(reader.read_entry(ordinal, &entry.file_name).unwrap(), entry.data);
                    }
                }
                let all: Vec<_> = reader.iter_records().map(|record| contents(&record.unwrap())).collect();
                assert_eq!(all, records);
                assert_eq!(reader.find("no such key").unwrap(), None);
                assert_eq!(reader.read_key("no such key").unwrap_err().kind(), ErrorKind::NotFound);
                assert_eq!(reader.read_record(40).unwrap_err().kind(), ErrorKind::Invalid);
                assert_eq!(reader.read_record_at_offset(3).unwrap_err().kind(), ErrorKind::Invalid);
            }
            let streamed: Result<Vec<_>, _> =
                StreamReader::new(Cursor::new(&bytes), "pipe", Verify::Crc, 1 << 20).collect();
            assert_eq!(streamed.unwrap().iter().map(contents).collect::<Vec<_>>(), records);
        }
    }
}

/// A pipe gives as much as it likes.
#[test]
fn a_stream_may_come_in_pieces_of_any_size() {
    struct Pieces<'a>(&'a [u8], usize);
    impl std::io::Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(len);
            buffer[..len].copy_from_slice(now);
            self.0 = later;
            Ok(len)
        }
    }
    let records = many(10);
    let bytes = encode(&records, WriteOptions::default());
    for piece in [1, 7, 31, 33, 5000] {
        let streamed: Result<Vec<_>, _> =
            StreamReader::new(Pieces(&bytes, piece), "pipe", Verify::Crc, 1 << 20).collect();
        assert_eq!(streamed.unwrap(), records, "{piece}");
    }
    // A record larger than the buffer, and one larger than allowed.
    let large = [sample("large", &[("x.bin", &vec![7; 3 << 20])])];
    let bytes = encode(&large, WriteOptions::default());
    let read = |max| StreamReader::new(Cursor::new(&bytes), "pipe", Verify::Crc, max).next_record();
    assert_eq!(read(4 << 20).unwrap().unwrap(), large[0]);
    assert_eq!(read(3 << 20).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn a_batch_is_merged_into_few_reads_and_returned_in_order() {
    #[derive(Debug)]
    struct Counting(MemorySource, AtomicU64);
    impl Source for Counting {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn size(&self) -> std::io::Result<u64> {
            self.0.size()
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_at(offset, buffer)
        }
    }
    let records = many(200);
    let bytes = encode(&records, WriteOptions::default());
    let source = Arc::new(Counting(MemorySource::new("counted", bytes), AtomicU64::new(0)));
    let runs = RunOptions { gap_bytes_max: 0, run_bytes_max: 1 << 20 };
    let options = ReadOptions { runs, ..ReadOptions::default() };
    let reader = ShardPackReader::from_source(Arc::clone(&source) as Arc<dyn Source>, options).unwrap();
    assert_eq!(source.1.swap(0, Ordering::Relaxed), 1, "opened with one read");
    let ordinals = [150, 3, 4, 5, 2, 150, 199, 0];
    let batch = reader.read_batch(&ordinals).unwrap();
    for (ordinal, record) in ordinals.iter().zip(batch) {
        assert_eq!(record.unwrap(), records[*ordinal as usize]);
    }
    assert_eq!(source.1.load(Ordering::Relaxed), 4, "0, 2 to 5, 150, 199");
    assert_eq!(reader.read_batch(&[1, 200]).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(reader.read_batch(&[]).unwrap().is_empty());
}

#[test]
fn a_large_index_takes_two_reads_and_a_small_one_takes_one() {
    #[derive(Debug)]
    struct Logged(MemorySource, std::sync::Mutex<Vec<usize>>);
    impl Source for Logged {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn size(&self) -> std::io::Result<u64> {
            self.0.size()
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            self.1.lock().unwrap().push(buffer.len());
            self.0.read_at(offset, buffer)
        }
    }
    for (count, reads) in [(300, 1), (3000, 1), (20_000, 2)] {
        let records: Vec<_> = (0..count).map(|n| sample(&format!("key{n:06}"), &[("x", b"data")])).collect();
        let bytes = encode(&records, WriteOptions::default());
        let source = Arc::new(Logged(MemorySource::new("logged", bytes), std::sync::Mutex::default()));
        let dynamic: Arc<dyn Source> = Arc::clone(&source) as Arc<dyn Source>;
        let reader = ShardPackReader::from_source(dynamic, ReadOptions::default()).unwrap();
        assert_eq!(source.1.lock().unwrap().len(), reads, "{count}");
        assert_eq!(reader.find("key000123").unwrap(), Some(123));
    }
}

#[test]
fn records_depend_on_nothing_but_their_sample_and_threads_change_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let records = many(60);
    let options = WriteOptions { compression: Method::Zstd, chunk_bytes: 700, ..WriteOptions::default() };
    let whole = encode(&records, options.clone());
    let blocks = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let reader = reader(bytes);
        let block = |ordinal| reader.with_record(ordinal, |record| Ok(record.block().to_vec())).unwrap();
        (0..reader.len()).map(block).collect()
    };
    let mut reversed: Vec<_> = records.clone();
    reversed.reverse();
    let mut backwards = blocks(&encode(&reversed, options.clone()));
    backwards.reverse();
    assert_eq!(blocks(&whole), backwards, "position is not in a record");

    for threads in [1, 2, 5] {
        let path = folder.path().join("threads.shardpack");
        let mut writer = ShardPackWriter::create_with(&path, options.clone(), threads).unwrap();
        for record in &records {
            writer.write_owned(record.clone()).unwrap();
        }
        writer.finalize().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole, "{threads} threads");
    }
}

#[test]
fn a_file_appears_when_it_is_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let names = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    let path = folder.path().join("a.shardpack");
    let mut writer = ShardPackWriter::create(&path, None).unwrap();
    writer.write_record(&sample("a", &[("x", b"1")])).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert!(names().is_empty(), "{:?}", names());

    let mut writer = ShardPackWriter::create(&path, Some(br#"{"by":"me"}"#)).unwrap();
    writer.write_record(&sample("a", &[("x", b"1")])).unwrap();
    let PackSummary { bytes, .. } = writer.finalize().unwrap();
    assert_eq!((names(), path.metadata().unwrap().len()), (vec!["a.shardpack".to_owned()], bytes));
    assert_eq!(writer.finalize().unwrap_err().kind(), ErrorKind::Invalid);
    let reader = ShardPackReader::open(&path).unwrap();
    assert_eq!(reader.index().user_metadata(), Some(br#"{"by":"me"}"#.as_slice()));
    let missing = ShardPackWriter::create(folder.path().join("no/such/folder/x"), None).unwrap_err();
    assert!(missing.to_string().contains("no/such/folder"), "{missing}");
}

#[test]
fn what_cannot_be_written_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.shardpack");
    let long = "k".repeat(65_536);
    let refused = [
        (sample("", &[]), ErrorKind::Corrupt),
        (sample(&long, &[]), ErrorKind::Corrupt),
        (sample("k", &[(&long, b"")]), ErrorKind::Corrupt),
        (sample("too large", &[("x", &[0; 2000])]), ErrorKind::TooLarge),
    ];
    let options = WriteOptions { record_bytes_max: 1500, ..WriteOptions::default() };
    let mut writer = ShardPackWriter::create_with(&path, options, 1).unwrap();
    for (record, kind) in refused {
        let error = writer.write_record(&record).unwrap_err();
        assert!(error.kind() == kind || error.kind() == ErrorKind::TooLarge, "{error}");
        assert_eq!(error.key(), Some(record.key.as_str()));
    }
    // None of them left a byte.
    writer.write_record(&sample("k", &[("x", b"y")])).unwrap();
    writer.finalize().unwrap();
    assert_eq!(ShardPackReader::open(&path).unwrap().len(), 1);

    for metadata in [&b"[1]"[..], b"", b"{", b"\"text\""] {
        assert_eq!(ShardPackWriter::create(&path, Some(metadata)).unwrap_err().kind(), ErrorKind::Invalid);
    }
    for align_bytes in [0, 4, 12, 8192] {
        let options = WriteOptions { align_bytes, ..WriteOptions::default() };
        assert_eq!(ShardPackWriter::create_with(&path, options, 1).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_part_of_a_large_entry_is_read_without_the_rest() {
    let text: Vec<u8> = (0..400_000_u32).flat_map(|n| format!("{n} ").into_bytes()).collect();
    let noise: Vec<u8> = testkit::corpus::noise(5, 1_500_000);
    let record = sample("large", &[("text.txt", &text), ("noise.bin", &noise)]);
    for method in METHODS {
        let options = WriteOptions { compression: method, chunk_bytes: 100_000, ..WriteOptions::default() };
        let bytes = encode(std::slice::from_ref(&record), options);
        let reader = reader(&bytes);
        assert!(reader.index().entry_place(0, 1).is_some(), "records of more than a MiB have a directory");
        assert!(reader.index().entry_place(0, 2).is_none() && reader.index().entry_place(1, 0).is_none());
        for (number, data) in [(0, &text), (1, &noise)] {
            let len = data.len() as u64;
            for range in [
                0..1,
                0..len,
                99_999..100_001,
                250_000..650_000,
                len - 1..len,
                len - 5..len + 5,
                len..len + 1,
            ] {
                let part = reader.read_entry_range(0, number, range.clone()).unwrap();
                let expected = &data[range.start.min(len) as usize..range.end.min(len) as usize];
                assert_eq!(part, expected, "{method:?} {number} {range:?}");
            }
        }
        // A copy keeps the table.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.shardpack");
        let mut writer = ShardPackWriter::create(&path, None).unwrap();
        reader.with_record(0, |record| writer.write_block(record.block(), reader.frames_of(0))).unwrap();
        writer.finalize().unwrap();
        let copy = ShardPackReader::open(&path).unwrap();
        assert_eq!(copy.index().entry_place(0, 0), reader.index().entry_place(0, 0));
    }
}

#[test]
fn keys_of_any_kind_are_found_and_flags_say_what_holds() {
    let keys = ["a", "b/c", "é", "x.y.z", " ", "日本語", &"long".repeat(4000)];
    let records: Vec<_> = keys.iter().map(|key| sample(key, &[])).collect();
    let bytes = encode(&records, WriteOptions::default());
    let reader_of = reader(&bytes);
    for (ordinal, key) in (0..).zip(keys) {
        assert_eq!(reader_of.find(key).unwrap(), Some(ordinal), "{key}");
    }
    assert!(
        reader_of.index().footer().features.keys_unique()
            && !reader_of.index().footer().features.keys_sorted()
    );
    let twice = encode(&[sample("b", &[]), sample("a", &[]), sample("b", &[])], WriteOptions::default());
    let features = reader(&twice).index().footer().features;
    assert!(!features.keys_unique() && !features.keys_sorted());
    assert_eq!(reader(&twice).find("b").unwrap(), Some(0), "the first of several");
    let sorted = encode(&[sample("a", &[]), sample("b", &[])], WriteOptions::default());
    assert!(reader(&sorted).index().footer().features.keys_sorted());
}

#[test]
fn metadata_flags_column_and_digests_come_back() {
    let record = Record {
        key: "k".into(),
        metadata: br#"{"a":1}"#.to_vec(),
        meta_format: MetaFormat::Json,
        flags: RecordFlags(3),
        file_entries: vec![FileEntry { content_type: "application/x-own".into(), ..FileEntry::default() }],
    };
    let options = WriteOptions { column: "depth".into(), digests: true, ..WriteOptions::default() };
    let bytes = encode(std::slice::from_ref(&record), options);
    let reader = reader(&bytes);
    assert_eq!(reader.read_record(0).unwrap(), record);
    assert_eq!(reader.index().column(), "depth");
    let block = reader.with_record(0, |record| Ok(record.block().to_vec())).unwrap();
    assert_eq!(reader.index().record_digest(0), Some(*blake3_of(&block)));
    assert_eq!(reader.index().statistics().unwrap().entries, 1);
    let empty = encode(&[], WriteOptions::default());
    assert!(samples::reader(&empty).is_empty() && samples::reader(&empty).iter_records().next().is_none());
}

fn blake3_of(bytes: &[u8]) -> Box<[u8; 32]> {
    Box::new(*blake3::hash(bytes).as_bytes())
}

/// A source that is wrong the first time, as a damaged cache would be.
#[test]
fn policies_raise_skip_and_read_again() {
    #[derive(Debug)]
    struct Flaky(MemorySource);
    impl Source for Flaky {
        fn name(&self) -> &str {
            "flaky"
        }
        fn size(&self) -> std::io::Result<u64> {
            self.0.size()
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            self.0.read_at(offset, buffer)?;
            // The data of record 3.
            if let Some(at) =
                3000_u64.checked_sub(offset).map(|at| at as usize).filter(|&at| at < buffer.len())
            {
                buffer[at] ^= 1;
            }
            Ok(())
        }
        fn read_again(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            self.0.read_at(offset, buffer)
        }
    }
    let records: Vec<_> = (0..6).map(|n| sample(&format!("k{n}"), &[("data", &[n; 800])])).collect();
    let bytes = encode(&records, WriteOptions::default());
    let open = |on_error| {
        let source: Arc<dyn Source> = Arc::new(Flaky(MemorySource::new("flaky", bytes.clone())));
        ShardPackReader::from_source(source, ReadOptions { on_error, ..ReadOptions::default() }).unwrap()
    };
    let ordinals = [0, 1, 2, 3, 4, 5];
    let raise = open(OnError::Raise);
    let error = raise.read_record(3).unwrap_err();
    assert_eq!(
        (error.kind(), error.key(), error.entry(), error.ordinal()),
        (ErrorKind::Corrupt, Some("k3"), Some("data"), Some(3))
    );
    assert!(error.to_string().contains("flaky") && error.offset().is_some(), "{error}");
    assert!(raise.read_batch(&ordinals).is_err());
    assert_eq!(raise.iter_records().filter(Result::is_err).count(), 1);
    let skip = open(OnError::Skip);
    let keys: Vec<_> = skip.iter_records().map(|record| record.unwrap().key).collect();
    assert_eq!(keys, ["k0", "k1", "k2", "k4", "k5"]);
    let batch = skip.read_batch(&ordinals).unwrap();
    assert_eq!(batch.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, true, false, true, true]);
    let again = open(OnError::Refetch);
    assert_eq!(again.read_record(3).unwrap(), records[3]);
    assert_eq!(again.iter_records().map(Result::unwrap).collect::<Vec<_>>(), records);
    assert!(again.read_batch(&ordinals).unwrap().iter().all(Option::is_some));
}

proptest! {
    #[test]
    fn any_records_round_trip(
        records in prop::collection::vec(any_record(), 0..8),
        method in prop::sample::select(METHODS.to_vec()),
        align_bytes in prop::sample::select(vec![8_u64, 16, 512, 4096]),
        chunk_bytes in prop::sample::select(vec![0_usize, 1, 100, 4 << 20]),
        digests: bool,
    ) {
        let options = WriteOptions { compression: method, align_bytes, chunk_bytes, digests, ..WriteOptions::default() };
        let bytes = encode(&records, options);
        prop_assert!(Outline::parse(&bytes).unwrap().is_sound());
        let source: Arc<dyn Source> = memory(&bytes);
        let verify = shardpack::check::VerifyOptions { decode_bytes_max: 1 << 20, ..Default::default() };
        let report = shardpack::check::verify(&source, verify, |_| {}).unwrap();
        prop_assert!(report.is_sound(), "{:?}", report.faults);
        let read: Vec<_> = reader(&bytes).iter_records().map(|record| contents(&record.unwrap())).collect();
        prop_assert_eq!(read, records);
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let content_type = prop_oneof![Just("text/plain".to_owned()), Just("image/jpeg".to_owned()), ".{0,12}"];
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        (0_usize..3000).prop_map(|len| vec![b'x'; len])
    ];
    let entry = (".{0,12}", content_type, data).prop_map(|(file_name, content_type, data)| FileEntry {
        file_name,
        content_type,
        data,
        compression: Compression::None,
    });
    (".{1,20}", any::<u8>(), prop::collection::vec(any::<u8>(), 0..30), prop::collection::vec(entry, 0..4))
        .prop_map(|(key, flags, metadata, file_entries)| Record {
            key,
            metadata,
            meta_format: MetaFormat::Raw,
            flags: RecordFlags(flags),
            file_entries,
        })
}

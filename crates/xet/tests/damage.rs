//! Damaged and lying input: every parser answers with an error or a value, never with a panic or a large allocation.
//!
//! The cap on memory is the point: a count in a file of a kilobyte must not decide how much is allocated.

use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::alloc::{CountingAllocator, measure};
use testkit::vectors::Vectors;
use testkit::{corpus, damage};
use xet::chunk::Chunker;
use xet::compress::{Compressor, Decompressor, Policy, Scheme};
use xet::cursor::Reader;
use xet::shard::{self, Shard, ShardView, verify_stored, verify_upload};
use xet::wire::multipart::{self, Boundary};
use xet::wire::{self, Frame, FrameReader, Reconstruction, ReconstructionV1, ReconstructionV2, range};
use xet::xorb::{self, ChunkDecoder, ChunkReader, Footer, Form, XorbBuilder};
use xet::{ChunkHash, FormatError, Hash, Sha256};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// More than any small input needs, and far less than any number in it could claim.
const PEAK_BYTES_MAX: usize = 4 << 20;

/// Whether the shorter prefixes of a format may be valid themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefixes {
    /// The end is part of the format: each cut shows.
    Refused,
    /// A sequence that may end at several places.
    MayParse,
}

/// Spoils `sound` in every way we know and parses each copy.
fn endures<T>(name: &str, sound: &[u8], prefixes: Prefixes, parse: impl Fn(&[u8]) -> Result<T, FormatError>) {
    if let Err(error) = case(name, "untouched", sound, &parse) {
        panic!("{name}: {error}");
    }
    for (what, bytes) in damage::truncations(sound) {
        let result = case(name, &what, &bytes, &parse);
        assert!(prefixes == Prefixes::MayParse || result.is_err(), "{name}: {what}: accepted");
    }
    let spoiled = damage::flips(sound).chain(damage::extensions(sound)).chain(damage::lies_everywhere(sound));
    for (what, bytes) in spoiled {
        // Some of these are valid: a byte that is ignored, a chunk of other bytes. Survival is the promise.
        let _ = case(name, &what, &bytes, &parse);
    }
}

/// One parse: no panic, little memory, and an error that points into the input.
fn case<T>(
    name: &str,
    what: &str,
    bytes: &[u8],
    parse: &impl Fn(&[u8]) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    let (result, peak) = measure(|| catch_unwind(AssertUnwindSafe(|| parse(bytes))));
    let result = result.unwrap_or_else(|_| panic!("{name}: {what}: panicked"));
    assert!(peak.bytes <= PEAK_BYTES_MAX, "{name}: {what}: held {} bytes", peak.bytes);
    assert!(peak.largest <= PEAK_BYTES_MAX, "{name}: {what}: asked for {} bytes at once", peak.largest);
    if let Err(error) = &result {
        assert!(error.at() <= bytes.len() as u64, "{name}: {what}: {error}");
    }
    result
}

#[test]
fn hash_text_endures_damage() {
    let text = b"07060504030201000f0e0d0c0b0a0908".repeat(2);
    let as_text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    endures("hash", &text, Prefixes::Refused, |bytes| as_text(bytes).parse::<Hash>());
    endures("sha256", &text, Prefixes::Refused, |bytes| as_text(bytes).parse::<Sha256>());
}

/// Bodies that clients and servers read from each other.
#[test]
fn wire_bodies_endure_damage() {
    let hash = "07060504030201000f0e0d0c0b0a0908".repeat(2);
    let terms = format!(r#"[{{"hash":"{hash}","unpacked_length":9,"range":{{"start":0,"end":4}}}}]"#);
    let v1 = format!(
        r#"{{"offset_into_first_range":3,"terms":{terms},"fetch_info":{{"{hash}":[{{"range":{{"start":0,"end":4}},"url":"u","url_range":{{"start":0,"end":99}}}}]}}}}"#
    );
    endures("reconstruction version 1", v1.as_bytes(), Prefixes::Refused, |bytes| {
        wire::parse_json::<ReconstructionV1>(bytes).and_then(Reconstruction::try_from)
    });
    let v2 = format!(
        r#"{{"offset_into_first_range":3,"terms":{terms},"xorbs":{{"{hash}":[{{"url":"u","ranges":[{{"chunks":{{"start":0,"end":4}},"bytes":{{"start":0,"end":99}}}}]}}]}}}}"#
    );
    endures("reconstruction version 2", v2.as_bytes(), Prefixes::Refused, |bytes| {
        wire::parse_json::<ReconstructionV2>(bytes).and_then(Reconstruction::try_from)
    });

    let frames =
        b"{\"type\":\"validating\",\"verified\":1,\"total\":2}\n{\"type\":\"result\",\"result\":1}\n";
    endures("frames", frames, Prefixes::MayParse, |mut bytes| {
        let mut reader = FrameReader::new();
        let mut frames: Vec<Frame> = Vec::new();
        while let Some(frame) = reader.read(&mut bytes)? {
            frames.push(frame);
        }
        frames.extend(reader.finish()?.frame);
        Ok(frames)
    });

    let parts = b"--SEP\r\nContent-Range: bytes 0-2/9\r\n\r\nabc\r\n--SEP\r\nContent-Range: bytes 7-7/9\r\n\r\nx\r\n--SEP--";
    let boundary = Boundary::new("SEP").expect("three letters are a boundary");
    endures("multipart", parts, Prefixes::Refused, |bytes| {
        multipart::parse(bytes, &boundary, 9).map(|parts| parts.len())
    });

    endures("range header", b" bytes=0-18446744073709551614, 5-,-7", Prefixes::MayParse, |bytes| {
        range::parse_ranges(&String::from_utf8_lossy(bytes), 4)
    });
}

/// Untrusted text is quoted in the error, but not all of it.
#[test]
fn an_error_does_not_grow_with_the_text_it_quotes() {
    let long = "z".repeat(1 << 20);
    let (error, peak) = measure(|| long.parse::<Hash>().unwrap_err());
    assert!(error.to_string().len() < 500);
    assert!(peak.bytes < 1000, "{peak:?}");

    let json = format!(r#"{{"was_inserted":"{long}"}}"#);
    let error = wire::parse_json::<wire::XorbUploaded>(json.as_bytes()).unwrap_err();
    assert!(error.to_string().len() < 1000);
    assert!(range::parse_ranges(&long, 4).unwrap_err().to_string().len() < 500);
}

/// The pattern all stored chunks follow: a count, then as many fields as it says.
#[test]
fn a_counted_list_endures_damage() {
    let mut sound = 3u32.to_le_bytes().to_vec();
    sound.extend(corpus::noise(1, 3 * 8));
    endures("counted list", &sound, Prefixes::Refused, |bytes| {
        let mut r = Reader::new(bytes);
        let count = r.u32("count")?;
        let values: Vec<u64> = (0..count).map(|_| r.u64("value")).collect::<Result<_, _>>()?;
        r.finish("list")?;
        Ok(values)
    });
}

#[test]
fn a_reader_refuses_a_length_before_it_takes_memory() {
    for (what, bytes) in damage::lies_u64(&[8, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], 0) {
        let _ = case("length", &what, &bytes, &|bytes: &[u8]| {
            let mut r = Reader::new(bytes);
            let len = usize::try_from(r.u64("length")?).unwrap_or(usize::MAX);
            r.take("bytes", len).map(<[u8]>::to_vec)
        });
    }
}

/// The stream is as long as the sender likes; what the chunker holds is not.
#[test]
fn a_chunker_holds_no_more_than_its_cuts() {
    let piece = corpus::noise(1, 1 << 16);
    let ((), peak) = measure(|| {
        let mut chunker = Chunker::new();
        let mut cuts = Vec::new();
        for _ in 0..256 {
            chunker.push(&piece, &mut cuts);
            cuts.clear();
        }
    });
    assert!(peak.bytes < 1 << 16, "{peak:?}");
}

/// All three forms, whole, footer alone and stored chunk by stored chunk.
#[test]
fn xorbs_endure_damage() {
    let mut builder = XorbBuilder::new(Policy::Auto);
    for chunk in [corpus::noise(1, 60), corpus::text(2, 700), corpus::constant(0, 9000)] {
        builder.push(ChunkHash::of(&chunk), &chunk).expect("three small chunks fit");
    }
    let sealed = builder.seal(Form::V1).expect("it has chunks");
    let stored_bytes = usize::try_from(sealed.info.stored_bytes()).expect("a small number");
    let expected = Some(sealed.info.hash());
    let mut v0 = sealed.bytes[..stored_bytes].to_vec();
    sealed.info.encode_footer(Form::V0, &mut v0);

    let stored = |bytes: &[u8]| xorb::verify(bytes, expected, true);
    endures("xorb with footer", &sealed.bytes, Prefixes::Refused, stored);
    endures("xorb with old footer", &v0, Prefixes::Refused, stored);
    let upload = |bytes: &[u8]| xorb::verify(bytes, expected, false);
    endures("uploaded xorb", &sealed.bytes[..stored_bytes], Prefixes::Refused, upload);
    endures("xorb footer", &sealed.bytes, Prefixes::Refused, |bytes| Footer::parse(bytes, 0));
    endures("stored chunks", &sealed.bytes[..stored_bytes], Prefixes::MayParse, |bytes| {
        let mut decoder = ChunkDecoder::new();
        let mut reader = ChunkReader::new(bytes, 0, &mut decoder);
        let mut chunks = 0;
        while reader.next_chunk()?.is_some() {
            chunks += 1;
        }
        Ok(chunks)
    });
}

/// A frame cannot make the decoder write or hold more than the chunk it decodes.
#[test]
fn compressed_chunks_endure_damage() {
    for (scheme, chunk) in
        [(Scheme::Lz4, corpus::text(3, 3000)), (Scheme::GroupedLz4, corpus::f32_ramp(1.0, 0.5, 4001))]
    {
        let mut stored = Vec::new();
        let used = Compressor::new().compress(Policy::Always(scheme), &chunk, &mut stored);
        assert_eq!(used, scheme);
        endures(scheme.name(), &stored, Prefixes::Refused, |bytes| {
            let mut raw = vec![0; chunk.len()];
            Decompressor::new().decompress(0, scheme, bytes, &mut raw)
        });
    }
}

/// Both forms, and the questions a view answers. What follows an upload is not looked at.
#[test]
fn shards_endure_damage() {
    let vectors = Vectors::committed();
    let upload = vectors.read("shards/no_sha256.upload.shard");
    endures("uploaded shard", &upload, Prefixes::Refused, verify_upload);
    for stored in ["shards/no_sha256.stored.shard", "shards/single_text.dedup_lookup.shard"] {
        let stored = vectors.read(stored);
        let sound = Shard::parse_stored(&stored).expect("a golden shard");
        endures("stored shard", &stored, Prefixes::Refused, verify_stored);
        endures("shard view", &stored, Prefixes::Refused, |bytes| {
            let view = ShardView::new(bytes)?;
            for xorb in &sound.xorbs {
                view.chunk_count(&xorb.hash)?;
                // In an answer these are keyed already, so that they are found nowhere; a search is a search.
                view.dedup(&xorb.chunks.iter().map(|chunk| chunk.hash).collect::<Vec<_>>())?;
            }
            Ok(())
        });
    }
}

/// A count that could be true allocates nothing by itself; only the stored chunks that follow do.
#[test]
fn a_large_count_in_a_shard_allocates_nothing() {
    let head = |count: u32, flags: u32| {
        let mut row = [7; 48];
        row[32..36].copy_from_slice(&flags.to_le_bytes());
        row[36..40].copy_from_slice(&count.to_le_bytes());
        row
    };
    let header = shard::Header::UPLOAD.encode();
    let bookend = [[0xff; 48]];
    let files = [&header[..], &head(600_000, 1 << 31)].concat();
    let xorbs = [&header[..], &bookend.concat(), &head(1_300_000, 0)].concat();
    for (bytes, at) in [(files, 96), (xorbs, 144)] {
        let (error, peak) = measure(|| Shard::parse_upload(&bytes).expect_err("the rows are missing"));
        assert!(matches!(error, FormatError::Truncated { .. }), "{error}");
        assert_eq!(error.at(), at);
        assert!(peak.bytes < 1 << 10, "{peak:?}");
    }
}

//! Damaged and lying input: every parser answers with an error or a value, never with a panic or a large allocation.
//!
//! The cap on memory is the point: a count in a file of a kilobyte must not decide how much is allocated.

use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::alloc::{CountingAllocator, measure};
use testkit::{corpus, damage};
use xet::chunk::Chunker;
use xet::cursor::Reader;
use xet::{FormatError, Hash, Sha256};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// More than any small input needs, and far less than any number in it could ask for.
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
        // Some of these are valid: a byte that is ignored, a chunk of other bytes. Surviving is what is asked.
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

/// A stranger's text is quoted in the error, but not all of it.
#[test]
fn an_error_does_not_grow_with_the_text_it_quotes() {
    let long = "z".repeat(1 << 20);
    let (error, peak) = measure(|| long.parse::<Hash>().unwrap_err());
    assert!(error.to_string().len() < 500);
    assert!(peak.bytes < 1000, "{peak:?}");
}

/// The pattern all records follow: a count, then as many fields as it says.
#[test]
fn a_counted_record_endures_damage() {
    let mut sound = 3u32.to_le_bytes().to_vec();
    sound.extend(corpus::noise(1, 3 * 8));
    endures("counted record", &sound, Prefixes::Refused, |bytes| {
        let mut r = Reader::new(bytes);
        let count = r.u32("count")?;
        let values: Vec<u64> = (0..count).map(|_| r.u64("value")).collect::<Result<_, _>>()?;
        r.finish("record")?;
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

//! Damaged and lying packs: each is refused or reported, never with a panic or a large allocation.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod pack;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pack::{Tail, put, reseal_entry, reseal_record, reseal_tail, sample};
use shardpack::{FormatError, Outline};
use testkit::alloc::{CountingAllocator, measure};
use testkit::damage;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// More than any small pack needs, and far less than any number in it could claim.
const PEAK_BYTES_MAX: usize = 4 << 20;

/// Reads one spoiled pack: no panic, little memory, and errors that point into the input.
fn case(what: &str, bytes: &[u8]) -> Result<Outline, FormatError> {
    let (result, peak) = measure(|| catch_unwind(AssertUnwindSafe(|| Outline::parse(bytes))));
    let result = result.unwrap_or_else(|_| panic!("{what}: panicked"));
    assert!(peak.bytes <= PEAK_BYTES_MAX, "{what}: held {} bytes", peak.bytes);
    assert!(peak.largest <= PEAK_BYTES_MAX, "{what}: asked for {} bytes at once", peak.largest);
    let errors: Vec<_> =
        result.iter().flat_map(|outline| &outline.damaged).chain(result.as_ref().err()).collect();
    for error in errors {
        assert!(error.at() <= bytes.len() as u64, "{what}: {error}");
    }
    result
}

/// Whether the damage shows.
fn shows(result: &Result<Outline, FormatError>) -> bool {
    !result.as_ref().is_ok_and(Outline::is_sound)
}

#[test]
fn every_cut_is_refused_or_reported_with_every_whole_record() {
    let sound = sample();
    let truth = Outline::parse(&sound).unwrap();
    let ends: Vec<u64> = truth.records.iter().map(|record| record.offset + record.size).collect();
    for (what, bytes) in damage::truncations(&sound) {
        let Ok(outline) = case(&what, &bytes) else {
            assert!(bytes.len() < 12, "{what}: refused");
            continue;
        };
        let whole = ends.iter().filter(|&&end| end <= bytes.len() as u64).count();
        assert_eq!(outline.records, truth.records[..whole], "{what}");
        assert_eq!(outline.footer, None, "{what}");
        assert_eq!(outline.truncated, Some(if whole == 0 { 0 } else { ends[whole - 1] }), "{what}");
        let marker_is_whole = bytes.len() as u64 >= truth.records_end.unwrap() + 16;
        assert_eq!(outline.records_end.is_some(), marker_is_whole, "{what}");
        assert!(outline.damaged.is_empty(), "{what}: {:?}", outline.damaged);
    }
}

/// No byte is excepted: CRCs cover all but the padding, and padding that is not zero is reported.
#[test]
fn every_flipped_byte_is_refused_or_reported() {
    let small = include_bytes!("../../../testdata/packs/small.pack");
    for sound in [sample(), small.to_vec()] {
        for (what, bytes) in damage::flips(&sound) {
            assert!(shows(&case(&what, &bytes)), "{what}: not noticed");
        }
    }
}

#[test]
fn whatever_is_appended_is_refused() {
    for (what, bytes) in damage::extensions(&sample()) {
        assert!(case(&what, &bytes).is_err(), "{what}");
    }
}

#[test]
fn numbers_changed_anywhere_are_survived() {
    for (what, bytes) in damage::lies_everywhere(&sample()) {
        assert!(shows(&case(&what, &bytes)), "{what}: not noticed");
    }
}

/// The worst liar computes the CRC anew, so that only the check of the number itself stands in the way.
#[test]
fn lies_of_a_record_with_a_valid_crc_show() {
    let sound = sample();
    let at = Outline::parse(&sound).unwrap().records[1].offset as usize;
    for (field, len, name) in
        [(0, 8, "record_size"), (16, 4, "entry_count"), (20, 4, "meta_len"), (24, 2, "key_len")]
    {
        for (what, mut bytes) in damage::lies(&sound, at + field, len) {
            reseal_record(&mut bytes, at);
            let result = case(&format!("{name}: {what}"), &bytes);
            let outline = result.unwrap();
            // A length may swallow padding or what follows it and still end at an entry: then the key shows it.
            let changed =
                outline.records.get(1).is_none_or(|record| record.key != "b/c" || record.meta_len > 0);
            assert!(shows(&Ok(outline)) || changed, "{name}: {what}: not noticed");
        }
        // The same without the end of the pack.
        for (what, mut bytes) in damage::lies(&sound, at + field, len) {
            reseal_record(&mut bytes, at);
            bytes.truncate(bytes.len() - 1);
            assert!(shows(&case(&format!("{name}, cut: {what}"), &bytes)));
        }
    }
}

#[test]
fn lies_of_an_entry_with_a_valid_crc_show() {
    let sound = sample();
    let record = &Outline::parse(&sound).unwrap().records[1];
    let at = record.offset as usize + 40; // header 32, key 3, padding 5
    assert_eq!(&sound[at + 32..at + 40], b"left.jpg");
    let fields = [
        (0, 8, "file_size"),
        (8, 8, "stored_size"),
        (24, 2, "name_len"),
        (26, 2, "content_type_len"),
        (30, 2, "data_pad"),
    ];
    for (field, len, name) in fields {
        for (what, mut bytes) in damage::lies(&sound, at + field, len) {
            reseal_entry(&mut bytes, at);
            assert!(shows(&case(&format!("{name}: {what}"), &bytes)), "{name}: {what}: not noticed");
        }
    }
}

#[test]
fn lies_of_the_tail_with_valid_crcs_are_refused() {
    let sound = sample();
    let truth = Outline::parse(&sound).unwrap().footer.unwrap();
    let (index, footer) = (truth.index_offset as usize, sound.len() - 64);
    let section = index + 8 + 8 * 3;
    let fields = [
        (index - 16, "tail_size"),
        (index, "count"),
        (index + 8, "first offset"),
        (index + 16, "second offset"),
        (index + 24, "third offset"),
        (section + 8, "section length"),
        (footer, "index_offset"),
        (footer + 8, "index_size"),
        (footer + 16, "record count"),
        (footer + 24, "file_size"),
    ];
    for (at, name) in fields {
        for (what, mut bytes) in damage::lies_u64(&sound, at) {
            reseal_tail(&mut bytes, &truth);
            assert!(shows(&case(&format!("{name}: {what}"), &bytes)), "{name}: {what}: not noticed");
        }
    }
    // Both counts lie alike.
    for lie in [0, 2, 4, 1 << 61, u64::MAX / 8, u64::MAX] {
        let mut bytes = sound.clone();
        put(&mut bytes, index, 8, lie);
        put(&mut bytes, footer + 16, 8, lie);
        reseal_tail(&mut bytes, &truth);
        assert!(shows(&case(&format!("both counts say {lie}"), &bytes)), "both counts say {lie}");
    }
}

#[test]
fn offsets_out_of_order_are_refused_by_their_own_check() {
    let sound = sample();
    let outline = Outline::parse(&sound).unwrap();
    let truth = outline.footer.unwrap();
    let (second, end) = (outline.records[1].offset, outline.records_end.unwrap());
    let index = truth.index_offset as usize;
    let with = |at: usize, value: u64| {
        let mut bytes = sound.clone();
        put(&mut bytes, index + at, 8, value);
        reseal_tail(&mut bytes, &truth);
        case("offset", &bytes).unwrap_err()
    };
    assert!(matches!(with(8, 8), FormatError::Number { expected: 0, found: 8, .. }));
    assert!(matches!(with(16, 0), FormatError::Order { below: 0, found: 0, .. }));
    assert!(matches!(with(24, second), FormatError::Order { .. }));
    assert!(matches!(with(24, end), FormatError::Range { .. }));
    assert!(matches!(with(24, second + 4), FormatError::Unaligned { .. }));
}

/// With an index one bad record costs itself only; without one, the walk still hops over it by its header.
#[test]
fn a_damaged_record_is_stepped_over() {
    let sound = sample();
    let record = &Outline::parse(&sound).unwrap().records[1];
    let entry_name = record.offset as usize + 40 + 32;
    for cut in [0, 1] {
        let mut bytes = sound.clone();
        bytes[entry_name] ^= 1;
        bytes.truncate(sound.len() - cut);
        let outline = case("entry header", &bytes).unwrap();
        let keys: Vec<_> = outline.records.iter().map(|record| record.key.as_str()).collect();
        assert_eq!(keys, ["a", "gone"]);
        assert!(matches!(outline.damaged[..], [FormatError::Crc { what: "entry header", .. }]));
    }
    // A damaged record header: its neighbours stay with an index, those after it are lost to the walk without one.
    let mut bytes = sound.clone();
    bytes[record.offset as usize] ^= 8;
    assert_eq!(case("record header", &bytes).unwrap().records.len(), 2);
    bytes.pop();
    let outline = case("record header", &bytes).unwrap();
    assert_eq!((outline.records.len(), outline.truncated), (1, Some(record.offset)));
    assert!(matches!(outline.damaged[..], [FormatError::Crc { what: "record header", .. }]));
}

#[test]
fn data_and_sections_that_fail_their_crc_are_named() {
    let sound = sample();
    let truth = Outline::parse(&sound).unwrap();
    let mut bytes = sound.clone();
    bytes[truth.records[0].entries[0].data_offset as usize] ^= 1;
    let outline = case("data", &bytes).unwrap();
    assert!(!outline.records[0].entries[0].data_crc_holds && outline.records[1].entries[0].data_crc_holds);
    assert!(outline.damaged.is_empty() && !outline.is_sound());

    let mut bytes = sound.clone();
    bytes[truth.sections[0].offset as usize + 24] ^= 1;
    let outline = case("section", &bytes).unwrap();
    assert!(!outline.sections[0].crc_holds && outline.sections[1].crc_holds);
    assert!(matches!(outline.damaged[..], [FormatError::Crc { what: "sections", .. }]));
}

#[test]
fn a_section_of_the_wrong_length_for_the_records_is_refused() {
    for (kind, len) in [(3, 8), (4, 8), (5, 31), (7, 33)] {
        let tail = Tail { sections: vec![(kind, 0, vec![0; len])], ..Tail::default() };
        let bytes = pack::encode(&pack::sample_records(), &tail);
        assert!(case("section", &bytes).is_err(), "section {kind}");
    }
}

#[test]
fn strings_that_are_not_utf_8_are_refused_where_they_break() {
    let mut bytes = sample();
    bytes[32] = 0xff;
    reseal_record(&mut bytes, 0);
    let expected = FormatError::Text { at: 32, what: "record key", found: 0xff };
    assert_eq!(case("key", &bytes).unwrap().damaged, [expected]);
    let mut bytes = sample();
    bytes[40 + 32] = 0x80;
    reseal_entry(&mut bytes, 40);
    let expected = FormatError::Text { at: 72, what: "entry name", found: 0x80 };
    assert_eq!(case("name", &bytes).unwrap().damaged, [expected]);
}

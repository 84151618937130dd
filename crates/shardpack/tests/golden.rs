//! Packs that are known: one made by another reading of the tables, ours, empty, aligned, cut.

mod pack;

use pack::{Record, Tail, encode, record, sample, sample_records};
use proptest::prelude::*;
use shardpack::layout::{Features, SectionKind};
use shardpack::outline::TEXT_BYTES_MAX;
use shardpack::{Compression, ContentType, FormatError, Outline, has_pack_magic};

/// How it was made is in `testdata/README.md`.
const SMALL: &[u8] = include_bytes!("../../../testdata/packs/small.pack");

#[test]
fn a_pack_made_by_others_is_read_as_they_wrote_it() {
    let outline = Outline::parse(SMALL).unwrap();
    assert!(outline.is_sound());
    let footer = outline.footer.unwrap();
    assert_eq!((footer.record_count, footer.features), (12, Features::KEYS_UNIQUE));
    let kinds: Vec<u32> = outline.sections.iter().map(|section| section.kind.into()).collect();
    assert_eq!(kinds, [1, 3, 4, 5]);
    assert_eq!(outline.sections[0].text.as_deref(), Some(r#"{"creator": "MyName"}"#));

    let expected = small_records();
    assert_eq!(outline.records.len(), expected.len());
    for (found, expected) in outline.records.iter().zip(&expected) {
        assert_eq!(found.key, expected.key);
        assert_eq!(found.meta_len, expected.meta.len() as u64);
        assert_eq!(found.entries.len(), expected.entries.len());
        for (entry, (name, content_type, data)) in found.entries.iter().zip(&expected.entries) {
            assert_eq!(
                (entry.name.as_str(), entry.content_type.as_str()),
                (name.as_str(), Some(content_type.as_str()))
            );
            assert_eq!((entry.file_size, entry.stored_size), (data.len() as u64, data.len() as u64));
            let at = entry.data_offset as usize;
            assert_eq!(&SMALL[at..at + data.len()], data);
        }
    }
}

/// The other way round: what we encode from the same records has the same bytes.
#[test]
fn the_same_records_encode_to_the_bytes_others_wrote() {
    let sections = Outline::parse(SMALL).unwrap().sections;
    let payload = |at: u64, len: u64| SMALL[at as usize + 24..][..len as usize].to_vec();
    let sections =
        sections.iter().map(|s| (s.kind.into(), s.flags.0, payload(s.offset, s.payload_len))).collect();
    let ours = encode(&small_records(), &Tail { sections, ..Tail::default() });
    assert!(ours == SMALL, "the bytes differ");
}

fn small_records() -> Vec<Record> {
    let one = |i: usize| {
        let noise: Vec<u8> = (0..61 * i).map(|j| ((i * 7 + j * j * 13) % 256) as u8).collect();
        let json = format!(r#"{{"i":{i}}}"#);
        let entries: [(&str, &str, &[u8]); 3] = [
            ("left.jpg", "image/jpeg", &noise),
            ("meta.json", "application/json", json.as_bytes()),
            ("x.bin", "application/x-own", b""),
        ];
        let meta: &[u8] = if i.is_multiple_of(3) { br#"{"a":1}"# } else { b"" };
        record(&format!("images{}/image{i:06}", i % 3), meta, &entries[..1 + i % 3])
    };
    (0..12).map(one).collect()
}

#[test]
fn what_was_encoded_is_in_the_outline() {
    let bytes = sample();
    let outline = Outline::parse(&bytes).unwrap();
    assert!(outline.is_sound(), "{outline:?}");
    assert_eq!((outline.size, outline.truncated), (bytes.len() as u64, None));
    let keys: Vec<_> = outline.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["a", "b/c", "gone"]);
    let [a, b, gone] = &outline.records[..] else { panic!("three records") };
    assert_eq!((a.offset, a.size, b.offset), (0, b.offset, a.size));
    assert!(gone.flags.is_tombstone() && !gone.flags.is_overlay() && gone.entries.is_empty());
    let own = &b.entries[1];
    assert_eq!(own.content_type, ContentType::Text("application/x-own".into()));
    assert_eq!((own.compression, own.stored_size, own.data_crc_holds), (Compression::None, 0, true));
    assert_eq!(outline.sections[1].kind, SectionKind::Statistics);
    assert_eq!(outline.sections[2].kind, SectionKind::Unknown(99));
    assert_eq!(outline.sections[2].text, None);
}

#[test]
fn a_pack_without_records_is_a_pack() {
    let outline = Outline::parse(&encode(&[], &Tail::default())).unwrap();
    assert!(outline.is_sound() && outline.records.is_empty());
    assert_eq!(outline.records_end, Some(0));
}

#[test]
fn records_aligned_to_4096_keep_their_data_there() {
    let tail = Tail { align: 4096, features: Features::RECORDS_ALIGNED, ..Tail::default() };
    let outline = Outline::parse(&encode(&sample_records(), &tail)).unwrap();
    assert!(outline.is_sound() && outline.footer.unwrap().features.records_aligned());
    for entry in outline.records.iter().flat_map(|record| &record.entries) {
        assert_eq!(entry.data_offset % 4096, 0);
    }
}

/// One byte more than alignment can explain is not padding.
#[test]
fn a_record_with_more_after_its_entries_than_padding_is_damaged() {
    let mut bytes = sample_records().iter().map(|record| pack::encode_record(record, 8)).next().unwrap();
    let (size, room) = (bytes.len(), 4096);
    for (extra, sound) in [(room - 8, true), (room, false)] {
        bytes.truncate(size);
        bytes.resize(size + extra, 0);
        pack::put(&mut bytes, 0, 8, (size + extra) as u64);
        pack::reseal_record(&mut bytes, 0);
        let mut whole = bytes.clone();
        pack::encode_tail(&mut whole, &shardpack::Index { offsets: vec![0] }, &Tail::default());
        assert_eq!(Outline::parse(&whole).unwrap().is_sound(), sound, "{extra} bytes");
    }
}

#[test]
fn a_long_json_section_is_printed_in_part() {
    let text = format!("{}{}", "x".repeat(TEXT_BYTES_MAX - 1), "é".repeat(10));
    let bad = b"{}\xff{}".to_vec();
    let tail = Tail { sections: vec![(1, 0, text.into_bytes()), (2, 0, bad)], ..Tail::default() };
    let outline = Outline::parse(&encode(&[], &tail)).unwrap();
    assert!(outline.is_sound());
    let texts: Vec<_> = outline.sections.iter().map(|section| section.text.as_deref().unwrap()).collect();
    assert_eq!(texts[0], "x".repeat(TEXT_BYTES_MAX - 1));
    assert_eq!(texts[1], "{}");
}

#[test]
fn unknown_codes_are_reported_and_lose_nothing_else() {
    let mut bytes = sample();
    let entry_at = 40; // header 32, key 1, metadata 2, padding 5
    bytes[26] = 77;
    pack::reseal_record(&mut bytes, 0);
    bytes[entry_at + 28] = 9;
    bytes[entry_at + 29] = 200;
    pack::reseal_entry(&mut bytes, entry_at);
    let outline = Outline::parse(&bytes).unwrap();
    assert!(outline.is_sound(), "{outline:?}");
    let entry = &outline.records[0].entries[0];
    assert_eq!(outline.records[0].meta_format, shardpack::layout::MetaFormat::Unknown(77));
    assert_eq!((entry.compression, entry.content_type.as_str()), (Compression::Unknown(9), None));
}

#[test]
fn an_unknown_section_is_ignored_unless_it_is_critical() {
    for (kind, flags, sound) in [(99, 0, true), (99, 1, false), (0, 3, false), (8, 1, true), (99, 2, true)] {
        let tail = Tail { sections: vec![(kind, flags, vec![1])], ..Tail::default() };
        let found = Outline::parse(&encode(&[], &tail));
        match found {
            Ok(outline) => assert!(sound && outline.is_sound(), "{kind} {flags}"),
            Err(error) => {
                assert!(!sound && matches!(error, FormatError::Section { found, .. } if found == kind));
            }
        }
    }
}

#[test]
fn another_major_version_is_refused_and_another_minor_is_not() {
    let sound = sample();
    let truth = Outline::parse(&sound).unwrap().footer.unwrap();
    let with = |at: usize, value: u64| {
        let mut bytes = sound.clone();
        let at = bytes.len() - 64 + at;
        pack::put(&mut bytes, at, 2, value);
        pack::reseal_tail(&mut bytes, &truth);
        Outline::parse(&bytes)
    };
    assert!(matches!(with(40, 2), Err(FormatError::Version { expected: 1, found: 2, .. })));
    assert!(matches!(with(40, 0), Err(FormatError::Version { found: 0, .. })));
    assert_eq!(with(42, 7).unwrap().footer.unwrap().version_minor, 7);
}

#[test]
fn packs_are_distinguished_from_other_bytes() {
    let bytes = sample();
    assert!(has_pack_magic(&bytes[..12], &bytes[bytes.len() - 8..]));
    assert!(has_pack_magic(&bytes[..12], b"cut off"));
    let empty = encode(&[], &Tail::default());
    assert!(has_pack_magic(&empty[..16], &[]));
    assert!(has_pack_magic(&[], &empty));
    assert!(!has_pack_magic(b"", b""));
    assert!(!has_pack_magic(b"HFRepoMetaData\0", b"XETBLOB"));
    assert!(matches!(Outline::parse(b"HFRepoMetaData\0"), Err(FormatError::Ident { at: 8, .. })));
    assert!(matches!(Outline::parse(b"SPR"), Err(FormatError::Truncated { at: 0, .. })));
}

proptest! {
    /// What is encoded is parsed: every key, name, type and length, and the same bytes come from it again.
    #[test]
    fn any_pack_round_trips(
        records in prop::collection::vec(any_record(), 0..6),
        sections in prop::collection::vec((prop_oneof![1_u32..3, 8_u32..99], any::<u32>().prop_map(|f| f & !1), prop::collection::vec(any::<u8>(), 0..40)), 0..4),
        align in prop_oneof![Just(8), Just(64), Just(4096)],
        features: u32,
    ) {
        let tail = Tail { features: Features(features), sections, align };
        let bytes = encode(&records, &tail);
        let outline = Outline::parse(&bytes).unwrap();
        prop_assert!(outline.is_sound());
        let data = |at: u64, len: u64| bytes[at as usize..][..len as usize].to_vec();
        let again: Vec<Record> = outline.records.iter().map(|record| Record {
            key: record.key.clone(),
            flags: record.flags.0,
            meta: data(record.offset + 32 + record.key.len() as u64, record.meta_len),
            entries: record.entries.iter().map(|entry| {
                let content_type = entry.content_type.as_str().unwrap().to_owned();
                (entry.name.clone(), content_type, data(entry.data_offset, entry.stored_size))
            }).collect(),
        }).collect();
        prop_assert_eq!(&again, &records);
        prop_assert_eq!(encode(&again, &tail), bytes);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0..4) {
        if magic & 1 == 1 && bytes.len() > 12 {
            bytes[8..12].copy_from_slice(b"SPR\x01");
        }
        if magic & 2 == 2 {
            bytes.extend(b"\x89SPK\r\n\x1a\n");
        }
        prop_assert!(!Outline::parse(&bytes).is_ok_and(|outline| outline.is_sound()));
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let content_type = prop_oneof![Just("image/png".to_owned()), Just("video/mp4".to_owned()), ".{0,12}"];
    let entry = (".{0,12}", content_type, prop::collection::vec(any::<u8>(), 0..50));
    (".{1,20}", any::<u8>(), prop::collection::vec(any::<u8>(), 0..30), prop::collection::vec(entry, 0..4))
        .prop_map(|(key, flags, meta, entries)| Record { key, flags, meta, entries })
}

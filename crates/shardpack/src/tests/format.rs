//! `docs/format/shardpack.md` against the code: the same tables, the same places, the same example.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use super::pack;

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use crate::layout::{
    Compression, ContentType, EndMarker, EntryHeader, Features, Footer, Index, MetaFormat, RecordFlags,
    RecordHeader, SectionFlags, SectionHeader, SectionKind, crc,
};
use crate::{Outline, cursor::Reader};

const PAGE: &str = include_str!("../../../../docs/format/shardpack.md");
const OVERVIEW: &str = include_str!("../layout.rs");
const SOURCES: [&str; 6] = [
    include_str!("../layout/record.rs"),
    include_str!("../layout/entry.rs"),
    include_str!("../layout/marker.rs"),
    include_str!("../layout/index.rs"),
    include_str!("../layout/section.rs"),
    include_str!("../layout/footer.rs"),
];

#[test]
fn the_page_has_the_tables_of_the_code() {
    let page = tables(PAGE);
    let of_code: BTreeMap<_, _> =
        SOURCES.into_iter().flat_map(|source| tables(&module_doc(source))).collect();
    assert_eq!(of_code.len(), 9);
    for (name, rows) in &of_code {
        assert_eq!(page.get(name), Some(rows), "table {name}");
    }
    let overview: Vec<_> =
        module_doc(OVERVIEW).lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    assert!(overview.len() > 5 && PAGE.contains(&overview.join("\n")), "the overview differs");
}

#[test]
fn every_table_is_without_gaps_and_as_long_as_its_structure() {
    for (name, rows) in fields() {
        let mut end = 0;
        for (offset, size, field) in &rows {
            assert_eq!(*offset, end, "{name}: {field}");
            end += size;
        }
        let expected = match name.as_str() {
            "Record header" => RecordHeader::LEN,
            "Entry header" => EntryHeader::LEN,
            "End marker" => EndMarker::LEN,
            "Index" => 16, // with one record
            "Section header" => SectionHeader::LEN,
            "Footer" => Footer::LEN,
            _ => panic!("{name} is new"),
        };
        assert_eq!(end, expected, "{name}");
    }
}

/// Every field holds a value found nowhere else, and it is found where the table says.
#[test]
fn every_field_stands_where_the_table_says() {
    let fields = fields();
    let check = |name: &str, bytes: &[u8], values: &[&[u8]]| {
        let rows = &fields[name];
        assert_eq!(rows.len(), values.len(), "{name}");
        for ((offset, size, field), value) in rows.iter().zip(values) {
            assert_eq!(&bytes[*offset..offset + size], *value, "{name}: {field}");
        }
    };
    let (n, long) = (u32::to_le_bytes, u64::to_le_bytes);

    let record = RecordHeader {
        record_size: 0x1112_1314_1516_1718,
        entry_count: 0xa1,
        meta_format: MetaFormat::MsgPack,
        flags: RecordFlags(3),
        key: "key",
        meta: b"meta",
    };
    let mut bytes = Vec::new();
    record.encode(&mut bytes).unwrap();
    let found = n(crc(&[&bytes[..12], &bytes[16..39]]));
    let size = long(record.record_size);
    let values: [&[u8]; 9] = [&size, b"SPR\x01", &found, &n(0xa1), &n(4), &[3, 0], &[2], &[3], &[0; 4]];
    check("Record header", &bytes, &values);
    assert_eq!(&bytes[32..], b"keymeta\0");

    let entry = EntryHeader {
        file_size: 0xa1,
        stored_size: 0xb2,
        data_crc: 0xc3,
        compression: Compression::Zstd,
        content_type: ContentType::Text("a/b".into()),
        data_pad: 0x0401,
        name: "name",
    };
    let mut bytes = Vec::new();
    entry.encode(&mut bytes).unwrap();
    let found = n(crc(&[&bytes[..20], &bytes[24..39]]));
    let values: [&[u8]; 9] =
        [&long(0xa1), &long(0xb2), &n(0xc3), &found, &[4, 0], &[3, 0], &[3], &[0], &[1, 4]];
    check("Entry header", &bytes, &values);
    assert_eq!((&bytes[32..39], bytes.len()), (b"namea/b".as_slice(), 39 + 0x0401));
    assert_eq!(EntryHeader::parse(&mut Reader::at(&bytes, 0)).unwrap(), entry);

    let mut bytes = Vec::new();
    EndMarker { tail_size: 0xa8 }.encode(&mut bytes);
    check("End marker", &bytes, &[&long(0xa8), b"SPI\x01", &n(crc(&[&bytes[..12]]))]);

    let mut bytes = Vec::new();
    let index_crc = Index { offsets: vec![0xa8] }.encode(&mut bytes);
    check("Index", &bytes, &[&long(1), &long(0xa8)]);
    assert_eq!(index_crc, crc(&[&bytes]));

    let mut bytes = Vec::new();
    let (kind, flags) = (SectionKind::Statistics, SectionFlags(0xa1));
    SectionHeader { kind, flags, payload_len: 0xb2, payload_crc: 0xc3 }.encode(&mut bytes);
    check("Section header", &bytes, &[&n(8), &n(0xa1), &long(0xb2), &n(0xc3), &n(0)]);

    let mut bytes = Vec::new();
    Footer {
        index_offset: 0xa1,
        index_size: 0xa2,
        record_count: 0xa3,
        file_size: 0xa4,
        index_crc: 0xa5,
        sections_crc: 0xa6,
        version_minor: 0xa7,
        features: Features(0xa8),
    }
    .encode(&mut bytes);
    let found = n(crc(&[&bytes[..52], &bytes[56..]]));
    let places: Vec<[u8; 8]> = (0xa1..=0xa4).map(long).collect();
    let mut values: Vec<&[u8]> = places.iter().map(<[u8; 8]>::as_slice).collect();
    let (index, sections, features) = (n(0xa5), n(0xa6), n(0xa8));
    values.extend([index.as_slice(), &sections, &[1, 0], &[0xa7, 0], &features, &[0; 4], &found]);
    values.push(b"\x89SPK\r\n\x1a\n");
    check("Footer", &bytes, &values);
}

#[test]
fn every_code_of_the_page_is_that_of_the_code() {
    let page = tables(PAGE);
    let rows = |name: &str| -> Vec<(u32, String)> {
        let cells = |row: &String| -> Vec<String> {
            row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        page[name][2..].iter().map(cells).map(|cells| (cells[0].parse().unwrap(), cells[1].clone())).collect()
    };
    let types = rows("Content type codes");
    assert_eq!(types.len(), 12);
    for (code, text) in &types {
        let code = NonZeroU8::new(u8::try_from(*code).unwrap()).unwrap();
        assert_eq!(ContentType::Code(code).as_str(), Some(text.as_str()));
        assert_eq!(ContentType::new(text), ContentType::Code(code));
    }
    assert_eq!(ContentType::Code(NonZeroU8::new(13).unwrap()).as_str(), None);
    assert_eq!(ContentType::new("a/b"), ContentType::Text("a/b".into()));

    let sections = rows("Section types");
    assert_eq!(sections.len(), 8);
    for (code, payload) in sections {
        let kind = SectionKind::from(code);
        assert!(u32::from(kind) == code && !matches!(kind, SectionKind::Unknown(_)));
        assert_eq!(kind.is_json(), payload.contains("JSON"), "{payload}");
    }
    for code in 0..=u8::MAX {
        assert_eq!(u8::from(Compression::from(code)), code);
        assert_eq!(u8::from(MetaFormat::from(code)), code);
    }
}

#[test]
fn the_example_decodes_to_what_the_page_says_of_it() {
    let (_, rest) = PAGE.split_once("```hex\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    // A line is an offset, bytes, and after two spaces perhaps a remark.
    let mut bytes = Vec::new();
    for line in block.lines() {
        let (offset, rest) = line.split_once("  ").unwrap();
        assert_eq!(usize::from_str_radix(offset, 16).unwrap(), bytes.len(), "{line}");
        let digits = rest.split("  ").next().unwrap();
        bytes.extend(digits.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    let records = [pack::record("a", b"", &[("b.txt", "text/plain", b"hi")])];
    let sections = vec![(1, 0, br#"{"by":"me"}"#.to_vec())];
    let expected = pack::encode(&records, &pack::Tail { sections, ..pack::Tail::default() });
    if bytes != expected {
        for (n, line) in expected.chunks(16).enumerate() {
            let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{:02x}  {}", 16 * n, digits.join(" "));
        }
        panic!("the example should be as printed");
    }

    let outline = Outline::parse(&bytes).unwrap();
    assert!(outline.is_sound());
    let ([record], [section]) = (&outline.records[..], &outline.sections[..]) else { panic!("one of each") };
    assert_eq!((record.key.as_str(), record.size, outline.records_end), ("a", 88, Some(88)));
    let [entry] = &record.entries[..] else { panic!("one entry") };
    assert_eq!((entry.name.as_str(), entry.data_offset, entry.stored_size), ("b.txt", 80, 2));
    assert_eq!(section.text.as_deref(), Some(r#"{"by":"me"}"#));
}

/// Offset, size and name of every field, by table.
fn fields() -> BTreeMap<String, Vec<(usize, usize, String)>> {
    let mut fields = BTreeMap::new();
    for (name, rows) in tables(PAGE) {
        if !rows[0].starts_with("| offset | size | field") {
            continue;
        }
        let row = |row: &String| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2].to_owned())
        };
        fields.insert(name, rows[2..].iter().map(row).collect());
    }
    assert_eq!(fields.len(), 6);
    fields
}

/// The table rows under each heading.
fn tables(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut tables = BTreeMap::<String, Vec<String>>::new();
    let mut heading = String::new();
    for line in text.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_owned();
        } else if line.starts_with('|') {
            tables.entry(heading.clone()).or_default().push(line.to_owned());
        }
    }
    tables
}

fn module_doc(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

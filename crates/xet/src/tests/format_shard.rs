//! `docs/format/shard.md` against the code: the same tables, the same places, the same example.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::BTreeMap;

use crate::hash::{ChunkHash, FileHash, Hash, HashKey, RangeHash, Sha256, XorbHash};
use crate::merkle;
use crate::shard::row::{FileHead, Header, ROW_LEN, Row, XorbHead};
use crate::shard::{
    ChunkEntry, ChunkTableEntry, FileEntry, Footer, Form, Shard, ShardBuilder, StoredOptions, TableEntry,
    Term, XorbEntry, verify_stored,
};

const PAGE: &str = include_str!("../../../../docs/format/shard.md");
const OVERVIEW: &str = include_str!("../shard.rs");
const SOURCES: [&str; 2] = [include_str!("../shard/row.rs"), include_str!("../shard/footer.rs")];

#[test]
fn the_page_has_the_tables_of_the_code() {
    let page = page_tables();
    let mut of_code = BTreeMap::new();
    for source in SOURCES {
        of_code.extend(tables(&module_doc(source)));
    }
    assert_eq!(of_code.len(), 11);
    for (name, rows) in &of_code {
        assert_eq!(page.get(name), Some(rows), "table {name}");
    }
    let overview: Vec<_> =
        module_doc(OVERVIEW).lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    assert!(overview.len() > 8 && PAGE.contains(&overview.join("\n")), "the overview differs");
}

#[test]
fn every_table_is_without_gaps_and_as_long_as_its_row() {
    for (name, rows) in fields() {
        let mut end = 0;
        for (offset, size, field) in &rows {
            assert_eq!(*offset, end, "{name}: {field}");
            end += size;
        }
        let expected = match name.as_str() {
            "Footer" => Footer::LEN,
            "Table entry" => TableEntry::LEN,
            "Chunk table entry" => ChunkTableEntry::LEN,
            _ => ROW_LEN,
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
    let hash = [0x48; 32];
    let n = |value: u32| value.to_le_bytes();
    let long = |value: u64| value.to_le_bytes();

    let magic = b"\x55\x69\x67\x45\x6a\x7b\x81\x57\x83\xa5\xbd\xd9\x5c\xcd\xd1\x4a\xa9";
    let header = Header { footer_bytes: 0x0102_0304_0506_0708 };
    let values: [&[u8]; 5] = [b"HFRepoMetaData", &[0], magic, &long(2), &long(header.footer_bytes)];
    check("Header", &header.encode(), &values);

    let file = FileHead { hash: FileHash::new(hash), flags: 0xc000_0000, terms: 0x0102_0304 };
    let bytes = Row::from(file).encode();
    check("File", &bytes, &[&hash, &n(1 << 31 | 1 << 30), &n(file.terms), &[0; 8]]);
    assert!(file.with_verification() && file.with_metadata());

    let term = Term { xorb: XorbHash::new(hash), flags: 0xa1, raw_bytes: 0xb2, chunks: 0xc3..0xd4 };
    check("Term", &Row::from(&term).encode(), &[&hash, &n(0xa1), &n(0xb2), &n(0xc3), &n(0xd4)]);
    assert_eq!(Term::parse(0, Row::parse(&Row::from(&term).encode())).unwrap(), term);

    check("Verification", &Row::from(RangeHash::new(hash)).encode(), &[&hash, &[0; 16]]);

    let digest: [u8; 32] = std::array::from_fn(|i| i as u8);
    let mut reversed = digest;
    reversed.chunks_mut(8).for_each(<[u8]>::reverse);
    check("Metadata", &Row::from(Sha256::new(digest)).encode(), &[&reversed, &[0; 16]]);

    let xorb = XorbHead {
        hash: XorbHash::new(hash),
        flags: 0xa1,
        chunks: 0xb2,
        raw_bytes: 0xc3,
        stored_bytes: 0xd4,
    };
    check("Xorb", &Row::from(xorb).encode(), &[&hash, &n(0xa1), &n(0xb2), &n(0xc3), &n(0xd4)]);

    let chunk = ChunkEntry { hash: ChunkHash::new(hash), raw_start: 0xa1, raw_bytes: 0xb2, flags: 1 << 31 };
    check("Chunk", &Row::from(&chunk).encode(), &[&hash, &n(0xa1), &n(0xb2), &n(1 << 31), &n(0)]);

    check("Bookend", &Row::BOOKEND.encode(), &[&[255; 32], &[0; 16]]);

    let mut bytes = Vec::new();
    TableEntry { prefix: 0xa1, row: 0xb2 }.encode(&mut bytes);
    check("Table entry", &bytes, &[&long(0xa1), &n(0xb2)]);
    bytes.clear();
    ChunkTableEntry { prefix: 0xa1, row: 0xb2, chunk: 0xc3 }.encode(&mut bytes);
    check("Chunk table entry", &bytes, &[&long(0xa1), &n(0xb2), &n(0xc3)]);

    bytes.clear();
    Footer {
        file_section_offset: 0xa1,
        xorb_section_offset: 0xa2,
        file_table_offset: 0xa3,
        file_table_entries: 0xa4,
        xorb_table_offset: 0xa5,
        xorb_table_entries: 0xa6,
        chunk_table_offset: 0xa7,
        chunk_table_entries: 0xa8,
        key: HashKey::new(hash),
        created_s: 0xa9,
        expires_s: 0xaa,
        xorbs_stored_bytes: 0xab,
        files_raw_bytes: 0xac,
        xorbs_raw_bytes: 0xad,
        footer_offset: 0xae,
    }
    .encode(&mut bytes);
    let before: Vec<[u8; 8]> = std::iter::once(1).chain(0xa1..=0xa8).map(long).collect();
    let after: Vec<[u8; 8]> = (0xab..=0xae).map(long).collect();
    let (created, expires) = (long(0xa9), long(0xaa));
    let mut values: Vec<&[u8]> = before.iter().map(<[u8; 8]>::as_slice).collect();
    values.extend([hash.as_slice(), &created, &expires, &[0; 48]]);
    values.extend(after.iter().map(<[u8; 8]>::as_slice));
    check("Footer", &bytes, &values);
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
    let expected = example().encode(&Form::Stored(StoredOptions::LOCAL)).unwrap();
    if bytes != expected {
        for (n, line) in expected.chunks(16).enumerate() {
            let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{:03x}  {}", 16 * n, digits.join(" "));
        }
        panic!("the example should be as printed");
    }

    let Shard { files, xorbs, footer, .. } = verify_stored(&bytes).unwrap();
    let chunk = ChunkHash::of(b"Hello World!");
    let ([file], [xorb]) = (&files[..], &xorbs[..]) else { panic!("one file, one xorb") };
    assert_eq!((file.raw_bytes(), file.terms.len()), (12, 1));
    assert_eq!((xorb.hash.0, xorb.chunks[0].hash), (chunk.0, chunk));
    assert_eq!(footer.unwrap().expires_s, u64::MAX);
}

fn example() -> ShardBuilder {
    let chunk = ChunkHash::of(b"Hello World!");
    let hash = merkle::xorb_hash([(chunk, 12)]);
    let mut builder = ShardBuilder::default();
    builder.push_xorb(XorbEntry {
        hash,
        flags: 0,
        raw_bytes: 12,
        stored_bytes: 20,
        chunks: vec![ChunkEntry { hash: chunk, raw_start: 0, raw_bytes: 12, flags: 0 }],
    });
    // The digest of the twelve bytes.
    let sha256 = "7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069";
    builder.push_file(FileEntry {
        hash: merkle::file_hash([(chunk, 12)]),
        terms: vec![Term { xorb: hash, flags: 0, raw_bytes: 12, chunks: 0..1 }],
        verification: Some(vec![RangeHash::of([&chunk])]),
        sha256: Some(Sha256::from_field(*sha256.parse::<Hash>().unwrap().as_bytes())),
    });
    builder
}

/// Offset, size and name of every field, by table.
fn fields() -> BTreeMap<String, Vec<(usize, usize, String)>> {
    let mut fields = BTreeMap::new();
    for (name, rows) in page_tables() {
        if !rows[0].starts_with("| offset | size | field") {
            continue;
        }
        let row = |row: &String| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2].to_owned())
        };
        fields.insert(name, rows[2..].iter().map(row).collect());
    }
    assert_eq!(fields.len(), 11);
    fields
}

fn page_tables() -> BTreeMap<String, Vec<String>> {
    tables(PAGE)
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

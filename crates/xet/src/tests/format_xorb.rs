//! The page about the xorb format says what the code does.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::ops::Range;

use crate::ChunkHash;
use crate::compress::{Policy, Scheme};
use crate::cursor::Reader;
use crate::xorb::{ChunkHeader, Footer, Form, SealedXorb, XorbBuilder, verify};
use crate::{FormatError, limits};
use testkit::damage;

const PAGE: &str = include_str!("../../../../docs/format/xorb.md");
const MODULES: [&str; 2] = [include_str!("../xorb.rs"), include_str!("../xorb/footer.rs")];

/// Chunks of the xorb whose bytes are flipped.
const CHUNKS: u64 = 3;

#[test]
fn the_tables_of_the_page_are_those_of_the_modules() {
    let docs: String = MODULES
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| format!("{}\n", doc_text(line).unwrap_or("")))
        .collect();
    let modules = layouts(&docs);
    assert_eq!(modules.len(), 3);
    assert_eq!(layouts(PAGE), modules);
}

fn doc_text(line: &str) -> Option<&str> {
    line.strip_prefix("//!").map(|text| text.strip_prefix(' ').unwrap_or(text))
}

#[test]
fn rows_follow_each_other_without_gaps() {
    let [header, v1, v0] = tables();
    for (table, bytes) in [
        (&header, ChunkHeader::LEN as u64),
        (&v1, Form::V1.footer_bytes(CHUNKS as u32)),
        (&v0, Form::V0.footer_bytes(CHUNKS as u32)),
    ] {
        let mut end = 0;
        for row in table {
            assert_eq!(row.bytes.start, end, "{}", row.field);
            end = row.bytes.end;
        }
        assert_eq!(end, bytes);
    }
}

#[test]
fn each_row_of_the_chunk_header_is_the_field_it_names() {
    let [rows, ..] = tables();
    let header = ChunkHeader { stored_len: 0x10_10, scheme: Scheme::Lz4, chunk_len: 0x01_10_10 };
    let bytes = header.encode();
    for (row, at) in rows.iter().flat_map(|row| row.bytes.clone().map(move |at| (row, at))) {
        let mut flipped = bytes;
        flipped[at as usize] ^= 0x01;
        let parsed = ChunkHeader::parse(&mut Reader::new(&flipped));
        match row.field.as_str() {
            "version, 0" => assert!(matches!(parsed, Err(FormatError::Version { at: 0, .. }))),
            "stored length" => {
                let stored_len = header.stored_len ^ 1 << (8 * (at - row.bytes.start));
                assert_eq!(parsed.unwrap(), ChunkHeader { stored_len, ..header });
            }
            "scheme" => {
                // 1 becomes 0: read as uncompressed, so the lengths must not differ.
                let error = parsed.unwrap_err();
                assert!(matches!(error, FormatError::Number { at: 5, .. }), "{error}");
                flipped[at as usize] = Scheme::GroupedLz4.byte();
                let parsed = ChunkHeader::parse(&mut Reader::new(&flipped)).unwrap();
                assert_eq!(parsed, ChunkHeader { scheme: Scheme::GroupedLz4, ..header });
            }
            "chunk length" => {
                let chunk_len = header.chunk_len ^ 1 << (8 * (at - row.bytes.start));
                assert_eq!(parsed.unwrap(), ChunkHeader { chunk_len, ..header });
            }
            other => panic!("no field {other:?}"),
        }
    }
}

/// A scan that meets a flipped byte names an offset in the row of that byte, with an error of the row's kind.
#[test]
fn each_row_of_the_footers_is_the_field_it_names() {
    let [_, v1, v0] = tables();
    for (form, rows) in [(Form::V1, v1), (Form::V0, v0)] {
        let sealed = three_chunks(form);
        let start = sealed.info.stored_bytes();
        for row in &rows {
            let range = (start + row.bytes.start) as usize..(start + row.bytes.end) as usize;
            for (what, flipped) in damage::flips_in(&sealed.bytes, range) {
                // The lowest bit of a version makes it the other one, which is another length.
                if row.field.starts_with("version, ") && what.ends_with("0x01") {
                    assert!(verify(&flipped, None, true).is_err());
                    continue;
                }
                let scanned = verify(&flipped, None, true);
                if row.field == "nonce" || row.field == "reserved" {
                    let scanned = scanned.unwrap();
                    assert_eq!(scanned.info, sealed.info, "{what}");
                    assert_eq!(scanned.nonce != [0; 4], row.field == "nonce", "{what}");
                    continue;
                }
                let error = scanned.unwrap_err();
                let row_at = start + row.bytes.start..start + row.bytes.end;
                assert!(row_at.contains(&error.at()), "{form:?} {}, {what}: {error}", row.field);
                assert!(is_of_kind(&row.field, &error), "{form:?} {}, {what}: {error}", row.field);
            }
        }
    }
}

fn is_of_kind(field: &str, error: &FormatError) -> bool {
    match field {
        // At the place of a chunk, what is not a footer's ident is a header of an unknown version.
        "ident, `XETBLOB`" => matches!(error, FormatError::Version { .. }),
        _ if field.starts_with("ident of") => matches!(error, FormatError::Ident { .. }),
        _ if field.starts_with("version") => matches!(error, FormatError::Version { .. }),
        "xorb hash" | "chunk hashes" => matches!(error, FormatError::Hash { .. }),
        "stored ends" | "raw ends" => matches!(
            error,
            FormatError::Number { .. } | FormatError::Range { .. } | FormatError::Order { .. }
        ),
        "chunk count, n" => matches!(error, FormatError::Number { .. } | FormatError::Range { .. }),
        _ if field.starts_with("distance of the") => matches!(error, FormatError::Number { .. }),
        _ if field.starts_with("footer length") => {
            matches!(error, FormatError::Number { .. } | FormatError::Range { .. })
        }
        other => panic!("no field {other:?}"),
    }
}

#[test]
fn formulas_in_rows_are_the_numbers_there() {
    let [_, v1, v0] = tables();
    for (form, rows) in [(Form::V1, v1), (Form::V0, v0)] {
        let sealed = three_chunks(form);
        let footer = &sealed.bytes[sealed.info.stored_bytes() as usize..];
        let mut formulas = 0;
        for row in &rows {
            let Some((_, formula_text)) = row.field.split_once(", ") else { continue };
            let bytes = &footer[row.bytes.start as usize..row.bytes.end as usize];
            if let Some(ident) = formula_text.strip_prefix('`') {
                assert_eq!(bytes, ident.trim_end_matches('`').as_bytes());
            } else {
                let mut wide = [0; 8];
                wide[..bytes.len()].copy_from_slice(bytes);
                assert_eq!(u64::from_le_bytes(wide), formula(formula_text), "{}", row.field);
            }
            formulas += 1;
        }
        assert!(formulas >= 3);
    }
}

#[test]
fn the_example_of_the_page_is_a_xorb_and_is_what_we_write() {
    let mut bytes: Vec<u8> = Vec::new();
    let block = PAGE.split("## Example").nth(1).unwrap().split("```").nth(1).unwrap();
    for line in block.lines().skip(1) {
        let (offset, rest) = line.trim_start().split_once("  ").unwrap();
        assert_eq!(offset.parse(), Ok(bytes.len()), "{line}");
        let digits = rest.split("  ").next().unwrap();
        bytes.extend(testkit::unhex(&digits.replace(' ', "")));
    }
    let mut builder = XorbBuilder::new(Policy::Auto);
    builder.push(ChunkHash::of(b"Hello World!"), b"Hello World!").unwrap();
    assert_eq!(builder.seal(Form::V1).unwrap().bytes, bytes);

    let scanned = verify(&bytes, None, true).unwrap();
    let hash = scanned.info.hash().to_string();
    assert_eq!(hash, "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb");
    assert!(PAGE.contains(&hash));
    assert!(PAGE.contains(&format!("{} bytes", bytes.len())));
}

#[test]
fn the_limits_of_the_page_are_those_of_the_code() {
    for (what, most) in [
        ("raw bytes of a chunk", u64::from(limits::CHUNK_BYTES_MAX)),
        ("stored bytes of a chunk", u64::from(limits::CHUNK_STORED_BYTES_MAX)),
        ("chunks of a xorb", u64::from(limits::XORB_CHUNKS_MAX)),
        ("raw bytes of a xorb", limits::XORB_BYTES_MAX),
        ("bytes of a footer, its length field included", Footer::BYTES_MAX),
    ] {
        let row = PAGE.lines().map(cells).find(|cells| cells.first() == Some(&what));
        assert_eq!(row.unwrap_or_else(|| panic!("no row {what:?}"))[1], most.to_string());
    }
    assert!(PAGE.contains(&format!("{} bytes at most", limits::XORB_STORED_BYTES_MAX)));
    for scheme in [Scheme::Raw, Scheme::Lz4, Scheme::GroupedLz4] {
        let value = scheme.byte().to_string();
        assert!(PAGE.lines().map(cells).any(|cells| cells.starts_with(&[&value, scheme.name()])));
    }
}

/// One row of a layout table, for [`CHUNKS`] chunks.
struct Row {
    bytes: Range<u64>,
    field: String,
}

/// Chunk header, footer version 1, footer version 0.
fn tables() -> [Vec<Row>; 3] {
    let row = |line: &&str| {
        let cells = cells(line);
        let start = formula(cells[0]);
        Row { bytes: start..start + formula(cells[1]), field: cells[2].to_owned() }
    };
    let tables: Vec<_> = layouts(PAGE).iter().map(|rows| rows[2..].iter().map(row).collect()).collect();
    tables.try_into().unwrap_or_else(|_| panic!("three layout tables"))
}

/// All tables of a text that say offset, size and field; each as its lines.
fn layouts(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<_> = text.lines().collect();
    let tables = lines.split(|line| !line.starts_with('|')).filter(|table| !table.is_empty());
    tables.filter(|table| cells(table[0]) == ["offset", "size", "field"]).map(<[_]>::to_vec).collect()
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The value of a sum of numbers and multiples of `n`.
fn formula(text: &str) -> u64 {
    let term = |term: &str| match term.trim().strip_suffix('n') {
        Some("") => CHUNKS,
        Some(factor) => factor.parse::<u64>().unwrap() * CHUNKS,
        None => term.trim().parse().unwrap_or_else(|_| panic!("no number: {text:?}")),
    };
    text.split('+').map(term).sum()
}

fn three_chunks(form: Form) -> SealedXorb {
    let mut builder = XorbBuilder::new(Policy::Auto);
    for seed in 0..CHUNKS {
        let chunk = testkit::corpus::noise(seed, 1000 + seed as usize);
        builder.push(ChunkHash::of(&chunk), &chunk).unwrap();
    }
    builder.seal(form).unwrap()
}

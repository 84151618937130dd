//! The footer of a Parquet file: its columns, and how many rows there are.
//!
//! A small reader of Thrift's compact protocol that takes what it needs and passes over the rest: a page must not be made
//! to allocate by numbers of a file, and rows are behind decompression.

use super::{PageError, Reader, Table, cell, text};

/// The columns, or why there are none to show.
pub(super) async fn table(reader: &Reader<'_>) -> Result<Result<Table, String>, PageError> {
    let total = reader.bytes();
    if total < 12 {
        return Ok(Err("The file is too short for a footer.".to_owned()));
    }
    let tail = reader.read(total - 8..total).await?;
    let Some((len, b"PAR1")) =
        tail.split_first_chunk::<4>().map(|(len, magic)| (u32::from_le_bytes(*len), magic))
    else {
        return Ok(Err("The file does not end like a Parquet file.".to_owned()));
    };
    let len = u64::from(len);
    if len > FOOTER_BYTES_MAX || len > total - 12 {
        return Ok(Err(format!("The footer says it has {len} bytes, which is too much to show.")));
    }
    let footer = reader.read(total - 8 - len..total - 8).await?;
    Ok(parse(&footer).ok_or_else(|| "The footer cannot be read.".to_owned()))
}

#[derive(Default)]
struct Element {
    name: String,
    physical: Option<i64>,
    repetition: Option<i64>,
    children: i64,
    converted: Option<i64>,
}

fn parse(footer: &[u8]) -> Option<Table> {
    let mut thrift = Thrift { bytes: footer };
    let (mut elements, mut rows, mut groups, mut writer) = (Vec::new(), 0, 0, String::new());
    let mut last = 0;
    while let Some((id, kind)) = thrift.field(&mut last)? {
        match (id, kind) {
            (2, LIST) => {
                let (count, _) = thrift.list()?;
                for _ in 0..count {
                    elements.push(thrift.element()?);
                }
            }
            (3, I64) => rows = thrift.zigzag()?,
            (4, LIST) => {
                let (count, kind) = thrift.list()?;
                groups = count;
                for _ in 0..count {
                    thrift.skip(kind, 0)?;
                }
            }
            (6, BINARY) => writer = thrift.text()?,
            (_, kind) => thrift.skip(kind, 0)?,
        }
    }
    let mut named = Vec::new();
    // Folders of columns that are open, each with how many are to come.
    let mut open: Vec<(String, i64)> = Vec::new();
    for element in elements.iter().skip(1) {
        let path: Vec<&str> =
            open.iter().map(|(name, _)| name.as_str()).chain([element.name.as_str()]).collect();
        let path = path.join(".");
        if let Some((_, left)) = open.last_mut() {
            *left -= 1;
        }
        match element.children > 0 {
            true if open.len() < DEPTH_MAX => open.push((element.name.clone(), element.children)),
            true => return None,
            false if named.len() < COLUMNS_MAX => {
                named.push(vec![cell(&path), kind_of(element), repeats(element)]);
            }
            false => {}
        }
        while open.last().is_some_and(|(_, left)| *left <= 0) {
            open.pop();
        }
    }
    let facts = vec![
        ("Rows".to_owned(), text::count(u64::try_from(rows).ok()?)),
        ("Row groups".to_owned(), text::count(groups)),
        ("Written by".to_owned(), cell(&writer)),
    ];
    let columns = ["Column", "Type", "Values"].map(str::to_owned).to_vec();
    Some(Table { caption: "Columns".to_owned(), columns, rows: named, facts })
}

fn kind_of(element: &Element) -> String {
    let at = |names: &[&str], n: Option<i64>| {
        n.and_then(|n| usize::try_from(n).ok()).and_then(|n| names.get(n).map(|name| (*name).to_owned()))
    };
    let physical = at(
        &["boolean", "int32", "int64", "int96", "float", "double", "bytes", "fixed bytes"],
        element.physical,
    );
    let converted = at(CONVERTED, element.converted);
    converted.or(physical).unwrap_or_else(|| "unknown".to_owned())
}

fn repeats(element: &Element) -> String {
    match element.repetition {
        Some(0) => "always",
        Some(1) => "maybe",
        Some(2) => "many",
        _ => "",
    }
    .to_owned()
}

/// The compact protocol: what is left to read.
struct Thrift<'a> {
    bytes: &'a [u8],
}

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn take(&mut self, len: u64) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(len).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<String> {
        let len = self.varint()?;
        Some(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    /// The next field's number and kind; nothing at the end of a structure.
    #[allow(
        clippy::option_option,
        reason = "the end of the structure and the end of the bytes are two things"
    )]
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let (delta, kind) = (i64::from(head >> 4), head & 0x0f);
        *last = if delta == 0 { self.zigzag()? } else { last.checked_add(delta)? };
        Some(Some((*last, kind)))
    }

    /// How many elements a list has, of which kind. Each is a byte at least, so there are no more than bytes.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        (count <= self.bytes.len() as u64).then_some((count, head & 0x0f))
    }

    fn element(&mut self) -> Option<Element> {
        let mut element = Element::default();
        let mut last = 0;
        while let Some((id, kind)) = self.field(&mut last)? {
            match (id, kind) {
                (1, I32) => element.physical = Some(self.zigzag()?),
                (3, I32) => element.repetition = Some(self.zigzag()?),
                (4, BINARY) => element.name = self.text()?,
                (5, I32) => element.children = self.zigzag()?,
                (6, I32) => element.converted = Some(self.zigzag()?),
                (_, kind) => self.skip(kind, 0)?,
            }
        }
        Some(element)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.varint()?),
            DOUBLE => drop(self.take(8)?),
            BINARY => {
                let len = self.varint()?;
                self.take(len)?;
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    // In a list a truth value takes a byte.
                    self.skip(if kind <= FALSE { BYTE } else { kind }, depth + 1)?;
                }
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            // Maps are nowhere in a footer.
            _ => return None,
        }
        Some(())
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

const CONVERTED: &[&str] = &[
    "text",
    "map",
    "map entry",
    "list",
    "enum",
    "decimal",
    "date",
    "time (ms)",
    "time (µs)",
    "timestamp (ms)",
    "timestamp (µs)",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "json",
    "bson",
    "interval",
];
const FOOTER_BYTES_MAX: u64 = 4 * 1024 * 1024;
const COLUMNS_MAX: usize = 200;
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 2; a root with a number and a folder with text in it; 7 rows; one empty row group; writer `w`.
    fn footer() -> Vec<u8> {
        let mut bytes = vec![0x15, 4, 0x19, 0x4c];
        bytes.extend([0x48, 4, b'r', b'o', b'o', b't', 0x15, 4, 0]);
        bytes.extend([0x15, 4, 0x25, 0, 0x18, 1, b'n', 0]);
        bytes.extend([0x35, 2, 0x18, 1, b'f', 0x15, 2, 0]);
        bytes.extend([0x15, 12, 0x25, 2, 0x18, 1, b't', 0x25, 0, 0]);
        bytes.extend([0x16, 14, 0x19, 0x1c, 0x00, 0x28, 1, b'w', 0]);
        bytes
    }

    #[test]
    fn columns_are_named_by_their_way_from_the_root() {
        let table = parse(&footer()).unwrap();
        assert_eq!(
            table.rows,
            [["n", "int64", "always"], ["f.t", "text", "maybe"]].map(|r| r.map(str::to_owned).to_vec())
        );
        let facts: Vec<_> = table.facts.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(facts, ["7", "1", "w"]);
    }

    #[test]
    fn truncations_and_lies_are_refused() {
        let footer = footer();
        for len in 0..footer.len() {
            assert!(parse(&footer[..len]).is_none(), "{len}");
        }
        // Two thousand million elements in a few bytes; a structure in a structure without end.
        assert!(parse(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 7]).is_none());
        assert!(parse(&[0x7c].repeat(10_000)).is_none());
    }
}

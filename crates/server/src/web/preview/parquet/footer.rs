//! The footer of a Parquet file: its columns, and where those of the first rows lie.

use super::thrift::{BINARY, BYTE, DEPTH_MAX, I32, I64, LIST, STRUCT, TRUE, Thrift};

/// What a footer says, as far as a page shows it.
#[derive(Default)]
pub(super) struct Footer {
    pub(super) rows: u64,
    pub(super) groups: u64,
    pub(super) writer: String,
    /// The first columns.
    pub(super) columns: Vec<Column>,
    /// Rows of the first group that has any.
    pub(super) group_rows: u64,
}

/// A column: a leaf of the schema, by its way from the root.
pub(super) struct Column {
    pub(super) path: String,
    pub(super) physical: Physical,
    pub(super) meaning: Meaning,
    /// Of values whose length the schema gives.
    pub(super) fixed_bytes: usize,
    /// 0 is in every row, 1 may be missing, 2 comes any number of times.
    pub(super) repetition: i64,
    /// How many of the folders it is in, itself included, may be missing.
    pub(super) definition_max: u32,
    /// In a list: rows and values are two things.
    pub(super) is_repeated: bool,
    /// Its values in the first group that has rows.
    pub(super) chunk: Option<Chunk>,
}

/// Where values of a column lie, one page behind the other.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) codec: i64,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    Boolean,
    Int32,
    Int64,
    Int96,
    Float,
    Double,
    Bytes,
    Fixed,
    Unknown,
}

/// What values mean to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing else is stated.
    Plain,
    Text(&'static str),
    Decimal {
        scale: u32,
    },
    Date,
    /// Steps in a second.
    Time {
        per_s: u32,
    },
    Timestamp {
        per_s: u32,
        is_utc: bool,
    },
    Integer {
        bits: u8,
        is_signed: bool,
    },
    Uuid,
    Half,
    /// A name, and no way to print it.
    Named(&'static str),
}

/// A line of the schema.
struct Element {
    name: String,
    physical: Physical,
    fixed_bytes: usize,
    repetition: i64,
    children: i64,
    meaning: Meaning,
    scale: u32,
}

/// A folder of columns that is open, with what of it is to come.
struct Open {
    name: String,
    left: i64,
    definition: u32,
    is_repeated: bool,
}

impl Footer {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut thrift = Thrift::new(bytes);
        let mut footer = Self::default();
        let (mut elements, mut chunks, mut last) = (Vec::new(), Vec::new(), 0);
        while let Some((id, kind)) = thrift.field(&mut last)? {
            match (id, kind) {
                (2, LIST) => {
                    let (count, kind) = thrift.list()?;
                    for n in 0..count {
                        match n < ELEMENTS_MAX {
                            true => elements.push(element(&mut thrift)?),
                            false => thrift.skip(kind, 0)?,
                        }
                    }
                }
                (3, I64) => footer.rows = u64::try_from(thrift.zigzag()?).ok()?,
                (4, LIST) => {
                    let (count, kind) = thrift.list()?;
                    footer.groups = count;
                    for _ in 0..count {
                        match footer.group_rows == 0 {
                            true => (footer.group_rows, chunks) = group(&mut thrift)?,
                            false => thrift.skip(kind, 0)?,
                        }
                    }
                }
                (6, BINARY) => footer.writer = thrift.text()?,
                (_, kind) => thrift.skip(kind, 0)?,
            }
        }
        footer.columns = columns(&elements)?;
        // The format gives chunks the order of the leaves.
        for (column, chunk) in footer.columns.iter_mut().zip(chunks) {
            column.chunk = chunk;
        }
        Some(footer)
    }
}

/// The leaves of the schema, each with what lies between it and the root.
fn columns(elements: &[Element]) -> Option<Vec<Column>> {
    let mut columns = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for element in elements.iter().skip(1) {
        if columns.len() == COLUMNS_MAX {
            break;
        }
        let (mut definition, mut is_repeated) = (0, false);
        if let Some(folder) = open.last_mut() {
            folder.left -= 1;
            (definition, is_repeated) = (folder.definition, folder.is_repeated);
        }
        definition += u32::from(element.repetition != 0);
        is_repeated |= element.repetition > 1;
        if element.children > 0 {
            if open.len() == DEPTH_MAX {
                return None;
            }
            open.push(Open { name: element.name.clone(), left: element.children, definition, is_repeated });
        } else {
            let names = open.iter().map(|folder| folder.name.as_str()).chain([element.name.as_str()]);
            columns.push(Column {
                path: names.collect::<Vec<_>>().join("."),
                physical: element.physical,
                meaning: element.meaning,
                fixed_bytes: element.fixed_bytes,
                repetition: element.repetition,
                definition_max: definition,
                is_repeated,
                chunk: None,
            });
        }
        while open.last().is_some_and(|folder| folder.left <= 0) {
            open.pop();
        }
    }
    Some(columns)
}

fn element(thrift: &mut Thrift<'_>) -> Option<Element> {
    let mut element = Element {
        name: String::new(),
        physical: Physical::Unknown,
        fixed_bytes: 0,
        repetition: 0,
        children: 0,
        meaning: Meaning::Plain,
        scale: 0,
    };
    let (mut converted, mut logical, mut last) = (None, None, 0);
    while let Some((id, kind)) = thrift.field(&mut last)? {
        match (id, kind) {
            (1, I32) => element.physical = physical(thrift.zigzag()?),
            (2, I32) => element.fixed_bytes = usize::try_from(thrift.zigzag()?).ok()?,
            (3, I32) => element.repetition = thrift.zigzag()?,
            (4, BINARY) => element.name = thrift.text()?,
            (5, I32) => element.children = thrift.zigzag()?,
            (6, I32) => converted = Some(thrift.zigzag()?),
            (7, I32) => element.scale = u32::try_from(thrift.zigzag()?).ok()?,
            (10, STRUCT) => logical = self::logical(thrift)?,
            (_, kind) => thrift.skip(kind, 0)?,
        }
    }
    // What is newer says more: without time zone, nanoseconds.
    let converted = converted.and_then(|converted| self::converted(converted, element.scale));
    element.meaning = logical.or(converted).unwrap_or(Meaning::Plain);
    Some(element)
}

fn physical(number: i64) -> Physical {
    match number {
        0 => Physical::Boolean,
        1 => Physical::Int32,
        2 => Physical::Int64,
        3 => Physical::Int96,
        4 => Physical::Float,
        5 => Physical::Double,
        6 => Physical::Bytes,
        7 => Physical::Fixed,
        _ => Physical::Unknown,
    }
}

fn converted(number: i64, scale: u32) -> Option<Meaning> {
    let integer = |bits, is_signed| Meaning::Integer { bits, is_signed };
    Some(match number {
        0 => Meaning::Text("text"),
        1 => Meaning::Named("map"),
        2 => Meaning::Named("map entry"),
        3 => Meaning::Named("list"),
        4 => Meaning::Text("enum"),
        5 => Meaning::Decimal { scale },
        6 => Meaning::Date,
        7 => Meaning::Time { per_s: MILLI },
        8 => Meaning::Time { per_s: MICRO },
        9 => Meaning::Timestamp { per_s: MILLI, is_utc: true },
        10 => Meaning::Timestamp { per_s: MICRO, is_utc: true },
        11 => integer(8, false),
        12 => integer(16, false),
        13 => integer(32, false),
        14 => integer(64, false),
        15 => integer(8, true),
        16 => integer(16, true),
        17 => integer(32, true),
        18 => integer(64, true),
        19 => Meaning::Text("json"),
        20 => Meaning::Named("bson"),
        21 => Meaning::Named("interval"),
        _ => return None,
    })
}

/// A union of structures; nothing for those that are not known.
#[allow(clippy::option_option, reason = "what is not known and what cannot be read are two things")]
fn logical(thrift: &mut Thrift<'_>) -> Option<Option<Meaning>> {
    let (mut found, mut last) = (None, 0);
    while let Some((id, kind)) = thrift.field(&mut last)? {
        if kind != STRUCT {
            return None;
        }
        let (mut number, mut flag, mut unit, mut inner) = (0, false, 0, 0);
        while let Some((id, kind)) = thrift.field(&mut inner)? {
            match (id, kind) {
                (1, I32) => number = thrift.zigzag()?,
                (1, BYTE) => number = i64::from(*thrift.take(1)?.first()?),
                (1 | 2, TRUE) => flag = true,
                (2, STRUCT) => unit = thrift.union()?,
                (_, kind) => thrift.skip(kind, 0)?,
            }
        }
        let per_s = match unit {
            2 => MICRO,
            3 => NANO,
            _ => MILLI,
        };
        found = Some(match id {
            1 => Meaning::Text("text"),
            2 => Meaning::Named("map"),
            3 => Meaning::Named("list"),
            4 => Meaning::Text("enum"),
            5 => Meaning::Decimal { scale: u32::try_from(number).ok()? },
            6 => Meaning::Date,
            7 => Meaning::Time { per_s },
            8 => Meaning::Timestamp { per_s, is_utc: flag },
            10 => Meaning::Integer { bits: u8::try_from(number).ok()?, is_signed: flag },
            12 => Meaning::Text("json"),
            13 => Meaning::Named("bson"),
            14 => Meaning::Uuid,
            15 => Meaning::Half,
            _ => continue,
        });
    }
    Some(found)
}

/// A row group: how many rows it has, and where each of its first columns lies.
fn group(thrift: &mut Thrift<'_>) -> Option<(u64, Vec<Option<Chunk>>)> {
    let (mut rows, mut chunks, mut last) = (0, Vec::new(), 0);
    while let Some((id, kind)) = thrift.field(&mut last)? {
        match (id, kind) {
            (1, LIST) => {
                let (count, kind) = thrift.list()?;
                for _ in 0..count {
                    match chunks.len() < COLUMNS_MAX {
                        true => chunks.push(chunk(thrift)?),
                        false => thrift.skip(kind, 0)?,
                    }
                }
            }
            (3, I64) => rows = u64::try_from(thrift.zigzag()?).ok()?,
            (_, kind) => thrift.skip(kind, 0)?,
        }
    }
    Some((rows, chunks))
}

/// Where a column of a group lies; nothing if that is in another file or is not stated.
#[allow(clippy::option_option, reason = "what is not stated and what cannot be read are two things")]
fn chunk(thrift: &mut Thrift<'_>) -> Option<Option<Chunk>> {
    let (mut is_elsewhere, mut found, mut last) = (false, None, 0);
    while let Some((id, kind)) = thrift.field(&mut last)? {
        match (id, kind) {
            (1, BINARY) => {
                is_elsewhere = true;
                thrift.skip(kind, 0)?;
            }
            (3, STRUCT) => {
                let (mut codec, mut bytes, mut data, mut dictionary, mut last) = (0, -1, -1, 0, 0);
                while let Some((id, kind)) = thrift.field(&mut last)? {
                    match (id, kind) {
                        (4, I32) => codec = thrift.zigzag()?,
                        (7, I64) => bytes = thrift.zigzag()?,
                        (9, I64) => data = thrift.zigzag()?,
                        (11, I64) => dictionary = thrift.zigzag()?,
                        (_, kind) => thrift.skip(kind, 0)?,
                    }
                }
                // Some writers say 0 where there is no dictionary.
                let start = if dictionary > 0 && dictionary < data { dictionary } else { data };
                let place = u64::try_from(start).ok().zip(u64::try_from(bytes).ok());
                found = place.map(|(start, bytes)| Chunk { start, bytes, codec });
            }
            (_, kind) => thrift.skip(kind, 0)?,
        }
    }
    Some(found.filter(|_| !is_elsewhere))
}

/// Lines of a schema that are read, and columns that are listed.
const ELEMENTS_MAX: u64 = 5000;
const COLUMNS_MAX: usize = 200;
const MILLI: u32 = 1_000;
const MICRO: u32 = 1_000_000;
const NANO: u32 = 1_000_000_000;

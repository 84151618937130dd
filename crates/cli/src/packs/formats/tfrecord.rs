//! TFRecord: a length, its masked CRC, data, its masked CRC. Data that is a `tf.train.Example` is taken apart.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use shardpack::content_type::ContentTypes;
use shardpack::{FileEntry, Record};

use crate::output::CliError;
use crate::packs::input::Records;

/// Records are called after their file and their place in it. Fields of an example become entries: bytes as they are,
/// numbers as JSON.
pub(crate) fn records(paths: Vec<PathBuf>, content_types: &ContentTypes) -> Records<'_> {
    let open = move |path: PathBuf| -> Records<'_> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => return Box::new(std::iter::once(Err(CliError::io(&path, error)))),
        };
        let mut input = BufReader::with_capacity(1 << 20, file);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let (mut number, mut over) = (0_u64, false);
        Box::new(std::iter::from_fn(move || {
            if over {
                return None;
            }
            let read = next(&mut input, &path, number);
            over = read.is_err();
            let data = read.transpose()?;
            let key = format!("{stem}/{number:08}");
            number += 1;
            Some(data.map(|data| Record {
                key,
                file_entries: entries(data, content_types),
                ..Record::default()
            }))
        }))
    };
    Box::new(paths.into_iter().flat_map(open))
}

fn next(input: &mut impl Read, path: &Path, number: u64) -> Result<Option<Vec<u8>>, CliError> {
    let fail = |error: io::Error| CliError::io(path, error);
    let wrong = |what: &str| CliError::message(format!("{}: record {number}: {what}", path.display()));
    let mut head = [0; 12];
    let mut filled = 0;
    while filled < head.len() {
        match input.read(&mut head[filled..]).map_err(fail)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(wrong("the file is cut here")),
            read => filled += read,
        }
    }
    let (len, crc) = head.split_at(8);
    if masked(len) != u32::from_le_bytes(crc.try_into().unwrap_or_default()) {
        return Err(wrong("the length has a wrong CRC, so this is no TFRecord or it is damaged"));
    }
    let len = u64::from_le_bytes(len.try_into().unwrap_or_default());
    let mut data = Vec::new();
    input.take(len).read_to_end(&mut data).map_err(fail)?;
    let mut crc = [0; 4];
    if (data.len() as u64) < len || input.read_exact(&mut crc).is_err() {
        return Err(wrong("the file is cut here"));
    }
    if masked(&data) != u32::from_le_bytes(crc) {
        return Err(wrong("the data has a wrong CRC"));
    }
    Ok(Some(data))
}

fn masked(data: &[u8]) -> u32 {
    shardpack::layout::crc(&[data]).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn entries(data: Vec<u8>, content_types: &ContentTypes) -> Vec<FileEntry> {
    let entry = |(name, content_type, data): (String, String, Vec<u8>)| FileEntry {
        file_name: name,
        content_type,
        data,
        ..FileEntry::default()
    };
    match example(&data) {
        Some(mut fields) if !fields.is_empty() => {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            let typed = fields.into_iter().map(|(name, value)| match value {
                Value::Bytes(data) => {
                    let content_type = sniff(&data).unwrap_or_else(|| content_types.of(&name)).to_owned();
                    (name, content_type, data)
                }
                Value::Json(text) => (name, "application/json".to_owned(), text.into_bytes()),
            });
            typed.map(entry).collect()
        }
        _ => vec![entry(("data".into(), "application/octet-stream".into(), data))],
    }
}

fn sniff(data: &[u8]) -> Option<&'static str> {
    match data {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        _ if std::str::from_utf8(data).is_ok() && !data.is_empty() => Some("text/plain"),
        _ => None,
    }
}

enum Value {
    Bytes(Vec<u8>),
    Json(String),
}

/// The fields of a `tf.train.Example`; none when the data is something else.
fn example(data: &[u8]) -> Option<Vec<(String, Value)>> {
    let mut fields = Vec::new();
    for (number, features) in Fields(data).collect::<Option<Vec<_>>>()? {
        if number != 1 {
            return None;
        }
        for (number, pair) in Fields(features.bytes()?).collect::<Option<Vec<_>>>()? {
            if number != 1 {
                return None;
            }
            let (mut name, mut value) = (None, None);
            for (number, part) in Fields(pair.bytes()?).collect::<Option<Vec<_>>>()? {
                match number {
                    1 => name = Some(std::str::from_utf8(part.bytes()?).ok()?.to_owned()),
                    2 => value = Some(feature(part.bytes()?)?),
                    _ => return None,
                }
            }
            fields.push((name?, value.unwrap_or(Value::Json("[]".into()))));
        }
    }
    Some(fields)
}

/// A list of bytes, floats or integers. One value of bytes is an entry as it is.
fn feature(data: &[u8]) -> Option<Value> {
    let Some(first) = Fields(data).next() else {
        return Some(Value::Json("[]".into()));
    };
    let (kind, list) = first?;
    let items = Fields(list.bytes()?).collect::<Option<Vec<_>>>()?;
    Some(match kind {
        1 => match items.as_slice() {
            [(1, one)] => Value::Bytes(one.bytes()?.to_vec()),
            many => {
                let texts: Option<Vec<_>> = many
                    .iter()
                    .map(|(_, item)| Some(String::from_utf8_lossy(item.bytes()?).into_owned()))
                    .collect();
                Value::Json(serde_json::to_string(&texts?).ok()?)
            }
        },
        2 => {
            let mut floats = Vec::new();
            for (_, item) in items {
                match item {
                    Item::Bytes(packed) => {
                        let (numbers, _) = packed.as_chunks::<4>();
                        floats.extend(numbers.iter().map(|number| f32::from_le_bytes(*number)));
                    }
                    Item::Fixed32(bits) => floats.push(f32::from_bits(bits)),
                    Item::Varint(_) => return None,
                }
            }
            Value::Json(serde_json::to_string(&floats).ok()?)
        }
        3 => {
            let mut integers: Vec<i64> = Vec::new();
            for (_, item) in items {
                match item {
                    Item::Bytes(mut packed) => {
                        while !packed.is_empty() {
                            integers.push(varint(&mut packed)?.cast_signed());
                        }
                    }
                    Item::Varint(number) => integers.push(number.cast_signed()),
                    Item::Fixed32(_) => return None,
                }
            }
            Value::Json(serde_json::to_string(&integers).ok()?)
        }
        _ => return None,
    })
}

/// The fields of a protocol buffer, one after another; a none among them is something else.
struct Fields<'a>(&'a [u8]);

enum Item<'a> {
    Bytes(&'a [u8]),
    Varint(u64),
    Fixed32(u32),
}

impl<'a> Item<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Item<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = self.parse();
        if item.is_none() {
            self.0 = &[];
        }
        Some(item)
    }
}

impl<'a> Fields<'a> {
    fn parse(&mut self) -> Option<(u64, Item<'a>)> {
        let tag = varint(&mut self.0)?;
        let item = match tag & 7 {
            0 => Item::Varint(varint(&mut self.0)?),
            2 => {
                let len = usize::try_from(varint(&mut self.0)?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                Item::Bytes(bytes)
            }
            5 => {
                let (bits, rest) = self.0.split_first_chunk::<4>()?;
                self.0 = rest;
                Item::Fixed32(u32::from_le_bytes(*bits))
            }
            _ => return None,
        };
        Some((tag >> 3, item))
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

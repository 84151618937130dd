//! Parquet: rows become records and columns entries, and back.

mod write;

pub(crate) use write::write;

use std::fs::File;
use std::path::PathBuf;

use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, Row};
use serde_json::Value;
use shardpack::content_type::ContentTypes;
use shardpack::{FileEntry, Record};

use crate::output::CliError;
use crate::packs::input::Records;

/// The column that holds keys.
pub(crate) const KEY: &str = "__key__";

/// The rows of Parquet files. Bytes and texts are taken as they are, a picture with its path as a file, and all else as JSON; what
/// is null is left out. Without a column `__key__`, keys are file name and number of the row.
pub(crate) fn records<'a>(paths: Vec<PathBuf>, content_types: &'a ContentTypes) -> Records<'a> {
    Box::new(paths.into_iter().flat_map(move |path| -> Records<'a> {
        let name = path.display().to_string();
        let failed = move |error: &dyn std::fmt::Display| CliError::message(format!("{name}: {error}"));
        let reader = match File::open(&path) {
            Ok(file) => SerializedFileReader::new(file),
            Err(error) => return Box::new(std::iter::once(Err(CliError::io(&path, error)))),
        };
        let rows = reader.map_err(|error| failed(&error));
        let rows = match rows.map(SerializedFileReader::into_iter) {
            Ok(rows) => rows,
            Err(failure) => return Box::new(std::iter::once(Err(failure))),
        };
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Box::new(rows.enumerate().map(move |(number, row)| {
            let row = row.map_err(|error| failed(&error))?;
            Ok(record(&row, &stem, number, content_types))
        }))
    }))
}

fn record(row: &Row, stem: &str, number: usize, content_types: &ContentTypes) -> Record {
    let mut key = format!("{stem}/{number:08}");
    let mut file_entries = Vec::new();
    for (name, field) in row.get_column_iter() {
        match field {
            Field::Null => {}
            Field::Str(text) if name == KEY && !text.is_empty() => key.clone_from(text),
            field => file_entries.push(entry(name, field, content_types)),
        }
    }
    Record { key, file_entries, ..Record::default() }
}

fn entry(name: &str, field: &Field, content_types: &ContentTypes) -> FileEntry {
    let by_name = content_types.of(name);
    let is_known = by_name != ContentTypes::UNKNOWN;
    let (content_type, data) = match field {
        Field::Bytes(bytes) => (by_name.to_owned(), bytes.data().to_vec()),
        Field::Str(text) => {
            (if is_known { by_name } else { "text/plain" }.to_owned(), text.clone().into_bytes())
        }
        Field::Group(row) if let Some((bytes, path)) = picture(row) => {
            let content_type = if is_known { by_name } else { content_types.of(path) };
            (content_type.to_owned(), bytes.to_vec())
        }
        other => ("application/json".to_owned(), json(other).to_string().into_bytes()),
    };
    FileEntry { file_name: name.to_owned(), content_type, data, ..FileEntry::default() }
}

/// A file as `datasets` stores it: its bytes, and the path it was read from.
fn picture(row: &Row) -> Option<(&[u8], &str)> {
    let (mut bytes, mut path) = (None, "");
    for (name, field) in row.get_column_iter() {
        match (name.as_str(), field) {
            ("bytes", Field::Bytes(found)) => bytes = Some(found.data()),
            ("path", Field::Str(found)) => path = found,
            ("path", Field::Null) => {}
            _ => return None,
        }
    }
    Some((bytes?, path))
}

fn json(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float16(value) => f64::from(*value).into(),
        Field::Float(value) => f64::from(*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(text) => text.clone().into(),
        Field::Bytes(bytes) => bytes.data().into(),
        Field::Group(row) => {
            row.get_column_iter().map(|(name, field)| (name.clone(), json(field))).collect::<Value>()
        }
        Field::ListInternal(list) => list.elements().iter().map(json).collect(),
        Field::MapInternal(map) => {
            let pair = |(key, value): &(Field, Field)| match key {
                Field::Str(key) => (key.clone(), json(value)),
                key => (key.to_string(), json(value)),
            };
            map.entries().iter().map(pair).collect::<Value>()
        }
        // Dates, times and decimals as text.
        other => other.to_string().into(),
    }
}

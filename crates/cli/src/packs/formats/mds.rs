//! MDS: shards of samples with one value for each column, and an index.json that names them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use shardpack::content_type::ContentTypes;
use shardpack::{FileEntry, Record};

use crate::output::{CliError, fail};
use crate::packs::input::Records;

#[derive(Debug, Deserialize)]
struct Index {
    shards: Vec<Shard>,
}

#[derive(Debug, Clone, Deserialize)]
struct Shard {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u64>>,
    #[serde(default)]
    compression: Option<String>,
    raw_data: FileName,
    #[serde(default)]
    zip_data: Option<FileName>,
    samples: u64,
}

#[derive(Debug, Clone, Deserialize)]
struct FileName {
    basename: String,
}

/// The samples of folders of MDS shards. Columns become entries: encoded files and bytes as they are, texts as texts, numbers
/// as JSON.
pub(crate) fn records<'a>(
    folders: &[PathBuf],
    content_types: &'a ContentTypes,
) -> Result<Records<'a>, CliError> {
    let mut shards = Vec::new();
    for folder in folders {
        let path = folder.join("index.json");
        let text = fs::read(&path).map_err(|error| CliError::io(&path, error))?;
        let index: Index = serde_json::from_slice(&text).map_err(|error| {
            CliError::message(format!("{}: not an index of MDS: {error}", path.display()))
        })?;
        shards.extend(index.shards.into_iter().map(|shard| (folder.clone(), shard)));
    }
    let samples = shards.into_iter().flat_map(move |(folder, shard)| -> Records<'a> {
        match read(&folder, &shard) {
            Ok(bytes) => Box::new((0..shard.samples).map(move |number| {
                let missing =
                    || CliError::message(format!("{}: sample {number} is damaged", shard.raw_data.basename));
                let file_entries = sample(&bytes, &shard, number, content_types).ok_or_else(missing)?;
                let stem = shard.raw_data.basename.trim_end_matches(".mds");
                Ok(Record { key: format!("{stem}/{number:08}"), file_entries, ..Record::default() })
            })),
            Err(failure) => Box::new(std::iter::once(Err(failure))),
        }
    });
    Ok(Box::new(samples))
}

fn read(folder: &Path, shard: &Shard) -> Result<Vec<u8>, CliError> {
    let path = folder.join(file_name(&shard.raw_data.basename)?);
    if path.exists() || shard.zip_data.is_none() {
        return fs::read(&path).map_err(|error| CliError::io(&path, error));
    }
    let compression = shard.compression.as_deref().unwrap_or("none");
    fail(format!(
        "{}: is there only as {compression}; decompress the shards first, or keep the raw ones when writing them",
        path.display()
    ))
}

/// An index names files beside it, and no others.
fn file_name(name: &str) -> Result<&str, CliError> {
    if name.contains(['/', '\\']) || name == ".." || name.is_empty() {
        return fail(format!("the index names {name:?}, which is not a file beside it"));
    }
    Ok(name)
}

/// One sample: sizes of the columns that have no fixed one, then the values.
fn sample(bytes: &[u8], shard: &Shard, number: u64, content_types: &ContentTypes) -> Option<Vec<FileEntry>> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let at = 4 * (usize::try_from(number).ok()? + 1);
    let (start, end) = (u32_at(at)? as usize, u32_at(at + 4)? as usize);
    let data = bytes.get(start..end)?;
    let mut sizes = Vec::new();
    let mut at = 0;
    for size in &shard.column_sizes {
        sizes.push(match size {
            Some(size) => usize::try_from(*size).ok()?,
            None => {
                let size = u32::from_le_bytes(*data.get(at..)?.first_chunk()?) as usize;
                at += 4;
                size
            }
        });
    }
    let mut entries = Vec::new();
    for ((name, encoding), size) in shard.column_names.iter().zip(&shard.column_encodings).zip(sizes) {
        let value = data.get(at..at.checked_add(size)?)?;
        at += size;
        let (content_type, data) = decode(name, encoding, value, content_types)?;
        entries.push(FileEntry { file_name: name.clone(), content_type, data, ..FileEntry::default() });
    }
    (at == data.len()).then_some(entries)
}

fn decode(
    name: &str,
    encoding: &str,
    value: &[u8],
    content_types: &ContentTypes,
) -> Option<(String, Vec<u8>)> {
    let number =
        |number: serde_json::Value| Some(("application/json".to_owned(), number.to_string().into_bytes()));
    let as_is = |content_type: &str| Some((content_type.to_owned(), value.to_vec()));
    match encoding {
        "str" => as_is("text/plain"),
        "json" => as_is("application/json"),
        "jpeg" | "jpegarray" => as_is("image/jpeg"),
        "png" => as_is("image/png"),
        "int" | "int64" => number(i64::from_le_bytes(value.try_into().ok()?).into()),
        "int32" => number(i32::from_le_bytes(value.try_into().ok()?).into()),
        "uint8" => number(value.first().copied()?.into()),
        "float64" => number(f64::from_le_bytes(value.try_into().ok()?).into()),
        "float32" => number(f64::from(f32::from_le_bytes(value.try_into().ok()?)).into()),
        "pkl" => as_is("application/x-pickle"),
        _ => as_is(content_types.of(name)),
    }
}

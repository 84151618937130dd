//! A manifest: JSON lines that say which files are which record.
//!
//! `{"key": "a", "metadata": {"label": 3}, "files": ["a.jpg", {"path": "b/a.json", "name": "meta.json"}]}`

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use shardpack::content_type::ContentTypes;
use shardpack::layout::MetaFormat;
use shardpack::{FileEntry, Record};

use crate::output::{CliError, fail};
use crate::packs::input::{Input, repeated_entry};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    #[serde(default)]
    metadata: Option<serde_json::Value>,
    #[serde(default)]
    files: Vec<FileSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FileSpec {
    Path(PathBuf),
    Detailed(DetailedFile),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DetailedFile {
    path: PathBuf,
    name: Option<String>,
    content_type: Option<String>,
}

/// The records of a manifest. Paths are relative to the folder it is in; names are file names unless given.
pub(crate) fn records<'a>(manifest: &Path, content_types: &'a ContentTypes) -> Result<Input<'a>, CliError> {
    let file = File::open(manifest).map_err(|error| CliError::io(manifest, error))?;
    let folder = manifest.parent().unwrap_or(Path::new("")).to_owned();
    let shown = manifest.display().to_string();
    let lines = BufReader::new(file).lines().zip(1_u64..);
    let mut keys = std::collections::HashMap::new();
    let records = lines.filter_map(move |(line, number)| {
        let place = format!("{shown}: line {number}");
        let line = match line {
            Ok(line) if line.trim().is_empty() => return None,
            Ok(line) => line,
            Err(error) => return Some(Err(CliError::Io(place, error))),
        };
        let record = parse(&line, &place).and_then(|line| read(line, &folder, content_types, &place));
        Some(record.and_then(|record| {
            if let Some(first) = keys.insert(record.key.clone(), number) {
                return fail(format!("{place}: the key {:?} is on line {first} already", record.key));
            }
            Ok(record)
        }))
    });
    Ok(Input { records: Box::new(records), total_bytes: 0, record_count: None })
}

fn parse(line: &str, place: &str) -> Result<Line, CliError> {
    serde_json::from_str(line).map_err(|error| CliError::message(format!("{place}: {error}")))
}

fn read(line: Line, folder: &Path, content_types: &ContentTypes, place: &str) -> Result<Record, CliError> {
    let mut record = Record { key: line.key, ..Record::default() };
    if let Some(metadata) = line.metadata {
        record.metadata = metadata.to_string().into_bytes();
        record.meta_format = MetaFormat::Json;
    }
    for listed in line.files {
        let (path, name, content_type) = match listed {
            FileSpec::Path(path) => (path, None, None),
            FileSpec::Detailed(DetailedFile { path, name, content_type }) => (path, name, content_type),
        };
        let base = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file_name = name.unwrap_or_else(|| base.clone());
        let path = folder.join(path);
        let data = fs::read(&path).map_err(|error| CliError::io(&path, error))?;
        let content_type = content_type.unwrap_or_else(|| content_types.of(&base).to_owned());
        record.file_entries.push(FileEntry { file_name, content_type, data, ..FileEntry::default() });
    }
    if let Some(name) = repeated_entry(&record) {
        return fail(format!("{place}: the entry {name:?} comes twice"));
    }
    Ok(record)
}

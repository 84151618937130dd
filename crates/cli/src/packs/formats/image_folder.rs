//! ImageFolder: one folder for each class, its number by the order of names.

use std::fs;
use std::path::PathBuf;

use shardpack::content_type::ContentTypes;
use shardpack::layout::MetaFormat;
use shardpack::{FileEntry, Record};

use crate::output::{CliError, fail};
use crate::packs::input::Records;

/// Each image is a record; its metadata says its class, the entry `cls` its number.
pub(crate) fn records<'a>(
    roots: &[PathBuf],
    content_types: &'a ContentTypes,
) -> Result<Records<'a>, CliError> {
    let mut images = Vec::new();
    for root in roots {
        for (class, folder) in (0_usize..).zip(sorted(root)?.into_iter().filter(|path| path.is_dir())) {
            let name = base(&folder)?;
            let mut open = vec![(folder, name.clone())];
            while let Some((folder, prefix)) = open.pop() {
                for path in sorted(&folder)? {
                    let key = format!("{prefix}/{}", base(&path)?);
                    if path.is_dir() {
                        open.push((path, key));
                    } else {
                        images.push((key, path, class, name.clone()));
                    }
                }
            }
        }
    }
    if images.is_empty() {
        return fail("no folder with files in it; an ImageFolder has one folder for each class");
    }
    images.sort();
    let read = move |(key, path, class, name): (String, PathBuf, usize, String)| {
        let data = fs::read(&path).map_err(|error| CliError::io(&path, error))?;
        let (stem, extension) = match key.rsplit_once('.') {
            Some((stem, extension)) if !extension.contains('/') => (stem.to_owned(), extension.to_owned()),
            _ => (key.clone(), "bin".to_owned()),
        };
        let image = FileEntry {
            content_type: content_types.of(&extension).to_owned(),
            file_name: extension,
            data,
            ..FileEntry::default()
        };
        let cls = FileEntry {
            file_name: "cls".into(),
            content_type: "text/plain".into(),
            data: class.to_string().into_bytes(),
            ..FileEntry::default()
        };
        let metadata = serde_json::json!({ "class": name, "label": class }).to_string().into_bytes();
        let file_entries = vec![image, cls];
        Ok(Record { key: stem, metadata, meta_format: MetaFormat::Json, file_entries, ..Record::default() })
    };
    Ok(Box::new(images.into_iter().map(read)))
}

fn sorted(folder: &PathBuf) -> Result<Vec<PathBuf>, CliError> {
    let entries = fs::read_dir(folder).map_err(|error| CliError::io(folder, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| CliError::io(folder, error))?.path();
        if !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn base(path: &std::path::Path) -> Result<String, CliError> {
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| CliError::message(format!("{}: the name is not UTF-8", path.display())))
}

//! A folder of files, grouped into records and sorted bytewise by key and entry.

use std::fs;
use std::path::{Path, PathBuf};

use shardpack::content_type::ContentTypes;
use shardpack::{FileEntry, Record};

use crate::output::{CliError, fail};
use crate::packs::input::Input;
use crate::packs::input::group::Group;

/// Options for reading a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct FolderOptions {
    pub(crate) group: Group,
    pub(crate) hidden: bool,
    pub(crate) follow_links: bool,
    pub(crate) content_types: ContentTypes,
}

/// A file that becomes an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FoundFile {
    key: String,
    entry: String,
    path: PathBuf,
    bytes: u64,
}

/// The records of a folder. All names are known before the first is read; contents are read one record at a time.
pub(crate) fn records<'a>(root: &Path, options: &'a FolderOptions) -> Result<Input<'a>, CliError> {
    let mut files = Vec::new();
    walk(root, "", options, &mut files)?;
    files.sort();
    if let Some([first, second]) =
        files.array_windows().find(|[a, b]| (&a.key, &a.entry) == (&b.key, &b.entry))
    {
        let (key, entry) = (&first.key, &first.entry);
        let (first, second) = (first.path.display(), second.path.display());
        return fail(format!(
            "{first} and {second} are both entry {entry:?} of record {key:?}; choose another --group",
        ));
    }
    let total_bytes = files.iter().map(|file| file.bytes).sum();
    let mut groups: Vec<Vec<FoundFile>> = Vec::new();
    for file in files {
        match groups.last_mut() {
            Some(group) if group.first().is_some_and(|first| first.key == file.key) => group.push(file),
            _ => groups.push(vec![file]),
        }
    }
    let record_count = Some(groups.len() as u64);
    let records = groups.into_iter().map(move |group| read(group, &options.content_types));
    Ok(Input { records: Box::new(records), total_bytes, record_count })
}

fn walk(
    folder: &Path,
    prefix: &str,
    options: &FolderOptions,
    files: &mut Vec<FoundFile>,
) -> Result<(), CliError> {
    let name = |error| CliError::io(folder, error);
    for entry in fs::read_dir(folder).map_err(name)? {
        let entry = entry.map_err(name)?;
        let path = entry.path();
        let Some(base) = entry.file_name().to_str().map(str::to_owned) else {
            return fail(format!("{}: the name is not UTF-8", path.display()));
        };
        if base.starts_with('.') && !options.hidden {
            continue;
        }
        let mut kind = entry.file_type().map_err(|error| CliError::io(&path, error))?;
        if kind.is_symlink() {
            if !options.follow_links {
                continue;
            }
            kind = fs::metadata(&path).map_err(|error| CliError::io(&path, error))?.file_type();
        }
        let relative = if prefix.is_empty() { base } else { format!("{prefix}/{base}") };
        if kind.is_dir() {
            // A link that leads back to its own folder would be followed for ever.
            if relative.matches('/').count() >= DEPTH_MAX {
                return fail(format!("{}: more than {DEPTH_MAX} folders deep", path.display()));
            }
            walk(&path, &relative, options, files)?;
        } else if kind.is_file() {
            let (key, entry_name) = options.group.split(&relative);
            let bytes = fs::metadata(&path).map_err(|error| CliError::io(&path, error))?.len();
            files.push(FoundFile { key, entry: entry_name, path, bytes });
        }
    }
    Ok(())
}

fn read(group: Vec<FoundFile>, content_types: &ContentTypes) -> Result<Record, CliError> {
    let key = group.first().map(|file| file.key.clone()).unwrap_or_default();
    let mut file_entries = Vec::with_capacity(group.len());
    for file in group {
        let data = fs::read(&file.path).map_err(|error| CliError::io(&file.path, error))?;
        let base = file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        file_entries.push(FileEntry {
            content_type: content_types.of(&base).to_owned(),
            file_name: file.entry,
            data,
            ..FileEntry::default()
        });
    }
    Ok(Record { key, file_entries, ..Record::default() })
}

const DEPTH_MAX: usize = 200;

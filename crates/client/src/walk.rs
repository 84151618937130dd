//! Walk: the files that the user named, and all files below the directories among them.

use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use crate::error::{Error, ErrorKind, Result};

/// The files at and below `paths`, in order, each directory sorted by name. A link to a file counts as a file; links to
/// directories are not followed. `-` is passed through: it stands for standard input.
pub fn files(paths: Vec<PathBuf>) -> impl Iterator<Item = Result<PathBuf>> + Send {
    paths.into_iter().flat_map(|path| -> Box<dyn Iterator<Item = Result<PathBuf>> + Send> {
        if path.is_dir() { Box::new(below(&path)) } else { Box::new(std::iter::once(Ok(path))) }
    })
}

fn below(directory: &Path) -> impl Iterator<Item = Result<PathBuf>> + Send + use<> {
    WalkDir::new(directory).sort_by_file_name().into_iter().filter_map(|entry| match entry {
        Ok(entry) => is_file(&entry).then(|| Ok(entry.into_path())),
        Err(error) => Some(Err(walk_error(error))),
    })
}

fn is_file(entry: &DirEntry) -> bool {
    let kind = entry.file_type();
    kind.is_file() || kind.is_symlink() && entry.path().is_file()
}

fn walk_error(error: walkdir::Error) -> Error {
    let path = error.path().unwrap_or(Path::new("?")).to_owned();
    let text = error.to_string();
    match error.into_io_error() {
        Some(source) => Error::io(&path, source),
        None => Error::new(ErrorKind::Invalid, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_sorted_and_links_to_directories_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("b/deep")).unwrap();
        for name in ["b/deep/z", "b/a", "a", "c"] {
            std::fs::write(at(name), name).unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("b"), at("again")).unwrap();
            std::os::unix::fs::symlink(at("c"), at("d")).unwrap();
        }
        let found: Vec<_> = files(vec![at("c"), dir.path().to_owned()]).map(|path| path.unwrap()).collect();
        let expected = ["c", "a", "b/a", "b/deep/z", "c", "d"].map(at);
        assert_eq!(found, expected[..if cfg!(unix) { 6 } else { 5 }]);
    }

    #[test]
    fn a_missing_file_is_passed_on_for_the_reader_to_name() {
        let found: Vec<_> = files(vec!["no/such/file".into()]).map(|path| path.unwrap()).collect();
        assert_eq!(found, [PathBuf::from("no/such/file")]);
    }
}

//! Source files: files on the local disk, and the path of each in the repository.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::super::pattern::Selection;
use crate::error::{Error, ErrorKind, Result};
use crate::walk;

/// A file, and where it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Path in the repository.
    pub to: String,
    /// Its length when it was found.
    pub bytes: u64,
}

/// Files, found while they are taken.
pub struct SourceFiles(Box<dyn Iterator<Item = Result<SourceFile>> + Send>);

impl fmt::Debug for SourceFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFiles").finish_non_exhaustive()
    }
}

impl SourceFiles {
    /// The files at and below `paths`. What is in a folder goes below `to`, without the folder's own name; so does a file,
    /// except where it is the only thing and `to` does not end in a slash: then that is its name. What git keeps for itself
    /// is left out.
    pub fn find(paths: Vec<PathBuf>, to: Option<&str>, selection: Selection) -> Result<Self> {
        let is_renamed = matches!(&paths[..], [path] if !path.is_dir());
        let (folder, name) = match to {
            Some(to) if is_renamed && !to.ends_with('/') => (String::new(), Some(to.to_owned())),
            Some(to) => (format!("{}/", to.trim_end_matches('/')), None),
            None => (String::new(), None),
        };
        // Only several paths can have two files of one name.
        let mut seen = (paths.len() > 1).then(HashSet::new);
        let below = move |root: PathBuf| {
            let (folder, name, is_folder) = (folder.clone(), name.clone(), root.is_dir());
            let selection = selection.clone();
            walk::files(vec![root.clone()]).filter_map(move |path| {
                let local = path.and_then(|path| {
                    let inner = match (&name, is_folder) {
                        (Some(name), _) => name.clone(),
                        (None, true) => text(path.strip_prefix(&root).unwrap_or(&path), &path)?,
                        (None, false) => text(Path::new(path.file_name().unwrap_or_default()), &path)?,
                    };
                    Ok((path, inner))
                });
                match local {
                    Ok((_, inner)) if is_left_out(&inner) || !selection.takes(&inner) => None,
                    Ok((path, inner)) => Some(found(path, format!("{folder}{inner}"))),
                    Err(error) => Some(Err(error)),
                }
            })
        };
        for path in &paths {
            // Named by the user, who should see the error before anything is sent.
            path.metadata().map_err(|error| Error::io(path, error))?;
        }
        let once = move |local: Result<SourceFile>| {
            let local = local?;
            match seen.as_mut().is_none_or(|seen| seen.insert(local.to.clone())) {
                true => Ok(local),
                false => {
                    let (path, to) = (local.path.display(), &local.to);
                    Err(Error::new(ErrorKind::Invalid, format!("{path}: another file goes to {to} already")))
                }
            }
        };
        Ok(Self(Box::new(paths.into_iter().flat_map(below).map(once))))
    }
}

/// The next files: at most `files_max`, until they have `bytes_max` bytes.
pub(super) fn batch(locals: &mut SourceFiles, files_max: usize, bytes_max: u64) -> Vec<Result<SourceFile>> {
    let mut bytes = 0;
    let mut batch = Vec::new();
    while batch.len() < files_max && bytes < bytes_max {
        let Some(local) = locals.0.next() else { break };
        bytes += local.as_ref().map_or(0, |local| local.bytes);
        batch.push(local);
    }
    batch
}

fn found(path: PathBuf, to: String) -> Result<SourceFile> {
    let metadata = path.metadata().map_err(|error| Error::io(&path, error))?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::Invalid, format!("{}: not a regular file", path.display())));
    }
    Ok(SourceFile { bytes: metadata.len(), path, to })
}

/// A path as repositories have it.
fn text(path: &Path, whole: &Path) -> Result<String> {
    let names: Option<Vec<_>> = path.components().map(|part| part.as_os_str().to_str()).collect();
    let text = names.map(|names| names.join("/")).filter(|text| super::super::repo_path::is_path(text));
    text.ok_or_else(|| {
        let message = format!("{}: a repository cannot have a file of this name", whole.display());
        Error::new(ErrorKind::Invalid, message)
    })
}

/// Whether a file belongs to a local tool, such as git, and is not uploaded.
fn is_left_out(path: &str) -> bool {
    path.split('/').any(|name| name == ".git" || name.starts_with(".drystone-stage-"))
        || path.starts_with(".cache/huggingface/")
}

/// The first bytes of a file.
pub(super) fn first_bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| Error::io(path, error))
}

/// A whole file, unless it has grown past what it may have.
pub(super) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let bytes = first_bytes(path, bytes_max + 1)?;
    match bytes.len() as u64 > bytes_max {
        true => {
            let message = format!("{}: has grown while it was read; push it again", path.display());
            Err(Error::new(ErrorKind::Invalid, message))
        }
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(
        paths: &[PathBuf],
        to: Option<&str>,
        include: &[&str],
    ) -> Vec<std::result::Result<String, String>> {
        let include = include.iter().map(|&pattern| pattern.to_owned()).collect();
        let selection = Selection { include, exclude: Vec::new() };
        let mut locals = SourceFiles::find(paths.to_vec(), to, selection).unwrap();
        let found = batch(&mut locals, usize::MAX, u64::MAX);
        found
            .into_iter()
            .map(|local| local.map(|local| local.to).map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn files_get_names_in_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["in/a/b.bin", "in/c.txt", "in/.git/config", "in/.cache/huggingface/x", "c.txt"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), name).unwrap();
        }
        let ok = |names: &[&str]| names.iter().map(|&name| Ok(name.to_owned())).collect::<Vec<_>>();
        assert_eq!(names(&[at("in")], None, &[]), ok(&["a/b.bin", "c.txt"]));
        assert_eq!(names(&[at("in")], Some("deep/er"), &[]), ok(&["deep/er/a/b.bin", "deep/er/c.txt"]));
        assert_eq!(names(&[at("in")], None, &["*.bin"]), ok(&["a/b.bin"]));
        assert_eq!(names(&[at("c.txt")], None, &[]), ok(&["c.txt"]));
        assert_eq!(names(&[at("c.txt")], Some("d.txt"), &[]), ok(&["d.txt"]));
        assert_eq!(names(&[at("c.txt")], Some("d/"), &[]), ok(&["d/c.txt"]));
        let twice = names(&[at("in"), at("c.txt")], None, &[]);
        assert_eq!(twice[..2], ok(&["a/b.bin", "c.txt"])[..]);
        assert!(twice[2].as_ref().unwrap_err().contains("another file goes to c.txt"));
        let missing = SourceFiles::find(vec![at("none")], None, Selection::default()).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn batches_end_by_files_or_by_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5 {
            std::fs::write(dir.path().join(n.to_string()), [0; 10]).unwrap();
        }
        let mut locals = SourceFiles::find(vec![dir.path().to_owned()], None, Selection::default()).unwrap();
        let sizes: Vec<_> = [(2, 100), (9, 11), (9, 100), (9, 100)]
            .map(|(files, bytes)| batch(&mut locals, files, bytes).len())
            .into_iter()
            .collect();
        assert_eq!(sizes, [2, 2, 1, 0]);
    }
}

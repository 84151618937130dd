//! A list of files to pull, and the check that none of them leaves its folder.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use client::pull::FileRequest;
use serde::Deserialize;
use xet::{FileHash, Sha256};

use crate::files::read_at_most;
use crate::output::CliError;

/// One file of a list. Other fields are ignored, so that the output of `cas put --json` can be used.
#[derive(Debug, Deserialize)]
struct Line {
    hash: FileHash,
    path: String,
    sha256: Option<Sha256>,
}

/// Reads a list; its paths are below `folder`.
pub(super) fn read(path: &Path, folder: &Path) -> Result<Vec<FileRequest>, CliError> {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let bytes = read_at_most(path, LIST_BYTES_MAX, "a list of files")?;
    parse(&bytes, folder).map_err(|reason| CliError::Message(format!("{}: {reason}", path.display())))
}

fn parse(bytes: &[u8], folder: &Path) -> Result<Vec<FileRequest>, String> {
    let lines: Vec<Line> = serde_json::from_slice(bytes)
        .map_err(|error| format!("expected an array of objects with hash and path: {error}"))?;
    let mut seen = HashSet::new();
    let mut requests = Vec::with_capacity(lines.len());
    for line in lines {
        let path = inside(&line.path)?;
        let target = folder.join(&path);
        if !seen.insert(path) {
            return Err(format!("{:?} is listed twice", line.path));
        }
        requests.push(FileRequest { file: line.hash, target, sha256: line.sha256 });
    }
    Ok(requests)
}

/// A path that stays in the folder it is joined to.
fn inside(text: &str) -> Result<PathBuf, String> {
    let mut path = PathBuf::new();
    // On every system, so that a list means the same everywhere.
    let is_odd = text.contains('\\') || text.contains('\0') || text.ends_with('/');
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) if !is_odd => path.push(name),
            _ => return Err(format!("{text:?} is not a plain path below the output folder")),
        }
    }
    if path.as_os_str().is_empty() {
        return Err(format!("{text:?} names no file"));
    }
    Ok(path)
}

/// Millions of files.
const LIST_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leaves_the_folder() {
        let list = |path: &str| {
            let json = serde_json::json!([{ "hash": "0".repeat(64), "path": path }]);
            parse(json.to_string().as_bytes(), Path::new("out")).map(|requests| requests[0].target.clone())
        };
        assert_eq!(list("a/b.txt").unwrap(), Path::new("out/a/b.txt"));
        assert_eq!(list("a//b").unwrap(), Path::new("out/a/b"));
        for bad in ["", ".", "..", "../a", "a/../../b", "/etc/passwd", "a/..", "a\\..\\b", "a/", "a\0b"] {
            assert!(list(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_path_twice_or_a_hash_that_is_none_is_refused() {
        let hash = "0".repeat(64);
        let twice = format!(r#"[{{"hash":"{hash}","path":"a"}},{{"hash":"{hash}","path":"./a"}}]"#);
        assert!(parse(twice.as_bytes(), Path::new("")).is_err());
        assert!(parse(br#"[{"hash":"12","path":"a"}]"#, Path::new("")).is_err());
        assert!(parse(b"{}", Path::new("")).is_err());
    }
}

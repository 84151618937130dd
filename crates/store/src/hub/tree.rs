//! Trees: the folders of a repository, in git's encoding.
//!
//! An entry is its mode in octal, a space, the name, a zero byte and the 20 bytes of its id. Entries are sorted by name,
//! folders as if their name ended in a slash.

use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::ids::Oid;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Something only git writes: an executable file, a link, a submodule. Kept as it is.
    Other(u32),
}

impl Mode {
    /// Whether it is a folder.
    pub fn is_folder(self) -> bool {
        self == Self::Folder
    }

    /// Whether its id names a blob.
    pub fn is_blob(self) -> bool {
        matches!(self, Self::File | Self::Other(0o100_755 | 0o100_664 | 0o120_000))
    }

    const fn number(self) -> u32 {
        match self {
            Self::File => 0o100_644,
            Self::Folder => 0o40_000,
            Self::Other(number) => number,
        }
    }
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub mode: Mode,
    /// Its name here.
    pub name: String,
    /// Its tree or blob.
    pub oid: Oid,
}

/// A folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Sorted as git sorts.
    entries: Vec<Entry>,
}

impl Tree {
    /// The entries, sorted as git sorts.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of a name, whatever it is.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        let at = [false, true].into_iter().find_map(|folder| self.find_entry(name, folder).ok())?;
        self.entries.get(at)
    }

    /// Puts an entry in the place of whatever has its name.
    pub fn put(&mut self, entry: Entry) {
        self.remove(&entry.name);
        let at = self.find_entry(&entry.name, entry.mode.is_folder()).unwrap_or_else(|at| at);
        self.entries.insert(at, entry);
    }

    /// Removes the entry of a name; returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let at = [false, true].into_iter().find_map(|folder| self.find_entry(name, folder).ok());
        at.map(|at| self.entries.remove(at)).is_some()
    }

    /// Replaces and removes many at once: one pass however many there are. `changes` has each name once.
    pub(crate) fn change(&mut self, changes: &std::collections::HashMap<String, Option<(Mode, Oid)>>) {
        self.entries.retain(|entry| !changes.contains_key(&entry.name));
        let put = |(name, change): (&String, &Option<(Mode, Oid)>)| {
            change.map(|(mode, oid)| Entry { mode, name: name.clone(), oid })
        };
        self.entries.extend(changes.iter().filter_map(put));
        self.entries.sort_unstable_by(|a, b| order(&a.name, a.mode.is_folder(), &b.name, b.mode.is_folder()));
    }

    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.entries.iter().map(|entry| entry.name.len() + 28).sum());
        for Entry { mode, name, oid } in &self.entries {
            body.extend(format!("{:o} {name}\0", mode.number()).as_bytes());
            body.extend(oid.as_bytes());
        }
        body
    }

    /// Reads an object.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let wrong = || Error::new(ErrorKind::Corrupt, "a tree object that cannot be read");
        let mut entries = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let (mode, after) = rest.split_at(space);
            let zero = after.iter().position(|byte| *byte == 0).ok_or_else(wrong)?;
            let (name, after) = after.split_at(zero);
            let mode = std::str::from_utf8(mode).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
            let name = name.get(1..).and_then(|name| std::str::from_utf8(name).ok()).ok_or_else(wrong)?;
            let (oid, after) = after.get(1..).and_then(|rest| rest.split_first_chunk()).ok_or_else(wrong)?;
            let mode = match mode.ok_or_else(wrong)? {
                0o100_644 => Mode::File,
                0o40_000 => Mode::Folder,
                other => Mode::Other(other),
            };
            entries.push(Entry { mode, name: name.to_owned(), oid: Oid::new(*oid) });
            rest = after;
        }
        Ok(Self { entries })
    }

    fn find_entry(&self, name: &str, is_folder: bool) -> std::result::Result<usize, usize> {
        self.entries.binary_search_by(|entry| order(&entry.name, entry.mode.is_folder(), name, is_folder))
    }
}

/// Git's order: by bytes, folders as if they ended in a slash.
pub(crate) fn order(a: &str, a_is_folder: bool, b: &str, b_is_folder: bool) -> Ordering {
    let slash = |is_folder: bool| is_folder.then_some(b'/');
    a.bytes().chain(slash(a_is_folder)).cmp(b.bytes().chain(slash(b_is_folder)))
}

/// The parts of a path in a repository, if it is one: relative, without empty parts, dots or `.git`.
pub(crate) fn parse_path(path: &str) -> Result<Vec<&str>> {
    let refuse = |why: &str| {
        let found: String = path.chars().take(80).collect();
        Err(Error::new(ErrorKind::Invalid, format!("path {found:?}: {why}")))
    };
    if path.len() > PATH_BYTES_MAX {
        return refuse("it is too long");
    }
    let parts: Vec<_> = path.split('/').collect();
    if parts.len() > PATH_PARTS_MAX {
        return refuse("it has too many parts");
    }
    for part in &parts {
        if part.is_empty() || *part == "." || *part == ".." {
            return refuse("it has an empty part or dots");
        }
        if part.eq_ignore_ascii_case(".git") {
            return refuse("git keeps this name for itself");
        }
        if part.chars().any(char::is_control) || part.contains('\\') {
            return refuse("it has a control character or a backslash");
        }
    }
    Ok(parts)
}

const PATH_BYTES_MAX: usize = 4096;

const PATH_PARTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::ids::ObjectKind;

    fn entry(name: &str, mode: Mode) -> Entry {
        Entry { mode, name: name.to_owned(), oid: Oid::of(ObjectKind::Blob, name.as_bytes()) }
    }

    #[test]
    fn folders_sort_as_if_they_ended_in_a_slash() {
        let mut tree = Tree::default();
        for (name, mode) in
            [("a", Mode::Folder), ("a.b", Mode::File), ("a0", Mode::File), ("Z", Mode::Other(0o100_755))]
        {
            tree.put(entry(name, mode));
        }
        let names: Vec<_> = tree.entries().iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["Z", "a.b", "a", "a0"]);
        assert_eq!(Tree::parse(&tree.encode()).unwrap(), tree);
        assert_eq!(tree.entry("a").unwrap().mode, Mode::Folder);
        tree.put(entry("a", Mode::File));
        assert_eq!(tree.entries().len(), 4, "one name, one entry");
        assert!(tree.remove("a") && !tree.remove("a"));
        let changes = HashMap::from([
            ("a0".to_owned(), None),
            ("b".to_owned(), Some((Mode::File, Oid::of(ObjectKind::Blob, b"b")))),
            ("Z".to_owned(), Some((Mode::Folder, Oid::of(ObjectKind::Tree, b"")))),
        ]);
        tree.change(&changes);
        let names: Vec<_> = tree.entries().iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["Z", "a.b", "b"]);
    }

    #[test]
    fn every_truncation_of_a_tree_is_refused_or_loses_whole_entries() {
        let mut tree = Tree::default();
        tree.put(entry("one", Mode::File));
        tree.put(entry("two", Mode::Folder));
        let body = tree.encode();
        let first = "100644 one\0".len() + 20;
        for len in 0..body.len() {
            assert_eq!(Tree::parse(&body[..len]).is_ok(), len == 0 || len == first, "{len}");
        }
    }

    #[test]
    fn a_path_is_relative_and_plain() {
        assert_eq!(parse_path("a/b c/d.e").unwrap(), ["a", "b c", "d.e"]);
        let deep = "a/".repeat(64) + "a";
        for bad in ["", "/a", "a/", "a//b", ".", "a/../b", ".git/config", "a/.GIT", "a\nb", "a\\b", &deep] {
            assert_eq!(parse_path(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
        }
    }
}

//! Grouping: which files are one record, and what they are called in it.

use clap::ValueEnum;

/// Rule that groups files to records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Key up to the first dot of the file name, entry after it: `a/b.left.jpg` is entry `left.jpg` of `a/b`
    #[default]
    FirstDot,
    /// Key up to the last dot: `a/b.left.jpg` is entry `jpg` of `a/b.left`
    LastDot,
    /// Each folder that holds files is one record, the files are its entries
    Dir,
    /// Each file is one record of one entry
    File,
    /// The input is a manifest: JSON lines of key, metadata and files
    Manifest,
}

impl Group {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FirstDot => "first-dot",
            Self::LastDot => "last-dot",
            Self::Dir => "dir",
            Self::File => "file",
            Self::Manifest => "manifest",
        }
    }

    /// Key and entry name of the file at `path`, which is relative and divided by `/`. Dots of folders never divide.
    pub(crate) fn split(self, path: &str) -> (String, String) {
        let (folder, base) = path.rsplit_once('/').map_or(("", path), |(folder, base)| (folder, base));
        // The dot of a hidden file is part of its name.
        let visible = usize::from(base.starts_with('.'));
        let dot = match self {
            Self::FirstDot => base[visible..].find('.'),
            Self::LastDot => base[visible..].rfind('.'),
            Self::Dir => return (if folder.is_empty() { ".".into() } else { folder.into() }, base.into()),
            Self::File | Self::Manifest => return (path.into(), base.into()),
        };
        let at = |base: &str| if folder.is_empty() { base.to_owned() } else { format!("{folder}/{base}") };
        match dot.map(|dot| dot + visible) {
            Some(dot) => (at(&base[..dot]), base[dot + 1..].to_owned()),
            None => (at(base), base.to_owned()),
        }
    }

    /// The path that [`split`](Self::split) made this key and entry of.
    pub(crate) fn join(name: Option<&str>, key: &str, entry: &str) -> String {
        let base = key.rsplit('/').next().unwrap_or(key);
        match name {
            Some("dir") if key == "." => entry.to_owned(),
            Some("dir" | "manifest") => format!("{key}/{entry}"),
            Some("file") => key.to_owned(),
            // A file without a dot is its own entry.
            _ if entry == base => key.to_owned(),
            _ => format!("{key}.{entry}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_grouped_as_the_page_says_and_come_back() {
        let cases = [
            (Group::FirstDot, "images17/image194.left.jpg", "images17/image194", "left.jpg"),
            (Group::LastDot, "images17/image194.left.jpg", "images17/image194.left", "jpg"),
            (Group::FirstDot, "v1.2/x.txt", "v1.2/x", "txt"),
            (Group::FirstDot, "v1.2/README", "v1.2/README", "README"),
            (Group::FirstDot, "A.JPG", "A", "JPG"),
            (Group::FirstDot, ".hidden", ".hidden", ".hidden"),
            (Group::FirstDot, ".hidden.json", ".hidden", "json"),
            (Group::Dir, "a/b/c.txt", "a/b", "c.txt"),
            (Group::Dir, "c.txt", ".", "c.txt"),
            (Group::File, "a/c.txt", "a/c.txt", "c.txt"),
            (Group::FirstDot, "ends.", "ends", ""),
        ];
        for (group, path, key, entry) in cases {
            assert_eq!(group.split(path), (key.to_owned(), entry.to_owned()), "{path}");
            assert_eq!(Group::join(Some(group.name()), key, entry), path);
        }
    }
}

//! `.gitignore`: which files of an upload git would not take.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The lines of a `.gitignore` at the root of a repository.
#[derive(Debug)]
pub(crate) struct Ignore(Gitignore);

impl Default for Ignore {
    fn default() -> Self {
        Self(Gitignore::empty())
    }
}

impl Ignore {
    /// Parses the rules; those that git would not understand, and those beyond the limits, are no rules.
    pub(crate) fn parse(text: &str) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines().take(RULES_MAX).filter(|line| line.len() <= RULE_BYTES_MAX) {
            let _ = builder.add_line(None, line);
        }
        Self(builder.build().unwrap_or_else(|_| Gitignore::empty()))
    }

    /// Whether git would leave out a file, for itself or for a directory it is in: what is in an ignored directory cannot be
    /// taken back by a later rule.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let mut directories = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        directories.any(|directory| self.0.matched(directory, true).is_ignore())
            || self.0.matched(path, false).is_ignore()
    }
}

const RULES_MAX: usize = 1000;
const RULE_BYTES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with `git check-ignore` when it was written.
    #[test]
    fn paths_are_ignored_as_git_ignores_them() {
        let text = "# build\n*.log\n!keep.log\n/out\ncache/\ndoc/*.txt\n**/tmp/**\na/**/z\n\\#odd\n[a-c]?.bin\nx[!0-9]\nsp\\ \n";
        let ignore = Ignore::parse(text);
        for path in [
            "a.log",
            "deep/in/b.log",
            "out",
            "out/x",
            "cache/x",
            "deep/cache/y/z",
            "doc/a.txt",
            "tmp/x",
            "q/tmp/r/s",
            "a/z",
            "a/b/c/z",
            "#odd",
            "b1.bin",
            "d/c9.bin",
            "xa",
            "sp ",
            "cache/keep.log",
        ] {
            assert!(ignore.matches(path), "{path}");
        }
        for path in [
            "keep.log",
            "d/keep.log",
            "deep/out",
            "cache",
            "doc/a/b.txt",
            "x/doc/a.txt",
            "tmp",
            "b/z",
            "odd",
            "d1.bin",
            "b.bin",
            "x5",
            "sp",
            "a.logs",
            "",
        ] {
            assert!(!ignore.matches(path), "{path}");
        }
        assert!(!Ignore::default().matches("a"));
        let slow = Ignore::parse(&"*a".repeat(5000));
        assert!(!slow.matches(&"a".repeat(4000).replace("aa", "ab")));
    }
}

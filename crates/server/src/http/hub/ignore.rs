//! `.gitignore`: which files of an upload git would not take.

/// The lines of a `.gitignore` at the root of a repository.
#[derive(Debug, Default)]
pub(super) struct Ignore(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// Takes back what a rule before it said.
    keeps: bool,
    folders_only: bool,
    /// One for each part of a path; `None` for any number of parts.
    parts: Vec<Option<Vec<Glob>>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Glob {
    Any,
    One,
    Char(char),
    Class { not: bool, ranges: Vec<(char, char)> },
}

impl Ignore {
    pub(super) fn parse(text: &str) -> Self {
        Self(text.lines().take(RULES_MAX).filter_map(Rule::parse).collect())
    }

    /// Whether git would leave out a file, for itself or for a folder it is in.
    pub(super) fn matches(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        (1..=parts.len()).any(|end| {
            let is_folder = end < parts.len();
            let last = self.0.iter().rev().find(|rule| {
                (is_folder || !rule.folders_only) && rule.matches(parts.get(..end).unwrap_or_default())
            });
            last.is_some_and(|rule| !rule.keeps)
        })
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let line = match line.strip_suffix("\\ ") {
            // A space that is meant is written with a backslash.
            Some(_) => line,
            None => line.trim_end(),
        };
        let (keeps, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (folders_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let anchored = line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        let mut parts: Vec<_> =
            line.split('/').map(|part| (part != "**").then(|| globs(part))).take(PARTS_MAX).collect();
        if !anchored {
            parts.insert(0, None);
        }
        // What ends so means what is inside, not the folder.
        if parts.last().is_some_and(Option::is_none) {
            parts.push(Some(vec![Glob::Any]));
        }
        Some(Self { keeps, folders_only, parts })
    }

    fn matches(&self, path: &[&str]) -> bool {
        let fits = |part: &Option<Vec<Glob>>, name: &&str| {
            let name: Vec<char> = name.chars().collect();
            part.as_ref().is_some_and(|globs| wild(globs, &name, |glob| *glob == Glob::Any, Glob::fits))
        };
        wild(&self.parts, path, Option::is_none, fits)
    }
}

impl Glob {
    fn fits(&self, c: &char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Char(own) => own == c,
            Self::Class { not, ranges } => ranges.iter().any(|(from, to)| (from..=to).contains(&c)) != *not,
        }
    }
}

fn globs(part: &str) -> Vec<Glob> {
    let mut globs = Vec::new();
    let mut rest = part.chars();
    while let Some(c) = rest.next() {
        globs.push(match c {
            '*' => Glob::Any,
            '?' => Glob::One,
            '\\' => Glob::Char(rest.next().unwrap_or('\\')),
            '[' => match class(rest.as_str()) {
                Some((class, after)) => {
                    rest = after.chars();
                    class
                }
                None => Glob::Char('['),
            },
            c => Glob::Char(c),
        });
    }
    globs
}

/// What follows a bracket, and what follows the bracket that closes it.
fn class(text: &str) -> Option<(Glob, &str)> {
    let inside = text.strip_prefix(['!', '^']);
    let (not, text) = (inside.is_some(), inside.unwrap_or(text));
    // The first character is meant, also if it is the one that closes.
    let end = text.char_indices().skip(1).find(|(_, c)| *c == ']')?.0;
    let (inside, after) = text.split_at(end);
    let chars: Vec<char> = inside.chars().collect();
    let mut ranges = Vec::new();
    let mut left = chars.as_slice();
    loop {
        left = match left {
            [from, '-', to, rest @ ..] => {
                ranges.push((*from, *to));
                rest
            }
            [one, rest @ ..] => {
                ranges.push((*one, *one));
                rest
            }
            [] => break,
        };
    }
    Some((Glob::Class { not, ranges }, after.get(1..)?))
}

/// Whether a pattern covers a text, where a star stands for any number. Goes back to the last star only: that is enough,
/// and no pattern can make it slow.
fn wild<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t, mut back) = (0, 0, None);
    while let Some(next) = text.get(t) {
        match pattern.get(p) {
            Some(star) if is_star(star) => {
                back = Some((p + 1, t));
                p += 1;
            }
            Some(one) if fits(one, next) => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((after, from)) = back else { return false };
                back = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(is_star)
}

const RULES_MAX: usize = 1000;
const PARTS_MAX: usize = 64;

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

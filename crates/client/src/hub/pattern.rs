//! File patterns to include and to exclude, as `hf` and shells know them.

/// Names to take and names to leave. A name is taken when a pattern includes it, or there is none, and none excludes it.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Patterns to include; everything where empty.
    pub include: Vec<String>,
    /// Patterns to exclude.
    pub exclude: Vec<String>,
}

impl Selection {
    /// Whether the file at this path is taken.
    pub(crate) fn takes(&self, path: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// `*` is anything, slashes too, `?` any one character; a slash at the end stands for everything below.
/// In `globset` a `?` is one byte, so that it does not match `ä`.
fn matches(pattern: &str, path: &str) -> bool {
    let mut pattern: Vec<char> = pattern.chars().collect();
    if pattern.last() == Some(&'/') {
        pattern.push('*');
    }
    let path: Vec<char> = path.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where the last star is, and the first character it has not swallowed yet.
    let mut star: Option<(usize, usize)> = None;
    while n < path.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == path[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, swallowed)) => {
                    star = Some((at, swallowed + 1));
                    (p, n) = (at + 1, swallowed + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_people_know_them() {
        for (pattern, path, fits) in [
            ("*", "a/b", true),
            ("*.txt", "a/b.txt", true),
            ("*.txt", "a/b.txt.gz", false),
            ("data/", "data/a/b", true),
            ("data/", "data", false),
            ("data/*.bin", "data/x/y.bin", true),
            ("?.md", "ä.md", true),
            ("?.md", "ab.md", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_excluded_is_left_even_where_it_is_included() {
        let list = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let some = Selection { include: list(&["*.bin", "docs/"]), exclude: list(&["docs/old/"]) };
        assert_eq!(
            ["a/b.bin", "docs/x", "docs/old/x", "c.txt"].map(|path| some.takes(path)),
            [true, true, false, false]
        );
        assert!(Selection::default().takes("anything"));
    }
}

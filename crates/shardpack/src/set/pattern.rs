//! Names of packs: braces as shells expand them, wildcards, directories.

use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use crate::error::Error;
use crate::set::dataset_index::{DATASET_INDEX_NAME, DatasetIndex};

/// The paths that inputs name, in the order given. Each may be a file, a folder, a dataset index, or a pattern with braces
/// and wildcards; what a wildcard or a folder finds is sorted bytewise.
pub fn resolve<S: AsRef<str>>(inputs: &[S]) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for input in inputs {
        for name in expand_braces(input.as_ref())? {
            resolve_one(&name, &mut paths)?;
        }
    }
    Ok(paths)
}

/// Expands `{a,b}` and `{000..973}` with steps, padding and nesting. A text without braces is itself.
pub fn expand_braces(text: &str) -> Result<Vec<String>, Error> {
    let mut out = Vec::new();
    expand(text, &mut out)?;
    Ok(out)
}

fn expand(text: &str, out: &mut Vec<String>) -> Result<(), Error> {
    let Some((before, inside, after)) = first_braces(text)? else {
        return push(text.to_owned(), out);
    };
    let mut tails = Vec::new();
    expand(after, &mut tails)?;
    let choices = match range(inside)? {
        Some(numbers) => numbers,
        None => {
            let parts = split_at_commas(inside);
            if parts.len() < 2 {
                return Err(Error::invalid(format!(
                    "{{{inside}}} is neither a range like {{000..099}} nor a list like {{a,b}}"
                )));
            }
            let mut choices = Vec::new();
            for part in parts {
                expand(part, &mut choices)?;
            }
            choices
        }
    };
    for choice in choices {
        for tail in &tails {
            push(format!("{before}{choice}{tail}"), out)?;
        }
    }
    Ok(())
}

fn push(name: String, out: &mut Vec<String>) -> Result<(), Error> {
    if out.len() >= NAMES_MAX {
        return Err(Error::invalid(format!("the pattern stands for more than {NAMES_MAX} packs")));
    }
    out.push(name);
    Ok(())
}

/// Texts before, in and after the first braces; an error when they do not close.
fn first_braces(text: &str) -> Result<Option<(&str, &str, &str)>, Error> {
    let Some((before, rest)) = text.split_once('{') else { return Ok(None) };
    let mut depth = 1_u32;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (inside, after) = rest.split_at(at);
            return Ok(Some((before, inside, after.strip_prefix('}').unwrap_or(after))));
        }
    }
    Err(Error::invalid(format!("{text}: a brace is not closed")))
}

fn split_at_commas(inside: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    inside
        .split(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .collect()
}

/// `a..b` and `a..b..step`, rising or falling, padded as the longer of both is written.
fn range(inside: &str) -> Result<Option<Vec<String>>, Error> {
    let parts: Vec<&str> = inside.split("..").collect();
    let (first, last, step) = match parts.as_slice() {
        [first, last] => (*first, *last, "1"),
        [first, last, step] => (*first, *last, *step),
        _ => return Ok(None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if ![first, last, step].into_iter().all(is_number) {
        return Ok(None);
    }
    let parse =
        |text: &str| text.parse::<u64>().map_err(|_| Error::invalid(format!("{text} is too large a number")));
    let (from, to, step) = (parse(first)?, parse(last)?, parse(step)?);
    if step == 0 {
        return Err(Error::invalid(format!("{{{inside}}} has a step of 0")));
    }
    let count = from.abs_diff(to) / step + 1;
    if count > NAMES_MAX as u64 {
        return Err(Error::invalid(format!("{{{inside}}} stands for more than {NAMES_MAX} packs")));
    }
    let padded = [first, last].iter().any(|text| text.len() > 1 && text.starts_with('0'));
    let width = if padded { first.len().max(last.len()) } else { 0 };
    let number = |n: u64| if from <= to { from + n * step } else { from - n * step };
    Ok(Some((0..count).map(|n| format!("{:0width$}", number(n))).collect()))
}

fn resolve_one(name: &str, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let path = Path::new(name);
    if path.is_dir() {
        let before = paths.len();
        let index = path.join(DATASET_INDEX_NAME);
        if index.is_file() {
            return DatasetIndex::read(&index)?.paths(&index, paths);
        }
        matches_in(path, "*.shardpack", paths)?;
        if paths.len() == before {
            return Err(Error::invalid(format!("{name}: no *.shardpack file in this folder")));
        }
        return Ok(());
    }
    if name.ends_with(".json") && path.is_file() {
        return DatasetIndex::read(path)?.paths(path, paths);
    }
    if path.exists() || !name.contains(['*', '?', '[']) {
        paths.push(path.to_owned());
        return Ok(());
    }
    let before = paths.len();
    glob(name, paths)?;
    if paths.len() == before {
        return Err(Error::invalid(format!("{name}: no file is called like this")));
    }
    Ok(())
}

/// Wildcards in any part of a path.
fn glob(pattern: &str, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for folder in &found {
            if part.contains(['*', '?', '[']) {
                let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                let mut inside = Vec::new();
                if here.is_dir() {
                    matches_in(here, part, &mut inside)?;
                }
                next.extend(inside.iter().filter_map(|path| Some(folder.join(path.file_name()?))));
            } else {
                next.push(folder.join(part));
            }
        }
        found = next;
    }
    paths.extend(found.into_iter().filter(|path| path.exists()));
    Ok(())
}

/// Appends the files in `folder` whose names match `pattern`, sorted; hidden ones only when the pattern begins with a dot.
fn matches_in(folder: &Path, pattern: &str, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let name = |error: std::io::Error| Error::from(error).in_pack(&folder.display().to_string());
    let (is_match, mut found) = (matcher(pattern), Vec::new());
    for entry in fs::read_dir(folder).map_err(name)? {
        let entry = entry.map_err(name)?;
        let file_name = entry.file_name();
        let hidden = file_name.as_encoded_bytes().starts_with(b".") && !pattern.starts_with('.');
        if !hidden && file_name.to_str().is_some_and(&is_match) {
            found.push(entry.path());
        }
    }
    found.sort();
    paths.extend(found);
    Ok(())
}

/// A matcher for one part of a path: `*`, `?`, `[a-z]` and `[!a-z]`, compared bytewise. What is no pattern, as `[`, is a name.
fn matcher(pattern: &str) -> impl Fn(&str) -> bool {
    let glob =
        GlobBuilder::new(pattern).literal_separator(true).build().ok().map(|glob| glob.compile_matcher());
    move |name| match &glob {
        Some(glob) => glob.is_match(name),
        None => name == pattern,
    }
}

/// More packs than this are a mistake in the pattern.
const NAMES_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand_as_in_a_shell() {
        let cases: [(&str, &[&str]); 11] = [
            ("plain", &["plain"]),
            ("a-{000..002}.x", &["a-000.x", "a-001.x", "a-002.x"]),
            ("{8..11}", &["8", "9", "10", "11"]),
            ("{08..11}", &["08", "09", "10", "11"]),
            ("{3..1}", &["3", "2", "1"]),
            ("{0..10..5}", &["0", "5", "10"]),
            ("{a,b}{1,2}", &["a1", "a2", "b1", "b2"]),
            ("{train-{0..1},val}/x", &["train-0/x", "train-1/x", "val/x"]),
            ("{a,}b", &["ab", "b"]),
            ("{000000..000000}", &["000000"]),
            ("{x{1,2}y,{z,w}}", &["x1y", "x2y", "z", "w"]),
        ];
        for (pattern, expected) in cases {
            assert_eq!(expand_braces(pattern).unwrap(), expected, "{pattern}");
        }
        for wrong in
            ["{", "a{1..2", "{a}", "{}", "{1..2..0}", "{0..99999999}", "{0..99999999999999999999999}"]
        {
            assert!(expand_braces(wrong).is_err(), "{wrong}");
        }
        let thousand = "{0..999}";
        assert!(
            expand_braces(&thousand.repeat(3)).is_err(),
            "a billion names are refused before they are made"
        );
    }

    #[test]
    fn wildcards_match_as_in_a_shell() {
        let right =
            [("*", "x"), ("a*c", "abbc"), ("a*b*c", "aXbXbc"), ("?x", "ax"), ("[a-c]z", "bz"), ("[!a]", "b")];
        for (pattern, text) in
            right.into_iter().chain([("[", "["), ("**a**", "xxaxx"), ("[^a]", "b"), ("??", "é")])
        {
            assert!(matcher(pattern)(text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("a*c", "abb"), ("?", ""), ("[a-c]", "d"), ("x", ""), ("[", "x"), ("a", "ab"), ("*.x", "A.X")]
        {
            assert!(!matcher(pattern)(text), "{pattern} {text}");
        }
        let slow = format!("{}b", "*a".repeat(2000));
        assert!(!matcher(&slow)(&"a".repeat(5000)));
    }
}

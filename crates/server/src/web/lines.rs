//! Lines that differ between two small texts.

use std::ops::Range;

/// Lines in a row, some of them changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    pub(super) lines: Vec<Line>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// `+`, `-` or a space.
    pub(super) sign: char,
    /// Its number, where it is removed in the old text and otherwise in the new.
    pub(super) number: usize,
    pub(super) text: String,
}

impl Line {
    pub(super) fn class(&self) -> &'static str {
        match self.sign {
            '+' => "plus",
            '-' => "minus",
            _ => "same",
        }
    }
}

/// The lines that differ, with a few around them; no more than a page can show. Comparing takes away from `cells_left`,
/// the pairs of lines that may still be compared for a page: beyond them, lines are removed and added and never moved.
pub(super) fn hunks(before: &str, after: &str, cells_left: &mut usize) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let all = script(&old, &new, cells_left);
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut shown = 0;
    let mut open_end = 0;
    for (n, line) in all.iter().enumerate() {
        if line.sign == ' ' {
            continue;
        }
        let around = n.saturating_sub(CONTEXT)..(n + CONTEXT + 1).min(all.len());
        let fresh: Range<usize> = around.start.max(open_end)..around.end;
        if hunks.is_empty() || around.start > open_end {
            hunks.push(Hunk { lines: Vec::new() });
        }
        open_end = around.end.max(open_end);
        let lines = all.get(fresh).unwrap_or_default();
        shown += lines.len();
        if let Some(hunk) = hunks.last_mut() {
            hunk.lines.extend(lines.iter().cloned());
        }
        if shown > LINES_MAX {
            break;
        }
    }
    hunks
}

/// Every line of both texts: those that stay by a longest common subsequence, if that is cheap.
fn script(old: &[&str], new: &[&str], cells_left: &mut usize) -> Vec<Line> {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(same..).unwrap_or_default(), new.get(same..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (old_rest.len() - tail, new_rest.len() - tail);
    let line = |sign, number: usize, text: &str| Line {
        sign,
        number: number + 1,
        text: text.chars().take(LINE_CHARS_MAX).collect(),
    };
    let mut out: Vec<Line> = new.iter().take(same).enumerate().map(|(n, text)| line(' ', n, text)).collect();
    let cells = a.saturating_mul(b);
    let is_cheap = cells <= CELLS_MAX.min(*cells_left);
    let longest = if is_cheap { table(&old_rest[..a], &new_rest[..b]) } else { Vec::new() };
    *cells_left -= if is_cheap { cells } else { 0 };
    let at = |i: usize, j: usize| longest.get(i * (b + 1) + j).copied().unwrap_or(0);
    let (mut i, mut j) = (0, 0);
    while i < a || j < b {
        if i < a && j < b && old_rest[i] == new_rest[j] && !longest.is_empty() {
            out.push(line(' ', same + j, new_rest[j]));
            (i, j) = (i + 1, j + 1);
        } else if i < a && (j == b || at(i + 1, j) >= at(i, j + 1)) {
            out.push(line('-', same + i, old_rest[i]));
            i += 1;
        } else {
            out.push(line('+', same + j, new_rest[j]));
            j += 1;
        }
    }
    out.extend(new.iter().enumerate().skip(same + b).map(|(n, text)| line(' ', n, text)));
    out
}

/// Lengths of the longest common subsequences of all ends of both.
fn table(old: &[&str], new: &[&str]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut longest = vec![0; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    longest
}

const CONTEXT: usize = 3;
const LINES_MAX: usize = 400;
const LINE_CHARS_MAX: usize = 400;
const CELLS_MAX: usize = 1 << 20;
/// Pairs of lines to compare for one page.
pub(super) const PAGE_CELLS_MAX: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(before: &str, after: &str) -> Vec<String> {
        let lines = hunks(before, after, &mut { PAGE_CELLS_MAX }).into_iter().flat_map(|hunk| hunk.lines);
        lines.map(|line| format!("{}{}{}", line.number, line.sign, line.text)).collect()
    }

    #[test]
    fn a_changed_line_stands_with_three_around_it() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        let after = before.replace("e\n", "E\nE2\n");
        assert_eq!(shown(before, &after), ["2 b", "3 c", "4 d", "5-e", "5+E", "6+E2", "7 f", "8 g", "9 h"]);
        assert_eq!(shown(before, before), [""; 0]);
        assert_eq!(shown("", "x\n"), ["1+x"]);
        assert_eq!(shown("x\n", ""), ["1-x"]);
    }

    #[test]
    fn pairs_of_lines_beyond_the_limit_of_a_page_are_not_compared() {
        let text = |n: usize| (0..n).map(|n| format!("{n}\n")).collect::<String>();
        let (before, after) = (format!("x\n{}", text(100)), format!("{}y\n", text(100)));
        let mut cells_left = 101 * 101;
        assert_eq!(hunks(&before, &after, &mut cells_left).len(), 2);
        assert_eq!(cells_left, 0);
        let all: usize = hunks(&before, &after, &mut cells_left).iter().map(|hunk| hunk.lines.len()).sum();
        assert_eq!(all, 202);
    }

    proptest! {
        /// What a script keeps and adds is the new text, what it keeps and removes the old one.
        #[test]
        fn a_script_leads_from_one_text_to_the_other(
            old in prop::collection::vec(0..4_u8, 0..30),
            new in prop::collection::vec(0..4_u8, 0..30),
        ) {
            let text = |lines: &[u8]| lines.iter().map(u8::to_string).collect::<Vec<_>>();
            let (old, new) = (text(&old), text(&new));
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            let new: Vec<&str> = new.iter().map(String::as_str).collect();
            let lines = script(&old, &new, &mut { PAGE_CELLS_MAX });
            let side = |sign| lines.iter().filter(move |line| line.sign == ' ' || line.sign == sign).map(|line| line.text.as_str());
            prop_assert!(side('-').eq(old.iter().copied()));
            prop_assert!(side('+').eq(new.iter().copied()));
        }
    }
}

//! Lines that differ between two small texts.

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

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
    let mut line_count = 0;
    let mut hunks = Vec::new();
    for group in group_diff_ops(compare(&old, &new, cells_left), CONTEXT) {
        if line_count > LINES_MAX {
            break;
        }
        let all = group.iter().flat_map(|op| lines(op, &old, &new));
        let lines: Vec<Line> = all.take(LINES_MAX + 1 - line_count).collect();
        line_count += lines.len();
        hunks.push(Hunk { lines });
    }
    hunks
}

/// What leads from `old` to `new`. What both begin and end with costs nothing; the rest is compared if that is cheap.
fn compare(old: &[&str], new: &[&str], cells_left: &mut usize) -> Vec<DiffOp> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_len, new_len) = (old_rest.len() - tail, new_rest.len() - tail);
    let cells = old_len.saturating_mul(new_len);
    if cells <= CELLS_MAX.min(*cells_left) {
        *cells_left -= cells;
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    let equal = |old_index, new_index, len| DiffOp::Equal { old_index, new_index, len };
    let replace = DiffOp::Replace { old_index: head, old_len, new_index: head, new_len };
    let ops = [equal(0, 0, head), replace, equal(head + old_len, head + new_len, tail)];
    ops.into_iter().filter(|op| !op.old_range().is_empty() || !op.new_range().is_empty()).collect()
}

/// The lines of one step: first those it removes, then those it adds.
fn lines(op: &DiffOp, old: &[&str], new: &[&str]) -> Vec<Line> {
    let all = |sign, texts: &[&str], range: std::ops::Range<usize>| -> Vec<Line> {
        let texts = texts.iter().enumerate().take(range.end).skip(range.start);
        texts
            .map(|(n, text)| Line { sign, number: n + 1, text: text.chars().take(LINE_CHARS_MAX).collect() })
            .collect()
    };
    match op {
        DiffOp::Equal { .. } => all(' ', new, op.new_range()),
        _ => [all('-', old, op.old_range()), all('+', new, op.new_range())].concat(),
    }
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

    fn render(before: &str, after: &str) -> Vec<String> {
        let lines = hunks(before, after, &mut { PAGE_CELLS_MAX }).into_iter().flat_map(|hunk| hunk.lines);
        lines.map(|line| format!("{}{}{}", line.number, line.sign, line.text)).collect()
    }

    #[test]
    fn a_changed_line_stands_with_three_around_it() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        let after = before.replace("e\n", "E\nE2\n");
        assert_eq!(render(before, &after), ["2 b", "3 c", "4 d", "5-e", "5+E", "6+E2", "7 f", "8 g", "9 h"]);
        assert_eq!(render(before, before), [""; 0]);
        assert_eq!(render("", "x\n"), ["1+x"]);
        assert_eq!(render("x\n", ""), ["1-x"]);
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
            let ops = compare(&old, &new, &mut { PAGE_CELLS_MAX });
            let lines: Vec<Line> = ops.iter().flat_map(|op| lines(op, &old, &new)).collect();
            let side = |sign| lines.iter().filter(move |line| line.sign == ' ' || line.sign == sign).map(|line| line.text.as_str());
            prop_assert!(side('-').eq(old.iter().copied()));
            prop_assert!(side('+').eq(new.iter().copied()));
        }
    }
}

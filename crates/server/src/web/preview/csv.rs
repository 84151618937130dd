//! The first rows of a table in text.

use super::{Table, cell};

/// The first rows; of a text that was cut, without the last one.
pub(super) fn table(text: &str, separator: char, is_cut: bool) -> Table {
    let mut rows = rows(text, separator);
    if is_cut {
        rows.pop();
    }
    let more = rows.len() > ROWS_MAX + 1 || is_cut;
    let mut rows = rows.into_iter().take(ROWS_MAX + 1);
    let short =
        |row: Vec<String>| -> Vec<String> { row.iter().take(COLUMNS_MAX).map(|text| cell(text)).collect() };
    let columns = rows.next().map(short).unwrap_or_default();
    let rows: Vec<_> = rows.map(short).collect();
    let caption = match more {
        true => format!("The first {} rows", rows.len()),
        false => format!("{} rows", rows.len()),
    };
    Table { caption, columns, rows, facts: Vec::new() }
}

/// All rows. A field in quotes may have separators, line ends and doubled quotes in it.
fn rows(text: &str, separator: char) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' if quoted || field.is_empty() => quoted = !quoted,
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c if c == separator && !quoted => row.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}

const ROWS_MAX: usize = 50;
const COLUMNS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_separators_and_line_ends() {
        let text = "a,b\r\n\"x,\"\"y\"\"\",\"two\nlines\"\n,\n\"open";
        assert_eq!(
            rows(text, ','),
            [vec!["a", "b"], vec!["x,\"y\"", "two\nlines"], vec!["", ""], vec!["open"]]
        );
        assert_eq!(rows("", ','), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_cut_text_shows_whole_rows_only() {
        let text: String = (0..200).map(|n| format!("{n}\t{}\n", "x".repeat(200))).collect();
        let table = table(&text[..text.len() - 5], '\t', true);
        assert_eq!((table.columns[0].as_str(), table.rows.len()), ("0", ROWS_MAX));
        assert_eq!(table.rows[0][1].chars().count(), 121);
        let short = super::table("a,b\n1,2\n3", ',', true);
        assert_eq!(
            (short.rows, short.caption),
            (vec![vec!["1".to_owned(), "2".to_owned()]], "The first 1 rows".into())
        );
    }
}

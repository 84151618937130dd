//! A Parquet file: its columns, and the first rows.
//!
//! By readers of our own that take what they need and pass over the rest: a page must not be made to allocate by numbers of a
//! file. What they do not know is a dash in the table, with a word that says why. They are pure, and tested and fuzzed without
//! a server: `tests/parquet.rs`, `fuzz/fuzz_targets/parquet_head.rs`.

mod codec;
mod footer;
mod pages;
mod print;
mod thrift;
mod values;

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use xet::wire::ErrorCode;

use super::{Reader, Table, cell, text};
use crate::http::error::ApiError;
use footer::{Chunk, Footer};
use pages::Stop;

/// The first rows and the columns, or why there are none to show.
pub(super) async fn tables(reader: &Reader<'_>) -> Result<Result<Vec<Table>, String>, ApiError> {
    let total = reader.bytes();
    if total < 12 {
        return Ok(Err("The file is too short for a footer.".to_owned()));
    }
    let file = File::open(reader).await?;
    let tail = file.read(total - 8..total).await?;
    let Some((len, b"PAR1")) =
        tail.split_first_chunk::<4>().map(|(len, magic)| (u32::from_le_bytes(*len), magic))
    else {
        return Ok(Err("The file does not end like a Parquet file.".to_owned()));
    };
    let len = u64::from(len);
    if len > FOOTER_BYTES_MAX || len > total - 12 {
        return Ok(Err(format!("The footer says it has {len} bytes, which is too much to show.")));
    }
    let data_end = total - 8 - len;
    let bytes = file.read(data_end..total - 8).await?;
    let footer = match reader.visit.state.renderer.run(move || Footer::parse(&bytes)).await {
        Ok(Some(footer)) => footer,
        Ok(None) => return Ok(Err("The footer cannot be read.".to_owned())),
        Err(why) => return Ok(Err(why.to_string())),
    };
    let footer = Arc::new(footer);
    let mut tables = Vec::new();
    if footer.group_rows > 0 && !footer.columns.is_empty() {
        tables.push(rows(&file, &footer, data_end).await?);
    }
    tables.push(columns(&footer));
    if let Some(first) = tables.first_mut() {
        first.facts = facts(&footer);
    }
    Ok(Ok(tables))
}

fn facts(footer: &Footer) -> Vec<(String, String)> {
    vec![
        ("Rows".to_owned(), text::count(footer.rows)),
        ("Row groups".to_owned(), text::count(footer.groups)),
        ("Written by".to_owned(), cell(&footer.writer)),
    ]
}

fn columns(footer: &Footer) -> Table {
    let row = |column: &footer::Column| {
        let repeats = ["always", "maybe", "many"];
        let repeats = usize::try_from(column.repetition).ok().and_then(|n| repeats.get(n));
        vec![cell(&column.path), print::kind(column), repeats.unwrap_or(&"").to_string()]
    };
    let columns = ["Column", "Type", "Values"].map(str::to_owned).to_vec();
    let rows = footer.columns.iter().map(row).collect();
    Table { caption: "Columns".to_owned(), columns, rows, facts: Vec::new() }
}

/// The first rows, column by column. Those that need less leave more to read for the others.
async fn rows(file: &File<'_>, footer: &Arc<Footer>, data_end: u64) -> Result<Table, ApiError> {
    let rows = usize::try_from(footer.group_rows).unwrap_or(usize::MAX).min(ROWS_MAX);
    let count = footer.columns.len().min(ROW_COLUMNS_MAX);
    let mut read_left = READ_BYTES_MAX;
    let mut table = Table { rows: vec![Vec::new(); rows], ..Table::default() };
    for (n, column) in footer.columns.iter().enumerate().take(count) {
        let is_inside =
            |chunk: &Chunk| chunk.start.checked_add(chunk.bytes).is_some_and(|end| end <= data_end);
        let shown = match column.chunk.filter(is_inside) {
            Some(chunk) => {
                let share = read_left / (count - n) as u64;
                head(file, footer, (n, chunk), rows, share, &mut read_left).await?
            }
            None => Err("not in this file".to_owned()),
        };
        table.columns.push(cell(&column.path));
        let mut cells = shown.as_ref().ok().into_iter().flatten();
        for (n, row) in table.rows.iter_mut().enumerate() {
            row.push(match (&shown, n) {
                (Ok(_), _) => cells.next().map_or_else(String::new, |text| cell(text)),
                (Err(why), 0) => format!("– ({why})"),
                (Err(_), _) => "–".to_owned(),
            });
        }
    }
    let more =
        if count < footer.columns.len() { format!(", the first {count} columns") } else { String::new() };
    table.caption = match rows as u64 == footer.rows {
        true => format!("{}{more}", text::counted(footer.rows, "row")),
        false => format!("The first {}{more}", text::counted(rows as u64, "row")),
    };
    Ok(table)
}

/// A column's first values, reading as much as they need and no more than its share; or a word that says why not.
async fn head(
    file: &File<'_>,
    footer: &Arc<Footer>,
    (column, chunk): (usize, Chunk),
    rows: usize,
    share: u64,
    read_left: &mut u64,
) -> Result<Result<Vec<String>, String>, ApiError> {
    let mut prefix = BytesMut::new();
    let mut needed = FIRST_BYTES;
    loop {
        let have = prefix.len() as u64;
        let end = needed.min(chunk.bytes);
        // More than the first bytes is read once for each page, so this ends.
        if end <= have && have > 0 {
            return Ok(Err("damaged".to_owned()));
        }
        if end > share.max(FIRST_BYTES) {
            return Ok(Err("a large page".to_owned()));
        }
        prefix.extend_from_slice(&file.read(chunk.start + have..chunk.start + end).await?);
        *read_left = read_left.saturating_sub(end - have);
        let answers = &file.reader.visit.state.answers;
        let memory = prefix.len() as u64 + 3 * pages::RAW_BYTES_MAX as u64;
        let permit = answers.acquire(memory.min(answers.usage().total_bytes)).await?;
        let (footer, bytes) = (footer.clone(), prefix.clone().freeze());
        let worked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            footer.columns.get(column).map(|column| pages::head(column, chunk, rows, &bytes))
        });
        let failed = |_| ApiError::new(ErrorCode::Internal, "the column could not be read");
        match worked.await.map_err(failed)? {
            Some(Ok(cells)) => return Ok(Ok(cells)),
            Some(Err(Stop::More(bytes))) => needed = bytes,
            Some(Err(Stop::Why(why))) => return Ok(Err(why)),
            None => return Ok(Err("damaged".to_owned())),
        }
    }
}

/// The file by ranges; one that is small or that git has in one piece is read once.
struct File<'a> {
    reader: &'a Reader<'a>,
    whole: Option<Bytes>,
}

impl<'a> File<'a> {
    async fn open(reader: &'a Reader<'a>) -> Result<Self, ApiError> {
        let is_small = reader.bytes() <= WHOLE_BYTES_MAX || reader.item.linked.is_none();
        let whole = match is_small {
            true => Some(reader.read(0..reader.bytes()).await?),
            false => None,
        };
        Ok(Self { reader, whole })
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes, ApiError> {
        let Some(whole) = &self.whole else { return self.reader.read(range).await };
        let span = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let span = span.filter(|(start, end)| start <= end && *end <= whole.len());
        let (start, end) = span.ok_or_else(|| ApiError::invalid("the range is not in the file"))?;
        Ok(whole.slice(start..end))
    }
}

const FOOTER_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// What is read of the columns together.
const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// What is read of a column first, and may be of each.
const FIRST_BYTES: u64 = 64 * 1024;
const WHOLE_BYTES_MAX: u64 = 1024 * 1024;
const ROWS_MAX: usize = 20;
const ROW_COLUMNS_MAX: usize = 30;

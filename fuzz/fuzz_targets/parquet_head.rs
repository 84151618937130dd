//! Any bytes as a Parquet file: what a page shows of it is short, and a prefix of a column never shows anything else.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)] // what only pages show
#[path = "../../crates/server/src/web/preview/parquet"]
mod parquet {
    mod codec;
    mod footer;
    mod pages;
    mod print;
    mod thrift;
    mod values;

    use footer::Footer;
    use pages::Stop;

    const ROWS: usize = 20;

    pub(super) fn preview(file: &[u8]) -> Option<()> {
        let (head, _magic) = file.split_last_chunk::<4>()?;
        let (head, len) = head.split_last_chunk::<4>()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (data, footer) = head.split_at_checked(head.len().checked_sub(len)?)?;
        let footer = Footer::parse(footer)?;
        let _facts = (footer.rows, footer.groups, footer.writer.len());
        let rows = usize::try_from(footer.group_rows).unwrap_or(usize::MAX).min(ROWS);
        for column in &footer.columns {
            assert!(!print::kind(column).is_empty());
            let Some(chunk) = column.chunk else { continue };
            let start = usize::try_from(chunk.start).ok()?;
            let Some(bytes) =
                start.checked_add(usize::try_from(chunk.bytes).ok()?).and_then(|end| data.get(start..end))
            else {
                continue;
            };
            let whole = pages::head(column, chunk, rows, bytes);
            if let Ok(cells) = &whole {
                assert!(cells.len() == rows && cells.iter().all(|cell| cell.len() < 700));
            }
            match pages::head(column, chunk, rows, &bytes[..bytes.len() / 2]) {
                Err(Stop::More(more)) => assert!(more > bytes.len() as u64 / 2),
                half => assert_eq!(half, whole),
            }
        }
        Some(())
    }
}

fuzz_target!(|file: &[u8]| {
    parquet::preview(file);
});

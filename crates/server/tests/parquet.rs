//! The readers of Parquet that pages use, without a server around them: files of pyarrow, damage, lies, memory.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use testkit::alloc::{CountingAllocator, measure};
use testkit::damage;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[allow(dead_code, reason = "what only pages show is not looked at here")]
#[path = "../src/web/preview/parquet"]
mod parquet {
    mod codec;
    mod footer;
    mod pages;
    mod print;
    mod thrift;
    mod values;

    use footer::{Chunk, Column, Footer, Meaning, Physical};
    use pages::Stop;

    /// A column's path and type, and its first values or why there are none.
    pub(super) type PreviewedColumn = (String, String, Result<Vec<String>, String>);

    /// What a page shows of a file, which is all in memory.
    pub(super) fn show(file: &[u8]) -> Option<Vec<PreviewedColumn>> {
        let (head, magic) = file.split_last_chunk::<4>()?;
        let (head, len) = head.split_last_chunk::<4>()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (data, footer) = head.split_at_checked(head.len().checked_sub(len)?)?;
        let footer = Footer::parse(footer).filter(|_| magic == b"PAR1")?;
        let rows = usize::try_from(footer.group_rows).unwrap_or(usize::MAX).min(20);
        let shown = |column: &Column| {
            let values = column.chunk.ok_or("no place".to_owned()).and_then(|chunk| {
                let place = chunk.start as usize..chunk.start.checked_add(chunk.bytes).unwrap_or(0) as usize;
                let prefix = data.get(place).ok_or("outside".to_owned())?;
                pages::head(column, chunk, rows, prefix).map_err(|stop| match stop {
                    Stop::More(bytes) => format!("{bytes} bytes"),
                    Stop::Why(why) => why,
                })
            });
            (column.path.clone(), print::kind(column), values)
        };
        Some(footer.columns.iter().map(shown).collect())
    }

    /// A prefix of a column shows what the whole shows, or requests more than it is.
    pub(super) fn expect_prefixes_to_request_more(file: &[u8]) {
        let len = u32::from_le_bytes(*file[..file.len() - 4].last_chunk().unwrap()) as usize;
        let footer = Footer::parse(&file[file.len() - 8 - len..file.len() - 8]).unwrap();
        for column in footer.columns.iter().filter(|column| !column.is_repeated) {
            let chunk = column.chunk.unwrap();
            let bytes = &file[chunk.start as usize..(chunk.start + chunk.bytes) as usize];
            let whole = pages::head(column, chunk, 20, bytes);
            for len in 0..bytes.len() {
                match pages::head(column, chunk, 20, &bytes[..len]) {
                    Err(Stop::More(more)) => assert!(more > len as u64, "{}: {more} at {len}", column.path),
                    // The rest is pages of rows that are not shown.
                    found => assert_eq!(found, whole, "{}: {len}", column.path),
                }
            }
        }
    }

    pub(super) fn is_footer(bytes: &[u8]) -> bool {
        Footer::parse(bytes).is_some()
    }

    /// A column of integers that may be missing, uncompressed or not, from these bytes.
    pub(super) fn of_pages(codec: i64, bytes: &[u8]) -> Result<Vec<String>, String> {
        let chunk = Chunk { start: 4, bytes: bytes.len() as u64, codec };
        let column = Column {
            path: String::new(),
            physical: Physical::Int32,
            meaning: Meaning::Plain,
            fixed_bytes: 0,
            repetition: 1,
            definition_max: 1,
            is_repeated: false,
            chunk: Some(chunk),
        };
        pages::head(&column, chunk, 20, bytes).map_err(|stop| format!("{stop:?}"))
    }
}

fn golden(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/parquet/");
    std::fs::read(format!("{path}{name}.parquet")).unwrap()
}

/// With every fifth missing, as in the files.
fn holes(text: impl Fn(i64) -> String) -> impl Fn(i64) -> String {
    move |n| if n % 5 == 3 { "null".to_owned() } else { text(n) }
}

#[test]
fn files_of_pyarrow_show_their_first_rows() {
    type Rule = Box<dyn Fn(i64) -> String>;
    let rules: Vec<(&str, &str, Rule)> = vec![
        ("flag", "boolean", Box::new(holes(|n| (n % 3 == 0).to_string()))),
        ("i32", "int32", Box::new(|n| (n - 3).to_string())),
        ("i64", "int64", Box::new(holes(|n| ((n - 3) * 1_000_000_000_000).to_string()))),
        ("u8", "uint8", Box::new(|n| (n + 230).to_string())),
        ("u64", "uint64", Box::new(|n| (u64::MAX - n.cast_unsigned()).to_string())),
        ("f32", "float", Box::new(|n| format!("{:?}", n as f32 / 4.0))),
        ("f64", "double", Box::new(holes(|n| format!("{:?}", n as f64 * 1e300)))),
        ("text", "text", Box::new(holes(|n| format!("stone é {}", n % 4)))),
        (
            "bytes",
            "bytes",
            Box::new(|n| format!("0x{}{n:02x}… (27 bytes)", format!("{n:02x}ff00").repeat(5))),
        ),
        ("uuid", "fixed bytes", Box::new(|n| format!("0x{n:032x} (16 bytes)"))),
        (
            "date",
            "date",
            Box::new(|n| match n {
                0 => "1969-12-30".to_owned(),
                1 => "1969-12-31".to_owned(),
                n => format!("1970-01-{:02}", n - 1),
            }),
        ),
        (
            "time",
            "time (µs)",
            Box::new(|n| match n {
                0 => "00:00:00".to_owned(),
                n => format!("00:00:{n:02}.{n:06}").trim_end_matches('0').to_owned(),
            }),
        ),
        (
            "local",
            "timestamp (µs)",
            Box::new(|n| match n {
                0 => "2024-02-29 23:59:58.123456".to_owned(),
                n => format!("2024-03-01 {:02}:59:58.123456", n - 1),
            }),
        ),
        (
            "utc",
            "timestamp (ms, UTC)",
            Box::new(|n| match n {
                0 => "1969-12-31 23:59:59.999Z".to_owned(),
                n => format!("1970-01-01 00:00:{:02}.999Z", n - 1),
            }),
        ),
        (
            "nanos",
            "timestamp (ns)",
            Box::new(|n| match n {
                0 => "1970-01-01 00:00:00".to_owned(),
                n => format!("1969-12-31 23:59:59.{}", 1_000_000_000 - n).trim_end_matches('0').to_owned(),
            }),
        ),
        (
            "dec",
            "decimal",
            Box::new(holes(|n| format!("{}0.{:02}", if n < 5 { "-" } else { "" }, (n - 5).abs()))),
        ),
        (
            "folder.inner",
            "int64",
            Box::new(|n| match n {
                1 | 2 => "null".to_owned(),
                n => n.to_string(),
            }),
        ),
    ];
    for name in ["v1_none", "v1_snappy", "v1_gzip", "v1_zstd", "v1_lz4", "v2_zstd"] {
        let shown = parquet::show(&golden(name)).unwrap();
        for ((column, kind, rule), found) in rules.iter().zip(&shown) {
            let length: Vec<_> = (0..20).map(rule).collect();
            assert_eq!((column, kind), (&found.0.as_str(), &found.1.as_str()), "{name}");
            assert_eq!(found.2, Ok(length), "{name}: {column}");
        }
        assert_eq!(shown[17].2, Err("a list".to_owned()));
        assert_eq!(shown[18].2, Ok(vec!["null".to_owned(); 20]));
    }
}

#[test]
fn short_pages_are_put_together_and_empty_groups_passed_over() {
    let short = parquet::show(&golden("plain")).unwrap();
    assert_eq!(short[0].2, Ok((-3..17).map(|n| n.to_string()).collect()));
    assert_eq!(short[1].2.as_ref().unwrap()[2..5], ["stone é 2", "null", "stone é 0"]);
    assert_eq!(short[2].2.as_ref().unwrap()[6..9], ["true", "false", "null"]);
    let groups = parquet::show(&golden("groups")).unwrap();
    assert_eq!(groups[0].2, Ok(vec!["2".to_owned(), "3".to_owned()]));
}

#[test]
fn what_is_not_known_is_named_by_a_word() {
    let others = parquet::show(&golden("others")).unwrap();
    assert_eq!(others[0].2, Err("encoding DELTA_BINARY_PACKED".to_owned()));
    assert_eq!(others[1].2, Err("encoding BYTE_STREAM_SPLIT".to_owned()));
    assert_eq!(others[2].1, "timestamp (int96)");
    assert_eq!(others[2].2.as_ref().unwrap()[..2], ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999999999"]);
    let brotli = parquet::show(&golden("brotli")).unwrap();
    assert_eq!(brotli[0].2, Err("compressed by Brotli".to_owned()));
}

#[test]
fn a_prefix_of_a_column_requests_what_it_needs() {
    for name in ["v1_snappy", "v2_zstd", "plain"] {
        parquet::expect_prefixes_to_request_more(&golden(name));
    }
}

/// A file that is damaged shows other values or says so, in little memory.
#[test]
fn damage_neither_panics_nor_takes_memory() {
    // Small files everywhere; of large ones the pages of the first columns, in every compression.
    let large = ["v1_none", "v1_snappy", "v1_gzip", "v1_zstd", "v1_lz4", "v2_zstd"].map(|name| (name, 450));
    for (name, damaged) in [("plain", usize::MAX), ("others", usize::MAX)].into_iter().chain(large) {
        let file = golden(name);
        let flips = damage::flips_in(&file, 0..damaged.min(file.len()));
        let cases = damage::truncations(&file).chain(flips).chain(damage::extensions(&file));
        for (what, case) in cases {
            let (shown, peak) = measure(|| parquet::show(&case));
            // A page and a dictionary at their limit, and what the decoders hold.
            assert!(peak.bytes < 14_000_000, "{name}, {what}: {peak:?}");
            for values in shown.into_iter().flatten().filter_map(|(_, _, values)| values.ok()) {
                assert!(values.len() <= 20 && values.iter().all(|value| value.len() < 700), "{name}, {what}");
            }
        }
    }
}

#[test]
fn footers_that_lie_are_refused() {
    let file = golden("v1_none");
    let len = u32::from_le_bytes(*file[..file.len() - 4].last_chunk().unwrap()) as usize;
    let footer = &file[file.len() - 8 - len..file.len() - 8];
    assert!(parquet::is_footer(footer));
    for len in 0..footer.len() {
        assert!(!parquet::is_footer(&footer[..len]), "{len}");
    }
    // Two thousand million elements in a few bytes; a structure in a structure without end.
    assert!(!parquet::is_footer(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 7]));
    assert!(!parquet::is_footer(&[0x7c].repeat(10_000)));
    // Four million empty elements, of which few are stored.
    let mut many = vec![0x29, 0xfc, 0x80, 0x89, 0x7a];
    many.resize(2_000_000 + many.len() + 1, 0);
    let (is_footer, peak) = measure(|| parquet::is_footer(&many));
    assert!(is_footer && peak.bytes < 2_000_000, "{peak:?}");
}

/// A page header of the first version: kind, sizes, then values in the plain encoding with levels in runs.
fn page(kind: i64, raw: i64, stored: i64, values: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let field = |bytes: &mut Vec<u8>, head: u8, value: i64| {
        bytes.push(head);
        let mut left = (value << 1 ^ value >> 63).cast_unsigned();
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
    };
    field(&mut bytes, 0x15, kind);
    field(&mut bytes, 0x15, raw);
    field(&mut bytes, 0x15, stored);
    bytes.push(0x2c);
    field(&mut bytes, 0x15, values);
    field(&mut bytes, 0x15, 0);
    field(&mut bytes, 0x15, 3);
    bytes.extend([0, 0]);
    bytes
}

#[test]
fn pages_that_lie_are_reported_and_cost_little() {
    // A run of thirty ones, then integers: of two only.
    let body = [2, 0, 0, 0, 60, 1, 7, 0, 0, 0, 8, 0, 0, 0];
    let shown =
        |header: Vec<u8>, codec| measure(|| parquet::of_pages(codec, &[header.as_slice(), &body].concat()));
    for (what, header, codec, why) in [
        ("fewer values than promised", page(0, 14, 14, 30), 0, "damaged"),
        ("more than there can be", page(0, 14, 14, i64::from(i32::MAX)), 0, "damaged"),
        ("none", page(0, 14, 14, 0), 0, "fewer values than rows"),
        ("less than none", page(0, 14, 14, -5), 0, "fewer values than rows"),
        ("longer than its bytes", page(0, 14, 15, 30), 0, "damaged"),
        ("shorter than nothing", page(0, 14, -1, 30), 0, "damaged"),
        ("large when decompressed", page(0, 1 << 31, 14, 30), 1, "a large page"),
        ("less when decompressed", page(0, 4_000_000, 14, 30), 6, "damaged"),
        ("a dictionary alone", page(2, 14, 14, 30), 0, "fewer values than rows"),
        ("no kind of page", page(77, 14, 14, 30), 0, "fewer values than rows"),
        ("no codec", page(0, 14, 14, 30), 99, "compressed by codec 99"),
    ] {
        let (found, peak) = shown(header, codec);
        assert!(found.as_ref().is_err_and(|found| found.contains(why)), "{what}: {found:?}");
        assert!(peak.bytes < 6_000_000, "{what}: {peak:?}");
    }
    // Pages without values, without end.
    let empty = page(0, 0, 0, 0).repeat(100_000);
    assert!(parquet::of_pages(0, &empty).is_err());
    // A run far longer than the rows that are shown.
    let ones = [[6, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1].as_slice(), &[9, 0, 0, 0].repeat(20)].concat();
    let long = [page(0, 90, 90, 1 << 30), ones].concat();
    assert_eq!(parquet::of_pages(0, &long), Ok(vec!["9".to_owned(); 20]));
}

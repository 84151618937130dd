use proptest::prelude::*;

use super::*;

fn boundary() -> Boundary {
    Boundary::new("3d6b6a416f9b5").unwrap()
}

fn range(first: u64, last: u64) -> HttpRange {
    HttpRange::new(first, last).unwrap()
}

fn write(boundary: Boundary, whole: &[u8], ranges: &[HttpRange]) -> Vec<u8> {
    let mut writer = Writer::new(boundary, whole.len() as u64);
    let promised = writer.body_bytes(ranges).unwrap();
    let mut body = Vec::new();
    for range in ranges {
        body.extend(writer.part(*range).bytes());
        body.extend(&whole[range.first() as usize..=range.last() as usize]);
    }
    body.extend(writer.finish().bytes());
    assert_eq!(body.len() as u64, promised);
    body
}

/// Typed from RFC 9110, with the lengths made true.
#[test]
fn an_answer_by_the_book_is_read() {
    let body = b"--SEP\r\nContent-Type: application/pdf\r\nContent-Range: bytes 500-502/8000\r\n\r\nabc\r\n--SEP\r\n\
        Content-Type: application/pdf\r\ncontent-range:bytes 7000-7001/8000\r\n\r\nde\r\n--SEP--\r\n";
    let parts = parse(body, &Boundary::new("SEP").unwrap(), 2).unwrap();
    assert_eq!(
        parts,
        [
            Part { range: range(500, 502), total_bytes: Some(8000), bytes: b"abc" },
            Part { range: range(7000, 7001), total_bytes: Some(8000), bytes: b"de" },
        ]
    );
}

#[test]
fn preamble_padding_bare_newlines_and_epilogue_are_tolerated() {
    let body = b"\r\nhello\r\n--SEP \t\nContent-Range: bytes 0-0/*\n\nx\r\n--SEP--\r\nbye";
    let parts = parse(body, &Boundary::new("SEP").unwrap(), 1).unwrap();
    assert_eq!(parts, [Part { range: range(0, 0), total_bytes: None, bytes: b"x" }]);
}

#[test]
fn a_boundary_inside_the_data_is_data() {
    let whole = b"..\r\n--3d6b6a416f9b5--\r\n..";
    let ranges = [range(0, whole.len() as u64 - 1)];
    let body = write(boundary(), whole, &ranges);
    assert_eq!(parse(&body, &boundary(), 1).unwrap()[0].bytes, whole);
}

#[test]
fn boundaries_are_found_quoted_or_not() {
    let found = |header: &str| Boundary::of_content_type(header).map(|b| b.0);
    assert_eq!(found("multipart/byteranges; boundary=SEP").as_deref(), Some("SEP"));
    assert_eq!(found("Multipart/ByteRanges;Boundary=\"a b:c\"").as_deref(), Some("a b:c"));
    assert_eq!(found("multipart/byteranges; x=\"1;2\"; boundary=SEP ; y=2").as_deref(), Some("SEP"));
    assert_eq!(found(&boundary().content_type()), Some(boundary().0));
    let long = format!("multipart/byteranges; boundary={}", "a".repeat(71));
    for bad in [
        "",
        "application/octet-stream",
        "multipart/byteranges",
        "multipart/byteranges; boundary=",
        "multipart/byteranges; boundary=\"open",
        "multipart/byteranges; bound=SEP",
        "multipart/mixed; boundary=SEP",
        "multipart/byteranges; boundary=\"a\\\"b\"",
        &long,
    ] {
        assert_eq!(found(bad), None, "{bad:?}");
    }
}

#[test]
fn every_truncation_is_an_error() {
    let whole: Vec<u8> = (0..50).collect();
    let body = write(boundary(), &whole, &[range(0, 9), range(20, 20), range(30, 49)]);
    assert_eq!(parse(&body, &boundary(), 3).unwrap().len(), 3);
    // The last line end is epilogue; the closing dashes are not.
    for len in 0..body.len() - 2 {
        assert!(parse(&body[..len], &boundary(), 3).is_err(), "{len}");
    }
}

#[test]
fn lies_are_refused() {
    let boundary = Boundary::new("SEP").unwrap();
    let refused = |body: &str| parse(body.as_bytes(), &boundary, 1).unwrap_err();
    let too_many = "--SEP\r\nContent-Range: bytes 0-0/9\r\n\r\nx\r\n--SEP\r\nContent-Range: bytes 1-1/9\r\n\r\ny\r\n--SEP--";
    assert!(matches!(refused(too_many), FormatError::Range { what: "number of parts", .. }));
    let huge = "--SEP\r\nContent-Range: bytes 0-18446744073709551615/*\r\n\r\nx\r\n--SEP--";
    assert!(matches!(refused(huge), FormatError::Truncated { what: "part", .. }));
    let short = "--SEP\r\nContent-Range: bytes 0-0/9\r\n\r\nxyz\r\n--SEP--";
    assert!(matches!(refused(short), FormatError::Text { .. }));
    assert!(matches!(refused("--SEP\r\nContent-Type: a/b\r\n\r\nx\r\n--SEP--"), FormatError::Text { .. }));
    assert!(matches!(refused("--SEPARATE\r\nContent-Range: bytes 0-0/9\r\n\r\nx"), FormatError::Text { .. }));
    let endless = format!("--SEP\r\nA: {}", "a".repeat(2 * limits::PART_HEADER_BYTES_MAX));
    assert!(matches!(refused(&endless), FormatError::Range { what: "bytes before a part", .. }));
    let many_lines = format!("--SEP\r\n{}", "A: b\r\n".repeat(limits::PART_HEADER_BYTES_MAX));
    assert!(matches!(refused(&many_lines), FormatError::Range { .. }));
    let preamble = "a\r\n".repeat(limits::PART_HEADER_BYTES_MAX);
    assert!(matches!(refused(&preamble), FormatError::Range { .. }));
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        whole in prop::collection::vec(any::<u8>(), 1..400),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
    ) {
        let ranges: Vec<_> = picks.iter().map(|(a, b)| {
            let (a, b) = (a.index(whole.len()) as u64, b.index(whole.len()) as u64);
            range(a.min(b), a.max(b))
        }).collect();
        let body = write(boundary(), &whole, &ranges);
        let parts = parse(&body, &boundary(), 8).unwrap();
        prop_assert_eq!(parts.len(), ranges.len());
        for (part, range) in parts.iter().zip(&ranges) {
            prop_assert_eq!(part.range, *range);
            prop_assert_eq!(part.total_bytes, Some(whole.len() as u64));
            prop_assert_eq!(part.bytes, &whole[range.first() as usize..=range.last() as usize]);
        }
    }

    #[test]
    fn no_body_panics(text in "(-|SEP|\r\n|\n|Content-Range:|bytes 0-1/2|[0-9]|:| ){0,30}") {
        let _ = parse(text.as_bytes(), &Boundary::new("SEP").unwrap(), 4);
        let _ = Boundary::of_content_type(&text);
    }
}

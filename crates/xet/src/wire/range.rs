//! Byte ranges as HTTP writes them: inclusive, where everything else here is half-open.
//!
//! The last byte may be any 64-bit number: clients that do not know a file's size ask up to 2^64 - 2. So the number
//! after the last byte need not fit, and is only ever taken saturating. That loses nothing: no file has that byte.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::FormatError;

/// An inclusive range of bytes; never empty. In JSON an object with `start` and `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Span", into = "Span")]
pub struct HttpRange {
    first: u64,
    last: u64,
}

impl HttpRange {
    /// From the first byte to the last, both included; `None` when they are in the wrong order.
    pub const fn new(first: u64, last: u64) -> Option<Self> {
        if first <= last { Some(Self { first, last }) } else { None }
    }

    /// The same bytes as a half-open range; `None` for an empty one, which HTTP cannot say.
    pub fn from_half_open(range: &Range<u64>) -> Option<Self> {
        Self::new(range.start, range.end.checked_sub(1)?)
    }

    /// The first byte.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The last byte, included.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// How many bytes; one too few for the range of all 2^64.
    pub const fn len_bytes(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// The same bytes, half-open. A last byte of 2^64 - 1 is left out: its successor does not fit.
    pub const fn half_open(&self) -> Range<u64> {
        self.first..self.last.saturating_add(1)
    }

    /// The bytes of something `size` bytes long, half-open; `None` when the range begins past its end.
    pub fn clip_to(&self, size: u64) -> Option<Range<u64>> {
        (self.first < size).then(|| self.first..self.half_open().end.min(size))
    }
}

impl fmt::Display for HttpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// The JSON form of [`HttpRange`], before it is known to be in order.
#[derive(serde::Serialize, serde::Deserialize)]
struct Span {
    start: u64,
    end: u64,
}

impl TryFrom<Span> for HttpRange {
    type Error = FormatError;

    fn try_from(span: Span) -> Result<Self, FormatError> {
        Self::new(span.start, span.end).ok_or(FormatError::Range {
            at: 0,
            what: "end of a byte range",
            min: span.start,
            max: u64::MAX,
            found: span.end,
        })
    }
}

impl From<HttpRange> for Span {
    fn from(range: HttpRange) -> Self {
        Self { start: range.first, end: range.last }
    }
}

/// One range of a request, which need not know the size of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeSpec {
    /// `a-b`
    Bounded(HttpRange),
    /// `a-`: from this byte to the end.
    From(u64),
    /// `-n`: this many bytes at the end.
    Last(u64),
}

impl RangeSpec {
    /// The bytes of something `size` bytes long, half-open; `None` when the range covers none of them, which is 416.
    pub fn resolve(&self, size: u64) -> Option<Range<u64>> {
        match *self {
            Self::Bounded(range) => range.clip_to(size),
            Self::From(first) => (first < size).then_some(first..size),
            Self::Last(bytes) => (bytes > 0 && size > 0).then(|| size.saturating_sub(bytes)..size),
        }
    }

    /// The bytes as a half-open range without knowing the size, open ends as `u64::MAX`; `None` for a suffix.
    pub fn half_open(&self) -> Option<Range<u64>> {
        match *self {
            Self::Bounded(range) => Some(range.half_open()),
            Self::From(first) => Some(first..u64::MAX),
            Self::Last(_) => None,
        }
    }
}

impl fmt::Display for RangeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounded(range) => range.fmt(f),
            Self::From(first) => write!(f, "{first}-"),
            Self::Last(bytes) => write!(f, "-{bytes}"),
        }
    }
}

/// Parses a `Range` header: `bytes=a-b`, `a-`, `-n`, or a list of them, at most `ranges_max`.
pub fn parse_ranges(header: &str, ranges_max: usize) -> Result<Vec<RangeSpec>, FormatError> {
    let refuse = |at| text(at, "bytes=a-b, bytes=a- or bytes=-n", header);
    let (unit, list) = header.split_once('=').ok_or_else(|| refuse(0))?;
    if !unit.trim_matches(OWS).eq_ignore_ascii_case("bytes") {
        return Err(refuse(0));
    }
    let mut ranges = Vec::new();
    let mut at = unit.len() as u64 + 1;
    for element in list.split(',') {
        let spec = element.trim_matches(OWS);
        // HTTP lists may have empty elements, and recipients skip them.
        if !spec.is_empty() {
            if ranges.len() >= ranges_max {
                let max = ranges_max as u64;
                return Err(FormatError::Range { at, what: "number of ranges", min: 1, max, found: max + 1 });
            }
            ranges.push(parse_spec(spec).ok_or_else(|| refuse(at))?);
        }
        at += element.len() as u64 + 1;
    }
    if ranges.is_empty() { Err(refuse(0)) } else { Ok(ranges) }
}

/// Parses a header that may only hold ranges with both ends: `X-Range-Dirty`, and the ranges of a signed URL.
pub fn parse_bounded_ranges(header: &str, ranges_max: usize) -> Result<Vec<HttpRange>, FormatError> {
    let bounded = |spec| match spec {
        RangeSpec::Bounded(range) => Ok(range),
        RangeSpec::From(_) | RangeSpec::Last(_) => Err(text(0, "bytes=a-b", header)),
    };
    parse_ranges(header, ranges_max)?.into_iter().map(bounded).collect()
}

/// The value of a `Range` or `X-Range-Dirty` header: `bytes=a-b,c-d`.
pub fn header_value(ranges: &[HttpRange]) -> String {
    let list: Vec<String> = ranges.iter().map(HttpRange::to_string).collect();
    format!("bytes={}", list.join(","))
}

fn parse_spec(spec: &str) -> Option<RangeSpec> {
    match spec.split_once('-')? {
        ("", bytes) => number(bytes).map(RangeSpec::Last),
        (first, "") => number(first).map(RangeSpec::From),
        (first, last) => HttpRange::new(number(first)?, number(last)?).map(RangeSpec::Bounded),
    }
}

/// Which part of what an answer holds: the `Content-Range` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes a-b/total`; a total of `None` is `*`.
    Part {
        /// The bytes that follow.
        range: HttpRange,
        /// The size of the whole.
        total_bytes: Option<u64>,
    },
    /// `bytes */total`: no such bytes, the header of a 416.
    Unsatisfied {
        /// The size of the whole.
        total_bytes: u64,
    },
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { range, total_bytes: Some(total) } => write!(f, "bytes {range}/{total}"),
            Self::Part { range, total_bytes: None } => write!(f, "bytes {range}/*"),
            Self::Unsatisfied { total_bytes } => write!(f, "bytes */{total_bytes}"),
        }
    }
}

impl FromStr for ContentRange {
    type Err = FormatError;

    fn from_str(header: &str) -> Result<Self, FormatError> {
        parse_content_range(header).ok_or_else(|| text(0, "bytes a-b/total", header))
    }
}

fn parse_content_range(header: &str) -> Option<ContentRange> {
    let (unit, rest) = header.trim_matches(OWS).split_once(' ')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (range, total) = rest.trim_matches(OWS).split_once('/')?;
    if range == "*" {
        return Some(ContentRange::Unsatisfied { total_bytes: number(total)? });
    }
    let (first, last) = range.split_once('-')?;
    let range = HttpRange::new(number(first)?, number(last)?)?;
    let total_bytes = if total == "*" { None } else { Some(number(total)?) };
    match total_bytes {
        Some(total) if total <= range.last => None,
        _ => Some(ContentRange::Part { range, total_bytes }),
    }
}

/// Digits only: the standard parser would also take a sign.
fn number(digits: &str) -> Option<u64> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn text(at: u64, expected: &'static str, found: &str) -> FormatError {
    FormatError::Text { at, expected, found: found.chars().take(80).collect() }
}

/// Optional white space, as HTTP has it.
const OWS: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits;

    fn parse(header: &str) -> Result<Vec<RangeSpec>, FormatError> {
        parse_ranges(header, 4)
    }

    fn range(first: u64, last: u64) -> HttpRange {
        HttpRange::new(first, last).unwrap()
    }

    #[test]
    fn the_three_forms_and_lists_of_them_are_read() {
        assert_eq!(parse("bytes=0-255999999").unwrap(), [RangeSpec::Bounded(range(0, 255_999_999))]);
        assert_eq!(parse("bytes=5-").unwrap(), [RangeSpec::From(5)]);
        assert_eq!(parse("Bytes=-7").unwrap(), [RangeSpec::Last(7)]);
        let list = [RangeSpec::Bounded(range(1, 1)), RangeSpec::From(9), RangeSpec::Last(0)];
        assert_eq!(parse(" bytes=1-1 ,, 9-,\t-0").unwrap(), list);
    }

    #[test]
    fn the_last_numbers_do_not_wrap() {
        for (text, end) in [("18446744073709551614", u64::MAX), ("18446744073709551615", u64::MAX)] {
            let ranges = parse(&format!("bytes=10-{text}")).unwrap();
            assert_eq!(ranges[0].half_open(), Some(10..end));
            assert_eq!(ranges[0].resolve(100), Some(10..100));
            assert_eq!(ranges[0].resolve(10), None);
            assert_eq!(ranges[0].to_string(), format!("10-{text}"));
            assert_eq!(parse(&format!("bytes=-{text}")).unwrap()[0].resolve(100), Some(0..100));
            assert_eq!(parse(&format!("bytes={text}-")).unwrap()[0].resolve(100), None);
        }
        assert_eq!(range(0, u64::MAX).len_bytes(), u64::MAX);
        assert!(parse("bytes=0-18446744073709551616").is_err());
    }

    #[test]
    fn what_is_no_range_is_refused() {
        let bad = [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-3",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1-+2",
            "bytes=1--2",
            "chunks=0-1",
            "bytes=,,",
            "bytes=0-1;2-3",
            "bytes 0-1",
            "bytes=0x1-2",
            "bytes=é-1",
            "bytes=1 - 2",
        ];
        for header in bad {
            assert!(matches!(parse(header), Err(FormatError::Text { .. })), "{header:?}");
        }
    }

    #[test]
    fn a_list_over_the_limit_is_refused() {
        assert_eq!(parse("bytes=0-0,1-1,2-2,3-3").unwrap().len(), 4);
        let refused = parse("bytes=0-0,1-1,2-2,3-3,4-4");
        assert_eq!(
            refused,
            Err(FormatError::Range { at: 22, what: "number of ranges", min: 1, max: 4, found: 5 })
        );
    }

    #[test]
    fn dirty_ranges_have_both_ends() {
        let ranges = [range(0, 9), range(20, 29)];
        assert_eq!(header_value(&ranges), "bytes=0-9,20-29");
        assert_eq!(parse_bounded_ranges("bytes=0-9,20-29", 8).unwrap(), ranges);
        assert!(parse_bounded_ranges("bytes=0-9,20-", 8).is_err());
        assert!(parse_bounded_ranges("bytes=-5", 8).is_err());
    }

    #[test]
    fn a_suffix_is_counted_from_the_end() {
        assert_eq!(RangeSpec::Last(3).resolve(10), Some(7..10));
        assert_eq!(RangeSpec::Last(30).resolve(10), Some(0..10));
        assert_eq!(RangeSpec::Last(0).resolve(10), None);
        assert_eq!(RangeSpec::Last(3).resolve(0), None);
        assert_eq!(RangeSpec::Last(3).half_open(), None);
    }

    #[test]
    fn content_ranges_are_read_and_written() {
        for text in ["bytes 0-9/10", "bytes 5-5/*", "bytes */10", "bytes 0-18446744073709551614/*"] {
            assert_eq!(text.parse::<ContentRange>().unwrap().to_string(), text);
        }
        for bad in
            ["", "bytes", "bytes 0-9", "bytes 0-9/9", "bytes 9-0/10", "bytes */*", "bytes=0-9/10", "b 0-1/2"]
        {
            assert!(bad.parse::<ContentRange>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn in_json_a_range_has_a_start_and_an_end_in_order() {
        let json = r#"{"start":0,"end":131071}"#;
        let read: HttpRange = serde_json::from_str(json).unwrap();
        assert_eq!(read.half_open(), 0..131_072);
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        assert!(serde_json::from_str::<HttpRange>(r#"{"start":1,"end":0}"#).is_err());
        assert!(serde_json::from_str::<HttpRange>(r#"{"start":1,"end":1,"new":[]}"#).is_ok());
    }

    proptest! {
        #[test]
        fn printed_ranges_read_back(ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 1..9)) {
            let ranges: Vec<_> = ranges.iter().map(|(a, b)| range(*a.min(b), *a.max(b))).collect();
            prop_assert_eq!(parse_bounded_ranges(&header_value(&ranges), 9).unwrap(), ranges.clone());
            for range in ranges {
                let content = ContentRange::Part { range, total_bytes: range.last().checked_add(1) };
                prop_assert_eq!(content.to_string().parse::<ContentRange>().unwrap(), content);
                if range.last() < u64::MAX {
                    prop_assert_eq!(HttpRange::from_half_open(&range.half_open()), Some(range));
                }
            }
        }

        #[test]
        fn no_text_panics(header in "(bytes=)?[-0-9, a]{0,40}") {
            let _ = parse_ranges(&header, limits::HEADER_RANGES_MAX);
            let _ = header.parse::<ContentRange>();
        }
    }
}

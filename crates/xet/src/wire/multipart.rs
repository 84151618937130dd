//! `multipart/byteranges`: several byte ranges of one object in one response.
//!
//! Each part says in `Content-Range` which bytes it holds, so the reader takes exactly that many and never looks
//! for the boundary inside data, where it may occur by chance or by malice.

use std::fmt::Write as _;

use crate::cursor::Reader;
use crate::error::{FormatError, expect_range};
use crate::limits;
use crate::wire::range::{ContentRange, HttpRange};

/// The media type, without its boundary.
pub(crate) const MEDIA_TYPE: &str = "multipart/byteranges";

/// Separator of parts: 1 to 70 characters that need no escape in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary(String);

impl Boundary {
    /// Takes a boundary; `None` when RFC 2046 would not allow it.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&b);
        let fits = (1..=70).contains(&text.len()) && text.bytes().all(allowed) && !text.ends_with(' ');
        fits.then(|| Self(text.to_owned()))
    }

    /// The boundary in a `Content-Type` header, quoted or not; `None` when that is not `multipart/byteranges` with a
    /// sound boundary.
    pub fn of_content_type(header: &str) -> Option<Self> {
        let (media_type, mut rest) = header.split_once(';')?;
        if !media_type.trim().eq_ignore_ascii_case(MEDIA_TYPE) {
            return None;
        }
        loop {
            let (name, value) = rest.split_once('=')?;
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => value.find(';').map_or((value.trim_end(), ""), |at| value.split_at(at)),
            };
            if name.trim().eq_ignore_ascii_case("boundary") {
                return Self::new(value.trim_end());
            }
            rest = after.split_once(';')?.1;
        }
    }

    /// The `Content-Type` of an answer with this boundary.
    pub fn content_type(&self) -> String {
        format!("{MEDIA_TYPE}; boundary=\"{}\"", self.0)
    }
}

/// Writes what stands between the bytes of parts.
#[derive(Debug, Clone)]
pub struct Writer {
    boundary: Boundary,
    total_bytes: u64,
    begun: bool,
}

impl Writer {
    /// Writes parts of something `total_bytes` long.
    pub fn new(boundary: Boundary, total_bytes: u64) -> Self {
        Self { boundary, total_bytes, begun: false }
    }

    /// Returns the boundary and headers before the next part, whose bytes must be exactly those of `range`.
    pub fn part(&mut self, range: HttpRange) -> String {
        let mut head =
            if std::mem::replace(&mut self.begun, true) { String::from("\r\n") } else { String::new() };
        let content_range = ContentRange::Part { range, total_bytes: Some(self.total_bytes) };
        write!(
            head,
            "--{}\r\nContent-Type: application/octet-stream\r\nContent-Range: {content_range}\r\n\r\n",
            self.boundary.0
        )
        .expect("a string takes every write");
        head
    }

    /// Returns the boundary after the last part.
    pub fn finish(self) -> String {
        format!("{}--{}--\r\n", if self.begun { "\r\n" } else { "" }, self.boundary.0)
    }

    /// The length of a whole answer with these parts; `None` when no number holds it.
    pub fn body_bytes(&self, ranges: &[HttpRange]) -> Option<u64> {
        let mut writer = self.clone();
        let mut sum = 0_u64;
        for range in ranges {
            sum = sum.checked_add(writer.part(*range).len() as u64)?.checked_add(range.len_bytes())?;
        }
        sum.checked_add(writer.finish().len() as u64)
    }
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// Which bytes these are.
    pub range: HttpRange,
    /// The size of the whole, where the response states it.
    pub total_bytes: Option<u64>,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Parses a whole answer into its parts, in the order they came. What follows the last boundary is ignored.
pub fn parse<'a>(
    body: &'a [u8],
    boundary: &Boundary,
    parts_max: usize,
) -> Result<Vec<Part<'a>>, FormatError> {
    let delimiter = format!("--{}", boundary.0);
    let mut r = Reader::new(body);
    skip_preamble(&mut r, &delimiter)?;

    let mut parts = Vec::new();
    loop {
        // Here the reader stands behind a delimiter: `--` closes the answer, anything else opens a part.
        if r.clone().take("closing boundary", 2).is_ok_and(|closing| closing == b"--") {
            return Ok(parts);
        }
        let max = parts_max as u64;
        expect_range(r.offset(), "number of parts", 0, max, parts.len() as u64 + 1)?;
        let (range, total_bytes) = parse_head(&mut r)?;
        let len = usize::try_from(range.len_bytes()).unwrap_or(usize::MAX);
        parts.push(Part { range, total_bytes, bytes: r.take("part", len)? });
        expect_delimiter(&mut r, &delimiter)?;
    }
}

/// Moves behind the first delimiter, which begins a line; what precedes it means nothing.
fn skip_preamble(r: &mut Reader<'_>, delimiter: &str) -> Result<(), FormatError> {
    let mut left = limits::PART_HEADER_BYTES_MAX;
    loop {
        if rest(r).starts_with(delimiter.as_bytes()) {
            r.take("boundary", delimiter.len())?;
            return Ok(());
        }
        line(r, &mut left)?;
    }
}

/// Reads the rest of a delimiter's line and the headers of a part, to the empty line.
fn parse_head(r: &mut Reader<'_>) -> Result<(HttpRange, Option<u64>), FormatError> {
    let at = r.offset();
    let mut left = limits::PART_HEADER_BYTES_MAX;
    let padding = line(r, &mut left)?;
    if !padding.trim_ascii().is_empty() {
        return Err(text(at, "the end of the boundary's line", padding));
    }
    let mut found = None;
    loop {
        let at = r.offset();
        let header = line(r, &mut left)?;
        if header.is_empty() {
            return found.ok_or_else(|| text(at, "a Content-Range header", header));
        }
        let refuse = || text(at, "a Content-Range of a part", header);
        let (name, value) = std::str::from_utf8(header)
            .ok()
            .and_then(|header| header.split_once(':'))
            .ok_or_else(|| text(at, "a header", header))?;
        if name.trim().eq_ignore_ascii_case("content-range") {
            match value.parse() {
                Ok(ContentRange::Part { range, total_bytes }) => found = Some((range, total_bytes)),
                Ok(ContentRange::Unsatisfied { .. }) | Err(_) => return Err(refuse()),
            }
        }
    }
}

fn expect_delimiter(r: &mut Reader<'_>, delimiter: &str) -> Result<(), FormatError> {
    let at = r.offset();
    let newline = r.take("line end after a part", 2)?;
    let found = r.take("boundary after a part", delimiter.len())?;
    if newline == b"\r\n" && found == delimiter.as_bytes() {
        return Ok(());
    }
    Err(text(at, "the boundary after a part", found))
}

/// The next line without its end. `left` is what lines may still take, so that no search is long.
fn line<'a>(r: &mut Reader<'a>, left: &mut usize) -> Result<&'a [u8], FormatError> {
    let at = r.offset();
    let window = rest(r);
    let window = window.get(..*left).unwrap_or(window);
    match window.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let taken = r.take("line", end + 1)?;
            *left -= taken.len();
            let taken = taken.strip_suffix(b"\n").unwrap_or(taken);
            Ok(taken.strip_suffix(b"\r").unwrap_or(taken))
        }
        None if window.len() == *left => Err(FormatError::Range {
            at,
            what: "bytes before a part",
            min: 0,
            max: limits::PART_HEADER_BYTES_MAX as u64,
            found: limits::PART_HEADER_BYTES_MAX as u64 + 1,
        }),
        None => {
            let left = r.left() as u64;
            Err(FormatError::Truncated { at, what: "line before a part", needed: left + 1, left })
        }
    }
}

/// The rest that the reader has not read.
fn rest<'a>(r: &Reader<'a>) -> &'a [u8] {
    r.clone().take("rest", r.left()).unwrap_or_default()
}

fn text(at: u64, expected: &'static str, found: &[u8]) -> FormatError {
    FormatError::Text { at, expected, found: String::from_utf8_lossy(found).chars().take(80).collect() }
}

#[cfg(test)]
mod tests;

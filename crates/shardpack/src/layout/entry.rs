//! Entry header: the 32 bytes before an entry's name, and the strings and padding before its data.
//!
//! # Entry header
//!
//! | offset | size | field                                                                 |
//! |-------:|-----:|-----------------------------------------------------------------------|
//! |      0 |    8 | `file_size`: bytes of the content after decoding                      |
//! |      8 |    8 | `stored_size`: bytes of the data in the pack                          |
//! |     16 |    4 | `data_crc`: over the stored bytes                                     |
//! |     20 |    4 | `header_crc`: over bytes 0-19 and 24-31, name and content type        |
//! |     24 |    2 | `name_len`: bytes of the name                                         |
//! |     26 |    2 | `content_type_len`: bytes of the content type, 0 with a code          |
//! |     28 |    1 | compression: 0 none, 1 gzip, 2 lz4 (frame), 3 zstd                    |
//! |     29 |    1 | content type code, 0 when the string follows                          |
//! |     30 |    2 | `data_pad`: zero bytes between the strings and the data               |
//!
//! Then name, content type, `data_pad` zero bytes, data, zero bytes to a multiple of 8. The data begins at a multiple of 8.
//!
//! # Content type codes
//!
//! | code | content type             |
//! |-----:|--------------------------|
//! |    1 | application/octet-stream |
//! |    2 | image/jpeg               |
//! |    3 | image/png                |
//! |    4 | application/json         |
//! |    5 | application/msgpack      |
//! |    6 | application/x-npy        |
//! |    7 | application/x-npz        |
//! |    8 | text/plain               |
//! |    9 | image/webp               |
//! |   10 | audio/wav                |
//! |   11 | audio/flac               |
//! |   12 | video/mp4                |

use std::borrow::Cow;
use std::num::NonZeroU8;

use crate::cursor::Reader;
use crate::error::{FormatError, expect_aligned, expect_crc, expect_number, expect_range, expect_text};
use crate::layout::crc_of_two;

/// Header of an entry, before its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryHeader<'a> {
    /// Bytes of the content after decoding.
    pub file_size: u64,
    /// Bytes of the data in the pack.
    pub stored_size: u64,
    /// CRC of the stored bytes.
    pub data_crc: u32,
    /// Compression of the data.
    pub compression: Compression,
    /// Content type.
    pub content_type: ContentType<'a>,
    /// Zero bytes between the strings and the data.
    pub data_pad: u16,
    /// Names the entry in its record.
    pub name: &'a str,
}

impl<'a> EntryHeader<'a> {
    /// Bytes of the fixed part.
    pub const LEN: usize = 32;

    /// Parses header, strings and padding at the reader's position, which then is that of the data.
    ///
    /// `stored_size` is not compared with the bytes left: taking the data does that.
    pub(crate) fn parse(r: &mut Reader<'a>) -> Result<Self, FormatError> {
        Self::parse_with(r, true)
    }

    /// `parse`, with the CRC compared only if `check_crc`. All else is checked either way.
    #[inline]
    pub fn parse_with(r: &mut Reader<'a>, check_crc: bool) -> Result<Self, FormatError> {
        const WHAT: &str = "entry header";
        let at = r.offset();
        let fixed: [u8; 32] = r.clone().array(WHAT)?;
        let before_crc: &[u8; 20] = fixed.first_chunk().expect("20 of 32 bytes");
        let mut fields = Reader::at(&fixed, at);
        let file_size = fields.u64(WHAT)?;
        let stored_size = fields.u64(WHAT)?;
        let data_crc = fields.u32(WHAT)?;
        let header_crc = fields.u32(WHAT)?;
        let name_len = fields.u16(WHAT)?;
        let content_type_len = fields.u16(WHAT)?;
        let compression = Compression::from(fields.u8(WHAT)?);
        let code = fields.u8(WHAT)?;
        let data_pad = fields.u16(WHAT)?;
        r.take(WHAT, 24)?;
        // From here to the end of the strings the CRC covers everything: one call does it.
        let mut covered = r.clone();
        r.take(WHAT, 8)?;
        let name_at = r.offset();
        let name = r.take("entry name", name_len.into())?;
        let type_at = r.offset();
        let text = r.take("content type", content_type_len.into())?;
        if check_crc {
            let covered = covered.take(WHAT, 8 + u64::from(name_len) + u64::from(content_type_len))?;
            expect_crc(at, WHAT, header_crc, crc_of_two(before_crc, covered))?;
        }

        let name = expect_text(name_at, "entry name", name)?;
        let content_type = match NonZeroU8::new(code) {
            Some(code) => {
                expect_number(at + 26, "content type length with a code", 0, content_type_len.into())?;
                ContentType::Code(code)
            }
            None => ContentType::Text(expect_text(type_at, "content type", text)?.into()),
        };
        if compression == Compression::None {
            expect_number(at + 8, "stored size without compression", file_size, stored_size)?;
        }
        r.skip_padding("padding before the data", data_pad.into())?;
        expect_aligned(at + 30, "data offset", r.offset())?;
        Ok(Self { file_size, stored_size, data_crc, compression, content_type, data_pad, name })
    }

    /// Appends header, strings and padding. Only a string of a length its field cannot hold is refused.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let at = out.len() as u64;
        let (code, text) = match &self.content_type {
            ContentType::Code(code) => (code.get(), ""),
            ContentType::Text(text) => (0, text.as_ref()),
        };
        expect_range(at + 24, "name length", 0, u16::MAX.into(), self.name.len() as u64)?;
        expect_range(at + 26, "content type length", 0, u16::MAX.into(), text.len() as u64)?;
        let name_len = u16::try_from(self.name.len()).expect("compared above");
        let content_type_len = u16::try_from(text.len()).expect("compared above");

        let start = out.len();
        out.extend_from_slice(&self.file_size.to_le_bytes());
        out.extend_from_slice(&self.stored_size.to_le_bytes());
        out.extend_from_slice(&self.data_crc.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&name_len.to_le_bytes());
        out.extend_from_slice(&content_type_len.to_le_bytes());
        out.extend_from_slice(&[self.compression.into(), code]);
        out.extend_from_slice(&self.data_pad.to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(text.as_bytes());
        let header = out.get_mut(start..).unwrap_or_default();
        let covered = header.first_chunk::<20>().zip(header.get(24..));
        let found = covered.map_or(0, |(before, after)| crc_of_two(before, after)).to_le_bytes();
        if let Some(place) = header.get_mut(20..24) {
            place.copy_from_slice(&found);
        }
        out.resize(out.len() + usize::from(self.data_pad), 0);
        Ok(())
    }
}

/// Compression of an entry's data: one frame, or several one after another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    #[default]
    None,
    /// Gzip members.
    Gzip,
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
    /// A code this version does not know: this entry cannot be decoded, all others can.
    Unknown(u8),
}

impl Compression {
    /// Name in texts and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl From<u8> for Compression {
    fn from(code: u8) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Lz4,
            3 => Self::Zstd,
            _ => Self::Unknown(code),
        }
    }
}

impl From<Compression> for u8 {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Lz4 => 2,
            Compression::Zstd => 3,
            Compression::Unknown(code) => code,
        }
    }
}

/// Content type of an entry: a code of the fixed list, or the string itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentType<'a> {
    /// A code; the list may have grown since.
    Code(NonZeroU8),
    /// The string, in the pack after the name.
    Text(Cow<'a, str>),
}

impl<'a> ContentType<'a> {
    /// The shortest way to write `text`: its code if it has one.
    pub fn new(text: &'a str) -> Self {
        let code = CONTENT_TYPES.iter().find(|(_, listed)| *listed == text).map(|(code, _)| *code);
        match code.and_then(NonZeroU8::new) {
            Some(code) => Self::Code(code),
            None => Self::Text(text.into()),
        }
    }

    /// The string; none for a code this version does not know.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Code(code) => {
                CONTENT_TYPES.iter().find(|(listed, _)| *listed == code.get()).map(|(_, text)| *text)
            }
            Self::Text(text) => Some(text),
        }
    }

    /// Bytes after the name.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Self::Code(_) => 0,
            Self::Text(text) => text.len(),
        }
    }

    /// The same, no longer borrowed from the pack.
    pub(crate) fn into_owned(self) -> ContentType<'static> {
        match self {
            Self::Code(code) => ContentType::Code(code),
            Self::Text(text) => ContentType::Text(text.into_owned().into()),
        }
    }
}

/// Fixed: a code always reads back as its string.
const CONTENT_TYPES: [(u8, &str); 12] = [
    (1, "application/octet-stream"),
    (2, "image/jpeg"),
    (3, "image/png"),
    (4, "application/json"),
    (5, "application/msgpack"),
    (6, "application/x-npy"),
    (7, "application/x-npz"),
    (8, "text/plain"),
    (9, "image/webp"),
    (10, "audio/wav"),
    (11, "audio/flac"),
    (12, "video/mp4"),
];

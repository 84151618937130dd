//! Record header: the 32 bytes before a record's key, and the key and metadata after them.
//!
//! # Record header
//!
//! | offset | size | field                                                                 |
//! |-------:|-----:|-----------------------------------------------------------------------|
//! |      0 |    8 | `record_size`: the whole record, this header included, multiple of 8  |
//! |      8 |    4 | magic, `53 50 52 01`                                                  |
//! |     12 |    4 | `header_crc`: over bytes 0-11 and 16-31, key and metadata             |
//! |     16 |    4 | `entry_count`                                                         |
//! |     20 |    4 | `meta_len`: bytes of metadata, 0 for none                             |
//! |     24 |    2 | `key_len`: bytes of the key, 1 to 65,535                              |
//! |     26 |    1 | `meta_format`: 0 raw, 1 JSON, 2 MsgPack                               |
//! |     27 |    1 | flags: bit 0 tombstone, bit 1 overlay                                 |
//! |     28 |    4 | reserved, zero                                                        |
//!
//! Then key, metadata, zero bytes to a multiple of 8, entries.

use serde::Serialize;

use crate::cursor::Reader;
use crate::error::{FormatError, expect_aligned, expect_crc, expect_magic, expect_range, expect_text};
use crate::layout::crc_of_two;

/// Header of a record, before its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// The whole record, this header included.
    pub record_size: u64,
    /// Entries that follow.
    pub entry_count: u32,
    /// Format of the metadata.
    pub meta_format: MetaFormat,
    /// Effect in an overlay.
    pub flags: RecordFlags,
    /// Names the record.
    pub key: &'a str,
    /// Belongs to the record as a whole; may be empty.
    pub meta: &'a [u8],
}

impl<'a> RecordHeader<'a> {
    /// Bytes of the fixed part.
    pub(crate) const LEN: usize = 32;
    /// "SPR" and the version of records.
    pub(crate) const MAGIC: [u8; 4] = *b"SPR\x01";

    /// Parses header, key, metadata and padding at the reader's position, which then is that of the first entry.
    ///
    /// `record_size` is checked against the bytes read here, not against those left: a reader may have fetched no more.
    pub(crate) fn parse(r: &mut Reader<'a>) -> Result<Self, FormatError> {
        Self::parse_with(r, true)
    }

    /// [`parse`](Self::parse), with the CRC compared only if `check_crc`. All else is checked either way.
    #[inline]
    pub(crate) fn parse_with(r: &mut Reader<'a>, check_crc: bool) -> Result<Self, FormatError> {
        const WHAT: &str = "record header";
        let at = r.offset();
        let before_crc: [u8; 12] = r.clone().array(WHAT)?;
        let (_, magic) = before_crc.split_at(8);
        expect_magic(at + 8, "record magic", &Self::MAGIC, magic)?;
        let fixed: [u8; 32] = r.clone().array(WHAT)?;
        let mut fields = Reader::at(&fixed, at);
        let record_size = fields.u64(WHAT)?;
        fields.u32(WHAT)?;
        let header_crc = fields.u32(WHAT)?;
        let entry_count = fields.u32(WHAT)?;
        let meta_len = fields.u32(WHAT)?;
        let key_len = fields.u16(WHAT)?;
        let meta_format = MetaFormat::from(fields.u8(WHAT)?);
        let flags = RecordFlags(fields.u8(WHAT)?);
        r.take(WHAT, 16)?;
        // From here to the end of the metadata the CRC covers everything: one call does it.
        let mut covered = r.clone();
        r.take(WHAT, 16)?;
        let key_at = r.offset();
        let key = r.take("record key", key_len.into())?;
        let meta = r.take("record metadata", meta_len.into())?;
        if check_crc {
            let covered = covered.take(WHAT, 16 + u64::from(key_len) + u64::from(meta_len))?;
            expect_crc(at, WHAT, header_crc, crc_of_two(&before_crc, covered))?;
        }

        expect_aligned(at, "record size", record_size)?;
        expect_range(at + 24, "key length", 1, u16::MAX.into(), key_len.into())?;
        let key = expect_text(key_at, "record key", key)?;
        r.skip_to_8("padding after the metadata")?;
        expect_range(at, "record size", r.offset() - at, u64::MAX, record_size)?;
        Ok(Self { record_size, entry_count, meta_format, flags, key, meta })
    }

    /// Appends header, key, metadata and padding. Only a key or metadata of a length the fields cannot hold is refused.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let start = out.len();
        let header_len = self.encode_unsealed(out)?;
        let header = out.get_mut(start..start + header_len).unwrap_or_default();
        Self::seal(header, header_len, self.record_size);
        Ok(())
    }

    /// Appends all that [`encode`](Self::encode) does, with zeros for size and CRC, and returns the bytes of header, key and
    /// metadata. [`seal`](Self::seal) puts both in.
    pub(crate) fn encode_unsealed(&self, out: &mut Vec<u8>) -> Result<usize, FormatError> {
        let start = out.len();
        let at = start as u64;
        let (key_len, meta_len) = (self.key.len() as u64, self.meta.len() as u64);
        expect_range(at + 24, "key length", 1, u16::MAX.into(), key_len)?;
        expect_range(at + 20, "metadata length", 0, u32::MAX.into(), meta_len)?;
        let key_len = u16::try_from(key_len).expect("compared above");
        let meta_len = u32::try_from(meta_len).expect("compared above");

        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&Self::MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.entry_count.to_le_bytes());
        out.extend_from_slice(&meta_len.to_le_bytes());
        out.extend_from_slice(&key_len.to_le_bytes());
        out.extend_from_slice(&[self.meta_format.into(), self.flags.0, 0, 0, 0, 0]);
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(self.meta);
        let header_len = out.len() - start;
        // From the record's own first byte: the buffer may begin anywhere.
        out.resize(start + header_len.next_multiple_of(8), 0);
        Ok(header_len)
    }

    /// Puts size and CRC into the header that `record` begins with. `header_len` are the bytes of header, key and metadata.
    pub(crate) fn seal(record: &mut [u8], header_len: usize, record_size: u64) {
        if let Some(place) = record.first_chunk_mut::<8>() {
            *place = record_size.to_le_bytes();
        }
        let parts = record.first_chunk::<12>().zip(record.get(16..header_len));
        let Some((before, after)) = parts else { return };
        let found = crc_of_two(before, after).to_le_bytes();
        if let Some(place) = record.get_mut(12..16) {
            place.copy_from_slice(&found);
        }
    }
}

/// Format of the metadata of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "u8")]
pub enum MetaFormat {
    /// Bytes of the user's own making.
    #[default]
    Raw,
    /// JSON text.
    Json,
    /// MsgPack.
    MsgPack,
    /// A code this version does not know.
    Unknown(u8),
}

impl From<u8> for MetaFormat {
    fn from(code: u8) -> Self {
        match code {
            0 => Self::Raw,
            1 => Self::Json,
            2 => Self::MsgPack,
            _ => Self::Unknown(code),
        }
    }
}

impl From<MetaFormat> for u8 {
    fn from(format: MetaFormat) -> Self {
        match format {
            MetaFormat::Raw => 0,
            MetaFormat::Json => 1,
            MetaFormat::MsgPack => 2,
            MetaFormat::Unknown(code) => code,
        }
    }
}

/// The flags of a record; bits without a name are kept and mean nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "RecordFlagNames")]
pub struct RecordFlags(pub u8);

/// The flags by name, as JSON has them.
#[derive(Serialize)]
struct RecordFlagNames {
    tombstone: bool,
    overlay: bool,
}

impl From<RecordFlags> for RecordFlagNames {
    fn from(flags: RecordFlags) -> Self {
        Self { tombstone: flags.is_tombstone(), overlay: flags.is_overlay() }
    }
}

impl RecordFlags {
    /// In an overlay: this key is deleted.
    pub const TOMBSTONE: Self = Self(1);
    /// In an overlay: entries replace those of the same name.
    pub const OVERLAY: Self = Self(2);

    /// Whether the key is deleted.
    pub fn is_tombstone(self) -> bool {
        self.0 & Self::TOMBSTONE.0 != 0
    }

    /// Whether entries replace those of the same name.
    pub fn is_overlay(self) -> bool {
        self.0 & Self::OVERLAY.0 != 0
    }
}

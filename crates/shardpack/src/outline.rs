//! Outline: what a pack consists of and whether it is sound, without decoding any content.

use serde::{Serialize, Serializer};

use crate::cursor::Reader;
use crate::error::{FormatError, expect_crc, expect_magic, expect_number};
use crate::layout::{
    ALIGN_BYTES_MAX, Compression, ContentType, EndMarker, EntryHeader, Footer, Index, MetaFormat,
    RecordFlags, RecordHeader, SectionFlags, SectionHeader, SectionKind, crc,
};

/// Bytes of a JSON section that are cut as text.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Whether bytes look like a pack, to tell it from other formats: they end like one, or begin like one that was cut.
///
/// `first_bytes` are the first 12 bytes or more, `last_bytes` the last 8 or more.
pub fn has_pack_magic(first_bytes: &[u8], last_bytes: &[u8]) -> bool {
    let magic = first_bytes.get(8..12);
    last_bytes.ends_with(&Footer::MAGIC)
        || magic == Some(&RecordHeader::MAGIC)
        || magic == Some(&EndMarker::MAGIC)
}

/// Structure of a pack. Takes a small multiple of the structure in memory, never of numbers in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Bytes that were given.
    pub size: u64,
    /// The footer; none in a pack that was cut short.
    pub footer: Option<Footer>,
    /// Offset of the end marker, behind the records; none when the pack was cut before it.
    pub records_end: Option<u64>,
    /// The sections, in their order.
    pub sections: Vec<SectionOutline>,
    /// The records that are whole, in their order.
    pub records: Vec<RecordOutline>,
    /// Faults that could be skipped: each record that is not listed, and the CRC of all sections.
    pub damaged: Vec<FormatError>,
    /// For a pack without a footer: where the last whole record ends.
    pub truncated: Option<u64>,
    /// Offset of the first padding byte that is not zero. Harmless, but no writer makes it.
    pub dirty_padding: Option<u64>,
}

/// One section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionOutline {
    /// Offset of its header.
    pub offset: u64,
    /// Value found.
    #[serde(rename = "type")]
    pub kind: SectionKind,
    /// Whether it must be understood.
    #[serde(rename = "critical", serialize_with = "is_critical")]
    pub flags: SectionFlags,
    /// Bytes of the payload.
    #[serde(rename = "payload_bytes")]
    pub payload_len: u64,
    /// Whether the payload's CRC holds.
    #[serde(skip)]
    pub crc_holds: bool,
    /// The payload of a JSON section: at most [`TEXT_BYTES_MAX`], and up to the first byte that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One whole record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordOutline {
    /// Offset of its header.
    pub offset: u64,
    /// Bytes of the whole record.
    pub size: u64,
    /// Its key.
    pub key: String,
    /// Effect in an overlay.
    #[serde(flatten)]
    pub flags: RecordFlags,
    /// Format of its metadata.
    #[serde(rename = "metadata_format")]
    pub meta_format: MetaFormat,
    /// Bytes of its metadata.
    #[serde(rename = "metadata_bytes")]
    pub meta_len: u64,
    /// Its entries, in their order.
    pub entries: Vec<EntryOutline>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryOutline {
    /// Its name.
    pub name: String,
    /// Content type.
    #[serde(skip_serializing_if = "has_no_name", serialize_with = "content_type")]
    pub content_type: ContentType<'static>,
    /// Compression of its data.
    #[serde(serialize_with = "compression")]
    pub compression: Compression,
    /// Bytes of the content after decoding.
    pub file_size: u64,
    /// Bytes of the data in the pack.
    pub stored_size: u64,
    /// Offset of the data in the pack.
    pub data_offset: u64,
    /// Whether the data's CRC holds.
    #[serde(rename = "sound")]
    pub data_crc_holds: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_critical<S: Serializer>(flags: &SectionFlags, serializer: S) -> Result<S::Ok, S::Error> {
    flags.is_critical().serialize(serializer)
}

fn has_no_name(content_type: &ContentType<'_>) -> bool {
    content_type.as_str().is_none()
}

fn content_type<S: Serializer>(content_type: &ContentType<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    content_type.as_str().serialize(serializer)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn compression<S: Serializer>(compression: &Compression, serializer: S) -> Result<S::Ok, S::Error> {
    match compression {
        Compression::Unknown(code) => serializer.collect_str(&format_args!("unknown ({code})")),
        known => known.name().serialize(serializer),
    }
}

impl Outline {
    /// Reads the structure of the whole pack `bytes` and checks every CRC in it.
    ///
    /// With a footer, the index says where records are, and a damaged one is stepped over. Without, the records are
    /// walked up to where they are cut or the first whose header is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let size = bytes.len() as u64;
        let mut outline = Self {
            size,
            footer: None,
            records_end: None,
            sections: Vec::new(),
            records: Vec::new(),
            damaged: Vec::new(),
            truncated: None,
            dirty_padding: None,
        };
        if bytes.ends_with(&Footer::MAGIC) {
            outline.read_by_index(bytes)?;
        } else {
            outline.walk(bytes)?;
        }
        Ok(outline)
    }

    /// Whether the pack is whole and nothing in it is wrong.
    pub fn is_sound(&self) -> bool {
        self.footer.is_some()
            && self.truncated.is_none()
            && self.damaged.is_empty()
            && self.dirty_padding.is_none()
            && self.sections.iter().all(|section| section.crc_holds)
            && self.records.iter().flat_map(|record| &record.entries).all(|entry| entry.data_crc_holds)
    }

    fn read_by_index(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let Some((_, last)) = bytes.split_last_chunk::<{ Footer::LEN }>() else {
            let needed = Footer::LEN as u64;
            return Err(FormatError::Truncated { at: 0, what: "footer", needed, left: self.size });
        };
        let footer = Footer::parse(&mut Reader::at(last, self.size - Footer::LEN as u64))?;
        self.footer = Some(footer);
        self.records_end = Some(footer.records_end());

        let mut r = Reader::at(bytes, 0);
        let records = r.take("records", footer.records_end())?;
        let tail_size = r.left();
        let marker = EndMarker::parse(&mut r)?;
        expect_number(footer.records_end(), "tail size", tail_size, marker.tail_size)?;
        let mut r = Reader::at(r.take("index", footer.index_size)?, footer.index_offset);
        let index = Index::parse(&mut r, &footer)?;
        self.read_sections(r, &footer)?;

        let mut r = Reader::at(records, 0);
        let ends = index.offsets.iter().skip(1).copied().chain([footer.records_end()]);
        for end in ends.take(index.offsets.len()) {
            let at = r.offset();
            self.push_record(r.take("record", end - at)?, at);
        }
        Ok(())
    }

    /// Reads the sections, which are all that is left of the index.
    fn read_sections(&mut self, mut r: Reader<'_>, footer: &Footer) -> Result<(), FormatError> {
        let at = r.offset();
        let all = r.clone().take("sections", r.left())?;
        if let Err(error) = expect_crc(at, "sections", footer.sections_crc, crc(&[all])) {
            self.damaged.push(error);
        }
        while r.left() > 0 {
            let at = r.offset();
            let header = SectionHeader::parse(&mut r)?;
            header.check_len(at, footer.record_count)?;
            let payload = r.take("section payload", header.payload_len)?;
            r.skip_to_8("padding after a section")?;
            self.sections.push(SectionOutline {
                offset: at,
                kind: header.kind,
                flags: header.flags,
                payload_len: header.payload_len,
                crc_holds: crc(&[payload]) == header.payload_crc,
                text: header.kind.is_json().then(|| beginning_of_text(payload)),
            });
        }
        self.note_dirty_padding(r.dirty_padding());
        Ok(())
    }

    /// Walks from record to record in a pack whose end is missing.
    fn walk(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let mut r = Reader::at(bytes, 0);
        loop {
            let at = r.offset();
            let mut ahead = r.clone();
            if bytes_at_8(&r) == Some(EndMarker::MAGIC) {
                return self.end_walk(at, EndMarker::parse(&mut ahead).map(Some), bytes);
            }
            match RecordHeader::parse(&mut ahead) {
                Ok(header) if header.record_size <= r.left() => {
                    self.push_record(r.take("record", header.record_size)?, at);
                }
                Ok(_) => return self.end_walk(at, Ok(None), bytes),
                Err(error) => return self.end_walk(at, Err(error), bytes),
            }
        }
    }

    /// Says how the walk ended at `at`: at an end marker, in a record that is cut, or at something else.
    fn end_walk(
        &mut self,
        at: u64,
        found: Result<Option<EndMarker>, FormatError>,
        bytes: &[u8],
    ) -> Result<(), FormatError> {
        let left = self.size - at;
        match found {
            Ok(Some(marker)) if marker.tail_size == left => {
                // Nothing is missing, so these eight bytes should have been the magic that brings no one here.
                let (_, last) = bytes.split_last_chunk::<8>().unwrap_or((&[], &[0; 8]));
                expect_magic(self.size.saturating_sub(8), "footer magic", &Footer::MAGIC, last)?;
            }
            Ok(Some(marker)) if marker.tail_size < left => {
                let (at, bytes) = (at + marker.tail_size, left - marker.tail_size);
                return Err(FormatError::Trailing { at, what: "pack", bytes });
            }
            Ok(Some(_)) => self.records_end = Some(at),
            Ok(None) => {}
            // Too short to show that it is a pack at all.
            Err(error @ FormatError::Truncated { .. }) if at == 0 && left < 12 => return Err(error),
            Err(FormatError::Truncated { .. }) => {}
            // Without a single record before it, this is more likely something else than a damaged pack.
            Err(error) if at == 0 => return Err(error),
            Err(error) => self.damaged.push(error),
        }
        self.truncated = Some(at);
        Ok(())
    }

    /// Adds the record that `block`, which stands at `at`, should be.
    fn push_record(&mut self, block: &[u8], at: u64) {
        let mut r = Reader::at(block, at);
        match RecordOutline::parse(&mut r) {
            Ok(record) => self.records.push(record),
            Err(error) => self.damaged.push(error),
        }
        self.note_dirty_padding(r.dirty_padding());
    }

    /// Sections are read before records and stand behind them: the least offset is the first.
    fn note_dirty_padding(&mut self, at: Option<u64>) {
        self.dirty_padding = self.dirty_padding.into_iter().chain(at).min();
    }
}

impl RecordOutline {
    /// Parses the record that is all the reader has left.
    fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        let (offset, size) = (r.offset(), r.left());
        let header = RecordHeader::parse(r)?;
        expect_number(offset, "record size", size, header.record_size)?;
        // Not sized by the count: a missing header ends the loop before memory does.
        let mut entries = Vec::new();
        for _ in 0..header.entry_count {
            entries.push(EntryOutline::parse(r)?);
        }
        let (at, bytes) = (r.offset(), r.left());
        if bytes >= ALIGN_BYTES_MAX {
            return Err(FormatError::Trailing { at, what: "last entry of the record", bytes });
        }
        r.skip_padding("padding after the entries", bytes)?;
        Ok(Self {
            offset,
            size,
            key: header.key.to_owned(),
            flags: header.flags,
            meta_format: header.meta_format,
            meta_len: header.meta.len() as u64,
            entries,
        })
    }
}

impl EntryOutline {
    /// Parses the entry at the reader's position, its data and the padding after it.
    fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        let header = EntryHeader::parse(r)?;
        let data_offset = r.offset();
        let data = r.take("entry data", header.stored_size)?;
        r.skip_to_8("padding after the data")?;
        Ok(Self {
            name: header.name.to_owned(),
            content_type: header.content_type.into_owned(),
            compression: header.compression,
            file_size: header.file_size,
            stored_size: header.stored_size,
            data_offset,
            data_crc_holds: crc(&[data]) == header.data_crc,
        })
    }
}

/// The four bytes where a record or an end marker has its magic.
fn bytes_at_8(r: &Reader<'_>) -> Option<[u8; 4]> {
    let mut ahead = r.clone();
    ahead.take("size", 8).ok()?;
    ahead.array("magic").ok()
}

/// As much of `payload` as is text, within the limit.
fn beginning_of_text(payload: &[u8]) -> String {
    let cut = payload.get(..TEXT_BYTES_MAX).unwrap_or(payload);
    cut.utf8_chunks().next().map_or_else(String::new, |chunk| chunk.valid().to_owned())
}

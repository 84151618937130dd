//! Index of a pack, at its end: offsets of records, key lookup, sections.

use std::ops::Range;

use serde::Deserialize;
use twox_hash::XxHash3_64;

use crate::codec::Frame;
use crate::cursor::Reader;
use crate::error::{Error, FormatError, expect_crc, expect_number};
use crate::layout::{EndMarker, Features, Footer, Index, SectionHeader, SectionKind, crc};

/// The end of a pack, parsed: one flat buffer and the offsets, no object for each record.
#[derive(Debug, Clone)]
pub struct PackIndex {
    footer: Footer,
    offsets: Vec<u64>,
    /// All section bytes.
    sections: Vec<u8>,
    /// Kind and place of each payload in `sections`.
    places: Vec<(SectionKind, Range<usize>)>,
    /// Ends of records, when they leave gaps.
    ends: Option<Vec<u64>>,
    damage: Option<FormatError>,
}

impl PackIndex {
    /// The bytes that have to be read to parse the index of a pack of `size` bytes, known from its last 64.
    pub(crate) fn range(footer_bytes: &[u8], size: u64) -> Result<Range<u64>, FormatError> {
        let at = size.saturating_sub(Footer::LEN as u64);
        let footer = Footer::parse(&mut Reader::at(footer_bytes, at))?;
        Ok(footer.records_end()..size)
    }

    /// Parses `tail`, the bytes from the end marker to the end of a pack of `size` bytes.
    pub(crate) fn parse(tail: &[u8], size: u64) -> Result<Self, FormatError> {
        let at = size.saturating_sub(tail.len() as u64);
        let footer_at = tail.len().saturating_sub(Footer::LEN);
        let footer_bytes = tail.get(footer_at..).unwrap_or_default();
        let footer = Footer::parse(&mut Reader::at(footer_bytes, at + footer_at as u64))?;
        expect_number(at, "first byte of the tail", footer.records_end(), at)?;

        let mut r = Reader::at(tail, at);
        let marker = EndMarker::parse(&mut r)?;
        expect_number(at, "tail size", tail.len() as u64, marker.tail_size)?;
        let mut r = Reader::at(r.take("index", footer.index_size)?, footer.index_offset);
        let index = Index::parse(&mut r, &footer)?;
        let sections_at = r.offset();
        let sections = r.take("sections", r.left())?;
        let damage = expect_crc(sections_at, "sections", footer.sections_crc, crc(&[sections])).err();
        let mut r = Reader::at(sections, sections_at);
        let mut places = Vec::new();
        while r.left() > 0 {
            match next_section(&mut r, &footer, damage.is_some()) {
                Ok((kind, payload)) => {
                    let end = r.offset() - sections_at;
                    let start = as_len(end - (payload.len() as u64).next_multiple_of(8));
                    places.extend(kind.map(|kind| (kind, start..start + payload.len())));
                }
                Err(error @ FormatError::Section { .. }) => return Err(error),
                // Records do not need sections: what is sound before the damage is kept, and all is read by number.
                Err(_) if damage.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        let sections = sections.to_vec();
        Ok(Self { footer, offsets: index.offsets, ends: None, sections, places, damage })
    }

    /// An index of records that were found without one. It has no sections.
    pub(crate) fn of_found(records: &[Range<u64>], size: u64) -> Self {
        let end = records.last().map_or(0, |range| range.end);
        let footer = Footer {
            index_offset: end + EndMarker::LEN as u64,
            index_size: 0,
            record_count: records.len() as u64,
            file_size: size,
            index_crc: 0,
            sections_crc: 0,
            version_minor: Footer::VERSION_MINOR,
            features: Features::default(),
        };
        Self {
            footer,
            offsets: records.iter().map(|range| range.start).collect(),
            ends: Some(records.iter().map(|range| range.end).collect()),
            sections: Vec::new(),
            places: Vec::new(),
            damage: None,
        }
    }

    /// Faults of the sections. Some may be missing then; records are not.
    pub(crate) fn section_damage(&self) -> Option<&FormatError> {
        self.damage.as_ref()
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Offsets of all records.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Number of records.
    pub(crate) fn len(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Whether there is no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The bytes of a record.
    pub fn record_range(&self, ordinal: u64) -> Option<Range<u64>> {
        let ordinal = usize::try_from(ordinal).ok()?;
        let start = *self.offsets.get(ordinal)?;
        let end = match &self.ends {
            Some(ends) => *ends.get(ordinal)?,
            None => self.offsets.get(ordinal + 1).copied().unwrap_or_else(|| self.footer.records_end()),
        };
        Some(start..end)
    }

    /// The number of the record that begins at `offset`.
    pub fn ordinal_at(&self, offset: u64) -> Option<u64> {
        self.offsets.binary_search(&offset).ok().map(|ordinal| ordinal as u64)
    }

    /// The payload of the first section of that kind.
    pub(crate) fn section(&self, kind: SectionKind) -> Option<&[u8]> {
        let (_, place) = self.places.iter().find(|(found, _)| *found == kind)?;
        self.sections.get(place.clone())
    }

    /// Metadata of the user: one JSON object.
    pub fn user_metadata(&self) -> Option<&[u8]> {
        self.section(SectionKind::UserMetadata)
    }

    /// Digest of all keys. Packs with equal digests have the same keys in the same order.
    pub(crate) fn key_digest(&self) -> Option<[u8; 32]> {
        self.section(SectionKind::KeyDigest)?.first_chunk().copied()
    }

    /// The column this pack is of.
    pub fn column(&self) -> &str {
        let name = self.section(SectionKind::KeyDigest).and_then(|payload| payload.get(32..));
        name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// The digest of a record, where the pack has them.
    pub fn record_digest(&self, ordinal: u64) -> Option<[u8; 32]> {
        let at = usize::try_from(ordinal).ok()?.checked_mul(32)?;
        self.section(SectionKind::RecordDigests)?.get(at..)?.first_chunk().copied()
    }

    /// A text of the writer section, e.g. `group`.
    pub fn writer_fact(&self, name: &str) -> Option<String> {
        let facts: serde_json::Value =
            serde_json::from_slice(self.section(SectionKind::WriterFacts)?).ok()?;
        facts.get(name)?.as_str().map(str::to_owned)
    }

    /// Sums over the pack, as its writer stated them.
    pub fn statistics(&self) -> Option<StatedStatistics> {
        serde_json::from_slice(self.section(SectionKind::Statistics)?).ok()
    }

    /// Numbers of the records whose key has this hash, rising; none when the pack has no key hashes.
    pub fn candidates(&self, key: &str) -> Option<Vec<u64>> {
        let hash = XxHash3_64::oneshot(key.as_bytes());
        let (hashes, order) = (self.section(SectionKind::KeyHashes)?, self.section(SectionKind::KeyOrder)?);
        let count = self.len();
        let ordinal_at = |place: u64| {
            let found =
                if count < 1 << 32 { u32_at(order, place).map(u64::from) } else { u64_at(order, place) };
            found.filter(|&ordinal| ordinal < count)
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let below = ordinal_at(middle).and_then(|ordinal| u64_at(hashes, ordinal))? < hash;
            if below { low = middle + 1 } else { high = middle }
        }
        let found = (low..count).map_while(ordinal_at);
        Some(found.take_while(|&ordinal| u64_at(hashes, ordinal) == Some(hash)).collect())
    }

    /// The hash of a record's key, where the pack has them.
    pub(crate) fn key_hash(&self, ordinal: u64) -> Option<u64> {
        u64_at(self.section(SectionKind::KeyHashes)?, ordinal)
    }

    /// Offset of entry `number` in its record, and its frames if it has several; none without a directory.
    pub fn entry_place(&self, ordinal: u64, number: u32) -> Option<(u64, Vec<Frame>)> {
        let payload = self.section(SectionKind::EntryDirectory)?;
        let (entries, frames) = (u64_at(payload, 0)?, u64_at(payload, 1)?);
        // Positions of the tables, in numbers of 8 bytes; sums that overflow are of no directory.
        let headers = 2_u64.checked_add(self.len())?.checked_add(1)?;
        let first_frames = headers.checked_add(entries)?;
        let frame_table = first_frames.checked_add(entries)?.checked_add(1)?;
        if frame_table.checked_add(frames.checked_mul(2)?)? != payload.len() as u64 / 8 {
            return None;
        }
        let (first, end) = (u64_at(payload, 2 + ordinal)?, u64_at(payload, 3 + ordinal)?);
        let entry = first.checked_add(number.into()).filter(|&entry| entry < end.min(entries))?;
        let header = u64_at(payload, headers + entry)?;
        let (from, to) = (u64_at(payload, first_frames + entry)?, u64_at(payload, first_frames + entry + 1)?);
        if to > frames {
            return None;
        }
        let frame = |n: u64| {
            Some(Frame {
                content_at: u64_at(payload, frame_table + 2 * n)?,
                stored_at: u64_at(payload, frame_table + 2 * n + 1)?,
            })
        };
        Some((header, (from..to).map(frame).collect::<Option<_>>()?))
    }
}

/// The next section's payload, and its kind unless the payload is damaged.
fn next_section<'a>(
    r: &mut Reader<'a>,
    footer: &Footer,
    check_crc: bool,
) -> Result<(Option<SectionKind>, &'a [u8]), FormatError> {
    let at = r.offset();
    let header = SectionHeader::parse(r)?;
    header.check_len(at, footer.record_count)?;
    let payload = r.take("section payload", header.payload_len)?;
    r.skip_to_8("padding after a section")?;
    let sound = !check_crc || crc(&[payload]) == header.payload_crc;
    Ok((sound.then_some(header.kind), payload))
}

/// Statistics that a writer states in section 8; fields it left out are zero.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatedStatistics {
    /// Records.
    pub records: u64,
    /// Entries of all records.
    pub entries: u64,
    /// Bytes of their contents.
    pub payload_bytes: u64,
    /// Bytes they are stored in.
    pub stored_bytes: u64,
}

/// Error for a record number beyond the last.
pub(crate) fn no_record(ordinal: u64, count: u64) -> Error {
    Error::invalid(format!("no record {ordinal}: there are {count}"))
}

fn as_len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn u64_at(bytes: &[u8], number: u64) -> Option<u64> {
    let at = usize::try_from(number).ok()?.checked_mul(8)?;
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

fn u32_at(bytes: &[u8], number: u64) -> Option<u32> {
    let at = usize::try_from(number).ok()?.checked_mul(4)?;
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

//! The structure of a ShardPack file.

use std::io::{self, Write};

use serde::Serialize;
use shardpack::outline::{EntryOutline, RecordOutline, SectionOutline};
use shardpack::{Compression, Footer, Outline};

use super::grouped;

#[derive(Debug, Serialize)]
pub(crate) struct PackDescription {
    pub(crate) kind: &'static str,
    pub(crate) size: u64,
    pub(crate) sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) footer: Option<FooterDescription>,
    /// Where the last whole record ends, when the file ends before its footer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) truncated_at: Option<u64>,
    /// What is wrong, with offsets.
    pub(crate) faults: Vec<String>,
    pub(crate) sections: Vec<SectionDescription>,
    pub(crate) records: Vec<RecordDescription>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FooterDescription {
    pub(crate) version: [u16; 2],
    pub(crate) record_count: u64,
    pub(crate) index_offset: u64,
    pub(crate) index_size: u64,
    pub(crate) keys_unique: bool,
    pub(crate) keys_sorted: bool,
    pub(crate) records_aligned: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct SectionDescription {
    #[serde(rename = "type")]
    pub(crate) kind: u32,
    pub(crate) offset: u64,
    pub(crate) critical: bool,
    pub(crate) payload_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RecordDescription {
    pub(crate) key: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) tombstone: bool,
    pub(crate) overlay: bool,
    pub(crate) metadata_format: u8,
    pub(crate) metadata_bytes: u64,
    pub(crate) entries: Vec<EntryDescription>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EntryDescription {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    pub(crate) compression: String,
    pub(crate) file_size: u64,
    pub(crate) stored_size: u64,
    pub(crate) data_offset: u64,
    pub(crate) sound: bool,
}

impl PackDescription {
    pub(crate) fn of(outline: &Outline) -> Self {
        Self {
            kind: "shardpack",
            size: outline.size,
            sound: outline.is_sound(),
            footer: outline.footer.as_ref().map(FooterDescription::of),
            truncated_at: outline.truncated,
            faults: faults(outline),
            sections: outline.sections.iter().map(SectionDescription::of).collect(),
            records: outline.records.iter().map(RecordDescription::of).collect(),
        }
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let [major, minor] = self.footer.as_ref().map_or([1, 0], |footer| footer.version);
        writeln!(out, "pack     version {major}.{minor}, {} bytes", grouped(self.size))?;
        for section in &self.sections {
            write!(out, "section  type {}, {} bytes", section.kind, grouped(section.payload_bytes))?;
            writeln!(out, "{}", section.text.as_ref().map_or(String::new(), |text| format!("  {text}")))?;
        }
        writeln!(out, "records  {}", grouped(self.records.len() as u64))?;
        for record in &self.records {
            let state = if record.tombstone { ", deleted" } else { "" };
            write!(out, "\n{}  at {}, {} bytes", record.key, record.offset, grouped(record.size))?;
            writeln!(out, ", {} of metadata{state}", record.metadata_bytes)?;
            for entry in &record.entries {
                let EntryDescription { name, compression, file_size, stored_size, .. } = entry;
                let kind = entry.content_type.as_deref().unwrap_or("unknown type");
                let (file, stored) = (grouped(*file_size), grouped(*stored_size));
                writeln!(out, "  {name}  {kind}, {file} bytes, {stored} stored, compression {compression}")?;
            }
        }
        Ok(())
    }
}

/// Everything that is wrong, in words.
fn faults(outline: &Outline) -> Vec<String> {
    let mut faults: Vec<String> = outline.damaged.iter().map(ToString::to_string).collect();
    let mut add = |at: u64, what: String| faults.push(format!("offset {at}: {what}"));
    if let Some(at) = outline.truncated {
        add(at, "the file is cut: no whole record follows, and there is no footer".into());
    }
    for section in outline.sections.iter().filter(|section| !section.crc_holds) {
        add(section.offset, format!("the CRC of section type {} does not hold", u32::from(section.kind)));
    }
    for (record, entry) in
        outline.records.iter().flat_map(|record| record.entries.iter().map(move |entry| (record, entry)))
    {
        if !entry.data_crc_holds {
            add(
                entry.data_offset,
                format!("the CRC of entry {:?} of record {:?} does not hold", entry.name, record.key),
            );
        }
    }
    if let Some(at) = outline.dirty_padding {
        add(at, "padding should be zero bytes".into());
    }
    faults
}

impl FooterDescription {
    fn of(footer: &Footer) -> Self {
        Self {
            version: [Footer::VERSION_MAJOR, footer.version_minor],
            record_count: footer.record_count,
            index_offset: footer.index_offset,
            index_size: footer.index_size,
            keys_unique: footer.features.keys_unique(),
            keys_sorted: footer.features.keys_sorted(),
            records_aligned: footer.features.records_aligned(),
        }
    }
}

impl SectionDescription {
    fn of(section: &SectionOutline) -> Self {
        Self {
            kind: section.kind.into(),
            offset: section.offset,
            critical: section.flags.is_critical(),
            payload_bytes: section.payload_len,
            text: section.text.clone(),
        }
    }
}

impl RecordDescription {
    fn of(record: &RecordOutline) -> Self {
        Self {
            key: record.key.clone(),
            offset: record.offset,
            size: record.size,
            tombstone: record.flags.is_tombstone(),
            overlay: record.flags.is_overlay(),
            metadata_format: record.meta_format.into(),
            metadata_bytes: record.meta_len,
            entries: record.entries.iter().map(EntryDescription::of).collect(),
        }
    }
}

impl EntryDescription {
    fn of(entry: &EntryOutline) -> Self {
        let compression = match entry.compression {
            Compression::None => "none".to_owned(),
            Compression::Gzip => "gzip".to_owned(),
            Compression::Lz4 => "lz4".to_owned(),
            Compression::Zstd => "zstd".to_owned(),
            other => format!("unknown ({})", u8::from(other)),
        };
        Self {
            name: entry.name.clone(),
            content_type: entry.content_type.as_str().map(str::to_owned),
            compression,
            file_size: entry.file_size,
            stored_size: entry.stored_size,
            data_offset: entry.data_offset,
            sound: entry.data_crc_holds,
        }
    }
}

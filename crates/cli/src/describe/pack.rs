//! The structure of a ShardPack file.

use std::io::{self, Write};

use serde::Serialize;
use shardpack::outline::{RecordOutline, SectionOutline};
use shardpack::{Footer, Outline};

use super::grouped;

#[derive(Debug, Serialize)]
pub(crate) struct PackDescription<'a> {
    pub(crate) kind: &'static str,
    pub(crate) size: u64,
    pub(crate) sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) footer: Option<&'a Footer>,
    /// End of the last whole record, when the file ends before its footer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) truncated_at: Option<u64>,
    /// Faults, with offsets.
    pub(crate) faults: Vec<String>,
    pub(crate) sections: &'a [SectionOutline],
    pub(crate) records: &'a [RecordOutline],
}

impl<'a> PackDescription<'a> {
    pub(crate) fn of(outline: &'a Outline) -> Self {
        Self {
            kind: "shardpack",
            size: outline.size,
            sound: outline.is_sound(),
            footer: outline.footer.as_ref(),
            truncated_at: outline.truncated,
            faults: faults(outline),
            sections: &outline.sections,
            records: &outline.records,
        }
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let minor = self.footer.map_or(Footer::VERSION_MINOR, |footer| footer.version_minor);
        writeln!(out, "pack     version {}.{minor}, {} bytes", Footer::VERSION_MAJOR, grouped(self.size))?;
        for section in self.sections {
            write!(out, "section  type {}, ", u32::from(section.kind))?;
            write!(out, "{} bytes", grouped(section.payload_len))?;
            writeln!(out, "{}", section.text.as_ref().map_or(String::new(), |text| format!("  {text}")))?;
        }
        writeln!(out, "records  {}", grouped(self.records.len() as u64))?;
        for record in self.records {
            let state = if record.flags.is_tombstone() { ", deleted" } else { "" };
            write!(out, "\n{}  at {}, {} bytes", record.key, record.offset, grouped(record.size))?;
            writeln!(out, ", {} of metadata{state}", record.meta_len)?;
            for entry in &record.entries {
                let kind = entry.content_type.as_str().unwrap_or("unknown type");
                let (file, stored) = (grouped(entry.file_size), grouped(entry.stored_size));
                write!(out, "  {}  {kind}, {file} bytes, {stored} stored, ", entry.name)?;
                writeln!(out, "compression {}", entry.compression.name())?;
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

//! Records as JSON.

use serde::Serialize;
use shardpack::layout::MetaFormat;
use shardpack::{Error, RecordRef};

/// A record without the contents of its entries.
#[derive(Debug, Serialize)]
pub(crate) struct RecordDescription {
    pub(crate) ordinal: u64,
    pub(crate) key: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) tombstone: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) overlay: bool,
    pub(crate) entries: Vec<EntryDescription>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EntryDescription {
    pub(crate) name: String,
    pub(crate) content_type: String,
    pub(crate) compression: &'static str,
    pub(crate) size: u64,
    pub(crate) stored_size: u64,
    pub(crate) data_offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

impl RecordDescription {
    /// Describes a record; with `text_bytes_max`, short texts are included.
    pub(crate) fn of(record: &RecordRef<'_>, ordinal: u64, text_bytes_max: u64) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for entry in record.entries() {
            let entry = entry?;
            let is_text =
                entry.content_type().starts_with("text/") || entry.content_type() == "application/json";
            let text = if is_text && entry.file_size() <= text_bytes_max {
                String::from_utf8(entry.content(text_bytes_max)?.into_owned()).ok()
            } else {
                None
            };
            entries.push(EntryDescription {
                name: entry.name().to_owned(),
                content_type: entry.content_type().to_owned(),
                compression: entry.compression().name(),
                size: entry.file_size(),
                stored_size: entry.stored().len() as u64,
                data_offset: entry.data_offset(),
                text,
            });
        }
        Ok(Self {
            ordinal,
            key: record.key().to_owned(),
            offset: record.offset(),
            size: record.block().len() as u64,
            metadata: metadata(record),
            tombstone: record.flags().is_tombstone(),
            overlay: record.flags().is_overlay(),
            entries,
        })
    }
}

/// Metadata as JSON where it is, as text where that is possible, as its length otherwise.
fn metadata(record: &RecordRef<'_>) -> Option<serde_json::Value> {
    let bytes = record.metadata();
    if bytes.is_empty() {
        return None;
    }
    let json =
        (record.meta_format() == MetaFormat::Json).then(|| serde_json::from_slice(bytes).ok()).flatten();
    json.or_else(|| std::str::from_utf8(bytes).ok().map(Into::into))
        .or_else(|| Some(serde_json::json!({ "bytes": bytes.len() })))
}

fn is_false(flag: &bool) -> bool {
    !flag
}

//! Records as JSON.

use serde_json::{Value, json};
use shardpack::layout::MetaFormat;
use shardpack::{Error, RecordRef};

use crate::output::without_nulls;

/// A record without the contents of its entries; texts of at most `text_bytes_max` are included.
pub(crate) fn record(record: &RecordRef<'_>, ordinal: u64, text_bytes_max: u64) -> Result<Value, Error> {
    let mut entries = Vec::new();
    for entry in record.entries() {
        let entry = entry?;
        let (content_type, size) = (entry.content_type(), entry.file_size());
        let is_text = content_type.starts_with("text/") || content_type == "application/json";
        let text = match is_text && size <= text_bytes_max {
            true => String::from_utf8(entry.content(text_bytes_max)?.into_owned()).ok(),
            false => None,
        };
        entries.push(without_nulls(json!({
            "name": entry.name(), "content_type": content_type, "compression": entry.compression().name(), "size": size,
            "stored_size": entry.stored().len(), "data_offset": entry.data_offset(), "text": text,
        })));
    }
    let flags = record.flags();
    Ok(without_nulls(json!({
        "ordinal": ordinal, "key": record.key(), "offset": record.offset(), "size": record.block().len(),
        "metadata": metadata(record), "tombstone": flags.is_tombstone().then_some(true),
        "overlay": flags.is_overlay().then_some(true), "entries": entries,
    })))
}

/// Metadata as JSON where it is, as text where that is possible, as its length otherwise.
fn metadata(record: &RecordRef<'_>) -> Option<Value> {
    let bytes = record.metadata();
    if bytes.is_empty() {
        return None;
    }
    let json =
        (record.meta_format() == MetaFormat::Json).then(|| serde_json::from_slice(bytes).ok()).flatten();
    json.or_else(|| std::str::from_utf8(bytes).ok().map(Into::into))
        .or_else(|| Some(json!({ "bytes": bytes.len() })))
}

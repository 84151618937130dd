//! Makes packs for tests from the crate's own structures, and changes numbers in them as a liar would.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "every test uses a part of this")]

use shardpack::layout::{
    Compression, ContentType, EndMarker, EntryHeader, Features, Footer, Index, MetaFormat, RecordFlags,
    RecordHeader, SectionFlags, SectionHeader, SectionKind, crc, pad_to_8,
};

/// A record to write: key, metadata and entries of name, content type and data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub key: String,
    pub flags: u8,
    pub meta: Vec<u8>,
    pub entries: Vec<(String, String, Vec<u8>)>,
}

/// What to write besides records.
#[derive(Debug, Clone)]
pub struct Tail {
    pub features: Features,
    pub sections: Vec<(u32, u32, Vec<u8>)>,
    /// Records and data begin at multiples of this.
    pub align: usize,
}

impl Default for Tail {
    fn default() -> Self {
        Self { features: Features::KEYS_UNIQUE, sections: Vec::new(), align: 8 }
    }
}

pub fn record(key: &str, meta: &[u8], entries: &[(&str, &str, &[u8])]) -> Record {
    let entry =
        |&(name, content_type, data): &(&str, &str, &[u8])| (name.into(), content_type.into(), data.into());
    Record { key: key.into(), flags: 0, meta: meta.into(), entries: entries.iter().map(entry).collect() }
}

pub fn encode(records: &[Record], tail: &Tail) -> Vec<u8> {
    let mut out = Vec::new();
    let mut index = Index::default();
    for record in records {
        index.offsets.push(out.len() as u64);
        out.extend(encode_record(record, tail.align));
    }
    encode_tail(&mut out, &index, tail);
    out
}

/// Appends everything after the records that `out` holds.
pub fn encode_tail(out: &mut Vec<u8>, index: &Index, tail: &Tail) {
    let marker_at = out.len();
    let mut rest = Vec::new();
    let index_crc = index.encode(&mut rest);
    let mut sections = Vec::new();
    for (kind, flags, payload) in &tail.sections {
        SectionHeader {
            kind: SectionKind::from(*kind),
            flags: SectionFlags(*flags),
            payload_len: payload.len() as u64,
            payload_crc: crc(&[payload]),
        }
        .encode(&mut sections);
        sections.extend(payload);
        pad_to_8(&mut sections);
    }
    let sections_crc = crc(&[&sections]);
    rest.extend(sections);
    let tail_size = (EndMarker::LEN + rest.len() + Footer::LEN) as u64;
    EndMarker { tail_size }.encode(out);
    let index_size = rest.len() as u64;
    out.extend(rest);
    Footer {
        index_offset: (marker_at + EndMarker::LEN) as u64,
        index_size,
        record_count: index.offsets.len() as u64,
        file_size: marker_at as u64 + tail_size,
        index_crc,
        sections_crc,
        version_minor: Footer::VERSION_MINOR,
        features: tail.features,
    }
    .encode(out);
}

pub fn encode_record(record: &Record, align: usize) -> Vec<u8> {
    let mut header = RecordHeader {
        record_size: 0,
        entry_count: record.entries.len() as u32,
        meta_format: if record.meta.is_empty() { MetaFormat::Raw } else { MetaFormat::Json },
        flags: RecordFlags(record.flags),
        key: &record.key,
        meta: &record.meta,
    };
    let mut body = Vec::new();
    header.encode(&mut body).unwrap();
    let header_len = body.len();
    for (name, content_type, data) in &record.entries {
        let content_type = ContentType::new(content_type);
        let text_len = if let ContentType::Text(text) = &content_type { text.len() } else { 0 };
        let strings_end = body.len() + EntryHeader::LEN + name.len() + text_len;
        EntryHeader {
            file_size: data.len() as u64,
            stored_size: data.len() as u64,
            data_crc: crc(&[data]),
            compression: Compression::None,
            content_type,
            data_pad: (strings_end.next_multiple_of(align) - strings_end) as u16,
            name,
        }
        .encode(&mut body)
        .unwrap();
        body.extend(data);
        pad_to_8(&mut body);
    }
    body.resize(body.len().next_multiple_of(align), 0);
    header.record_size = body.len() as u64;
    let mut out = Vec::new();
    header.encode(&mut out).unwrap();
    out.extend(&body[header_len..]);
    out
}

/// Three records of one, two and no entries, two sections.
pub fn sample() -> Vec<u8> {
    let records = sample_records();
    let tail = Tail {
        sections: vec![
            (1, 0, br#"{"creator":"me"}"#.to_vec()),
            (8, 1, b"{}".to_vec()),
            (99, 0, b"new".to_vec()),
        ],
        ..Tail::default()
    };
    encode(&records, &tail)
}

pub fn sample_records() -> Vec<Record> {
    let gone = Record { flags: 1, ..record("gone", b"", &[]) };
    vec![
        record("a", b"{}", &[("x.txt", "text/plain", b"hello")]),
        record("b/c", b"", &[("left.jpg", "image/jpeg", b"12345678"), ("own", "application/x-own", b"")]),
        gone,
    ]
}

/// Writes `value` as a little-endian field of `len` bytes.
pub fn put(bytes: &mut [u8], at: usize, len: usize, value: u64) {
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// Computes the CRC of the record header at `at` anew, over the lengths it now claims, as far as bytes go.
pub fn reseal_record(bytes: &mut [u8], at: usize) {
    let meta_len = u32::from_le_bytes(bytes[at + 20..at + 24].try_into().unwrap()) as usize;
    let key_len = usize::from(u16::from_le_bytes(bytes[at + 24..at + 26].try_into().unwrap()));
    let end = (at + 32).saturating_add(key_len).saturating_add(meta_len).min(bytes.len());
    let found = crc(&[&bytes[at..at + 12], &bytes[at + 16..end]]);
    put(bytes, at + 12, 4, found.into());
}

/// Computes the CRC of the entry header at `at` anew.
pub fn reseal_entry(bytes: &mut [u8], at: usize) {
    let len = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let end = (at + 32 + len(at + 24) + len(at + 26)).min(bytes.len());
    let found = crc(&[&bytes[at..at + 20], &bytes[at + 24..end]]);
    put(bytes, at + 20, 4, found.into());
}

/// Computes the CRCs of marker, index, sections and footer anew, where they were before any change.
pub fn reseal_tail(bytes: &mut [u8], truth: &Footer) {
    let (index_at, footer_at) = (truth.index_offset as usize, bytes.len() - Footer::LEN);
    let sections_at = index_at + 8 + 8 * truth.record_count as usize;
    let marker = crc(&[&bytes[index_at - 16..index_at - 4]]);
    put(bytes, index_at - 4, 4, marker.into());
    let index = crc(&[&bytes[index_at..sections_at]]);
    put(bytes, footer_at + 32, 4, index.into());
    let sections = crc(&[&bytes[sections_at..footer_at]]);
    put(bytes, footer_at + 36, 4, sections.into());
    let footer = crc(&[&bytes[footer_at..footer_at + 52], &bytes[footer_at + 56..]]);
    put(bytes, footer_at + 52, 4, footer.into());
}

//! Tail of a pack: end marker, index, sections, footer.

use serde::Serialize;

use crate::codec::{GZIP_LEVEL, Method, ZSTD_LEVEL};
use crate::error::Error;
use crate::layout::{
    EndMarker, Features, Footer, Index, SectionFlags, SectionHeader, SectionKind, crc, pad_to_8,
};
use crate::write::{Directory, PackEncoder, PackSummary, WriteOptions};

/// Average size of records from which an entry directory pays, for reading one entry alone.
const DIRECTORY_RECORD_BYTES: u64 = 1 << 20;

/// Facts of the writer (section 2).
#[derive(Debug, Serialize)]
struct Facts<'a> {
    format: &'static str,
    writer: &'static str,
    compression: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<i32>,
    chunk_bytes: usize,
    align_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<&'a str>,
}

impl PackEncoder {
    /// Appends everything after the records.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<PackSummary, Error> {
        let order = key_order(&self.hashes);
        let keys_unique = order.windows(2).all(|pair| match pair {
            [(a, _), (b, _)] => a != b,
            _ => true,
        });
        self.key_digest.update(&self.keys);
        let key_digest = *self.key_digest.finalize().as_bytes();

        let mut sections = Sections::default();
        if let Some(metadata) = &self.options.metadata {
            sections.push(SectionKind::UserMetadata, metadata);
        }
        sections.push(SectionKind::WriterFacts, &json(&facts(&self.options))?);
        sections.push(SectionKind::KeyHashes, &numbers(self.hashes.iter().copied()));
        sections.push(SectionKind::KeyOrder, &encode_order(&order));
        sections.push(SectionKind::KeyDigest, &[&key_digest, self.options.column.as_bytes()].concat());
        if self.at > DIRECTORY_RECORD_BYTES.saturating_mul(self.offsets.len() as u64) {
            sections.push(SectionKind::EntryDirectory, &self.directory.encode());
        }
        if self.options.digests {
            sections.push(SectionKind::RecordDigests, &self.record_digests);
        }
        sections.push(SectionKind::Statistics, &json(&self.statistics)?);

        let record_count = self.offsets.len() as u64;
        let index = Index { offsets: self.offsets };
        let mut indexed = Vec::new();
        let index_crc = index.encode(&mut indexed);
        let index_size = (indexed.len() + sections.bytes.len()) as u64;
        let tail_size = (EndMarker::LEN + Footer::LEN) as u64 + index_size;
        let mut features = if keys_unique { Features::KEYS_UNIQUE.0 } else { 0 };
        if self.keys_sorted {
            features |= Features::KEYS_SORTED.0;
        }
        if self.options.align_bytes > 8 {
            features |= Features::RECORDS_ALIGNED.0;
        }
        out.reserve(EndMarker::LEN + indexed.len() + sections.bytes.len() + Footer::LEN);
        EndMarker { tail_size }.encode(out);
        out.extend_from_slice(&indexed);
        out.extend_from_slice(&sections.bytes);
        Footer {
            index_offset: self.at + EndMarker::LEN as u64,
            index_size,
            record_count,
            file_size: self.at + tail_size,
            index_crc,
            sections_crc: crc(&[&sections.bytes]),
            version_minor: Footer::VERSION_MINOR,
            features: Features(features),
        }
        .encode(out);
        Ok(PackSummary { bytes: self.at + tail_size, key_digest, keys_unique, statistics: self.statistics })
    }
}

/// Sections one after another.
#[derive(Debug, Default)]
struct Sections {
    bytes: Vec<u8>,
}

impl Sections {
    fn push(&mut self, kind: SectionKind, payload: &[u8]) {
        let (payload_len, payload_crc) = (payload.len() as u64, crc(&[payload]));
        let flags = SectionFlags::default();
        SectionHeader { kind, flags, payload_len, payload_crc }.encode(&mut self.bytes);
        self.bytes.extend_from_slice(payload);
        pad_to_8(&mut self.bytes);
    }
}

/// Hashes with the number of their record, sorted. Hashes are spread evenly, so they are dealt to as many places as there
/// are records first; what is left to sort is one or two to a place.
fn key_order(hashes: &[u64]) -> Vec<(u64, u64)> {
    let bits = (usize::BITS - hashes.len().leading_zeros()).clamp(1, 24);
    let place_of = |hash: u64| usize::try_from(hash >> (u64::BITS - bits)).unwrap_or(usize::MAX);
    let mut starts = vec![0_usize; (1 << bits) + 1];
    for &hash in hashes {
        if let Some(count) = starts.get_mut(place_of(hash) + 1) {
            *count += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    let mut order = vec![(0, 0); hashes.len()];
    for (&hash, ordinal) in hashes.iter().zip(0..) {
        if let Some(next) = starts.get_mut(place_of(hash)) {
            if let Some(place) = order.get_mut(*next) {
                *place = (hash, ordinal);
            }
            *next += 1;
        }
    }
    // Now each start is where the next place starts.
    let mut start = 0;
    for end in starts {
        if let Some(run) = order.get_mut(start..end).filter(|run| run.len() > 1) {
            run.sort_unstable();
        }
        start = end.max(start);
    }
    order
}

fn encode_order(order: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * order.len());
    for (_, ordinal) in order {
        match u32::try_from(*ordinal) {
            Ok(ordinal) if order.len() as u64 <= u64::from(u32::MAX) => {
                bytes.extend_from_slice(&ordinal.to_le_bytes());
            }
            _ => bytes.extend_from_slice(&ordinal.to_le_bytes()),
        }
    }
    bytes
}

impl Directory {
    /// Counts of entries and frames; first entry of each record and the count again; header of each entry; first frame
    /// of each entry and the count again; content and stored offset of each frame.
    fn encode(&self) -> Vec<u8> {
        let entry_count = self.headers.len() as u64;
        let frame_count: u64 = self.frames.iter().map(|(_, frames)| frames.len() as u64).sum();
        let mut first_frames = Vec::with_capacity(self.headers.len() + 1);
        let mut chunked = self.frames.iter().peekable();
        let mut next = 0;
        for entry in 0..entry_count {
            first_frames.push(next);
            if let Some((_, frames)) = chunked.next_if(|(number, _)| *number == entry) {
                next += frames.len() as u64;
            }
        }
        first_frames.push(next);
        let frames = self.frames.iter().flat_map(|(_, frames)| frames);
        let all = [entry_count, frame_count]
            .into_iter()
            .chain(self.first_entries.iter().copied())
            .chain([entry_count])
            .chain(self.headers.iter().copied())
            .chain(first_frames)
            .chain(frames.flat_map(|frame| [frame.content_at, frame.stored_at]));
        numbers(all)
    }
}

fn numbers(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * numbers.size_hint().0);
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn facts(options: &WriteOptions) -> Facts<'_> {
    Facts {
        format: "1.0",
        writer: concat!("shardpack ", env!("CARGO_PKG_VERSION")),
        compression: options.compression.name(),
        level: match options.compression {
            Method::Gzip => i32::try_from(GZIP_LEVEL).ok(),
            Method::Zstd | Method::Auto => Some(ZSTD_LEVEL),
            Method::None | Method::Lz4 => None,
        },
        chunk_bytes: options.chunk_bytes,
        align_bytes: options.align_bytes,
        group: options.group.as_deref(),
        created: options.created.as_deref(),
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::invalid(error.to_string()))
}

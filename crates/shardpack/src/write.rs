//! Writer: records in, bytes of a pack out. It neither seeks nor holds more than one record; what the index needs of
//! each record are some twenty bytes.
//!
//! A record's bytes depend on the sample and the options alone: no number, position, time or earlier record is in them,
//! so an edit changes the bytes around it and no others.

mod block;
mod tail;

pub(crate) use block::encode_block;
pub use block::{EntryDraft, RecordDraft};

use block::EntryPlace;

use serde::Serialize;
use twox_hash::XxHash3_64;

use crate::codec::{Frame, Method};
use crate::error::Error;
use crate::layout::ALIGN_BYTES_MAX;
use crate::record::{RecordRef, Verify};

/// Options of a writer.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Compression of entries that name none.
    pub compression: Method,
    /// Longer content is compressed in frames of this many bytes, so that reading may begin at any of them; 0 is never.
    pub chunk_bytes: usize,
    /// Data and records begin at multiples of this: a power of two from 8 to 4096.
    pub align_bytes: u64,
    /// Metadata of the user: one JSON object.
    pub metadata: Option<Vec<u8>>,
    /// The column this pack is of, where a dataset has several.
    pub column: String,
    /// Adds a BLAKE3 digest of every record.
    pub digests: bool,
    /// Text for the writer facts that says when the pack was made. Without it, equal input gives equal packs.
    pub created: Option<String>,
    /// How files became records: `extract` restores their names from it.
    pub group: Option<String>,
    /// A record of more bytes is refused.
    pub record_bytes_max: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            compression: Method::None,
            chunk_bytes: 4 << 20,
            align_bytes: 8,
            metadata: None,
            column: String::new(),
            digests: false,
            created: None,
            group: None,
            record_bytes_max: 1 << 30,
        }
    }
}

impl WriteOptions {
    fn check(&self) -> Result<(), Error> {
        if !self.align_bytes.is_power_of_two() || !(8..=ALIGN_BYTES_MAX).contains(&self.align_bytes) {
            let found = self.align_bytes;
            return Err(Error::invalid(format!(
                "alignment should be a power of two from 8 to 4096, found {found}"
            )));
        }
        if let Some(metadata) = &self.metadata {
            let object: Result<serde_json::Map<String, serde_json::Value>, _> =
                serde_json::from_slice(metadata);
            object.map_err(|error| {
                Error::invalid(format!("pack metadata should be one JSON object: {error}"))
            })?;
        }
        Ok(())
    }
}

/// Makes a pack from records, in one pass. Bytes are appended to a buffer that the caller empties when it likes.
#[derive(Debug)]
pub struct PackEncoder {
    options: WriteOptions,
    /// Offset of the next record.
    at: u64,
    offsets: Vec<u64>,
    hashes: Vec<u64>,
    /// Keys not yet in the digest: hashing many at once is much cheaper.
    keys: Vec<u8>,
    key_digest: blake3::Hasher,
    record_digests: Vec<u8>,
    last_key: String,
    keys_sorted: bool,
    directory: Directory,
    statistics: Statistics,
    /// Offsets of the entries of the last record; the buffer is reused.
    places: Vec<EntryPlace>,
}

/// Entry directory (section 6): offsets of entries and their frames.
#[derive(Debug, Default)]
struct Directory {
    /// For each record, the number of its first entry.
    first_entries: Vec<u64>,
    /// For each entry, where its header begins in its record.
    headers: Vec<u64>,
    /// For entries of several frames: number of the entry, frames.
    frames: Vec<(u64, Vec<Frame>)>,
}

/// Statistics (section 8).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Records.
    pub records: u64,
    /// Entries of all records.
    pub entries: u64,
    /// Bytes of their contents.
    pub payload_bytes: u64,
    /// Bytes they are stored in.
    pub stored_bytes: u64,
    /// The same by entry name and content type, in the order of their first appearance.
    pub names: Vec<NameStatistics>,
}

/// The entries of one name and content type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NameStatistics {
    /// Entry name; empty with an empty type where more names were met than are counted one by one.
    pub name: String,
    /// Content type.
    pub content_type: String,
    /// Entries.
    pub count: u64,
    /// Bytes of their contents.
    pub payload_bytes: u64,
    /// Bytes they are stored in.
    pub stored_bytes: u64,
}

/// Summary of a finished pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSummary {
    /// Bytes of the whole pack.
    pub bytes: u64,
    /// Digest of all keys.
    pub key_digest: [u8; 32],
    /// No key occurs twice.
    pub keys_unique: bool,
    /// Sums over the pack.
    pub statistics: Statistics,
}

impl PackEncoder {
    /// Begins a pack.
    pub fn new(options: WriteOptions) -> Result<Self, Error> {
        options.check()?;
        Ok(Self {
            options,
            at: 0,
            offsets: Vec::new(),
            hashes: Vec::new(),
            keys: Vec::new(),
            key_digest: blake3::Hasher::new(),
            record_digests: Vec::new(),
            last_key: String::new(),
            keys_sorted: true,
            directory: Directory::default(),
            statistics: Statistics::default(),
            places: Vec::new(),
        })
    }

    /// Records so far.
    pub(crate) fn record_count(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Bytes the pack would have if it were finished now, within a kilobyte or two.
    pub(crate) fn bytes_if_finished(&self) -> u64 {
        let each = if self.options.digests { 52 } else { 20 };
        self.at + self.record_count() * each + 1024
    }

    /// Encodes a record and appends its bytes.
    pub fn push(&mut self, draft: &RecordDraft<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let mut places = std::mem::take(&mut self.places);
        let encoded = block::encode_noted(draft, &self.options, &mut places, out);
        let noted = encoded.and_then(|frames| {
            self.index_record(draft.key, out.get(start..).unwrap_or_default(), frames)?;
            for (number, (entry, place)) in draft.entries.iter().zip(&places).enumerate() {
                self.directory.headers.push(place.header_at);
                let (payload, stored) = (entry.data.len() as u64, place.stored_bytes);
                self.statistics.add_entry(number, entry.name, entry.content_type, payload, stored);
            }
            Ok(())
        });
        self.places = places;
        noted
    }

    /// Appends a record as it is, byte for byte: from another pack, or from [`encode_block`]. Every CRC is compared first
    /// when `verify` says so. `frames` are those of its chunked entries, by the entry's number in the record.
    pub(crate) fn push_block(
        &mut self,
        block: &[u8],
        verify: Verify,
        frames: Vec<(u32, Vec<Frame>)>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let record = RecordRef::parse(block, self.at, verify)?;
        record.check()?;
        if self.options.align_bytes > 8 && !(block.len() as u64).is_multiple_of(self.options.align_bytes) {
            let align = self.options.align_bytes;
            let why =
                format!("the record is not padded to {align} bytes; write it anew instead of copying it");
            return Err(Error::invalid(why).in_record(record.key()));
        }
        self.index_record(record.key(), block, frames)?;
        for (number, entry) in record.entries().enumerate() {
            let entry = entry?;
            self.directory.headers.push(entry.header_offset() - record.offset());
            let (payload, stored) = (entry.file_size(), entry.stored().len() as u64);
            self.statistics.add_entry(number, entry.name(), entry.content_type(), payload, stored);
        }
        out.extend_from_slice(block);
        Ok(())
    }

    /// Adds a record to the index; its entries come after it.
    fn index_record(&mut self, key: &str, block: &[u8], frames: Vec<(u32, Vec<Frame>)>) -> Result<(), Error> {
        self.keys_sorted &= self.offsets.is_empty() || self.last_key.as_bytes() <= key.as_bytes();
        self.last_key.clear();
        self.last_key.push_str(key);
        self.offsets.push(self.at);
        self.hashes.push(XxHash3_64::oneshot(key.as_bytes()));
        let key_len =
            u32::try_from(key.len()).map_err(|_| Error::invalid("a key has at most 65,535 bytes"))?;
        self.keys.extend_from_slice(&key_len.to_le_bytes());
        self.keys.extend_from_slice(key.as_bytes());
        if self.keys.len() >= KEYS_HELD_BYTES {
            self.key_digest.update(&self.keys);
            self.keys.clear();
        }
        if self.options.digests {
            self.record_digests.extend_from_slice(blake3::hash(block).as_bytes());
        }
        let first = self.directory.headers.len() as u64;
        self.directory.first_entries.push(first);
        self.statistics.records += 1;
        for (number, frames) in frames {
            self.directory.frames.push((first + u64::from(number), frames));
        }
        self.at += block.len() as u64;
        Ok(())
    }
}

impl Statistics {
    /// Counts the entry that stands at `place` in its record.
    fn add_entry(&mut self, place: usize, name: &str, content_type: &str, payload: u64, stored: u64) {
        self.entries += 1;
        self.payload_bytes = self.payload_bytes.saturating_add(payload);
        self.stored_bytes += stored;
        let is_it = |known: &NameStatistics| known.name == name && known.content_type == content_type;
        // Most samples have the same entries in the same order.
        let known = match self.names.get(place) {
            Some(known) if is_it(known) => Some(place),
            _ => self.names.iter().position(is_it),
        };
        let index = known.unwrap_or_else(|| {
            let new = if self.names.len() < NAMES_MAX {
                NameStatistics { name: name.into(), content_type: content_type.into(), ..Default::default() }
            } else {
                NameStatistics::default()
            };
            match self
                .names
                .iter()
                .position(|known| known.name == new.name && known.content_type == new.content_type)
            {
                Some(index) => index,
                None => {
                    self.names.push(new);
                    self.names.len() - 1
                }
            }
        });
        if let Some(names) = self.names.get_mut(index) {
            names.count += 1;
            names.payload_bytes = names.payload_bytes.saturating_add(payload);
            names.stored_bytes += stored;
        }
    }
}

/// Keys are hashed when there are this many bytes of them.
const KEYS_HELD_BYTES: usize = 16 << 10;

/// Distinct names and types that are counted one by one.
const NAMES_MAX: usize = 200;

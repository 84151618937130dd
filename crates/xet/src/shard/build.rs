//! Writes shards: collects files and xorbs, sorts them, and encodes them in any form.

use std::collections::BTreeMap;

use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{FileHash, Hash, HashKey, XorbHash};
use crate::limits;
use crate::shard::footer::{ChunkTableEntry, Footer, TableEntry};
use crate::shard::row::{
    BOOKEND_HASH, CHUNK_DEDUP_ELIGIBLE, FILE_WITH_METADATA, FILE_WITH_VERIFICATION, FileHead, Header,
    ROW_LEN, Row, XorbHead,
};
use crate::shard::tables::{LookupTables, Tables};
use crate::shard::{FileEntry, XorbEntry};

/// Form of a shard: what surrounds the two sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// As clients send it: nothing.
    Upload,
    /// As stores keep it and dedup answers carry it: tables and a footer.
    Stored(StoredOptions),
}

/// Fields of a footer that do not follow from the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOptions {
    /// Which tables to write.
    pub tables: LookupTables,
    /// The key that chunk hashes *are* keyed with; encoding does not key them, see [`crate::shard::dedup_response`].
    pub key: HashKey,
    /// When the shard was made, Unix seconds; 0 when it is unknown.
    pub created_s: u64,
    /// After this Unix second the shard is no longer to be used.
    pub expires_s: u64,
}

impl StoredOptions {
    /// All tables, no key, no date, for ever: a shard in a store.
    pub const LOCAL: Self =
        Self { tables: LookupTables::ALL, key: HashKey::ZERO, created_s: 0, expires_s: u64::MAX };
}

/// Collects what goes into one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardBuilder {
    files: BTreeMap<FileHash, FileEntry>,
    xorbs: BTreeMap<XorbHash, XorbEntry>,
    rows: u64,
}

impl ShardBuilder {
    /// Adds a file; `false` when one of that hash is there already, which stays.
    pub fn push_file(&mut self, file: FileEntry) -> bool {
        let rows = file.rows();
        let is_new = insert_first(&mut self.files, file.hash, file);
        self.rows += if is_new { rows } else { 0 };
        is_new
    }

    /// Adds a xorb; `false` when one of that hash is there already, which stays.
    pub fn push_xorb(&mut self, xorb: XorbEntry) -> bool {
        let rows = xorb.rows();
        let is_new = insert_first(&mut self.xorbs, xorb.hash, xorb);
        self.rows += if is_new { rows } else { 0 };
        is_new
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.xorbs.is_empty()
    }

    /// Bytes of the shard as an upload: header, sections, bookends.
    pub fn upload_bytes(&self) -> u64 {
        (self.rows + FRAME_ROWS) * ROW_LEN as u64
    }

    /// Marks the chunks that begin a file as eligible for global dedup, as servers do before they store a shard.
    pub fn flag_file_starts(&mut self) {
        for first in self.files.values().filter_map(|file| file.terms.first()) {
            let xorb = self.xorbs.get_mut(&first.xorb);
            let chunk = usize::try_from(first.chunks.start).ok();
            if let Some(chunk) = xorb.zip(chunk).and_then(|(xorb, n)| xorb.chunks.get_mut(n)) {
                chunk.flags |= CHUNK_DEDUP_ELIGIBLE;
            }
        }
    }

    /// Takes the range hashes out of every file.
    pub fn drop_verification(&mut self) {
        for file in self.files.values_mut() {
            let hashes = file.verification.take().map_or(0, |hashes| hashes.len());
            self.rows -= hashes as u64;
        }
    }

    /// Leaves out the SHA-256 of every file.
    pub fn drop_sha256(&mut self) {
        for file in self.files.values_mut() {
            self.rows -= u64::from(file.sha256.take().is_some());
        }
    }

    /// Takes out every file.
    pub fn drop_files(&mut self) {
        self.rows -= self.files.values().map(FileEntry::rows).sum::<u64>();
        self.files.clear();
    }

    /// Replaces every chunk hash by its keyed one. Encode with the same key in the [`StoredOptions`].
    pub fn key_chunks(&mut self, key: &HashKey) {
        for chunk in self.xorbs.values_mut().flat_map(|xorb| &mut xorb.chunks) {
            chunk.hash = chunk.hash.keyed(key);
        }
    }

    /// Everything, sorted by hash.
    pub fn finish(self) -> (Vec<FileEntry>, Vec<XorbEntry>) {
        (self.files.into_values().collect(), self.xorbs.into_values().collect())
    }

    /// The shard's bytes.
    pub fn encode(self, form: &Form) -> Result<Vec<u8>, FormatError> {
        let (files, xorbs) = self.finish();
        encode(&files, &xorbs, form)
    }
}

/// The bytes of a shard of these blocks, in this order. Refuses what no reader would take back; offsets in the error
/// are those the bytes would have had.
pub fn encode(files: &[FileEntry], xorbs: &[XorbEntry], form: &Form) -> Result<Vec<u8>, FormatError> {
    let rows =
        files.iter().map(FileEntry::rows).chain(xorbs.iter().map(XorbEntry::rows)).sum::<u64>() + FRAME_ROWS;
    let bytes = rows.saturating_mul(ROW_LEN as u64);
    let what = "bytes of a shard's sections";
    expect_range(0, what, FRAME_ROWS * ROW_LEN as u64, limits::SHARD_BYTES_MAX, bytes)?;

    let mut out = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    let header = if matches!(form, Form::Upload) { Header::UPLOAD } else { Header::STORED };
    out.extend(header.encode());
    let verified = files.first().is_some_and(|file| file.verification.is_some());
    for file in files {
        encode_file(file, verified, &mut out)?;
    }
    put(&mut out, Row::BOOKEND);
    let xorb_section_offset = out.len() as u64;
    for xorb in xorbs {
        encode_xorb(xorb, &mut out)?;
    }
    put(&mut out, Row::BOOKEND);
    if let Form::Stored(footing) = form {
        encode_footing(files, xorbs, footing, xorb_section_offset, &mut out);
    }
    Ok(out)
}

/// Header and two bookends.
pub(crate) const FRAME_ROWS: u64 = 3;

fn encode_file(file: &FileEntry, verified: bool, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let at = out.len() as u64;
    refuse_bookend(at, file.hash.0)?;
    expect_number(at + 32, "verification flag", u64::from(verified), u64::from(file.verification.is_some()))?;
    let terms = count(at + 36, "number of terms", file.terms.len())?;
    let mut flags = 0;
    if file.verification.is_some() {
        flags |= FILE_WITH_VERIFICATION;
    }
    if file.sha256.is_some() {
        flags |= FILE_WITH_METADATA;
    }
    put(out, FileHead { hash: file.hash, flags, terms }.into());
    for term in &file.terms {
        term.check_range(out.len() as u64)?;
        put(out, term.into());
    }
    if let Some(hashes) = &file.verification {
        expect_number(at + 36, "number of range hashes", u64::from(terms), hashes.len() as u64)?;
        hashes.iter().for_each(|hash| put(out, (*hash).into()));
    }
    if let Some(sha256) = file.sha256 {
        put(out, sha256.into());
    }
    Ok(())
}

fn encode_xorb(xorb: &XorbEntry, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let at = out.len() as u64;
    refuse_bookend(at, xorb.hash.0)?;
    let XorbEntry { hash, flags, raw_bytes, stored_bytes, .. } = *xorb;
    let chunks = count(at + 36, "number of chunks", xorb.chunks.len())?;
    put(out, XorbHead { hash, flags, chunks, raw_bytes, stored_bytes }.into());
    xorb.chunks.iter().for_each(|chunk| put(out, chunk.into()));
    Ok(())
}

/// Tables, then the footer that knows where they are.
fn encode_footing(
    files: &[FileEntry],
    xorbs: &[XorbEntry],
    footing: &StoredOptions,
    xorb_section_offset: u64,
    out: &mut Vec<u8>,
) {
    let tables = match footing.tables == LookupTables::NONE {
        true => Tables::default(),
        false => Tables::of(files, xorbs).chosen(footing.tables),
    };
    let file_table_offset = out.len() as u64;
    let (file_table_entries, xorb_table_entries) = (tables.files.len() as u64, tables.xorbs.len() as u64);
    let chunk_table_entries = tables.chunks.len() as u64;
    let xorb_table_offset = file_table_offset + file_table_entries * TableEntry::LEN as u64;
    let chunk_table_offset = xorb_table_offset + xorb_table_entries * TableEntry::LEN as u64;
    let footer_offset = chunk_table_offset + chunk_table_entries * ChunkTableEntry::LEN as u64;

    tables.files.iter().chain(&tables.xorbs).for_each(|entry| entry.encode(out));
    tables.chunks.iter().for_each(|entry| entry.encode(out));
    Footer {
        file_section_offset: ROW_LEN as u64,
        xorb_section_offset,
        file_table_offset,
        file_table_entries,
        xorb_table_offset,
        xorb_table_entries,
        chunk_table_offset,
        chunk_table_entries,
        key: footing.key,
        created_s: footing.created_s,
        expires_s: footing.expires_s,
        xorbs_stored_bytes: xorbs.iter().map(|xorb| u64::from(xorb.stored_bytes)).sum(),
        files_raw_bytes: files.iter().map(FileEntry::raw_bytes).sum(),
        xorbs_raw_bytes: xorbs.iter().map(|xorb| u64::from(xorb.raw_bytes)).sum(),
        footer_offset,
    }
    .encode(out);
}

fn put(out: &mut Vec<u8>, row: Row) {
    out.extend(row.encode());
}

fn count(at: u64, what: &'static str, len: usize) -> Result<u32, FormatError> {
    let max = u64::from(u32::MAX);
    u32::try_from(len).map_err(|_| FormatError::Range { at, what, min: 0, max, found: len as u64 })
}

/// A block under the bookend's hash would end its section.
fn refuse_bookend(at: u64, hash: Hash) -> Result<(), FormatError> {
    match hash == BOOKEND_HASH {
        false => Ok(()),
        true => Err(FormatError::Payload { at, reason: "a block may not have the hash of a bookend".into() }),
    }
}

fn insert_first<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    use std::collections::btree_map::Entry;
    match map.entry(key) {
        Entry::Vacant(slot) => {
            slot.insert(value);
            true
        }
        Entry::Occupied(_) => false,
    }
}

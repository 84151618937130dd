//! Shards: what files are made of, and what xorbs hold.
//!
//! | offset                |               size | part                                 |
//! |-----------------------|-------------------:|--------------------------------------|
//! | 0                     |                 48 | header                               |
//! | 48                    |   48 for every row | file section: blocks, then a bookend |
//! | `xorb_section_offset` |   48 for every row | xorb section: blocks, then a bookend |
//! | `file_table_offset`   | 12 for every entry | file table, may be absent            |
//! | `xorb_table_offset`   | 12 for every entry | xorb table, may be absent            |
//! | `chunk_table_offset`  | 16 for every entry | chunk table, may be absent           |
//! | `footer_offset`       |                200 | footer, with the offsets above       |
//!
//! An *uploaded* shard ends after the xorb section. Its header may still announce a footer that does not exist, so a
//! reader goes by the second bookend and never by the header: [`Shard::parse_upload`]. A *stored* shard has a footer,
//! and everything the footer says is checked: [`Shard::parse_stored`]. A *dedup answer* is a stored shard without files
//! whose chunk hashes are keyed.
//!
//! [`row`] and [`footer`] are the bytes; [`build`] writes; `parse` reads; [`lookup`] finds one block without reading
//! everything; [`dedup_response`] makes dedup answers; [`check`] compares a shard with what follows from its content.

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use build::{Form, ShardBuilder, StoredOptions};
pub use check::{FileProof, verify_stored, verify_upload};
pub use footer::{ChunkTableEntry, Footer, TableEntry};
pub use lookup::{DedupMatch, ShardView};
pub use row::Header;
pub use tables::{LookupTables, Tables};

use crate::hash::{ChunkHash, FileHash, RangeHash, Sha256, XorbHash};
use row::ROW_LEN;

pub mod build;
pub mod check;
pub mod dedup_response;
pub mod footer;
pub mod lookup;
mod parse;
pub mod row;
pub mod tables;
#[cfg(test)]
mod tests;

/// A run of chunks of one xorb: one part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// The xorb the chunks are in.
    pub xorb: XorbHash,
    /// Reserved; kept as found.
    pub flags: u32,
    /// Raw bytes of the chunks together.
    pub raw_bytes: u32,
    /// Which chunks, by their number in the xorb.
    pub chunks: Range<u32>,
}

/// One file: the terms that make it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Names the file; zeros for the empty one.
    pub hash: FileHash,
    /// The terms, in file order; none for an empty file.
    pub terms: Vec<Term>,
    /// One range hash for each term. Either all files of a shard have them or none.
    pub verification: Option<Vec<RangeHash>>,
    /// The digest of the file's bytes, as its uploader says.
    pub sha256: Option<Sha256>,
}

impl FileEntry {
    /// Rows of the block: header, terms, range hashes, metadata.
    pub fn rows(&self) -> u64 {
        let hashes = self.verification.as_ref().map_or(0, Vec::len);
        1 + self.terms.len() as u64 + hashes as u64 + u64::from(self.sha256.is_some())
    }

    /// Raw bytes of the file, by its terms. Cannot overflow: a shard has fewer than 2^32 terms.
    pub fn raw_bytes(&self) -> u64 {
        self.terms.iter().map(|term| u64::from(term.raw_bytes)).sum()
    }
}

/// One chunk of a xorb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkEntry {
    /// Names the chunk; keyed in a dedup answer.
    pub hash: ChunkHash,
    /// Raw bytes of the xorb before this chunk.
    pub raw_start: u32,
    /// Raw bytes of this chunk.
    pub raw_bytes: u32,
    /// `row::CHUNK_DEDUP_ELIGIBLE` and reserved bits; kept as found.
    #[serde(default)]
    pub flags: u32,
}

/// One xorb: the chunks it holds, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XorbEntry {
    /// Names the xorb. Never keyed.
    pub hash: XorbHash,
    /// Reserved; kept as found.
    #[serde(default)]
    pub flags: u32,
    /// Raw bytes of all chunks.
    pub raw_bytes: u32,
    /// Bytes of the xorb as stored. Genuine clients write 0: never rely on it.
    pub stored_bytes: u32,
    /// The chunks, in xorb order.
    pub chunks: Vec<ChunkEntry>,
}

impl XorbEntry {
    /// Rows of the block: header, chunks.
    pub(crate) fn rows(&self) -> u64 {
        1 + self.chunks.len() as u64
    }
}

/// A parsed shard, in the order of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// The first row.
    pub header: Header,
    /// The file section.
    pub files: Vec<FileEntry>,
    /// The xorb section.
    pub xorbs: Vec<XorbEntry>,
    /// The lookup tables, where there are any.
    pub tables: Option<Tables>,
    /// The footer, where there is one.
    pub footer: Option<Footer>,
}

impl Shard {
    /// Encodes the same content in the same form, in the same order, with tables and totals worked out anew.
    pub fn encode(&self) -> Result<Vec<u8>, crate::FormatError> {
        build::encode(&self.files, &self.xorbs, &self.form())
    }

    /// The form these bytes had.
    pub fn form(&self) -> Form {
        let Some(footer) = &self.footer else { return Form::Upload };
        let tables = self.tables.as_ref().map_or(LookupTables::NONE, |tables| LookupTables {
            files: !tables.files.is_empty(),
            xorbs: !tables.xorbs.is_empty(),
            chunks: !tables.chunks.is_empty(),
        });
        Form::Stored(StoredOptions {
            tables,
            key: footer.key,
            created_s: footer.created_s,
            expires_s: footer.expires_s,
        })
    }

    /// Every file with the offset of its block.
    pub(crate) fn files_at(&self) -> impl Iterator<Item = (u64, &FileEntry)> {
        self.files.iter().scan(ROW_LEN as u64, |at, file| {
            let start = *at;
            *at += file.rows() * ROW_LEN as u64;
            Some((start, file))
        })
    }

    /// Every xorb with the offset of its block.
    pub fn xorbs_at(&self) -> impl Iterator<Item = (u64, &XorbEntry)> {
        // Two rows besides the files: the header and the first bookend.
        let before = 2 + self.files.iter().map(FileEntry::rows).sum::<u64>();
        self.xorbs.iter().scan(before * ROW_LEN as u64, |at, xorb| {
            let start = *at;
            *at += xorb.rows() * ROW_LEN as u64;
            Some((start, xorb))
        })
    }

    /// End of the sections: the upload form ends there, tables and footer of the stored form begin there.
    pub fn sections_end(&self) -> u64 {
        let files = self.files.iter().map(FileEntry::rows).sum::<u64>();
        let xorbs = self.xorbs.iter().map(XorbEntry::rows).sum::<u64>();
        (build::FRAME_ROWS + files + xorbs) * ROW_LEN as u64
    }
}

//! The rows of a shard, 48 bytes each: a hash and four 32-bit words, little-endian.
//!
//! # Header
//!
//! | offset | size | field                                   |
//! |-------:|-----:|-----------------------------------------|
//! |      0 |   14 | application, `HFRepoMetaData`           |
//! |     14 |    1 | zero                                    |
//! |     15 |   17 | magic sequence                          |
//! |     32 |    8 | version, 2                              |
//! |     40 |    8 | footer size: 200, or 0 without a footer |
//!
//! # File
//!
//! | offset | size | field                                       |
//! |-------:|-----:|---------------------------------------------|
//! |      0 |   32 | file hash                                   |
//! |     32 |    4 | flags: bit 31 verification, bit 30 metadata |
//! |     36 |    4 | number of terms                             |
//! |     40 |    8 | reserved, zero                              |
//!
//! # Term
//!
//! | offset | size | field                 |
//! |-------:|-----:|-----------------------|
//! |      0 |   32 | xorb hash             |
//! |     32 |    4 | flags, reserved       |
//! |     36 |    4 | raw bytes of the term |
//! |     40 |    4 | first chunk           |
//! |     44 |    4 | chunk after the last  |
//!
//! # Verification
//!
//! | offset | size | field          |
//! |-------:|-----:|----------------|
//! |      0 |   32 | range hash     |
//! |     32 |   16 | reserved, zero |
//!
//! # Metadata
//!
//! | offset | size | field                                   |
//! |-------:|-----:|-----------------------------------------|
//! |      0 |   32 | SHA-256, each group of 8 bytes reversed |
//! |     32 |   16 | reserved, zero                          |
//!
//! # Xorb
//!
//! | offset | size | field                                      |
//! |-------:|-----:|--------------------------------------------|
//! |      0 |   32 | xorb hash                                  |
//! |     32 |    4 | flags, reserved                            |
//! |     36 |    4 | number of chunks                           |
//! |     40 |    4 | raw bytes of the xorb                      |
//! |     44 |    4 | stored bytes of the xorb, 0 when not known |
//!
//! # Chunk
//!
//! | offset | size | field                                   |
//! |-------:|-----:|-----------------------------------------|
//! |      0 |   32 | chunk hash, keyed in a dedup answer     |
//! |     32 |    4 | raw bytes before the chunk              |
//! |     36 |    4 | raw bytes of the chunk                  |
//! |     40 |    4 | flags: bit 31 eligible for global dedup |
//! |     44 |    4 | reserved, zero                          |
//!
//! # Bookend
//!
//! | offset | size | field          |
//! |-------:|-----:|----------------|
//! |      0 |   32 | every byte 255 |
//! |     32 |   16 | zero           |

use crate::cursor::Reader;
use crate::error::{FormatError, expect_range};
use crate::hash::{ChunkHash, FileHash, Hash, RangeHash, Sha256, XorbHash};
use crate::shard::{ChunkEntry, Term, XorbEntry};

/// Bytes of every row, the header included.
pub const ROW_LEN: usize = 48;

/// Bytes of the footer of a stored shard.
pub(crate) const FOOTER_LEN: usize = 200;

/// Application tag. Known clients compare it with the rest of the tag, so ours must say the same.
pub const APPLICATION: [u8; 14] = *b"HFRepoMetaData";

/// Ends the tag of every shard, whatever the application.
pub const MAGIC: [u8; 17] =
    [0x55, 0x69, 0x67, 0x45, 0x6a, 0x7b, 0x81, 0x57, 0x83, 0xa5, 0xbd, 0xd9, 0x5c, 0xcd, 0xd1, 0x4a, 0xa9];

/// The only header version.
pub(crate) const HEADER_VERSION: u64 = 2;

/// A file's terms are followed by as many range hashes.
pub const FILE_WITH_VERIFICATION: u32 = 1 << 31;
/// A file's block ends with its SHA-256.
pub const FILE_WITH_METADATA: u32 = 1 << 30;
/// A chunk may be queried in global dedup.
pub(crate) const CHUNK_DEDUP_ELIGIBLE: u32 = 1 << 31;

/// The hash that ends a section. No block may carry it.
pub(crate) const BOOKEND_HASH: Hash = Hash::new([0xff; 32]);

/// The header, as far as it can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Footer size as stated in the header. True in stored shards only: some clients announce a footer they do not send.
    pub footer_bytes: u64,
}

impl Header {
    /// The header of a shard with a footer.
    pub(crate) const STORED: Self = Self { footer_bytes: FOOTER_LEN as u64 };
    /// The header of a shard without a footer.
    pub const UPLOAD: Self = Self { footer_bytes: 0 };

    /// Parses the header at the reader's position.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        let ident = |at, what, expected: &[u8], found: &[u8]| match expected == found {
            true => Ok(()),
            false => {
                Err(FormatError::Ident { at, what, expected: printable(expected), found: printable(found) })
            }
        };

        ident(r.offset(), "shard application", &APPLICATION, &r.array::<14>("shard header")?)?;
        ident(r.offset(), "byte after the application", &[0], &r.array::<1>("shard header")?)?;
        ident(r.offset(), "shard magic", &MAGIC, &r.array::<17>("shard header")?)?;
        let at = r.offset();
        let version = r.u64("shard header")?;
        if version != HEADER_VERSION {
            let what = "shard header";
            return Err(FormatError::Version { at, what, expected: HEADER_VERSION, found: version });
        }
        Ok(Self { footer_bytes: r.u64("shard header")? })
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; ROW_LEN] {
        let mut out = [0; ROW_LEN];
        let (application, rest) = out.split_at_mut(APPLICATION.len());
        let (zero_and_magic, rest) = rest.split_at_mut(1 + MAGIC.len());
        let (version, footer_bytes) = rest.split_at_mut(8);
        application.copy_from_slice(&APPLICATION);
        zero_and_magic.split_at_mut(1).1.copy_from_slice(&MAGIC);
        version.copy_from_slice(&HEADER_VERSION.to_le_bytes());
        footer_bytes.copy_from_slice(&self.footer_bytes.to_le_bytes());
        out
    }
}

/// A row of 48 bytes, before its meaning is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The first 32 bytes.
    pub hash: Hash,
    /// The last 16 bytes.
    pub words: [u32; 4],
}

impl Row {
    /// Ends a section.
    pub(crate) const BOOKEND: Self = Self { hash: BOOKEND_HASH, words: [0; 4] };

    /// Takes a row apart; any bytes are one.
    pub(crate) fn parse(bytes: &[u8; ROW_LEN]) -> Self {
        let (hash, _) = bytes.split_first_chunk::<32>().expect("48 is more than 32");
        let mut words = [0; 4];
        let (quads, _) = bytes.as_chunks::<4>();
        for (word, quad) in words.iter_mut().zip(quads.iter().skip(8)) {
            *word = u32::from_le_bytes(*quad);
        }
        Self { hash: Hash::new(*hash), words }
    }

    /// The row's bytes.
    pub(crate) fn encode(&self) -> [u8; ROW_LEN] {
        let mut out = [0; ROW_LEN];
        let (hash, words) = out.split_at_mut(32);
        hash.copy_from_slice(self.hash.as_bytes());
        let (quads, _) = words.as_chunks_mut::<4>();
        for (quad, word) in quads.iter_mut().zip(self.words) {
            *quad = word.to_le_bytes();
        }
        out
    }

    /// Whether this ends a section. Its last 16 bytes are not looked at, as with other reserved bytes.
    pub(crate) fn is_bookend(&self) -> bool {
        self.hash == BOOKEND_HASH
    }
}

/// Opens the block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHead {
    /// Names the file.
    pub hash: FileHash,
    /// Which parts follow; other bits are ignored.
    pub flags: u32,
    /// How many terms follow.
    pub terms: u32,
}

impl FileHead {
    /// Whether range hashes follow the terms.
    pub(crate) fn with_verification(&self) -> bool {
        self.flags & FILE_WITH_VERIFICATION != 0
    }

    /// Whether a SHA-256 ends the block.
    pub(crate) fn with_metadata(&self) -> bool {
        self.flags & FILE_WITH_METADATA != 0
    }

    /// Rows after this one. At most twice 2^32 and one: no overflow in 64 bits.
    pub(crate) fn rows_after(&self) -> u64 {
        let per_term = if self.with_verification() { 2 } else { 1 };
        u64::from(self.terms) * per_term + u64::from(self.with_metadata())
    }
}

impl From<Row> for FileHead {
    fn from(Row { hash, words: [flags, terms, ..] }: Row) -> Self {
        Self { hash: FileHash(hash), flags, terms }
    }
}

impl From<FileHead> for Row {
    fn from(head: FileHead) -> Self {
        Self { hash: head.hash.0, words: [head.flags, head.terms, 0, 0] }
    }
}

/// Opens the block of a xorb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct XorbHead {
    /// Names the xorb.
    pub hash: XorbHash,
    /// Reserved.
    pub flags: u32,
    /// How many chunks follow.
    pub chunks: u32,
    /// Raw bytes of all chunks.
    pub raw_bytes: u32,
    /// Bytes of the xorb as stored, or 0.
    pub stored_bytes: u32,
}

impl From<Row> for XorbHead {
    fn from(Row { hash, words: [flags, chunks, raw_bytes, stored_bytes] }: Row) -> Self {
        Self { hash: XorbHash(hash), flags, chunks, raw_bytes, stored_bytes }
    }
}

impl From<XorbHead> for Row {
    fn from(head: XorbHead) -> Self {
        Self { hash: head.hash.0, words: [head.flags, head.chunks, head.raw_bytes, head.stored_bytes] }
    }
}

impl From<XorbHead> for XorbEntry {
    /// The xorb before its chunks: room for them is made as they arrive, never by their announced number.
    fn from(XorbHead { hash, flags, raw_bytes, stored_bytes, .. }: XorbHead) -> Self {
        Self { hash, flags, raw_bytes, stored_bytes, chunks: Vec::new() }
    }
}

impl Term {
    /// Reads a term from its row, which stands at `at`.
    pub(crate) fn parse(
        at: u64,
        Row { hash, words: [flags, raw_bytes, start, end] }: Row,
    ) -> Result<Self, FormatError> {
        let term = Self { xorb: XorbHash(hash), flags, raw_bytes, chunks: start..end };
        term.check_range(at)?;
        Ok(term)
    }

    /// A term has at least one chunk.
    pub(crate) fn check_range(&self, at: u64) -> Result<(), FormatError> {
        let min = u64::from(self.chunks.start) + 1;
        expect_range(at + 44, "end of a term's chunks", min, u64::from(u32::MAX), u64::from(self.chunks.end))
    }
}

impl From<&Term> for Row {
    fn from(term: &Term) -> Self {
        Self { hash: term.xorb.0, words: [term.flags, term.raw_bytes, term.chunks.start, term.chunks.end] }
    }
}

impl From<Row> for ChunkEntry {
    fn from(Row { hash, words: [raw_start, raw_bytes, flags, _] }: Row) -> Self {
        Self { hash: ChunkHash(hash), raw_start, raw_bytes, flags }
    }
}

impl From<&ChunkEntry> for Row {
    fn from(chunk: &ChunkEntry) -> Self {
        Self { hash: chunk.hash.0, words: [chunk.raw_start, chunk.raw_bytes, chunk.flags, 0] }
    }
}

impl From<RangeHash> for Row {
    fn from(range: RangeHash) -> Self {
        Self { hash: range.0, words: [0; 4] }
    }
}

impl From<Sha256> for Row {
    fn from(sha256: Sha256) -> Self {
        Self { hash: Hash::new(sha256.to_field()), words: [0; 4] }
    }
}

fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

//! Packer: the chunks of files become terms, new chunks become xorbs, and shard entries list both.
//!
//! [`FilePacker`] takes the chunks of one file, each with its location, and joins them to terms. A location may be a xorb
//! that is still being filled and has no hash: [`PackedFile::into_entry`] puts the hashes in afterwards. [`Packer`] fills one
//! xorb after another with the chunks that no xorb has yet. Programs that fill several xorbs at once find locations of their own.

use std::collections::HashMap;
use std::ops::Range;

use crate::compress::Policy;
use crate::hash::{ChunkHash, FileHash, RangeHash, Sha256, XorbHash};
use crate::limits;
use crate::merkle::MerkleBuilder;
use crate::shard::{ChunkEntry, FileEntry, ShardBuilder, Term, XorbEntry};
use crate::xorb::{BuildError, Form, SealedXorb, XorbBuilder, XorbInfo};

/// The xorb that holds a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XorbRef {
    /// A xorb of this work, by its number; its hash is known once it is sealed.
    New(u64),
    /// A xorb that was stored before.
    Stored(XorbHash),
}

/// A xorb, and the number of a chunk in it.
pub type ChunkLocation = (XorbRef, u32);

/// A run of chunks of one xorb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedTerm {
    /// The xorb that holds them.
    pub xorb: XorbRef,
    /// Chunk numbers in the xorb, or in the part of it that the number stands for.
    pub chunks: Range<u32>,
    /// Raw bytes of the chunks together.
    pub raw_bytes: u32,
    /// Hash over the hashes of the chunks.
    pub hash: RangeHash,
}

/// A file, all of whose chunks have a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedFile {
    /// Raw bytes of the file.
    pub bytes: u64,
    /// Hash of the file.
    pub hash: FileHash,
    /// Terms in file order; none for an empty file.
    pub terms: Vec<PackedTerm>,
}

impl PackedFile {
    /// Numbers of the new xorbs that hold chunks of the file, ascending.
    pub fn new_xorbs(&self) -> Vec<u64> {
        let new = |term: &PackedTerm| match term.xorb {
            XorbRef::New(number) => Some(number),
            XorbRef::Stored(_) => None,
        };
        let mut numbers: Vec<_> = self.terms.iter().filter_map(new).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether the file has chunks in xorbs that were stored before.
    pub fn has_stored(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.xorb, XorbRef::Stored(_)))
    }

    /// The entry of the file in a shard. `sealed` returns the hash of a new xorb and the place of its first chunk there, which
    /// is not 0 where several numbers became one xorb.
    pub fn into_entry(self, sha256: Option<Sha256>, sealed: impl Fn(u64) -> (XorbHash, u32)) -> FileEntry {
        let verification = Some(self.terms.iter().map(|term| term.hash).collect());
        let resolve = |PackedTerm { xorb, chunks, raw_bytes, .. }| {
            let (xorb, first) = match xorb {
                XorbRef::Stored(hash) => (hash, 0),
                XorbRef::New(number) => sealed(number),
            };
            Term { xorb, flags: 0, raw_bytes, chunks: first + chunks.start..first + chunks.end }
        };
        let terms = self.terms.into_iter().map(resolve).collect();
        FileEntry { hash: self.hash, terms, verification, sha256 }
    }
}

/// Joins the chunks of one file to terms.
#[derive(Debug, Default)]
pub struct FilePacker {
    merkle: MerkleBuilder,
    bytes: u64,
    terms: Vec<PackedTerm>,
    open: Option<OpenTerm>,
}

#[derive(Debug)]
struct OpenTerm {
    xorb: XorbRef,
    chunks: Range<u32>,
    raw_bytes: u32,
    hashes: Vec<ChunkHash>,
}

impl FilePacker {
    /// Whether a chunk at this location would lengthen the last term.
    pub fn continues(&self, location: ChunkLocation) -> bool {
        self.next_location() == Some(location)
    }

    /// The location that would lengthen the last term.
    pub fn next_location(&self) -> Option<ChunkLocation> {
        self.open.as_ref().map(|open| (open.xorb, open.chunks.end))
    }

    /// Adds the next chunk of the file.
    pub fn push(&mut self, location: ChunkLocation, hash: ChunkHash, raw_bytes: u32) {
        self.merkle.push(hash, u64::from(raw_bytes));
        self.bytes += u64::from(raw_bytes);
        if !self.continues(location) {
            self.close_term();
        }
        let (xorb, chunk) = location;
        let open = self.open.get_or_insert_with(|| OpenTerm {
            xorb,
            chunks: chunk..chunk,
            raw_bytes: 0,
            hashes: Vec::new(),
        });
        open.chunks.end += 1;
        open.raw_bytes += raw_bytes;
        open.hashes.push(hash);
    }

    fn close_term(&mut self) {
        if let Some(OpenTerm { xorb, chunks, raw_bytes, hashes }) = self.open.take() {
            self.terms.push(PackedTerm { xorb, chunks, raw_bytes, hash: RangeHash::of(&hashes) });
        }
    }

    /// The file of the chunks pushed so far.
    pub fn finish(mut self) -> PackedFile {
        self.close_term();
        PackedFile { bytes: self.bytes, hash: self.merkle.finish_file(), terms: self.terms }
    }
}

/// Puts every chunk into one xorb at most, and fills one xorb after another.
#[derive(Debug)]
pub struct Packer {
    builder: XorbBuilder,
    xorb_bytes_max: u64,
    /// Chunks of new xorbs: number of the xorb, place in it.
    new: HashMap<ChunkHash, (u64, u32)>,
    /// Chunks of xorbs that were stored before.
    stored: HashMap<ChunkHash, (XorbHash, u32)>,
    sealed: Vec<XorbEntry>,
}

/// Limit of chunks of stored xorbs in the index of a packer; beyond it the index is cleared.
const STORED_CHUNKS_MAX: usize = 200_000;

impl Packer {
    /// A packer of xorbs of at most `xorb_bytes_max` raw bytes each.
    pub fn new(policy: Policy, xorb_bytes_max: u64) -> Self {
        let xorb_bytes_max = xorb_bytes_max.min(limits::XORB_BYTES_MAX);
        let builder = XorbBuilder::new(policy);
        Self { builder, xorb_bytes_max, new: HashMap::new(), stored: HashMap::new(), sealed: Vec::new() }
    }

    /// Learns the chunks of a xorb that is stored already.
    pub fn learn(&mut self, info: &XorbInfo) {
        if self.stored.len() > STORED_CHUNKS_MAX {
            self.stored.clear();
        }
        for (index, chunk) in (0..).zip(info.chunks()) {
            self.stored.entry(chunk.hash).or_insert((info.hash(), index));
        }
    }

    /// The location of a chunk that some xorb has.
    pub fn find(&self, chunk: &ChunkHash) -> Option<ChunkLocation> {
        let new = self.new.get(chunk).map(|&(number, index)| (XorbRef::New(number), index));
        new.or_else(|| self.stored.get(chunk).map(|&(hash, index)| (XorbRef::Stored(hash), index)))
    }

    /// Whether the xorb at hand has to be sealed before a chunk of this length is added.
    pub fn is_full(&self, chunk_bytes: usize) -> bool {
        let bytes = self.builder.raw_bytes() + chunk_bytes as u64;
        !self.builder.is_empty()
            && (bytes > self.xorb_bytes_max || self.builder.chunk_count() == limits::XORB_CHUNKS_MAX)
    }

    /// Adds a chunk that no xorb has to the xorb at hand.
    pub fn add(&mut self, hash: ChunkHash, chunk: &[u8]) -> Result<ChunkLocation, BuildError> {
        let (number, index) = (self.sealed.len() as u64, self.builder.chunk_count());
        self.builder.push(hash, chunk)?;
        self.new.insert(hash, (number, index));
        Ok((XorbRef::New(number), index))
    }

    /// Raw bytes of the xorb at hand.
    pub fn open_bytes(&self) -> u64 {
        self.builder.raw_bytes()
    }

    /// Seals the xorb at hand; `None` when it is empty. Its entry says nothing of its stored length.
    pub fn seal(&mut self, form: Form) -> Option<SealedXorb> {
        let sealed = self.builder.seal(form).ok()?;
        self.sealed.push(XorbEntry { stored_bytes: 0, ..XorbEntry::from(&sealed.info) });
        Some(sealed)
    }

    /// Takes the buffer of a sealed xorb back, after it was stored in this many bytes.
    pub fn recycle(&mut self, buffer: Vec<u8>, stored_bytes: u32) {
        if let Some(last) = self.sealed.last_mut() {
            last.stored_bytes = stored_bytes;
        }
        self.builder.recycle(buffer);
    }

    /// The shard of these files and of all xorbs sealed.
    pub fn finish(self, files: impl IntoIterator<Item = (PackedFile, Option<Sha256>)>) -> ShardBuilder {
        let mut shard = ShardBuilder::default();
        let hash_of = |number: u64| {
            let entry = usize::try_from(number).ok().and_then(|number| self.sealed.get(number));
            (entry.map_or(XorbHash::ZERO, |entry| entry.hash), 0)
        };
        for (file, sha256) in files {
            shard.push_file(file.into_entry(sha256, hash_of));
        }
        for xorb in self.sealed {
            shard.push_xorb(xorb);
        }
        shard
    }
}

impl From<&XorbInfo> for XorbEntry {
    /// The entry of a xorb in a shard.
    fn from(info: &XorbInfo) -> Self {
        let mut raw_start = 0;
        let chunks = info.chunks().iter().map(|chunk| {
            let raw_bytes = chunk.raw_end - raw_start;
            let entry = ChunkEntry { hash: chunk.hash, raw_start, raw_bytes, flags: 0 };
            raw_start = chunk.raw_end;
            entry
        });
        let chunks = chunks.collect();
        let narrow = |bytes: u64| u32::try_from(bytes).expect("a xorb is far less than 4 GiB");
        let (raw_bytes, stored_bytes) = (narrow(info.raw_bytes()), narrow(info.stored_bytes()));
        Self { hash: info.hash(), flags: 0, raw_bytes, stored_bytes, chunks }
    }
}

#[cfg(test)]
mod tests;

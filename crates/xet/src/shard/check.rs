//! Compares what a shard says with what follows from it: sums, ranges, range hashes, Merkle roots.
//!
//! Parsing has settled the form; this settles the content, as far as the chunks of the xorbs are known. A shard alone
//! knows its own xorbs. A server knows every xorb it stores: it calls [`check_file`] with a lookup of its own and takes
//! only [`FileProof::Whole`] for an answer.

use std::collections::HashMap;

use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{Hash, RangeHash, XorbHash};
use crate::limits;
use crate::merkle::{self, MerkleBuilder};
use crate::shard::record::RECORD_LEN;
use crate::shard::{ChunkEntry, FileEntry, Shard, Term, XorbEntry};

/// Parses and checks a shard as clients send it.
pub fn verify_upload(bytes: &[u8]) -> Result<Shard, FormatError> {
    let shard = Shard::parse_upload(bytes)?;
    check(&shard)?;
    Ok(shard)
}

/// Parses and checks a shard that must have a footer.
pub fn verify_stored(bytes: &[u8]) -> Result<Shard, FormatError> {
    let shard = Shard::parse_stored(bytes)?;
    check(&shard)?;
    Ok(shard)
}

/// How much of a file the known chunks could prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileProof {
    /// Every term and the file hash agree with the chunks.
    Whole,
    /// The terms whose xorbs are known agree; some xorb is not known, or hashes are keyed.
    Partial,
}

/// The chunks a check may still look at; see [`limits::SHARD_CHECK_CHUNKS_MAX`].
#[derive(Debug, Clone)]
pub struct Budget {
    chunks_left: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { chunks_left: limits::SHARD_CHECK_CHUNKS_MAX }
    }
}

impl Budget {
    fn spend(&mut self, at: u64, chunks: usize) -> Result<(), FormatError> {
        let (max, found) = (self.chunks_left, chunks as u64);
        expect_range(at, "chunks of all files of a shard", 0, max, found)?;
        self.chunks_left -= found;
        Ok(())
    }
}

/// Checks everything a shard says that its own content can contradict. Of two xorbs with one hash the first is believed
/// here, and both are checked.
pub fn check(shard: &Shard) -> Result<(), FormatError> {
    let plain = shard.key().is_zero();
    let mut chunks_of: HashMap<XorbHash, &[ChunkEntry]> = HashMap::new();
    for (at, xorb) in shard.xorbs_at() {
        check_xorb(at, xorb, plain)?;
        chunks_of.entry(xorb.hash).or_insert(&xorb.chunks);
    }
    let mut budget = Budget::default();
    for (at, file) in shard.files_at() {
        check_file(at, file, plain, |xorb| chunks_of.get(xorb).copied(), &mut budget)?;
    }
    Ok(())
}

/// Checks the block of a xorb at `at`. `plain`: chunk hashes are not keyed, so the xorb hash must follow from them.
/// The stored length is whatever it is: genuine clients leave it 0.
pub fn check_xorb(at: u64, xorb: &XorbEntry, plain: bool) -> Result<(), FormatError> {
    let chunks_max = u64::from(limits::XORB_CHUNKS_MAX);
    expect_range(at + 36, "chunks of a xorb", 1, chunks_max, xorb.chunks.len() as u64)?;
    let mut raw_bytes = 0;
    let mut chunk_at = at;
    for chunk in &xorb.chunks {
        chunk_at += RECORD_LEN as u64;
        let max = u64::from(limits::CHUNK_BYTES_MAX);
        expect_range(chunk_at + 36, "raw bytes of a chunk", 1, max, u64::from(chunk.raw_bytes))?;
        expect_number(chunk_at + 32, "raw bytes before a chunk", raw_bytes, u64::from(chunk.raw_start))?;
        raw_bytes += u64::from(chunk.raw_bytes);
    }
    expect_range(at + 40, "raw bytes of a xorb", 1, limits::XORB_BYTES_MAX, raw_bytes)?;
    expect_number(at + 40, "raw bytes of a xorb", raw_bytes, u64::from(xorb.raw_bytes))?;
    if plain {
        let leaves = xorb.chunks.iter().map(|chunk| (chunk.hash, u64::from(chunk.raw_bytes)));
        expect_hash(at, "xorb hash", xorb.hash.0, merkle::xorb_hash(leaves).0)?;
    }
    Ok(())
}

/// Checks the block of a file at `at` against the chunks `chunks_of` knows. `plain`: their hashes are not keyed.
pub fn check_file<'a>(
    at: u64,
    file: &FileEntry,
    plain: bool,
    chunks_of: impl Fn(&XorbHash) -> Option<&'a [ChunkEntry]>,
    budget: &mut Budget,
) -> Result<FileProof, FormatError> {
    let mut merkle = plain.then(MerkleBuilder::default);
    let mut range_hashes = file.verification.iter().flatten();
    let mut term_at = at;
    for term in &file.terms {
        term_at += RECORD_LEN as u64;
        let range_hash = range_hashes.next();
        let Some(chunks) = chunks_of(&term.xorb) else {
            merkle = None;
            continue;
        };
        let chunks = check_term(term_at, term, chunks, budget)?;
        if !plain {
            continue;
        }
        if let Some(said) = range_hash {
            // Range hashes follow the terms, one for one.
            let hash_at = term_at + file.terms.len() as u64 * RECORD_LEN as u64;
            let found = RangeHash::of(chunks.iter().map(|chunk| &chunk.hash));
            expect_hash(hash_at, "range hash", said.0, found.0)?;
        }
        if let Some(merkle) = &mut merkle {
            chunks.iter().for_each(|chunk| merkle.push(chunk.hash, u64::from(chunk.raw_bytes)));
        }
    }
    let Some(merkle) = merkle.or_else(|| file.terms.is_empty().then(MerkleBuilder::default)) else {
        return Ok(FileProof::Partial);
    };
    expect_hash(at, "file hash", file.hash.0, merkle.finish_file().0)?;
    Ok(FileProof::Whole)
}

/// The chunks of a term, which must lie in its xorb and have its length.
fn check_term<'a>(
    at: u64,
    term: &Term,
    chunks: &'a [ChunkEntry],
    budget: &mut Budget,
) -> Result<&'a [ChunkEntry], FormatError> {
    let (start, end) = (usize::try_from(term.chunks.start).ok(), usize::try_from(term.chunks.end).ok());
    let range = start.zip(end).and_then(|(start, end)| chunks.get(start..end));
    let Some(chunks) = range else {
        let (min, max) = (u64::from(term.chunks.start) + 1, chunks.len() as u64);
        let (what, found) = ("end of a term's chunks", u64::from(term.chunks.end));
        return Err(FormatError::Range { at: at + 44, what, min, max, found });
    };
    budget.spend(at, chunks.len())?;
    let raw_bytes = chunks.iter().map(|chunk| u64::from(chunk.raw_bytes)).sum();
    expect_number(at + 36, "raw bytes of a term", raw_bytes, u64::from(term.raw_bytes))?;
    Ok(chunks)
}

fn expect_hash(at: u64, what: &'static str, expected: Hash, found: Hash) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(FormatError::Hash { at, what, expected, found }) }
}

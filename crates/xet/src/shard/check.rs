//! Consistency checks of a shard: sums, ranges, range hashes, Merkle roots.
//!
//! Parsing has settled the form; this settles the content, as far as the chunks of the xorbs are known. A shard alone
//! knows its own xorbs. A server knows every xorb it stores: it calls `check_file` with a lookup of its own and takes
//! only [`FileProof::Whole`] for an answer.

use std::collections::HashMap;

use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{Hash, RangeHash, XorbHash};
use crate::limits;
use crate::merkle::{self, MerkleBuilder};
use crate::shard::row::ROW_LEN;
use crate::shard::{ChunkEntry, FileEntry, Footer, Shard, Term, XorbEntry};

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

/// The chunks a check may still read; see [`limits::SHARD_CHECK_CHUNKS_MAX`].
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
    shard.footer.as_ref().map_or(Ok(()), |footer| check_totals(shard, footer))
}

/// Checks that the footer's totals are the sums of what the sections say.
fn check_totals(shard: &Shard, footer: &Footer) -> Result<(), FormatError> {
    let stored_bytes = shard.xorbs.iter().map(|xorb| u64::from(xorb.stored_bytes)).sum();
    let files_bytes = shard.files.iter().map(FileEntry::raw_bytes).sum();
    let raw_bytes = shard.xorbs.iter().map(|xorb| u64::from(xorb.raw_bytes)).sum();
    let at = footer.footer_offset;
    expect_number(at + 168, "stored bytes of all xorbs", stored_bytes, footer.xorbs_stored_bytes)?;
    expect_number(at + 176, "bytes of all files", files_bytes, footer.files_raw_bytes)?;
    expect_number(at + 184, "raw bytes of all xorbs", raw_bytes, footer.xorbs_raw_bytes)
}

/// Checks the block of a xorb at `at`. `plain`: chunk hashes are not keyed, so the xorb hash must follow from them.
/// The stored length is whatever it is: genuine clients leave it 0.
pub fn check_xorb(at: u64, xorb: &XorbEntry, plain: bool) -> Result<(), FormatError> {
    let chunks_max = u64::from(limits::XORB_CHUNKS_MAX);
    expect_range(at + 36, "chunks of a xorb", 1, chunks_max, xorb.chunks.len() as u64)?;
    let mut raw_bytes = 0;
    let mut chunk_at = at;
    for chunk in &xorb.chunks {
        chunk_at += ROW_LEN as u64;
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
pub(crate) fn check_file<'a>(
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
        term_at += ROW_LEN as u64;
        let range_hash = range_hashes.next();
        let Some(chunks) = chunks_of(&term.xorb) else {
            merkle = None;
            continue;
        };
        let chunks = check_term(term_at, term, chunks, budget)?;
        if !plain {
            continue;
        }
        if let Some(claimed) = range_hash {
            // Range hashes follow the terms, one for one.
            let hash_at = term_at + file.terms.len() as u64 * ROW_LEN as u64;
            let found = RangeHash::of(chunks.iter().map(|chunk| &chunk.hash));
            expect_hash(hash_at, "range hash", claimed.0, found.0)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{FileHash, HashKey};
    use crate::shard::tests::sample;
    use crate::shard::{Form, StoredOptions, build};

    fn shard() -> Shard {
        let (files, xorbs) = sample();
        let bytes = build::encode(&files, &xorbs, &Form::Stored(StoredOptions::LOCAL)).unwrap();
        Shard::parse_stored(&bytes).unwrap()
    }

    #[test]
    fn a_true_shard_passes_whatever_its_xorbs_say_of_their_stored_length() {
        let mut shard = shard();
        shard.xorbs[0].stored_bytes = 77;
        shard.footer.as_mut().unwrap().xorbs_stored_bytes = 77;
        check(&shard).unwrap();
    }

    #[test]
    fn totals_must_be_the_sums_of_their_parts() {
        type Change = (u64, fn(&mut Footer));
        let lies: [Change; 3] = [
            (168, |footer| footer.xorbs_stored_bytes += 1),
            (176, |footer| footer.files_raw_bytes += 1),
            (184, |footer| footer.xorbs_raw_bytes -= 1),
        ];
        for (at, lie) in lies {
            let mut shard = shard();
            let footer = shard.footer.as_mut().unwrap();
            let at = footer.footer_offset + at;
            lie(footer);
            assert!(
                matches!(check(&shard), Err(FormatError::Number { at: found, .. }) if found == at),
                "{at}"
            );
        }
    }

    /// Each lie is found where it stands.
    #[test]
    fn every_lie_is_found_at_its_offset() {
        let first = 48;
        let last = shard().xorbs_at().last().unwrap().0;
        type Change = (u64, fn(&mut Shard));
        let lies: [Change; 13] = [
            (first, |shard| shard.files[0].hash = FileHash::new([1; 32])),
            (first + 48 + 36, |shard| shard.files[0].terms[0].raw_bytes += 1),
            (first + 48 + 44, |shard| shard.files[0].terms[0].chunks.end += 1),
            (first + 96 + 44, |shard| shard.files[0].terms[1].chunks = 3..u32::MAX),
            (first + 48 * 4, |shard| shard.files[0].verification.as_mut().unwrap()[1] = RangeHash::ZERO),
            (last, |shard| shard.xorbs[1].hash = XorbHash::new([1; 32])),
            (last + 40, |shard| shard.xorbs[1].raw_bytes -= 1),
            (last + 48, |shard| shard.xorbs[1].chunks[0].hash.0 = Hash::ZERO),
            (last + 48 + 36, |shard| shard.xorbs[1].chunks[0].raw_bytes = 0),
            (last + 96 + 36, |shard| shard.xorbs[1].chunks[1].raw_bytes = limits::CHUNK_BYTES_MAX + 1),
            (last + 96 + 32, |shard| shard.xorbs[1].chunks[1].raw_start = 2),
            (last + 36, |shard| shard.xorbs[1].chunks.clear()),
            (last + 36, |shard| {
                let chunk = shard.xorbs[1].chunks[0];
                shard.xorbs[1].chunks.resize(8193, chunk);
            }),
        ];
        for (n, (at, lie)) in lies.into_iter().enumerate() {
            let mut shard = shard();
            lie(&mut shard);
            let error = check(&shard).unwrap_err();
            // A wrong chunk hash shows in the root, which stands at the head.
            let at = if n == 7 { last } else { at };
            assert_eq!(error.at(), at, "lie {n}: {error}");
        }
    }

    #[test]
    fn an_empty_file_has_no_hash_but_zeros() {
        let mut shard = shard();
        shard.files[2].hash = FileHash::new([1; 32]);
        let at = shard.files_at().nth(2).unwrap().0;
        assert_eq!(check(&shard).unwrap_err().at(), at);
    }

    #[test]
    fn a_file_is_proven_as_far_as_its_xorbs_are_known() {
        let (files, xorbs) = sample();
        let knows = |known: &'static [usize]| {
            let xorbs = xorbs.clone();
            move |hash: &XorbHash| {
                let n = xorbs.iter().position(|xorb| xorb.hash == *hash)?;
                known.contains(&n).then(|| &*xorbs[n].chunks.clone().leak())
            }
        };
        let proof = |known, file: &FileEntry| check_file(0, file, true, knows(known), &mut Budget::default());
        assert_eq!(proof(&[0, 1], &files[0]).unwrap(), FileProof::Whole);
        assert_eq!(proof(&[1], &files[0]).unwrap(), FileProof::Partial);
        assert_eq!(proof(&[], &files[2]).unwrap(), FileProof::Whole);
        let mut wrong = files[0].clone();
        wrong.terms[1].raw_bytes += 1;
        assert_eq!(proof(&[0], &wrong).unwrap(), FileProof::Partial);
        assert_eq!(proof(&[1], &wrong).unwrap_err().at(), 96 + 36);
    }

    #[test]
    fn keyed_hashes_prove_lengths_only() {
        let mut shard = shard();
        let key = HashKey::new([9; 32]);
        shard.footer.as_mut().unwrap().key = key;
        for chunk in shard.xorbs.iter_mut().flat_map(|xorb| &mut xorb.chunks) {
            chunk.hash = chunk.hash.keyed(&key);
        }
        check(&shard).unwrap();
        shard.files[0].terms[0].raw_bytes += 1;
        assert_eq!(check(&shard).unwrap_err().at(), 96 + 36);
    }

    #[test]
    fn a_term_repeated_without_end_runs_out_of_budget() {
        let (files, xorbs) = sample();
        let mut budget = Budget { chunks_left: 5 };
        let chunks = xorbs[0].chunks.as_slice();
        // Two terms, one chunk each: three may still be read afterwards, one term at a time.
        for left in [3, 1] {
            check_file(0, &files[3], true, |_| Some(chunks), &mut budget).unwrap();
            assert_eq!(budget.chunks_left, left);
        }
        let error = check_file(0, &files[3], true, |_| Some(chunks), &mut budget).unwrap_err();
        assert_eq!(error.at(), 96);
    }
}

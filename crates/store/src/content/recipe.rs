//! File recipe: the terms of a file with all byte ranges resolved, stored as one blob in column `layout` of `files`.
//!
//! | offset  | size | field                                                     |
//! |--------:|-----:|-----------------------------------------------------------|
//! |       0 |    1 | version, 1                                                |
//! |       1 |    4 | number of xorbs, x                                        |
//! |       5 |  72x | xorbs                                                     |
//! | 5 + 72x |  24t | terms, to the end of the blob                             |
//!
//! A xorb:
//!
//! | offset  | size | field                                                     |
//! |--------:|-----:|-----------------------------------------------------------|
//! |       0 |   32 | xorb hash                                                 |
//! |      32 |   32 | digest of the object                                      |
//! |      64 |    4 | bytes of the object, footer included                      |
//! |      68 |    4 | chunks in the xorb                                        |
//!
//! A term:
//!
//! | offset  | size | field                                                     |
//! |--------:|-----:|-----------------------------------------------------------|
//! |       0 |    4 | which xorb of the list, from 0                            |
//! |       4 |    4 | first chunk                                               |
//! |       8 |    4 | chunk after the last                                      |
//! |      12 |    4 | raw bytes of the chunks together                          |
//! |      16 |    4 | first byte in the object                                  |
//! |      20 |    4 | byte in the object after the last                         |
//!
//! Numbers are little-endian. With the digest in it a recipe stays valid for as long as its objects live: another upload
//! of the same xorb moves no byte of them.

use std::collections::HashMap;
use std::ops::Range;

use xet::cursor::Reader;
use xet::{FormatError, XorbHash};

use crate::ids::{Digest, XorbKey};

/// Xorbs and terms of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileRecipe {
    /// The xorbs, each once, in the order the terms first name them.
    pub xorbs: Vec<RecipeXorb>,
    /// The terms, in file order; none for an empty file.
    pub terms: Vec<FileTerm>,
}

/// A xorb of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipeXorb {
    /// Name of its object.
    pub key: XorbKey,
    /// Length of the object.
    pub object_bytes: u32,
    /// Number of chunks.
    pub chunk_count: u32,
}

/// A term of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTerm {
    /// Index into the recipe's xorbs.
    pub xorb: u32,
    /// Range of its chunks.
    pub chunks: Range<u32>,
    /// Raw bytes of those chunks together.
    pub raw_bytes: u32,
    /// Byte range in the object.
    pub stored: Range<u32>,
}

/// Builds a recipe term by term.
#[derive(Debug, Default)]
pub struct RecipeBuilder {
    recipe: FileRecipe,
    places: HashMap<XorbHash, u32>,
}

impl RecipeBuilder {
    /// Adds the next term.
    pub fn push(&mut self, xorb: RecipeXorb, chunks: Range<u32>, raw_bytes: u32, stored: Range<u32>) {
        let xorbs = &mut self.recipe.xorbs;
        let place = *self.places.entry(xorb.key.hash).or_insert_with(|| {
            xorbs.push(xorb);
            u32::try_from(xorbs.len() - 1).expect("a shard has fewer than 2^32 terms")
        });
        self.recipe.terms.push(FileTerm { xorb: place, chunks, raw_bytes, stored });
    }

    /// Returns the recipe.
    pub fn finish(self) -> FileRecipe {
        self.recipe
    }
}

impl FileRecipe {
    /// Approximate memory of a cache entry.
    pub(crate) fn weight_bytes(&self) -> u32 {
        let lists = size_of_val(&*self.xorbs) + size_of_val(&*self.terms);
        u32::try_from(lists).unwrap_or(u32::MAX).saturating_add(256)
    }

    /// The version this code writes.
    pub const VERSION: u8 = 1;

    /// The blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(5 + XORB_LEN * self.xorbs.len() + TERM_LEN * self.terms.len());
        out.push(Self::VERSION);
        let xorbs = u32::try_from(self.xorbs.len()).expect("a shard has fewer than 2^32 xorbs");
        out.extend(xorbs.to_le_bytes());
        for xorb in &self.xorbs {
            out.extend(xorb.key.hash.as_bytes());
            out.extend(xorb.key.digest.as_bytes());
            out.extend(xorb.object_bytes.to_le_bytes());
            out.extend(xorb.chunk_count.to_le_bytes());
        }
        for term in &self.terms {
            let Range { start, end } = term.chunks;
            for word in [term.xorb, start, end, term.raw_bytes, term.stored.start, term.stored.end] {
                out.extend(word.to_le_bytes());
            }
        }
        out
    }

    /// Reads a blob. Every term's xorb is there and every range has a length, or it is refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let r = &mut Reader::new(bytes);
        let version = r.u8("recipe version")?;
        if version != Self::VERSION {
            let (expected, found) = (u64::from(Self::VERSION), u64::from(version));
            return Err(FormatError::Version { at: 0, what: "file recipe", expected, found });
        }
        let xorb_count = r.u32("number of xorbs")?;
        let mut recipe = Self::default();
        for _ in 0..xorb_count {
            let key = XorbKey {
                hash: XorbHash::new(r.array("xorb hash")?),
                digest: Digest::new(r.array("digest")?),
            };
            let (object_bytes, chunk_count) = (r.u32("object bytes")?, r.u32("chunk count")?);
            recipe.xorbs.push(RecipeXorb { key, object_bytes, chunk_count });
        }
        while r.left() > 0 {
            let at = r.offset();
            let xorb = r.u32("xorb of a term")?;
            let chunks = r.u32("first chunk")?..r.u32("last chunk")?;
            let raw_bytes = r.u32("raw bytes")?;
            let stored = r.u32("first byte")?..r.u32("last byte")?;
            if xorb >= xorb_count || chunks.is_empty() || stored.is_empty() {
                return Err(FormatError::Payload {
                    at,
                    reason: "a term without chunks, bytes or xorb".into(),
                });
            }
            recipe.terms.push(FileTerm { xorb, chunks, raw_bytes, stored });
        }
        Ok(recipe)
    }

    /// Raw bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.terms.iter().map(|term| u64::from(term.raw_bytes)).sum()
    }

    /// The xorb of a term. Parsing and building see to it that there is one.
    pub fn xorb_of(&self, term: &FileTerm) -> &RecipeXorb {
        let place = usize::try_from(term.xorb).unwrap_or(usize::MAX);
        self.xorbs.get(place).expect("every term names a xorb of its recipe")
    }
}

const XORB_LEN: usize = 72;

const TERM_LEN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn xorb(n: u8) -> RecipeXorb {
        let key = XorbKey { hash: XorbHash::new([n; 32]), digest: Digest::new([n + 1; 32]) };
        RecipeXorb { key, object_bytes: 1000, chunk_count: 9 }
    }

    fn sample() -> FileRecipe {
        let mut builder = RecipeBuilder::default();
        builder.push(xorb(7), 0..3, 50, 0..40);
        builder.push(xorb(8), 1..2, 10, 8..20);
        builder.push(xorb(7), 3..4, 5, 40..60);
        builder.finish()
    }

    #[test]
    fn a_layout_survives_its_blob_and_names_each_xorb_once() {
        let recipe = sample();
        assert_eq!(recipe.xorbs.len(), 2);
        assert_eq!(recipe.xorb_of(&recipe.terms[2]), &xorb(7));
        assert_eq!(recipe.file_bytes(), 65);
        assert_eq!(FileRecipe::parse(&recipe.encode()).unwrap(), recipe);
        assert_eq!(FileRecipe::parse(&FileRecipe::default().encode()).unwrap(), FileRecipe::default());
    }

    #[test]
    fn every_truncation_is_refused_or_loses_whole_terms() {
        let blob = sample().encode();
        for len in 0..blob.len() {
            let whole_terms = len >= 149 && (len - 149) % 24 == 0;
            assert_eq!(FileRecipe::parse(&blob[..len]).is_ok(), whole_terms, "{len}");
        }
    }

    #[test]
    fn lying_numbers_are_refused_without_allocating_by_them() {
        let mut blob = sample().encode();
        for (at, lie) in [(0, 2), (4, 0xff), (149, 9), (153, 3)] {
            let truth = std::mem::replace(&mut blob[at], lie);
            assert!(FileRecipe::parse(&blob).is_err(), "{at}");
            blob[at] = truth;
        }
        FileRecipe::parse(&blob).unwrap();
    }
}

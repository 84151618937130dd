//! A file while it is read: the terms so far, in terms of xorbs of which some have no name yet.

use std::ops::Range;
use std::path::PathBuf;

use xet::merkle::MerkleBuilder;
use xet::{ChunkHash, FileHash, RangeHash, Sha256, XorbHash};

use super::guard::Guard;

/// Where chunks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Home {
    /// In a xorb this push is filling, or has filled.
    Bin(u64),
    /// In a xorb the other side had before.
    Stored(XorbHash),
}

/// A run of chunks of one xorb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DraftTerm {
    pub(super) home: Home,
    pub(super) chunks: Range<u32>,
    pub(super) raw_bytes: u32,
    pub(super) hash: RangeHash,
}

/// A file that was read to its end.
#[derive(Debug)]
pub(super) struct Draft {
    /// Its place among the paths.
    pub(super) index: usize,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) hash: FileHash,
    pub(super) sha256: Option<Sha256>,
    pub(super) terms: Vec<DraftTerm>,
}

/// Takes the chunks of one file, in order.
#[derive(Debug, Default)]
pub(super) struct Drafter {
    merkle: MerkleBuilder,
    bytes: u64,
    terms: Vec<DraftTerm>,
    open: Option<Open>,
    pub(super) guard: Guard,
}

#[derive(Debug)]
struct Open {
    home: Home,
    chunks: Range<u32>,
    raw_bytes: u32,
    hashes: Vec<ChunkHash>,
}

impl Drafter {
    /// Whether the chunk of this number in this xorb would continue the last term.
    pub(super) fn continues(&self, home: Home, chunk: u32) -> bool {
        self.open.as_ref().is_some_and(|open| open.home == home && open.chunks.end == chunk)
    }

    /// Where a term that goes on would go on.
    pub(super) fn next_place(&self) -> Option<(Home, u32)> {
        self.open.as_ref().map(|open| (open.home, open.chunks.end))
    }

    /// The next chunk is there.
    pub(super) fn push(&mut self, home: Home, chunk: u32, hash: ChunkHash, raw_bytes: u32) {
        self.merkle.push(hash, u64::from(raw_bytes));
        self.bytes += u64::from(raw_bytes);
        let continues = self.continues(home, chunk);
        self.guard.push(!continues);
        if !continues {
            self.close();
            self.open = Some(Open { home, chunks: chunk..chunk, raw_bytes: 0, hashes: Vec::new() });
        }
        let open = self.open.as_mut().expect("just opened");
        open.chunks.end += 1;
        open.raw_bytes += raw_bytes;
        open.hashes.push(hash);
    }

    fn close(&mut self) {
        if let Some(Open { home, chunks, raw_bytes, hashes }) = self.open.take() {
            self.terms.push(DraftTerm { home, chunks, raw_bytes, hash: RangeHash::of(&hashes) });
        }
    }

    /// The file, now that all of it was pushed.
    pub(super) fn finish(mut self, index: usize, path: PathBuf, sha256: Option<Sha256>) -> Draft {
        self.close();
        let hash = self.merkle.finish_file();
        Draft { index, path, bytes: self.bytes, hash, sha256, terms: self.terms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_term() {
        let hashes: Vec<_> = (0..4_u8).map(|n| ChunkHash::of(&[n])).collect();
        let (bin, stored) = (Home::Bin(1), Home::Stored(XorbHash::new([7; 32])));
        let mut drafter = Drafter::default();
        for (n, (home, chunk)) in [(bin, 5), (bin, 6), (stored, 7), (stored, 7)].into_iter().enumerate() {
            drafter.push(home, chunk, hashes[n], 100);
        }
        let draft = drafter.finish(0, "x".into(), None);
        let term = |home, chunks: Range<u32>, hashes: &[ChunkHash]| DraftTerm {
            home,
            raw_bytes: 100 * (chunks.end - chunks.start),
            chunks,
            hash: RangeHash::of(hashes),
        };
        let expected = [
            term(bin, 5..7, &hashes[..2]),
            term(stored, 7..8, &hashes[2..3]),
            term(stored, 7..8, &hashes[3..]),
        ];
        assert_eq!(draft.terms, expected);
        assert_eq!(
            (draft.bytes, draft.hash),
            (400, xet::merkle::file_hash(hashes.iter().map(|h| (*h, 100))))
        );
    }
}

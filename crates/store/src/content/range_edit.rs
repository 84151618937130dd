//! Edits: what a client must know to replace ranges of a file it does not have.
//!
//! Around each dirty range lies a window that the client cuts anew. It ends where cutting is back in step whatever the new
//! bytes are: after two chunks in a row that are neither so short that the one before could reach over them nor so long
//! that they were cut for their length. What lies outside the windows is summed up, and stays.

use std::ops::Range;

use xet::merkle::subtree;
use xet::wire::{DirtyWindow, FileChunkHashes, MerkleHashSubtree};
use xet::{ChunkHash, FileHash, RangeHash};

use crate::access::Grant;
use crate::content::Content;
use crate::error::{Error, ErrorKind, Result};

/// Chunks of a file whose edits are planned here, 40 bytes each: a file of about 64 GiB.
pub const EDIT_CHUNKS_MAX: u64 = 1 << 20;

impl Content {
    /// The windows for edits of these ranges of a file, which must be sorted, apart, not empty and within the file.
    /// `None` for a file of more chunks than anyone should wait for.
    pub async fn edit_windows(
        &self,
        grant: &Grant,
        file: FileHash,
        dirty: &[Range<u64>],
    ) -> Result<Option<FileChunkHashes>> {
        let recipe = self.recipe(grant, file).await?;
        let total_chunks: u64 =
            recipe.terms.iter().map(|term| u64::from(term.chunks.end - term.chunks.start)).sum();
        if total_chunks > EDIT_CHUNKS_MAX {
            return Ok(None);
        }
        let mut walk = Walk::over(dirty);
        let mut terms = Vec::with_capacity(recipe.terms.len());
        for term in &recipe.terms {
            let info = self.footers.of(recipe.xorb_of(term)).await?;
            let start = walk.at;
            let mut hashes = Vec::new();
            for number in term.chunks.clone() {
                let place = usize::try_from(number).ok().and_then(|number| info.chunks().get(number));
                let (Some(place), Some(bytes)) = (place, info.chunk_len(number)) else {
                    let message = format!("file {file} names a chunk its xorb does not have");
                    return Err(Error::new(ErrorKind::Corrupt, message));
                };
                walk.push(place.hash, u64::from(bytes));
                hashes.push(place.hash);
            }
            terms.push((start..walk.at, RangeHash::of(&hashes)));
        }
        let file_size = recipe.file_bytes();
        let (windows, hash_ranges) = walk.finish();
        let stays = |term: &Range<u64>| {
            windows.iter().all(|window| window.end <= term.start || term.end <= window.start)
        };
        let gap_verification = terms.iter().filter(|(term, _)| stays(term)).map(|(_, hash)| *hash).collect();
        let windows = windows
            .iter()
            .map(|window| DirtyWindow { dirty_byte_range: [window.start, window.end] })
            .collect();
        Ok(Some(FileChunkHashes { total_chunks, file_size, windows, hash_ranges, gap_verification }))
    }
}

/// Goes over the chunks of a file and tells windows from gaps.
struct Walk<'a> {
    /// What is dirty and was not reached yet, or reaches into the window that is open.
    dirty: &'a [Range<u64>],
    at: u64,
    windows: Vec<Range<u64>>,
    /// `None` in a gap; in a window, whether the last chunk was clean and of a length that helps.
    window: Option<bool>,
    gap: Vec<(ChunkHash, u64)>,
    gaps: Vec<Option<MerkleHashSubtree>>,
}

impl<'a> Walk<'a> {
    fn over(dirty: &'a [Range<u64>]) -> Self {
        Self { dirty, at: 0, windows: Vec::new(), window: None, gap: Vec::new(), gaps: Vec::new() }
    }

    fn push(&mut self, hash: ChunkHash, bytes: u64) {
        let chunk = self.at..self.at + bytes;
        self.at = chunk.end;
        while self.dirty.first().is_some_and(|dirty| dirty.end <= chunk.start) {
            self.dirty = self.dirty.get(1..).unwrap_or_default();
        }
        let is_dirty = self.dirty.first().is_some_and(|dirty| dirty.start < chunk.end);
        match (self.window, self.windows.last_mut()) {
            (Some(was_steady), Some(window)) => {
                window.end = chunk.end;
                let is_steady = !is_dirty && STEADY_BYTES.contains(&bytes);
                self.window = if was_steady && is_steady { None } else { Some(is_steady) };
            }
            _ if is_dirty => {
                let gap = std::mem::take(&mut self.gap);
                self.gaps.push(subtree(gap, self.windows.is_empty(), false));
                self.windows.push(chunk);
                self.window = Some(false);
            }
            _ => self.gap.push((hash, bytes)),
        }
    }

    fn finish(mut self) -> (Vec<Range<u64>>, Vec<Option<MerkleHashSubtree>>) {
        self.gaps.push(subtree(self.gap, self.windows.is_empty(), true));
        (self.windows, self.gaps)
    }
}

/// Lengths of chunks after which cutting is in step again, if two come in a row.
const STEADY_BYTES: Range<u64> = 2 * SHORTEST_BYTES..xet::limits::CHUNK_BYTES_MAX as u64 - SHORTEST_BYTES;

/// No cut is made for the content of a chunk before this many bytes of it.
const SHORTEST_BYTES: u64 = 8 * 1024;

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    /// The windows in a file of chunks of these lengths.
    fn windows(lengths: &[u64], dirty: &[Range<u64>]) -> (Vec<Range<u64>>, Vec<bool>) {
        let mut walk = Walk::over(dirty);
        for (i, bytes) in lengths.iter().enumerate() {
            walk.push(ChunkHash::new([i as u8; 32]), *bytes);
        }
        let (windows, gaps) = walk.finish();
        (windows, gaps.iter().map(Option::is_some).collect())
    }

    #[test]
    fn a_window_ends_after_two_steady_chunks_or_with_the_file() {
        let steady = [20_000; 10];
        assert_eq!(windows(&steady, &[45_000..45_001]), (vec![40_000..100_000], vec![true, true]));
        assert_eq!(windows(&steady, &[0..20_000]), (vec![0..60_000], vec![false, true]));
        assert_eq!(windows(&steady, &[180_000..200_000]), (vec![180_000..200_000], vec![true, false]));
        // Too short, and cut for their length: none of these says that cutting is in step.
        let odd = [20_000, 8_192, 20_000, 131_072, 20_000, 20_000, 20_000];
        assert_eq!(windows(&odd, &[0..1]).0, [0..219_264]);
        assert_eq!(windows(&steady, &[]), (vec![], vec![true]));
    }

    #[test]
    fn windows_that_meet_are_one() {
        let steady = [20_000; 12];
        let near = windows(&steady, &[5..6, 50_000..50_001]);
        assert_eq!(near, (vec![0..100_000], vec![false, true]));
        let far = windows(&steady, &[5..6, 70_000..70_001]);
        assert_eq!(far, (vec![0..60_000, 60_000..120_000], vec![false, false, true]));
    }
}

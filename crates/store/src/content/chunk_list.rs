//! Chunk list: the hash and length of every chunk of a file, a page at a time, from the footers of its xorbs.

use std::ops::Range;

use xet::{ChunkHash, FileHash};

use crate::access::Grant;
use crate::content::Content;
use crate::error::{Error, ErrorKind, Result};

impl Content {
    /// The chunks of a file the grant's repository may read: at most `max` of them, after the first `from`. None past the end.
    pub async fn chunk_list(
        &self,
        grant: &Grant,
        file: FileHash,
        from: u64,
        max: usize,
    ) -> Result<Vec<(ChunkHash, u32)>> {
        let recipe = self.recipe(grant, file).await?;
        let mut skip = from;
        let mut chunks = Vec::new();
        for term in &recipe.terms {
            if chunks.len() >= max {
                break;
            }
            let count = u64::from(term.chunks.end - term.chunks.start);
            if skip >= count {
                skip -= count;
                continue;
            }
            let first = term.chunks.start + u32::try_from(skip).expect("less than a term has chunks");
            skip = 0;
            let room = u32::try_from(max - chunks.len()).unwrap_or(u32::MAX);
            let wanted: Range<u32> = first..term.chunks.end.min(first.saturating_add(room));
            let xorb = recipe.xorb_of(term);
            let info = self.footers.of(xorb).await?;
            for number in wanted {
                let place = usize::try_from(number).ok().and_then(|number| info.chunks().get(number));
                let (Some(place), Some(bytes)) = (place, info.chunk_len(number)) else {
                    let message =
                        format!("file {file} names chunk {number} of {}, which has none", xorb.key.hash);
                    return Err(Error::new(ErrorKind::Corrupt, message));
                };
                chunks.push((place.hash, bytes));
            }
        }
        Ok(chunks)
    }
}

//! Chunk lists: hashes and lengths of all chunks of a file. A route of this project's servers; the protocol has none.
//!
//! An answer is a page of at most [`PAGE_CHUNKS_MAX`] chunks, each 36 bytes: the hash, then the raw length, little-endian. A page that is
//! not full is the last.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_range};
use crate::hash::ChunkHash;
use crate::limits::CHUNK_BYTES_MAX;

/// Chunks in one answer.
pub const PAGE_CHUNKS_MAX: usize = 65_536;

/// Bytes of one answer, at most.
pub const PAGE_BYTES_MAX: u64 = 36 * PAGE_CHUNKS_MAX as u64;

/// The query parameter that says how many chunks of the file come before the page.
pub(crate) const QUERY_FROM: &str = "from";

/// A page.
pub fn encode(chunks: &[(ChunkHash, u32)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(36 * chunks.len());
    for (hash, bytes) in chunks {
        out.extend(hash.as_bytes());
        out.extend(bytes.to_le_bytes());
    }
    out
}

/// The chunks of a page. Lengths are such that chunks can have.
pub fn parse(bytes: &[u8]) -> Result<Vec<(ChunkHash, u32)>, FormatError> {
    expect_range(0, "bytes of a page", 0, PAGE_BYTES_MAX, bytes.len() as u64)?;
    let r = &mut Reader::new(bytes);
    let mut chunks = Vec::with_capacity(bytes.len() / 36);
    while r.left() > 0 {
        let hash = ChunkHash::new(r.array("chunk hash")?);
        let at = r.offset();
        let len = r.u32("length of a chunk")?;
        expect_range(at, "length of a chunk", 1, u64::from(CHUNK_BYTES_MAX), u64::from(len))?;
        chunks.push((hash, len));
    }
    Ok(chunks)
}

/// The number of chunks before the page, in the query of a request, without its question mark; 0 if it does not say.
pub fn parse_query(query: &str) -> Result<u64, FormatError> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.find(|(name, _)| *name == QUERY_FROM) else { return Ok(0) };
    value.parse().map_err(|_| FormatError::Text {
        at: 0,
        expected: "a number of chunks",
        found: value.chars().take(80).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_back_and_every_truncation_is_refused_or_loses_chunks() {
        let chunks: Vec<_> = (1..9).map(|n| (ChunkHash::new([n; 32]), u32::from(n) * 1000)).collect();
        let page = encode(&chunks);
        assert_eq!(parse(&page).unwrap(), chunks);
        for len in 0..page.len() {
            assert_eq!(parse(&page[..len]).is_ok(), len % 36 == 0, "{len}");
        }
        for lie in [0, CHUNK_BYTES_MAX + 1, u32::MAX] {
            assert!(parse(&encode(&[(ChunkHash::ZERO, lie)])).is_err());
        }
    }

    #[test]
    fn a_query_may_say_where_the_page_begins() {
        assert_eq!(parse_query("").unwrap(), 0);
        assert_eq!(parse_query("x=1&from=70000").unwrap(), 70_000);
        assert!(parse_query("from=-1").is_err() && parse_query("from=").is_err());
    }
}

//! Verified raw chunks: chunks that are stored uncompressed and whose hash was verified a short while ago.
//!
//! Reading them again within a time skips the hash and the copy into a new buffer; then the bit expires, so that
//! damage to a disk is found by reading as it was before, only later.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use xet::compress::Scheme;
use xet::cursor::Reader;
use xet::xorb::{ChunkHeader, XorbInfo};

use crate::ids::XorbKey;

/// Cache of chunk bitmaps by xorb. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedRaw {
    cache: Cache<XorbKey, Arc<ChunkBitmap>>,
}

/// A bit for each chunk of a xorb.
#[derive(Debug)]
pub(crate) struct ChunkBitmap {
    bits: Box<[AtomicU64]>,
}

/// How long a chunk counts as verified.
const VALID_FOR: Duration = Duration::from_secs(600);

/// Size limit of the cache. A xorb of usual chunks takes some 250 bytes.
const BITMAPS_BYTES_MAX: u64 = 8 * 1024 * 1024;

impl Default for VerifiedRaw {
    fn default() -> Self {
        let weigh = |_: &XorbKey, bitmap: &Arc<ChunkBitmap>| {
            u32::try_from(8 * bitmap.bits.len() + 128).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(BITMAPS_BYTES_MAX).weigher(weigh).time_to_live(VALID_FOR);
        Self { cache: cache.build() }
    }
}

impl VerifiedRaw {
    /// The bitmap of a xorb, if any chunk of it was verified.
    pub(crate) fn of(&self, xorb: &XorbKey) -> Option<Arc<ChunkBitmap>> {
        self.cache.get(xorb)
    }

    /// Sets the bits of those of these chunks that are stored uncompressed. `bytes` begin with the first one's record, and each has
    /// just been compared with its hash.
    pub(crate) fn put(&self, xorb: XorbKey, info: &XorbInfo, chunks: Range<u32>, bytes: &[u8]) {
        let mut plain = stored_uncompressed(info, chunks, bytes).peekable();
        if plain.peek().is_none() {
            return;
        }
        let words = (info.chunk_count() as usize).div_ceil(64);
        let new = || Arc::new(ChunkBitmap { bits: (0..words).map(|_| AtomicU64::new(0)).collect() });
        let bitmap = self.cache.get_with(xorb, new);
        for chunk in plain {
            if let Some(word) = bitmap.bits.get(chunk as usize / 64) {
                word.fetch_or(1 << (chunk % 64), Ordering::Relaxed);
            }
        }
    }
}

impl ChunkBitmap {
    /// Whether the bit of a chunk is set.
    pub(crate) fn has(&self, chunk: u32) -> bool {
        self.bits
            .get(chunk as usize / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (chunk % 64)) != 0)
    }
}

fn stored_uncompressed<'a>(
    info: &'a XorbInfo,
    chunks: Range<u32>,
    bytes: &'a [u8],
) -> impl Iterator<Item = u32> + 'a {
    let base = info.stored_range(chunks.clone()).unwrap_or_default().start;
    chunks.filter(move |chunk| {
        let at = info.stored_range(*chunk..chunk + 1).map(|stored| stored.start - base);
        let record = at.and_then(|at| bytes.get(usize::try_from(at).ok()?..));
        let header = record.and_then(|record| ChunkHeader::parse(&mut Reader::at(record, 0)).ok());
        header.is_some_and(|header| header.scheme == Scheme::Raw)
    })
}

#[cfg(test)]
mod tests {
    use xet::ChunkHash;
    use xet::compress::Policy;
    use xet::xorb::XorbBuilder;

    use super::*;
    use crate::ids::Digest;

    #[test]
    fn what_is_stored_as_it_is_gets_a_mark_and_what_is_compressed_does_not() {
        let mut builder = XorbBuilder::new(Policy::Auto);
        let noise = testkit::corpus::noise(1, 30_000);
        let text = b"over and over again ".repeat(1_000);
        for n in 0..130_usize {
            let chunk = if n % 3 == 0 { &text[n..] } else { &noise[n..] };
            builder.push(ChunkHash::of(chunk), chunk).unwrap();
        }
        let sealed = builder.seal(xet::xorb::Form::V1).unwrap();
        let key = XorbKey { hash: sealed.info.hash(), digest: Digest::new([0; 32]) };
        let verified = VerifiedRaw::default();
        assert!(verified.of(&key).is_none());
        let stored = sealed.info.stored_range(10..129).unwrap();
        verified.put(key, &sealed.info, 10..129, &sealed.bytes[stored.start as usize..]);
        let bitmap = verified.of(&key).unwrap();
        for n in 0..140 {
            assert_eq!(bitmap.has(n), (10..129).contains(&n) && n % 3 != 0, "chunk {n}");
        }
    }
}

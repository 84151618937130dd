//! Search for repeated bytes anywhere in a chunk, near or far.
//!
//! The chunk is seen as strides of one length. The words of a few strides go into a table, but not the first of each;
//! then the first word of every stride is looked up. Wherever a copy of a noted stride stands, some stride begins in
//! it, and at one of the noted words unless it stands whole strides away. What repeats often, as a tag in
//! rows, is met somewhere.
//!
//! A copy of 4 KiB in 64 KiB of noise was found 420 times in 500, and 448 times by LZ4; with half the windows 320
//! times, for 0.4 us less.

/// The table of words, reused from chunk to chunk.
pub(super) struct Repeats {
    tags: Box<[u16; SLOTS]>,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self { tags: Box::new([0; SLOTS]) }
    }

    /// How many noted words were met again: by chance some in one of 100 chunks of noise.
    pub(super) fn met(&mut self, chunk: &[u8]) -> usize {
        let tags = &mut *self.tags;
        tags.fill(0);
        let (strides, _) = chunk.as_chunks::<STRIDE_BYTES>();
        for [_, rest @ ..] in (0..NOTED).filter_map(|number| strides.get(noted(number, strides.len()))) {
            let (fours, _) = rest.as_chunks::<4>();
            // One load for four words: half the time of a load for each.
            for [left, right] in fours.array_windows() {
                let both = u64::from(u32::from_le_bytes(*left)) | u64::from(u32::from_le_bytes(*right)) << 32;
                for shift in [0, 8, 16, 24] {
                    let (slot, tag) = slot(both >> shift);
                    if let Some(slot) = tags.get_mut(slot) {
                        *slot = tag;
                    }
                }
            }
        }
        let mut met = 0;
        for [a, b, c, d, ..] in strides {
            let (slot, tag) = slot(u32::from_le_bytes([*a, *b, *c, *d]).into());
            met += usize::from(tags.get(slot) == Some(&tag));
        }
        met
    }
}

/// How many words are looked up in a chunk.
pub(super) fn lookups(chunk: &[u8]) -> usize {
    chunk.len() / STRIDE_BYTES
}

/// Which of `len` strides is noted: one in each part of the chunk, in another place of each, lest all of them miss the
/// pages that matter.
fn noted(number: usize, len: usize) -> usize {
    let part_len = len / NOTED;
    part_len * number + part_len * (number * 11 % NOTED) / NOTED
}

/// Where in the table the first four bytes of `word` belong, and what stands for them there. They are not hashed:
/// noise is its own hash. The zeros of the empty table are taken for words now and then; so be it.
fn slot(word: u64) -> (usize, u16) {
    let [slot, tag] =
        [word & 0xffff, word >> 16 & 0xffff].map(|part| u16::try_from(part).unwrap_or_default());
    (usize::from(slot) % SLOTS, tag)
}

/// Twice the words noted. With their tags of two bytes they take a sixth of the nearest cache.
const SLOTS: usize = 4096;
/// Strides whose words are noted.
const NOTED: usize = 16;
/// Odd, to keep no step with rows and pages.
const STRIDE_BYTES: usize = 129;

//! The processor's own SHA-256 instructions, four rounds at a time, for a kernel that does something else between them.
//!
//! A block is 32 instructions that wait four cycles for each other. `sha2` is as fast when there is nothing else to do.
#![allow(unsafe_code, clippy::indexing_slicing)]

use std::arch::x86_64::*;

use super::{Block, K, State};

/// A state, in the order the instructions want it.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    abef: __m128i,
    cdgh: __m128i,
}

impl Words {
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn of(state: &State) -> Self {
        let (halves, _) = state.as_chunks::<4>();
        // SAFETY: four words are 128 bits.
        let [abcd, efgh] = [0, 1].map(|half| unsafe { _mm_loadu_si128(halves[half].as_ptr().cast()) });
        let badc = _mm_shuffle_epi32::<0xb1>(abcd);
        let hgfe = _mm_shuffle_epi32::<0x1b>(efgh);
        Self { abef: _mm_alignr_epi8::<8>(badc, hgfe), cdgh: _mm_blend_epi16::<0xf0>(hgfe, badc) }
    }

    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn into_state(self) -> State {
        let feba = _mm_shuffle_epi32::<0x1b>(self.abef);
        let dchg = _mm_shuffle_epi32::<0xb1>(self.cdgh);
        let halves = [_mm_blend_epi16::<0xf0>(feba, dchg), _mm_alignr_epi8::<8>(dchg, feba)];
        let mut state = State::default();
        for (words, half) in state.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
            // SAFETY: four words are 128 bits.
            unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), half) };
        }
        state
    }

    /// Begins a block.
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn begin<'a>(&self, block: &'a Block) -> Rounds<'a> {
        Rounds { block, words: *self, schedule: [_mm_setzero_si128(); 4] }
    }

    /// Takes a block all of whose rounds were made.
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn end(&mut self, Rounds { words, .. }: Rounds<'_>) {
        self.abef = _mm_add_epi32(self.abef, words.abef);
        self.cdgh = _mm_add_epi32(self.cdgh, words.cdgh);
    }
}

/// A block on its way through the rounds.
pub(crate) struct Rounds<'a> {
    block: &'a Block,
    words: Words,
    /// The last sixteen words of the message schedule.
    schedule: [__m128i; 4],
}

impl Rounds<'_> {
    /// Makes rounds `4 * FOUR` and three more. Each four must be made once, in order, from 0 to 15.
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn four<const FOUR: usize>(&mut self) {
        let w = &mut self.schedule;
        let next = if FOUR < 4 {
            let big_endian = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
            let bytes: &[u8; 16] = &self.block.as_chunks().0[FOUR];
            // SAFETY: sixteen bytes are 128 bits.
            _mm_shuffle_epi8(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }, big_endian)
        } else {
            let [first, second, third, last] = std::array::from_fn(|i| w[(FOUR + i) % 4]);
            let sum = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), _mm_alignr_epi8::<4>(last, third));
            _mm_sha256msg2_epu32(sum, last)
        };
        w[FOUR % 4] = next;
        let k: &[u32; 4] = &K[FOUR / 4].as_chunks().0[FOUR % 4];
        // SAFETY: four words are 128 bits.
        let added = _mm_add_epi32(next, unsafe { _mm_loadu_si128(k.as_ptr().cast()) });
        let Words { abef, cdgh } = &mut self.words;
        *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, added);
        *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32::<0x0e>(added));
    }
}

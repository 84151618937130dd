//! AVX-512: a register holds one word of sixteen states, so the rounds are those of one message.
#![allow(unsafe_code, clippy::indexing_slicing)]

use std::arch::x86_64::*;

use super::lanes::{LANES, States, shortest};
use super::{Block, K};

/// Proof that the processor has what the kernel needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel(());

impl Kernel {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        found.then_some(Self(()))
    }

    /// Takes as many blocks into each lane's state as the shortest of the runs has.
    pub(super) fn compress(self, states: &mut States, blocks: &[&[Block]; LANES]) {
        // SAFETY: `self` proves the features.
        unsafe { compress(states, blocks) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn compress(states: &mut States, blocks: &[&[Block]; LANES]) {
    let mut state = [_mm512_setzero_si512(); 8];
    for (register, words) in state.iter_mut().zip(&states.0) {
        // SAFETY: sixteen words are 64 bytes.
        *register = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    }
    for i in 0..shortest(blocks) {
        let added = rounds(state, message_words(&blocks.map(|run| &run[i])));
        for (word, added) in state.iter_mut().zip(added) {
            *word = _mm512_add_epi32(*word, added);
        }
    }
    for (register, words) in state.iter().zip(&mut states.0) {
        // SAFETY: sixteen words are 64 bytes.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), *register) };
    }
}

/// Word `i` of every lane's block, for each `i`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn message_words(blocks: &[&Block; LANES]) -> [__m512i; 16] {
    let [a, b, c, d] = quarter_words(blocks, 0);
    let [e, f, g, h] = quarter_words(blocks, 1);
    let [i, j, k, l] = quarter_words(blocks, 2);
    let [m, n, o, p] = quarter_words(blocks, 3);
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// Four words of every lane's block. Loads put lanes 0, 4, 8, 12 into one register, 1, 5, 9, 13 into the next: what is
/// left to transpose are squares of four words, inside 128 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn quarter_words(blocks: &[&Block; LANES], quarter: usize) -> [__m512i; 4] {
    let big_endian =
        _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    let four = |lane: usize| {
        let bytes: &[u8; 16] = &blocks[lane].as_chunks().0[quarter];
        // SAFETY: sixteen bytes are 128 bits.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    };
    let row = |lane: usize| {
        let row = _mm512_castsi128_si512(four(lane));
        let row = _mm512_inserti32x4::<1>(row, four(lane + 4));
        let row = _mm512_inserti32x4::<2>(row, four(lane + 8));
        let row = _mm512_inserti32x4::<3>(row, four(lane + 12));
        _mm512_shuffle_epi8(row, big_endian)
    };
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let ab_low = _mm512_unpacklo_epi32(a, b);
    let ab_high = _mm512_unpackhi_epi32(a, b);
    let cd_low = _mm512_unpacklo_epi32(c, d);
    let cd_high = _mm512_unpackhi_epi32(c, d);
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// The state after the 64 rounds, before the old one is added. Words and state stay in registers: 24 of 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounds(mut s: [__m512i; 8], mut w: [__m512i; 16]) -> [__m512i; 8] {
    // Sixteen rounds are written out, for each word to have its register.
    macro_rules! sixteen {
        (|$i:ident| $body:expr) => {
            sixteen!(@ $i $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
        };
        (@ $i:ident $body:expr, $($n:literal)*) => {
            $({
                const $i: usize = $n;
                $body
            })*
        };
    }
    sixteen!(|I| s = round(s, w[I], K[0][I]));
    for k in &K[1..] {
        sixteen!(|I| {
            w[I] = next_word(w[I], w[(I + 1) % 16], w[(I + 9) % 16], w[(I + 14) % 16]);
            s = round(s, w[I], k[I]);
        });
    }
    s
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn round([a, b, c, d, e, f, g, h]: [__m512i; 8], word: __m512i, k: u32) -> [__m512i; 8] {
    let sum_e = xor3(_mm512_ror_epi32::<6>(e), _mm512_ror_epi32::<11>(e), _mm512_ror_epi32::<25>(e));
    let sum_a = xor3(_mm512_ror_epi32::<2>(a), _mm512_ror_epi32::<13>(a), _mm512_ror_epi32::<22>(a));
    let choice = _mm512_ternarylogic_epi32::<CHOICE>(e, f, g);
    let majority = _mm512_ternarylogic_epi32::<MAJORITY>(a, b, c);

    // What does not need `e` comes first: `e` is the last to be known.
    let known = _mm512_add_epi32(h, _mm512_add_epi32(word, _mm512_set1_epi32(k.cast_signed())));
    let t = _mm512_add_epi32(_mm512_add_epi32(known, choice), sum_e);
    let new_a = _mm512_add_epi32(_mm512_add_epi32(sum_a, majority), t);
    [new_a, a, b, c, _mm512_add_epi32(d, t), e, f, g]
}

/// A word of the schedule, from those sixteen, fifteen, seven and two before it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn next_word(w16: __m512i, w15: __m512i, w7: __m512i, w2: __m512i) -> __m512i {
    let s15 = xor3(_mm512_ror_epi32::<7>(w15), _mm512_ror_epi32::<18>(w15), _mm512_srli_epi32::<3>(w15));
    let s2 = xor3(_mm512_ror_epi32::<17>(w2), _mm512_ror_epi32::<19>(w2), _mm512_srli_epi32::<10>(w2));
    _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(w16, s15), w7), s2)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<XOR>(a, b, c)
}

// Truth tables of three bits: what a function makes of the columns 11110000, 11001100 and 10101010.
const A: i32 = 0xf0;
const B: i32 = 0xcc;
const C: i32 = 0xaa;
const XOR: i32 = A ^ B ^ C;
const CHOICE: i32 = (A & B) | (!A & C & 0xff);
const MAJORITY: i32 = (A & B) | (A & C) | (B & C);

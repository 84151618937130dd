//! AVX-512: a register holds one word of sixteen states, so the rounds are those of one message.
#![allow(unsafe_code, clippy::indexing_slicing)]

use std::arch::x86_64::*;

use super::lanes::{Block, LANES, States, shortest};

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

/// The round constants, in four times sixteen.
static K: [[u32; 16]; 4] = [
    [
        0x428a_2f98,
        0x7137_4491,
        0xb5c0_fbcf,
        0xe9b5_dba5,
        0x3956_c25b,
        0x59f1_11f1,
        0x923f_82a4,
        0xab1c_5ed5,
        0xd807_aa98,
        0x1283_5b01,
        0x2431_85be,
        0x550c_7dc3,
        0x72be_5d74,
        0x80de_b1fe,
        0x9bdc_06a7,
        0xc19b_f174,
    ],
    [
        0xe49b_69c1,
        0xefbe_4786,
        0x0fc1_9dc6,
        0x240c_a1cc,
        0x2de9_2c6f,
        0x4a74_84aa,
        0x5cb0_a9dc,
        0x76f9_88da,
        0x983e_5152,
        0xa831_c66d,
        0xb003_27c8,
        0xbf59_7fc7,
        0xc6e0_0bf3,
        0xd5a7_9147,
        0x06ca_6351,
        0x1429_2967,
    ],
    [
        0x27b7_0a85,
        0x2e1b_2138,
        0x4d2c_6dfc,
        0x5338_0d13,
        0x650a_7354,
        0x766a_0abb,
        0x81c2_c92e,
        0x9272_2c85,
        0xa2bf_e8a1,
        0xa81a_664b,
        0xc24b_8b70,
        0xc76c_51a3,
        0xd192_e819,
        0xd699_0624,
        0xf40e_3585,
        0x106a_a070,
    ],
    [
        0x19a4_c116,
        0x1e37_6c08,
        0x2748_774c,
        0x34b0_bcb5,
        0x391c_0cb3,
        0x4ed8_aa4a,
        0x5b9c_ca4f,
        0x682e_6ff3,
        0x748f_82ee,
        0x78a5_636f,
        0x84c8_7814,
        0x8cc7_0208,
        0x90be_fffa,
        0xa450_6ceb,
        0xbef9_a3f7,
        0xc671_78f2,
    ],
];

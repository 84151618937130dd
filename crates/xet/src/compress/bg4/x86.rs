//! Byte grouping with vector shuffles. Each kernel takes whole blocks and leaves the tail to the portable twin.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::iter::zip;

/// Which kernels the running processor has. A value of this type is the proof: only detection makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level(Kernel);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Avx2,
    Avx512,
}

impl Level {
    /// 32-byte vectors.
    pub(super) fn avx2() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(Kernel::Avx2))
    }

    /// 64-byte vectors, with a shuffle that crosses all of them.
    pub(super) fn avx512() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512f");
        (has && Self::avx2().is_some()).then_some(Self(Kernel::Avx512))
    }

    /// Groups as many whole blocks as there are; returns what is left of both sides.
    pub(super) fn group<'a>(self, raw: &'a [u8], groups: [&'a mut [u8]; 4]) -> (&'a [u8], [&'a mut [u8]; 4]) {
        match self.0 {
            Kernel::Avx2 => {
                let (blocks, raw) = raw.as_chunks::<128>();
                let (heads, tails) = heads_mut::<32>(groups, blocks.len());
                // SAFETY: a `Level` of this kind exists only where AVX2 was detected.
                unsafe { group_avx2(blocks, heads) };
                (raw, tails)
            }
            Kernel::Avx512 => {
                let (blocks, raw) = raw.as_chunks::<256>();
                let (heads, tails) = heads_mut::<64>(groups, blocks.len());
                // SAFETY: a `Level` of this kind exists only where AVX-512F and VBMI were detected.
                unsafe { group_avx512(blocks, heads) };
                (raw, tails)
            }
        }
    }

    /// Interleaves as many whole blocks as there are; returns what is left of both sides.
    pub(super) fn ungroup<'a>(
        self,
        groups: [&'a [u8]; 4],
        raw: &'a mut [u8],
    ) -> ([&'a [u8]; 4], &'a mut [u8]) {
        let (blocks, raw) = raw.as_chunks_mut::<128>();
        let done = 32 * blocks.len();
        let [a, b, c, d] = groups.map(|group| group.split_at(done));
        let heads = [a.0, b.0, c.0, d.0].map(|head| head.as_chunks::<32>().0);
        // SAFETY: a `Level` of any kind exists only where AVX2 was detected.
        unsafe { ungroup_avx2(heads, blocks) };
        ([a.1, b.1, c.1, d.1], raw)
    }
}

/// Splits each group after `blocks` vectors of `N` bytes.
fn heads_mut<const N: usize>(groups: [&mut [u8]; 4], blocks: usize) -> ([&mut [[u8; N]]; 4], [&mut [u8]; 4]) {
    let [a, b, c, d] = groups.map(|group| group.split_at_mut(N * blocks));
    ([a.0, b.0, c.0, d.0].map(|head| head.as_chunks_mut::<N>().0), [a.1, b.1, c.1, d.1])
}

#[target_feature(enable = "avx2")]
fn group_avx2(blocks: &[[u8; 128]], [a, b, c, d]: [&mut [[u8; 32]]; 4]) {
    // In each half: the four first bytes of its words, the four second ones, ...
    let gather = _mm256_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, //
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    );
    // ... then both halves together: a quarter of the vector for each group.
    let join = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

    for (block, ((a, b), (c, d))) in zip(blocks, zip(zip(a, b), zip(c, d))) {
        let [v0, v1, v2, v3] = quarters::<128, 32>(block);
        let v0 = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(load32(v0), gather), join);
        let v1 = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(load32(v1), gather), join);
        let v2 = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(load32(v2), gather), join);
        let v3 = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(load32(v3), gather), join);
        let (even01, odd01) = (_mm256_unpacklo_epi64(v0, v1), _mm256_unpackhi_epi64(v0, v1));
        let (even23, odd23) = (_mm256_unpacklo_epi64(v2, v3), _mm256_unpackhi_epi64(v2, v3));
        store32(a, _mm256_permute2x128_si256::<0x20>(even01, even23));
        store32(b, _mm256_permute2x128_si256::<0x20>(odd01, odd23));
        store32(c, _mm256_permute2x128_si256::<0x31>(even01, even23));
        store32(d, _mm256_permute2x128_si256::<0x31>(odd01, odd23));
    }
}

#[target_feature(enable = "avx512f,avx512vbmi")]
fn group_avx512(blocks: &[[u8; 256]], [a, b, c, d]: [&mut [[u8; 64]]; 4]) {
    let gather = load64(&GATHER);
    for (block, ((a, b), (c, d))) in zip(blocks, zip(zip(a, b), zip(c, d))) {
        // Every vector becomes four quarters, one for each group; then the 4 x 4 quarters are transposed.
        let [v0, v1, v2, v3] = quarters::<256, 64>(block);
        let v0 = _mm512_permutexvar_epi8(gather, load64(v0));
        let v1 = _mm512_permutexvar_epi8(gather, load64(v1));
        let v2 = _mm512_permutexvar_epi8(gather, load64(v2));
        let v3 = _mm512_permutexvar_epi8(gather, load64(v3));
        let (ab01, cd01) = (_mm512_shuffle_i64x2::<0x44>(v0, v1), _mm512_shuffle_i64x2::<0xee>(v0, v1));
        let (ab23, cd23) = (_mm512_shuffle_i64x2::<0x44>(v2, v3), _mm512_shuffle_i64x2::<0xee>(v2, v3));
        store64(a, _mm512_shuffle_i64x2::<0x88>(ab01, ab23));
        store64(b, _mm512_shuffle_i64x2::<0xdd>(ab01, ab23));
        store64(c, _mm512_shuffle_i64x2::<0x88>(cd01, cd23));
        store64(d, _mm512_shuffle_i64x2::<0xdd>(cd01, cd23));
    }
}

#[target_feature(enable = "avx2")]
fn ungroup_avx2([a, b, c, d]: [&[[u8; 32]]; 4], blocks: &mut [[u8; 128]]) {
    for (block, ((a, b), (c, d))) in zip(blocks, zip(zip(a, b), zip(c, d))) {
        let (a, b, c, d) = (load32(a), load32(b), load32(c), load32(d));
        let (ab_low, ab_high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
        // Words 0-3 and 16-19, 4-7 and 20-23, 8-11 and 24-27, 12-15 and 28-31.
        let (w0, w4) = (_mm256_unpacklo_epi16(ab_low, cd_low), _mm256_unpackhi_epi16(ab_low, cd_low));
        let (w8, w12) = (_mm256_unpacklo_epi16(ab_high, cd_high), _mm256_unpackhi_epi16(ab_high, cd_high));
        let (quarters, _) = block.as_chunks_mut::<32>();
        let vectors = [
            _mm256_permute2x128_si256::<0x20>(w0, w4),
            _mm256_permute2x128_si256::<0x20>(w8, w12),
            _mm256_permute2x128_si256::<0x31>(w0, w4),
            _mm256_permute2x128_si256::<0x31>(w8, w12),
        ];
        for (quarter, vector) in zip(quarters, vectors) {
            store32(quarter, vector);
        }
    }
}

/// Where each byte of a grouped 64-byte vector comes from.
#[rustfmt::skip]
const GATHER: [u8; 64] = [
    0, 4,  8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
    1, 5,  9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61,
    2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62,
    3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63,
];

/// The four quarters of a block, `QUARTER` bytes each.
#[inline(always)]
fn quarters<const BLOCK: usize, const QUARTER: usize>(block: &[u8; BLOCK]) -> [&[u8; QUARTER]; 4] {
    const { assert!(BLOCK == 4 * QUARTER) };
    let (quarters, _) = block.as_chunks::<QUARTER>();
    <&[[u8; QUARTER]; 4]>::try_from(quarters).expect("a block is four quarters").each_ref()
}

#[inline]
#[target_feature(enable = "avx2")]
fn load32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 readable bytes; this load asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store32(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: 32 writable bytes; this store asks for no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load64(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 readable bytes; this load asks for no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store64(bytes: &mut [u8; 64], vector: __m512i) {
    // SAFETY: 64 writable bytes; this store asks for no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) };
}

//! AVX-512 VBMI: eight lanes in one register and one in general registers, each on its own stretch of the block.
//!
//! A gather from the table of 256 words does not pay. The table is kept as eight planes of 256 bytes, and a plane is
//! looked up for 64 bytes at once by two byte permutes of two registers each. That leaves the load ports idle, so one
//! more lane runs the plain loop between the permutes. GB/s on an AMD EPYC (Zen 4): no plain lane 3.8, one 4.2, two 3.1,
//! three 3.2; one plain lane beside four permutes of one register each 2.9. On an Intel Xeon (Ice Lake) only those four
//! were measured: 2.7, 3.1, 3.4 and 3.1 with none to three plain lanes, and with a busy sibling none or one was best.
//!
//! Every instruction here must be encoded with VEX or EVEX. One legacy SSE instruction between two of 512 bits costs an Intel
//! processor more than a whole step of the search; `scripts/check-kernels.py` looks for them.
#![allow(unsafe_code, clippy::indexing_slicing)]

use std::arch::x86_64::*;

use super::portable;
use crate::constants::{GEAR_TABLE, GEAR_WINDOW};

/// Proof that the processor has what the kernel needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel(());

impl Kernel {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi");
        found.then_some(Self(()))
    }

    /// See [`super::candidates`].
    pub(super) fn candidates(self, data: &[u8], from: usize, to: usize, found: &mut Vec<usize>) {
        assert!(from <= to && to <= data.len(), "the block lies in the data");
        // Lanes warm up on the 64 bytes before their stretch.
        let before = from.max(GEAR_WINDOW);
        let stretch = to.saturating_sub(before) / LANES / STEP * STEP;
        if stretch < STRETCH_MIN {
            return portable::candidates(data, from, to, found);
        }
        portable::candidates(data, from, before, found);
        let first = found.len();
        // SAFETY: `self` proves the features; `before >= 64`, and the lanes end at `before + LANES * stretch <= to`,
        // which is inside `data`.
        unsafe { lanes(data, before, stretch, found) };
        if let Some(new) = found.get_mut(first..) {
            new.sort_unstable();
        }
        portable::candidates(data, before + LANES * stretch, to, found);
    }
}

/// Appends the candidates of `LANES` stretches, each of `stretch` bytes, the first at `from`; in no order.
///
/// # Safety
///
/// The processor has the features; `stretch` is a multiple of eight; `from >= 64` and
/// `from + LANES * stretch <= data.len()`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn lanes(data: &[u8], from: usize, stretch: usize, found: &mut Vec<usize>) {
    let mut lanes = Lanes { data, from, stretch, found, hashes: _mm512_setzero_si512(), plain: 0 };
    for i in (0..stretch + GEAR_WINDOW).step_by(STEP) {
        // SAFETY: both are multiples of `STEP`, so `i + STEP <= stretch + 64`; the caller vouches for the rest.
        unsafe { lanes.step(i) };
    }
}

/// Position of the search.
struct Lanes<'a> {
    data: &'a [u8],
    from: usize,
    stretch: usize,
    found: &'a mut Vec<usize>,
    hashes: __m512i,
    plain: u64,
}

impl Lanes<'_> {
    /// Advances every lane by [`STEP`] bytes, from the `i`th of its warm-up and stretch on.
    ///
    /// # Safety
    ///
    /// `from >= 64`, `from + LANES * stretch <= data.len()`, and `i + STEP <= stretch + 64`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    unsafe fn step(&mut self, i: usize) {
        let &mut Self { data, from, stretch, .. } = self;
        let below = _mm512_set1_epi64(1 << 48);
        // Pairs of lanes share 128 bits; this brings the same step of both together, for the unpacks below.
        let pair_up =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
        // SAFETY: lane `l` reads eight bytes at `from - 64 + l * stretch + i`, and `i + 8 <= stretch + 64`.
        let word = |lane: usize| unsafe {
            data.as_ptr().add(from - GEAR_WINDOW + lane * stretch + i).cast::<u64>().read_unaligned()
        };

        let bytes = _mm512_set_epi64(
            word(7).cast_signed(),
            word(6).cast_signed(),
            word(5).cast_signed(),
            word(4).cast_signed(),
            word(3).cast_signed(),
            word(2).cast_signed(),
            word(1).cast_signed(),
            word(0).cast_signed(),
        );
        let bytes = _mm512_shuffle_epi8(bytes, pair_up);
        let (p0, p1) = (table_byte(0, bytes), table_byte(1, bytes));
        let (p2, p3) = (table_byte(2, bytes), table_byte(3, bytes));
        let (p4, p5) = (table_byte(4, bytes), table_byte(5, bytes));
        let (p6, p7) = (table_byte(6, bytes), table_byte(7, bytes));
        let bytes = word(VECTOR_LANES);
        for step in 0..STEP {
            self.plain = (self.plain << 1).wrapping_add(GEAR_TABLE[(bytes >> (8 * step) & 0xff) as usize]);
            if self.plain < 1 << 48 {
                add_candidate(self.found, i, from + VECTOR_LANES * stretch + step + 1);
            }
        }

        // Bytes to pairs, pairs to quarters, quarters to words: one word a lane, four steps a half.
        let pairs = [(p0, p1), (p2, p3), (p4, p5), (p6, p7)];
        let low = pairs.map(|(even, odd)| _mm512_unpacklo_epi8(even, odd));
        let high = pairs.map(|(even, odd)| _mm512_unpackhi_epi8(even, odd));
        let [a, b, c, d] = words(low);
        let [e, f, g, h] = words(high);

        let before = self.hashes;
        let mut least = below;
        for gear in [a, b, c, d] {
            self.hashes = _mm512_add_epi64(_mm512_add_epi64(self.hashes, self.hashes), gear);
            least = _mm512_min_epu64(least, self.hashes);
        }
        for gear in [e, f, g, h] {
            self.hashes = _mm512_add_epi64(_mm512_add_epi64(self.hashes, self.hashes), gear);
            least = _mm512_min_epu64(least, self.hashes);
        }
        if _mm512_cmplt_epu64_mask(least, below) != 0 {
            self.note_hits(i, before, &[a, b, c, d, e, f, g, h]);
        }
    }

    /// Goes through a step again in which some lane met a candidate.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn note_hits(&mut self, i: usize, mut hashes: __m512i, gears: &[__m512i; STEP]) {
        let below = _mm512_set1_epi64(1 << 48);
        for (step, gear) in gears.iter().enumerate() {
            hashes = _mm512_add_epi64(_mm512_add_epi64(hashes, hashes), *gear);
            let mut hits = _mm512_cmplt_epu64_mask(hashes, below);
            while hits != 0 {
                add_candidate(
                    self.found,
                    i,
                    self.from + hits.trailing_zeros() as usize * self.stretch + step + 1,
                );
                hits &= hits - 1;
            }
        }
    }
}

/// Byte `plane` of the table's word for each of 64 bytes. A permute of two registers knows seven bits of a byte; the eighth
/// chooses between two permutes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn table_byte(plane: usize, bytes: __m512i) -> __m512i {
    // SAFETY: a plane is 256 bytes, aligned to 64.
    let quarter = |q: usize| unsafe { _mm512_load_si512(PLANES.0[plane].as_ptr().add(64 * q).cast()) };
    let low = _mm512_permutex2var_epi8(quarter(0), bytes, quarter(1));
    let high = _mm512_permutex2var_epi8(quarter(2), bytes, quarter(3));
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high)
}

/// Joins byte planes, already paired, into the table words of four steps: one word a lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words(pairs: [__m512i; 4]) -> [__m512i; 4] {
    let a = _mm512_unpacklo_epi16(pairs[0], pairs[1]);
    let b = _mm512_unpackhi_epi16(pairs[0], pairs[1]);
    let c = _mm512_unpacklo_epi16(pairs[2], pairs[3]);
    let d = _mm512_unpackhi_epi16(pairs[2], pairs[3]);
    [
        _mm512_unpacklo_epi32(a, c),
        _mm512_unpackhi_epi32(a, c),
        _mm512_unpacklo_epi32(b, d),
        _mm512_unpackhi_epi32(b, d),
    ]
}

/// Notes a candidate of step `i`, unless its lane was still warming up.
#[cold]
#[inline(never)]
fn add_candidate(found: &mut Vec<usize>, i: usize, place: usize) {
    if i >= GEAR_WINDOW {
        found.push(place + i - GEAR_WINDOW);
    }
}

/// Plane `p` holds byte `p` of every table word.
#[repr(align(64))]
struct Planes([[u8; 256]; 8]);

static PLANES: Planes = {
    let mut planes = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let word = GEAR_TABLE[byte].to_le_bytes();
        let mut plane = 0;
        while plane < 8 {
            planes[plane][byte] = word[plane];
            plane += 1;
        }
        byte += 1;
    }
    Planes(planes)
};

const VECTOR_LANES: usize = 8;
/// One more in general registers.
const LANES: usize = VECTOR_LANES + 1;
/// Bytes each lane advances in one turn.
const STEP: usize = 8;
/// Below this the warm-up of the lanes costs more than they gain.
const STRETCH_MIN: usize = 256;

//! Guesses from samples of a chunk which scheme stores it best.
//!
//! LZ4 has no entropy coder: it gains only where four bytes or more come again, near or up to 64 KiB away. So samples
//! cannot tell that a chunk is incompressible: random bytes that come twice look random in every sample and yet shrink
//! by half. LZ4 itself can, and cheaply: where it finds nothing it takes longer and longer steps. On random bytes a
//! whole run measured the same as a probe for repeated words that was good enough to trust. So a plain run is never
//! guessed away; what is guessed is whether grouping deserves a run too, or instead. Two questions:
//!
//! 1. *Are the four byte groups skewed, and differently?* Those of numbers are: sign and exponent stand in one of
//!    them. Those of random bytes are not skewed, those of text all alike. In both cases grouping gains nothing.
//! 2. *What does LZ4 make of a sample,* plain and grouped? Asked only when the groups differ.
//!
//! A wrong guess costs time or space, never correctness. Everything is integer arithmetic on the chunk's bytes alone,
//! so the guess is the same everywhere.

use super::Scheme;

/// What is worth running on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess {
    /// This alone.
    One(Scheme),
    /// LZ4 with and without grouping, for the shorter result.
    Either,
}

/// LZ4 block lengths of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) plain_bytes: usize,
    pub(super) grouped_bytes: usize,
}

/// Tables for guessing, reused from chunk to chunk.
pub(super) struct Predictor {
    counts: Box<[[u16; 256]; 4]>,
    sample: Vec<u8>,
}

impl Predictor {
    pub(super) fn new() -> Self {
        Self { counts: Box::new([[0; 256]; 4]), sample: Vec::with_capacity(SAMPLE_BYTES) }
    }

    /// Guesses for one chunk; `trial` compresses a sample both ways.
    pub(super) fn guess(&mut self, chunk: &[u8], trial: impl FnOnce(&[u8]) -> Trial) -> Guess {
        if chunk.len() < SMALL_BYTES {
            return Guess::Either;
        }
        let groups = self.groups(chunk);
        if !groups.skewed || groups.alike {
            return Guess::One(Scheme::Lz4);
        }

        let Trial { plain_bytes, grouped_bytes } = trial(self.take_sample(chunk));
        let gains = |bytes: usize| bytes + bytes / 64 < SAMPLE_BYTES;
        match (gains(plain_bytes), gains(grouped_bytes)) {
            // The sample is too short for the repeats inside one group of noisy numbers: there the skew counts.
            (false, false) if groups.strong => Guess::Either,
            (_, false) => Guess::One(Scheme::Lz4),
            (false, true) => Guess::One(Scheme::GroupedLz4),
            (true, true) if plain_bytes + plain_bytes / 8 < grouped_bytes => Guess::One(Scheme::Lz4),
            (true, true) if grouped_bytes + grouped_bytes / 8 < plain_bytes => Guess::One(Scheme::GroupedLz4),
            (true, true) => Guess::Either,
        }
    }

    /// Counts the bytes of each group in windows that lie evenly over the chunk.
    fn groups(&mut self, chunk: &[u8]) -> Groups {
        for counts in self.counts.iter_mut() {
            counts.fill(0);
        }
        let [a, b, c, d] = &mut *self.counts;
        let mut same = [0_u32; 4];
        for number in 0..WINDOWS {
            let start = ((chunk.len() - WINDOW_BYTES) / (WINDOWS - 1) * number) & !3;
            let window = chunk.get(start..start + WINDOW_BYTES).unwrap_or_default();
            let (words, _) = window.as_chunks::<4>();
            for [w, x, y, z] in words {
                for (counts, byte) in [(&mut *a, w), (&mut *b, x), (&mut *c, y), (&mut *d, z)] {
                    if let Some(count) = counts.get_mut(usize::from(*byte)) {
                        *count += 1;
                    }
                }
            }
            for [before, word] in words.array_windows() {
                for ((same, before), byte) in same.iter_mut().zip(before).zip(word) {
                    *same += u32::from(byte == before);
                }
            }
        }
        Groups::judge(self.counts.each_ref().map(Skew::of), same)
    }

    /// Two pieces, around a third and two thirds of the chunk.
    fn take_sample(&mut self, chunk: &[u8]) -> &[u8] {
        self.sample.clear();
        for third in [1, 2] {
            // A piece must begin with the same group as the chunk.
            let start = (chunk.len() / 3 * third - SAMPLE_BYTES / 4) & !3;
            self.sample.extend_from_slice(chunk.get(start..start + SAMPLE_BYTES / 2).unwrap_or_default());
        }
        &self.sample
    }
}

/// How unequal the bytes of one group are: ordered pairs of equal ones, about 1 in 256 of all when random.
#[derive(Debug, Clone, Copy)]
struct Skew {
    pairs: u32,
    /// Without the commonest byte: padding and holes are zeros in every group and hide the rest.
    rest_pairs: u32,
}

impl Skew {
    fn of(counts: &[u16; 256]) -> Self {
        let pairs_of = |count: u16| u32::from(count) * u32::from(count.saturating_sub(1));
        let pairs = counts.iter().copied().map(pairs_of).sum();
        let commonest = counts.iter().copied().max().unwrap_or_default();
        Self { pairs, rest_pairs: pairs - pairs_of(commonest) }
    }
}

/// What the byte groups look like.
#[derive(Debug, PartialEq, Eq)]
struct Groups {
    /// Some group is not random.
    skewed: bool,
    /// Some group is so far from random that its bytes repeat.
    strong: bool,
    /// All groups are about equally skewed, so four-byte words mean nothing here.
    alike: bool,
}

impl Groups {
    /// `same`: how many bytes of each group equal the one before.
    fn judge(skews: [Skew; 4], same: [u32; 4]) -> Self {
        let (_, most_pairs) = bounds(skews.map(|skew| skew.pairs));
        let (least_rest, most_rest) = bounds(skews.map(|skew| skew.rest_pairs));
        let (least_same, most_same) = bounds(same);
        // By chance: 5 standard deviations above what is expected for pairs, more for neighbours.
        Self {
            skewed: most_pairs > RANDOM_PAIRS + RANDOM_PAIRS / 4 || most_same > GROUP_SAMPLES / 32,
            strong: most_pairs > 8 * RANDOM_PAIRS || most_same > GROUP_SAMPLES / 8,
            alike: most_rest <= least_rest + least_rest / 2 + RANDOM_PAIRS / 4
                && most_same <= least_same + least_same / 2 + GROUP_SAMPLES / 16,
        }
    }
}

/// The least and the most.
fn bounds(four: [u32; 4]) -> (u32, u32) {
    four.into_iter().fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)))
}

/// Below this guessing would cost about as much as compressing.
const SMALL_BYTES: usize = 8 * 1024;
/// Where bytes are counted.
const WINDOWS: usize = 32;
const WINDOW_BYTES: usize = 64;
/// Bytes counted in each group.
const GROUP_SAMPLES: u32 = 512;
const _: () = assert!(GROUP_SAMPLES as usize == WINDOWS * WINDOW_BYTES / 4);
/// Ordered pairs of equal bytes expected among them when all bytes are equally likely.
const RANDOM_PAIRS: u32 = GROUP_SAMPLES * (GROUP_SAMPLES - 1) / 256;
/// Length of the sample that is compressed; its pieces must fit into the smallest chunk guessed for.
const SAMPLE_BYTES: usize = 4 * 1024;
const _: () = assert!(SAMPLE_BYTES <= SMALL_BYTES);

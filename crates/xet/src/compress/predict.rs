//! Prediction, from samples of a chunk, of the scheme that stores it best.
//!
//! LZ4 has no entropy coder: it gains only where four bytes or more repeat, near or up to 64 KiB away. Four
//! questions find what is worth running, the cheap ones first:
//!
//! 1. *Does every window look like noise?* Then only bytes that repeat from afar can shrink it. A search for those
//!    decides between LZ4 and none. On 64 KiB of noise both take 1.5 us, LZ4 4.2 us; on 128 KiB 2.1 us and 7 us.
//! 2. *Are the four byte groups skewed, and differently?* Those of numbers are: sign and exponent stand in one of
//!    them. Those of text are all alike, and grouping gains nothing.
//! 3. *Is one group noise beside a strongly skewed one?* So it is in weights, and grouping alone gains there, unless
//!    short rows repeat, which the same search finds. 1.3 us for the groups and 1.2 us for the search, where LZ4
//!    takes 80 us.
//! 4. *What does LZ4 make of a sample,* plain and grouped? Asked only where the groups leave it open.
//!
//! A wrong guess costs time or space, never correctness. Everything is integer arithmetic on the chunk's bytes alone,
//! so the guess is the same everywhere.

mod groups;
mod noise;
mod repeats;

use super::Scheme;
use groups::Counts;
use repeats::Repeats;

/// Encoders worth running on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess {
    /// This alone.
    One(Scheme),
    /// LZ4 with and without grouping, for the shorter result.
    Either,
    /// None, unless [`Predictor::repeats`] says otherwise. To be called once the chunk is copied: in order it comes
    /// faster from memory than stride by stride.
    RawUnlessRepeated,
}

/// LZ4 block lengths of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) plain_bytes: usize,
    pub(super) grouped_bytes: usize,
}

/// Tables for guessing, reused from chunk to chunk.
pub(super) struct Predictor {
    counts: Counts,
    repeats: Repeats,
    sample: Vec<u8>,
}

impl Predictor {
    pub(super) fn new() -> Self {
        let sample = Vec::with_capacity(SAMPLE_BYTES);
        Self { counts: Counts::new(), repeats: Repeats::new(), sample }
    }

    /// Guesses for one chunk; `trial` compresses a sample both ways.
    pub(super) fn guess(&mut self, chunk: &[u8], trial: impl FnOnce(&[u8]) -> Trial) -> Guess {
        if chunk.len() < SMALL_BYTES {
            return Guess::Either;
        }
        if noise::is_random(chunk) {
            return Guess::RawUnlessRepeated;
        }
        let groups = self.counts.judge(chunk);
        if !groups.skewed || groups.alike {
            return Guess::One(Scheme::Lz4);
        }
        if groups.mixed && groups.strong {
            let (met, of) = (self.repeats.met(chunk), repeats::lookups(chunk));
            // Words of 16-bit numbers are met again by chance, one in 1000; rows from a table of 2000 one in 30.
            if met <= of / 128 {
                return Guess::One(Scheme::GroupedLz4);
            }
            // More than these, and the sample will show them.
            if met < of / 8 {
                return Guess::Either;
            }
        }

        let Trial { plain_bytes, grouped_bytes } = trial(self.take_sample(chunk));
        let gains = |bytes: usize| bytes + bytes / 64 < SAMPLE_BYTES;
        match (gains(plain_bytes), gains(grouped_bytes)) {
            // The sample is too short for the repeats inside one group of noisy numbers: there the skew counts, and
            // any sign of them.
            (false, false) if groups.strong && grouped_bytes < plain_bytes => Guess::One(Scheme::GroupedLz4),
            (false, false) if groups.strong => Guess::Either,
            (_, false) => Guess::One(Scheme::Lz4),
            (false, true) => Guess::One(Scheme::GroupedLz4),
            (true, true) if plain_bytes + plain_bytes / 8 < grouped_bytes => Guess::One(Scheme::Lz4),
            (true, true) if grouped_bytes + grouped_bytes / 8 < plain_bytes => Guess::One(Scheme::GroupedLz4),
            (true, true) => Guess::Either,
        }
    }

    /// Whether a chunk of noise repeats itself.
    pub(super) fn repeats(&mut self, chunk: &[u8]) -> bool {
        self.repeats.met(chunk) > 0
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

/// Below this guessing would cost about as much as compressing.
const SMALL_BYTES: usize = 8 * 1024;
const _: () = assert!(noise::BYTES_MIN <= SMALL_BYTES);
/// Length of the sample that is compressed: twice as much chose no better. Its pieces must fit into the smallest chunk
/// guessed for.
const SAMPLE_BYTES: usize = 2 * 1024;
const _: () = assert!(SAMPLE_BYTES <= SMALL_BYTES);

//! Guesses from samples of a chunk which scheme stores it best.
//!
//! LZ4 has no entropy coder: it gains only where four bytes or more come again. So skewed bytes in random order
//! hardly shrink, while random bytes that come twice shrink by half. Three questions, cheapest first:
//!
//! 1. *Do words come again?* The words at every position of some windows go into a table, then a comb over the whole
//!    chunk looks its words up. A copy longer than the distance of two windows covers a window, and the comb, whose
//!    teeth are a window apart, hits the other copy; shorter copies are hit in proportion to their share.
//! 2. *Are the byte groups skewed?* Counted in the same windows, each group alone. Random and already compressed
//!    bytes are not, and numbers are, in the groups of their high bytes.
//! 3. *What does LZ4 make of a sample,* plain and grouped? Asked only when the first two leave it open.
//!
//! A wrong guess costs time or space, never correctness. Everything is integer arithmetic on the chunk's bytes
//! alone, so the guess is the same everywhere.

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
    /// Hash of a word to the number of its position in the windows, from 1; 0 is empty.
    seen: Box<[u16; 1 << SEEN_BITS]>,
    counts: Box<[[u16; 256]; 4]>,
    sample: Vec<u8>,
}

impl Predictor {
    pub(super) fn new() -> Self {
        Self {
            seen: Box::new([0; 1 << SEEN_BITS]),
            counts: Box::new([[0; 256]; 4]),
            sample: Vec::with_capacity(TRIAL_BYTES),
        }
    }

    /// Guesses for one chunk; `trial` compresses a sample both ways.
    pub(super) fn guess(&mut self, chunk: &[u8], trial: impl FnOnce(&[u8]) -> Trial) -> Guess {
        if chunk.len() < SMALL_BYTES {
            return Guess::Either;
        }
        let repeats = self.repeats(chunk);
        let groups = self.groups(chunk);

        if !groups.skewed {
            // Grouping would only tear repeats apart.
            return Guess::One(if repeats.any() { Scheme::Lz4 } else { Scheme::Raw });
        }
        if groups.alike && repeats.far >= MANY_REPEATS {
            return Guess::One(Scheme::Lz4); // text, mostly
        }
        let Trial { plain_bytes, grouped_bytes } = trial(self.take_sample(chunk));
        let gains = |bytes: usize| bytes + bytes / 64 < TRIAL_BYTES;
        // A sample is too short for the repeats inside one group of noisy numbers: there the skew counts.
        let grouped_gains = gains(grouped_bytes) || (groups.strong && !groups.alike);
        let plain_gains = gains(plain_bytes) || repeats.any();
        match (plain_gains, grouped_gains) {
            (false, false) => Guess::One(Scheme::Raw),
            (true, false) => Guess::One(Scheme::Lz4),
            (false, true) => Guess::One(Scheme::GroupedLz4),
            (true, true) if plain_bytes + plain_bytes / 4 < grouped_bytes => Guess::One(Scheme::Lz4),
            // The sample does not show what far repeats are worth without grouping.
            (true, true) if grouped_bytes + grouped_bytes / 4 < plain_bytes && repeats.far == 0 => {
                Guess::One(Scheme::GroupedLz4)
            }
            (true, true) => Guess::Either,
        }
    }

    fn repeats(&mut self, chunk: &[u8]) -> Repeats {
        self.seen.fill(0);
        let mut repeats = Repeats::default();
        let mut number = 0_u16;
        for start in window_starts(chunk.len()) {
            let window = chunk.get(start..start + WINDOW_BYTES + WORD_BYTES - 1).unwrap_or_default();
            for (at, word) in (start..).zip(window.array_windows()) {
                number += 1;
                let slot = slot(&mut self.seen, word);
                repeats.count(chunk, at, word, *slot);
                *slot = number;
            }
        }
        let (teeth, _) = chunk.as_chunks::<COMB_BYTES>();
        for (tooth, at) in teeth.iter().zip((0..).step_by(COMB_BYTES)) {
            let (word, _) = tooth.split_first_chunk().expect("a tooth is longer than a word");
            let found = *slot(&mut self.seen, word);
            repeats.count(chunk, at, word, found);
        }
        repeats
    }

    fn groups(&mut self, chunk: &[u8]) -> Groups {
        for counts in self.counts.iter_mut() {
            counts.fill(0);
        }
        let [a, b, c, d] = &mut *self.counts;
        let mut same = [0_u32; 4];
        for start in window_starts(chunk.len()) {
            let window = chunk.get(start..start + WINDOW_BYTES).unwrap_or_default();
            let (words, _) = window.as_chunks::<4>();
            let mut last = None;
            for word in words {
                let [w, x, y, z] = *word;
                for (counts, byte) in [(&mut *a, w), (&mut *b, x), (&mut *c, y), (&mut *d, z)] {
                    if let Some(count) = counts.get_mut(usize::from(byte)) {
                        *count += 1;
                    }
                }
                if let Some(last) = last.replace(*word) {
                    for ((same, byte), before) in same.iter_mut().zip(word).zip(last) {
                        *same += u32::from(*byte == before);
                    }
                }
            }
        }
        // Pairs of equal bytes: about 1 in 256 when random, more the more skewed the bytes are.
        let pairs = self.counts.each_ref().map(|counts| {
            counts.iter().map(|&count| u32::from(count) * u32::from(count.saturating_sub(1))).sum::<u32>()
        });
        Groups::judge(pairs, same)
    }

    /// Two pieces, at a third and at two thirds of the chunk.
    fn take_sample(&mut self, chunk: &[u8]) -> &[u8] {
        self.sample.clear();
        for third in [1, 2] {
            let middle = chunk.len() / 3 * third;
            // The pieces must begin with the same group as the chunk.
            let start = middle.saturating_sub(TRIAL_BYTES / 4) & !3;
            self.sample.extend_from_slice(chunk.get(start..start + TRIAL_BYTES / 2).unwrap_or_default());
        }
        &self.sample
    }
}

/// Words that came again.
#[derive(Debug, Default)]
struct Repeats {
    near: u32,
    /// Farther than a piece of the sample is long.
    far: u32,
}

impl Repeats {
    fn any(&self) -> bool {
        self.near + self.far > 0
    }

    /// Counts the word at `at` if window position `number` holds the same and LZ4 could reach it.
    fn count(&mut self, chunk: &[u8], at: usize, word: &[u8; WORD_BYTES], number: u16) {
        let Some(number) = number.checked_sub(1).map(usize::from) else { return };
        let candidate = window_start(chunk.len(), number / WINDOW_BYTES) + number % WINDOW_BYTES;
        let distance = at.abs_diff(candidate);
        if distance == 0 || distance > usize::from(u16::MAX) {
            return;
        }
        if chunk.get(candidate..).and_then(|rest| rest.first_chunk()) == Some(word) {
            match distance < TRIAL_BYTES / 2 {
                true => self.near += 1,
                false => self.far += 1,
            }
        }
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
    /// `pairs`: ordered pairs of equal bytes in each group; `same`: neighbours that are equal.
    fn judge(pairs: [u32; 4], same: [u32; 4]) -> Self {
        let most_pairs = pairs.into_iter().max().unwrap_or_default();
        let least_pairs = pairs.into_iter().min().unwrap_or_default();
        let most_same = same.into_iter().max().unwrap_or_default();
        let least_same = same.into_iter().min().unwrap_or_default();
        Self {
            skewed: most_pairs > RANDOM_PAIRS + RANDOM_PAIRS / 4 || most_same > GROUP_SAMPLES / 32,
            strong: most_pairs > 8 * RANDOM_PAIRS || most_same > GROUP_SAMPLES / 8,
            alike: most_pairs < least_pairs + least_pairs / 2
                && most_same < least_same + least_same / 2 + GROUP_SAMPLES / 16,
        }
    }
}

/// The table entry for a word.
fn slot<'a>(seen: &'a mut [u16; 1 << SEEN_BITS], word: &[u8; WORD_BYTES]) -> &'a mut u16 {
    let hash = u64::from_le_bytes(*word).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SEEN_BITS);
    let index = usize::from(u16::try_from(hash).unwrap_or_default());
    seen.get_mut(index).expect("the hash has as many bits as the table's index")
}

fn window_starts(len: usize) -> impl Iterator<Item = usize> {
    (0..WINDOWS).map(move |window| window_start(len, window))
}

/// Windows lie evenly over the chunk and begin with the same group as the chunk.
fn window_start(len: usize, window: usize) -> usize {
    ((len - WINDOW_BYTES - WORD_BYTES) / (WINDOWS - 1) * window) & !3
}

/// Below this guessing would cost more than compressing.
const SMALL_BYTES: usize = 8 * 1024;
/// Samples for the first two questions.
const WINDOWS: usize = 32;
const WINDOW_BYTES: usize = 64;
/// Long enough that random words never come again by chance.
const WORD_BYTES: usize = 8;
/// Distance of the comb's teeth; not more than a window, or a copy could slip through.
const COMB_BYTES: usize = 64;
const _: () = assert!(COMB_BYTES <= WINDOW_BYTES);
/// Twice as many slots as words.
const SEEN_BITS: u32 = 12;
const _: () = assert!(2 * WINDOWS * WINDOW_BYTES == 1 << SEEN_BITS);
/// Bytes counted in each group.
const GROUP_SAMPLES: u32 = (WINDOWS * WINDOW_BYTES / 4) as u32;
/// Ordered pairs of equal bytes expected among them when all bytes are equally likely.
const RANDOM_PAIRS: u32 = GROUP_SAMPLES * (GROUP_SAMPLES - 1) / 256;
/// Length of the sample that is compressed; its pieces must fit into the smallest chunk guessed for.
const TRIAL_BYTES: usize = 8 * 1024;
const _: () = assert!(TRIAL_BYTES <= SMALL_BYTES);
/// So many far hits and like groups: no doubt left.
const MANY_REPEATS: u32 = 16;

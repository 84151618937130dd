//! Made-up data, the same on every machine: each generator is a function of its arguments alone.

/// The 64-bit outputs of the splitmix64 generator.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts at `seed`; any seed will do.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next output.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `bound`, which must not be 0. Not quite even; even enough for tests.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }
}

impl Iterator for SplitMix64 {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.word())
    }
}

/// Incompressible bytes.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    cut(SplitMix64::new(seed).map(u64::to_le_bytes), len)
}

/// One byte over and over.
pub fn constant(byte: u8, len: usize) -> Vec<u8> {
    vec![byte; len]
}

/// The first `period` bytes of [`noise`] over and over. A period of 0 is empty.
pub fn period(period: usize, seed: u64, len: usize) -> Vec<u8> {
    let unit = noise(seed, period);
    unit.iter().copied().cycle().take(len).collect()
}

/// Words and full stops, ASCII: compresses with LZ4, not better by byte groups.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    text_of(&WORDS, seed, len)
}

/// [`text`] from a word list of 64.
///
/// # Panics
///
/// If there are fewer than 64 words.
pub fn text_of<S: AsRef<str>>(words: &[S], seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 16);
    let mut random = SplitMix64::new(seed);
    while out.len() < len {
        let u = random.word();
        out.extend_from_slice(words[(u & 63) as usize].as_ref().as_bytes());
        out.extend_from_slice(if (u >> 6).is_multiple_of(13) { b".\n" } else { b" " });
    }
    out.truncate(len);
    out
}

/// `f32` elements that climb by `step`: byte groups compress, plain LZ4 does not.
pub fn f32_ramp(start: f64, step: f64, len: usize) -> Vec<u8> {
    // Two roundings, as written: a fused multiply-add would give other bytes on some machines.
    cut((0u32..).map(|i| ((start + f64::from(i) * step) as f32).to_le_bytes()), len)
}

/// `f32` elements spread evenly over `scale`, around zero.
pub fn f32_noise(seed: u64, scale: f64, len: usize) -> Vec<u8> {
    let element = |u: u64| (((u >> 40) as f64 / 16_777_216.0 - 0.5) * scale) as f32;
    cut(SplitMix64::new(seed).map(|u| element(u).to_le_bytes()), len)
}

/// `bf16` elements around zero in the shape of a bell with deviation `sigma`: what model weights look like.
pub fn bf16_gaussian(seed: u64, sigma: f32, len: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    // A sum of twelve even spreads is a good enough bell, and needs no logarithm that machines may round differently.
    let element = move || {
        let sum: f64 = (0..12).map(|_| (random.word() >> 40) as f64 / 16_777_216.0).sum();
        let [_, _, low, high] = ((sum - 6.0) as f32 * sigma).to_le_bytes();
        [low, high]
    };
    cut(std::iter::repeat_with(element), len)
}

/// The bytes of endless `elements`, cut to `len`.
fn cut<const N: usize>(elements: impl Iterator<Item = [u8; N]>, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + N);
    for element in elements {
        if out.len() >= len {
            break;
        }
        out.extend_from_slice(&element);
    }
    out.truncate(len);
    out
}

const WORDS: [&str; 64] = [
    "wall", "stone", "field", "hill", "lamb", "gate", "moss", "rain", "path", "north", "south", "east",
    "west", "first", "second", "third", "top", "middle", "bottom", "through", "under", "over", "beside",
    "between", "heavy", "light", "flat", "round", "broken", "whole", "old", "new", "lay", "lift", "turn",
    "set", "pack", "fill", "leave", "find", "hand", "line", "course", "batter", "cope", "hearting",
    "footing", "face", "end", "and", "then", "so", "if", "because", "until", "a", "the", "this", "that",
    "each", "no", "one", "two", "many",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_the_published_sequence() {
        let data = noise(0, 1_000_000);
        assert_eq!((data[0], data[127], data[111_111]), (175, 132, 118));
    }

    #[test]
    fn every_generator_gives_exactly_the_requested_length() {
        for len in [0, 1, 2, 3, 4, 5, 7, 8, 9, 1001] {
            for data in [
                noise(1, len),
                constant(1, len),
                period(3, 1, len),
                text(1, len),
                f32_ramp(0.0, 0.1, len),
                f32_noise(1, 0.1, len),
                bf16_gaussian(1, 0.02, len),
            ] {
                assert_eq!(data.len(), len);
            }
        }
    }

    #[test]
    fn a_shorter_output_is_a_prefix_of_a_longer_one() {
        assert!(text(5, 1000).starts_with(&text(5, 123)));
        assert!(bf16_gaussian(5, 0.02, 1000).starts_with(&bf16_gaussian(5, 0.02, 123)));
    }
}

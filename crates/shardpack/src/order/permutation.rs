//! A keyed permutation of `0..len`, computed for one position at a time.
//!
//! Six rounds of a Feistel network over the fewest bits (an even number) that hold `len`, walked on until the
//! result is below `len`. The round function is the finalizer of SplitMix64 over the sum of half and key; the keys are
//! BLAKE3 of the numbers that name the permutation. Written down in `docs/format/shardpack.md`, so that a reader in
//! another language gives the same order.

/// A permutation of `0..len`.
#[derive(Debug, Clone)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..len` that `name` names.
    pub fn new(len: u64, name: &[u64]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for number in name {
            hasher.update(&number.to_le_bytes());
        }
        let mut bytes = [0; 8 * ROUNDS];
        hasher.finalize_xof().fill(&mut bytes);
        let (chunks, _) = bytes.as_chunks::<8>();
        let mut keys = [0; ROUNDS];
        for (key, chunk) in keys.iter_mut().zip(chunks) {
            *key = u64::from_le_bytes(*chunk);
        }
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The number at `position`, which must be below `len`.
    pub fn at(&self, position: u64) -> u64 {
        self.walk(position, |number| self.forward(number))
    }

    /// The position of `number`, which must be below `len`.
    pub(crate) fn position_of(&self, number: u64) -> u64 {
        self.walk(number, |number| self.backward(number))
    }

    /// The network permutes up to four times as many numbers: those outside are walked through. From a number inside the
    /// walk comes back inside, for it is on a cycle.
    fn walk(&self, from: u64, step: impl Fn(u64) -> u64) -> u64 {
        if from >= self.len {
            return from;
        }
        let mut number = step(from);
        while number >= self.len {
            number = step(number);
        }
        number
    }

    fn forward(&self, number: u64) -> u64 {
        let mask = self.mask();
        let (mut left, mut right) = (number >> self.half_bits & mask, number & mask);
        for key in &self.keys {
            (left, right) = (right, left ^ (round(right, *key) & mask));
        }
        left << self.half_bits | right
    }

    fn backward(&self, number: u64) -> u64 {
        let mask = self.mask();
        let (mut left, mut right) = (number >> self.half_bits & mask, number & mask);
        for key in self.keys.iter().rev() {
            (left, right) = (right ^ (round(left, *key) & mask), left);
        }
        left << self.half_bits | right
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }
}

fn round(half: u64, key: u64) -> u64 {
    let mut mixed = half.wrapping_add(key);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

const ROUNDS: usize = 6;

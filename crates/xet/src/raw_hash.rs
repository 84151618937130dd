//! The 32 bytes of any hash: order and string form.

use std::cmp::Ordering;
use std::fmt;

/// Any 32-byte hash, without saying of what. Orders as the shard format does: by four little-endian words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Hash([u8; 32]);

impl Hash {
    /// 32 zero bytes: the hash of nothing.
    pub(crate) const ZERO: Self = Self([0; 32]);

    /// Takes raw bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The four little-endian words that order and print a hash.
    pub(crate) fn words(&self) -> [u64; 4] {
        let (words, _) = self.0.as_chunks::<8>();
        let mut out = [0; 4];
        for (out, word) in out.iter_mut().zip(words) {
            *out = u64::from_le_bytes(*word);
        }
        out
    }

    /// The first word: the truncated hash of lookup tables.
    pub(crate) fn prefix(&self) -> u64 {
        let [first, ..] = self.words();
        first
    }

    /// The last word: decides Merkle groups and dedup eligibility.
    pub(crate) fn suffix(&self) -> u64 {
        let [.., last] = self.words();
        last
    }

    /// The 64 digits of the string form, without allocating.
    pub fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
        let mut out = [0; 64];
        let (pairs, _) = out.as_chunks_mut::<2>();
        let bytes = self.words().into_iter().flat_map(u64::to_be_bytes);
        for (pair, byte) in pairs.iter_mut().zip(bytes) {
            *pair = [digit(byte >> 4), digit(byte & 15)];
        }
        out
    }
}

impl Ord for Hash {
    fn cmp(&self, other: &Self) -> Ordering {
        self.words().cmp(&other.words())
    }
}

impl PartialOrd for Hash {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for word in self.words() {
            write!(f, "{word:016x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

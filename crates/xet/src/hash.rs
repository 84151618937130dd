//! Hashes: one type for each kind of content, one string form for all.
//!
//! The string form prints four little-endian 64-bit words as 16 hexadecimal digits each, so it is not the plain
//! hexadecimal of the bytes. [`Sha256`] is the exception in spirit: its *field* in a shard is stored so that the
//! string form of the field reads like the ordinary digest.

use std::fmt;
use std::str::FromStr;

use crate::constants;
use crate::error::FormatError;

pub use crate::raw_hash::Hash;

/// Plain hexadecimal of bytes in their order, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// Bytes from lower-case hexadecimal: all of the text, and no other spelling of them.
pub fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl FromStr for Hash {
    type Err = FormatError;

    /// Accepts either case; anything but 64 hexadecimal digits is refused.
    fn from_str(text: &str) -> Result<Self, FormatError> {
        let refuse = || FormatError::HashText { found: text.chars().take(80).collect() };
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        let mut bytes = [0; 32];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (i, word) in words.iter_mut().enumerate() {
            let digits = text.get(16 * i..16 * (i + 1)).ok_or_else(refuse)?;
            *word = u64::from_str_radix(digits, 16).map_err(|_| refuse())?.to_le_bytes();
        }
        Ok(Self::new(bytes))
    }
}

impl serde::Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Declares a hash type of its own for each kind of content, so that one cannot be passed for another.
macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub Hash);

        impl $name {
            /// 32 zero bytes.
            pub const ZERO: Self = Self(Hash::ZERO);

            /// Wraps raw bytes.
            pub const fn new(bytes: [u8; 32]) -> Self {
                Self(Hash::new(bytes))
            }

            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                self.0.as_bytes()
            }
        }

        text_form!($name);
    };
}

/// Implements the string form of a hash type.
macro_rules! text_form {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = FormatError;

            fn from_str(text: &str) -> Result<Self, FormatError> {
                text.parse().map(Self)
            }
        }
    };
}

hash_type! {
    /// Hash of the raw bytes of a chunk. In a dedup answer the same field holds the *keyed* hash: see [`HashKey`].
    ChunkHash
}
hash_type! {
    /// Hash of a xorb: covers the hashes and lengths of its chunks, not their compression.
    XorbHash
}
hash_type! {
    /// Hash of a file: covers the hashes and lengths of its chunks. An empty file is 32 zero bytes.
    FileHash
}
hash_type! {
    /// Hash over the chunk hashes of a term: proves that its author knew them.
    RangeHash
}
hash_type! {
    /// Hash of the bytes of a shard.
    ShardHash
}

impl ChunkHash {
    /// The hash of a chunk's raw bytes.
    pub fn of(chunk: &[u8]) -> Self {
        Self::new(*blake3::keyed_hash(&constants::CHUNK_KEY, chunk).as_bytes())
    }

    /// Whether the hash alone makes the chunk eligible for global dedup. The first chunk of a file always is.
    pub fn is_dedup_eligible(&self) -> bool {
        self.0.suffix().is_multiple_of(constants::DEDUP_MODULUS)
    }

    /// The hash as it appears in a dedup answer under `key`. A zero key means unprotected.
    pub fn keyed(&self, key: &HashKey) -> Self {
        match key.is_zero() {
            true => *self,
            false => Self::new(*blake3::keyed_hash(&key.0, self.as_bytes()).as_bytes()),
        }
    }
}

impl RangeHash {
    /// The hash over the chunk hashes of one term, in order.
    pub fn of<'a>(chunks: impl IntoIterator<Item = &'a ChunkHash>) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&constants::RANGE_KEY);
        for chunk in chunks {
            hasher.update(chunk.as_bytes());
        }
        Self::new(*hasher.finalize().as_bytes())
    }
}

impl ShardHash {
    /// The hash of a whole shard, footer included where it has one.
    pub fn of(shard: &[u8]) -> Self {
        Self::new(*blake3::keyed_hash(&constants::CHUNK_KEY, shard).as_bytes())
    }
}

/// The key that protects the chunk hashes of a dedup answer. Specifications say HMAC; it is BLAKE3's keyed mode.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct HashKey([u8; 32]);

impl HashKey {
    /// No protection: chunk hashes stand as they are.
    pub const ZERO: Self = Self([0; 32]);

    /// Takes the raw bytes, as in a shard's footer.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes, as in a shard's footer.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether chunk hashes stand unprotected.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_zero() { "HashKey(zero)" } else { "HashKey(..)" })
    }
}

/// An ordinary SHA-256 digest, in ordinary order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Takes the digest's bytes in ordinary order.
    pub const fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest's bytes in ordinary order.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the field of a shard's metadata row, where each group of eight bytes stands reversed.
    pub fn from_field(field: [u8; 32]) -> Self {
        Self(reverse_groups(field))
    }

    /// The bytes to write in a shard's metadata row.
    pub fn to_field(self) -> [u8; 32] {
        reverse_groups(self.0)
    }
}

/// Reverses each group of eight bytes; its own inverse.
fn reverse_groups(mut bytes: [u8; 32]) -> [u8; 32] {
    let (groups, _) = bytes.as_chunks_mut::<8>();
    groups.iter_mut().for_each(|group| group.reverse());
    bytes
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The string form of the field is the ordinary hexadecimal of the digest.
        Hash::new(self.to_field()).fmt(f)
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl FromStr for Sha256 {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        text.parse().map(|field: Hash| Self::from_field(*field.as_bytes()))
    }
}

impl serde::Serialize for Sha256 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Sha256 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Hash::deserialize(deserializer).map(|field| Self::from_field(*field.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> [u8; 32] {
        std::array::from_fn(|i| i as u8)
    }

    /// The draft's own example.
    #[test]
    fn the_string_form_reverses_each_word() {
        let text = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918";
        let hash = Hash::new(counting());
        assert_eq!(hash.to_string(), text);
        assert_eq!(hash.hex(), text.as_bytes());
        assert_eq!(text.parse::<Hash>().unwrap(), hash);
        assert_eq!(text.to_uppercase().parse::<Hash>().unwrap(), hash);
    }

    #[test]
    fn only_64_digits_are_a_hash() {
        for bad in
            ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32), &"+".repeat(64)]
        {
            assert!(matches!(bad.parse::<Hash>(), Err(FormatError::HashText { .. })), "{bad:?}");
        }
    }

    #[test]
    fn order_is_by_words_not_by_bytes() {
        let mut low = [0; 32];
        let mut high = [0; 32];
        low[0] = 2;
        high[7] = 1;
        assert!(Hash::new(low) < Hash::new(high));
        assert!(low > high);
    }

    /// Values printed in the draft and computed independently of this code.
    #[test]
    fn known_hashes() {
        let chunk = ChunkHash::of(b"Hello World!");
        assert_eq!(chunk.to_string(), "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb");
        assert_eq!(
            RangeHash::of([&chunk]).to_string(),
            "89cb63458e98cb4c75be6b50a5a7b7234b82f05d5348e6925fb71aaf5dc3862b"
        );
        assert_eq!(
            chunk.keyed(&HashKey::new(counting())).to_string(),
            "213944381648fd3a12bf8dfc98576416734cf1afdb7ddced216b33a217c15167"
        );
        assert_eq!(chunk.keyed(&HashKey::ZERO), chunk);
    }

    #[test]
    fn a_sha256_prints_ordinarily_and_is_stored_reversed() {
        let digest = Sha256::new(counting());
        assert_eq!(digest.to_string(), "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        assert_eq!(digest.to_field()[..9], [7, 6, 5, 4, 3, 2, 1, 0, 15]);
        assert_eq!(Sha256::from_field(digest.to_field()), digest);
        assert_eq!(digest.to_string().parse::<Sha256>().unwrap(), digest);
    }

    #[test]
    fn eligibility_depends_on_the_last_word() {
        let mut bytes = [0xff; 32];
        bytes[24..].copy_from_slice(&(1024u64 * 77).to_le_bytes());
        assert!(ChunkHash::new(bytes).is_dedup_eligible());
        bytes[24] = 1;
        assert!(!ChunkHash::new(bytes).is_dedup_eligible());
    }
}

//! Pointers: the small text git keeps in place of a large file.
//!
//! Written in one way only, so that the same file has the same blob everywhere; read in that way only too: anything else
//! is an ordinary text about pointers.

use xet::Sha256;
use xet::hash::parse_hex;

/// What stands in git for a large file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// How many they are.
    pub bytes: u64,
}

impl Pointer {
    /// The longest text.
    pub const TEXT_BYTES_MAX: usize = 160;

    /// The text.
    pub fn encode(&self) -> String {
        let Self { sha256, bytes } = self;
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {bytes}\n", hex(sha256))
    }

    /// Reads a text, if it is one.
    pub fn parse(blob: &[u8]) -> Option<Self> {
        if blob.len() > Self::TEXT_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(blob).ok()?;
        let (_, rest) = text.split_once("\noid sha256:")?;
        let (digest, rest) = rest.split_once("\nsize ")?;
        let pointer =
            Self { sha256: Sha256::new(parse_hex(digest)?), bytes: rest.strip_suffix('\n')?.parse().ok()? };
        (pointer.encode() == text).then_some(pointer)
    }
}

/// A digest as everybody prints it.
pub fn hex(digest: &Sha256) -> String {
    xet::hash::hex(digest.as_bytes())
}

/// A digest as everybody prints it.
pub fn parse_sha256(text: &str) -> Option<Sha256> {
    parse_hex(text).map(Sha256::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_survives_its_text_and_nothing_else_is_one() {
        let pointer = Pointer { sha256: Sha256::new([0xab; 32]), bytes: u64::MAX };
        let text = pointer.encode();
        assert!(text.len() <= Pointer::TEXT_BYTES_MAX);
        assert_eq!(Pointer::parse(text.as_bytes()), Some(pointer));
        for bad in [
            String::new(),
            text.replace("spec/v1", "spec/v2"),
            text.replace('\n', "\r\n"),
            text.replace("size ", "size 0"),
            text.replace("ab", "AB"),
            format!("{text}\n"),
            text.trim_end().to_owned(),
        ] {
            assert_eq!(Pointer::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }
}

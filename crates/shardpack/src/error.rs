//! Format errors of packs: offset, expected, found.

mod failure;

pub use failure::{Cause, Error, ErrorKind};

/// Why bytes are not what they claim to be. Every variant knows the offset it speaks of, counted from the first
/// byte of the pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes end too early.
    #[error("offset {at}: {what} needs {needed} bytes, {left} are left")]
    Truncated {
        /// Offset where reading began.
        at: u64,
        /// Name of the field.
        what: &'static str,
        /// Bytes it takes.
        needed: u64,
        /// Bytes there are.
        left: u64,
    },
    /// Bytes follow where something ends.
    #[error("offset {at}: {bytes} bytes follow the end of the {what}")]
    Trailing {
        /// Offset of the end.
        at: u64,
        /// Name of the structure.
        what: &'static str,
        /// Number of bytes that follow.
        bytes: u64,
    },
    /// A magic sequence is not the known one.
    #[error("offset {at}: {what} should be {expected}, found {found}")]
    Ident {
        /// Offset of the field.
        at: u64,
        /// Which sequence.
        what: &'static str,
        /// Expected value, in hexadecimal.
        expected: String,
        /// Value found, in hexadecimal.
        found: String,
    },
    /// A major version we do not know.
    #[error("offset {at}: major version should be {expected}, found {found}")]
    Version {
        /// Offset of the field.
        at: u64,
        /// The known one.
        expected: u16,
        /// The one there.
        found: u16,
    },
    /// A section that must be understood, and is not.
    #[error("offset {at}: section type {found} is critical and not known, expected 1 to 8")]
    Section {
        /// Offset of the section.
        at: u64,
        /// Its type.
        found: u32,
    },
    /// A number outside what the format allows.
    #[error("offset {at}: {what} should be {min} to {max}, found {found}")]
    Range {
        /// Offset of the field.
        at: u64,
        /// Which number.
        what: &'static str,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
        /// The number there.
        found: u64,
    },
    /// A size or position that is not a multiple of 8.
    #[error("offset {at}: {what} should be a multiple of 8, found {found}")]
    Unaligned {
        /// Offset of the field.
        at: u64,
        /// Which number.
        what: &'static str,
        /// The number there.
        found: u64,
    },
    /// A number that other bytes contradict.
    #[error("offset {at}: {what} should be {expected}, found {found}")]
    Number {
        /// Offset of the field.
        at: u64,
        /// Which number.
        what: &'static str,
        /// Expected value.
        expected: u64,
        /// Value found.
        found: u64,
    },
    /// A record offset that is not above the one before it.
    #[error("offset {at}: {what} should be above {below}, found {found}")]
    Order {
        /// Offset of the field.
        at: u64,
        /// Which number.
        what: &'static str,
        /// The one before.
        below: u64,
        /// The one there.
        found: u64,
    },
    /// A CRC that the bytes contradict.
    #[error("offset {at}: CRC of the {what} should be {expected:08x}, found {found:08x}")]
    Crc {
        /// Offset of the bytes it covers.
        at: u64,
        /// Name of the structure it covers.
        what: &'static str,
        /// Stored value.
        expected: u32,
        /// Value found.
        found: u32,
    },
    /// A string that is not UTF-8.
    #[error("offset {at}: {what} should be UTF-8, found byte {found:#04x}")]
    Text {
        /// Offset of the first bad byte.
        at: u64,
        /// Which string.
        what: &'static str,
        /// The byte there; 0 where a character is cut off by the end.
        found: u8,
    },
}

impl FormatError {
    /// The offset this error speaks of.
    pub fn at(&self) -> u64 {
        match self {
            Self::Truncated { at, .. }
            | Self::Trailing { at, .. }
            | Self::Ident { at, .. }
            | Self::Version { at, .. }
            | Self::Section { at, .. }
            | Self::Range { at, .. }
            | Self::Unaligned { at, .. }
            | Self::Number { at, .. }
            | Self::Order { at, .. }
            | Self::Crc { at, .. }
            | Self::Text { at, .. } => *at,
        }
    }
}

/// `Ok` when `found` is what other bytes say it must be.
#[inline]
pub(crate) fn expect_number(
    at: u64,
    what: &'static str,
    expected: u64,
    found: u64,
) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(FormatError::Number { at, what, expected, found }) }
}

/// `Ok` when `found` lies in `min..=max`.
#[inline]
pub(crate) fn expect_range(
    at: u64,
    what: &'static str,
    min: u64,
    max: u64,
    found: u64,
) -> Result<(), FormatError> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(FormatError::Range { at, what, min, max, found }) }
}

/// `Ok` when `found` is a multiple of 8.
#[inline]
pub(crate) fn expect_aligned(at: u64, what: &'static str, found: u64) -> Result<(), FormatError> {
    if found.is_multiple_of(8) { Ok(()) } else { Err(FormatError::Unaligned { at, what, found }) }
}

/// `Ok` when `found`, computed over the bytes from `at`, is what the pack says.
#[inline]
pub(crate) fn expect_crc(at: u64, what: &'static str, expected: u32, found: u32) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(FormatError::Crc { at, what, expected, found }) }
}

/// `Ok` when `found` is the magic sequence `expected`.
#[inline]
pub(crate) fn expect_magic(
    at: u64,
    what: &'static str,
    expected: &[u8],
    found: &[u8],
) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(other_magic(at, what, expected, found)) }
}

#[cold]
fn other_magic(at: u64, what: &'static str, expected: &[u8], found: &[u8]) -> FormatError {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    FormatError::Ident { at, what, expected: hex(expected), found: hex(found) }
}

/// The string that `bytes`, which stand at `at`, are.
#[inline]
#[allow(unsafe_code)] // one call that spares a second scan of ASCII; ADR 11 says why
pub(crate) fn expect_text<'a>(at: u64, what: &'static str, bytes: &'a [u8]) -> Result<&'a str, FormatError> {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = error.valid_up_to();
        let found = error.error_len().and_then(|_| bytes.get(bad).copied()).unwrap_or(0);
        FormatError::Text { at: at + bad as u64, what, found }
    })
}

//! Format errors: offset, expected, found.

use crate::raw_hash::Hash;

/// Why bytes are not what they claim to be. Every variant knows the offset it speaks of, counted from the first
/// byte the reader was given.
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
    /// Bytes follow where the format ends.
    #[error("offset {at}: {bytes} bytes follow the end of the {what}")]
    Trailing {
        /// Offset where the format ended.
        at: u64,
        /// Name of the part that had ended.
        what: &'static str,
        /// How many bytes follow.
        bytes: u64,
    },
    /// A magic sequence is not the known one.
    #[error("offset {at}: {what} should be {expected}, found {found}")]
    Ident {
        /// Offset of the field.
        at: u64,
        /// Which sequence.
        what: &'static str,
        /// Expected value, printable.
        expected: String,
        /// Value found, printable.
        found: String,
    },
    /// A version we do not know.
    #[error("offset {at}: {what} version should be {expected}, found {found}")]
    Version {
        /// Offset of the field.
        at: u64,
        /// Of what.
        what: &'static str,
        /// The known one.
        expected: u64,
        /// The one there.
        found: u64,
    },
    /// A compression scheme we do not know.
    #[error("offset {at}: compression scheme should be 0, 1 or 2, found {found}")]
    Scheme {
        /// Offset of the field.
        at: u64,
        /// The byte there.
        found: u8,
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
    /// A hash that the data contradicts.
    #[error("offset {at}: {what} should be {expected}, found {found}")]
    Hash {
        /// Offset of the field, or of the data it describes.
        at: u64,
        /// Which hash.
        what: &'static str,
        /// Expected value.
        expected: Hash,
        /// Value found.
        found: Hash,
    },
    /// A reference to a missing object.
    #[error("offset {at}: no {what} {hash}")]
    Missing {
        /// Offset of the reference.
        at: u64,
        /// Kind of the missing object.
        what: &'static str,
        /// Its hash.
        hash: Hash,
    },
    /// A list that must ascend and does not, or names something twice.
    #[error("offset {at}: {what} is out of order")]
    Order {
        /// Offset where the order breaks.
        at: u64,
        /// Which list.
        what: &'static str,
    },
    /// A compressed payload that does not decode.
    #[error("offset {at}: {reason}")]
    Payload {
        /// Offset of the payload, or of the bad part of it.
        at: u64,
        /// Message of the decoder.
        reason: String,
    },
    /// Text that does not follow its grammar.
    #[error("offset {at}: should be {expected}, found {found:?}")]
    Text {
        /// Offset of the text, or of the bad part of it.
        at: u64,
        /// Expected form.
        expected: &'static str,
        /// The text, cut to a sensible length.
        found: String,
    },
    /// Text that is not a hash.
    #[error("a hash is 64 hexadecimal digits, found {found:?}")]
    HashText {
        /// The text, cut to a sensible length.
        found: String,
    },
}

impl FormatError {
    /// The offset this error speaks of; 0 where there is none.
    pub fn at(&self) -> u64 {
        match self {
            Self::Truncated { at, .. }
            | Self::Trailing { at, .. }
            | Self::Ident { at, .. }
            | Self::Version { at, .. }
            | Self::Scheme { at, .. }
            | Self::Range { at, .. }
            | Self::Number { at, .. }
            | Self::Hash { at, .. }
            | Self::Missing { at, .. }
            | Self::Order { at, .. }
            | Self::Payload { at, .. }
            | Self::Text { at, .. } => *at,
            Self::HashText { .. } => 0,
        }
    }
}

/// `Ok` when `found` is what other bytes say it must be.
pub(crate) fn expect_number(
    at: u64,
    what: &'static str,
    expected: u64,
    found: u64,
) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(FormatError::Number { at, what, expected, found }) }
}

/// `Ok` when `found` lies in `min..=max`.
pub(crate) fn expect_range(
    at: u64,
    what: &'static str,
    min: u64,
    max: u64,
    found: u64,
) -> Result<(), FormatError> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(FormatError::Range { at, what, min, max, found }) }
}

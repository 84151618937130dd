//! Errors of packs, with their location: pack, record, entry, offset.

use std::fmt;
use std::io;

use crate::error::FormatError;

/// A failure to read or write a pack. It names the pack, the key, the entry and the offset as far as they are known.
#[derive(Debug)]
pub struct Error(Box<ErrorContext>);

#[derive(Debug, Default)]
struct ErrorContext {
    pack: Option<String>,
    ordinal: Option<u64>,
    key: Option<String>,
    entry: Option<String>,
    offset: Option<u64>,
    cause: Cause,
}

/// Why it failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The bytes are not what they claim to be.
    Format(FormatError),
    /// Reading or writing failed.
    Io(io::Error),
    /// Data could not be decoded; the text says why.
    Decode(String),
    /// Something is larger than the caller allows.
    TooLarge {
        /// Value found.
        what: &'static str,
        /// Bytes it has.
        found: u64,
        /// Bytes allowed.
        max: u64,
    },
    /// There is no such record or entry.
    NotFound,
    /// Invalid argument; the text says why and what to do.
    Invalid(String),
}

impl Default for Cause {
    fn default() -> Self {
        Self::Invalid(String::new())
    }
}

/// Kind of an error: advice for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pack is damaged. Run `shardpack verify`, then `repair`; other records may be read.
    Corrupt,
    /// There is no such pack, record or entry.
    NotFound,
    /// The request is wrong. Change it; do not retry.
    Invalid,
    /// A limit was reached. Raise it or leave the record out.
    TooLarge,
    /// Reading or writing failed. It may work another time.
    Io,
}

impl Error {
    /// Kind of an error: advice for the caller.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.cause {
            Cause::Format(_) | Cause::Decode(_) => ErrorKind::Corrupt,
            Cause::Io(error) if error.kind() == io::ErrorKind::NotFound => ErrorKind::NotFound,
            Cause::Io(_) => ErrorKind::Io,
            Cause::TooLarge { .. } => ErrorKind::TooLarge,
            Cause::NotFound => ErrorKind::NotFound,
            Cause::Invalid(_) => ErrorKind::Invalid,
        }
    }

    /// Why.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The pack's name.
    pub fn pack(&self) -> Option<&str> {
        self.0.pack.as_deref()
    }

    /// The record's number.
    pub fn ordinal(&self) -> Option<u64> {
        self.0.ordinal
    }

    /// The record's key.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The entry's name.
    pub fn entry(&self) -> Option<&str> {
        self.0.entry.as_deref()
    }

    /// Offset in the pack.
    pub fn offset(&self) -> Option<u64> {
        match &self.0.cause {
            Cause::Format(error) => Some(error.at()),
            _ => self.0.offset,
        }
    }

    /// Invalid argument.
    pub fn invalid(why: impl Into<String>) -> Self {
        Cause::Invalid(why.into()).into()
    }

    pub(crate) fn in_pack(mut self, name: &str) -> Self {
        self.0.pack.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn in_record(mut self, key: &str) -> Self {
        self.0.key.get_or_insert_with(|| key.to_owned());
        self
    }

    pub(crate) fn in_entry(mut self, name: &str) -> Self {
        self.0.entry.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn at_ordinal(mut self, ordinal: u64) -> Self {
        self.0.ordinal.get_or_insert(ordinal);
        self
    }

    pub(crate) fn at_offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(pack) = &inner.pack {
            write!(f, "{pack}: ")?;
        }
        match (&inner.key, inner.ordinal) {
            (Some(key), Some(ordinal)) => write!(f, "record {key:?} (number {ordinal}): ")?,
            (Some(key), None) => write!(f, "record {key:?}: ")?,
            (None, Some(ordinal)) => write!(f, "record number {ordinal}: ")?,
            (None, None) => {}
        }
        if let Some(entry) = &inner.entry {
            write!(f, "entry {entry:?}: ")?;
        }
        if let (Some(offset), false) = (inner.offset, matches!(inner.cause, Cause::Format(_))) {
            write!(f, "offset {offset}: ")?;
        }
        match &inner.cause {
            Cause::Format(error) => write!(f, "{error}"),
            Cause::Io(error) => write!(f, "{error}"),
            Cause::Decode(why) => f.write_str(why),
            Cause::TooLarge { what, found, max } => {
                write!(f, "{what} has {found} bytes, more than the {max} allowed")
            }
            Cause::NotFound => f.write_str("not found"),
            Cause::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.cause {
            Cause::Format(error) => Some(error),
            Cause::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self(Box::new(ErrorContext { cause, ..ErrorContext::default() }))
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Cause::Format(error).into()
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Cause::Io(error).into()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Corrupt => io::ErrorKind::InvalidData,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Invalid | ErrorKind::TooLarge => io::ErrorKind::InvalidInput,
            ErrorKind::Io => match error.cause() {
                Cause::Io(inner) => inner.kind(),
                _ => io::ErrorKind::Other,
            },
        };
        Self::new(kind, error)
    }
}

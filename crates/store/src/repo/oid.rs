//! Object ids: SHA-1 over a git object's kind, length and bytes.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest as _, Sha1};

use crate::error::{Error, ErrorKind, Result};

/// What a git object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A commit.
    Commit,
    /// A folder.
    Tree,
    /// The bytes of a file, or the pointer that stands for them.
    Blob,
}

impl ObjectKind {
    /// As git names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }

    /// As catalog and bundles hold it: git's own numbers in packs.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Tree => 2,
            Self::Blob => 3,
        }
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        [Self::Commit, Self::Tree, Self::Blob].into_iter().find(|kind| i64::from(kind.number()) == number)
    }
}

/// Names a git object. Prints as 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

impl Oid {
    /// Takes raw bytes.
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The id of an object.
    pub fn of(kind: ObjectKind, body: &[u8]) -> Self {
        let mut hasher = Sha1::new();
        hasher.update(format!("{} {}\0", kind.name(), body.len()));
        hasher.update(body);
        Self(hasher.finalize().into())
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&xet::hash::hex(&self.0))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

impl FromStr for Oid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::new(ErrorKind::Invalid, "an object id should be 40 hexadecimal digits");
        parse_hex(text).map(Self).ok_or_else(refuse)
    }
}

pub(crate) use xet::hash::parse_hex;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(Oid::of(ObjectKind::Blob, b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(Oid::of(ObjectKind::Tree, b"").to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let text = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert_eq!(Oid::of(ObjectKind::Blob, b"hello\n"), text.parse().unwrap());
        for bad in ["", "ce01", &text.to_uppercase(), &format!("{text}0"), &text.replace('c', "g")] {
            assert!(bad.parse::<Oid>().is_err(), "{bad}");
        }
    }
}

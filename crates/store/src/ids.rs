//! Ids: of repositories, git objects, stored xorbs and the store itself.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest as _, Sha1};
use xet::XorbHash;
use xet::hash::parse_hex;

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

/// The id of a store: 16 random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// A new id.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|source| Error::caused(ErrorKind::Internal, "the system has no randomness", source))?;
        Ok(Self(bytes))
    }

    /// The id as a catalog keeps it.
    pub(crate) fn from_catalog(value: Vec<u8>) -> Result<Self> {
        let bytes = value.try_into();
        bytes.map(Self).map_err(|_| Error::new(ErrorKind::Corrupt, "catalog: the store id is not 16 bytes"))
    }

    /// The raw bytes.
    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The first digits, enough to tell stores apart in a message.
    pub fn short(&self) -> String {
        let text = self.to_string();
        format!("{}…", text.get(..8).unwrap_or_default())
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&xet::hash::hex(&self.0))
    }
}

impl FromStr for StoreId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = parse_hex(text);
        bytes
            .map(Self)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "a store id should be 32 hexadecimal digits"))
    }
}

/// The BLAKE3 of a xorb's footer, which says where in the object each chunk lies. Objects of one footer may differ in how
/// a chunk is compressed, but not in where its record begins and ends, nor in what it decodes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Takes raw bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of an object that ends in this footer.
    pub fn of(footer: &[u8]) -> Self {
        Self(*blake3::hash(footer).as_bytes())
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&xet::hash::hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digest = blake3::Hash::from_hex(text);
        digest.map(|digest| Self(*digest.as_bytes())).map_err(|source| {
            Error::caused(ErrorKind::Invalid, "a digest should be 64 hexadecimal digits", source)
        })
    }
}

/// Names one stored form of a xorb. Two uploads of one hash may be compressed differently; their digests differ then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XorbKey {
    /// Names the raw chunks.
    pub hash: XorbHash,
    /// Names where each chunk is stored.
    pub digest: Digest,
}

/// Names a repository for ever. Prints as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId([u8; 16]);

impl RepoId {
    /// Takes raw bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A new one, like no other.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|source| Error::caused(ErrorKind::Internal, "the system has no randomness", source))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&xet::hash::hex(&self.0))
    }
}

impl fmt::Debug for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepoId({self})")
    }
}

/// Reads what [`RepoId`] prints.
impl std::str::FromStr for RepoId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse =
            || Error::new(ErrorKind::Invalid, "an id of a repository should be 32 hexadecimal digits");
        parse_hex(text).map(Self).ok_or_else(refuse)
    }
}

//! Rows: the values of a query, read column by column in the order of its `SELECT`.

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::db::sql::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Oid, RepoId};

/// One row. Each call takes the next column.
#[derive(Debug)]
pub(crate) struct Row {
    values: std::vec::IntoIter<Value<'static>>,
}

/// What can be made of a row.
pub(crate) trait FromRow: Sized {
    /// Reads the columns in the order of the query's `SELECT`.
    fn from_row(row: &mut Row) -> Result<Self>;
}

impl Row {
    pub(crate) fn new(values: Vec<Value<'static>>) -> Self {
        Self { values: values.into_iter() }
    }

    fn next(&mut self, what: &str) -> Result<Value<'static>> {
        self.values.next().ok_or_else(|| damaged(what))
    }

    /// A number that may be negative.
    pub(crate) fn signed(&mut self, what: &str) -> Result<i64> {
        match self.next(what)? {
            Value::Int(number) => Ok(number),
            _ => Err(damaged(what)),
        }
    }

    /// A number.
    pub(crate) fn number(&mut self, what: &str) -> Result<u64> {
        u64::try_from(self.signed(what)?).map_err(|_| damaged(what))
    }

    /// A number, or nothing.
    pub(crate) fn optional_number(&mut self, what: &str) -> Result<Option<u64>> {
        match self.next(what)? {
            Value::Null => Ok(None),
            Value::Int(number) => u64::try_from(number).map(Some).map_err(|_| damaged(what)),
            _ => Err(damaged(what)),
        }
    }

    /// A number that stands for yes or no.
    pub(crate) fn flag(&mut self, what: &str) -> Result<bool> {
        Ok(self.signed(what)? != 0)
    }

    /// Text.
    pub(crate) fn text(&mut self, what: &str) -> Result<String> {
        self.optional_text(what)?.ok_or_else(|| damaged(what))
    }

    /// Text, or nothing.
    pub(crate) fn optional_text(&mut self, what: &str) -> Result<Option<String>> {
        match self.next(what)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text.into_owned())),
            _ => Err(damaged(what)),
        }
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, what: &str) -> Result<Vec<u8>> {
        self.optional_bytes(what)?.ok_or_else(|| damaged(what))
    }

    /// Bytes, or nothing.
    pub(crate) fn optional_bytes(&mut self, what: &str) -> Result<Option<Vec<u8>>> {
        match self.next(what)? {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes.into_owned())),
            _ => Err(damaged(what)),
        }
    }

    /// Exactly `N` bytes: a hash, an id.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.bytes(what)?.try_into().map_err(|_| damaged(what))
    }

    /// Exactly `N` bytes, or nothing.
    pub(crate) fn optional_array<const N: usize>(&mut self, what: &str) -> Result<Option<[u8; N]>> {
        let bytes = self.optional_bytes(what)?;
        bytes.map(|bytes| bytes.try_into().map_err(|_| damaged(what))).transpose()
    }
}

/// The error of a column that holds what we never write.
pub(crate) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the catalog holds an impossible {what}"))
}

impl FromRow for () {
    fn from_row(_: &mut Row) -> Result<Self> {
        Ok(())
    }
}

impl FromRow for i64 {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.signed("number")
    }
}

impl FromRow for u64 {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.number("number")
    }
}

impl FromRow for String {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.text("text")
    }
}

impl FromRow for Vec<u8> {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.bytes("value")
    }
}

macro_rules! hashes {
    ($($hash:ty: $what:literal),*) => { $(impl FromRow for $hash {
        fn from_row(row: &mut Row) -> Result<Self> {
            row.array($what).map(<$hash>::new)
        }
    })* };
}

hashes!(ChunkHash: "chunk hash", FileHash: "file hash", Sha256: "digest", ShardHash: "shard hash", XorbHash: "xorb hash");

impl FromRow for Option<i64> {
    fn from_row(row: &mut Row) -> Result<Self> {
        match row.next("number")? {
            Value::Null => Ok(None),
            Value::Int(number) => Ok(Some(number)),
            _ => Err(damaged("number")),
        }
    }
}

impl<A: FromRow, B: FromRow> FromRow for (A, B) {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok((A::from_row(row)?, B::from_row(row)?))
    }
}

impl<A: FromRow, B: FromRow, C: FromRow> FromRow for (A, B, C) {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok((A::from_row(row)?, B::from_row(row)?, C::from_row(row)?))
    }
}

impl FromRow for RepoId {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.array("repository id").map(Self::new)
    }
}

impl FromRow for Oid {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.array("object id").map(Self::new)
    }
}

/// Hash in a column, of any kind.
pub(crate) struct RawHash(pub(crate) [u8; 32]);

impl FromRow for RawHash {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.array("hash").map(Self)
    }
}

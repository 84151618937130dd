//! Statements: text that both databases understand, and its arguments.
//!
//! Arguments are written `$1`, `$2` … Three forms differ between the databases and are translated:
//!
//! | written | means | argument |
//! |---|---|---|
//! | `x IN $1` | `x` is one of these | a list, by [`Sql::list`] |
//! | `list($1)` after `FROM` or `JOIN` | a table with one column, `value` | a list |
//! | `VALUES $1` | rows of several columns, for `INSERT` and for `(a, b) IN (VALUES $1)` | rows, by [`Sql::rows`] |
//!
//! A statement that only locks rows, [`Sql::lock`], is left out where one transaction writes at a time.

use std::borrow::Cow;
use std::fmt::Write as _;

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::ids::{Oid, RepoId};

/// A statement and its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Sql<'a> {
    text: Cow<'a, str>,
    args: Vec<Arg<'a>>,
    is_short: bool,
    is_lock: bool,
}

/// One argument.
#[derive(Debug, Clone)]
pub(crate) enum Arg<'a> {
    /// A value.
    One(Value<'a>),
    /// A list of values of one type.
    List(Vec<Value<'a>>),
    /// Rows of values, all of one length; the columns are of one type each.
    Rows(Vec<Vec<Value<'a>>>),
}

/// A value as both databases hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Nothing.
    Null,
    /// A number.
    Int(i64),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Sql<'a> {
    /// A statement, whose arguments follow in the order of their numbers.
    pub(crate) fn new(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), args: Vec::new(), is_short: false, is_lock: false }
    }

    /// A statement that locks rows until the transaction ends, and has no other use.
    pub(crate) fn lock(text: &'a str) -> Self {
        Self { is_lock: true, ..Self::new(text) }
    }

    /// The next argument.
    #[must_use]
    pub(crate) fn bind(mut self, value: impl Into<Value<'a>>) -> Self {
        self.args.push(Arg::One(value.into()));
        self
    }

    /// The next argument: a list.
    #[must_use]
    pub(crate) fn list<V: Into<Value<'a>>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.args.push(Arg::List(values.into_iter().map(Into::into).collect()));
        self
    }

    /// The next argument: rows.
    #[must_use]
    pub(crate) fn rows<const N: usize>(self, rows: impl IntoIterator<Item = [Value<'a>; N]>) -> Self {
        self.rows_of(rows.into_iter().map(Vec::from).collect())
    }

    /// The next argument: rows of a width that is known when it runs.
    #[must_use]
    pub(crate) fn rows_of(mut self, rows: Vec<Vec<Value<'a>>>) -> Self {
        self.args.push(Arg::Rows(rows));
        self
    }

    /// Marks a query that reads a few pages by their keys: not worth changing threads for.
    #[must_use]
    pub(crate) fn short(mut self) -> Self {
        self.is_short = true;
        self
    }

    /// Appends text.
    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.to_mut().push_str(text);
        self
    }

    /// Appends an argument, and its number to the text.
    pub(crate) fn push_bind(&mut self, value: impl Into<Value<'a>>) -> &mut Self {
        self.push_arg(Arg::One(value.into()))
    }

    /// Appends a list of arguments, and its number to the text.
    pub(crate) fn push_list<V: Into<Value<'a>>>(&mut self, values: impl IntoIterator<Item = V>) -> &mut Self {
        self.push_arg(Arg::List(values.into_iter().map(Into::into).collect()))
    }

    fn push_arg(&mut self, arg: Arg<'a>) -> &mut Self {
        self.args.push(arg);
        let number = self.args.len();
        write!(self.text.to_mut(), "${number}").expect("a string takes everything");
        self
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn args(&self) -> &[Arg<'a>] {
        &self.args
    }

    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    pub(super) fn is_lock(&self) -> bool {
        self.is_lock
    }

    /// The text cut at its arguments: what stands before each, and its place among the arguments; then what is left.
    pub(super) fn pieces(&self) -> (Vec<(&str, usize)>, &str) {
        let (mut pieces, mut rest) = (Vec::new(), self.text());
        while let Some(at) = rest.find('$') {
            let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = rest[at + 1..at + 1 + digits].parse().expect("arguments are numbered");
            assert!((1..=self.args.len()).contains(&number), "an argument without a value: {}", self.text);
            pieces.push((&rest[..at], number - 1));
            rest = &rest[at + 1 + digits..];
        }
        (pieces, rest)
    }
}

/// A number as the databases hold it. Ours are lengths and times: none comes near the end.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Int(integer(number))
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Int(i64::from(flag))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Value<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, V: Into<Value<'a>>> From<Option<V>> for Value<'a> {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! hashes {
    ($($hash:ty),*) => { $(
        impl<'a> From<&'a $hash> for Value<'a> {
            fn from(hash: &'a $hash) -> Self {
                Self::Bytes(Cow::Borrowed(hash.as_bytes()))
            }
        }

        impl From<$hash> for Value<'_> {
            fn from(hash: $hash) -> Self {
                Self::Bytes(Cow::Owned(hash.as_bytes().to_vec()))
            }
        }
    )* };
}

hashes!(ChunkHash, FileHash, Sha256, ShardHash, XorbHash);

impl From<RepoId> for Value<'_> {
    fn from(id: RepoId) -> Self {
        id.as_bytes().to_vec().into()
    }
}

impl<'a> From<&'a RepoId> for Value<'a> {
    fn from(id: &'a RepoId) -> Self {
        id.as_bytes().into()
    }
}

impl From<Oid> for Value<'_> {
    fn from(oid: Oid) -> Self {
        oid.as_bytes().to_vec().into()
    }
}

impl<'a> From<&'a Oid> for Value<'a> {
    fn from(oid: &'a Oid) -> Self {
        oid.as_bytes().into()
    }
}

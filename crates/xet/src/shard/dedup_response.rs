//! Dedup responses: shards that list stored chunks under keyed hashes.
//!
//! Every chunk hash is replaced by its keyed hash, the key stands in the footer. A client that has a chunk can find it;
//! one that has not learns no hash to request. Xorb hashes stay plain. Tables are optional and made from keyed hashes.

use crate::error::FormatError;
use crate::hash::HashKey;
use crate::shard::build::{Form, ShardBuilder, StoredOptions};
use crate::shard::{LookupTables, Shard, XorbEntry};

/// How to answer a dedup query.
#[derive(Debug, Clone)]
pub struct DedupResponseOptions {
    /// Protects the chunk hashes; zero leaves them plain.
    pub key: HashKey,
    /// Now, Unix seconds.
    pub created_s: u64,
    /// Until when the answer may be used. In the past, clients drop it at once.
    pub expires_s: u64,
    /// Whether to add xorb and chunk tables. Without them the reader makes its own.
    pub tables: bool,
}

/// The dedup response that lists these xorbs, whose chunk hashes must be plain.
pub fn encode(
    xorbs: impl IntoIterator<Item = XorbEntry>,
    options: &DedupResponseOptions,
) -> Result<Vec<u8>, FormatError> {
    let mut builder = ShardBuilder::default();
    for xorb in xorbs {
        builder.push_xorb(xorb);
    }
    builder.key_chunks(&options.key);
    builder.encode(&Form::Stored(StoredOptions {
        tables: LookupTables { files: false, xorbs: options.tables, chunks: options.tables },
        key: options.key,
        created_s: options.created_s,
        expires_s: options.expires_s,
    }))
}

impl Shard {
    /// Key of the chunk hashes; zero when they are plain.
    pub fn key(&self) -> HashKey {
        self.footer.as_ref().map_or(HashKey::ZERO, |footer| footer.key)
    }
}

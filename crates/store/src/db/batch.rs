//! Helpers of statements on many rows: batch size, sorted keys, patterns of `LIKE`.

use crate::db::sql::Sql;

/// Rows in one statement of a batch: well below what either database allows in parameters, few enough to stay small.
pub(crate) const BATCH_ROWS: usize = 1000;

/// A hash in a column.
pub(crate) trait Key {
    fn key(&self) -> &[u8];
}

macro_rules! keys {
    ($($hash:ty),*) => { $(impl Key for $hash {
        fn key(&self) -> &[u8] {
            self.as_bytes()
        }
    })* };
}

keys!(xet::ChunkHash, xet::FileHash, xet::Sha256, xet::ShardHash, xet::XorbHash);

/// The keys of a batch, sorted, each once. Sorted, because two transactions that lock rows in one order cannot wait for
/// each other.
pub(crate) fn unique<K: Key>(keys: &[K]) -> Vec<&[u8]> {
    let mut keys: Vec<_> = keys.iter().map(Key::key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// `LIKE` takes some characters for more than themselves.
pub(crate) fn like(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern
}

/// Looks few keys up without changing threads.
pub(crate) fn short_if_few(query: Sql<'_>, keys: usize) -> Sql<'_> {
    if keys <= SHORT_KEYS_MAX { query.short() } else { query }
}

const SHORT_KEYS_MAX: usize = 32;

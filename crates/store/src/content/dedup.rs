//! Dedup: tells a client which xorb holds a chunk it has, so that it need not send it.
//!
//! The answer is a shard of that xorb and of those that follow it in a file of the caller's repository: only one chunk in a thousand is queried, and
//! a client that changed a little of a large file has the rest of it too. Chunk hashes are keyed: a client with the chunk
//! recognises it, others learn nothing they could request. The key changes with time and is the same on every server that shares the secret. The
//! answer expires, and until then sweep leaves the xorbs alone: see [`XorbRow::referenced_s`].
//!
//! [`XorbRow::referenced_s`]: crate::catalog::rows::XorbRow::referenced_s

pub(crate) mod index;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use xet::hash::HashKey;
use xet::shard::XorbEntry;
use xet::shard::dedup_response::{self, DedupResponseOptions};
use xet::xorb::XorbInfo;
use xet::{ChunkHash, XorbHash};

use crate::access::{Grant, Scope};
use crate::content::dedup_policy::DedupPolicy;
use crate::content::reach::Reach;
use crate::content::rows::{DedupHit, XorbRow};
use crate::content::{Content, files, uploads, xorbs};
use crate::db::Catalog;
use crate::db::batcher::Batcher;
use crate::error::{Error, ErrorKind, Result};

/// How dedup queries are answered.
#[derive(Clone)]
pub struct DedupOptions {
    /// Whose chunks are found.
    pub policy: DedupPolicy,
    /// What the keys are made from: the same on every server of one store, and known to nobody else.
    pub secret: [u8; 32],
    /// Seconds after which another key is used.
    pub key_s: u64,
    /// Seconds an answer may be used. Sweep must wait longer than this and [`TOUCH_S`].
    pub answer_s: u64,
}

impl Default for DedupOptions {
    /// A key a week, answers for a day, everybody's chunks. The secret is zeros: set one.
    fn default() -> Self {
        Self { policy: DedupPolicy::Global, secret: [0; 32], key_s: 7 * 86_400, answer_s: 86_400 }
    }
}

impl std::fmt::Debug for DedupOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { policy, key_s, answer_s, .. } = self;
        f.debug_struct("DedupOptions")
            .field("policy", policy)
            .field("key_s", key_s)
            .field("answer_s", answer_s)
            .finish_non_exhaustive()
    }
}

impl DedupOptions {
    /// The key of answers made at this time.
    pub fn key(&self, now_s: u64) -> HashKey {
        let period = now_s / self.key_s.max(1);
        let mut hasher = blake3::Hasher::new_derive_key("drystone 2026-11-15 key of dedup answers");
        hasher.update(&self.secret).update(&period.to_le_bytes());
        HashKey::new(*hasher.finalize().as_bytes())
    }
}

/// A reported xorb is recorded as referred to, but not more often than this: a popular one would be written all the time.
pub const TOUCH_S: u64 = 3600;

impl Content {
    /// The shard that tells where a chunk is; `None` when no eligible chunk of that hash is within reach. For writers only:
    /// a reader has nothing to deduplicate.
    pub async fn dedup(&self, grant: &Grant, chunk: ChunkHash) -> Result<Option<Bytes>> {
        grant.expect_write()?;
        let Some(reach) = self.dedup_policy(grant.scope()).await?.reach(grant.scope()) else {
            return Ok(None);
        };
        // Of a new file nothing is known, and most files are new.
        if index::peek_chunk(&self.db, &reach, chunk) == Some(false) {
            return Ok(None);
        }
        let Some(hit) = self.chunks.get((reach, chunk)).await? else { return Ok(None) };
        let now_s = self.clock.now_s();
        let mut rows = vec![hit.xorb.clone()];
        rows.extend(self.following(grant.scope(), &hit.xorb).await?);
        self.keep_referenced(&mut rows, now_s).await?;
        if rows.first().map(|row| row.key) != Some(hit.xorb.key) {
            return Ok(None);
        }
        let info = self.footers.of(&hit.xorb.recipe_xorb()).await?;
        let found = usize::try_from(hit.chunk_index).ok().and_then(|index| info.chunks().get(index));
        if found.map(|place| place.hash) != Some(chunk) {
            let message = format!("chunk {chunk} is not where the catalog says, in xorb {}", info.hash());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let options = DedupResponseOptions {
            key: self.dedup.key(now_s),
            created_s: now_s,
            expires_s: now_s.saturating_add(self.dedup.answer_s),
            tables: true,
        };
        let mut reported = vec![(info, hit.xorb.object_bytes)];
        for row in rows.get(1..).unwrap_or_default() {
            // Unreadable xorbs are left out: the requested chunk is in another one.
            if let Ok(info) = self.footers.of(&row.recipe_xorb()).await {
                reported.push((info, row.object_bytes));
            }
        }
        let reported = move || {
            dedup_response::encode(reported.iter().map(|(info, bytes)| entry(info, *bytes)), &options)
        };
        let answer = self.workers.run(reported).await?;
        let answer = answer.map_err(|source| Error::corrupt("dedup answer", source))?;
        Ok(Some(answer.into()))
    }

    /// The xorbs that follow one in a file of the repository. Files of others are not consulted, whatever the policy: a chunk
    /// proves nothing about what follows it elsewhere.
    async fn following(&self, scope: &Scope, xorb: &XorbRow) -> Result<Vec<XorbRow>> {
        let file = index::readable_file(&self.db, scope, xorb.key.hash).await?;
        let Some(file) = file else { return Ok(Vec::new()) };
        let recipes = files::files(&self.db, scope, &[file]).await?;
        let beside = recipes.first().map(|file| file.recipe.xorbs.as_slice()).unwrap_or_default();
        let after = beside
            .iter()
            .map(|recipe_xorb| recipe_xorb.key.hash)
            .skip_while(|hash| *hash != xorb.key.hash)
            .skip(1);
        let hashes: Vec<XorbHash> = after.take(FOLLOWING_MAX).collect();
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        // A file that was stored before lies in the xorbs of its first uploader, beside chunks of other files: of those, only
        // what this repository registered is reported.
        let mut found = uploads::references(&self.db, scope, None, None, &hashes).await?;
        found.retain(|found| {
            found.is_registered && found.row.key.hash != xorb.key.hash && found.row.is_live()
        });
        Ok(found.into_iter().map(|found| found.row).collect())
    }

    /// Records that these were reported, and leaves out what no longer exists.
    async fn keep_referenced(&self, rows: &mut Vec<XorbRow>, now_s: u64) -> Result<()> {
        let is_old = |row: &XorbRow| row.referenced_s.saturating_add(TOUCH_S) <= now_s;
        let old: Vec<XorbHash> = rows.iter().filter(|row| is_old(row)).map(|row| row.key.hash).collect();
        if !old.is_empty() {
            let live = xorbs::touch_xorbs(&self.db, &old, now_s).await?;
            rows.retain(|row| !is_old(row) || live.contains(&row.key.hash));
        }
        Ok(())
    }
}

/// Xorbs reported besides the one with the requested chunk: a gigabyte ahead.
const FOLLOWING_MAX: usize = 15;

/// Asks where chunks are, those within one reach together.
pub(crate) fn batcher(catalog: &Arc<Catalog>) -> Batcher<(Reach, ChunkHash), DedupHit> {
    let catalog = catalog.clone();
    Batcher::new(move |keys: Vec<(Reach, ChunkHash)>| {
        let catalog = catalog.clone();
        async move {
            let mut by_reach: HashMap<Reach, Vec<ChunkHash>> = HashMap::new();
            keys.into_iter().for_each(|(reach, chunk)| by_reach.entry(reach).or_default().push(chunk));
            let mut found = HashMap::new();
            for (reach, chunks) in by_reach {
                let hits = index::dedup(&catalog, &reach, &chunks).await?;
                found.extend(hits.into_iter().map(|hit| ((reach.clone(), hit.chunk), hit)));
            }
            Ok(found)
        }
    })
}

/// A stored xorb as shards list it.
pub(crate) fn entry(info: &XorbInfo, object_bytes: u64) -> XorbEntry {
    let stored_bytes = u32::try_from(object_bytes).expect("a xorb is far less than 4 GiB");
    XorbEntry { stored_bytes, ..XorbEntry::from(info) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_with_time_and_secret_and_nothing_else() {
        let options = DedupOptions { key_s: 100, ..DedupOptions::default() };
        let other = DedupOptions { secret: [1; 32], ..options.clone() };
        assert_eq!(options.key(100), options.key(199));
        assert_ne!(options.key(199), options.key(200));
        assert_ne!(options.key(100), other.key(100));
        assert!(!options.key(0).is_zero());
        DedupOptions { key_s: 0, ..options }.key(5);
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert!(!format!("{:?}", DedupOptions::default()).contains("secret"));
    }

    #[test]
    fn a_policy_says_how_far_a_repository_sees() {
        let scope: Scope = "ann/repo".parse().unwrap();
        assert_eq!(DedupPolicy::Global.reach(&scope), Some(Reach::All(scope.clone())));
        assert_eq!(DedupPolicy::Namespace.reach(&scope), Some(Reach::Namespace(scope.clone())));
        assert_eq!(DedupPolicy::Repo.reach(&scope), Some(Reach::Repo(scope.clone())));
        assert_eq!(DedupPolicy::Off.reach(&scope), None);
    }
}

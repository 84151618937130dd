//! Catalog queries of verify, rebuild, compaction and statistics: everything there is, a page at a time, and what refers to
//! it.

#[cfg(test)]
mod contract;
mod digests;
mod pages;
mod relocate;

pub(crate) use pages::BundledObject;

use xet::{ChunkHash, FileHash, Sha256, XorbHash};

use super::BATCH_ROWS;
use super::rows::{ShardRow, XorbRow};
use crate::access::Scope;
use crate::audit::Deed;
use crate::db::{Db, Sql, Value};
use crate::error::Result;
use crate::layout::Layout;
use crate::objects::XorbKey;
use crate::repo::pointer;

/// The catalog's side of verify, rebuild, compaction and statistics.
///
/// *Contract*: as for [the catalog](super). Pages are in the order of their keys and begin after one, at the first for an
/// empty one.
#[derive(Debug, Clone)]
pub struct CareCatalog {
    pub(super) db: Db,
}

impl CareCatalog {
    /// Notes that the objects of these were read and are sound, also of those that were marked as damaged.
    pub async fn note_verified(&self, xorbs: &[XorbKey], now_s: u64) -> Result<()> {
        for xorbs in xorbs.chunks(BATCH_ROWS) {
            let update = "UPDATE xorbs SET state = CASE WHEN state = 4 THEN 0 ELSE state END, verified_s = $1 \
                WHERE state NOT IN (2, 3) AND (hash, digest) IN (VALUES $2)";
            let update = Sql::new(update).bind(now_s).rows(xorbs.iter().map(columns));
            self.db.write_one("note what is sound", update).await?;
        }
        Ok(())
    }

    /// Marks these as damaged, until somebody stores them again; returns how many.
    pub async fn mark_damaged(&self, xorbs: &[XorbKey], now_s: u64) -> Result<u64> {
        let mut marked = 0;
        for xorbs in xorbs.chunks(BATCH_ROWS) {
            let update = "UPDATE xorbs SET state = 4, condemned_s = $1 \
                WHERE state IN (0, 1) AND (hash, digest) IN (VALUES $2)";
            let update = Sql::new(update).bind(now_s).rows(xorbs.iter().map(columns));
            marked += self.db.write_one("mark what is damaged", update).await?.changed;
        }
        Ok(marked)
    }

    /// Gives a repository the right to files, under digests: for a catalog that is made again.
    pub async fn restore_rights(
        &self,
        scope: &Scope,
        files: &[(Sha256, FileHash)],
        now_s: u64,
    ) -> Result<()> {
        let (namespace, repo) = (scope.namespace(), scope.repo());
        for files in files.chunks(BATCH_ROWS) {
            let restored = self.db.write_serializable("restore rights", |mut tx| async move {
                let insert = Sql::new(
                    "INSERT INTO repo_files (namespace, repo, file, created_s) VALUES $1 ON CONFLICT DO NOTHING",
                );
                let rows =
                    files.iter().map(|(_, file)| [namespace.into(), repo.into(), file.into(), now_s.into()]);
                tx.run(insert.rows(rows)).await?;
                let insert = Sql::new(
                    "INSERT INTO repo_sha256s (namespace, repo, sha256, file) VALUES $1 ON CONFLICT DO NOTHING",
                );
                let rows = files.iter().map(|(sha256, file)| {
                    [namespace.into(), repo.into(), sha256.into(), file.into()]
                });
                tx.run(insert.rows(rows)).await?;
                tx.commit().await
            });
            restored.await?;
        }
        Ok(())
    }
}

fn columns(key: &XorbKey) -> [Value<'_>; 2] {
    [(&key.hash).into(), key.digest.as_bytes().into()]
}

/// What a client says of a file: that its bytes have this SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestClaim {
    /// Where it was registered.
    pub scope: Scope,
    /// The digest.
    pub sha256: Sha256,
    /// The file.
    pub file: FileHash,
    /// The digest of the file's bytes, if it was computed for this repository.
    pub computed: Option<Sha256>,
}

impl DigestClaim {
    /// The audit event of the removal of these, all of one repository.
    pub(crate) fn refusal(removed: &[&Self]) -> Option<Deed> {
        let (first, more) = removed.split_first()?;
        let mut detail =
            format!("file {} has another SHA-256 than {}", first.file, pointer::hex(&first.sha256));
        if !more.is_empty() {
            detail += &format!(", and {} more", more.len());
        }
        Some(Deed::new("digest.refuse", first.scope.to_string(), detail))
    }
}

/// All files of a xorb on their way to other objects.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Where they are. Its row must still count this object.
    pub from: XorbKey,
    /// A row for the same xorb in its place: another object, or the same one made sound.
    pub heal: Option<XorbRow>,
    /// Or the xorb they are on their way to.
    pub onto: Option<XorbHash>,
    /// Each file as it is and as it shall be.
    pub files: Vec<(FileHash, Layout, Layout)>,
    /// The shard that tells of the files as they shall be.
    pub shard: Option<ShardRow>,
    /// Where chunks of `from` are in `onto`.
    pub chunks: Vec<(ChunkHash, u32)>,
    /// Now, Unix seconds.
    pub now_s: u64,
}

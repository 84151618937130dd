//! Uploads: which repository sent which xorb, parts of files that are not joined yet, and how far content may be found.
//!
//! Two facts follow from an upload: its sender may refer to the xorb, and until a shard registers it the bytes count as
//! pending against the quota of the repository. A registration replaces the upload by a row that says the same for good.

#[cfg(test)]
mod contract;
pub(in crate::catalog) mod statements;

use async_trait::async_trait;
use xet::{FileHash, Sha256, XorbHash};

use super::keep::QuotaOf;
use super::rows::{Reach, XorbRow};
use crate::access::Scope;
use crate::dedup::DedupPolicy;
use crate::error::Result;
use crate::repo::RepoId;

/// Uploads that no shard has registered, and dedup policies.
///
/// *Contract*: as for [`Catalog`](super::Catalog).
#[async_trait]
pub trait UploadCatalog: Send + Sync {
    /// Records that a repository sent a xorb, if the xorb is live, or is with `object`, which was stored just now. A condemned
    /// xorb is live again. Nothing is recorded where the row says damaged or deleted.
    async fn record_upload(&self, upload: &UploadRow, object: Option<&NewObject>) -> Result<RecordedUpload>;

    /// Those of these xorbs that have a row, each with what gives the caller the right to refer to it. `within` is how far
    /// the caller's dedup policy reaches; `None` where it is off.
    async fn references(
        &self,
        scope: &Scope,
        sender: Option<&str>,
        within: Option<&Reach>,
        xorbs: &[XorbHash],
    ) -> Result<Vec<XorbReference>>;

    /// A file of the repository that is made of this xorb.
    async fn readable_file(&self, scope: &Scope, xorb: XorbHash) -> Result<Option<FileHash>>;

    /// Drops uploads older than `before_s` of xorbs that files are made of: their bytes count elsewhere.
    async fn drop_uploads(&self, before_s: u64) -> Result<u64>;

    /// Records a part of a file. Of the same number the last one counts.
    async fn add_part(&self, part: &PartRow) -> Result<()>;

    /// Drops the parts of a file.
    async fn drop_parts(&self, repo: RepoId, file: Sha256) -> Result<()>;

    /// Drops parts older than `before_s`.
    async fn drop_old_parts(&self, before_s: u64) -> Result<u64>;

    /// All dedup policies, in the order of what they are for.
    async fn dedup_policies(&self) -> Result<Vec<(QuotaOf, DedupPolicy)>>;

    /// Sets how far content may be found, or removes the setting. `off` takes the chunks out of the index as well.
    async fn set_dedup_policy(&self, of: &QuotaOf, policy: Option<DedupPolicy>) -> Result<()>;
}

/// A xorb that a repository sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRow {
    /// The repository.
    pub scope: Scope,
    /// The token it was sent with, where there was one.
    pub sender: Option<String>,
    /// The xorb.
    pub xorb: XorbHash,
    /// Bytes of an object of what was sent. The stored one may be another's, of another length.
    pub object_bytes: u64,
    /// When, Unix seconds.
    pub uploaded_s: u64,
}

/// An object that was stored just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// The row that counts it, if none does for its xorb.
    pub row: XorbRow,
    /// Whether the key was never used before: only such an object may take the place of one that is being deleted.
    pub has_fresh_key: bool,
}

/// What became of a recorded upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedUpload {
    /// The row of the xorb, whatever its state.
    pub row: Option<XorbRow>,
    /// Whether the row counts the object that was given.
    pub was_inserted: bool,
    /// Whether the repository had neither sent nor registered the xorb before.
    pub is_new: bool,
}

/// A xorb, and what gives a caller the right to refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorbReference {
    /// The xorb.
    pub row: XorbRow,
    /// The caller's repository sent it and no shard has registered it yet: bytes of what was sent.
    pub sent_bytes: Option<u64>,
    /// The caller's token sent it, to any repository.
    pub is_senders: bool,
    /// The caller's repository registered it.
    pub is_registered: bool,
    /// A repository within the caller's dedup policy registered it.
    pub is_within: bool,
}

impl XorbReference {
    /// Whether the caller sent the xorb or has registered it.
    pub fn is_own(&self) -> bool {
        self.sent_bytes.is_some() || self.is_senders || self.is_registered
    }

    /// Whether the caller may refer to it where the range hash is right. The hash of a xorb of one chunk is the chunk's hash:
    /// from it the range hash follows, which then proves nothing.
    pub fn is_provable(&self) -> bool {
        self.is_own() || (self.is_within && self.row.chunk_count > 1)
    }
}

/// A part of a file that is not joined yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRow {
    /// The repository.
    pub repo: RepoId,
    /// The file.
    pub file: Sha256,
    /// Its number, from 1.
    pub number: u32,
    /// Its length.
    pub bytes: u64,
    /// When it was stored, Unix seconds.
    pub stored_s: u64,
}

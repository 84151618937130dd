//! What verify, rebuild, compaction and statistics ask of the catalog: all there is, a page at a time, and who needs it.

#[cfg(test)]
mod contract;
pub(in crate::catalog) mod statements;

use async_trait::async_trait;
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::rows::{FileRow, Reach, ShardRow, XorbRow};
use crate::access::Scope;
use crate::audit::Deed;
use crate::error::Result;
use crate::layout::Layout;
use crate::objects::XorbKey;
use crate::repo::RepoId;
use crate::repo::oid::Oid;
use crate::repo::pointer;

/// The care of a catalog.
///
/// *Contract*: as for [`Catalog`](super::Catalog). Pages are in the order of their keys and begin after one, at the first
/// for an empty one.
#[async_trait]
pub trait CareCatalog: Send + Sync {
    /// Xorbs that have an object, or should.
    async fn xorb_page(&self, after: &[u8], limit: u64) -> Result<Vec<XorbRow>>;

    /// Shards that have an object, or should.
    async fn shard_page(&self, after: &[u8], limit: u64) -> Result<Vec<ShardRow>>;

    /// All files.
    async fn file_page(&self, after: &[u8], limit: u64) -> Result<Vec<FileRow>>;

    /// The bundles that git objects of a repository are in.
    async fn bundle_page(&self, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<Oid>>;

    /// Files that are made of a xorb.
    async fn files_of(&self, xorb: XorbHash, after: &[u8], limit: u64) -> Result<Vec<FileHash>>;

    /// Which repositories may read these files.
    async fn readers(&self, files: &[FileHash]) -> Result<Vec<(FileHash, Scope)>>;

    /// Notes that the objects of these were read and are sound, also of those that were marked as damaged.
    async fn note_verified(&self, xorbs: &[XorbKey], now_s: u64) -> Result<()>;

    /// Marks these as damaged, until somebody stores them again; tells how many.
    async fn mark_damaged(&self, xorbs: &[XorbKey], now_s: u64) -> Result<u64>;

    /// Moves all files of a xorb in one go, if they are all its files and none has changed; tells whether it did.
    async fn relay(&self, relay: &Relay) -> Result<bool>;

    /// Gives a repository the right to files, under digests: for a catalog that is made again.
    async fn restore_rights(&self, scope: &Scope, files: &[(Sha256, FileHash)], now_s: u64) -> Result<()>;

    /// Digests registered in `scope` that nobody has compared with the bytes of their files, or that disagree with them.
    async fn digest_claims(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<DigestClaim>>;

    /// Such claims of all repositories, in the order of their keys, after one.
    async fn claim_page(&self, after: Option<&DigestClaim>, limit: u64) -> Result<Vec<DigestClaim>>;

    /// Digests of these files that were computed for a repository within reach.
    async fn computed_sha256s(&self, reach: &Reach, files: &[FileHash]) -> Result<Vec<(FileHash, Sha256)>>;

    /// Notes computed digests of files of a repository, and removes the claims that turned out to be false.
    async fn settle_claims(
        &self,
        scope: &Scope,
        computed: &[(FileHash, Sha256)],
        refuted: &[DigestClaim],
    ) -> Result<()>;

    /// Makes a file of other xorbs, which must be live, if its layout is still `from`; tells whether it did.
    async fn move_file(&self, file: FileHash, from: &Layout, to: &Layout, shard: ShardHash) -> Result<bool>;

    /// The repositories with the most bytes in large files: how many files, how many bytes.
    async fn top_repos(&self, limit: u64) -> Result<Vec<(Scope, u64, u64)>>;

    /// Bytes of large files, once for each repository that has them.
    async fn logical_bytes(&self) -> Result<u64>;
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

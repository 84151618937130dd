//! What sweep asks of the catalog: what nobody needs, and to let go of it if that is still so.
//!
//! Every question gives candidates in the order of their keys, a page at a time. Every write looks again, within its
//! transaction, whether it may: between question and write anybody may have come to need the thing.

#[cfg(test)]
mod contract;
pub(in crate::catalog) mod statements;

use async_trait::async_trait;
use xet::{FileHash, ShardHash, XorbHash};

use super::repo::RepoRow;
use super::rows::{FileRow, XorbRow};
use crate::access::Scope;
use crate::error::Result;
use crate::objects::{Digest, ObjectKey, XorbKey};
use crate::repo::RepoId;
use crate::repo::oid::{ObjectKind, Oid};

/// The way out of a catalog.
///
/// *Contract*: as for [`Catalog`](super::Catalog). A page begins after a key, at the first for an empty one. What drops or
/// dooms things leaves alone those that came to be needed, and tells how many it took.
#[async_trait]
pub trait SweepCatalog: Send + Sync {
    /// Takes a lease that is free, expired, the holder's own, or ends more than a day after `until_s`, as one that was taken by a
    /// clock that was ahead; answers with the place its last holder noted.
    async fn take_lease(&self, name: &str, holder: &str, now_s: u64, until_s: u64) -> Result<Option<String>>;

    /// Holds a lease longer and notes a place; tells whether it was still the holder's.
    async fn keep_lease(&self, name: &str, holder: &str, until_s: u64, place: &str) -> Result<bool>;

    /// Repositories in the order of their ids.
    async fn all_repos(&self, after: &[u8], limit: u64) -> Result<Vec<SweptRepo>>;

    /// The git objects of a repository in the order of their ids.
    async fn git_page(&self, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<SweptObject>>;

    /// Begins to look through a repository; answers with its generation, and nothing if it is gone.
    async fn begin_repo(&self, repo: RepoId) -> Result<Option<u64>>;

    /// Drops git objects that nobody added since `before_s`, if the repository is still in this generation; tells whether
    /// it is.
    async fn drop_git(&self, repo: RepoId, generation: u64, oids: &[Oid], before_s: u64) -> Result<bool>;

    /// Notes that a repository of this generation has nothing to drop, if nothing changed in it since somebody began.
    async fn note_swept(&self, repo: RepoId, generation: u64) -> Result<()>;

    /// Which of these bundles a git object of the repository is in.
    async fn used_bundles(&self, repo: RepoId, bundles: &[Oid]) -> Result<Vec<Oid>>;

    /// Files a repository may read that no git object of it stands for and nobody registered since `before_s`.
    async fn idle_repo_files(
        &self,
        repo: &SweptRepo,
        before_s: u64,
        after: &[u8],
        limit: u64,
    ) -> Result<Vec<FileHash>>;

    /// Takes these files from the repository, if still idle.
    async fn drop_repo_files(&self, repo: &SweptRepo, files: &[FileHash], before_s: u64) -> Result<u64>;

    /// Drops some digests of a repository that lead to no file of it; tells how many, and 0 when there are none.
    async fn drop_digests(&self, scope: &Scope, limit: u64) -> Result<u64>;

    /// Files that no repository may read.
    async fn unread_files(&self, after: &[u8], limit: u64) -> Result<Vec<FileHash>>;

    /// Drops these files, if still unread.
    async fn drop_files(&self, files: &[FileHash]) -> Result<u64>;

    /// Files whose xorbs and shard are not noted: an older version registered them.
    async fn unrelated_files(&self, limit: u64) -> Result<Vec<FileRow>>;

    /// Makes all files look as if an older version had registered them.
    #[cfg(test)]
    async fn forget_relations(&self) -> Result<()>;

    /// Notes the xorbs of these files, and that their shard is unknown.
    async fn relate_files(&self, rows: &[FileRow]) -> Result<()>;

    /// Live ones that nothing is made of and nobody referred to since `before_s`.
    async fn unused(&self, of: Kept, before_s: u64, after: &[u8], limit: u64) -> Result<Vec<[u8; 32]>>;

    /// Condemns these, if still unused.
    async fn condemn(&self, of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64>;

    /// Those that were condemned or marked as damaged, and last referred to, before `before_s`, and are still unused.
    async fn ripe(&self, of: Kept, before_s: u64, after: &[u8], limit: u64) -> Result<Vec<[u8; 32]>>;

    /// Xorbs that no repository ever registered, last sent or referred to before `before_s`, by repositories that sent nothing
    /// since either: an upload may take days before it registers anything.
    async fn abandoned(&self, before_s: u64, after: &[u8], limit: u64) -> Result<Vec<[u8; 32]>>;

    /// Gives up these, if still abandoned.
    async fn doom_abandoned(&self, xorbs: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64>;

    /// Gives up these, if still ripe: from now on their objects may be deleted at any time.
    async fn doom(&self, of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64>;

    /// Those whose objects are to be deleted.
    async fn doomed(&self, of: Kept, after: &[u8], limit: u64) -> Result<Vec<Doomed>>;

    /// Notes that the objects of these are deleted.
    async fn bury(&self, of: Kept, hashes: &[[u8; 32]], now_s: u64) -> Result<()>;

    /// Forgets those that were buried before `before_s`: their keys may be used again.
    async fn forget_buried(&self, of: Kept, before_s: u64) -> Result<u64>;

    /// Objects that were found, with their lengths. Those that no row knows are doomed; answers with those that may be
    /// deleted at once, because their row counts another object or none any more.
    async fn claim(&self, found: &[(ObjectKey, u64)], now_s: u64) -> Result<Vec<ObjectKey>>;

    /// Puts a row in the place of one whose object is being deleted or was; tells whether it was such. The new object must
    /// have a key of its own.
    async fn replace_swept(&self, row: &XorbRow) -> Result<bool>;

    /// What these files are made of, whoever may read them; unknown ones are left out.
    async fn layouts(&self, files: &[FileHash]) -> Result<Vec<FileRow>>;

    /// Of these files and xorbs, how many repositories read each file and how many files each xorb is in.
    async fn uses(&self, of: Use, hashes: &[[u8; 32]]) -> Result<Vec<([u8; 32], u64)>>;
}

/// What has objects and a way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Xorbs, which files are made of.
    Xorbs,
    /// Shards, which tell what files are made of.
    Shards,
}

impl Kept {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Xorbs, Self::Shards];

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Xorbs => "xorbs",
            Self::Shards => "shards",
        }
    }

    /// When somebody last referred to one.
    pub(super) const fn seen(self) -> &'static str {
        match self {
            Self::Xorbs => "referenced_s",
            Self::Shards => "created_s",
        }
    }

    pub(super) const fn digest(self) -> &'static str {
        match self {
            Self::Xorbs => "digest",
            Self::Shards => "hash",
        }
    }

    /// What must hold of one that nobody needs. While a file is not related to its xorbs and shard, as those of an older
    /// version are until sweep has seen them, nobody can know. Of files that came without a shard's name, any older one
    /// may be the shard.
    pub(super) const fn unused(self) -> &'static str {
        match self {
            Self::Xorbs => {
                " AND NOT EXISTS (SELECT 1 FROM file_xorbs u WHERE u.xorb = xorbs.hash) \
                 AND NOT EXISTS (SELECT 1 FROM files WHERE shard IS NULL)"
            }
            Self::Shards => {
                " AND NOT EXISTS (SELECT 1 FROM files u WHERE u.shard = shards.hash) \
                 AND NOT EXISTS (SELECT 1 FROM files WHERE shard IS NULL) \
                 AND NOT EXISTS (SELECT 1 FROM files u WHERE u.shard = SUBSTR(shards.hash, 1, 0) \
                 AND u.created_s >= shards.created_s)"
            }
        }
    }

    pub(super) fn key(self, hash: [u8; 32], digest: [u8; 32]) -> ObjectKey {
        match self {
            Self::Xorbs => {
                ObjectKey::Xorb(XorbKey { hash: XorbHash::new(hash), digest: Digest::new(digest) })
            }
            Self::Shards => ObjectKey::Shard(ShardHash::new(hash)),
        }
    }
}

/// Who uses a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Repositories a file.
    Files,
    /// Files a xorb.
    Xorbs,
}

/// A repository as sweep sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweptRepo {
    /// The repository.
    pub row: RepoRow,
    /// Counts how often a ref came back to an old commit.
    pub generation: u64,
    /// Whether it was found to have nothing to drop, and did not change since.
    pub is_swept: bool,
}

impl SweptRepo {
    /// The repository as the content store knows it.
    pub fn scope(&self) -> Result<Scope> {
        self.row.scope()
    }
}

/// A git object as sweep sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweptObject {
    /// Names it.
    pub oid: Oid,
    /// What it is.
    pub kind: ObjectKind,
    /// When somebody last added it.
    pub touched_s: u64,
    /// The large file it stands for.
    pub file: Option<FileHash>,
}

/// An object that is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doomed {
    /// Its row.
    pub hash: [u8; 32],
    /// Its name.
    pub key: ObjectKey,
    /// Its length.
    pub bytes: u64,
}

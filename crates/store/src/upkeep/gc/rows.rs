//! What garbage collection reads from the catalog: kinds of objects, repositories, git objects.
//!
//! Queries return candidates in the order of their keys, a page at a time. Every write checks its condition again, within
//! its transaction: between query and write anything may have come to be referred to.

use xet::{FileHash, ShardHash, XorbHash};

use crate::db::Catalog;
use crate::db::sql::Sql;
use crate::error::Result;
use crate::ids::{Digest, ObjectKind, Oid, XorbKey};
use crate::objects::key::ObjectKey;

/// Runs statements that take effect together; returns how many rows they changed. Serializable, since they act on what
/// they do not find.
pub(crate) async fn change(db: &Catalog, what: &'static str, statements: &[Sql<'_>]) -> Result<u64> {
    if statements.is_empty() {
        return Ok(0);
    }
    db.write_serializable(what, |mut tx| async move {
        let mut changed = 0;
        for statement in statements {
            changed += tx.run(statement.clone()).await?;
        }
        tx.commit().await?;
        Ok(changed)
    })
    .await
}

/// Kind of object that garbage collection deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredKind {
    /// Xorbs, which files are made of.
    Xorbs,
    /// Shards, which tell what files are made of.
    Shards,
}

impl StoredKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Xorbs, Self::Shards];

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Xorbs => "xorbs",
            Self::Shards => "shards",
        }
    }

    /// Column with the time of the last reference.
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

    /// Condition for a row that nothing refers to. While a file is not related to its xorbs and shard, as those of an older
    /// version are until garbage collection has seen them, nobody can know. Of files that came without a shard's name, any
    /// older one may be the shard.
    pub(super) const fn unused(self) -> &'static str {
        match self {
            Self::Xorbs => {
                "NOT EXISTS (SELECT 1 FROM file_xorbs u WHERE u.xorb = xorbs.hash) \
                 AND NOT EXISTS (SELECT 1 FROM files WHERE shard IS NULL)"
            }
            Self::Shards => {
                "NOT EXISTS (SELECT 1 FROM files u WHERE u.shard = shards.hash) \
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

/// A git object as garbage collection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GcObject {
    /// Its id.
    pub oid: Oid,
    /// Its kind.
    pub kind: ObjectKind,
    /// Last time it was added.
    pub touched_s: u64,
    /// The large file it stands for.
    pub file: Option<FileHash>,
}

/// An object that is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeletableObject {
    /// Key of its row.
    pub hash: [u8; 32],
    /// Its name.
    pub key: ObjectKey,
    /// Its length.
    pub bytes: u64,
}

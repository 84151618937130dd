//! Catalog queries of garbage collection: find what nothing refers to, and remove it if that is still so.
//!
//! Queries return candidates in the order of their keys, a page at a time. Every write checks its condition again, within
//! its transaction: between query and write anything may have come to be referred to.

#[cfg(test)]
mod contract;
mod files;
mod objects;
mod repos;

use xet::{FileHash, ShardHash, XorbHash};

use super::repo::RepoRow;
use crate::access::Scope;
use crate::db::{Db, FromRow, Row, Sql};
use crate::error::Result;
use crate::objects::{Digest, ObjectKey, XorbKey};
use crate::repo::oid::{ObjectKind, Oid};

/// Garbage collection's side of the catalog.
///
/// *Contract*: as for [the catalog](super). A page begins after a key, at the first for an empty one. Writes that drop or
/// doom rows skip those that came to be referred to, and return how many they changed.
#[derive(Debug, Clone)]
pub struct SweepCatalog {
    pub(super) db: Db,
}

impl SweepCatalog {
    /// Takes a lease that is free, expired, the holder's own, or ends more than a day after `until_s`, as one that was taken by
    /// a clock that was ahead; returns the place its last holder noted.
    pub async fn take_lease(
        &self,
        name: &str,
        holder: &str,
        now_s: u64,
        until_s: u64,
    ) -> Result<Option<String>> {
        let insert = "INSERT INTO leases (name, holder, expires_s, place) VALUES ($1, $2, $3, '') \
            ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_s = excluded.expires_s \
            WHERE leases.expires_s <= $4 OR leases.holder = excluded.holder \
            OR leases.expires_s > $3 + 86400 RETURNING place";
        let insert = Sql::new(insert).bind(name).bind(holder).bind(until_s).bind(now_s);
        let taken = self.db.write_one("take a lease", insert).await?.rows.into_iter().next();
        taken.map(|mut row| row.text("place")).transpose()
    }

    /// Extends a lease and notes a place; returns whether it was still the holder's.
    pub async fn keep_lease(&self, name: &str, holder: &str, until_s: u64, place: &str) -> Result<bool> {
        let update = "UPDATE leases SET expires_s = $1, place = $2 WHERE name = $3 AND holder = $4";
        let update = Sql::new(update).bind(until_s).bind(place).bind(name).bind(holder);
        Ok(self.db.write_one("keep a lease", update).await?.changed > 0)
    }

    /// Runs statements that take effect together; returns how many rows they changed. Serializable, since they act on what
    /// they do not find.
    async fn change(&self, what: &'static str, statements: &[Sql<'_>]) -> Result<u64> {
        if statements.is_empty() {
            return Ok(0);
        }
        self.db
            .write_serializable(what, |mut tx| async move {
                let mut changed = 0;
                for statement in statements {
                    changed += tx.run(statement.clone()).await?;
                }
                tx.commit().await?;
                Ok(changed)
            })
            .await
    }
}

/// Kind of object that garbage collection deletes.
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

    const fn table(self) -> &'static str {
        match self {
            Self::Xorbs => "xorbs",
            Self::Shards => "shards",
        }
    }

    /// Column with the time of the last reference.
    const fn seen(self) -> &'static str {
        match self {
            Self::Xorbs => "referenced_s",
            Self::Shards => "created_s",
        }
    }

    const fn digest(self) -> &'static str {
        match self {
            Self::Xorbs => "digest",
            Self::Shards => "hash",
        }
    }

    /// Condition for a row that nothing refers to. While a file is not related to its xorbs and shard, as those of an older
    /// version are until garbage collection has seen them, nobody can know. Of files that came without a shard's name, any
    /// older one may be the shard.
    const fn unused(self) -> &'static str {
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

    fn key(self, hash: [u8; 32], digest: [u8; 32]) -> ObjectKey {
        match self {
            Self::Xorbs => {
                ObjectKey::Xorb(XorbKey { hash: XorbHash::new(hash), digest: Digest::new(digest) })
            }
            Self::Shards => ObjectKey::Shard(ShardHash::new(hash)),
        }
    }
}

/// Relation that [`SweepCatalog::uses`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Repositories that may read a file.
    Files,
    /// Files that are made of a xorb.
    Xorbs,
}

/// A repository as garbage collection sees it.
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

/// A git object as garbage collection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweptObject {
    /// Its id.
    pub oid: Oid,
    /// Its kind.
    pub kind: ObjectKind,
    /// When somebody last added it.
    pub touched_s: u64,
    /// The large file it stands for.
    pub file: Option<FileHash>,
}

/// An object that is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doomed {
    /// Key of its row.
    pub hash: [u8; 32],
    /// Its name.
    pub key: ObjectKey,
    /// Its length.
    pub bytes: u64,
}

/// Hash in a column, of any kind.
struct RawHash([u8; 32]);

impl FromRow for RawHash {
    fn from_row(row: &mut Row) -> Result<Self> {
        row.array("hash").map(Self)
    }
}

//! The hub's domain: stored content, repositories over it, and the upkeep of both.
//!
//! Three parts stand over the database (`db`) and the objects: [`Content`] stores xorbs, shards and files, [`Hub`] keeps
//! repositories, users and quotas, [`Upkeep`] collects garbage, verifies and rebuilds. `content` never names `hub`; `hub`
//! uses `content`; `upkeep` uses both. Objects are the truth and the catalog is an index over them: object first, catalog row
//! second, answer last. Knows no HTTP; the server in front of it knows no SQL and no object keys.

pub mod access;
pub mod audit;
mod budget;
pub mod clock;
pub mod content;
pub mod db;
pub mod error;
pub mod hub;
pub mod ids;
pub mod names;
pub mod objects;
pub mod upkeep;

#[cfg(test)]
mod contract;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::sync::Arc;

pub use access::{Grant, Scope};
pub use clock::Clock;
pub use content::{Content, DedupOptions, DedupPolicy};
pub use db::Catalog;
pub use error::{Error, ErrorKind, Result};
pub use hub::Hub;
pub use ids::{Digest, StoreId, XorbKey};
pub use objects::Objects;
pub use objects::key::ObjectKey;
pub use objects::local::write::GrowingXorb;
pub use upkeep::Upkeep;

use budget::{Memory, Workers};

/// A store: the objects and the catalog of one hub, in three parts. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Store {
    content: Arc<Content>,
    hub: Arc<Hub>,
    upkeep: Arc<Upkeep>,
    objects: Objects,
    db: Arc<Catalog>,
}

/// Limits of a store, and how it answers dedup queries.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes that the bodies of all requests may occupy together; a xorb takes up to 65 MiB. More uploads at once wait.
    pub body_bytes_max: u64,
    /// Bytes of footers to cache. An eighth of that is used for file recipes besides.
    pub footer_bytes_max: u64,
    /// Threads for hashing and decompressing.
    pub threads: usize,
    /// Chunks that are read to prove the files of one shard. A small shard may name many, many times over.
    pub shard_chunks_max: u64,
    /// How dedup queries are answered.
    pub dedup: DedupOptions,
    /// Seconds that revisions are stored which a ref has left; 0: garbage collection takes them like everything unused.
    pub trash_s: u64,
    /// Seconds that the audit log goes back; 0 for ever.
    pub audit_s: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            body_bytes_max: 512 * 1024 * 1024,
            footer_bytes_max: 128 * 1024 * 1024,
            threads: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            shard_chunks_max: xet::limits::SHARD_CHECK_CHUNKS_MAX,
            dedup: DedupOptions::default(),
            trash_s: 0,
            audit_s: 0,
        }
    }
}

impl Store {
    /// Opens a store over these objects and their catalog.
    pub fn new(objects: Objects, catalog: Arc<Catalog>, clock: Arc<dyn Clock>, options: &Options) -> Self {
        let limits = content::Limits {
            memory: Memory::new(options.body_bytes_max),
            workers: Workers::new(options.threads),
            footer_bytes_max: options.footer_bytes_max,
            shard_chunks_max: options.shard_chunks_max,
        };
        let workers = limits.workers.clone();
        let content = Content::new(&objects, &catalog, &clock, limits, options.dedup.clone());
        let content = Arc::new(content);
        let hub = Hub::new(&content, &objects, &catalog, &clock, workers.clone(), options.trash_s);
        let hub = Arc::new(hub);
        let upkeep = Upkeep::new(&content, &hub, &objects, &catalog, clock, workers, options.audit_s);
        Self { content, hub, upkeep: Arc::new(upkeep), objects, db: catalog }
    }

    /// Xorbs, shards and files.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Repositories, users and quotas.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Garbage collection, verification, rebuilding, statistics.
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    /// Queries the catalog and the objects for a missing key: an error when one of them does not answer.
    pub async fn ping(&self) -> Result<()> {
        content::xorbs::xorbs(&self.db, &[xet::XorbHash::ZERO]).await?;
        self.objects.head(&ObjectKey::Shard(xet::ShardHash::ZERO)).await.map(|_| ())
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.db
    }
}

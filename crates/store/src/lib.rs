//! The hub's domain: xorbs come in, shards are registered, reconstructions planned, chunks deduplicated.
//!
//! Objects are the truth and the catalog is an index over them: object first, catalog row second, answer last. Knows
//! no HTTP; the server in front of it knows no SQL and no object keys.

pub mod access;
pub mod audit;
pub mod backup;
mod blocks;
pub mod body;
pub mod catalog;
mod chunk_list;
pub mod clock;
pub mod compact;
pub mod content;
pub mod copy;
pub mod db;
pub mod dedup;
mod digests;
pub mod edits;
pub mod error;
mod footers;
mod gather;
pub mod identity;
pub mod ingest;
pub mod intake;
pub mod layout;
pub mod objects;
pub mod parts;
pub mod plan;
pub mod quota;
pub mod rebuild;
pub mod register;
pub mod repo;
pub mod restore;
pub mod sharing;
pub mod sweep;
pub mod verify;
mod workers;

use std::ops::Deref;
use std::sync::Arc;

pub use access::{Grant, Scope};
pub use catalog::Catalog;
pub use clock::Clock;
pub use dedup::{DedupOptions, DedupPolicy};
pub use error::{Error, ErrorKind, Result};
pub use identity::StoreId;
pub use objects::{Digest, GrowingXorb, ObjectKey, Objects, XorbKey};

use catalog::rows::{DedupHit, Reach};
use footers::Footers;
use gather::Gather;
use workers::{Memory, Workers};
use xet::ChunkHash;

/// A store: objects, the catalog over them, and what it takes to serve both. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Store(Arc<Rooms>);

/// What a store is made of.
#[derive(Debug)]
pub struct Rooms {
    objects: Objects,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    workers: Workers,
    memory: Memory,
    footers: Footers,
    plain: content::plain::Marks,
    trees: repo::Trees,
    heads: repo::refs::Heads,
    large_items: repo::listing::LargeItems,
    /// Held by whoever measures repositories.
    measuring: tokio::sync::Mutex<()>,
    layouts: plan::Layouts,
    digests: Arc<digests::Digests>,
    chunks: Gather<(Reach, ChunkHash), DedupHit>,
    dedup: DedupOptions,
    shard_chunks_max: u64,
    quotas: quota::Quotas,
    xorb_locks: ingest::XorbLocks,
    policies: dedup::Policies,
    visible: repo::Visible,
    trash_s: u64,
    audit_s: u64,
}

impl Deref for Store {
    type Target = Rooms;

    fn deref(&self) -> &Rooms {
        &self.0
    }
}

/// How much a store may use, and how it answers dedup queries.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes that arriving bodies may occupy together; a xorb takes up to 65 MiB. More uploads at once wait.
    pub body_bytes_max: u64,
    /// Bytes of footers to keep in memory. An eighth of that is kept of layouts besides.
    pub footer_bytes_max: u64,
    /// Threads for hashing and decompressing.
    pub threads: usize,
    /// Chunks that are looked at to prove the files of one shard. A small shard may name many, many times over.
    pub shard_chunks_max: u64,
    /// How dedup queries are answered.
    pub dedup: DedupOptions,
    /// Seconds that revisions are kept which a ref has left; 0: sweep takes them like everything unused.
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
        let workers = Workers::new(options.threads);
        let footers = Footers::new(objects.clone(), workers.clone(), options.footer_bytes_max);
        let memory = Memory::new(options.body_bytes_max);
        let Options { shard_chunks_max, dedup, trash_s, audit_s, .. } = options.clone();
        let trees = repo::trees();
        let layouts = plan::Layouts::new(&catalog, options.footer_bytes_max / 8);
        let chunks = dedup::gather(&catalog);
        let heads = repo::refs::Heads::new(&catalog);
        Self(Arc::new(Rooms {
            objects,
            catalog,
            clock,
            workers,
            memory,
            footers,
            trees,
            heads,
            plain: content::plain::Marks::default(),
            large_items: repo::listing::large_items(),
            measuring: tokio::sync::Mutex::default(),
            layouts,
            digests: Arc::default(),
            chunks,
            dedup,
            shard_chunks_max,
            quotas: quota::Quotas::new(),
            xorb_locks: ingest::XorbLocks::new(),
            policies: dedup::Policies::new(),
            visible: repo::visible(),
            trash_s,
            audit_s,
        }))
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}

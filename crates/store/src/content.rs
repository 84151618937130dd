//! Stored content: xorbs that clients upload, shards that register files made of them, and reading files back.
//!
//! Upload: `put_xorb` stores a xorb and records who sent it; `put_shard` proves what the files of a shard are made of and
//! gives the repository the right to read them. Download: `reconstruct` plans which bytes of which xorbs make a file, and
//! `read` puts the bytes together for clients that do not speak the protocol. Rows and statements stand beside the
//! functions that need them. Nothing here knows repositories, only the [`Scope`](crate::Scope) of a caller.

pub(crate) mod body;
pub(crate) mod chunk_list;
pub(crate) mod dedup;
pub(crate) mod dedup_policy;
pub(crate) mod digests;
pub(crate) mod files;
pub(crate) mod footers;
pub(crate) mod multipart_upload;
pub(crate) mod overlap;
pub(crate) mod put_file;
pub(crate) mod put_shard;
pub(crate) mod put_xorb;
pub(crate) mod quotas;
pub(crate) mod range_edit;
pub(crate) mod reach;
pub(crate) mod read;
pub(crate) mod recipe;
pub(crate) mod reconstruct;
pub(crate) mod relocate;
pub(crate) mod rows;
pub(crate) mod shards;
pub(crate) mod uploads;
pub(crate) mod xorbs;

pub use body::BodyError;
pub use dedup::{DedupOptions, TOUCH_S};
pub use dedup_policy::DedupPolicy;
pub use files::LinkedFile;
pub use multipart_upload::MultipartFile;
pub use overlap::Neighbours;
pub use put_file::{FILE_BYTES_MAX, PutFileProgress, StoredFile, put_file_memory};
pub use put_shard::registration::Registration;
pub use put_shard::{Mismatch, MissingXorb, Progress, Registered};
pub use put_xorb::{Records, StoredXorb};
pub use quotas::Need;
pub use quotas::usage::{Limit, QuotaOf, QuotaRow, Usage};
pub use range_edit::EDIT_CHUNKS_MAX;
pub use reach::Reach;
pub use read::{STREAM_BYTES, stream_bytes};
pub use recipe::{FileRecipe, FileTerm, RecipeBuilder, RecipeXorb};
pub use reconstruct::{BatchReconstruction, Planned, Reconstruction};
pub use rows::{DedupRow, FileRow, ShardRow, XorbRow, XorbState};

use std::sync::Arc;

use dedup_policy::Policies;
use digests::Digests;
use footers::Footers;
use put_xorb::XorbLocks;
use quotas::Quotas;
use read::verified_raw::VerifiedRaw;
use reconstruct::RecipeCache;
use rows::DedupHit;
use xet::ChunkHash;
use xet::xorb::XorbInfo;

use crate::budget::{Memory, Workers};
use crate::clock::Clock;
use crate::db::Catalog;
use crate::db::batcher::Batcher;
use crate::error::Result;
use crate::objects::Objects;

/// Xorbs, shards and files of a store. Clones share everything.
#[derive(Debug, Clone)]
pub struct Content {
    objects: Objects,
    db: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    workers: Workers,
    memory: Memory,
    footers: Footers,
    verified_raw: VerifiedRaw,
    recipes: RecipeCache,
    digests: Arc<Digests>,
    chunks: Batcher<(Reach, ChunkHash), DedupHit>,
    dedup: DedupOptions,
    shard_chunks_max: u64,
    quotas: Quotas,
    xorb_locks: XorbLocks,
    policies: Policies,
}

/// What the content of a store may use.
pub(crate) struct Limits {
    pub(crate) memory: Memory,
    pub(crate) workers: Workers,
    /// Bytes of footers to cache. An eighth of that is used for file recipes besides.
    pub(crate) footer_bytes_max: u64,
    /// Chunks that are read to prove the files of one shard.
    pub(crate) shard_chunks_max: u64,
}

impl Content {
    pub(crate) fn new(
        objects: &Objects,
        db: &Arc<Catalog>,
        clock: &Arc<dyn Clock>,
        limits: Limits,
        dedup: DedupOptions,
    ) -> Self {
        let Limits { memory, workers, footer_bytes_max, shard_chunks_max } = limits;
        Self {
            footers: Footers::new(objects.clone(), workers.clone(), footer_bytes_max),
            recipes: RecipeCache::new(db, footer_bytes_max / 8),
            chunks: dedup::batcher(db),
            objects: objects.clone(),
            db: db.clone(),
            clock: clock.clone(),
            workers,
            memory,
            verified_raw: VerifiedRaw::default(),
            digests: Arc::default(),
            dedup,
            shard_chunks_max,
            quotas: Quotas::new(),
            xorb_locks: XorbLocks::new(),
            policies: Policies::new(),
        }
    }

    /// The chunks of a stored xorb, from its footer.
    pub(crate) async fn footer(&self, xorb: &RecipeXorb) -> Result<Arc<XorbInfo>> {
        self.footers.of(xorb).await
    }

    /// Drops cached recipes: a caller may see less now, and expects that to hold at once.
    pub(crate) fn forget_recipes(&self) {
        self.recipes.forget();
    }

    /// Seconds that a xorb must stay after it was last named in a dedup answer.
    pub(crate) fn dedup_answer_s(&self) -> u64 {
        self.dedup.answer_s.saturating_add(dedup::TOUCH_S)
    }
}

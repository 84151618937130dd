//! A catalog whose calls are timed: `drystone_catalog_seconds`.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::keep::QuotaOf;
use super::rows::{AddedXorb, Counts, DedupHit, FileRow, Reach, Registered, Registration, ShardRow, XorbRow};
use super::uploads::{NewObject, PartRow, RecordedUpload, UploadRow, XorbReference};
use super::{
    BrowseCatalog, CareCatalog, Catalog, KeepCatalog, RepoCatalog, Stamp, SweepCatalog, Tokens, UploadCatalog,
};
use crate::access::Scope;
use crate::dedup::DedupPolicy;
use crate::error::Result;
use crate::repo::RepoId;

/// The catalog within, and a clock beside it.
#[derive(Debug)]
pub(crate) struct TimedCatalog(pub(crate) Arc<dyn Catalog>);

/// Times one call, whatever comes of it.
async fn timed<T>(call: &'static str, work: impl Future<Output = T>) -> T {
    let begin = Instant::now();
    let done = work.await;
    metrics::histogram!("drystone_catalog_seconds", "call" => call).record(begin.elapsed().as_secs_f64());
    done
}

#[async_trait]
impl Catalog for TimedCatalog {
    async fn xorbs(&self, hashes: &[XorbHash]) -> Result<Vec<XorbRow>> {
        timed("xorbs", self.0.xorbs(hashes)).await
    }

    async fn add_xorbs(&self, rows: &[XorbRow]) -> Result<Vec<AddedXorb>> {
        timed("add_xorbs", self.0.add_xorbs(rows)).await
    }

    async fn touch_xorbs(&self, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
        timed("touch_xorbs", self.0.touch_xorbs(hashes, now_s)).await
    }

    async fn register(&self, registration: &Registration) -> Result<Registered> {
        timed("register", self.0.register(registration)).await
    }

    async fn files(&self, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>> {
        timed("files", self.0.files(scope, hashes)).await
    }

    async fn files_by_sha256(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<(Sha256, FileHash)>> {
        timed("files_by_sha256", self.0.files_by_sha256(scope, digests)).await
    }

    async fn dedup(&self, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<DedupHit>> {
        timed("dedup", self.0.dedup(reach, chunks)).await
    }

    async fn has_xorb(&self, reach: &Reach, xorb: XorbHash) -> Result<bool> {
        timed("has_xorb", self.0.has_xorb(reach, xorb)).await
    }

    async fn shards(&self, hashes: &[ShardHash]) -> Result<Vec<ShardRow>> {
        timed("shards", self.0.shards(hashes)).await
    }

    // Shorter than what it takes to time it.
    fn peek_chunk(&self, reach: &Reach, chunk: ChunkHash) -> Option<bool> {
        self.0.peek_chunk(reach, chunk)
    }

    fn peek_file(&self, scope: &Scope, hash: FileHash) -> Option<Option<FileRow>> {
        self.0.peek_file(scope, hash)
    }

    // Looked up once in a few seconds for each token: not worth a number.
    fn tokens(&self) -> &dyn Tokens {
        self.0.tokens()
    }

    async fn agree(&self, name: &str, value: &[u8]) -> Result<Vec<u8>> {
        timed("agree", self.0.agree(name, value)).await
    }

    async fn agreed(&self, name: &str) -> Result<Option<Vec<u8>>> {
        timed("agreed", self.0.agreed(name)).await
    }

    fn hub(&self) -> &dyn RepoCatalog {
        self.0.hub()
    }

    // Not on any request's way.
    fn sweep(&self) -> &dyn SweepCatalog {
        self.0.sweep()
    }

    fn care(&self) -> &dyn CareCatalog {
        self.0.care()
    }

    fn browse(&self) -> &dyn BrowseCatalog {
        self.0.browse()
    }

    fn keep(&self) -> &dyn KeepCatalog {
        self.0.keep()
    }

    fn uploads(&self) -> &dyn UploadCatalog {
        self
    }

    fn stamp(&self) -> Option<Stamp> {
        self.0.stamp()
    }

    async fn counts(&self) -> Result<Counts> {
        timed("counts", self.0.counts()).await
    }
}

#[async_trait]
impl UploadCatalog for TimedCatalog {
    async fn record_upload(&self, upload: &UploadRow, object: Option<&NewObject>) -> Result<RecordedUpload> {
        timed("record_upload", self.0.uploads().record_upload(upload, object)).await
    }

    async fn references(
        &self,
        scope: &Scope,
        sender: Option<&str>,
        within: Option<&Reach>,
        xorbs: &[XorbHash],
    ) -> Result<Vec<XorbReference>> {
        timed("references", self.0.uploads().references(scope, sender, within, xorbs)).await
    }

    async fn readable_file(&self, scope: &Scope, xorb: XorbHash) -> Result<Option<FileHash>> {
        timed("readable_file", self.0.uploads().readable_file(scope, xorb)).await
    }

    async fn drop_uploads(&self, before_s: u64) -> Result<u64> {
        self.0.uploads().drop_uploads(before_s).await
    }

    async fn add_part(&self, part: &PartRow) -> Result<()> {
        timed("add_part", self.0.uploads().add_part(part)).await
    }

    async fn drop_parts(&self, repo: RepoId, file: Sha256) -> Result<()> {
        timed("drop_parts", self.0.uploads().drop_parts(repo, file)).await
    }

    async fn drop_old_parts(&self, before_s: u64) -> Result<u64> {
        self.0.uploads().drop_old_parts(before_s).await
    }

    async fn dedup_policies(&self) -> Result<Vec<(QuotaOf, DedupPolicy)>> {
        timed("dedup_policies", self.0.uploads().dedup_policies()).await
    }

    async fn set_dedup_policy(&self, of: &QuotaOf, policy: Option<DedupPolicy>) -> Result<()> {
        self.0.uploads().set_dedup_policy(of, policy).await
    }
}

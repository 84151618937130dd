//! Faults of the sides of the catalog that sweep and care use, and those who keep a store.

use async_trait::async_trait;
use store::access::Scope;
use store::audit::Deed;
use store::catalog::care::{DigestClaim, Relay};
use store::catalog::keep::{DeedQuery, DeedRow, LeftRow, QuotaOf, QuotaRow, Usage};
use store::catalog::rows::{FileRow, Reach, ShardRow, XorbRow};
use store::catalog::sweep::{Doomed, Kept, SweptObject, SweptRepo, Use};
use store::catalog::uploads::{NewObject, PartRow, RecordedUpload, UploadRow, XorbReference};
use store::catalog::{CareCatalog, KeepCatalog, SweepCatalog, UploadCatalog};
use store::layout::Layout;
use store::repo::RepoId;
use store::repo::oid::Oid;
use store::{DedupPolicy, ObjectKey, Result, XorbKey};
use xet::{FileHash, Sha256, ShardHash, XorbHash};

use super::{FaultyCatalog, catalog_fault};

/// Every method, with faults.
macro_rules! faulty {
    ($trait:ident, $side:ident: $($method:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $trait for FaultyCatalog { $(
            async fn $method(&self, $($name: $type),*) -> Result<$answer> {
                self.faults.run(catalog_fault, self.inner.$side().$method($($name),*)).await
            }
        )* }
    };
}

faulty! {
    SweepCatalog, sweep:
    take_lease(name: &str, holder: &str, now_s: u64, until_s: u64) -> Option<String>;
    keep_lease(name: &str, holder: &str, until_s: u64, place: &str) -> bool;
    all_repos(after: &[u8], limit: u64) -> Vec<SweptRepo>;
    git_page(repo: RepoId, after: &[u8], limit: u64) -> Vec<SweptObject>;
    begin_repo(repo: RepoId) -> Option<u64>;
    drop_git(repo: RepoId, generation: u64, oids: &[Oid], before_s: u64) -> bool;
    note_swept(repo: RepoId, generation: u64) -> ();
    used_bundles(repo: RepoId, bundles: &[Oid]) -> Vec<Oid>;
    idle_repo_files(repo: &SweptRepo, before_s: u64, after: &[u8], limit: u64) -> Vec<FileHash>;
    drop_repo_files(repo: &SweptRepo, files: &[FileHash], before_s: u64) -> u64;
    drop_digests(scope: &Scope, limit: u64) -> u64;
    unread_files(after: &[u8], limit: u64) -> Vec<FileHash>;
    drop_files(files: &[FileHash]) -> u64;
    unrelated_files(limit: u64) -> Vec<FileRow>;
    relate_files(rows: &[FileRow]) -> ();
    unused(of: Kept, before_s: u64, after: &[u8], limit: u64) -> Vec<[u8; 32]>;
    condemn(of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> u64;
    ripe(of: Kept, before_s: u64, after: &[u8], limit: u64) -> Vec<[u8; 32]>;
    abandoned(before_s: u64, after: &[u8], limit: u64) -> Vec<[u8; 32]>;
    doom_abandoned(xorbs: &[[u8; 32]], before_s: u64, now_s: u64) -> u64;
    doom(of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> u64;
    doomed(of: Kept, after: &[u8], limit: u64) -> Vec<Doomed>;
    bury(of: Kept, hashes: &[[u8; 32]], now_s: u64) -> ();
    forget_buried(of: Kept, before_s: u64) -> u64;
    claim(found: &[(ObjectKey, u64)], now_s: u64) -> Vec<ObjectKey>;
    replace_swept(row: &XorbRow) -> bool;
    layouts(files: &[FileHash]) -> Vec<FileRow>;
    uses(of: Use, hashes: &[[u8; 32]]) -> Vec<([u8; 32], u64)>;
}

faulty! {
    UploadCatalog, uploads:
    record_upload(upload: &UploadRow, object: Option<&NewObject>) -> RecordedUpload;
    references(scope: &Scope, sender: Option<&str>, within: Option<&Reach>, xorbs: &[XorbHash]) -> Vec<XorbReference>;
    readable_file(scope: &Scope, xorb: XorbHash) -> Option<FileHash>;
    drop_uploads(before_s: u64) -> u64;
    add_part(part: &PartRow) -> ();
    drop_parts(repo: RepoId, file: Sha256) -> ();
    drop_old_parts(before_s: u64) -> u64;
    dedup_policies() -> Vec<(QuotaOf, DedupPolicy)>;
    set_dedup_policy(of: &QuotaOf, policy: Option<DedupPolicy>) -> ();
}

faulty! {
    CareCatalog, care:
    xorb_page(after: &[u8], limit: u64) -> Vec<XorbRow>;
    shard_page(after: &[u8], limit: u64) -> Vec<ShardRow>;
    file_page(after: &[u8], limit: u64) -> Vec<FileRow>;
    bundle_page(repo: RepoId, after: &[u8], limit: u64) -> Vec<Oid>;
    files_of(xorb: XorbHash, after: &[u8], limit: u64) -> Vec<FileHash>;
    readers(files: &[FileHash]) -> Vec<(FileHash, Scope)>;
    note_verified(xorbs: &[XorbKey], now_s: u64) -> ();
    mark_damaged(xorbs: &[XorbKey], now_s: u64) -> u64;
    relay(relay: &Relay) -> bool;
    restore_rights(scope: &Scope, files: &[(Sha256, FileHash)], now_s: u64) -> ();
    digest_claims(scope: &Scope, digests: &[Sha256]) -> Vec<DigestClaim>;
    claim_page(after: Option<&DigestClaim>, limit: u64) -> Vec<DigestClaim>;
    computed_sha256s(reach: &Reach, files: &[FileHash]) -> Vec<(FileHash, Sha256)>;
    settle_claims(scope: &Scope, computed: &[(FileHash, Sha256)], refuted: &[DigestClaim]) -> ();
    move_file(file: FileHash, from: &Layout, to: &Layout, shard: ShardHash) -> bool;
    top_repos(limit: u64) -> Vec<(Scope, u64, u64)>;
    logical_bytes() -> u64;
}

faulty! {
    KeepCatalog, keep:
    quotas() -> Vec<QuotaRow>;
    set_quota(row: &QuotaRow) -> ();
    remove_quota(of: &QuotaOf) -> bool;
    usage(of: &QuotaOf) -> Usage;
    fold_usage() -> ();
    recount_usage() -> ();
    note_deed(deed: &Deed) -> ();
    deeds(query: &DeedQuery) -> Vec<DeedRow>;
    forget_deeds(before_s: u64) -> u64;
    left(repo: RepoId) -> Vec<LeftRow>;
    note_left(repo: RepoId, rows: &[LeftRow]) -> ();
    forget_left(repo: RepoId, now_s: u64) -> u64;
}

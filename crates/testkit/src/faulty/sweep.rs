//! Faults of sweep's side of the catalog.

use async_trait::async_trait;
use store::access::Scope;
use store::catalog::SweepCatalog;
use store::catalog::rows::{FileRow, XorbRow};
use store::catalog::sweep::{Doomed, Kept, SweptObject, SweptRepo, Use};
use store::repo::RepoId;
use store::repo::oid::Oid;
use store::{ObjectKey, Result};
use xet::FileHash;

use super::{FaultyCatalog, catalog_fault};

/// Every method, with faults.
macro_rules! faulty {
    ($($method:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl SweepCatalog for FaultyCatalog { $(
            async fn $method(&self, $($name: $type),*) -> Result<$answer> {
                self.faults.run(catalog_fault, self.inner.sweep().$method($($name),*)).await
            }
        )* }
    };
}

faulty! {
    take_lease(name: &str, holder: &str, now_s: u64, until_s: u64) -> Option<String>;
    keep_lease(name: &str, holder: &str, until_s: u64, place: &str) -> bool;
    all_repos(after: &[u8], limit: u64) -> Vec<SweptRepo>;
    git_page(repo: RepoId, after: &[u8], limit: u64) -> Vec<SweptObject>;
    drop_git(repo: RepoId, generation: u64, oids: &[Oid], before_s: u64) -> bool;
    note_swept(repo: RepoId, generation: u64) -> ();
    used_bundles(repo: RepoId, bundles: &[Oid]) -> Vec<Oid>;
    idle_repo_files(repo: &SweptRepo, before_s: u64, after: &[u8], limit: u64) -> Vec<FileHash>;
    drop_repo_files(repo: &SweptRepo, files: &[FileHash], before_s: u64) -> u64;
    drop_digests(scope: &Scope) -> u64;
    unread_files(after: &[u8], limit: u64) -> Vec<FileHash>;
    drop_files(files: &[FileHash]) -> u64;
    unrelated_files(limit: u64) -> Vec<FileRow>;
    relate_files(rows: &[FileRow]) -> ();
    unused(of: Kept, before_s: u64, after: &[u8], limit: u64) -> Vec<[u8; 32]>;
    condemn(of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> u64;
    ripe(of: Kept, before_s: u64, after: &[u8], limit: u64) -> Vec<[u8; 32]>;
    doom(of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> u64;
    doomed(of: Kept, after: &[u8], limit: u64) -> Vec<Doomed>;
    bury(of: Kept, hashes: &[[u8; 32]], now_s: u64) -> ();
    forget_buried(of: Kept, before_s: u64) -> u64;
    claim(found: &[(ObjectKey, u64)], now_s: u64) -> Vec<ObjectKey>;
    replace_swept(row: &XorbRow) -> bool;
    layouts(files: &[FileHash]) -> Vec<FileRow>;
    uses(of: Use, hashes: &[[u8; 32]]) -> Vec<([u8; 32], u64)>;
}

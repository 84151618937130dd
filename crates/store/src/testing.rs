//! What integration tests read and change in a catalog, beside what a store offers to everybody. Only with the feature
//! `testing`.

use xet::{FileHash, Sha256, XorbHash};

use crate::access::Scope;
use crate::audit::{self, AuditQuery, AuditRow};
use crate::content::put_shard::registration::{self, Registration};
use crate::content::quotas::usage::{self, QuotaOf, Usage};
use crate::content::rows::{FileRow, XorbRow};
use crate::content::{digests, files as content_files, xorbs as content_xorbs};
use crate::db::Catalog;
use crate::error::Result;
use crate::hub::people::{self, NamespaceRow};
use crate::hub::rows::{GitRow, RefChange, RefRow, RepoRow};
use crate::hub::{git_objects, refs, repos};
use crate::ids::{Oid, RepoId, XorbKey};
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::gc::{condemned, unused_files, unused_git};
use crate::upkeep::inventory::{self, Counts};
use crate::upkeep::verify::marks;

pub use crate::content::files::LinkedFile;
pub use crate::content::rows::XorbState;

/// Rows of these xorbs, whatever their state.
pub async fn xorbs(db: &Catalog, hashes: &[XorbHash]) -> Result<Vec<XorbRow>> {
    content_xorbs::xorbs(db, hashes).await
}

/// Adds rows of xorbs.
pub async fn add_xorbs(db: &Catalog, rows: &[XorbRow]) -> Result<()> {
    content_xorbs::add_xorbs(db, rows).await.map(|_| ())
}

/// The files of these that `scope` may read.
pub async fn files(db: &Catalog, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>> {
    content_files::files(db, scope, hashes).await
}

/// Files under claimed digests.
pub async fn files_by_sha256(
    db: &Catalog,
    scope: &Scope,
    digests: &[Sha256],
) -> Result<Vec<(Sha256, FileHash)>> {
    content_files::files_by_sha256(db, scope, digests).await
}

/// Files under computed digests.
pub async fn linked_files(db: &Catalog, scope: &Scope, digests: &[Sha256]) -> Result<Vec<LinkedFile>> {
    content_files::linked_files(db, scope, digests).await
}

/// Rows of these files, regardless of who may read them.
pub async fn all_files(db: &Catalog, files: &[FileHash]) -> Result<Vec<FileRow>> {
    content_files::recipes(db, files).await
}

/// The repositories that may read these files.
pub async fn readers(db: &Catalog, files: &[FileHash]) -> Result<Vec<(FileHash, Scope)>> {
    content_files::readers(db, files).await
}

/// Stores a computed digest of a file, right or wrong.
pub async fn add_digest(db: &Catalog, scope: &Scope, file: FileHash, sha256: Sha256) -> Result<()> {
    digests::claims::resolve_claims(db, scope, &[(file, sha256)], &[]).await
}

/// Adds a repository with its first objects and refs.
pub async fn create_repo(db: &Catalog, row: &RepoRow, objects: &[GitRow], refs: &[RefRow]) -> Result<bool> {
    repos::create_repo(db, row, objects, refs).await
}

/// Adds git objects.
pub async fn add_git_objects(db: &Catalog, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<bool> {
    git_objects::add_git_objects(db, repo, rows, now_s).await
}

/// Moves refs.
pub async fn move_refs(db: &Catalog, repo: RepoId, changes: &[RefChange], now_s: u64) -> Result<bool> {
    refs::move_refs(db, repo, changes, now_s, 0).await
}

/// Repositories that garbage collection has not found clean since they changed.
pub async fn unswept_repos(db: &Catalog) -> Result<Vec<RepoRow>> {
    let repos = inventory::all_repos(db, &[], 100).await?;
    Ok(repos.into_iter().filter(|repo| !repo.is_swept).map(|repo| repo.row).collect())
}

/// Users and organisations, deleted ones too.
pub async fn namespaces(db: &Catalog) -> Result<Vec<NamespaceRow>> {
    people::namespaces(db).await
}

/// Adds everything a shard registers.
pub async fn register_shard(db: &Catalog, registration: &Registration) -> Result<()> {
    registration::register_shard(db, registration).await.map(|_| ())
}

/// Takes unused files from the first repository.
pub async fn drop_repo_files(db: &Catalog, files: &[FileHash], before_s: u64) -> Result<u64> {
    let repos = inventory::all_repos(db, &[], 1).await?;
    let Some(repo) = repos.first() else { return Ok(0) };
    unused_files::drop_repo_files(db, repo, files, before_s).await
}

/// Those of these bundles that a git object of the repository is in.
pub async fn used_bundles(db: &Catalog, repo: RepoId, bundles: &[Oid]) -> Result<Vec<Oid>> {
    unused_git::used_bundles(db, repo, bundles).await
}

/// Number of rows.
pub async fn counts(db: &Catalog) -> Result<Counts> {
    inventory::counts(db).await
}

/// Bytes that a namespace or repository uses.
pub async fn usage(db: &Catalog, of: &QuotaOf) -> Result<Usage> {
    usage::usage(db, of).await
}

/// Counts the usage of everything anew.
pub async fn recount_usage(db: &Catalog) -> Result<()> {
    usage::recount_usage(db).await
}

/// Events of the audit log, the newest first.
pub async fn audit_events(db: &Catalog, query: &AuditQuery) -> Result<Vec<AuditRow>> {
    audit::events(db, query).await
}

/// Condemns xorbs, if still unused.
pub async fn condemn_xorbs(db: &Catalog, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64> {
    condemned::condemn(db, StoredKind::Xorbs, hashes, before_s, now_s).await
}

/// Gives up condemned xorbs: their objects may be deleted at any time.
pub async fn doom_xorbs(db: &Catalog, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64> {
    condemned::mark_deletable(db, StoredKind::Xorbs, hashes, before_s, now_s).await
}

/// Records that the objects of xorbs are deleted.
pub async fn bury_xorbs(db: &Catalog, hashes: &[[u8; 32]], now_s: u64) -> Result<()> {
    condemned::bury(db, StoredKind::Xorbs, hashes, now_s).await
}

/// Marks xorbs as damaged.
pub async fn mark_damaged(db: &Catalog, xorbs: &[XorbKey], now_s: u64) -> Result<u64> {
    marks::mark_damaged(db, xorbs, now_s).await
}

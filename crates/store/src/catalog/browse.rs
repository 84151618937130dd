//! What pages ask of the catalog: repositories with their sizes, in any order, and what dedup saves.
//!
//! Sizes are measured now and then and kept: a list must not add up files while somebody waits for it.

#[cfg(test)]
mod contract;
pub(in crate::catalog) mod statements;

use async_trait::async_trait;
use xet::FileHash;

use super::repo::RepoRow;
use crate::access::Scope;
use crate::error::Result;
use crate::repo::Kind;

/// Lists for people.
///
/// *Contract*: as for [`Catalog`](super::Catalog). Of private repositories only those of `private_of` are seen, and all for
/// `None`. A size is that of the time it was measured.
#[async_trait]
pub trait BrowseCatalog: Send + Sync {
    /// A page of repositories with their sizes.
    async fn repo_page(&self, query: &BrowseQuery) -> Result<Vec<SizedRepo>>;

    /// How many repositories the query finds, and what they have together as far as they were measured.
    async fn repo_totals(&self, query: &BrowseQuery) -> Result<(u64, RepoSize)>;

    /// Repositories that changed since they were measured, or were last measured before `before_s`.
    async fn unmeasured(&self, before_s: u64, limit: u64) -> Result<Vec<RepoRow>>;

    /// Measures these repositories.
    async fn measure(&self, repos: &[RepoRow], now_s: u64) -> Result<()>;

    /// The largest files, each with a repository that has it.
    async fn largest_files(
        &self,
        private_of: Option<&[String]>,
        limit: u64,
    ) -> Result<Vec<(FileHash, u64, Scope)>>;

    /// What came on each day on which something came: the day since 1970, bytes of files, bytes of xorbs.
    async fn growth(&self) -> Result<Vec<(u64, u64, u64)>>;

    /// What no file is made of, what is damaged, and when everything was last verified.
    async fn upkeep(&self) -> Result<Upkeep>;
}

/// Which repositories, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowseQuery {
    /// Of this kind.
    pub kind: Option<Kind>,
    /// With this in `namespace/name`.
    pub search: Option<String>,
    /// Private ones of these namespaces besides all public ones; `None` for all.
    pub private_of: Option<Vec<String>>,
    /// What comes first.
    pub order: Order,
    /// Without so many of the first.
    pub skip: u64,
    /// At most so many.
    pub limit: u64,
}

/// What comes first in a list of repositories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By name.
    Name,
    /// What changed last.
    #[default]
    Updated,
    /// What has the most bytes.
    Size,
}

/// A repository and what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizedRepo {
    /// The repository.
    pub row: RepoRow,
    /// What it has; `None` until somebody measured it.
    pub size: Option<RepoSize>,
}

/// What a repository has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepoSize {
    /// Large files, every version of each.
    pub files: u64,
    /// Bytes of those and of small files.
    pub logical_bytes: u64,
    /// Bytes of the objects they lie in. What several repositories use counts in each.
    pub stored_bytes: u64,
}

/// What there is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Bytes of live xorbs that no file is made of.
    pub unused_bytes: u64,
    /// Bytes of xorbs that wait for the end of their grace, or for their deletion.
    pub condemned_bytes: u64,
    /// Xorbs that are damaged.
    pub damaged_xorbs: u64,
    /// When the xorb that waits longest was last verified, Unix seconds.
    pub verified_s: Option<u64>,
}

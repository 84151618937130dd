//! Locks: somebody works on a file and would like others not to. Clients look before they push; nothing is forced.

use super::tree::parse_path;
use super::{LockRow, RepoId};
use crate::Store;
use crate::error::Result;

impl Store {
    /// Locks a path for somebody; answers with the lock it has, and whether that is new.
    pub async fn lock_path(&self, repo: RepoId, path: &str, owner: &str) -> Result<(LockRow, bool)> {
        parse_path(path)?;
        let row = LockRow {
            path: path.to_owned(),
            id: RepoId::random()?.to_string(),
            owner: owner.to_owned(),
            created_s: self.clock.now_s(),
        };
        let there = self.hub().add_lock(repo, &row).await?;
        let is_new = there.id == row.id;
        Ok((there, is_new))
    }
}

//! The trash: deleted repositories, whole, until they expire.
//!
//! A repository in the trash keeps its rows, its bundles and what it may read, under a name nobody can request: garbage
//! collection sees it like any other. Its own name is free at once.

use crate::error::{Error, ErrorKind, Result};
use crate::hub::rows::RepoRow;
use crate::hub::snapshot::collect;
use crate::hub::{Hub, repos};
use crate::ids::RepoId;
use crate::names::RepoName;
use crate::objects::key::ObjectKey;

impl Hub {
    /// Repositories in the trash, in the order in which they are reclaimed.
    pub async fn trash(&self) -> Result<Vec<RepoRow>> {
        repos::trash(&self.db).await
    }

    /// Puts a repository into the trash, where it stays for at least `keep_s` seconds. 0 deletes it at once.
    pub async fn trash_repo(&self, repo: &RepoRow, keep_s: u64) -> Result<()> {
        if keep_s == 0 {
            return self.delete_repo(repo).await;
        }
        let reclaim_s = self.clock.now_s().saturating_add(keep_s);
        self.change_repo(repo, &RepoRow { reclaim_s: Some(reclaim_s), ..repo.clone() }).await
    }

    /// A repository in the trash.
    pub async fn trashed_repo(&self, id: RepoId) -> Result<RepoRow> {
        let found = repos::trash(&self.db).await?.into_iter().find(|row| row.id == id);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no repository {id} in the trash")))
    }

    /// Takes a repository out of the trash, under its old name or another; returns the name as it is spelled. One that
    /// is taken is a conflict.
    pub async fn restore_repo(&self, repo: &RepoRow, to: &RepoName) -> Result<RepoName> {
        let to = self.spelled(to).await?;
        if to != repo.name {
            to.check_new()?;
        }
        self.change_repo(repo, &RepoRow { reclaim_s: None, name: to.clone(), ..repo.clone() }).await?;
        Ok(to)
    }

    /// Deletes for good what was in the trash long enough; returns which.
    pub async fn reclaim_trash(&self) -> Result<Vec<RepoRow>> {
        let now_s = self.clock.now_s();
        let mut due = repos::trash(&self.db).await?;
        due.retain(|row| row.reclaim_s.is_some_and(|reclaim_s| reclaim_s <= now_s));
        for row in &due {
            self.delete_repo(row).await?;
        }
        Ok(due)
    }

    /// Deletes a repository for good, be it in the trash or not. Its large files stay where other repositories refer to
    /// them; sweep finds the others.
    pub async fn delete_repo(&self, repo: &RepoRow) -> Result<()> {
        let snapshot = collect::collect_repo(&self.db, repo.id).await?;
        // Row first: an object that is left over harms nobody.
        let bundles = repos::delete_repo(&self.db, repo).await?;
        let bundles = bundles.into_iter().map(|commit| ObjectKey::Bundle { repo: repo.id, commit });
        self.objects.delete_all(bundles.collect()).await?;
        if let Some((version, _)) = snapshot {
            self.objects
                .delete(&ObjectKey::Repo { repo: repo.id, version: version.saturating_sub(1) })
                .await?;
        }
        self.content.forget_recipes();
        Ok(())
    }
}

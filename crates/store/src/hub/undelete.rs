//! Undelete: revisions that refs have left, and files that commits have deleted, come back.
//!
//! A revision that a branch, tag or pull request has left is kept until it expires, with all it needs; garbage collection counts it
//! like one a ref leads to. A file that a commit deleted is in the commit before, for as long as that exists.

use crate::error::{Error, ErrorKind, Result};
use crate::hub::commit::{Committed, Operation, Request};
use crate::hub::history::SEARCH_COMMITS_MAX;
use crate::hub::reflog::{self, ReflogEntry};
use crate::hub::rows::{RefChange, RepoRow};
use crate::hub::{Hub, git_objects, refs};
use crate::ids::{Oid, RepoId};

impl Hub {
    /// Revisions that refs have left and that can be restored, those that expire first first.
    pub async fn reflog(&self, repo: RepoId) -> Result<Vec<ReflogEntry>> {
        let now_s = self.clock.now_s();
        let mut rows = reflog::entries(&self.db, repo).await?;
        rows.retain(|row| row.reclaim_s > now_s);
        Ok(rows)
    }

    /// Makes a branch lead to a revision again: the ref that left it, or the branch that is named. Answers with the ref. What
    /// the ref leads to now can be had back in turn.
    pub async fn undelete_revision(&self, repo: &RepoRow, oid: Oid, branch: Option<&str>) -> Result<String> {
        let reflog = self.reflog(repo.id).await?;
        let found = reflog.iter().rev().find(|row| row.oid == oid);
        let missing = || {
            let message = format!("{} has left no revision {oid}: `--list` shows those there are", repo.name);
            Error::new(ErrorKind::NotFound, message)
        };
        let found = found.ok_or_else(missing)?;
        let name = match branch {
            Some(branch) if !refs::is_ref_name(branch) => {
                let branch: String = branch.chars().take(80).collect();
                return Err(Error::new(ErrorKind::Invalid, format!("not a name of a branch: {branch:?}")));
            }
            Some(branch) => format!("{}{branch}", refs::HEADS),
            None => found.name.clone(),
        };
        let from = self.ref_target(repo.id, &name).await?;
        let change = RefChange { name: name.clone(), from, to: Some(oid) };
        match self.move_refs(repo.id, &[change], self.clock.now_s()).await? {
            true => Ok(name),
            false => Err(Error::new(ErrorKind::Conflict, format!("{name} has moved: look again"))),
        }
    }

    /// Commits a file back from the last revision that had it: of the branch's own history, or of what refs have left.
    pub async fn undelete_file(
        &self,
        repo: &RepoRow,
        branch: &str,
        path: &str,
        author: &str,
    ) -> Result<(Committed, Oid)> {
        let ref_name = format!("{}{branch}", refs::HEADS);
        let head = self.ref_target(repo.id, &ref_name).await?;
        let head = head.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no branch {branch:?}")))?;
        if self.find_path(repo.id, head, path).await?.is_some() {
            return Err(Error::new(ErrorKind::Conflict, format!("{path:?} is there")));
        }
        let reflog = self.reflog(repo.id).await?;
        let lines = [head].into_iter().chain(reflog.iter().rev().map(|row| row.oid));
        for line in lines {
            let Some(oid) = self.last_with(repo.id, line, path).await? else { continue };
            let request = Request {
                ref_name,
                parent: None,
                author: author.to_owned(),
                message: format!("Undelete {path}"),
                operations: vec![Operation::Copy {
                    from: path.to_owned(),
                    revision: Some(oid),
                    to: path.to_owned(),
                }],
            };
            return Ok((self.commit(repo, &request).await?, oid));
        }
        let commits = SEARCH_COMMITS_MAX;
        let message =
            format!("no file {path:?} in the last {commits} commits of {branch} or what refs have left");
        Err(Error::new(ErrorKind::NotFound, message))
    }

    /// The last commit from here back that has a file at this path.
    async fn last_with(&self, repo: RepoId, from: Oid, path: &str) -> Result<Option<Oid>> {
        let mut skip = 0;
        while skip < SEARCH_COMMITS_MAX {
            let rows = git_objects::history(&self.db, repo, from, skip, STEP_COMMITS).await?;
            for row in &rows {
                if self.find_path(repo, row.oid, path).await?.is_some_and(|found| !found.is_folder()) {
                    return Ok(Some(row.oid));
                }
            }
            if (rows.len() as u64) < STEP_COMMITS {
                break;
            }
            skip += STEP_COMMITS;
        }
        Ok(None)
    }
}

/// Commits looked at in one step.
const STEP_COMMITS: u64 = 100;

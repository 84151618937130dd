//! History: the commits before one, and which of them last changed a path.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::hub::commit_object::Commit;
use crate::hub::rows::GitRow;
use crate::hub::{Hub, git_objects};
use crate::ids::{ObjectKind, Oid, RepoId};

/// A commit and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Names it.
    pub oid: Oid,
    /// What it says.
    pub commit: Commit,
}

impl Hub {
    /// Commits from `from` back, without the first `skip`, at most `limit`; and how many there are in all.
    pub async fn history(&self, repo: RepoId, from: Oid, skip: u64, limit: u64) -> Result<(Vec<Past>, u64)> {
        let total = self.git_object(repo, from, ObjectKind::Commit).await?.depth;
        let rows = git_objects::history(&self.db, repo, from, skip, limit).await?;
        let mut past = Vec::with_capacity(rows.len());
        for row in &rows {
            past.push(self.past(repo, row).await?);
        }
        Ok((past, total))
    }

    /// For each of these paths of a commit the last one that changed it. What did not change within the last
    /// `SEARCH_COMMITS_MAX` commits, or as many as have `SEARCH_ENTRIES_MAX` entries in the folders on the way, gets
    /// the oldest of those.
    pub async fn last_changes(
        &self,
        repo: RepoId,
        from: Oid,
        paths: &[String],
    ) -> Result<HashMap<String, Past>> {
        let mut found = HashMap::new();
        let mut open: Vec<&String> = paths.iter().collect();
        let mut skip = 0;
        // The commit at hand, and what was at each open path in it.
        let mut newer: Option<(Past, HashMap<&String, Option<Oid>>)> = None;
        let mut entries = 0;
        'search: while !open.is_empty() && skip < SEARCH_COMMITS_MAX {
            let rows = git_objects::history(&self.db, repo, from, skip, STEP_COMMITS).await?;
            let ended = (rows.len() as u64) < STEP_COMMITS;
            skip += STEP_COMMITS;
            for row in &rows {
                let past = self.past(repo, row).await?;
                let mut here = HashMap::new();
                if entries > SEARCH_ENTRIES_MAX {
                    break 'search;
                }
                // Each folder counts once for a commit.
                let mut seen = HashSet::new();
                for path in &open {
                    let entry = self.entry_at(repo, past.commit.tree, path, &mut seen, &mut entries).await?;
                    here.insert(*path, entry);
                }
                if let Some((changed, before)) = newer.take() {
                    open.retain(|path| {
                        let same = before.get(path) == here.get(path);
                        if !same {
                            found.insert((*path).clone(), changed.clone());
                        }
                        same
                    });
                }
                newer = Some((past, here));
                if open.is_empty() {
                    return Ok(found);
                }
            }
            if ended {
                break;
            }
        }
        if let Some((oldest, _)) = newer {
            found.extend(open.into_iter().map(|path| (path.clone(), oldest.clone())));
        }
        Ok(found)
    }

    async fn entry_at(
        &self,
        repo: RepoId,
        tree: Oid,
        path: &str,
        seen: &mut HashSet<Oid>,
        entries: &mut usize,
    ) -> Result<Option<Oid>> {
        let mut at = tree;
        for part in path.split('/') {
            let tree = self.tree_object(repo, at).await?;
            if seen.insert(at) {
                *entries = entries.saturating_add(tree.entries().len());
            }
            match tree.entry(part) {
                Some(entry) => at = entry.oid,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    async fn past(&self, repo: RepoId, row: &GitRow) -> Result<Past> {
        Ok(Past { oid: row.oid, commit: Commit::parse(&self.git_body(repo, row).await?)? })
    }
}

/// How far back is looked for the last change of a path.
pub(crate) const SEARCH_COMMITS_MAX: u64 = 2000;

/// Entries of the folders that are looked through for it: more folders than fit into memory are read anew each time.
pub(crate) const SEARCH_ENTRIES_MAX: usize = 2_000_000;

/// Commits looked at in one step.
const STEP_COMMITS: u64 = 100;

//! Merging a pull request: what it changed since it left `main`, put on top of what `main` is now.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::future::BoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::hub::bundle::Bundle;
use crate::hub::commit::{Committed, deleted_by_gc};
use crate::hub::commit_object::{Commit, Signature};
use crate::hub::pulls::{PullRow, PullState};
use crate::hub::refs::{self, pull_ref};
use crate::hub::rows::{RefChange, RepoRow};
use crate::hub::tree::{Entry, Mode, Tree};
use crate::hub::{Hub, git_objects};
use crate::ids::{ObjectKind, Oid, RepoId};

impl Hub {
    /// Merges a pull request into `main`. Files that both changed are a conflict, and nothing is merged.
    pub async fn merge_pull(&self, repo: &RepoRow, pull: &PullRow, author: &str) -> Result<Committed> {
        match pull.state {
            PullState::Open => {}
            PullState::Merged(oid) => return Ok(Committed { oid, was_made: false }),
            PullState::Closed => {
                let message = format!("pull request {} is closed: open it again, then merge", pull.number);
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        let missing = |name: &str| Error::new(ErrorKind::NotFound, format!("no {name} in {}", repo.name));
        let theirs = self.ref_target(repo.id, &pull_ref(pull.number)).await?;
        let theirs = theirs.ok_or_else(|| missing(&pull_ref(pull.number)))?;
        for _ in 0..MERGE_TRIES {
            let ours = self.ref_target(repo.id, refs::MAIN).await?.ok_or_else(|| missing(refs::MAIN))?;
            let base = self.merge_base(repo.id, ours, theirs).await?;
            let made = match base == theirs {
                // Everything it has is on main.
                true => Some((ours, false)),
                false => {
                    let oid = self.merge_commits(repo, pull, author, [base, ours, theirs]).await?;
                    let change = RefChange { name: refs::MAIN.to_owned(), from: Some(ours), to: Some(oid) };
                    let moved = self.move_refs(repo.id, &[change], self.clock.now_s()).await?;
                    moved.then_some((oid, true))
                }
            };
            if let Some((oid, was_made)) = made {
                self.set_pull(repo.id, pull.number, PullState::Merged(oid)).await?;
                return Ok(Committed { oid, was_made });
            }
        }
        Err(Error::new(ErrorKind::Conflict, "main moves too fast: look again, then merge"))
    }

    /// The last commit that both have, along first parents.
    async fn merge_base(&self, repo: RepoId, ours: Oid, theirs: Oid) -> Result<Oid> {
        let mut seen = HashSet::new();
        for (from, is_looking) in [(theirs, false), (ours, true)] {
            let mut skip = 0;
            while skip < BASE_COMMITS_MAX {
                let rows = git_objects::history(&self.db, repo, from, skip, STEP_COMMITS).await?;
                for row in &rows {
                    if is_looking && seen.contains(&row.oid) {
                        return Ok(row.oid);
                    }
                    // The other one may be merged whole, by its second parent.
                    let merged =
                        is_looking.then(|| row.body.as_deref().and_then(|body| Commit::parse(body).ok()));
                    let merged = merged.flatten().map(|commit| commit.parents).unwrap_or_default();
                    if let Some(parent) = merged.into_iter().skip(1).find(|parent| *parent == theirs) {
                        return Ok(parent);
                    }
                    if !is_looking {
                        seen.insert(row.oid);
                    }
                }
                if (rows.len() as u64) < STEP_COMMITS {
                    break;
                }
                skip += STEP_COMMITS;
            }
        }
        let message =
            "the pull request and main have no commit in common: commit its changes to main instead";
        Err(Error::new(ErrorKind::Conflict, message))
    }

    async fn merge_commits(
        &self,
        repo: &RepoRow,
        pull: &PullRow,
        author: &str,
        [base, ours, theirs]: [Oid; 3],
    ) -> Result<Oid> {
        let mut trees = [None; 3];
        for (tree, commit) in trees.iter_mut().zip([base, ours, theirs]) {
            *tree = Some(self.commit_object(repo.id, commit).await?.tree);
        }
        let mut merge = Merge { bundle: Bundle::new(&repo.name, refs::MAIN), conflicts: Vec::new() };
        let tree = self.merge_folders(repo.id, trees, String::new(), &mut merge).await?;
        if !merge.conflicts.is_empty() {
            let some: Vec<_> = merge.conflicts.iter().take(10).map(String::as_str).collect();
            let message = format!(
                "changed here and there since: {}; change them in the pull request first",
                some.join(", ")
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let tree = tree.unwrap_or_else(|| merge.bundle.push(ObjectKind::Tree, bytes::Bytes::new(), None));
        let message = format!("{} (#{})", pull.title, pull.number);
        let author = Signature::new(author, self.clock.now_s());
        let commit = Commit { tree, parents: vec![ours, theirs], author, message };
        let depth = self.git_object(repo.id, ours, ObjectKind::Commit).await?.depth + 1;
        let (oid, rows) = self.seal_bundle(repo.id, merge.bundle, &commit, depth).await?;
        if !git_objects::add_git_objects(&self.db, repo.id, &rows, self.clock.now_s()).await? {
            return Err(deleted_by_gc(repo));
        }
        Ok(oid)
    }

    /// The folder that has the changes of both; `None` when nothing is left in it.
    fn merge_folders<'a>(
        &'a self,
        repo: RepoId,
        oids: [Option<Oid>; 3],
        path: String,
        merge: &'a mut Merge,
    ) -> BoxFuture<'a, Result<Option<Oid>>> {
        Box::pin(async move {
            let mut trees: [Tree; 3] = Default::default();
            for (tree, oid) in trees.iter_mut().zip(oids) {
                if let Some(oid) = oid {
                    *tree = self.tree_object(repo, oid).await?.as_ref().clone();
                }
            }
            let [base, ours, theirs] = &trees;
            let names: BTreeSet<_> = trees.iter().flat_map(Tree::entries).map(|entry| &entry.name).collect();
            let mut changes = HashMap::new();
            for name in names {
                let [b, o, t] = [base, ours, theirs].map(|tree| tree.entry(name));
                let merged = match () {
                    () if t == b || t == o => continue,
                    () if o == b => t.map(|entry| (entry.mode, entry.oid)),
                    () if is_folder(o) && is_folder(t) => {
                        let inner =
                            [b.filter(|_| is_folder(b)), o, t].map(|entry| entry.map(|entry| entry.oid));
                        let merged = self.merge_folders(repo, inner, format!("{path}{name}/"), merge).await?;
                        merged.map(|oid| (Mode::Folder, oid))
                    }
                    () => {
                        merge.conflicts.push(format!("{path}{name}"));
                        continue;
                    }
                };
                changes.insert(name.clone(), merged);
            }
            let mut after = ours.clone();
            after.change(&changes);
            match after.entries().is_empty() {
                true => Ok(None),
                false if after == *ours && oids[1].is_some() => Ok(oids[1]),
                false => Ok(Some(merge.bundle.push(ObjectKind::Tree, after.encode().into(), None))),
            }
        })
    }
}

/// What a merge adds, and what stands in its way.
struct Merge {
    bundle: Bundle,
    conflicts: Vec<String>,
}

fn is_folder(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| entry.mode.is_folder())
}

const MERGE_TRIES: u32 = 16;

/// How far back is looked for where a pull request began.
const BASE_COMMITS_MAX: u64 = 10_000;

const STEP_COMMITS: u64 = 500;

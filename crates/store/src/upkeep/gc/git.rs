//! Git objects that no ref leads to.
//!
//! While a repository is looked through, commits go on: what a new commit needs is younger than what is dropped, or its
//! branch led to it before. Only a ref that comes back to an old commit could lead to what was just found: that raises the
//! repository's generation, and nothing is dropped in another generation than it was found in. Memory is about 40 bytes
//! for each git object of the one repository at hand.

use std::collections::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::hub::commit_object::Commit;
use crate::hub::tree::Tree;
use crate::hub::{git_objects, reflog, refs};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::upkeep::Upkeep;
use crate::upkeep::gc::rows::GcObject;
use crate::upkeep::gc::turn::Turn;
use crate::upkeep::gc::{Times, unused_git};
use crate::upkeep::inventory::GcRepo;

/// What was found in a repository.
pub(super) struct Loose {
    /// Unreachable and old: commits first, since what is left of one must be whole.
    pub(super) objects: Vec<GcObject>,
    /// Whether something is unreachable and too young to go.
    pub(super) has_young: bool,
}

impl Upkeep {
    /// Drops what no ref of the repository leads to; returns how much.
    pub(super) async fn collect_git(&self, repo: &GcRepo, times: Times, turn: &mut Turn<'_>) -> Result<u64> {
        let mut dropped = 0;
        reflog::delete_expired(&self.db, repo.row.id, self.clock.now_s()).await?;
        for _ in 0..GIT_TRIES {
            let Some(generation) = unused_git::begin_repo(&self.db, repo.row.id).await? else {
                return Ok(dropped);
            };
            let loose = self.loose_git(repo, times, turn).await?;
            let mut is_still = true;
            for objects in loose.objects.chunks(usize::try_from(turn.rows()).unwrap_or(usize::MAX)) {
                let oids: Vec<_> = objects.iter().map(|object| object.oid).collect();
                is_still =
                    unused_git::drop_git(&self.db, repo.row.id, generation, &oids, times.left_s).await?;
                if !is_still {
                    break;
                }
                dropped += oids.len() as u64;
                turn.pace(oids.len()).await?;
            }
            if is_still {
                if !loose.has_young {
                    unused_git::mark_collected(&self.db, repo.row.id, generation).await?;
                }
                return Ok(dropped);
            }
        }
        Ok(dropped)
    }

    /// What no ref leads to.
    pub(super) async fn loose_git(&self, repo: &GcRepo, times: Times, turn: &mut Turn<'_>) -> Result<Loose> {
        let id = repo.row.id;
        let refs = refs::refs(&self.db, id, "").await?;
        // After the refs: one that is deleted in between is in either.
        let reflog = self.hub.reflog(id).await?;
        let mut marked = HashSet::new();
        let roots = refs.iter().map(|given| given.target).chain(reflog.iter().map(|entry| entry.oid));
        self.mark(id, roots.collect(), &mut marked).await?;
        let (mut objects, mut young) = (Vec::new(), Vec::new());
        let mut has_young = !reflog.is_empty();
        let mut after = Vec::new();
        loop {
            let page = unused_git::git_page(&self.db, id, &after, PAGE_OBJECTS).await?;
            let Some(last) = page.last() else { break };
            after = last.oid.as_bytes().to_vec();
            turn.pace(page.len()).await?;
            for object in page.into_iter().filter(|object| !marked.contains(&object.oid)) {
                match object.touched_s < times.left_s {
                    true => objects.push(object),
                    false => {
                        has_young = true;
                        young.extend((object.kind == ObjectKind::Commit).then_some(object.oid));
                    }
                }
            }
        }
        // A commit on its way to a ref keeps all it needs.
        if !young.is_empty() {
            self.mark(id, young, &mut marked).await?;
            objects.retain(|object| !marked.contains(&object.oid));
        }
        objects.sort_by_key(|object| object.kind != ObjectKind::Commit);
        Ok(Loose { objects, has_young })
    }

    /// Marks these commits and all they lead to.
    async fn mark(&self, repo: RepoId, roots: Vec<Oid>, marked: &mut HashSet<Oid>) -> Result<()> {
        let mut open: Vec<Oid> = roots.into_iter().filter(|oid| marked.insert(*oid)).collect();
        while !open.is_empty() {
            let batch = open.split_off(open.len().saturating_sub(MARK_OBJECTS));
            let rows = git_objects::git_objects(&self.db, repo, &batch).await?;
            if rows.len() < batch.len() {
                let missing = batch.iter().find(|oid| rows.iter().all(|row| row.oid != **oid));
                let oid = missing.map_or_else(String::new, ToString::to_string);
                return Err(Error::new(ErrorKind::Corrupt, format!("git object {oid} is missing")));
            }
            for row in rows {
                match row.kind {
                    ObjectKind::Commit => {
                        let commit = Commit::parse(&self.hub.git_body(repo, &row).await?)?;
                        let next = commit.parents.into_iter().chain([commit.tree]);
                        open.extend(next.filter(|oid| marked.insert(*oid)));
                    }
                    ObjectKind::Tree => {
                        let tree = Tree::parse(&self.hub.git_body(repo, &row).await?)?;
                        for entry in tree.entries() {
                            if marked.insert(entry.oid) && entry.mode.is_folder() {
                                open.push(entry.oid);
                            }
                        }
                    }
                    ObjectKind::Blob => {}
                }
            }
        }
        Ok(())
    }
}

const GIT_TRIES: u32 = 3;

const PAGE_OBJECTS: u64 = 10_000;

const MARK_OBJECTS: usize = 256;

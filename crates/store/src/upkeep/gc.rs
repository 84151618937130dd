//! Garbage collection: deletes what nothing refers to, while uploads and reads go on.
//!
//! What is needed is what refs lead to: commits, their trees, the pointers in them, the files those stand for, the xorbs
//! those are made of, the shards that say so. Each step removes rows that the step before left without a use, and checks
//! again in the transaction that removes them. An object goes last, a time of grace after its row was condemned, and its
//! key is not used again for as long. Decision: `docs/adr/0008-sweep-beside-writers.md`.

pub(crate) mod clock;
pub(crate) mod condemned;
pub(crate) mod drafts;
pub(crate) mod estimate;
pub(crate) mod git;
pub(crate) mod limits;
pub(crate) mod rows;
pub(crate) mod turn;
pub(crate) mod unused_files;
pub(crate) mod unused_git;

use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::TryStreamExt as _;

use crate::audit::{self, AuditEvent};
use crate::content::quotas::usage;
use crate::content::{multipart_upload, uploads};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::RepoId;
use crate::objects::key::ObjectKey;
use crate::objects::{Folder, ListedObject};
use crate::upkeep::Upkeep;
use crate::upkeep::gc::limits::Deletion;
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::gc::turn::Turn;
use crate::upkeep::inventory::{self, GcRepo};

/// How to sweep.
#[derive(Debug, Clone)]
pub struct GcOptions {
    /// Seconds that what is unused is kept. Longer than clients remember where their chunks are.
    pub grace_s: u64,
    /// Nobody else works on the store: no grace is needed, and none is kept if it is 0.
    pub offline: bool,
    /// Rows and objects to look at in a second; `None` for as many as possible.
    pub rate_per_s: Option<u64>,
    /// Delete also what is a large part of the store.
    pub allow_large_deletion: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { grace_s: GRACE_S, offline: false, rate_per_s: None, allow_large_deletion: false }
    }
}

/// Clients keep shards they sent for three weeks, and refer to what is in them.
pub const GRACE_S: u64 = 22 * 86_400;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Git objects that no ref led to.
    pub git_objects: u64,
    /// Files that repositories had a right to and no use for.
    pub repo_files: u64,
    /// Files that no repository could read.
    pub files: u64,
    /// Xorbs and shards that were found unused: they go when the grace is over.
    pub condemned: u64,
    /// Objects that were deleted.
    pub deleted: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Which of them no row knew: what a killed server or a lost race leaves.
    pub orphans: u64,
    /// Drafts that killed servers left, by name.
    pub drafts: Vec<String>,
    /// Repositories that could not be looked through, and why: nothing of theirs was dropped.
    pub skipped: Vec<String>,
}

/// How far a sweep is. Anyone may look.
#[derive(Debug, Default)]
pub struct GcProgress {
    stage: AtomicU64,
    seen: AtomicU64,
}

impl GcProgress {
    /// What it does, and how many rows and objects it has looked at.
    pub fn now(&self) -> (&'static str, u64) {
        let stage = usize::try_from(self.stage.load(Ordering::Relaxed)).unwrap_or(0);
        let name = Stage::ALL.get(stage).map_or("done", |stage| stage.name());
        (name, self.seen.load(Ordering::Relaxed))
    }
}

/// The steps, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// First what needs no room: a disk may be full.
    Drafts,
    Leftovers,
    Relate,
    Repos,
    Files,
    Condemn,
    Doom,
    Orphans,
    Delete,
    Forget,
}

impl Stage {
    const ALL: [Self; 10] = [
        Self::Drafts,
        Self::Leftovers,
        Self::Relate,
        Self::Repos,
        Self::Files,
        Self::Condemn,
        Self::Doom,
        Self::Orphans,
        Self::Delete,
        Self::Forget,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Drafts => "drafts",
            Self::Leftovers => "leftovers",
            Self::Relate => "relate",
            Self::Repos => "repos",
            Self::Files => "files",
            Self::Condemn => "condemn",
            Self::Doom => "doom",
            Self::Orphans => "orphans",
            Self::Delete => "delete",
            Self::Forget => "forget",
        }
    }
}

/// What counts as old, Unix seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    now_s: u64,
    /// Before this nothing protects what is unused.
    old_s: u64,
    /// What was last seen before this may be condemned: that takes nothing from anybody.
    stable_s: u64,
    /// Before this nothing protects a commit that no ref leads to.
    left_s: u64,
    /// Before this nothing protects parts that were not joined, and xorbs that were never registered.
    parts_s: u64,
}

impl Upkeep {
    /// Sweeps once. Another sweep that is under way is a conflict; one that broke off is taken up where it was. One that would
    /// delete a large part of the store is denied and changes nothing, unless the options allow it.
    pub async fn collect_garbage(&self, options: &GcOptions, progress: &GcProgress) -> Result<GcReport> {
        let times = self.gc_times(options)?;
        let mut turn = Turn::begin(self, options, progress).await?;
        let mut report = GcReport::default();
        if let Some(message) = self.clock_refusal(options).await? {
            return Err(turn.refuse(message).await);
        }
        let deletion = match options.allow_large_deletion {
            true => None,
            false => Some(self.count_deletion(options, times, &mut turn).await?),
        };
        if let Some(message) = deletion.as_ref().and_then(Deletion::refusal) {
            return Err(turn.refuse(message).await);
        }
        for (number, stage) in (0..).zip(Stage::ALL) {
            progress.stage.store(number, Ordering::Relaxed);
            if let (Stage::Doom, Some(deletion)) = (stage, &deletion) {
                // What this run found unused counts too.
                let deletion = self.count_again(deletion, times, &report, &mut turn).await?;
                if let Some(message) = deletion.refusal() {
                    return Err(turn.refuse(message).await);
                }
            }
            if !turn.enter(stage).await? {
                continue;
            }
            match stage {
                Stage::Drafts => report.drafts = self.collect_drafts(options).await?,
                Stage::Leftovers | Stage::Delete => self.delete_objects(&mut turn, &mut report).await?,
                Stage::Relate => self.relate(&mut turn).await?,
                Stage::Repos => self.collect_repos(times, &mut turn, &mut report).await?,
                Stage::Files => self.collect_files(&mut turn, &mut report).await?,
                Stage::Condemn => self.condemn(times, &mut turn, &mut report).await?,
                Stage::Doom => self.mark_deletable(times, &mut turn).await?,
                Stage::Orphans => self.collect_orphans(times, &mut turn, &mut report).await?,
                Stage::Forget => {
                    for of in StoredKind::ALL {
                        condemned::forget_buried(&self.db, of, times.old_s).await?;
                    }
                    self.finish_accounts(options, &report).await?;
                    self.record_sweep().await?;
                }
            }
        }
        turn.end().await?;
        Ok(report)
    }

    /// Folds usage into one row per repository, expires audit events and logs the result of this run.
    async fn finish_accounts(&self, options: &GcOptions, report: &GcReport) -> Result<()> {
        match options.offline {
            true => usage::recount_usage(&self.db).await?,
            false => usage::fold_usage(&self.db).await?,
        }
        if self.audit_s > 0 {
            audit::delete_events(&self.db, self.clock.now_s().saturating_sub(self.audit_s)).await?;
        }
        let GcReport { git_objects, files, condemned, deleted, deleted_bytes, .. } = report;
        if git_objects + files + condemned + deleted == 0 {
            return Ok(());
        }
        let detail = format!(
            "dropped {git_objects} git objects and {files} files, condemned {condemned} xorbs and shards, \
             deleted {deleted} objects of {deleted_bytes} bytes"
        );
        audit::log_event(&self.db, &AuditEvent::new("sweep", "store", detail)).await
    }

    fn gc_times(&self, options: &GcOptions) -> Result<Times> {
        let now_s = self.clock.now_s();
        let least_s = self.content.dedup_answer_s();
        if options.offline && options.grace_s == 0 {
            return Ok(Times {
                now_s,
                old_s: FOREVER_S,
                stable_s: FOREVER_S,
                left_s: FOREVER_S,
                parts_s: FOREVER_S,
            });
        }
        if !options.offline && options.grace_s < least_s {
            let message = format!(
                "a grace of {} s is too short beside servers: what a dedup answer names must live for {least_s} s",
                options.grace_s
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let stable_s = now_s.saturating_sub(options.grace_s.min(STABLE_S));
        let left_s = now_s.saturating_sub(options.grace_s.min(LEFT_S));
        let parts_s = now_s.saturating_sub(options.grace_s.min(PARTS_S));
        Ok(Times { now_s, old_s: now_s.saturating_sub(options.grace_s), stable_s, left_s, parts_s })
    }

    /// Records what files of an older version are made of. Until that is known nothing can be condemned.
    async fn relate(&self, turn: &mut Turn<'_>) -> Result<()> {
        loop {
            let rows = unused_files::unrelated_files(&self.db, PAGE_FILES).await?;
            if rows.is_empty() {
                return Ok(());
            }
            unused_files::relate_files(&self.db, &rows).await?;
            turn.step(rows.len(), &[]).await?;
        }
    }

    /// Git objects, and the files that no repository's history leads to.
    async fn collect_repos(&self, times: Times, turn: &mut Turn<'_>, report: &mut GcReport) -> Result<()> {
        self.hub.reclaim_trash().await?;
        loop {
            let repos = inventory::all_repos(&self.db, turn.after(), PAGE_REPOS).await?;
            let Some(last) = repos.last().map(|repo| repo.row.id) else { return Ok(()) };
            for repo in repos {
                if !repo.is_swept {
                    match self.collect_git(&repo, times, turn).await {
                        Ok(dropped) => report.git_objects += dropped,
                        // A damaged repository keeps all it has; the others are none the worse.
                        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                            report.skipped.push(format!("{}: {error}", repo.row.name));
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                }
                report.repo_files += self.collect_repo_files(&repo, times, turn).await?;
            }
            turn.step(0, last.as_bytes()).await?;
        }
    }

    async fn collect_repo_files(&self, repo: &GcRepo, times: Times, turn: &mut Turn<'_>) -> Result<u64> {
        let mut dropped = 0;
        let mut after = Vec::new();
        loop {
            let files =
                unused_files::idle_repo_files(&self.db, repo, times.old_s, &after, turn.rows()).await?;
            let Some(last) = files.last() else { break };
            after = last.as_bytes().to_vec();
            dropped += unused_files::drop_repo_files(&self.db, repo, &files, times.old_s).await?;
            turn.pace(files.len()).await?;
        }
        let scope = repo.scope()?;
        if dropped == 0 {
            return Ok(0);
        }
        loop {
            match unused_files::drop_digests(&self.db, &scope, turn.rows()).await? {
                0 => break,
                digests => turn.pace(usize::try_from(digests).unwrap_or(usize::MAX)).await?,
            }
        }
        Ok(dropped)
    }

    async fn collect_files(&self, turn: &mut Turn<'_>, report: &mut GcReport) -> Result<()> {
        loop {
            let files = unused_files::unread_files(&self.db, turn.after(), turn.rows()).await?;
            let Some(last) = files.last() else { return Ok(()) };
            report.files += unused_files::drop_files(&self.db, &files).await?;
            turn.step(files.len(), last.as_bytes()).await?;
        }
    }

    async fn condemn(&self, times: Times, turn: &mut Turn<'_>, report: &mut GcReport) -> Result<()> {
        for of in StoredKind::ALL {
            let mut after = Vec::new();
            loop {
                let hashes = condemned::unused(&self.db, of, times.stable_s, &after, turn.rows()).await?;
                let Some(last) = hashes.last() else { break };
                after = last.to_vec();
                report.condemned +=
                    condemned::condemn(&self.db, of, &hashes, times.stable_s, times.now_s).await?;
                turn.pace(hashes.len()).await?;
            }
        }
        Ok(())
    }

    async fn mark_deletable(&self, times: Times, turn: &mut Turn<'_>) -> Result<()> {
        for of in StoredKind::ALL {
            let mut after = Vec::new();
            loop {
                let hashes = condemned::ripe(&self.db, of, times.old_s, &after, turn.rows()).await?;
                let Some(last) = hashes.last() else { break };
                after = last.to_vec();
                condemned::mark_deletable(&self.db, of, &hashes, times.old_s, times.now_s).await?;
                turn.pace(hashes.len()).await?;
            }
        }
        let mut after = Vec::new();
        loop {
            let xorbs = condemned::abandoned(&self.db, times.parts_s, &after, turn.rows()).await?;
            let Some(last) = xorbs.last() else { return Ok(()) };
            after = last.to_vec();
            condemned::doom_abandoned(&self.db, &xorbs, times.parts_s, times.now_s).await?;
            turn.pace(xorbs.len()).await?;
        }
    }

    /// Deletes the objects of what was given up, also by a sweep that broke off.
    async fn delete_objects(&self, turn: &mut Turn<'_>, report: &mut GcReport) -> Result<()> {
        for of in StoredKind::ALL {
            let mut after = Vec::new();
            loop {
                let deletable = condemned::deletable(&self.db, of, &after, PAGE_OBJECTS).await?;
                let Some(last) = deletable.last() else { break };
                after = last.hash.to_vec();
                self.objects.delete_all(deletable.iter().map(|object| object.key).collect()).await?;
                let hashes: Vec<_> = deletable.iter().map(|object| object.hash).collect();
                condemned::bury(&self.db, of, &hashes, self.clock.now_s()).await?;
                report.deleted += deletable.len() as u64;
                report.deleted_bytes += deletable.iter().map(|object| object.bytes).sum::<u64>();
                turn.pace(deletable.len()).await?;
            }
        }
        Ok(())
    }

    /// Objects that no row knows: of uploads that were broken off or came second.
    async fn collect_orphans(&self, times: Times, turn: &mut Turn<'_>, report: &mut GcReport) -> Result<()> {
        for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Parts] {
            let mut pages = self.objects.list(folder).try_chunks(PAGE_LISTED);
            while let Some(page) = pages.try_next().await.map_err(|broken| broken.1)? {
                let seen = page.len();
                let old_s = if folder == Folder::Parts { times.parts_s } else { times.old_s };
                let old = page.into_iter().filter(|listed| listed.modified_s < old_s);
                let old: Vec<ListedObject> = old.filter(|listed| listed.key.is_some()).collect();
                let loose = match folder {
                    Folder::Commits => self.unused_bundles(&old).await?,
                    // Parts of a file that was given up: no row refers to them, and a client that retries sends them again.
                    Folder::Parts => old.iter().filter_map(|listed| listed.key).collect(),
                    // Each removes the one before it.
                    Folder::Repos | Folder::People => Vec::new(),
                    Folder::Xorbs | Folder::Shards => {
                        let found: Vec<_> =
                            old.iter().filter_map(|listed| Some((listed.key?, listed.bytes))).collect();
                        condemned::claim(&self.db, &found, times.now_s).await?
                    }
                };
                self.objects.delete_all(loose.clone()).await?;
                let bytes = old.iter().filter(|listed| listed.key.is_some_and(|key| loose.contains(&key)));
                report.deleted_bytes += bytes.map(|listed| listed.bytes).sum::<u64>();
                report.deleted += loose.len() as u64;
                report.orphans += loose.len() as u64;
                turn.pace(seen).await?;
            }
        }
        // Objects first: what is not counted any more is not there.
        multipart_upload::drop_old_parts(&self.db, times.parts_s.saturating_sub(STABLE_S)).await?;
        uploads::drop_uploads(&self.db, times.old_s).await?;
        Ok(())
    }

    async fn unused_bundles(&self, listed: &[ListedObject]) -> Result<Vec<ObjectKey>> {
        let mut by_repo: std::collections::HashMap<RepoId, Vec<_>> = std::collections::HashMap::new();
        for listed in listed {
            if let Some(ObjectKey::Bundle { repo, commit }) = listed.key {
                by_repo.entry(repo).or_default().push(commit);
            }
        }
        let mut unused = Vec::new();
        for (repo, commits) in by_repo {
            let used = unused_git::used_bundles(&self.db, repo, &commits).await?;
            let loose = commits.into_iter().filter(|commit| !used.contains(commit));
            unused.extend(loose.map(|commit| ObjectKey::Bundle { repo, commit }));
        }
        Ok(unused)
    }
}

/// A time that never comes, as databases can hold it.
pub(crate) const FOREVER_S: u64 = i64::MAX as u64;

/// A new reference undoes condemning; waiting a little spares most of that.
pub(crate) const STABLE_S: u64 = 3600;

/// Commits are made, and commits that no ref leads to any more are read, in less time than this.
const LEFT_S: u64 = 86_400;

/// Parts are joined within the life of the URLs they are sent to, and a day; xorbs are registered by the upload that sends
/// them, which goes on or is over a day after its token.
const PARTS_S: u64 = 2 * 86_400;

pub(crate) const PAGE_ROWS: u64 = 1000;

/// Their recipes may be long.
const PAGE_FILES: u64 = 200;

pub(crate) const PAGE_REPOS: u64 = 50;

const PAGE_OBJECTS: u64 = 256;

pub(crate) const PAGE_LISTED: usize = 500;

//! What a sweep would free, without changing anything. Memory grows with what is to go, not with what stays.

use std::collections::{HashMap, HashSet};

use futures::stream::TryStreamExt as _;
use xet::{FileHash, ShardHash, XorbHash};

use crate::content::files::{self, Use};
use crate::content::{shards, xorbs};
use crate::error::{ErrorKind, Result};
use crate::objects::Folder;
use crate::objects::key::ObjectKey;
use crate::upkeep::Upkeep;
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::gc::turn::Turn;
use crate::upkeep::gc::{
    FOREVER_S, GcOptions, GcProgress, PAGE_LISTED, PAGE_REPOS, PAGE_ROWS, Times, condemned, unused_files,
    unused_git,
};
use crate::upkeep::inventory::{self, GcRepo};

/// What a sweep would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Git objects that no ref leads to.
    pub git_objects: u64,
    /// Files that would no longer be known.
    pub files: u64,
    /// Xorbs that nothing would be made of.
    pub xorbs: u64,
    /// Bytes of their objects: free when their grace is over.
    pub xorb_bytes: u64,
    /// Which of those a sweep would free at once: their grace is over.
    pub ripe_bytes: u64,
    /// Objects that no row knows, and old enough to go at once.
    pub orphans: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// Repositories that could not be looked through, and why.
    pub skipped: Vec<String>,
}

impl Upkeep {
    /// Examines what a sweep would examine, and changes nothing.
    pub async fn estimate_gc(&self, options: &GcOptions, progress: &GcProgress) -> Result<Estimate> {
        let times = self.gc_times(options)?;
        let mut turn = Turn::watching(self, options, progress);
        let mut estimate = Estimate::default();
        let mut going: HashMap<[u8; 32], u64> = HashMap::new();
        let mut after = Vec::new();
        loop {
            let repos = inventory::all_repos(&self.db, &after, PAGE_REPOS).await?;
            let Some(last) = repos.last() else { break };
            after = last.row.id.as_bytes().to_vec();
            for repo in &repos {
                match self.going_files(repo, times, &mut turn, &mut estimate).await {
                    Ok(files) => files.into_iter().for_each(|file| *going.entry(file).or_default() += 1),
                    Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                        estimate.skipped.push(format!("{}: {error}", repo.row.name));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let mut files = self.all_used_up(Use::Files, &going).await?;
        let mut after = Vec::new();
        loop {
            let unread = unused_files::unread_files(&self.db, &after, PAGE_ROWS).await?;
            let Some(last) = unread.last() else { break };
            after = last.as_bytes().to_vec();
            files.extend(unread.iter().map(|file| *file.as_bytes()));
            turn.pace(unread.len()).await?;
        }
        estimate.files = files.len() as u64;

        let mut going: HashMap<[u8; 32], u64> = HashMap::new();
        for files in files.chunks(PAGE_LISTED) {
            let hashes: Vec<_> = files.iter().copied().map(FileHash::new).collect();
            for row in files::recipes(&self.db, &hashes).await? {
                row.recipe.xorbs.iter().for_each(|xorb| {
                    *going.entry(*xorb.key.hash.as_bytes()).or_default() += 1;
                });
            }
        }
        let xorbs: Vec<_> = self.all_used_up(Use::Xorbs, &going).await?.into_iter().collect();
        estimate.xorbs = xorbs.len() as u64;
        estimate.xorb_bytes = self.xorb_object_bytes(&xorbs).await?;
        self.estimate_unused(times, &mut turn, &mut estimate).await?;
        self.estimate_orphans(times, &mut turn, &mut estimate).await?;
        if times.old_s == FOREVER_S {
            // Nothing is waited for.
            estimate.ripe_bytes = estimate.xorb_bytes;
        }
        Ok(estimate)
    }

    /// Files that a repository would lose the use of.
    async fn going_files(
        &self,
        repo: &GcRepo,
        times: Times,
        turn: &mut Turn<'_>,
        estimate: &mut Estimate,
    ) -> Result<HashSet<[u8; 32]>> {
        let mut going = HashSet::new();
        if !repo.is_swept {
            let loose = self.loose_git(repo, times, turn).await?;
            estimate.git_objects += loose.objects.len() as u64;
            going.extend(loose.objects.iter().filter_map(|object| Some(*object.file?.as_bytes())));
            let gone: HashSet<_> = loose.objects.iter().map(|object| object.oid).collect();
            let mut after = Vec::new();
            while !going.is_empty() {
                let page = unused_git::git_page(&self.db, repo.row.id, &after, PAGE_ROWS).await?;
                let Some(last) = page.last() else { break };
                after = last.oid.as_bytes().to_vec();
                for object in page.iter().filter(|object| !gone.contains(&object.oid)) {
                    object.file.map(|file| going.remove(file.as_bytes()));
                }
            }
        }
        let mut after = Vec::new();
        loop {
            let idle = unused_files::idle_repo_files(&self.db, repo, times.old_s, &after, PAGE_ROWS).await?;
            let Some(last) = idle.last() else { return Ok(going) };
            after = last.as_bytes().to_vec();
            going.extend(idle.iter().map(|file| *file.as_bytes()));
            turn.pace(idle.len()).await?;
        }
    }

    /// Those of which every use would go.
    async fn all_used_up(&self, of: Use, going: &HashMap<[u8; 32], u64>) -> Result<Vec<[u8; 32]>> {
        let hashes: Vec<_> = going.keys().copied().collect();
        let mut used_up = Vec::new();
        for hashes in hashes.chunks(PAGE_LISTED) {
            let uses = files::uses(&self.db, of, hashes).await?;
            used_up.extend(uses.into_iter().filter(|(hash, uses)| going.get(hash) == Some(uses)));
        }
        Ok(used_up.into_iter().map(|(hash, _)| hash).collect())
    }

    async fn xorb_object_bytes(&self, hashes: &[[u8; 32]]) -> Result<u64> {
        let mut bytes = 0;
        for hashes in hashes.chunks(PAGE_LISTED) {
            let hashes: Vec<_> = hashes.iter().copied().map(XorbHash::new).collect();
            bytes += xorbs::xorbs(&self.db, &hashes).await?.iter().map(|row| row.object_bytes).sum::<u64>();
        }
        Ok(bytes)
    }

    /// What is unused already, condemned or given up.
    async fn estimate_unused(
        &self,
        times: Times,
        turn: &mut Turn<'_>,
        estimate: &mut Estimate,
    ) -> Result<()> {
        // Condemned ones that are not ripe are those ripe at the end of time, without those ripe now.
        for (old_s, is_ripe) in [(times.old_s, true), (FOREVER_S, false)] {
            let mut after = Vec::new();
            loop {
                let hashes = condemned::ripe(&self.db, StoredKind::Xorbs, old_s, &after, PAGE_ROWS).await?;
                let Some(last) = hashes.last() else { break };
                after = last.to_vec();
                let bytes = self.xorb_object_bytes(&hashes).await?;
                match is_ripe {
                    true => estimate.ripe_bytes += bytes,
                    false => {
                        estimate.xorbs += hashes.len() as u64;
                        estimate.xorb_bytes += bytes;
                    }
                }
                turn.pace(hashes.len()).await?;
            }
        }
        let mut after = Vec::new();
        loop {
            let hashes =
                condemned::unused(&self.db, StoredKind::Xorbs, times.stable_s, &after, PAGE_ROWS).await?;
            let Some(last) = hashes.last() else { break };
            after = last.to_vec();
            estimate.xorbs += hashes.len() as u64;
            estimate.xorb_bytes += self.xorb_object_bytes(&hashes).await?;
            turn.pace(hashes.len()).await?;
        }
        let mut after = Vec::new();
        loop {
            let deletable = condemned::deletable(&self.db, StoredKind::Xorbs, &after, PAGE_ROWS).await?;
            let Some(last) = deletable.last() else { return Ok(()) };
            after = last.hash.to_vec();
            let bytes = deletable.iter().map(|object| object.bytes).sum::<u64>();
            estimate.xorbs += deletable.len() as u64;
            estimate.xorb_bytes += bytes;
            estimate.ripe_bytes += bytes;
        }
    }

    async fn estimate_orphans(
        &self,
        times: Times,
        turn: &mut Turn<'_>,
        estimate: &mut Estimate,
    ) -> Result<()> {
        for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Parts] {
            let mut pages = self.objects.list(folder).try_chunks(PAGE_LISTED);
            while let Some(page) = pages.try_next().await.map_err(|broken| broken.1)? {
                turn.pace(page.len()).await?;
                let old = page.into_iter().filter(|listed| listed.modified_s < times.old_s);
                let old: Vec<_> = old.filter(|listed| listed.key.is_some()).collect();
                let loose: HashSet<ObjectKey> = match folder {
                    Folder::Commits => self.unused_bundles(&old).await?.into_iter().collect(),
                    Folder::Parts => old.iter().filter_map(|listed| listed.key).collect(),
                    Folder::Repos | Folder::People => HashSet::new(),
                    Folder::Xorbs | Folder::Shards => {
                        self.unknown(old.iter().filter_map(|listed| listed.key)).await?
                    }
                };
                let orphans = old.iter().filter(|listed| listed.key.is_some_and(|key| loose.contains(&key)));
                for listed in orphans {
                    estimate.orphans += 1;
                    estimate.orphan_bytes += listed.bytes;
                }
            }
        }
        Ok(())
    }

    /// Those that no row counts.
    pub(super) async fn unknown(&self, keys: impl Iterator<Item = ObjectKey>) -> Result<HashSet<ObjectKey>> {
        let mut unknown: HashSet<_> = keys.collect();
        let xorbs = unknown.iter().filter_map(|key| match key {
            ObjectKey::Xorb(key) => Some(key.hash),
            _ => None,
        });
        let xorbs: Vec<XorbHash> = xorbs.collect();
        let shards = unknown.iter().filter_map(|key| match key {
            ObjectKey::Shard(hash) => Some(*hash),
            _ => None,
        });
        let shards: Vec<ShardHash> = shards.collect();
        for row in xorbs::xorbs(&self.db, &xorbs).await? {
            unknown.remove(&ObjectKey::Xorb(row.key));
        }
        for row in shards::shards(&self.db, &shards).await? {
            unknown.remove(&ObjectKey::Shard(row.hash));
        }
        Ok(unknown)
    }
}

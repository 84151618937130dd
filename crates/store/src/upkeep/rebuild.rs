//! Rebuild: a lost catalog is made again from the objects alone.
//!
//! Xorbs tell what they hold in their footers, shards what files are made of, bundles what repositories have, snapshots what
//! they are called, who sees them, where their refs point, and who belongs to whom. What no object tells is lost: tokens
//! and locks. A repository without a snapshot is private until an administrator changes that; files that no commit leads to belong
//! to [`LOST`] afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use xet::shard::Shard;
use xet::xorb::{Footer, XorbInfo};
use xet::{FileHash, Sha256, ShardHash};

use crate::access::Scope;
use crate::content::dedup_policy::{self, DedupPolicy};
use crate::content::files::{self, LinkedFile};
use crate::content::quotas::usage::{self, QuotaOf};
use crate::content::rows::{ShardRow, XorbRow, XorbState};
use crate::content::xorbs;
use crate::db::Catalog;
use crate::db::batch::BATCH_ROWS;
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::bundle::{Bundle, INLINE_BYTES_MAX, Opened};
use crate::hub::commit_object::Commit;
use crate::hub::pointer::Pointer;
use crate::hub::rows::{GitRow, RefChange, RefRow, RepoRow};
use crate::hub::{git_objects, people, refs, repos};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::names::{Kind, RepoName};
use crate::objects::key::ObjectKey;
use crate::objects::{Folder, ListedObject};
use crate::upkeep::{Upkeep, identity, inventory};

/// Whose files are that no commit leads to.
pub const LOST: (&str, &str) = ("lost-found", "files");

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Xorbs.
    pub xorbs: u64,
    /// Shards.
    pub shards: u64,
    /// Files, once for each repository that has them.
    pub files: u64,
    /// Which of them no commit leads to.
    pub lost_files: u64,
    /// Repositories.
    pub repos: u64,
    /// Commits.
    pub commits: u64,
    /// What could not be used, and why.
    pub skipped: Vec<String>,
}

/// How far it is. Anyone may look.
#[derive(Debug, Default)]
pub struct RebuildProgress {
    objects: AtomicU64,
}

impl RebuildProgress {
    /// Objects so far.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    fn add_objects(&self, objects: usize) {
        self.objects.fetch_add(objects as u64, Ordering::Relaxed);
    }
}

impl Upkeep {
    /// Fills the catalog, which must be empty. Until that is finished the catalog cannot be opened.
    pub async fn rebuild(&self, progress: &RebuildProgress) -> Result<Rebuilt> {
        let is_empty = inventory::counts(&self.db).await? == Default::default()
            && inventory::all_repos(&self.db, &[], 1).await?.is_empty();
        if !is_empty {
            let message = "the catalog is not empty: move it away, then rebuild";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        identity::begin_rebuild(&self.objects, &self.db).await?;
        let mut rebuilt = Rebuilt::default();
        self.rebuild_xorbs(&mut rebuilt, progress).await?;
        self.rebuild_repos(&mut rebuilt, progress).await?;
        self.rebuild_shards(&mut rebuilt, progress).await?;
        self.hub.apply_snapshots().await?;
        self.close_unknown_repos().await?;
        usage::recount_usage(&self.db).await?;
        identity::finish_rebuild(&self.objects, &self.db).await?;
        Ok(rebuilt)
    }

    /// Where no snapshot says who may find the chunks of a repository, nobody may; nor those of files that no commit leads to.
    async fn close_unknown_repos(&self) -> Result<()> {
        let mut known = HashSet::new();
        let mut listed = self.objects.list(Folder::Repos);
        while let Some(found) = listed.try_next().await? {
            if let Some(ObjectKey::Repo { repo, .. }) = found.key {
                known.insert(repo);
            }
        }
        let mut after = Vec::new();
        let mut closed = vec![QuotaOf::Namespace(LOST.0.to_owned())];
        loop {
            let page = inventory::all_repos(&self.db, &after, PAGE as u64).await?;
            let Some(last) = page.last() else { break };
            after = last.row.id.as_bytes().to_vec();
            for repo in page.iter().filter(|repo| !known.contains(&repo.row.id)) {
                closed.push(QuotaOf::Repo(repo.scope()?));
            }
        }
        for of in closed {
            dedup_policy::set_dedup_policy(&self.db, &of, Some(DedupPolicy::Off)).await?;
        }
        Ok(())
    }

    async fn rebuild_xorbs(&self, rebuilt: &mut Rebuilt, progress: &RebuildProgress) -> Result<()> {
        let mut pages = self.objects.list(Folder::Xorbs).try_chunks(PAGE);
        while let Some(page) = pages.try_next().await.map_err(|broken| broken.1)? {
            progress.add_objects(page.len());
            let read =
                page.into_iter().map(|listed| async move { (self.read_footer(&listed).await, listed) });
            let read: Vec<_> = read.collect();
            let mut read = stream::iter(read).buffer_unordered(READS_AT_ONCE);
            let mut rows = Vec::new();
            while let Some((info, listed)) = read.next().await {
                match (usable(info)?, listed.key) {
                    (Ok(info), Some(ObjectKey::Xorb(key))) => rows.push(XorbRow {
                        key,
                        object_bytes: listed.bytes,
                        raw_bytes: info.raw_bytes(),
                        chunk_count: info.chunk_count(),
                        state: XorbState::Live,
                        created_s: listed.modified_s,
                        referenced_s: listed.modified_s,
                        verified_s: 0,
                    }),
                    (Err(why), Some(_)) => rebuilt.skipped.push(format!("{}: {why}", listed.path)),
                    _ => {}
                }
            }
            // Of several objects of one xorb one must count; the same one whenever this is done.
            rows.sort_by_key(|row| row.key);
            let added = xorbs::add_xorbs(&self.db, &rows).await?;
            rebuilt.xorbs += added.iter().filter(|added| added.was_inserted).count() as u64;
        }
        Ok(())
    }

    async fn read_footer(&self, listed: &ListedObject) -> Result<XorbInfo> {
        let foreign = || Error::new(ErrorKind::Corrupt, "not an object of a store");
        let Some(key @ ObjectKey::Xorb(named)) = listed.key else { return Err(foreign()) };
        let end = listed.bytes;
        let short = || Error::new(ErrorKind::Corrupt, "too short for a footer");
        let length = self.objects.range(&key, end.checked_sub(4).ok_or_else(short)?..end).await?;
        let length = u32::from_le_bytes(length[..].try_into().map_err(|_| short())?);
        let tail_bytes = u64::from(length).saturating_add(4).min(Footer::BYTES_MAX);
        let start = end.checked_sub(tail_bytes).ok_or_else(short)?;
        let tail = self.objects.range(&key, start..end).await?;
        let parsed = self.workers.run(move || Footer::parse(&tail, start)).await?;
        let info =
            parsed.map_err(|source| Error::corrupt("footer", source))?.into_info().ok_or_else(short)?;
        match info.hash() == named.hash && info.stored_bytes() == start {
            true => Ok(info),
            false => Err(Error::new(ErrorKind::Corrupt, "its footer is of another xorb")),
        }
    }

    async fn rebuild_repos(&self, rebuilt: &mut Rebuilt, progress: &RebuildProgress) -> Result<()> {
        let mut repos: BTreeMap<RepoId, Vec<Oid>> = BTreeMap::new();
        let mut listed = self.objects.list(Folder::Commits);
        while let Some(listed) = listed.try_next().await? {
            if let Some(ObjectKey::Bundle { repo, commit }) = listed.key {
                repos.entry(repo).or_default().push(commit);
            }
        }
        for (repo, commits) in repos {
            let mut history = History::default();
            for commit in commits {
                progress.add_objects(1);
                match usable(self.read_bundle(repo, commit).await)? {
                    Ok((opened, made)) => history.add(commit, &opened, &made),
                    Err(why) => rebuilt.skipped.push(format!("bundle of commit {commit}: {why}")),
                }
            }
            if let Some(row) = history.repo(repo) {
                self.rebuild_repo(row, &history, rebuilt).await?;
            }
        }
        Ok(())
    }

    async fn read_bundle(&self, repo: RepoId, commit: Oid) -> Result<(Opened, Commit)> {
        let opened = Bundle::parse(&self.objects.whole(&ObjectKey::Bundle { repo, commit }).await?)?;
        let wrong = || Error::new(ErrorKind::Corrupt, "it does not end in its commit");
        let (kind, body, _) = opened.objects.last().ok_or_else(wrong)?;
        if *kind != ObjectKind::Commit || Oid::of(*kind, body) != commit {
            return Err(wrong());
        }
        let made = Commit::parse(body)?;
        Ok((opened, made))
    }

    async fn rebuild_repo(&self, mut row: RepoRow, history: &History, rebuilt: &mut Rebuilt) -> Result<()> {
        // Namespaces that differ in case only stay two: one must not get what is the other's.
        people::add_spelling(&self.db, &row.name.namespace).await?;
        if !repos::create_repo(&self.db, &row, &[], &[]).await? {
            // Another repository has the name: both stay, and their keeper decides.
            let id = row.id.to_string();
            row.name.name = format!("{}-{}", row.name.name, id.get(..8).unwrap_or_default());
            repos::create_repo(&self.db, &row, &[], &[]).await?;
        }
        rebuilt.repos += 1;
        let scope = row.name.scope()?;
        for (commit, depth) in history.in_order() {
            let (opened, made) = self.read_bundle(row.id, commit).await?;
            let rows = rows(commit, &opened, &made, depth);
            let linked = rows.iter().filter_map(|row| row.linked);
            let linked: Vec<_> = linked.map(|linked| (linked.sha256, linked.file)).collect();
            restore_rights(&self.db, &scope, &linked, row.created_s).await?;
            git_objects::add_git_objects(&self.db, row.id, &rows, made.author.time_s).await?;
            rebuilt.commits += 1;
        }
        for given in history.refs() {
            let change = RefChange { name: given.name, from: None, to: Some(given.target) };
            refs::move_refs(&self.db, row.id, &[change], row.updated_s, 0).await?;
        }
        Ok(())
    }

    async fn rebuild_shards(&self, rebuilt: &mut Rebuilt, progress: &RebuildProgress) -> Result<()> {
        let mut listed = self.objects.list(Folder::Shards);
        while let Some(listed) = listed.try_next().await? {
            progress.add_objects(1);
            let Some(ObjectKey::Shard(hash)) = listed.key else { continue };
            let row = ShardRow { hash, object_bytes: listed.bytes, created_s: listed.modified_s };
            match usable(self.read_shard(&listed, hash).await)? {
                Ok(shard) => {
                    self.rebuild_shard(shard, &row, rebuilt).await?;
                    rebuilt.shards += 1;
                }
                Err(why) => rebuilt.skipped.push(format!("{}: {why}", listed.path)),
            }
        }
        Ok(())
    }

    async fn read_shard(&self, listed: &ListedObject, hash: ShardHash) -> Result<Shard> {
        let key = ObjectKey::Shard(hash);
        if listed.bytes > 2 * xet::limits::SHARD_BYTES_MAX {
            return Err(Error::new(ErrorKind::Corrupt, "too long for a shard"));
        }
        let body: Bytes = self.objects.whole(&key).await?;
        let parsed = self.workers.run(move || (ShardHash::of(&body), Shard::parse_stored(&body))).await?;
        match parsed {
            (is, _) if is != hash => Err(Error::new(ErrorKind::Corrupt, format!("its hash is {is}"))),
            (_, parsed) => parsed.map_err(|source| Error::corrupt("shard", source)),
        }
    }

    /// Registers a shard in every repository that has files of it, and the others where lost things are.
    async fn rebuild_shard(&self, shard: Shard, row: &ShardRow, rebuilt: &mut Rebuilt) -> Result<()> {
        let files: Vec<_> = shard.files.iter().map(|file| file.hash).collect();
        let mut by_scope: BTreeMap<Scope, HashSet<FileHash>> = BTreeMap::new();
        for (file, scope) in files::readers(&self.db, &files).await? {
            by_scope.entry(scope).or_default().insert(file);
        }
        let owned: HashSet<_> = by_scope.values().flatten().copied().collect();
        let lost: HashSet<_> = files.iter().filter(|file| !owned.contains(file)).copied().collect();
        rebuilt.lost_files += lost.len() as u64;
        if !lost.is_empty() || files.is_empty() {
            by_scope.entry(Scope::new(LOST.0, LOST.1)?).or_default().extend(lost);
        }
        let shard = Arc::new(shard);
        for (scope, files) in by_scope {
            match usable(self.content.restore_shard(&scope, &shard, row, &files).await)? {
                Ok(restored) => rebuilt.files += restored,
                // Something it refers to is gone: what can be saved is saved file by file.
                Err(_) => {
                    for file in shard.files.iter().filter(|file| files.contains(&file.hash)) {
                        let alone =
                            Shard { files: vec![file.clone()], xorbs: Vec::new(), ..(*shard).clone() };
                        let only = HashSet::from([file.hash]);
                        match usable(self.content.restore_shard(&scope, &Arc::new(alone), row, &only).await)?
                        {
                            Ok(restored) => rebuilt.files += restored,
                            Err(why) => rebuilt.skipped.push(format!("file {}: {why}", file.hash)),
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Damage is noted and passed by; a store or catalog that does not answer ends it.
fn usable<T>(done: Result<T>) -> Result<std::result::Result<T, String>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error)
            if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid | ErrorKind::NotFound) =>
        {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// What the commits of a repository tell together.
#[derive(Debug, Default)]
struct History {
    commits: HashMap<Oid, FoundCommit>,
}

#[derive(Debug)]
struct FoundCommit {
    parent: Option<Oid>,
    time_s: u64,
    repo: String,
    ref_name: String,
}

impl History {
    fn add(&mut self, oid: Oid, opened: &Opened, commit: &Commit) {
        let commit = FoundCommit {
            parent: commit.parents.first().copied(),
            time_s: commit.author.time_s,
            repo: opened.repo.clone(),
            ref_name: opened.ref_name.clone(),
        };
        self.commits.insert(oid, commit);
    }

    /// The repository, under the name it had at its last commit.
    fn repo(&self, id: RepoId) -> Option<RepoRow> {
        let (_, last) = self.commits.iter().max_by_key(|(oid, commit)| (commit.time_s, **oid))?;
        let first = self.commits.values().map(|commit| commit.time_s).min()?;
        let parts: Vec<_> = last.repo.split('/').collect();
        let (kind, namespace, name) = match parts.as_slice() {
            [namespace, name] => (Kind::Model, *namespace, *name),
            [kind, namespace, name] => {
                (Kind::ALL.into_iter().find(|known| known.plural() == *kind)?, *namespace, *name)
            }
            _ => return None,
        };
        let name = RepoName::new(kind, namespace, name).ok()?;
        Some(RepoRow { id, name, private: true, created_s: first, updated_s: last.time_s, reclaim_s: None })
    }

    /// Every commit after its parent, with how many there are from the first to it.
    fn in_order(&self) -> Vec<(Oid, u64)> {
        let mut depths: HashMap<Oid, u64> = HashMap::new();
        for oid in self.commits.keys() {
            let mut line = Vec::new();
            let mut at = Some(*oid);
            while let Some(oid) = at.filter(|oid| !depths.contains_key(oid) && self.commits.contains_key(oid))
            {
                line.push(oid);
                at = self.commits.get(&oid).and_then(|commit| commit.parent);
            }
            let mut depth = at.and_then(|oid| depths.get(&oid).copied()).unwrap_or(0);
            for oid in line.into_iter().rev() {
                depth += 1;
                depths.insert(oid, depth);
            }
        }
        let mut order: Vec<_> = depths.into_iter().collect();
        order.sort_by_key(|(oid, depth)| (*depth, self.commits.get(oid).map(|commit| commit.time_s), *oid));
        order
    }

    /// Each ref at the last commit that was made for it.
    fn refs(&self) -> Vec<RefRow> {
        let names: BTreeSet<_> = self.commits.values().map(|commit| commit.ref_name.clone()).collect();
        let depths: HashMap<_, _> = self.in_order().into_iter().collect();
        let last = |name: &String| {
            let of_name = self.commits.iter().filter(|(_, commit)| commit.ref_name == *name);
            of_name
                .max_by_key(|(oid, commit)| (commit.time_s, depths.get(oid).copied(), **oid))
                .map(|(oid, _)| *oid)
        };
        names.iter().filter_map(|name| Some(RefRow { name: name.clone(), target: last(name)? })).collect()
    }
}

/// The rows of a bundle's objects, as they were when the commit was made.
fn rows(commit: Oid, opened: &Opened, made: &Commit, depth: u64) -> Vec<GitRow> {
    let mut offset = 12 + opened.repo.len() as u64 + 1 + opened.ref_name.len() as u64;
    let mut rows = Vec::with_capacity(opened.objects.len());
    for (kind, body, file) in &opened.objects {
        offset += 1 + 4 + if file.is_some() { 32 } else { 0 };
        let pointer = file.and_then(|file| Some((file, Pointer::parse(body)?)));
        let linked = pointer.map(|(file, Pointer { sha256, bytes }): (_, Pointer)| LinkedFile {
            sha256: Sha256::new(*sha256.as_bytes()),
            bytes,
            file,
        });
        let is_commit = *kind == ObjectKind::Commit;
        rows.push(GitRow {
            oid: Oid::of(*kind, body),
            kind: *kind,
            bytes: body.len() as u64,
            body: (body.len() <= INLINE_BYTES_MAX).then(|| body.to_vec()),
            bundle: commit,
            offset,
            parent: made.parents.first().copied().filter(|_| is_commit),
            depth: if is_commit { depth } else { 0 },
            linked,
        });
        offset += body.len() as u64;
    }
    rows
}

const PAGE: usize = 500;

const READS_AT_ONCE: usize = 16;

/// Gives a repository the right to files, under digests: for a catalog that is made again.
pub(crate) async fn restore_rights(
    db: &Catalog,
    scope: &Scope,
    files: &[(Sha256, FileHash)],
    now_s: u64,
) -> Result<()> {
    let (namespace, repo) = (scope.namespace(), scope.repo());
    for files in files.chunks(BATCH_ROWS) {
        let restored = db.write_serializable("restore rights", |mut tx| async move {
            let insert = Sql::new(
                "INSERT INTO repo_files (namespace, repo, file, created_s) VALUES $1 ON CONFLICT DO NOTHING",
            );
            let rows =
                files.iter().map(|(_, file)| [namespace.into(), repo.into(), file.into(), now_s.into()]);
            tx.run(insert.rows(rows)).await?;
            let insert = Sql::new(
                "INSERT INTO repo_sha256s (namespace, repo, sha256, file) VALUES $1 ON CONFLICT DO NOTHING",
            );
            let rows = files
                .iter()
                .map(|(sha256, file)| [namespace.into(), repo.into(), sha256.into(), file.into()]);
            tx.run(insert.rows(rows)).await?;
            tx.commit().await
        });
        restored.await?;
    }
    Ok(())
}

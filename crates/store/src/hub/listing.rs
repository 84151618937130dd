//! Listings: what is at a path, and what is in a folder, page by page.

use std::collections::HashMap;

use futures::future::BoxFuture;

use crate::content::files::LinkedFile;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::rows::GitRow;
use crate::hub::tree::{Mode, order, parse_path};
use crate::hub::{Hub, git_objects};
use crate::ids::{ObjectKind, Oid, RepoId};

/// A file or folder of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it is.
    pub path: String,
    /// Its blob or tree.
    pub oid: Oid,
    /// What git says it is.
    pub mode: Mode,
    /// Its length: of the file itself, also where git has a pointer; 0 for a folder.
    pub bytes: u64,
    /// How long the pointer is, where git has one.
    pub pointer_bytes: u64,
    /// The file in the content store, where git has a pointer.
    pub linked: Option<LinkedFile>,
    /// Where the bytes are, of a file.
    pub row: Option<GitRow>,
}

impl Item {
    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.mode.is_folder()
    }
}

/// Which part of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Folders within folders too.
    pub recursive: bool,
    /// What [`Listing::next`] said last time.
    pub after: Option<String>,
    /// Maximum number of results.
    pub limit: usize,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In git's order.
    pub items: Vec<Item>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
}

impl Hub {
    /// What is at a path of a commit; the empty path is the root.
    pub async fn find_path(&self, repo: RepoId, commit: Oid, path: &str) -> Result<Option<Item>> {
        let key = (repo, commit, path.to_owned());
        if let Some(item) = self.large_items.get(&key).await {
            return Ok(Some(item));
        }
        let root = self.commit_object(repo, commit).await?.tree;
        let found = self.walk_to(repo, root, path).await?;
        let Some((mode, oid)) = found else { return Ok(None) };
        let mut items = vec![bare(path.to_owned(), mode, oid)];
        self.fill(repo, &mut items).await?;
        let item = items.pop();
        if let Some(item) = item.as_ref().filter(|item| item.linked.is_some()) {
            self.large_items.insert(key, item.clone()).await;
        }
        Ok(item)
    }

    /// What is at these paths of a commit; those where nothing is are left out.
    pub async fn find_paths(&self, repo: RepoId, commit: Oid, paths: &[String]) -> Result<Vec<Item>> {
        let root = self.commit_object(repo, commit).await?.tree;
        // In the order of paths each folder is read once, also when all of them together are more than the cache holds.
        let mut order: Vec<_> = paths.iter().map(|path| path.trim_matches('/')).enumerate().collect();
        order.sort_unstable_by_key(|(_, path)| *path);
        let mut found = Vec::new();
        for (n, path) in order {
            if let Some((mode, oid)) = self.walk_to(repo, root, path).await? {
                found.push((n, bare(path.to_owned(), mode, oid)));
            }
        }
        found.sort_unstable_by_key(|(n, _)| *n);
        let mut items: Vec<_> = found.into_iter().map(|(_, item)| item).collect();
        self.fill(repo, &mut items).await?;
        Ok(items)
    }

    /// What is in a folder of a commit; `None` when there is no such folder.
    pub async fn list_folder(
        &self,
        repo: RepoId,
        commit: Oid,
        folder: &str,
        page: &Page,
    ) -> Result<Option<Listing>> {
        let root = self.commit_object(repo, commit).await?.tree;
        let Some((Mode::Folder, tree)) = self.walk_to(repo, root, folder).await? else { return Ok(None) };
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let after = match &page.after {
            Some(after) => Some(
                after
                    .strip_prefix(&prefix)
                    .ok_or_else(|| Error::new(ErrorKind::Invalid, "the cursor is of another listing"))?,
            ),
            None => None,
        };
        let mut items = Vec::new();
        let limit = page.limit.max(1);
        let walk = Walk { repo, recursive: page.recursive, wanted: limit + 1 };
        self.walk(&walk, tree, prefix, after, &mut items).await?;
        let more = items.len() > limit;
        items.truncate(limit);
        let last = |items: &[Item]| {
            // A folder's cursor ends in a slash: what is in it comes next.
            items
                .last()
                .map(|item| if item.is_folder() { format!("{}/", item.path) } else { item.path.clone() })
        };
        let next = if more { last(&items) } else { None };
        self.fill(repo, &mut items).await?;
        Ok(Some(Listing { items, next }))
    }

    fn walk<'a>(
        &'a self,
        walk: &'a Walk,
        tree: Oid,
        prefix: String,
        after: Option<&'a str>,
        items: &'a mut Vec<Item>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let tree = self.tree_object(walk.repo, tree).await?;
            // `a/b` goes on in folder `a`; `a/` too, from its beginning; `a` goes on after file `a`.
            let (skip_to, is_folder, rest) = match after.map(|after| (after, after.split_once('/'))) {
                None => (None, false, None),
                Some((_, Some((folder, rest)))) => {
                    (Some(folder), true, Some(rest).filter(|rest| !rest.is_empty()))
                }
                Some((file, None)) => (Some(file), false, None),
            };
            for entry in tree.entries() {
                if items.len() >= walk.wanted {
                    return Ok(());
                }
                let place = skip_to
                    .map(|name| order(&entry.name, entry.mode.is_folder(), name, is_folder))
                    .unwrap_or(std::cmp::Ordering::Greater);
                if place.is_lt() {
                    continue;
                }
                let path = format!("{prefix}{}", entry.name);
                if place.is_gt() {
                    items.push(bare(path.clone(), entry.mode, entry.oid));
                }
                if walk.recursive && entry.mode.is_folder() {
                    let rest = rest.filter(|_| place.is_eq());
                    self.walk(walk, entry.oid, format!("{path}/"), rest, &mut *items).await?;
                }
            }
            Ok(())
        })
    }

    async fn walk_to(&self, repo: RepoId, root: Oid, path: &str) -> Result<Option<(Mode, Oid)>> {
        let mut at = (Mode::Folder, root);
        if path.is_empty() {
            return Ok(Some(at));
        }
        // What cannot be a path is nowhere.
        let Ok(parts) = parse_path(path) else { return Ok(None) };
        for part in parts {
            if !at.0.is_folder() {
                return Ok(None);
            }
            let tree = self.tree_object(repo, at.1).await?;
            let Some(entry) = tree.entry(part) else { return Ok(None) };
            at = (entry.mode, entry.oid);
        }
        Ok(Some(at))
    }

    /// Adds what the catalog knows of the files.
    pub(super) async fn fill(&self, repo: RepoId, items: &mut [Item]) -> Result<()> {
        let oids: Vec<_> = items.iter().filter(|item| item.mode.is_blob()).map(|item| item.oid).collect();
        let rows = git_objects::git_objects(&self.db, repo, &oids).await?;
        let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.oid, row)).collect();
        for item in items.iter_mut().filter(|item| item.mode.is_blob()) {
            let row = rows.get(&item.oid).filter(|row| row.kind == ObjectKind::Blob);
            let missing =
                || Error::new(ErrorKind::Corrupt, format!("blob {} of {} is gone", item.oid, item.path));
            let row = row.ok_or_else(missing)?;
            item.linked = row.linked;
            item.bytes = row.linked.map_or(row.bytes, |linked| linked.bytes);
            item.pointer_bytes = row.linked.map_or(0, |_| row.bytes);
            item.row = Some(row.clone());
        }
        Ok(())
    }
}

/// Large files that were found: clients read them range by range, and what a commit has does not change.
pub(crate) type LargeItems = moka::future::Cache<(RepoId, Oid, String), Item>;

pub(crate) fn large_items() -> LargeItems {
    let weigh =
        |key: &(RepoId, Oid, String), _: &Item| u32::try_from(2 * key.2.len() + 800).unwrap_or(u32::MAX);
    let cache = moka::future::Cache::builder().max_capacity(LARGE_ITEMS_BYTES_MAX).weigher(weigh);
    cache.time_to_idle(LARGE_ITEMS_IDLE).build()
}

/// How long an unused entry stays cached.
const LARGE_ITEMS_IDLE: std::time::Duration = std::time::Duration::from_secs(300);

/// Bytes of them to keep in memory.
const LARGE_ITEMS_BYTES_MAX: u64 = 8 * 1024 * 1024;

struct Walk {
    repo: RepoId,
    recursive: bool,
    wanted: usize,
}

pub(crate) fn bare(path: String, mode: Mode, oid: Oid) -> Item {
    Item { path, oid, mode, bytes: 0, pointer_bytes: 0, linked: None, row: None }
}

//! Differences: what changed between two commits, file by file.

use std::cmp::Ordering;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::hub::Hub;
use crate::hub::listing::{Item, bare};
use crate::hub::tree::{Entry, Tree, order};
use crate::ids::{Oid, RepoId};

/// A file that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where it is.
    pub path: String,
    /// What it was; `None` for one that was added.
    pub before: Option<Item>,
    /// What it is; `None` for one that was removed.
    pub after: Option<Item>,
}

impl Hub {
    /// The files that differ between two folders, in git's order, without the first `skip`, at most `limit`; and whether
    /// there are more. Folders that are the same are not looked into.
    pub async fn changes(
        &self,
        repo: RepoId,
        before: Option<Oid>,
        after: Oid,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<Change>, bool)> {
        let mut differ = Vec::new();
        let wanted = skip.saturating_add(limit).saturating_add(1);
        self.differ(repo, before, Some(after), String::new(), wanted, &mut differ).await?;
        let is_more = differ.len() == wanted;
        let mut changes = Vec::new();
        for (path, before, after) in differ.into_iter().skip(skip).take(limit) {
            let item = |entry: Option<Entry>| entry.map(|entry| bare(path.clone(), entry.mode, entry.oid));
            let (before, after) = (item(before), item(after));
            changes.push(Change { path, before, after });
        }
        let sides = changes.iter_mut().flat_map(|change| [&mut change.before, &mut change.after]);
        let mut items: Vec<&mut Item> = sides.flatten().collect();
        let mut filled: Vec<Item> = items.iter().map(|item| (**item).clone()).collect();
        self.fill(repo, &mut filled).await?;
        items.iter_mut().zip(filled).for_each(|(item, filled)| **item = filled);
        Ok((changes, is_more))
    }

    fn differ<'a>(
        &'a self,
        repo: RepoId,
        before: Option<Oid>,
        after: Option<Oid>,
        prefix: String,
        wanted: usize,
        found: &'a mut Vec<(String, Option<Entry>, Option<Entry>)>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (before, after) = (self.maybe_tree(repo, before).await?, self.maybe_tree(repo, after).await?);
            let mut left = before.as_deref().map_or([].as_slice(), Tree::entries).iter().peekable();
            let mut right = after.as_deref().map_or([].as_slice(), Tree::entries).iter().peekable();
            while found.len() < wanted {
                let place = match (left.peek(), right.peek()) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(a), Some(b)) => order(&a.name, a.mode.is_folder(), &b.name, b.mode.is_folder()),
                };
                let a = if place.is_le() { left.next() } else { None };
                let b = if place.is_ge() { right.next() } else { None };
                if let (Some(a), Some(b)) = (a, b)
                    && (a.oid, a.mode) == (b.oid, b.mode)
                {
                    continue;
                }
                let Some(name) = a.or(b).map(|entry| &entry.name) else { break };
                let path = format!("{prefix}{name}");
                // Folders sort as if their names ended in a slash, so both are folders here or none is.
                if a.or(b).is_some_and(|entry| entry.mode.is_folder()) {
                    let (a, b) = (a.map(|entry| entry.oid), b.map(|entry| entry.oid));
                    self.differ(repo, a, b, format!("{path}/"), wanted, &mut *found).await?;
                } else {
                    found.push((path, a.cloned(), b.cloned()));
                }
            }
            Ok(())
        })
    }

    async fn maybe_tree(&self, repo: RepoId, oid: Option<Oid>) -> Result<Option<Arc<Tree>>> {
        match oid {
            Some(oid) => self.tree_object(repo, oid).await.map(Some),
            None => Ok(None),
        }
    }
}

//! Edits: many changes of paths, applied folder by folder.
//!
//! Only folders that change are read, and one at a time on the way down: a commit costs what it touches.

use std::collections::{BTreeMap, HashMap};

use futures::future::BoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::bundle::Bundle;
use crate::hub::tree::{Mode, Tree, parse_path};
use crate::ids::{ObjectKind, Oid, RepoId};

/// What shall become of a folder.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// Delete all existing entries before the other changes.
    clear: bool,
    files: BTreeMap<String, FileEdit>,
    folders: BTreeMap<String, Edits>,
}

#[derive(Debug, Clone, Copy)]
enum FileEdit {
    Put(Oid),
    /// The file must be there.
    Delete,
}

impl Edits {
    /// Puts a blob at a path. Whatever is in the way, a file where a folder must be or the other way, is replaced.
    pub(crate) fn put(&mut self, path: &str, blob: Oid) -> Result<()> {
        let (folder, name) = self.folder_of(path)?;
        folder.folders.remove(name);
        folder.files.insert(name.to_owned(), FileEdit::Put(blob));
        Ok(())
    }

    /// Deletes a file.
    pub(crate) fn delete(&mut self, path: &str) -> Result<()> {
        let (folder, name) = self.folder_of(path)?;
        folder.files.insert(name.to_owned(), FileEdit::Delete);
        Ok(())
    }

    /// Deletes a folder and all in it.
    pub(crate) fn delete_folder(&mut self, path: &str) -> Result<()> {
        let path = path.trim_end_matches('/');
        if path.is_empty() || path == "." {
            *self = Self { clear: true, ..Self::default() };
            return Ok(());
        }
        let (folder, name) = self.folder_of(path)?;
        folder.folders.insert(name.to_owned(), Self { clear: true, ..Self::default() });
        Ok(())
    }

    fn folder_of<'p>(&mut self, path: &'p str) -> Result<(&mut Self, &'p str)> {
        let parts = parse_path(path)?;
        let (name, parents) = parts.split_last().expect("a path has a part");
        let mut folder = self;
        for part in parents {
            // A file that was put there a moment ago makes way.
            folder.files.remove(*part);
            folder = folder.folders.entry((*part).to_owned()).or_default();
        }
        Ok((folder, name))
    }

    fn is_clear_only(&self) -> bool {
        self.clear && self.files.is_empty() && self.folders.is_empty()
    }
}

impl Hub {
    /// Applies edits to a tree and adds the new folders to the bundle; answers with the new root, which may be empty.
    pub(crate) async fn edit_tree(
        &self,
        repo: RepoId,
        root: Option<Oid>,
        edits: &Edits,
        bundle: &mut Bundle,
    ) -> Result<Oid> {
        let edited = self.edit_folder(repo, root, edits, String::new(), bundle).await?;
        Ok(edited.unwrap_or_else(|| bundle.push(ObjectKind::Tree, bytes::Bytes::new(), None)))
    }

    /// The folder's new tree; `None` when nothing is left in it.
    fn edit_folder<'a>(
        &'a self,
        repo: RepoId,
        old: Option<Oid>,
        edits: &'a Edits,
        path: String,
        bundle: &'a mut Bundle,
    ) -> BoxFuture<'a, Result<Option<Oid>>> {
        Box::pin(async move {
            let before = match old {
                Some(old) if !edits.clear => Some(self.tree_object(repo, old).await?),
                _ => None,
            };
            let nothing = Tree::default();
            let before = before.as_deref().unwrap_or(&nothing);
            let missing = |name: &str| {
                let path = format!("{path}{name}");
                Error::new(ErrorKind::NotFound, format!("{path:?} is not there: it cannot be deleted"))
            };
            let mut changes: HashMap<String, Option<(Mode, Oid)>> = HashMap::new();
            for (name, edit) in &edits.files {
                let is_file = || before.entry(name).is_some_and(|entry| !entry.mode.is_folder());
                match edit {
                    FileEdit::Put(blob) => {
                        // A file that is replaced keeps its git mode.
                        let mode = before.entry(name).map(|entry| entry.mode).filter(|mode| mode.is_blob());
                        changes.insert(name.clone(), Some((mode.unwrap_or(Mode::File), *blob)));
                    }
                    FileEdit::Delete if !is_file() => return Err(missing(name)),
                    FileEdit::Delete => {
                        changes.insert(name.clone(), None);
                    }
                }
            }
            for (name, inner) in &edits.folders {
                let folder = before.entry(name).filter(|entry| entry.mode.is_folder()).map(|entry| entry.oid);
                if inner.is_clear_only() && folder.is_none() {
                    return Err(missing(name));
                }
                let inner_path = format!("{path}{name}/");
                let edited = self.edit_folder(repo, folder, inner, inner_path, bundle).await?;
                changes.insert(name.clone(), edited.map(|tree| (Mode::Folder, tree)));
            }
            let mut after = before.clone();
            after.change(&changes);
            if after.entries().is_empty() {
                return Ok(None);
            }
            if let Some(old) = old.filter(|_| after == *before && !edits.clear) {
                return Ok(Some(old));
            }
            Ok(Some(bundle.push(ObjectKind::Tree, after.encode().into(), None)))
        })
    }
}

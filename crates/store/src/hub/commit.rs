//! Commits: changes of many files at once, all of them or none.

use crate::hub::refs::{MESSAGE_BYTES_MAX, expect_short};
use std::collections::HashMap;

use bytes::Bytes;
use xet::Sha256;

use crate::content::files::LinkedFile;
use crate::content::quotas::Need;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::bundle::Bundle;
use crate::hub::commit_object::{Commit, Signature};
use crate::hub::edit_tree::Edits;
use crate::hub::pointer::{self, Pointer};
use crate::hub::rows::{RefChange, RepoRow};
use crate::hub::tree::parse_path;
use crate::hub::{Hub, git_objects, refs};
use crate::ids::{ObjectKind, Oid};

/// One change of a commit.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Puts a small file.
    Put {
        /// Where.
        path: String,
        /// Its bytes.
        content: Bytes,
    },
    /// Puts a file of the content store.
    PutLinked {
        /// Where.
        path: String,
        /// The digest of its bytes.
        sha256: Sha256,
        /// How many the client says they are.
        bytes: Option<u64>,
    },
    /// Puts what is at another path, of any revision of this repository.
    Copy {
        /// Where it is.
        from: String,
        /// In which commit; `None`: in the one this commit follows.
        revision: Option<Oid>,
        /// Where it shall be too.
        to: String,
    },
    /// Deletes a file.
    Delete {
        /// Which.
        path: String,
    },
    /// Deletes a folder.
    DeleteFolder {
        /// Which; empty for everything.
        path: String,
    },
}

/// A commit to be made.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ref to move, `refs/heads/main`.
    pub ref_name: String,
    /// The commit that must be the last one there; `None`: whichever is.
    pub parent: Option<Oid>,
    /// Who makes it.
    pub author: String,
    /// What it says.
    pub message: String,
    /// What it changes, in order.
    pub operations: Vec<Operation>,
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The last commit of the ref now.
    pub oid: Oid,
    /// Whether this call made it. One that changes nothing is not made, so that it can be repeated.
    pub was_made: bool,
}

impl Hub {
    /// Commits. Fails with a conflict when `parent` is not where the ref is; without a parent it follows whatever is.
    pub async fn commit(&self, repo: &RepoRow, request: &Request) -> Result<Committed> {
        expect_short("message", &request.message, MESSAGE_BYTES_MAX)?;
        let committed = self.try_commit(repo, request).await?;
        if !committed.was_made {
            // A repeated request may be of the client whose commit was not persisted.
            self.persist_snapshot(repo.id).await?;
        }
        Ok(committed)
    }

    async fn try_commit(&self, repo: &RepoRow, request: &Request) -> Result<Committed> {
        let linked = self.linked(repo, &request.operations).await?;
        let put = request.operations.iter().map(|operation| match operation {
            Operation::Put { content, .. } => content.len() as u64,
            _ => 0,
        });
        let bytes = put.sum();
        let need = Need { logical_bytes: bytes, physical_bytes: bytes };
        let _reserved = self.content.reserve_quota(&repo.scope()?, need).await?;
        let mut tries = COMMIT_TRIES;
        loop {
            let Some(head) = self.ref_target(repo.id, &request.ref_name).await? else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("no {} in {}", request.ref_name, repo.name),
                ));
            };
            if request.parent.is_some_and(|parent| parent != head) {
                return self.repeated(repo, request, &linked, head).await;
            }
            let (commit, bundle, depth) = self.prepare(repo, request, &linked, head).await?;
            if commit.tree == self.commit_object(repo.id, head).await?.tree {
                return Ok(Committed { oid: head, was_made: false });
            }
            let (oid, rows) = self.seal_bundle(repo.id, bundle, &commit, depth).await?;
            if !git_objects::add_git_objects(&self.db, repo.id, &rows, self.clock.now_s()).await? {
                return Err(deleted_by_gc(repo));
            }
            let change = RefChange { name: request.ref_name.clone(), from: Some(head), to: Some(oid) };
            if self.move_refs(repo.id, &[change], commit.author.time_s).await? {
                return Ok(Committed { oid, was_made: true });
            }
            // Rows and bundle stay: the same commit may have been made elsewhere, on another branch or by a client that
            // requested the same.
            tries -= 1;
            if tries == 0 {
                return Err(conflict(&request.ref_name));
            }
        }
    }

    /// Replaces the history of a branch by one commit with its current files.
    pub async fn squash(&self, repo: &RepoRow, ref_name: &str, author: &str, message: &str) -> Result<Oid> {
        expect_short("message", message, MESSAGE_BYTES_MAX)?;
        let head = self.ref_target(repo.id, ref_name).await?;
        let head =
            head.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no {ref_name} in {}", repo.name)))?;
        let tree = self.commit_object(repo.id, head).await?.tree;
        let author = Signature::new(author, self.clock.now_s());
        let now_s = author.time_s;
        let commit = Commit { tree, parents: Vec::new(), author, message: message.to_owned() };
        let (oid, rows) = self.seal_bundle(repo.id, Bundle::new(&repo.name, ref_name), &commit, 1).await?;
        if !git_objects::add_git_objects(&self.db, repo.id, &rows, now_s).await? {
            return Err(deleted_by_gc(repo));
        }
        let change = RefChange { name: ref_name.to_owned(), from: Some(head), to: Some(oid) };
        match self.move_refs(repo.id, &[change], now_s).await? {
            true => Ok(oid),
            false => Err(conflict(ref_name)),
        }
    }

    /// The commit this request makes after `head`.
    async fn prepare(
        &self,
        repo: &RepoRow,
        request: &Request,
        linked: &HashMap<Sha256, LinkedFile>,
        head: Oid,
    ) -> Result<(Commit, Bundle, u64)> {
        let row = self.git_object(repo.id, head, ObjectKind::Commit).await?;
        let tree = Commit::parse(&self.git_body(repo.id, &row).await?)?.tree;
        let mut bundle = Bundle::new(&repo.name, &request.ref_name);
        let mut edits = Edits::default();
        for operation in &request.operations {
            match operation {
                Operation::Put { path, content } => {
                    edits.put(path, bundle.push(ObjectKind::Blob, content.clone(), None))?;
                }
                Operation::PutLinked { path, sha256, bytes } => {
                    let found = find(linked, path, sha256, *bytes)?;
                    let pointer = Pointer { sha256: found.sha256, bytes: found.bytes }.encode();
                    edits.put(path, bundle.push(ObjectKind::Blob, pointer.into(), Some(*found)))?;
                }
                Operation::Copy { from, revision, to } => {
                    let at = revision.unwrap_or(head);
                    let found = self.find_path(repo.id, at, from).await?.filter(|found| !found.is_folder());
                    let missing = || Error::new(ErrorKind::NotFound, format!("{from:?} is not there"));
                    let oid = found.ok_or_else(missing)?.oid;
                    // In this bundle too: what it was copied from may be reachable from nowhere, and go.
                    let row = self.git_object(repo.id, oid, ObjectKind::Blob).await?;
                    bundle.push(ObjectKind::Blob, self.git_body(repo.id, &row).await?, row.linked);
                    edits.put(to, oid)?;
                }
                Operation::Delete { path } => edits.delete(path)?,
                Operation::DeleteFolder { path } => edits.delete_folder(path)?,
            }
        }
        let tree = self.edit_tree(repo.id, Some(tree), &edits, &mut bundle).await?;
        let author = Signature::new(&request.author, self.clock.now_s());
        let commit = Commit { tree, parents: vec![head], author, message: request.message.clone() };
        Ok((commit, bundle, row.depth + 1))
    }

    /// A parent that is not the last commit: fine if the last one is this very commit, whose answer got lost.
    async fn repeated(
        &self,
        repo: &RepoRow,
        request: &Request,
        linked: &HashMap<Sha256, LinkedFile>,
        head: Oid,
    ) -> Result<Committed> {
        let is = self.commit_object(repo.id, head).await?;
        if let Some(parent) = request.parent.filter(|parent| is.parents.first() == Some(parent))
            && let Ok((again, _, _)) = self.prepare(repo, request, linked, parent).await
            && again.tree == is.tree
            && again.message.trim_end() == is.message
            && again.author.name == is.author.name
        {
            return Ok(Committed { oid: head, was_made: false });
        }
        Err(conflict(&request.ref_name))
    }

    /// The files of the content store that the operations refer to. All must be there, for this repository, with digests
    /// that were computed from their bytes.
    async fn linked(&self, repo: &RepoRow, operations: &[Operation]) -> Result<HashMap<Sha256, LinkedFile>> {
        let mut digests = Vec::new();
        for operation in operations {
            if let Operation::PutLinked { path, sha256, .. } = operation {
                parse_path(path)?;
                digests.push(*sha256);
            }
        }
        let found = self.content.stored_files(&repo.name.scope()?, &digests, None).await?;
        // Of several that differ only in how they were cut, any will do, but always the same.
        Ok(found.into_iter().rev().map(|file| (file.sha256, file)).collect())
    }
}

fn find<'a>(
    linked: &'a HashMap<Sha256, LinkedFile>,
    path: &str,
    sha256: &Sha256,
    bytes: Option<u64>,
) -> Result<&'a LinkedFile> {
    let invalid = |message| Error::new(ErrorKind::Invalid, message);
    let found = linked.get(sha256).ok_or_else(|| {
        invalid(format!(
            "{path:?}: no sound file with SHA-256 {} is in this repository (an upload whose bytes have another digest does not \
             count): upload it, then commit again",
            pointer::hex(sha256)
        ))
    })?;
    match bytes {
        Some(bytes) if bytes != found.bytes => {
            Err(invalid(format!("{path:?} should have {} bytes, {bytes} are declared", found.bytes)))
        }
        _ => Ok(found),
    }
}

/// The repository, or a file that the commit refers to, went while the commit was made.
pub(crate) fn deleted_by_gc(repo: &RepoRow) -> Error {
    let message =
        format!("{} or a file of this commit is no longer there: upload the files again", repo.name);
    Error::new(ErrorKind::Conflict, message)
}

fn conflict(ref_name: &str) -> Error {
    let name = refs::short(ref_name);
    Error::new(ErrorKind::Conflict, format!("{name} has moved: read it again, then commit"))
}

/// How often a commit that names no parent starts again when others are faster.
const COMMIT_TRIES: u32 = 32;

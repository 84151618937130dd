//! Bodies of git objects: from the catalog when they are small, otherwise from the bundle they came in.

use std::sync::Arc;

use bytes::Bytes;

use super::RepoId;
use super::oid::{ObjectKind, Oid};
use super::tree::Tree;
use crate::Store;
use crate::catalog::repo::GitRow;
use crate::error::{Error, ErrorKind, Result};
use crate::objects::ObjectKey;

/// The largest file that is kept as a blob; a larger one is uploaded to the content store.
pub const BLOB_BYTES_MAX: u64 = 10 * 1024 * 1024;

impl Store {
    /// One git object that must be there.
    pub(crate) async fn git_object(&self, repo: RepoId, oid: Oid, kind: ObjectKind) -> Result<GitRow> {
        let rows = self.hub().git_objects(repo, &[oid]).await?;
        let row = rows.into_iter().find(|row| row.kind == kind);
        let message = || format!("no {} {oid} in repository {repo}", kind.name());
        row.ok_or_else(|| Error::new(ErrorKind::NotFound, message()))
    }

    /// The bytes of a git object. Those of a pointer are the pointer, not the file.
    pub async fn git_body(&self, repo: RepoId, row: &GitRow) -> Result<Bytes> {
        let body = match &row.body {
            Some(body) => Bytes::copy_from_slice(body),
            None => {
                let key = ObjectKey::Bundle { repo, commit: row.bundle };
                self.objects.range(&key, row.offset..row.offset + row.bytes).await?
            }
        };
        // Bundles are read far from where they were written: a wrong byte shall not leave here.
        let (kind, checked) = (row.kind, body.clone());
        if self.workers.run(move || Oid::of(kind, &checked)).await? != row.oid {
            return Err(Error::new(ErrorKind::Corrupt, format!("git object {} is not what it was", row.oid)));
        }
        Ok(body)
    }

    /// A folder.
    pub(crate) async fn tree_object(&self, repo: RepoId, oid: Oid) -> Result<Arc<Tree>> {
        let load = async {
            let row = self.git_object(repo, oid, ObjectKind::Tree).await?;
            let body = self.git_body(repo, &row).await?;
            // A folder of 100,000 files is some megabytes: parsed on an async thread it would stall other requests.
            let tree = match body.len() > PARSED_HERE_BYTES_MAX {
                true => self.workers.run(move || Tree::parse(&body)).await??,
                false => Tree::parse(&body)?,
            };
            Ok(Arc::new(tree))
        };
        let loaded = self.trees.try_get_with((repo, oid), load).await;
        // The one error is shared by all who waited for the read.
        loaded.map_err(|error: Arc<Error>| Error::new(error.kind(), error.to_string()))
    }
}

/// A longer tree is parsed on another thread.
const PARSED_HERE_BYTES_MAX: usize = 64 * 1024;

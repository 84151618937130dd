//! Sharing: which other files are made of the same chunks as one.

use std::collections::{BTreeSet, HashMap};

use xet::FileHash;

use crate::access::{Grant, Scope};
use crate::content::Content;
use crate::content::files::{self, Use};
use crate::content::recipe::FileTerm;
use crate::content::rows::FileRow;
use crate::db::batch::BATCH_ROWS;
use crate::error::{Error, ErrorKind, Result};

/// A file and those that have xorbs in common with it.
#[derive(Debug, Clone)]
pub struct Neighbours {
    /// The file.
    pub file: FileRow,
    /// Others, each with the repositories that have it, and the file itself where others have it too. The caller must
    /// check who may see which.
    pub others: Vec<(FileRow, Vec<Scope>)>,
    /// Whether there may be more than were examined.
    pub is_cut: bool,
}

impl Content {
    /// A file the grant's repository may read, and some of those it shares xorbs with.
    pub async fn neighbours(&self, grant: &Grant, file: FileHash) -> Result<Neighbours> {
        let rows = files::files(&self.db, grant.scope(), &[file]).await?;
        let missing = || Error::new(ErrorKind::NotFound, format!("no file {file} for this repository"));
        let row = rows.into_iter().next().ok_or_else(missing)?;
        let mut found = BTreeSet::new();
        let mut is_cut = row.recipe.xorbs.len() > XORBS_MAX;
        for xorb in row.recipe.xorbs.iter().take(XORBS_MAX) {
            let files = files::files_of(&self.db, xorb.key.hash, &[], FILES_MAX).await?;
            is_cut |= files.len() as u64 == FILES_MAX;
            found.extend(files.into_iter().filter(|other| *other != file));
            if found.len() as u64 > FILES_MAX {
                is_cut = true;
                break;
            }
        }
        let files: Vec<FileHash> = found.into_iter().collect();
        let readers = files::readers(&self.db, &files).await?;
        let mut others = Vec::new();
        // Other repositories may have the very same file.
        let twins = files::readers(&self.db, &[file]).await?.into_iter().map(|(_, scope)| scope);
        let twins: Vec<Scope> = twins.filter(|scope| scope != grant.scope()).collect();
        if !twins.is_empty() {
            others.push((row.clone(), twins));
        }
        let mut weight_bytes = 0;
        for files in files.chunks(LAYOUTS_AT_ONCE) {
            if weight_bytes > LAYOUTS_BYTES_MAX {
                is_cut = true;
                break;
            }
            for row in files::recipes(&self.db, files).await? {
                weight_bytes += u64::from(row.recipe.weight_bytes());
                let scopes = readers.iter().filter(|(file, _)| *file == row.hash);
                let scopes = scopes.map(|(_, scope)| scope.clone()).collect();
                others.push((row, scopes));
            }
        }
        Ok(Neighbours { file: row, others, is_cut })
    }
}

impl Content {
    /// Of each of these files, the bytes in xorbs that no other file is made of. Unknown ones are left out.
    pub async fn lonely_bytes(&self, files: &[FileHash]) -> Result<HashMap<FileHash, u64>> {
        let mut lonely = HashMap::new();
        for files in files.chunks(LAYOUTS_AT_ONCE) {
            let rows = files::recipes(&self.db, files).await?;
            let xorbs = rows.iter().flat_map(|row| &row.recipe.xorbs);
            let xorbs: Vec<[u8; 32]> = xorbs.map(|xorb| *xorb.key.hash.as_bytes()).collect();
            let mut uses = HashMap::new();
            for xorbs in xorbs.chunks(BATCH_ROWS) {
                uses.extend(files::uses(&self.db, Use::Xorbs, xorbs).await?);
            }
            for row in rows {
                let is_lonely = |term: &&FileTerm| {
                    let hash = row.recipe.xorb_of(term).key.hash;
                    uses.get(hash.as_bytes()).is_none_or(|count| *count <= 1)
                };
                let terms = row.recipe.terms.iter().filter(is_lonely);
                lonely.insert(row.hash, terms.map(|term| u64::from(term.raw_bytes)).sum());
            }
        }
        Ok(lonely)
    }
}

const XORBS_MAX: usize = 256;

const FILES_MAX: u64 = 64;

const LAYOUTS_AT_ONCE: usize = 8;

const LAYOUTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

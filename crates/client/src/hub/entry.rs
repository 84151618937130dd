//! Entries of a repository, as listings have them.

use serde::{Deserialize, Serialize};
use xet::{FileHash, Sha256};

/// A file or folder of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Entry {
    /// Path in the repository.
    pub path: String,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Length; 0 for folders.
    pub bytes: u64,
    /// Git object id; for a large file, of its pointer.
    pub oid: String,
    /// SHA-256 of a large file.
    pub sha256: Option<Sha256>,
    /// XET hash of a large file.
    pub xet: Option<FileHash>,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Page {
    /// Entries in the order of the hub.
    pub entries: Vec<Entry>,
    /// Cursor for the next call; none at the end.
    pub next: Option<String>,
}

//! Dataset index: a small JSON file that names the packs of a dataset, so that a directory opens without being searched.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::set::PackSet;

/// File name of a dataset index, in the directory of its packs.
pub const DATASET_INDEX_NAME: &str = "dataset.shardpack.json";

/// The packs of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetIndex {
    /// Layout of this file: 1.
    pub version: u32,
    /// Records of all packs.
    pub records: u64,
    /// Bytes of all packs.
    pub bytes: u64,
    /// The packs, in the order of their records.
    pub packs: Vec<IndexedPack>,
}

/// One pack of a dataset index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedPack {
    /// Its path, from the folder the dataset index is in.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
    /// Digest of its keys, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_digest: Option<String>,
}

impl DatasetIndex {
    /// The dataset index of a set. Packs are named by their paths from `folder`, or by their full names where they are not in it.
    pub fn of(set: &PackSet, folder: &Path) -> Self {
        let packs: Vec<_> = set
            .packs()
            .iter()
            .map(|pack| {
                let path = Path::new(pack.name());
                let name = path.strip_prefix(folder).unwrap_or(path);
                let digest = pack.index().key_digest();
                IndexedPack {
                    name: name.to_string_lossy().into_owned(),
                    bytes: pack.index().footer().file_size,
                    records: pack.len(),
                    key_digest: digest.map(|digest| blake3::Hash::from_bytes(digest).to_hex().to_string()),
                }
            })
            .collect();
        Self { version: 1, records: set.len(), bytes: packs.iter().map(|pack| pack.bytes).sum(), packs }
    }

    /// Reads a dataset index.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let metadata = fs::metadata(path).map_err(|error| Error::from(error).in_pack(&name))?;
        if metadata.len() > BYTES_MAX {
            return Err(Error::invalid("a dataset index has at most 256 MiB").in_pack(&name));
        }
        let bytes = fs::read(path).map_err(|error| Error::from(error).in_pack(&name))?;
        let index: Self = serde_json::from_slice(&bytes)
            .map_err(|error| Error::invalid(format!("not a dataset index: {error}")).in_pack(&name))?;
        if index.version != 1 {
            let found = index.version;
            return Err(
                Error::invalid(format!("dataset index version should be 1, found {found}")).in_pack(&name)
            );
        }
        Ok(index)
    }

    /// Appends the paths of its packs. A dataset index names files below its own directory, and no others.
    pub(super) fn paths(&self, path: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
        let folder = path.parent().unwrap_or(Path::new(""));
        for pack in &self.packs {
            let name = Path::new(&pack.name);
            if pack.name.is_empty() || !name.components().all(|part| matches!(part, Component::Normal(_))) {
                let why = format!("names {:?}, which is not below its folder", pack.name);
                return Err(Error::invalid(why).in_pack(&path.display().to_string()));
            }
            paths.push(folder.join(name));
        }
        Ok(())
    }
}

const BYTES_MAX: u64 = 256 << 20;

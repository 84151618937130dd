//! What the catalog holds: plain values, the same for every database.

use xet::{ChunkHash, FileHash, ShardHash, XorbHash};

use crate::content::recipe::{FileRecipe, RecipeXorb};
use crate::db::row::{FromRow, Row, damaged};
use crate::error::{Error, Result};
use crate::ids::{Digest, XorbKey};

/// A stored xorb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorbRow {
    /// Its object.
    pub key: XorbKey,
    /// How long the object is, footer included.
    pub object_bytes: u64,
    /// Raw bytes of all chunks.
    pub raw_bytes: u64,
    /// How many chunks it has.
    pub chunk_count: u32,
    /// Whether it may be referred to.
    pub state: XorbState,
    /// When it was stored, Unix seconds.
    pub created_s: u64,
    /// Last time it was stored, registered or reported in a dedup answer. The grace of garbage collection starts here.
    pub referenced_s: u64,
    /// When its bytes were last read and found whole.
    pub verified_s: u64,
}

/// Whether a xorb may be referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XorbState {
    /// It may.
    Live,
    /// Garbage collection found no use for it. A new reference revives it; otherwise it is deleted.
    Condemned,
    /// Its object is being deleted. It cannot come back under this key.
    Deleting,
    /// Its object was deleted. The row stays for a while, so that the key is not used again too soon.
    Gone,
    /// Its object is damaged or missing. Storing it again repairs it.
    Damaged,
}

/// What became of a xorb that was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddedXorb {
    /// The current row: live, and perhaps of another upload.
    pub row: XorbRow,
    /// Whether this call made it.
    pub was_inserted: bool,
}

/// A registered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// Names it.
    pub hash: FileHash,
    /// What it is made of.
    pub recipe: FileRecipe,
    /// When it was first registered, Unix seconds.
    pub created_s: u64,
}

/// A chunk that dedup queries may find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupRow {
    /// Names it.
    pub chunk: ChunkHash,
    /// A xorb that holds it.
    pub xorb: XorbHash,
    /// Its number there.
    pub chunk_index: u32,
}

/// An answer to a dedup query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DedupHit {
    /// The chunk asked for.
    pub chunk: ChunkHash,
    /// A live xorb that holds it.
    pub xorb: XorbRow,
    /// Its number there.
    pub chunk_index: u32,
}

/// An accepted shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRow {
    /// Names it.
    pub hash: ShardHash,
    /// How long its object is.
    pub object_bytes: u64,
    /// When it was first accepted, Unix seconds.
    pub created_s: u64,
}

impl XorbRow {
    /// The xorb as a recipe names it.
    pub fn recipe_xorb(&self) -> RecipeXorb {
        let object_bytes = u32::try_from(self.object_bytes).expect("a xorb is far less than 4 GiB");
        RecipeXorb { key: self.key, object_bytes, chunk_count: self.chunk_count }
    }

    /// Whether files may be made of it: it is live, or would be as soon as it is referred to.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.state, XorbState::Live | XorbState::Condemned)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state == XorbState::Live
    }

    /// Whether its object is being deleted, or was not long ago.
    pub(crate) fn is_swept(&self) -> bool {
        matches!(self.state, XorbState::Deleting | XorbState::Gone)
    }
}

impl XorbState {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Live => 0,
            Self::Condemned => 1,
            Self::Deleting => 2,
            Self::Gone => 3,
            Self::Damaged => 4,
        }
    }

    fn from_number(number: i64) -> Result<Self> {
        let all = [Self::Live, Self::Condemned, Self::Deleting, Self::Gone, Self::Damaged];
        all.into_iter().find(|state| state.number() == number).ok_or_else(|| damaged("state of a xorb"))
    }
}

impl FromRow for XorbRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let key = XorbKey { hash: XorbHash::from_row(row)?, digest: Digest::new(row.array("digest")?) };
        let object_bytes = row.number("object bytes")?;
        if object_bytes > xet::limits::XORB_STORED_BYTES_MAX {
            return Err(damaged("object bytes"));
        }
        Ok(Self {
            key,
            object_bytes,
            raw_bytes: row.number("raw bytes")?,
            chunk_count: u32::try_from(row.number("chunk count")?).map_err(|_| damaged("chunk count"))?,
            state: XorbState::from_number(row.signed("state of a xorb")?)?,
            created_s: row.number("time created")?,
            referenced_s: row.number("time referenced")?,
            verified_s: row.number("time verified")?,
        })
    }
}

impl FromRow for FileRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let hash = FileHash::from_row(row)?;
        let recipe = FileRecipe::parse(&row.bytes("layout")?)
            .map_err(|source| Error::corrupt(format!("recipe of file {hash}"), source))?;
        Ok(Self { hash, recipe, created_s: row.number("time created")? })
    }
}

impl FromRow for DedupHit {
    fn from_row(row: &mut Row) -> Result<Self> {
        let chunk = ChunkHash::from_row(row)?;
        let index = row.number("chunk number")?;
        let xorb = XorbRow::from_row(row)?;
        let chunk_index = u32::try_from(index).ok().filter(|index| *index < xorb.chunk_count);
        Ok(Self { chunk, xorb, chunk_index: chunk_index.ok_or_else(|| damaged("chunk number"))? })
    }
}

/// The columns of `xorbs`, in the order of the table.
pub(crate) const XORB_COLUMNS: &str =
    "hash, digest, object_bytes, raw_bytes, chunk_count, state, created_s, referenced_s, verified_s";

impl FromRow for ShardRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            hash: ShardHash::from_row(row)?,
            object_bytes: row.number("object bytes")?,
            created_s: row.number("time created")?,
        })
    }
}

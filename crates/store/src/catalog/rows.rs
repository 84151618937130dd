//! What the catalog holds: plain values, the same for every database.

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::access::Scope;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{LaidXorb, Layout};
use crate::objects::{Digest, XorbKey};

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
    /// When somebody last learned of it: stored, registered or told in a dedup answer. Sweep waits from here.
    pub referenced_s: u64,
    /// When its bytes were last read and found whole.
    pub verified_s: u64,
}

/// Whether a xorb may be referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XorbState {
    /// It may.
    Live,
    /// Sweep found no use for it. Whoever refers to it brings it back; otherwise it goes.
    Condemned,
    /// Its object is being deleted. It cannot come back under this key.
    Deleting,
    /// Its object was deleted. The row stays for a while, so that the key is not used again too soon.
    Gone,
    /// Its object is damaged or missing. Storing it again heals it.
    Damaged,
}

/// What became of a xorb that was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedXorb {
    /// The row that stands now: live, and perhaps somebody else's.
    pub row: XorbRow,
    /// Whether this call made it.
    pub was_inserted: bool,
}

/// A file somebody registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// Names it.
    pub hash: FileHash,
    /// What it is made of.
    pub layout: Layout,
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
pub struct DedupHit {
    /// The chunk asked for.
    pub chunk: ChunkHash,
    /// A live xorb that holds it.
    pub xorb: XorbRow,
    /// Its number there.
    pub chunk_index: u32,
}

/// How far a dedup query of a repository sees: what it registered itself, and what others registered whose own policies let
/// it be found from there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reach {
    /// What any repository registered.
    All(Scope),
    /// What repositories of its namespace registered.
    Namespace(Scope),
    /// What the repository itself registered.
    Repo(Scope),
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

/// Everything one shard adds, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The repository that may read the files from now on.
    pub scope: Scope,
    /// The shard.
    pub shard: ShardRow,
    /// Every xorb the shard refers to.
    pub xorbs: Vec<XorbHash>,
    /// Its files.
    pub files: Vec<FileRow>,
    /// What the uploader claims the digests of its files are, for this repository. Nothing relies on them before they are
    /// compared with the bytes.
    pub sha256s: Vec<(Sha256, FileHash)>,
    /// Chunks that dedup queries may find.
    pub dedup: Vec<DedupRow>,
    /// Now, Unix seconds.
    pub now_s: u64,
}

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// It holds.
    Done {
        /// Whether it told the repository of a file, digest or xorb that it did not have. Others' do not count.
        was_inserted: bool,
    },
    /// This xorb is not stored, or no longer; nothing was registered.
    Missing(XorbHash),
    /// The shard's object is being deleted, so it must be stored under another key; nothing was registered.
    ShardSwept,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stored xorbs.
    pub xorbs: u64,
    /// Bytes of their objects.
    pub object_bytes: u64,
    /// Raw bytes of their chunks.
    pub raw_bytes: u64,
    /// Distinct files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Files, once for each repository that may read them.
    pub repo_files: u64,
    /// Digests that lead to files.
    pub sha256s: u64,
    /// Chunks dedup queries may find, once for each repository.
    pub dedup: u64,
    /// Accepted shards.
    pub shards: u64,
}

impl Reach {
    /// The repository that asks.
    pub(crate) fn scope(&self) -> &Scope {
        match self {
            Self::All(scope) | Self::Namespace(scope) | Self::Repo(scope) => scope,
        }
    }
}

impl XorbRow {
    /// The xorb as a layout names it.
    pub fn laid(&self) -> LaidXorb {
        let object_bytes = u32::try_from(self.object_bytes).expect("a xorb is far less than 4 GiB");
        LaidXorb { key: self.key, object_bytes, chunk_count: self.chunk_count }
    }

    /// Whether files may be made of it: it is live, or would be as soon as somebody refers to it.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.state, XorbState::Live | XorbState::Condemned)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state == XorbState::Live
    }

    /// Whether somebody deletes its object, or did not long ago.
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
}

/// The columns of a xorb, in the order of the table.
pub(crate) type XorbColumns = (Vec<u8>, Vec<u8>, i64, i64, i64, i64, i64, i64, i64);

/// Hash, layout, time created.
pub(crate) type FileColumns = (Vec<u8>, Vec<u8>, i64);

/// A chunk's number, then the columns of its xorb.
pub(crate) type HitColumns = (i64, Vec<u8>, Vec<u8>, i64, i64, i64, i64, i64, i64, i64);

/// In the order of [`Counts`].
pub(crate) type CountColumns = (i64, i64, i64, i64, i64, i64, i64, i64, i64);

impl TryFrom<XorbColumns> for XorbRow {
    type Error = Error;

    fn try_from(columns: XorbColumns) -> Result<Self> {
        let (hash, digest, object_bytes, raw_bytes, chunks, state, created, referenced, verified) = columns;
        let key = XorbKey {
            hash: XorbHash::new(array("xorb hash", hash)?),
            digest: Digest::new(array("digest", digest)?),
        };
        let object_bytes = number("object bytes", object_bytes)?;
        let chunk_count = u32::try_from(chunks).map_err(|_| damaged("chunk count"))?;
        let state = match state {
            0 => XorbState::Live,
            1 => XorbState::Condemned,
            2 => XorbState::Deleting,
            3 => XorbState::Gone,
            4 => XorbState::Damaged,
            _ => return Err(damaged("state of a xorb")),
        };
        if object_bytes > xet::limits::XORB_STORED_BYTES_MAX {
            return Err(damaged("object bytes"));
        }
        Ok(Self {
            key,
            object_bytes,
            raw_bytes: number("raw bytes", raw_bytes)?,
            chunk_count,
            state,
            created_s: number("time created", created)?,
            referenced_s: number("time referenced", referenced)?,
            verified_s: number("time verified", verified)?,
        })
    }
}

impl TryFrom<FileColumns> for FileRow {
    type Error = Error;

    fn try_from((hash, layout, created): FileColumns) -> Result<Self> {
        let hash = FileHash::new(array("file hash", hash)?);
        let layout = Layout::parse(&layout)
            .map_err(|source| Error::corrupt(format!("layout of file {hash}"), source))?;
        Ok(Self { hash, layout, created_s: number("time created", created)? })
    }
}

impl DedupHit {
    pub(crate) fn new(chunk: ChunkHash, columns: HitColumns) -> Result<Self> {
        let (index, c0, c1, c2, c3, c4, c5, c6, c7, c8) = columns;
        let xorb = XorbRow::try_from((c0, c1, c2, c3, c4, c5, c6, c7, c8))?;
        let chunk_index = u32::try_from(index).ok().filter(|index| *index < xorb.chunk_count);
        Ok(Self { chunk, xorb, chunk_index: chunk_index.ok_or_else(|| damaged("chunk number"))? })
    }
}

impl TryFrom<CountColumns> for Counts {
    type Error = Error;

    fn try_from(columns: CountColumns) -> Result<Self> {
        let (xorbs, object_bytes, raw_bytes, files, file_bytes, repo_files, sha256s, dedup, shards) = columns;
        let count = |column| number("count", column);
        Ok(Self {
            xorbs: count(xorbs)?,
            object_bytes: count(object_bytes)?,
            raw_bytes: count(raw_bytes)?,
            files: count(files)?,
            file_bytes: count(file_bytes)?,
            repo_files: count(repo_files)?,
            sha256s: count(sha256s)?,
            dedup: count(dedup)?,
            shards: count(shards)?,
        })
    }
}

/// Exactly 32 bytes of a column.
pub(crate) fn array(what: &str, bytes: Vec<u8>) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| damaged(what))
}

/// A column that counts something.
pub(crate) fn number(what: &str, column: i64) -> Result<u64> {
    u64::try_from(column).map_err(|_| damaged(what))
}

/// A number as databases hold it. Ours are lengths and times: none comes near the end.
pub(crate) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the catalog holds an impossible {what}"))
}

//! Journal: which chunks of a file lie in its `.part` already, so that a pull can go on where one was stopped.
//!
//! | offset | size | field              |
//! |-------:|-----:|--------------------|
//! |      0 |    8 | `DRYPART1`         |
//! |      8 |   32 | file hash          |
//! |     40 |      | claims, to the end |
//!
//! A claim:
//!
//! | offset | size | field                                      |
//! |-------:|-----:|--------------------------------------------|
//! |      0 |    4 | CRC-32C of the rest of the claim           |
//! |      4 |    4 | number of chunks, n                        |
//! |      8 |    8 | where in the file the first of them begins |
//! |     16 |  36n | chunks: hash, raw length (4)               |
//!
//! Numbers are little-endian. A claim is appended after its bytes were written. It is no proof: a pull that resumes
//! hashes the bytes again, so a journal that lies, or is ahead of the disk after a power cut, costs a fetch and no more.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xet::cursor::Reader;
use xet::limits::CHUNK_BYTES_MAX;
use xet::{ChunkHash, FileHash, FormatError};

use crate::chunk::Chunk;

/// Chunks of a file that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Offset of the first of them.
    pub(crate) at: u64,
    pub(crate) chunks: Vec<Chunk>,
}

impl Run {
    /// End of the last of them.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum::<u64>()
    }
}

/// A journal that is held by this pull alone.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    claim: Vec<u8>,
}

/// A journal, and what it claims.
#[derive(Debug)]
pub(super) struct OpenJournal {
    pub(super) journal: Journal,
    pub(super) claims: Vec<Run>,
}

impl Journal {
    /// Path of the journal of `part`.
    pub(super) fn path_of(part: &Path) -> PathBuf {
        let mut name = part.as_os_str().to_owned();
        name.push(".journal");
        name.into()
    }

    /// Opens or begins the journal of `file`. `None` when another pull holds it, or what is there is no journal of ours.
    pub(super) fn open(path: &Path, file_hash: FileHash) -> io::Result<Option<OpenJournal>> {
        loop {
            let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Its holder may have finished and removed it in between; then another one may be there now.
            if !is_still_at(&file, path) {
                continue;
            }
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
            let head = bytes.get(..MAGIC.len()).unwrap_or(&bytes);
            if !MAGIC.starts_with(head) {
                return Ok(None);
            }
            let (claims, good) = parse(&bytes, file_hash);
            let good = if good == 0 {
                file.set_len(0)?;
                file.seek(SeekFrom::Start(0))?;
                file.write_all(MAGIC)?;
                file.write_all(file_hash.as_bytes())?;
                HEAD_LEN as u64
            } else {
                good as u64
            };
            file.set_len(good)?;
            file.seek(SeekFrom::Start(good))?;
            return Ok(Some(OpenJournal { journal: Self { file, claim: Vec::new() }, claims }));
        }
    }

    /// Claims chunks that were written at `at`.
    pub(super) fn push(&mut self, at: u64, chunks: &[Chunk]) -> io::Result<()> {
        encode(&mut self.claim, at, chunks);
        self.file.write_all(&self.claim)
    }

    /// Takes back every claim.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(HEAD_LEN as u64)?;
        self.file.seek(SeekFrom::Start(HEAD_LEN as u64)).map(|_| ())
    }
}

fn encode(claim: &mut Vec<u8>, at: u64, chunks: &[Chunk]) {
    claim.clear();
    claim.extend([0; 4]);
    let count = u32::try_from(chunks.len()).expect("a batch has few chunks");
    claim.extend(count.to_le_bytes());
    claim.extend(at.to_le_bytes());
    for chunk in chunks {
        claim.extend(chunk.hash.as_bytes());
        claim.extend(chunk.bytes.to_le_bytes());
    }
    let sum = crc32c::crc32c(&claim[4..]);
    claim[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The claims of a journal of this file, and how many of its bytes make them; 0 when it is none.
fn parse(bytes: &[u8], file: FileHash) -> (Vec<Run>, usize) {
    let r = &mut Reader::new(bytes);
    let is_ours = r.array(MAGIC_NAME).is_ok_and(|magic: [u8; 8]| magic == *MAGIC)
        && r.array("file hash").is_ok_and(|hash| FileHash::new(hash) == file);
    if !is_ours {
        return (Vec::new(), 0);
    }
    let mut claims = Vec::new();
    let mut good = bytes.len() - r.left();
    while let Ok(run) = parse_record(bytes, r) {
        claims.push(run);
        good = bytes.len() - r.left();
    }
    (claims, good)
}

fn parse_record(bytes: &[u8], r: &mut Reader<'_>) -> Result<Run, FormatError> {
    let sum = r.u32("checksum")?;
    let start = bytes.len() - r.left();
    let count = r.u32("number of chunks")?;
    let at = r.u64("offset")?;
    let mut chunks = Vec::new();
    for _ in 0..count {
        let hash = ChunkHash::new(r.array("chunk hash")?);
        chunks.push(Chunk { hash, bytes: r.u32("length of a chunk")? });
    }
    let covered = bytes.get(start..bytes.len() - r.left()).unwrap_or_default();
    let reason = match () {
        () if crc32c::crc32c(covered) != sum => "wrong checksum",
        () if chunks.iter().any(|chunk| !(1..=CHUNK_BYTES_MAX).contains(&chunk.bytes)) => "wrong length",
        () if at.checked_add(u64::from(count) * u64::from(CHUNK_BYTES_MAX)).is_none() => "wrong offset",
        () => return Ok(Run { at, chunks }),
    };
    Err(FormatError::Payload { at: start as u64, reason: reason.to_owned() })
}

#[cfg(unix)]
pub(super) fn is_still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (Ok(here), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    id(here) == id(there)
}

#[cfg(not(unix))]
pub(super) fn is_still_at(_: &File, path: &Path) -> bool {
    path.exists()
}

pub(super) const MAGIC: &[u8; 8] = b"DRYPART1";
const MAGIC_NAME: &str = "magic of a journal";
const HEAD_LEN: usize = 40;
/// The journal of a file of about 8 TiB; more claims than that are not read, and fetched again.
const JOURNAL_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(n: u8) -> Chunk {
        Chunk { hash: ChunkHash::new([n; 32]), bytes: 1000 + u32::from(n) }
    }

    fn sample(runs: usize) -> (FileHash, Vec<Run>, Vec<u8>) {
        let file = FileHash::new([9; 32]);
        let runs: Vec<_> = (0..runs as u8)
            .map(|n| Run { at: u64::from(n) * 10_000, chunks: (0..=n % 4).map(chunk).collect() })
            .collect();
        let mut bytes = [&MAGIC[..], file.as_bytes()].concat();
        let mut claim = Vec::new();
        for run in &runs {
            encode(&mut claim, run.at, &run.chunks);
            bytes.extend(&claim);
        }
        (file, runs, bytes)
    }

    #[test]
    fn claims_survive_the_process_and_are_for_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.part.journal");
        let (file, runs, _) = sample(5);
        let mut opened = Journal::open(&path, file).unwrap().unwrap();
        assert!(opened.claims.is_empty());
        for run in &runs {
            opened.journal.push(run.at, &run.chunks).unwrap();
        }
        assert!(Journal::open(&path, file).unwrap().is_none(), "two pulls cannot hold it");
        drop(opened);
        assert_eq!(Journal::open(&path, file).unwrap().unwrap().claims, runs);
        assert!(Journal::open(&path, FileHash::ZERO).unwrap().unwrap().claims.is_empty());
        assert!(Journal::open(&path, file).unwrap().unwrap().claims.is_empty());
    }

    #[test]
    fn every_truncation_keeps_the_whole_records_before_it() {
        let (file, runs, bytes) = sample(6);
        for len in 0..=bytes.len() {
            let (claims, good) = parse(&bytes[..len], file);
            assert_eq!(claims, runs[..claims.len()], "{len}");
            assert!(good <= len);
        }
        assert_eq!(parse(&bytes, file), (runs, bytes.len()));
    }

    proptest! {
        /// Flipped bits lose claims; they never make new ones.
        #[test]
        fn a_flipped_bit_never_makes_a_claim(at in 0..700_usize, bit in 0..8_u8) {
            let (file, runs, mut bytes) = sample(6);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let (claims, _) = parse(&bytes, file);
            prop_assert!(claims.len() < runs.len());
            prop_assert_eq!(&claims[..], &runs[..claims.len()]);
        }
    }
}

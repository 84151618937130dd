//! Files to terms and xorbs: every chunk is stored once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sha2::Digest;
use xet::compress::Policy;
use xet::merkle::MerkleBuilder;
use xet::shard::{ChunkEntry, FileEntry, ShardBuilder, Term, XorbEntry};
use xet::xorb::{BuildError, Form, SealedXorb, XorbBuilder};
use xet::{ChunkHash, RangeHash, Sha256, XorbHash};

use crate::files::write_one_of_many;
use crate::output::CliError;

/// Takes files one after the other; xorbs are sealed, and written if a directory was given, as they fill.
pub(super) struct Packing {
    builder: XorbBuilder,
    footer: Form,
    directory: Option<PathBuf>,
    /// Location of each chunk: number of its xorb, and its number in that.
    places: HashMap<ChunkHash, (usize, u32)>,
    sealed: Vec<XorbEntry>,
    files: Vec<PackedFile>,
}

/// A file whose terms name xorbs by number: the last one has no hash yet.
struct PackedFile {
    hash: xet::FileHash,
    sha256: Sha256,
    terms: Vec<PackedTerm>,
}

struct PackedTerm {
    xorb: usize,
    start: u32,
    chunks: Vec<ChunkHash>,
    raw_bytes: u32,
}

impl Packing {
    pub(super) fn new(scheme: Policy, footer: Form, directory: Option<PathBuf>) -> Self {
        // The bytes are not written: do not spend time on compressing them.
        let policy = if directory.is_some() { scheme } else { Policy::Always(xet::compress::Scheme::Raw) };
        let (places, sealed, files) = Default::default();
        Self { builder: XorbBuilder::new(policy), footer, directory, places, sealed, files }
    }

    pub(super) fn push_file(&mut self, path: &Path) -> Result<(), CliError> {
        let mut merkle = MerkleBuilder::default();
        let mut sha256 = sha2::Sha256::new();
        let mut terms: Vec<PackedTerm> = Vec::new();
        client::cut::read_chunks(path, |hash, chunk| -> Result<(), CliError> {
            merkle.push(hash, chunk.len() as u64);
            sha256.update(chunk);
            let place = match self.places.get(&hash) {
                Some(place) => *place,
                None => self.store(hash, chunk)?,
            };
            append(&mut terms, place, hash, u32::try_from(chunk.len()).expect("a chunk is at most 128 KiB"));
            Ok(())
        })?;
        let sha256 = Sha256::new(sha256.finalize().into());
        self.files.push(PackedFile { hash: merkle.finish_file(), sha256, terms });
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<ShardBuilder, CliError> {
        self.seal()?;
        let mut shard = ShardBuilder::default();
        for file in self.files {
            let xorb_of =
                |term: &PackedTerm| self.sealed.get(term.xorb).map_or(XorbHash::ZERO, |xorb| xorb.hash);
            let verification = file.terms.iter().map(|term| RangeHash::of(&term.chunks)).collect();
            let terms = file.terms.iter().map(|term| Term {
                xorb: xorb_of(term),
                flags: 0,
                raw_bytes: term.raw_bytes,
                chunks: term.start..term.end(),
            });
            let terms = terms.collect();
            let (hash, sha256) = (file.hash, Some(file.sha256));
            shard.push_file(FileEntry { hash, terms, verification: Some(verification), sha256 });
        }
        for xorb in self.sealed {
            shard.push_xorb(xorb);
        }
        Ok(shard)
    }

    fn store(&mut self, hash: ChunkHash, chunk: &[u8]) -> Result<(usize, u32), CliError> {
        match self.builder.push(hash, chunk) {
            Err(BuildError::Full) => {
                self.seal()?;
                self.builder.push(hash, chunk)
            }
            pushed => pushed,
        }
        .map_err(|error| CliError::Message(error.to_string()))?;
        let place = (self.sealed.len(), self.builder.chunk_count() - 1);
        self.places.insert(hash, place);
        Ok(place)
    }

    fn seal(&mut self) -> Result<(), CliError> {
        let Ok(sealed) = self.builder.seal(self.footer) else { return Ok(()) };
        let stored = self.directory.as_deref().map(|directory| write_xorb(directory, &sealed)).transpose()?;
        let chunk = |(place, start): (&xet::xorb::ChunkPlace, u32)| ChunkEntry {
            hash: place.hash,
            raw_start: start,
            raw_bytes: place.raw_end - start,
            flags: 0,
        };
        let places = sealed.info.chunks();
        let starts = std::iter::once(0).chain(places.iter().map(|place| place.raw_end));
        let narrow = |bytes: u64| u32::try_from(bytes).expect("a xorb is far less than 4 GiB");
        self.sealed.push(XorbEntry {
            hash: sealed.info.hash(),
            flags: 0,
            raw_bytes: narrow(sealed.info.raw_bytes()),
            stored_bytes: narrow(stored.unwrap_or(0)),
            chunks: places.iter().zip(starts).map(chunk).collect(),
        });
        self.builder.recycle(sealed.bytes);
        Ok(())
    }
}

impl PackedTerm {
    fn end(&self) -> u32 {
        self.start + u32::try_from(self.chunks.len()).expect("a xorb has at most 8192 chunks")
    }
}

/// A chunk that follows the last term in its xorb lengthens it; any other begins a term.
fn append(terms: &mut Vec<PackedTerm>, (xorb, start): (usize, u32), hash: ChunkHash, raw_bytes: u32) {
    match terms.last_mut() {
        Some(last) if last.xorb == xorb && last.end() == start => {
            last.chunks.push(hash);
            last.raw_bytes += raw_bytes;
        }
        _ => terms.push(PackedTerm { xorb, start, chunks: vec![hash], raw_bytes }),
    }
}

/// Writes a xorb under its hash and returns its length.
fn write_xorb(directory: &Path, sealed: &SealedXorb) -> Result<u64, CliError> {
    std::fs::create_dir_all(directory).map_err(|error| CliError::io(directory, error))?;
    let path = directory.join(sealed.info.hash().to_string());
    write_one_of_many(&path, |out| Ok(out.write_all(&sealed.bytes)?))?;
    Ok(sealed.bytes.len() as u64)
}

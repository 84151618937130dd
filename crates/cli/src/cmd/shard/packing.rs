//! Files to terms and xorbs: every chunk is stored once.

use std::path::{Path, PathBuf};

use sha2::Digest;
use xet::compress::{Policy, Scheme};
use xet::pack::{ChunkLocation, FilePacker, PackedFile, Packer};
use xet::shard::ShardBuilder;
use xet::xorb::{Form, SealedXorb};
use xet::{ChunkHash, Sha256};

use crate::files::write_one_of_many;
use crate::output::CliError;

/// Takes files one after the other; xorbs are sealed, and written if a directory was given, as they fill.
pub(super) struct Packing {
    packer: Packer,
    footer: Form,
    directory: Option<PathBuf>,
    files: Vec<(PackedFile, Option<Sha256>)>,
}

impl Packing {
    pub(super) fn new(scheme: Policy, footer: Form, directory: Option<PathBuf>) -> Self {
        // Xorbs that are not written need no compression.
        let policy = if directory.is_some() { scheme } else { Policy::Always(Scheme::Raw) };
        Self { packer: Packer::new(policy, u64::MAX), footer, directory, files: Vec::new() }
    }

    pub(super) fn push_file(&mut self, path: &Path) -> Result<(), CliError> {
        let mut file = FilePacker::default();
        let mut sha256 = sha2::Sha256::new();
        client::cut::read_chunks(path, |hash, chunk| -> Result<(), CliError> {
            sha256.update(chunk);
            let location = match self.packer.find(&hash) {
                Some(location) => location,
                None => self.add(hash, chunk)?,
            };
            file.push(location, hash, u32::try_from(chunk.len()).expect("a chunk is at most 128 KiB"));
            Ok(())
        })?;
        self.files.push((file.finish(), Some(Sha256::new(sha256.finalize().into()))));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<ShardBuilder, CliError> {
        self.seal()?;
        Ok(self.packer.finish(self.files))
    }

    fn add(&mut self, hash: ChunkHash, chunk: &[u8]) -> Result<ChunkLocation, CliError> {
        if self.packer.is_full(chunk.len()) {
            self.seal()?;
        }
        self.packer.add(hash, chunk).map_err(CliError::message)
    }

    fn seal(&mut self) -> Result<(), CliError> {
        let Some(sealed) = self.packer.seal(self.footer) else { return Ok(()) };
        let stored = self.directory.as_deref().map(|directory| write_xorb(directory, &sealed)).transpose()?;
        let stored = u32::try_from(stored.unwrap_or(0)).expect("a xorb is far less than 4 GiB");
        self.packer.recycle(sealed.bytes, stored);
        Ok(())
    }
}

/// Writes a xorb under its hash and returns its length.
fn write_xorb(directory: &Path, sealed: &SealedXorb) -> Result<u64, CliError> {
    std::fs::create_dir_all(directory).map_err(|error| CliError::io(directory, error))?;
    let path = directory.join(sealed.info.hash().to_string());
    write_one_of_many(&path, |out| Ok(out.write_all(&sealed.bytes)?))?;
    Ok(sealed.bytes.len() as u64)
}

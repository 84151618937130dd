//! Writing to one pack, or to numbered packs that follow each other.

use std::io;
use std::path::{Path, PathBuf};

use crate::codec::Frame;
use crate::error::Error;
use crate::record::Record;
use crate::sink::{Destination, ShardPackWriter, remove_leftovers};
use crate::write::{PackSummary, WriteOptions};

/// Limits of one pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Before a pack would have more bytes; 0 is never.
    pub pack_bytes_max: u64,
    /// Before a pack would have more records; 0 is never.
    pub pack_records_max: u64,
}

impl Limits {
    /// Whether packs are numbered.
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

/// Writes records to packs.
#[derive(Debug)]
pub struct Rolling {
    path: PathBuf,
    options: WriteOptions,
    limits: Limits,
    threads: usize,
    current: Option<ShardPackWriter>,
    /// Bytes given to the current pack that it may not have counted yet.
    given_bytes: u64,
    given_records: u64,
    number: u64,
    done: Vec<(PathBuf, PackSummary)>,
}

impl Rolling {
    /// Begins with the first pack of that name; with limits, packs are numbered.
    pub fn new(path: &Path, options: WriteOptions, limits: Limits, threads: usize) -> Self {
        Self {
            path: path.to_owned(),
            options,
            limits,
            threads,
            current: None,
            given_bytes: 0,
            given_records: 0,
            number: 0,
            done: Vec::new(),
        }
    }

    /// Removes what killed writers of these packs left behind, and returns the paths.
    pub fn remove_leftovers(&self) -> Vec<PathBuf> {
        let numbered = |name: &str| numbered_name(name, 0);
        let own = self.path.file_name().map(|name| numbered(&name.to_string_lossy()));
        let limits = self.limits;
        remove_leftovers(&self.path, |name| limits.any() && own.as_ref() == Some(&numbered(name)))
    }

    /// Appends a record, perhaps later and perhaps to the next pack.
    pub fn write(&mut self, record: Record) -> Result<(), Error> {
        let bytes = 64
            + record.metadata.len() as u64
            + record.file_entries.iter().map(|entry| entry.data.len() as u64 + 64).sum::<u64>();
        self.writer(bytes)?.write_owned(record)
    }

    /// Appends a record as it is in another pack, byte for byte.
    pub fn write_block(&mut self, block: &[u8], frames: Vec<(u32, Vec<Frame>)>) -> Result<(), Error> {
        self.writer(block.len() as u64)?.write_block(block, frames)
    }

    /// The pack that the next record of about that many bytes goes to.
    fn writer(&mut self, bytes: u64) -> Result<&mut ShardPackWriter, Error> {
        let Limits { pack_bytes_max, pack_records_max } = self.limits;
        if pack_bytes_max > 0
            && self.given_records > 0
            && let Some(writer) = &mut self.current
            && self.given_bytes + bytes > pack_bytes_max
        {
            // Compression may have made them smaller than was feared: ask, once nothing is under way.
            writer.write_pending()?;
            self.given_bytes = writer.bytes_if_finalized();
        }
        let full = (pack_bytes_max > 0 && self.given_bytes + bytes > pack_bytes_max)
            || (pack_records_max > 0 && self.given_records >= pack_records_max);
        if full && self.given_records > 0 {
            self.finish_current()?;
        }
        if self.current.is_none() {
            self.begin(self.threads)?;
        }
        self.given_bytes += bytes;
        self.given_records += 1;
        self.current.as_mut().ok_or_else(|| Error::invalid("there is no pack to write to"))
    }

    fn begin(&mut self, threads: usize) -> Result<(), Error> {
        if self.limits.any() {
            let path = self.path.display();
            match Destination::resolve(&self.path) {
                Ok(Destination::Stdout | Destination::Stream(_)) => {
                    let message =
                        format!("{path}: is a stream, and several packs need a file name to number");
                    return Err(Error::invalid(message));
                }
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                    return Err(Error::from(error).in_pack(&path.to_string()));
                }
                _ => {}
            }
        }
        let path = self.next_path();
        self.current = Some(ShardPackWriter::create_with(&path, self.options.clone(), threads)?);
        Ok(())
    }

    fn next_path(&self) -> PathBuf {
        if !self.limits.any() {
            return self.path.clone();
        }
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.path.with_file_name(numbered_name(&name, self.number))
    }

    fn finish_current(&mut self) -> Result<(), Error> {
        let path = self.next_path();
        if let Some(mut writer) = self.current.take() {
            self.done.push((path, writer.finalize()?));
        }
        self.number += 1;
        (self.given_bytes, self.given_records) = (0, 0);
        Ok(())
    }

    /// Finishes the last pack and returns all. Without a single record there is one empty pack.
    pub fn finish(mut self) -> Result<Vec<(PathBuf, PackSummary)>, Error> {
        if self.current.is_none() && self.done.is_empty() {
            self.begin(1)?;
        }
        if self.current.is_some() {
            self.finish_current()?;
        }
        Ok(self.done)
    }
}

/// The name of pack `number` of a dataset: six digits before the extension, in place of existing ones.
///
/// `train.shardpack` and `train-000000.shardpack` both become `train-000007.shardpack`.
fn numbered_name(name: &str, number: u64) -> String {
    let (stem, extension) = match name.strip_suffix(".shardpack") {
        Some(stem) => (stem, ".shardpack"),
        None => (name, ""),
    };
    let bare = match stem.rsplit_once('-') {
        Some((bare, digits)) if digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => stem,
    };
    format!("{bare}-{number:06}{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_numbered_by_six_digits() {
        for name in ["train.shardpack", "train-000000.shardpack", "train-000123.shardpack"] {
            assert_eq!(numbered_name(name, 7), "train-000007.shardpack");
        }
        assert_eq!(numbered_name("train-12.shardpack", 7), "train-12-000007.shardpack");
        assert_eq!(numbered_name("x", 1_234_567), "x-1234567");
    }
}

//! Reading and writing whole files, with limits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use shardpack::sink::{Destination, OutputFile, remove_leftovers};
use xet::limits;

use crate::output::{CliError, complain, fail};

/// Bytes of one piece, where a file is read piece by piece.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// Sections, and tables and footer after them: nothing longer is a shard.
const SHARD_FILE_BYTES_MAX: u64 = 2 * limits::SHARD_BYTES_MAX;

/// Reads a shard, up to the size limit of shards.
pub(crate) fn read_shard(path: &Path) -> Result<Vec<u8>, CliError> {
    read_at_most(path, SHARD_FILE_BYTES_MAX, "a shard")
}

/// The bytes of a file of at most `max` bytes; `what` says what it should be.
pub(crate) fn read_at_most(path: &Path, max: u64, what: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| CliError::io(path, error))?;
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| CliError::io(path, error))?;
    if bytes.len() as u64 > max {
        let path = path.display();
        return fail(format!("{path}: offset {max}: more bytes than {what} can have"));
    }
    Ok(bytes)
}

/// Hands a file to `each` piece by piece, until that fails.
pub(crate) fn each_piece<X: From<CliError>>(
    path: &Path,
    piece_bytes: usize,
    mut each: impl FnMut(&[u8]) -> Result<(), X>,
) -> Result<(), X> {
    let mut file = File::open(path).map_err(|error| CliError::io(path, error))?;
    let mut buffer = vec![0; piece_bytes];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => each(&buffer[..bytes])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CliError::io(path, error).into()),
        }
    }
}

/// Writes the file that a user named, whole or not at all, and removes what a killed run left of it. See
/// [`Destination`] for what becomes of pipes, devices and links.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    for left in remove_leftovers(path, |_| false) {
        complain(&format_args!("removed {}, left behind by a run that was killed", left.display()));
    }
    write_one_of_many(path, write)
}

/// [`write_whole`] without a search for what killed runs left.
pub(crate) fn write_one_of_many(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let to_stdout = leads_to_stdout(path);
    let named = |error| if to_stdout { CliError::Output(error) } else { CliError::io(path, error) };
    let mut out = io::BufWriter::with_capacity(PIECE_BYTES, OutputFile::create(path).map_err(named)?);
    write(&mut out).map_err(|error| match error {
        CliError::Output(error) => named(error),
        other => other,
    })?;
    let finish = |out: io::BufWriter<OutputFile>| out.into_inner().map_err(io::Error::from)?.finish(false);
    finish(out).map_err(named)
}

/// Whether `path` is standard output, where nothing else may be printed then.
pub(crate) fn leads_to_stdout(path: &Path) -> bool {
    Destination::resolve(path).ok() == Some(Destination::Stdout)
}

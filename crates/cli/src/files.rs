//! Reading and writing whole files, with limits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use xet::limits;

use crate::output::CliError;

/// How much of a file is held at once where it is read piece by piece.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// Sections, and tables and footer after them: nothing longer is a shard.
const SHARD_FILE_BYTES_MAX: u64 = 2 * limits::SHARD_BYTES_MAX;

/// The bytes of a shard, unless there are more than any shard has.
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
        return Err(CliError::Message(format!("{path}: longer than {max} bytes, the most {what} can have")));
    }
    Ok(bytes)
}

/// Hands a file to `each` piece by piece.
pub(crate) fn each_piece(
    path: &Path,
    piece_bytes: usize,
    mut each: impl FnMut(&[u8]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut file = File::open(path).map_err(|error| CliError::io(path, error))?;
    let mut buffer = vec![0; piece_bytes];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => each(&buffer[..bytes])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CliError::io(path, error)),
        }
    }
}

/// Writes a file that is either whole or not there: to a temporary name beside it, then renamed. `-` is standard output.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    if path == Path::new("-") {
        let mut out = io::BufWriter::new(io::stdout());
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    let name = |error| CliError::io(path, error);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut staged = tempfile::NamedTempFile::new_in(directory).map_err(name)?;
    let mut out = io::BufWriter::with_capacity(PIECE_BYTES, staged.as_file_mut());
    write(&mut out)?;
    out.flush().map_err(name)?;
    drop(out);
    make_ordinary(staged.as_file()).map_err(name)?;
    staged.persist(path).map_err(|error| name(error.error))?;
    Ok(())
}

/// Temporary files are private; what we leave behind has the rights an ordinary new file has.
#[cfg(unix)]
fn make_ordinary(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_ordinary(_: &File) -> io::Result<()> {
    Ok(())
}

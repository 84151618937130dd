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
        return Err(CliError::Message(format!("{path}: offset {max}: more bytes than {what} can have")));
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

/// Writes a file that is either whole or not there: to a temporary name beside it, then renamed. `-` is standard output.
/// Pipes and devices are written to as they are; behind a link the file it points to is replaced.
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
    match path.canonicalize() {
        Ok(target) if target.metadata().is_ok_and(|metadata| is_special(&metadata)) => {
            let file = File::options().write(true).open(path).map_err(name)?;
            fill(file, path, write)
        }
        Ok(target) => replace(&target, path, write),
        // There is none yet.
        Err(_) => replace(path, path, write),
    }
}

/// Neither a file nor a folder. Renaming a file over `/dev/null` would be a sad surprise.
fn is_special(metadata: &std::fs::Metadata) -> bool {
    !metadata.is_file() && !metadata.is_dir()
}

/// Puts a new file at `target`, which the user calls `path`.
fn replace(
    target: &Path,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let name = |error| CliError::io(path, error);
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut staged = ordinary_file().tempfile_in(directory).map_err(name)?;
    fill(staged.as_file_mut(), path, write)?;
    staged.persist(target).map_err(|error| name(error.error))?;
    Ok(())
}

fn fill(
    file: impl Write,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut out = io::BufWriter::with_capacity(PIECE_BYTES, file);
    write(&mut out).and_then(|()| Ok(out.flush()?)).map_err(|error| match error {
        CliError::Output(error) => CliError::io(path, error),
        other => other,
    })
}

/// Temporary files are private; what we leave behind has the rights an ordinary new file has.
pub(crate) fn ordinary_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder
}

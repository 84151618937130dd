//! Output files: how whole files get to the path that a user names.
//!
//! | path                                    | what happens                                                        |
//! |-----------------------------------------|---------------------------------------------------------------------|
//! | `-`, `/dev/stdout`, `/dev/fd/1`         | written to standard output                                          |
//! | FIFO, device, socket, other descriptors | opened and written to, never replaced                               |
//! | symbolic link                           | the file it points to is replaced; the link stays                   |
//! | regular file, or nothing                | written under a temporary name, which replaces it once it is whole  |
//! | directory                               | refused                                                             |
//!
//! A temporary file is called `.NAME.PROCESS-NUMBER.part`. Its writer holds a lock on it, so that the next writer of `NAME` can tell
//! what a killed one left behind, and remove that ([`remove_leftovers`]).

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of file that an output path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Something that is written to as it is: a FIFO, a device, an open descriptor.
    Stream(PathBuf),
    /// A regular file, there or not, behind all symbolic links.
    File(PathBuf),
}

impl Destination {
    /// Follows `path` to what would be written. A directory is an error.
    pub fn resolve(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let mut place = path.to_owned();
        for _ in 0..LINKS_MAX {
            match descriptor(&place) {
                Some("1") => return Ok(Self::Stdout),
                Some(_) => return Ok(Self::Stream(place)),
                None => {}
            }
            let kind = match fs::symlink_metadata(&place) {
                Ok(metadata) => metadata.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::new_file(place),
                Err(error) => return Err(error),
            };
            if kind.is_dir() {
                return Err(is_directory());
            }
            if !kind.is_symlink() {
                return Ok(if kind.is_file() { Self::File(place) } else { Self::Stream(place) });
            }
            // An absolute target replaces the whole path.
            place = directory_of(&place).join(fs::read_link(&place)?);
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }

    fn new_file(place: PathBuf) -> io::Result<Self> {
        let ends_in_separator = place.as_os_str().as_encoded_bytes().ends_with(b"/");
        if ends_in_separator || place.file_name().is_none() {
            return Err(io::Error::other("names no file"));
        }
        Ok(Self::File(place))
    }
}

/// The number of the descriptor that a path of this process names.
fn descriptor(path: &Path) -> Option<&str> {
    let path = path.to_str()?;
    let path = match path {
        "/dev/stdin" => return Some("0"),
        "/dev/stdout" => return Some("1"),
        "/dev/stderr" => return Some("2"),
        _ => path,
    };
    let own = format!("/proc/{}/fd/", std::process::id());
    let number =
        ["/dev/fd/", "/proc/self/fd/", &own].into_iter().find_map(|start| path.strip_prefix(start))?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
}

/// A file being written to the path that a user named. Dropped before [`finish`](Self::finish), it leaves a regular file as it was.
#[derive(Debug)]
pub struct OutputFile {
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout(io::Stdout),
    Stream(File),
    StagedFile(StagedFile),
}

impl OutputFile {
    /// Opens what `path` leads to, or a temporary file beside it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let sink = match Destination::resolve(path)? {
            Destination::Stdout => Sink::Stdout(io::stdout()),
            Destination::Stream(path) => {
                // A descriptor may be that of a file with content, which `>>` means to stay.
                let append = path.metadata().is_ok_and(|metadata| metadata.is_file());
                Sink::Stream(File::options().write(true).append(append).open(path)?)
            }
            Destination::File(path) => Sink::StagedFile(StagedFile::create(path)?),
        };
        Ok(Self { sink })
    }

    /// Ends the output; a regular file gets its name. `sync` waits until a regular file is durable.
    pub fn finish(self, sync: bool) -> io::Result<()> {
        match self.sink {
            Sink::Stdout(mut out) => out.flush(),
            Sink::Stream(mut file) => file.flush(),
            Sink::StagedFile(staged) => staged.publish(sync),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Stdout(out) => out.write(bytes),
            Sink::Stream(file) | Sink::StagedFile(StagedFile { file, .. }) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(out) => out.flush(),
            Sink::Stream(file) | Sink::StagedFile(StagedFile { file, .. }) => file.flush(),
        }
    }
}

/// A file under a temporary name, locked. Dropped before it is published, it is removed.
#[derive(Debug)]
struct StagedFile {
    file: File,
    staged: PathBuf,
    target: PathBuf,
    published: bool,
}

impl StagedFile {
    fn create(target: PathBuf) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().ok_or_else(|| io::Error::other("names no file"))?;
        let name = name.to_string_lossy();
        let name = display_name(&name);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let staged = target.with_file_name(format!(".{name}.{}-{number}.part", std::process::id()));
            let file = match create_like(&staged, &target) {
                Ok(file) => file,
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                // Another writer of this name may have taken it for a leftover just before it was locked.
                Ok(()) if fs::symlink_metadata(&staged).is_err() => {}
                Err(TryLockError::WouldBlock) => {}
                // Some file systems have no locks; there nothing is ever taken for a leftover.
                Ok(()) | Err(TryLockError::Error(_)) => {
                    return Ok(Self { file, staged, target, published: false });
                }
            }
        }
    }

    fn publish(mut self, sync: bool) -> io::Result<()> {
        if let Ok(metadata) = self.target.metadata() {
            self.file.set_permissions(metadata.permissions())?;
        }
        if sync {
            self.file.sync_all()?;
        }
        // What came to stand there meanwhile is replaced only if it is a regular file.
        if Destination::resolve(&self.target)? != Destination::File(self.target.clone()) {
            return Err(io::Error::other("is no longer a regular file"));
        }
        fs::rename(&self.staged, &self.target)?;
        self.published = true;
        if sync { sync_directory(directory_of(&self.target)) } else { Ok(()) }
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.published {
            // A failure leaves a hidden file, which the next writer removes.
            let _ = fs::remove_file(&self.staged);
        }
    }
}

/// Creates a file with the permissions of the file it will replace, at most.
fn create_like(staged: &Path, target: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Ok(metadata) = target.metadata() {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        options.mode(metadata.permissions().mode() & 0o777 | 0o600);
    }
    #[cfg(not(unix))]
    let _ = target;
    options.open(staged)
}

/// Removes temporary files that killed writers left beside the output file `path`, and returns their paths. `is_output` says whether
/// a file of that name is written by this run, too.
pub fn remove_leftovers(path: &Path, is_output: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(Destination::File(target)) = Destination::resolve(path) else { return Vec::new() };
    let own = target.file_name().map(|name| display_name(&name.to_string_lossy()).to_owned());
    let Ok(entries) = fs::read_dir(directory_of(&target)) else { return Vec::new() };
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(output) = name.to_str().and_then(output_of_staged) else { continue };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && (own.as_deref() == Some(output) || is_output(output)) && is_abandoned(&entry.path()) {
            removed.push(entry.path());
        }
    }
    removed.sort();
    removed
}

/// Removes a temporary file that no writer holds.
fn is_abandoned(staged: &Path) -> bool {
    let Ok(file) = File::options().write(true).open(staged) else { return false };
    // The lock is held until the name is gone: a writer that creates this very name now sees that.
    file.try_lock().is_ok() && fs::remove_file(staged).is_ok()
}

/// The `NAME` of `.NAME.PROCESS-NUMBER.part`.
fn output_of_staged(name: &str) -> Option<&str> {
    let (output, suffix) = name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.')?;
    let (process, number) = suffix.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(number) && !output.is_empty()).then_some(output)
}

/// As much of a name as leaves room for what a temporary name adds.
fn display_name(name: &str) -> &str {
    name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_directory() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "is a directory; name a file in it")
}

/// Makes the new name itself durable.
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;
/// File systems allow 255 bytes.
const NAME_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests;

//! `shardpack extract`: records to files or to a tar archive.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use shardpack::sink::Destination;
use shardpack::{OnError, ReadOptions, Record};

use super::{content_bytes, open_set, records_bytes};
use crate::output::{CliError, complain, fail};
use crate::packs::http::Network;
use crate::packs::input::group::Group;
use crate::packs::tar::Archive;
use crate::progress::Progress;

/// Write records back as files, or as a tar archive
///
/// Files get the names they had before `create`: KEY.ENTRY, or KEY/ENTRY where folders were records. No name leads out of
/// the output folder, and no file that is there is replaced without --force.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack extract train.shardpack --output images
  shardpack extract train.shardpack --output - | tar t
  shardpack extract train.shardpack --output some --key images17/image194")]
pub(crate) struct Extract {
    /// Packs, patterns or folders
    #[arg(required = true)]
    packs: Vec<String>,

    /// A folder, a .tar file, or - for a tar archive on standard output
    #[arg(long, short)]
    output: PathBuf,

    /// Only records of these keys
    #[arg(long, num_args = 1..)]
    key: Vec<String>,

    /// Replace existing files
    #[arg(long)]
    force: bool,

    /// Skip damaged records, and report them
    #[arg(long)]
    skip_damaged: bool,

    /// Of a pack whose end is missing or damaged, take the records that can be found
    #[arg(long)]
    recover: bool,
}

enum Target {
    Folder(PathBuf),
    Tar(Archive),
}

impl Extract {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let options = ReadOptions {
            on_error: OnError::Raise,
            recover: self.recover,
            entry_bytes_max: u64::MAX,
            ..ReadOptions::default()
        };
        let set = open_set(&self.packs, &options, network)?;
        let total = records_bytes(&set);
        let mut target = self.target()?;
        let mut progress = Progress::new(total);
        let mut damaged = 0_u64;
        if self.key.is_empty() {
            for pack in set.packs() {
                let group = pack.index().writer_fact("group");
                for record in pack.iter_records() {
                    match record {
                        Ok(record) => {
                            progress.add(content_bytes(&record));
                            self.put(&mut target, group.as_deref(), &record)?;
                        }
                        Err(error) if self.skip_damaged && error.kind() == shardpack::ErrorKind::Corrupt => {
                            complain(&error);
                            damaged += 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        for key in &self.key {
            let ordinal =
                set.find(key)?.ok_or_else(|| CliError::message(format!("there is no record {key:?}")))?;
            let (pack, ordinal) = set.locate(ordinal)?;
            let group = pack.index().writer_fact("group");
            self.put(&mut target, group.as_deref(), &pack.read_record(ordinal)?)?;
        }
        if let Target::Tar(tar) = target {
            tar.finish()?;
        }
        Ok(ExitCode::from(u8::from(damaged > 0)))
    }

    fn target(&self) -> Result<Target, CliError> {
        let to_archive = match Destination::resolve(&self.output) {
            Ok(Destination::Stdout | Destination::Stream(_)) => true,
            Ok(Destination::File(path)) => {
                let is_archive = self.output.extension().is_some_and(|extension| extension == "tar");
                if is_archive && path.exists() && !self.force {
                    return Err(exists(&self.output));
                }
                is_archive
            }
            // A folder, or an error that making it tells better.
            Err(_) => false,
        };
        if to_archive {
            return Ok(Target::Tar(Archive::create(self.output.clone())?));
        }
        fs::create_dir_all(&self.output).map_err(|error| CliError::io(&self.output, error))?;
        Ok(Target::Folder(self.output.clone()))
    }

    fn put(&self, target: &mut Target, group: Option<&str>, record: &Record) -> Result<(), CliError> {
        for entry in &record.file_entries {
            let name = Group::join(group, &record.key, &entry.file_name);
            check_name(&name).map_err(|why| {
                let (key, entry) = (&record.key, &entry.file_name);
                CliError::message(format!(
                    "entry {entry:?} of record {key:?} would be the file {name:?}: {why}"
                ))
            })?;
            match target {
                Target::Tar(tar) => tar.append(&name, &entry.data)?,
                Target::Folder(folder) => write_below(folder, &name, &entry.data, self.force)?,
            }
        }
        Ok(())
    }
}

/// Only names of plain parts, each a name on every system we run on.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    let path = Path::new(name);
    if name.is_empty() || name.contains('\0') || name.contains("//") || name.ends_with('/') {
        return Err("that is no file name");
    }
    if !path.components().all(|part| matches!(part, Component::Normal(_)))
        || name.split('/').any(|part| part == ".")
    {
        return Err("that is not below the output folder");
    }
    if cfg!(windows) && name.contains(['\\', ':']) {
        return Err("that is no file name");
    }
    Ok(())
}

fn exists(path: &Path) -> CliError {
    CliError::message(format!("{} is there already; use --force to replace it", path.display()))
}

/// Writes a file below `folder`. A symbolic link on the way is not followed.
fn write_below(folder: &Path, name: &str, data: &[u8], force: bool) -> Result<(), CliError> {
    let path = folder.join(name);
    let mut parent = folder.to_owned();
    let parts: Vec<&str> = name.split('/').collect();
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        parent.push(part);
        match fs::symlink_metadata(&parent) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                return fail(format!("{} is not a folder, so {name:?} cannot be below it", parent.display()));
            }
            Err(_) => fs::create_dir(&parent).map_err(|error| CliError::io(&parent, error))?,
        }
    }
    if force && let Ok(metadata) = fs::symlink_metadata(&path) {
        if !metadata.is_file() {
            let why = "is no regular file, and only those are replaced";
            return fail(format!("{}: {why}", path.display()));
        }
        fs::remove_file(&path).map_err(|error| CliError::io(&path, error))?;
    }
    let mut file = File::options().write(true).create_new(true).open(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return exists(&path);
        }
        CliError::io(&path, error)
    })?;
    file.write_all(data).map_err(|error| CliError::io(&path, error))
}

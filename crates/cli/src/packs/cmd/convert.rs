//! `shardpack convert`: from and to other formats.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use shardpack::content_type::ContentTypes;
use shardpack::set::{PackSet, resolve};
use shardpack::sink::{Destination, Limits, Rolling, remove_leftovers};
use shardpack::{ReadOptions, WriteOptions};

use super::{Compression, check_output, content_bytes, create, extract, open_set, records_bytes, report};
use crate::output::{CliError, fail, report_leftovers};
use crate::packs::formats::{image_folder, mds, parquet, tfrecord};
use crate::packs::http::Network;
use crate::packs::input::group::Group;
use crate::packs::input::{Records, webdataset};
use crate::packs::tar::Archive;
use crate::progress::Progress;
use crate::size;

/// Convert from WebDataset, ImageFolder, TFRecord, MDS or Parquet, and to WebDataset or Parquet
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack convert 'wds-{000..009}.tar' --output train.shardpack --shard-size 2GB
  shardpack convert --from image-folder imagenet/train --output train.shardpack
  shardpack convert --from mds mds_folder --output train.shardpack
  shardpack convert 'train-*.parquet' --output train.shardpack
  shardpack convert train.shardpack --to webdataset --output train.tar")]
pub(crate) struct Convert {
    /// Files, patterns or folders of the other format; packs with --to webdataset or parquet
    #[arg(required = true)]
    input: Vec<String>,

    /// Input format [default: from the file names]
    #[arg(long, value_enum)]
    from: Option<Origin>,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    to: To,

    /// The pack, tar archive or Parquet file to write; with --shard-size, its name with six digits for each
    #[arg(long, short)]
    output: PathBuf,

    /// Compression of entries, for packs
    #[arg(long, value_enum)]
    compression: Option<Compression>,

    /// Start a new pack or archive before one exceeds this many bytes
    #[arg(long, value_parser = size::parse)]
    shard_size: Option<u64>,

    /// Print which packs were written as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Origin {
    /// Tar archives whose neighbouring files of one name are one sample
    Webdataset,
    /// A folder of one folder for each class
    ImageFolder,
    /// TFRecord files: each record one entry, its fields too when it is a tf.train.Example
    Tfrecord,
    /// A folder of MDS shards with their index.json
    Mds,
    /// Parquet files: each row one record, each column one entry
    Parquet,
    /// Packs
    Shardpack,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum To {
    #[default]
    Shardpack,
    Webdataset,
    Parquet,
}

impl Convert {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let output = check_output(&self.output, self.json)?;
        self.expect_used()?;
        let content_types = ContentTypes::default();
        match self.to {
            To::Webdataset => self.to_webdataset(&output, network),
            To::Parquet => self.to_parquet(network),
            To::Shardpack => {
                let (records, group) = self.open(&content_types, network)?;
                let options = WriteOptions {
                    compression: self.compression.unwrap_or_default().into(),
                    group: Some(group.name().to_owned()),
                    record_bytes_max: u64::MAX,
                    ..WriteOptions::default()
                };
                let limits = Limits { pack_bytes_max: self.shard_size.unwrap_or(0), pack_records_max: 0 };
                let mut packs = Rolling::new(&self.output, options, limits, create::default_threads());
                report_leftovers(&packs.remove_leftovers());
                let mut progress = Progress::new(0);
                for record in records {
                    let record = record?;
                    progress.add(content_bytes(&record));
                    packs.write(record)?;
                }
                drop(progress);
                report(&packs.finish()?, self.json)
            }
        }
    }

    /// Refuses options without an effect on the output format.
    fn expect_used(&self) -> Result<(), CliError> {
        if self.to == To::Shardpack {
            return Ok(());
        }
        let other = self.from.is_some_and(|from| from != Origin::Shardpack);
        match (other, self.compression, self.json) {
            (true, ..) => fail("--from: only packs become Parquet files or archives; convert to packs first"),
            (_, Some(_), _) => fail("--compression: only for packs"),
            (.., true) => fail("--json: only for packs"),
            _ => Ok(()),
        }
    }

    fn open<'a>(
        &'a self,
        content_types: &'a ContentTypes,
        network: &Network,
    ) -> Result<(Records<'a>, Group), CliError> {
        let from = match self.from {
            Some(from) => from,
            None => guess(&self.input)?,
        };
        let paths: Vec<PathBuf> = match from {
            // Folders, and not the packs in them.
            Origin::ImageFolder | Origin::Mds => self.input.iter().map(PathBuf::from).collect(),
            _ => resolve(&self.input)?,
        };
        Ok(match from {
            Origin::Webdataset => {
                let open = move |path: PathBuf| -> Records<'a> {
                    match File::open(&path) {
                        Ok(file) => {
                            let name = path.display().to_string();
                            let file = io::BufReader::with_capacity(1 << 20, file);
                            webdataset::records(file, &name, Group::FirstDot, content_types, u64::MAX).records
                        }
                        Err(error) => Box::new(std::iter::once(Err(CliError::io(&path, error)))),
                    }
                };
                (Box::new(paths.into_iter().flat_map(open)), Group::FirstDot)
            }
            Origin::ImageFolder => (image_folder::records(&paths, content_types)?, Group::FirstDot),
            Origin::Tfrecord => (tfrecord::records(paths, content_types), Group::FirstDot),
            Origin::Parquet => (parquet::records(paths, content_types), Group::FirstDot),
            Origin::Mds => (mds::records(&paths, content_types)?, Group::FirstDot),
            Origin::Shardpack => {
                let set = open_set(&self.input, &ReadOptions::default(), network)?;
                let all: Vec<_> = set.packs().to_vec();
                let records = all.into_iter().flat_map(|pack| {
                    (0..pack.len()).map(move |ordinal| pack.read_record(ordinal).map_err(CliError::from))
                });
                (Box::new(records), Group::FirstDot)
            }
        })
    }

    /// The packs to convert, and a bar for their bytes.
    fn open_packs(&self, network: &Network) -> Result<(PackSet, Progress), CliError> {
        let options =
            ReadOptions { entry_bytes_max: u64::MAX, record_bytes_max: u64::MAX, ..ReadOptions::default() };
        let set = open_set(&self.input, &options, network)?;
        let bytes = records_bytes(&set);
        Ok((set, Progress::new(bytes)))
    }

    fn to_parquet(&self, network: &Network) -> Result<ExitCode, CliError> {
        if self.shard_size.is_some() {
            return fail("--shard-size is for packs and archives; convert packs to Parquet one by one");
        }
        let (set, mut progress) = self.open_packs(network)?;
        report_leftovers(&remove_leftovers(&self.output, |_| false));
        parquet::write(&set, &self.output, |record| {
            progress.add(content_bytes(record));
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn to_webdataset(&self, output: &Destination, network: &Network) -> Result<ExitCode, CliError> {
        if self.shard_size.is_some() && !matches!(output, Destination::File(_)) {
            let path = self.output.display();
            return fail(format!("{path}: is a stream, and several archives need a file name to number"));
        }
        let (set, mut progress) = self.open_packs(network)?;
        let (mut number, mut given) = (0, 0_u64);
        let mut archive: Option<Archive> = None;
        for record in set.iter_records() {
            let record = record?;
            let bytes = record.file_entries.iter().map(|entry| 1024 + entry.data.len() as u64).sum::<u64>();
            progress.add(bytes);
            if self.shard_size.is_some_and(|max| given > 0 && given + bytes > max) {
                if let Some(archive) = archive.take() {
                    archive.finish()?;
                }
                number += 1;
                given = 0;
            }
            if archive.is_none() {
                archive = Some(Archive::create(self.archive_path(number))?);
            }
            given += bytes;
            let Some(archive) = &mut archive else { continue };
            for entry in &record.file_entries {
                let name = Group::join(None, &record.key, &entry.file_name);
                extract::check_name(&name)
                    .map_err(|why| CliError::message(format!("the file would be called {name:?}: {why}")))?;
                archive.append(&name, &entry.data)?;
            }
        }
        let archive = match archive {
            Some(archive) => archive,
            None => Archive::create(self.archive_path(number))?,
        };
        archive.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    fn archive_path(&self, number: u64) -> PathBuf {
        if self.shard_size.is_none() {
            return self.output.clone();
        }
        let stem =
            self.output.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        self.output.with_file_name(format!("{stem}-{number:06}.tar"))
    }
}

fn guess(inputs: &[String]) -> Result<Origin, CliError> {
    let first = inputs.first().map(String::as_str).unwrap_or_default();
    let path = Path::new(first);
    if path.is_dir() {
        return Ok(if path.join("index.json").is_file() { Origin::Mds } else { Origin::ImageFolder });
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("tar") => Ok(Origin::Webdataset),
        Some("parquet") => Ok(Origin::Parquet),
        Some("tfrecord" | "tfrecords") => Ok(Origin::Tfrecord),
        Some("shardpack") => Ok(Origin::Shardpack),
        _ => fail(format!("{first}: cannot tell what this is; use --from")),
    }
}

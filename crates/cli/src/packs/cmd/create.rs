//! `shardpack create`: packs from files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use shardpack::content_type::ContentTypes;
use shardpack::sink::{Limits, Rolling};
use shardpack::{Record, WriteOptions};

use super::{Compression, check_output, content_bytes, pair, report};
use crate::clock::now_s;
use crate::output::{CliError, complain, fail, report_leftovers};
use crate::packs::input::folder::{self, FolderOptions};
use crate::packs::input::group::Group;
use crate::packs::input::{Input, manifest, webdataset};
use crate::progress::Progress;
use crate::size;

/// Create packs from a folder, a manifest or a tar archive
///
/// Files of one sample become one record: by default those whose paths are the same up to the first dot of the file name.
/// Records are sorted by key, so the same files give the same pack, byte for byte.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack create --input images --output train.shardpack
  shardpack create --input images --output train-000000.shardpack --record-size-limit 1GB \\
      --compression lz4 --metadata creator=\"MyName\" training=\"true\"
  shardpack create --input images --output train.shardpack --shard-size 2GB --compression auto
  tar c images | shardpack create --input - --output train.shardpack
  shardpack create --input images --output - | ssh backup 'cat > train.shardpack'")]
pub(crate) struct Create {
    /// A folder, a tar archive, a manifest (.jsonl), or - for a tar archive from standard input
    #[arg(long, short, required_unless_present = "manifest")]
    input: Option<PathBuf>,

    /// JSON lines of key, metadata and files, in place of --input
    #[arg(long, conflicts_with = "input")]
    manifest: Option<PathBuf>,

    /// The pack to write, or - for standard output; with --shard-size or --shard-count, its name with six digits for each
    #[arg(long, short)]
    output: PathBuf,

    /// Which files are one record
    #[arg(long, value_enum, default_value_t, conflicts_with = "manifest")]
    group: Group,

    /// Limit of bytes in a record, e.g. 1GB
    #[arg(long, value_parser = size::parse, default_value = "1GB")]
    record_size_limit: u64,

    /// Action for records above the limit
    #[arg(long, value_enum, default_value_t)]
    oversize: Oversize,

    /// Compression of entries; what does not shrink is stored uncompressed
    #[arg(long, value_enum, default_value_t)]
    compression: Compression,

    /// Longer entries are compressed in frames of this many bytes, so that a part can be read alone; 0 is never
    #[arg(long, value_parser = size::parse, default_value = "4MiB")]
    chunk: u64,

    /// Metadata of the pack
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, num_args = 1..)]
    metadata: Vec<(String, String)>,

    /// Start a new pack before one exceeds this many bytes
    #[arg(long, value_parser = size::parse)]
    shard_size: Option<u64>,

    /// Divide the records evenly into this many packs
    #[arg(long, conflicts_with = "shard_size", value_parser = clap::value_parser!(u64).range(1..))]
    shard_count: Option<u64>,

    /// Data and records begin at multiples of this many bytes, a power of two up to 4096
    #[arg(long, default_value_t = 8)]
    align: u64,

    /// The column this pack is of
    #[arg(long, default_value = "")]
    column: String,

    /// Add a BLAKE3 digest of every record
    #[arg(long)]
    digests: bool,

    /// Store the time of creation; the same files then no longer give the same bytes
    #[arg(long)]
    timestamp: bool,

    /// The content type of an extension, e.g. las=application/vnd.las
    #[arg(long, value_name = "EXT=TYPE", value_parser = pair, num_args = 1..)]
    content_type: Vec<(String, String)>,

    /// Take files and folders whose names begin with a dot
    #[arg(long, conflicts_with = "manifest")]
    hidden: bool,

    /// Follow symbolic links; without it they are left out
    #[arg(long, conflicts_with = "manifest")]
    follow_links: bool,

    /// Threads that compress; all cores unless given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Oversize {
    /// Fail
    #[default]
    Error,
    /// Skip the record, and report it
    Skip,
    /// Divide its entries into records KEY, KEY#1, KEY#2 ...
    Split,
}

impl Create {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        check_output(&self.output, self.json)?;
        let content_types = ContentTypes::new(&self.content_type);
        let folder_options = FolderOptions {
            group: self.group,
            hidden: self.hidden,
            follow_links: self.follow_links,
            content_types: content_types.clone(),
        };
        let input = self.open(&folder_options, &content_types)?;
        let limits = self.limits(&input)?;
        let threads = self.threads.map_or_else(default_threads, usize::from);
        let mut packs = Rolling::new(&self.output, self.write_options()?, limits, threads);
        report_leftovers(&packs.remove_leftovers());
        let mut progress = Progress::new(input.total_bytes);
        for record in input.records {
            let record = record?;
            progress.add(content_bytes(&record));
            self.write(record, &mut packs)?;
        }
        let done = packs.finish()?;
        drop(progress);
        report(&done, self.json)
    }

    fn open<'a>(
        &self,
        folder_options: &'a FolderOptions,
        content_types: &'a ContentTypes,
    ) -> Result<Input<'a>, CliError> {
        let input = match (&self.manifest, &self.input) {
            (Some(manifest), _) => return manifest::records(manifest, content_types),
            (None, Some(input)) => input,
            (None, None) => return fail("give --input or --manifest"),
        };
        if (self.hidden || self.follow_links) && !input.is_dir() {
            return fail("--hidden and --follow-links are for folders");
        }
        let extension = input.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let max = self.record_size_limit;
        if input == Path::new("-") {
            return Ok(webdataset::records(
                io::stdin().lock(),
                "standard input",
                self.group,
                content_types,
                max,
            ));
        }
        if self.group == Group::Manifest || extension.as_deref() == Some("jsonl") {
            return manifest::records(input, content_types);
        }
        if extension.as_deref() == Some("tar") && input.is_file() {
            let file = File::open(input).map_err(|error| CliError::io(input, error))?;
            let name = input.display().to_string();
            return Ok(webdataset::records(io::BufReader::new(file), &name, self.group, content_types, max));
        }
        folder::records(input, folder_options)
    }

    fn limits(&self, input: &Input<'_>) -> Result<Limits, CliError> {
        let mut limits = Limits { pack_bytes_max: self.shard_size.unwrap_or(0), pack_records_max: 0 };
        if let Some(count) = self.shard_count {
            let records = input.record_count.ok_or_else(|| {
                CliError::message(
                    "--shard-count needs a folder, where records can be counted first; use --shard-size",
                )
            })?;
            limits.pack_records_max = records.div_ceil(count).max(1);
        }
        Ok(limits)
    }

    fn write_options(&self) -> Result<WriteOptions, CliError> {
        let mut metadata = serde_json::Map::new();
        for (name, value) in &self.metadata {
            if metadata.insert(name.clone(), value.as_str().into()).is_some() {
                return fail(format!("--metadata has {name} twice"));
            }
        }
        let metadata =
            (!metadata.is_empty()).then(|| serde_json::Value::from(metadata).to_string().into_bytes());
        Ok(WriteOptions {
            compression: self.compression.into(),
            chunk_bytes: usize::try_from(self.chunk).unwrap_or(usize::MAX),
            align_bytes: self.align,
            metadata,
            column: self.column.clone(),
            digests: self.digests,
            created: self.timestamp.then(|| server::iso_time(now_s()).replace(".000Z", "Z")),
            group: Some(if self.manifest.is_some() { Group::Manifest } else { self.group }.name().to_owned()),
            record_bytes_max: self.record_size_limit,
        })
    }

    fn write(&self, record: Record, packs: &mut Rolling) -> Result<(), CliError> {
        let bytes = record_bytes(&record);
        if bytes <= self.record_size_limit {
            return Ok(packs.write(record)?);
        }
        match self.oversize {
            Oversize::Skip => {
                complain(&format!("record {:?} is left out: {bytes} bytes", record.key));
                Ok(())
            }
            Oversize::Split => {
                for part in split(&record, self.record_size_limit)? {
                    packs.write(part)?;
                }
                Ok(())
            }
            Oversize::Error => fail(format!(
                "record {:?} has {bytes} bytes, more than --record-size-limit {}; raise it, or use --oversize skip or split",
                record.key, self.record_size_limit
            )),
        }
    }
}

/// Bytes of a record before compression.
fn record_bytes(record: &Record) -> u64 {
    let entry = |entry: &shardpack::FileEntry| {
        (entry.data.len() + entry.file_name.len() + entry.content_type.len()) as u64 + 48
    };
    40 + (record.key.len() + record.metadata.len()) as u64
        + record.file_entries.iter().map(entry).sum::<u64>()
}

/// Divides the entries of a record. One that is too large alone is an error.
fn split(record: &Record, max: u64) -> Result<Vec<Record>, CliError> {
    let empty = |number: usize| Record {
        key: if number == 0 { record.key.clone() } else { format!("{}#{number}", record.key) },
        metadata: if number == 0 { record.metadata.clone() } else { Vec::new() },
        meta_format: record.meta_format,
        flags: record.flags,
        file_entries: Vec::new(),
    };
    let mut parts = vec![empty(0)];
    for entry in record.file_entries.clone() {
        let number = parts.len();
        let Some(last) = parts.last_mut() else { break };
        last.file_entries.push(entry);
        if record_bytes(last) <= max {
            continue;
        }
        let entry = last.file_entries.pop();
        let mut next = empty(number);
        next.file_entries.extend(entry);
        if record_bytes(&next) > max {
            let name = next.file_entries.first().map(|entry| entry.file_name.clone()).unwrap_or_default();
            return fail(format!(
                "entry {name:?} of record {:?} is larger than --record-size-limit {max} by itself",
                record.key
            ));
        }
        if last.file_entries.is_empty() {
            *last = Record { key: last.key.clone(), ..next };
        } else {
            parts.push(next);
        }
    }
    Ok(parts)
}

pub(super) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

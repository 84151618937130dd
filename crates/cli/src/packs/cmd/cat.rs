//! `shardpack cat`: one entry, or one record as JSON.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use shardpack::{ErrorKind, ReadOptions, ShardPackReader};

use super::open_set;
use crate::output::{CliError, fail, print_json, stdout};
use crate::packs::describe;
use crate::packs::http::Network;

/// Write one entry to standard output, or one record as JSON
///
/// The record is found by its key, its number or its offset. Only its bytes are read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack cat train.shardpack images17/image194 left.jpg > left.jpg
  shardpack cat train.shardpack images17/image194
  shardpack cat train.shardpack --ordinal 123 meta.json")]
pub(crate) struct Cat {
    /// A pack, a pattern or a folder
    pack: String,

    /// The key of the record; with --ordinal or --offset, the entry
    name: Option<String>,

    /// The entry; without it the record is shown as JSON
    entry: Option<String>,

    /// The number of the record
    #[arg(long, conflicts_with = "offset")]
    ordinal: Option<u64>,

    /// Offset of the record, as `list --long` shows it
    #[arg(long)]
    offset: Option<u64>,

    /// Of a pack whose end is missing or damaged, look for the record
    #[arg(long)]
    recover: bool,
}

impl Cat {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let options =
            ReadOptions { recover: self.recover, entry_bytes_max: u64::MAX, ..ReadOptions::default() };
        let set = open_set(std::slice::from_ref(&self.pack), &options, network)?;
        let by_number = self.ordinal.is_some() || self.offset.is_some();
        if by_number && self.entry.is_some() {
            return fail("with --ordinal or --offset only the entry is named");
        }
        let (pack, ordinal) = match (self.ordinal, self.offset, &self.name) {
            (Some(ordinal), _, _) => set.locate(ordinal)?,
            (None, Some(offset), _) => {
                let pack = set.packs().first().ok_or_else(|| CliError::message("there is no pack"))?;
                let ordinal = pack.index().ordinal_at(offset);
                let missing = || CliError::message(format!("{}: no record begins at {offset}", pack.name()));
                (pack, ordinal.ok_or_else(missing)?)
            }
            (None, None, Some(key)) => {
                let missing = || CliError::message(format!("{}: there is no record {key:?}", self.pack));
                set.locate(set.find(key)?.ok_or_else(missing)?)?
            }
            (None, None, None) => {
                return fail("name the record: by key, --ordinal or --offset");
            }
        };
        let entry = if by_number { &self.name } else { &self.entry };
        let mut out = stdout();
        match entry {
            Some(entry) => out.write_all(&read_entry(pack, ordinal, entry)?)?,
            None => {
                let description =
                    pack.with_record(ordinal, |record| describe::record(record, ordinal, TEXT_BYTES_MAX))?;
                print_json(&mut out, &description)?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn read_entry(pack: &ShardPackReader, ordinal: u64, entry: &str) -> Result<Vec<u8>, CliError> {
    let read = pack.read_entry(ordinal, entry);
    read.map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return error.into();
        }
        let names = pack.with_record(ordinal, |record| {
            Ok(record.entries().filter_map(|entry| Some(entry.ok()?.name().to_owned())).collect::<Vec<_>>())
        });
        CliError::message(format!("{error}; it has {}", names.unwrap_or_default().join(", ")))
    })
}

/// Texts up to this are shown.
const TEXT_BYTES_MAX: u64 = 64 << 10;

//! `shardpack merge`: packs into one, with overlays and columns.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use shardpack::set::{Columns, MissingPolicy, OverlaidSet, PackSet};
use shardpack::sink::{Limits, Rolling};
use shardpack::{ReadOptions, ShardPackReader, WriteOptions};

use super::{Compression, check_output, create, open_set, report};
use crate::output::{CliError, fail, report_leftovers};
use crate::packs::http::Network;
use crate::progress::Progress;
use crate::size;

/// Join packs, apply overlays to them, or put columns side by side
///
/// Records are copied byte for byte, unless overlays or columns change them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack merge 'part-*.shardpack' --output whole.shardpack
  shardpack merge base.shardpack --apply fixes.shardpack --output new.shardpack
  shardpack merge left.shardpack --column right.shardpack --output both.shardpack
  shardpack merge 'part-*.shardpack' --sort key --shard-size 2GB --output train.shardpack")]
pub(crate) struct Merge {
    /// Packs, patterns or folders, in the order their records shall have
    #[arg(required = true)]
    packs: Vec<String>,

    /// The pack to write, or - for standard output; with --shard-size, its name with six digits for each
    #[arg(long, short)]
    output: PathBuf,

    /// Overlays to apply, the oldest first
    #[arg(long, num_args = 1.., group = "anew")]
    apply: Vec<String>,

    /// Columns whose entries are added to the records of the same key
    #[arg(long, num_args = 1.., group = "anew")]
    column: Vec<String>,

    /// Action where a column has no record of a key
    #[arg(long, value_enum, default_value_t, requires = "column", conflicts_with = "apply")]
    missing: MissingArg,

    /// Sort records
    #[arg(long, value_enum)]
    sort: Option<Sort>,

    /// Compression of entries that --apply or --column write anew; others are copied as they are
    #[arg(long, value_enum, default_value_t, requires = "anew")]
    compression: Compression,

    /// Start a new pack before one exceeds this many bytes
    #[arg(long, value_parser = size::parse)]
    shard_size: Option<u64>,

    /// Allow the same key more than once
    #[arg(long)]
    allow_repeated: bool,

    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum MissingArg {
    /// Fail
    #[default]
    Error,
    /// The record is left out
    Skip,
    /// The record has the entries there are
    Partial,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    /// By key, bytewise
    Key,
}

impl Merge {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        check_output(&self.output, self.json)?;
        let options =
            ReadOptions { entry_bytes_max: u64::MAX, record_bytes_max: u64::MAX, ..ReadOptions::default() };
        let base = open_set(&self.packs, &options, network)?;
        let limits = Limits { pack_bytes_max: self.shard_size.unwrap_or(0), pack_records_max: 0 };
        let mut packs =
            Rolling::new(&self.output, self.write_options(&base), limits, create::default_threads());
        report_leftovers(&packs.remove_leftovers());
        let mut progress =
            Progress::new(base.packs().iter().map(|pack| pack.index().footer().records_end()).sum());
        if !self.apply.is_empty() {
            let overlays =
                self.apply.iter().map(|overlay| open_set(std::slice::from_ref(overlay), &options, network));
            let layered = OverlaidSet::new(base, overlays.collect::<Result<_, _>>()?)?;
            for ordinal in self.order(layered.len(), |ordinal| Ok(layered.read_record(ordinal)?.key))? {
                packs.write(layered.read_record(ordinal)?)?;
            }
        } else if !self.column.is_empty() {
            let missing = match self.missing {
                MissingArg::Error => MissingPolicy::Error,
                MissingArg::Skip => MissingPolicy::Skip,
                MissingArg::Partial => MissingPolicy::Partial,
            };
            let others =
                self.column.iter().map(|column| open_set(std::slice::from_ref(column), &options, network));
            let keys = base.clone();
            let columns = Columns::join(base, others.collect::<Result<_, _>>()?, missing);
            for ordinal in self.order(columns.len(), |ordinal| Ok(keys.read_key_of(ordinal)?))? {
                if let Some(record) = columns.read_record(ordinal)? {
                    packs.write(record)?;
                }
            }
        } else {
            for ordinal in self.order(base.len(), |ordinal| Ok(base.read_key_of(ordinal)?))? {
                let (pack, within) = base.locate(ordinal)?;
                progress.add(copy(pack, within, &mut packs)?);
            }
        }
        drop(progress);
        report(&packs.finish()?, self.json)
    }

    /// The numbers of all records in the order they are written. The same key twice is an error that names it.
    fn order(
        &self,
        len: u64,
        key_of: impl Fn(u64) -> Result<String, CliError>,
    ) -> Result<Vec<u64>, CliError> {
        if self.allow_repeated && self.sort.is_none() {
            return Ok((0..len).collect());
        }
        let mut keys =
            (0..len).map(|ordinal| Ok((key_of(ordinal)?, ordinal))).collect::<Result<Vec<_>, CliError>>()?;
        keys.sort_unstable();
        if !self.allow_repeated
            && let Some([first, second]) = keys.array_windows().find(|[first, second]| first.0 == second.0)
        {
            let (key, first, second) = (&first.0, first.1, second.1);
            return fail(format!(
                "the key {key:?} is that of records {first} and {second}; use --apply for changes, or --allow-repeated"
            ));
        }
        let mut ordinals: Vec<u64> = keys.into_iter().map(|(_, ordinal)| ordinal).collect();
        if self.sort.is_none() {
            ordinals.sort_unstable();
        }
        Ok(ordinals)
    }

    fn write_options(&self, base: &PackSet) -> WriteOptions {
        let mut options = options_like(base.packs());
        options.compression = self.compression.into();
        options
    }
}

/// Copies a record byte for byte and returns its size.
pub(super) fn copy(pack: &ShardPackReader, ordinal: u64, packs: &mut Rolling) -> Result<u64, CliError> {
    let mut block = Vec::new();
    pack.with_record(ordinal, |record| {
        block.extend_from_slice(record.block());
        Ok(())
    })?;
    packs.write_block(&block, pack.frames_of(ordinal))?;
    Ok(block.len() as u64)
}

/// Metadata, column, grouping and alignment of the first pack: a copy keeps them.
pub(super) fn options_like(packs: &[ShardPackReader]) -> WriteOptions {
    let mut options = WriteOptions { record_bytes_max: u64::MAX, ..WriteOptions::default() };
    if let Some(first) = packs.first() {
        options.metadata = first.index().user_metadata().map(<[u8]>::to_vec);
        first.index().column().clone_into(&mut options.column);
        options.group = first.index().writer_fact("group");
        options.digests = first.index().record_digest(0).is_some();
    }
    options
}

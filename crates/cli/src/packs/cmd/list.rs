//! `shardpack list`: what is in packs.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use clap::Args;
use shardpack::{ReadOptions, ShardPackReader, Verify};

use super::open_set;
use crate::output::{CliError, stdout};
use crate::packs::describe;
use crate::packs::http::Network;

/// List the records of packs
///
/// One key per line. --long adds number, offset, size and entries; --json prints one document for each pack. Headers are
/// compared with their CRCs; `verify` checks the data too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack list train.shardpack
  shardpack list 'train-{000000..000973}.shardpack' --long --range 0-100
  shardpack list train.shardpack --json | jq '.records[].key'")]
pub(crate) struct List {
    /// Packs, patterns or folders
    #[arg(required = true)]
    packs: Vec<String>,

    /// Number, offset, size and entries too
    #[arg(long, short)]
    long: bool,

    /// Only records of these numbers, from FIRST up to END, counted through all packs
    #[arg(long, value_name = "FIRST-END", value_parser = parse_range)]
    range: Option<Range<u64>>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Of a pack whose end is missing or damaged, list the records that can be found
    #[arg(long)]
    recover: bool,
}

impl List {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let options = ReadOptions { verify: Verify::Header, recover: self.recover, ..ReadOptions::default() };
        let set = open_set(&self.packs, &options, network)?;
        let mut out = stdout();
        let mut first = 0;
        for pack in set.packs() {
            let wanted = self.range.clone().unwrap_or(0..u64::MAX);
            let range = wanted.start.saturating_sub(first)..wanted.end.saturating_sub(first).min(pack.len());
            if self.json {
                list_json(pack, range, &mut out)?;
            } else {
                self.list_text(pack, range, &mut out)?;
            }
            first += pack.len();
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    fn list_text(
        &self,
        pack: &ShardPackReader,
        range: Range<u64>,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        let mut ordinal = range.start;
        let mut records = pack.records(range);
        while let Some(seen) = records.next_with(|record| {
            if !self.long {
                return Ok(record.key().to_owned());
            }
            let mut entries = Vec::new();
            for entry in record.entries() {
                let entry = entry?;
                entries.push(format!("{}:{}", entry.name(), entry.file_size()));
            }
            let (offset, size, key) = (record.offset(), record.block().len(), record.key());
            Ok(format!("{ordinal:>8} {offset:>14} {size:>12}  {key}  {}", entries.join(" ")))
        }) {
            writeln!(out, "{}", seen?)?;
            ordinal += 1;
        }
        Ok(())
    }
}

/// One document, written record by record: a pack may have millions.
fn list_json(pack: &ShardPackReader, range: Range<u64>, out: &mut impl Write) -> Result<(), CliError> {
    let metadata: serde_json::Value =
        pack.index().user_metadata().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    let (name, count) = (serde_json::Value::from(pack.name()), pack.len());
    let bytes = pack.index().footer().file_size;
    write!(
        out,
        "{{\"pack\":{name},\"bytes\":{bytes},\"record_count\":{count},\"metadata\":{metadata},\"records\":["
    )?;
    let mut ordinal = range.start;
    let mut records = pack.records(range.clone());
    while let Some(seen) = records.next_with(|record| describe::record(record, ordinal, 0)) {
        let record = seen?;
        if ordinal > range.start {
            out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *out, &record).map_err(std::io::Error::from)?;
        ordinal += 1;
    }
    Ok(out.write_all(b"]}\n")?)
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once('-').ok_or("a range is FIRST-END")?;
    let number = |text: &str, default| match text {
        "" => Ok(default),
        text => text.parse::<u64>().map_err(|_| format!("{text:?} is no number")),
    };
    Ok(number(first, 0)?..number(end, u64::MAX)?)
}

//! `shardpack stats`: counts, sizes and types of packs.

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shardpack::{ReadOptions, Verify};
use xet::chunk::Chunker;

use super::{names, open_set, records_bytes, source};
use crate::output::{CliError, print_result};
use crate::packs::http::Network;
use crate::progress::Progress;
use crate::size;

/// Count records, entries and bytes of packs, by entry name
///
/// With --against, estimates how many bytes of these packs a XET store would have to take that has the others already.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack stats train.shardpack
  shardpack stats 'train-*.shardpack' --json
  shardpack stats new.shardpack --against old.shardpack")]
pub(crate) struct Stats {
    /// Packs, patterns or folders
    #[arg(required = true)]
    packs: Vec<String>,

    /// Estimate what is new against these packs
    #[arg(long, num_args = 1..)]
    against: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Sums {
    packs: u64,
    bytes: u64,
    records: u64,
    entries: u64,
    payload_bytes: u64,
    stored_bytes: u64,
    metadata_bytes: u64,
    /// Bytes for each record that are neither content nor metadata.
    overhead_bytes_per_record: f64,
    compression_ratio: f64,
    record_bytes_min: u64,
    record_bytes_mean: u64,
    record_bytes_max: u64,
    keys_unique: bool,
    keys_sorted: bool,
    names: Vec<NameSums>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_bytes: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
struct NameSums {
    name: String,
    content_type: String,
    count: u64,
    payload_bytes: u64,
    stored_bytes: u64,
    compressions: BTreeMap<&'static str, u64>,
}

impl Stats {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let mut sums = self.count(network)?;
        if !self.against.is_empty() {
            sums.new_bytes = Some(self.new_bytes(network)?);
        }
        print_result(self.json, &sums, lines(&sums))?;
        Ok(ExitCode::SUCCESS)
    }

    fn count(&self, network: &Network) -> Result<Sums, CliError> {
        let options = ReadOptions { verify: Verify::Header, ..ReadOptions::default() };
        let set = open_set(&self.packs, &options, network)?;
        let mut sums =
            Sums { keys_unique: true, keys_sorted: true, record_bytes_min: u64::MAX, ..Sums::default() };
        let mut names: BTreeMap<(String, String), NameSums> = BTreeMap::new();
        let total: u64 = records_bytes(&set);
        let mut progress = Progress::new(total);
        for pack in set.packs() {
            let footer = pack.index().footer();
            sums.packs += 1;
            sums.bytes += footer.file_size;
            sums.keys_unique &= footer.features.keys_unique();
            sums.keys_sorted &= footer.features.keys_sorted();
            let mut records = pack.iter_records();
            while let Some(seen) = records.next_with(|record| {
                let bytes = record.block().len() as u64;
                progress.add(bytes);
                sums.records += 1;
                sums.metadata_bytes += record.metadata().len() as u64;
                sums.record_bytes_min = sums.record_bytes_min.min(bytes);
                sums.record_bytes_max = sums.record_bytes_max.max(bytes);
                for entry in record.entries() {
                    let entry = entry?;
                    let (payload, stored) = (entry.file_size(), entry.stored().len() as u64);
                    sums.entries += 1;
                    sums.payload_bytes += payload;
                    sums.stored_bytes += stored;
                    // Beyond some, names are data and not kinds of entries.
                    let key = (entry.name().to_owned(), entry.content_type().to_owned());
                    let key = if names.len() < NAMES_MAX || names.contains_key(&key) {
                        key
                    } else {
                        ("(others)".to_owned(), String::new())
                    };
                    let name = names.entry(key).or_default();
                    name.count += 1;
                    name.payload_bytes += payload;
                    name.stored_bytes += stored;
                    *name.compressions.entry(entry.compression().name()).or_default() += 1;
                }
                Ok(())
            }) {
                seen?;
            }
        }
        if sums.records == 0 {
            sums.record_bytes_min = 0;
        }
        sums.record_bytes_mean = total.checked_div(sums.records).unwrap_or(0);
        let overhead = sums.bytes.saturating_sub(sums.stored_bytes + sums.metadata_bytes);
        sums.overhead_bytes_per_record = overhead as f64 / sums.records.max(1) as f64;
        sums.compression_ratio = sums.payload_bytes as f64 / sums.stored_bytes.max(1) as f64;
        let named = |((name, content_type), sums)| NameSums { name, content_type, ..sums };
        sums.names = names.into_iter().map(named).collect();
        Ok(sums)
    }

    /// Bytes in chunks that the other packs do not have.
    fn new_bytes(&self, network: &Network) -> Result<u64, CliError> {
        let mut known = HashSet::new();
        each_chunk(&self.against, network, |hash, _| {
            known.insert(hash);
        })?;
        let mut new_bytes = 0;
        each_chunk(&self.packs, network, |hash, bytes| {
            if known.insert(hash) {
                new_bytes += bytes;
            }
        })?;
        Ok(new_bytes)
    }
}

fn each_chunk(
    inputs: &[String],
    network: &Network,
    mut each: impl FnMut([u8; 8], u64),
) -> Result<(), CliError> {
    for name in names(inputs)? {
        let source = source(&name, network)?;
        let fail = |error| CliError::Io(name.clone(), error);
        let size = source.size().map_err(fail)?;
        let mut progress = Progress::new(size);
        let mut chunker = Chunker::new();
        let (mut at, mut cuts) = (0, Vec::new());
        // What was read and belongs to no finished chunk, and where it begins.
        let (mut held, mut held_at) = (Vec::new(), 0_u64);
        while at < size {
            let mut piece = vec![0; usize::try_from((size - at).min(PIECE_BYTES)).unwrap_or(0)];
            source.read_at(at, &mut piece).map_err(fail)?;
            at += piece.len() as u64;
            progress.set(at);
            chunker.push(&piece, &mut cuts);
            held.extend_from_slice(&piece);
            for cut in cuts.drain(..) {
                let len = usize::try_from(cut - held_at).unwrap_or(usize::MAX).min(held.len());
                each(short_hash(&held[..len]), len as u64);
                held.drain(..len);
                held_at = cut;
            }
        }
        if !held.is_empty() {
            each(short_hash(&held), held.len() as u64);
        }
    }
    Ok(())
}

/// Enough to tell chunks of one dataset apart, and small enough to keep all of them.
fn short_hash(chunk: &[u8]) -> [u8; 8] {
    let hash = xet::hash::ChunkHash::of(chunk);
    let mut short = [0; 8];
    short.copy_from_slice(&hash.as_bytes()[..8]);
    short
}

fn lines(sums: &Sums) -> Vec<String> {
    let [all, mean, max, payload, stored] =
        [sums.bytes, sums.record_bytes_mean, sums.record_bytes_max, sums.payload_bytes, sums.stored_bytes]
            .map(size::show);
    let yes = |flag| if flag { "yes" } else { "no" };
    let mut lines = vec![
        format!("packs      {}", sums.packs),
        format!("bytes      {} ({all})", sums.bytes),
        format!("records    {} of {mean} on average, {max} at most", sums.records),
        format!("entries    {}", sums.entries),
        format!("content    {payload} stored in {stored}, ratio {:.2}", sums.compression_ratio),
        format!("overhead   {:.1} bytes a record", sums.overhead_bytes_per_record),
        format!("keys       unique: {}, sorted: {}", yes(sums.keys_unique), yes(sums.keys_sorted)),
    ];
    lines.extend(sums.new_bytes.map(|new_bytes| {
        let share = 100.0 * new_bytes as f64 / sums.bytes.max(1) as f64;
        format!("new        {} ({share:.2} %)", size::show(new_bytes))
    }));
    lines.extend(sums.names.iter().map(
        |NameSums { name, content_type, count, payload_bytes, compressions, .. }| {
            let compressions = compressions.iter().map(|(scheme, count)| format!("{scheme}:{count}"));
            let (bytes, compressions) =
                (size::show(*payload_bytes), compressions.collect::<Vec<_>>().join(" "));
            format!("  {count:>10}  {bytes:>10}  {name}  {content_type}  {compressions}")
        },
    ));
    lines
}

const NAMES_MAX: usize = 100;
const PIECE_BYTES: u64 = 4 << 20;

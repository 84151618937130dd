//! `shardpack split`: packs into several, by count, size, keys or chance.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use shardpack::ReadOptions;
use shardpack::sink::{Limits, Rolling};

use super::{check_output, merge, open_set, records_bytes, report};
use crate::output::{CliError, fail, report_leftovers};
use crate::packs::http::Network;
use crate::progress::Progress;
use crate::size;

/// Divide packs: by number of records, by size, by a list of keys, or by a fraction of them
///
/// Records are copied byte for byte. A fraction is taken by the hash of the key: the same keys go the same way whenever and
/// wherever they are divided.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("how").required(true).args(["count", "size", "keys", "fraction"]),
    after_help = "Examples:
  shardpack split big.shardpack --size 2GB --output train.shardpack
  shardpack split all.shardpack --fraction 0.1 --output val.shardpack --rest train.shardpack
  shardpack split all.shardpack --keys chosen.txt --output chosen.shardpack"
)]
pub(crate) struct Split {
    /// Packs, patterns or folders
    #[arg(required = true)]
    packs: Vec<String>,

    /// The pack to write, or - for standard output; with --count or --size, its name with six digits for each
    #[arg(long, short)]
    output: PathBuf,

    /// Output for records not selected by --keys or --fraction; without it they are left out
    #[arg(long, conflicts_with_all = ["count", "size"])]
    rest: Option<PathBuf>,

    /// Records of each pack
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Bytes of each pack at most
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,

    /// A file of keys, one a line
    #[arg(long)]
    keys: Option<PathBuf>,

    /// The share of records, between 0 and 1
    #[arg(long, value_parser = parse_fraction)]
    fraction: Option<f64>,

    /// Seed of the choice
    #[arg(long, default_value_t = 0, requires = "fraction", conflicts_with_all = ["count", "size", "keys"])]
    seed: u64,

    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

impl Split {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let output = check_output(&self.output, self.json)?;
        if let Some(rest) = &self.rest
            && check_output(rest, self.json)? == output
        {
            return fail("--output and --rest are the same; give each pack a name of its own");
        }
        let set = open_set(&self.packs, &ReadOptions::default(), network)?;
        let limits =
            Limits { pack_bytes_max: self.size.unwrap_or(0), pack_records_max: self.count.unwrap_or(0) };
        let options = merge::options_like(set.packs());
        let mut chosen = Rolling::new(&self.output, options.clone(), limits, 1);
        let mut rest = self.rest.as_ref().map(|path| Rolling::new(path, options, Limits::default(), 1));
        report_leftovers(&chosen.remove_leftovers());
        report_leftovers(&rest.as_ref().map(Rolling::remove_leftovers).unwrap_or_default());
        let mut wanted = self.wanted_keys()?;
        let mut progress = Progress::new(records_bytes(&set));
        for ordinal in 0..set.len() {
            let (pack, within) = set.locate(ordinal)?;
            let takes = match (&mut wanted, self.fraction) {
                (Some(wanted), _) => wanted.remove(&pack.read_key_of(within)?),
                (None, Some(fraction)) => takes(&pack.read_key_of(within)?, self.seed, fraction),
                (None, None) => true,
            };
            if takes {
                progress.add(merge::copy(pack, within, &mut chosen)?);
            } else if let Some(rest) = &mut rest {
                progress.add(merge::copy(pack, within, rest)?);
            }
        }
        drop(progress);
        if let Some(missing) = wanted.iter().flatten().min() {
            return fail(format!("there is no record {missing:?}, which is in the list of keys"));
        }
        let mut done = chosen.finish()?;
        if let Some(rest) = rest {
            done.extend(rest.finish()?);
        }
        report(&done, self.json)
    }

    fn wanted_keys(&self) -> Result<Option<HashSet<String>>, CliError> {
        let Some(path) = &self.keys else { return Ok(None) };
        let text = fs::read_to_string(path).map_err(|error| CliError::io(path, error))?;
        Ok(Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()))
    }
}

/// Whether a key is among that share of all keys. A larger share has every key of a smaller.
fn takes(key: &str, seed: u64, fraction: f64) -> bool {
    let permutation = shardpack::order::Permutation::new(1 << 32, &[seed, hash(key)]);
    permutation.at(0) as f64 / (1_u64 << 32) as f64 <= fraction && fraction > 0.0
}

/// FNV-1a: simple enough to be repeated elsewhere, and mixed well by what follows.
fn hash(key: &str) -> u64 {
    key.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => Err(format!("{text:?} is not between 0 and 1")),
    }
}

//! `shardpack repair`: what is left of a damaged pack, as a new one.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use shardpack::recover::Loss;
use shardpack::repair::{RepairOptions, repair};
use shardpack::sink::{Destination, remove_leftovers};

use super::{check_output, source};
use crate::output::{CliError, fail, print_json, report_leftovers, stdout, without_nulls};
use crate::packs::http::Network;
use crate::progress::Progress;

/// Write everything sound of a damaged or cut pack to a new pack, and list what was lost
///
/// Records are copied byte for byte. The damaged pack is not changed. Ends with 0 even when something was lost: the list
/// says what.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  shardpack repair cut.shardpack --output whole.shardpack")]
pub(crate) struct Repair {
    /// The damaged pack
    pack: PathBuf,

    /// The pack to write, or - for standard output
    #[arg(long, short)]
    output: PathBuf,

    /// Of records with damaged entries, keep the others
    #[arg(long)]
    keep_partial: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Repair {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        if let (Ok(from), Ok(to)) = (self.pack.canonicalize(), self.output.canonicalize())
            && from == to
        {
            return fail("a pack is never repaired in place; give another --output");
        }
        let destination = check_output(&self.output, self.json)?;
        report_leftovers(&remove_leftovers(&self.output, |_| false));
        let source = source(&self.pack.display().to_string(), network)?;
        let mut progress = Progress::new(source.size().unwrap_or(0));
        let options = RepairOptions { keep_partial: self.keep_partial };
        let repaired = repair(&source, &self.output, &options, |bytes| progress.set(bytes))?;
        drop(progress);
        let mut out: Box<dyn Write> = match destination {
            Destination::Stdout => Box::new(std::io::stderr()),
            _ => Box::new(stdout()),
        };
        if self.json {
            let loss = |loss: &Loss| {
                let bytes = loss.range.end - loss.range.start;
                without_nulls(
                    json!({"offset": loss.range.start, "bytes": bytes, "key": loss.key, "why": loss.why}),
                )
            };
            let lost: Vec<_> = repaired.lost.iter().map(loss).collect();
            let (recovered, partial) = (repaired.recovered, repaired.partial);
            print_json(
                &mut out,
                &json!({"pack": self.output, "kept": recovered, "partial": partial, "lost": lost}),
            )?;
        } else {
            let lost = repaired.lost.len();
            writeln!(out, "{}: {} records kept, {lost} losses", self.output.display(), repaired.recovered)?;
            for loss in &repaired.lost {
                let record = loss.key.as_ref().map(|key| format!("record {key:?}: ")).unwrap_or_default();
                let (offset, bytes) = (loss.range.start, loss.range.end - loss.range.start);
                writeln!(out, "  lost {bytes} bytes at offset {offset}: {record}{}", loss.why)?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

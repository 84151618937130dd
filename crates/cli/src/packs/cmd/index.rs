//! `shardpack index`: the index of a dataset.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use shardpack::ReadOptions;
use shardpack::set::{DATASET_INDEX_NAME, DatasetIndex};
use shardpack::sink::{Destination, OutputFile, remove_leftovers};

use super::{check_output, open_set};
use crate::output::{CliError, report_leftovers, stdout};
use crate::packs::http::Network;

/// Print or write the index of a dataset: its packs with their sizes, counts and key digests
///
/// A folder that has one, called dataset.shardpack.json, opens without being searched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack index 'data/train-*.shardpack'
  shardpack index data --write")]
pub(crate) struct Index {
    /// Packs, patterns or folders
    #[arg(required = true)]
    packs: Vec<String>,

    /// Write it beside the first pack, as dataset.shardpack.json
    #[arg(long, conflicts_with = "output")]
    write: bool,

    /// Write it to this file
    #[arg(long, short)]
    output: Option<PathBuf>,
}

impl Index {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let set = open_set(&self.packs, &ReadOptions::default(), network)?;
        let first = set.packs().first().map(|pack| Path::new(pack.name()).to_owned()).unwrap_or_default();
        let beside = first.parent().unwrap_or(Path::new("")).to_owned();
        let output = if self.write { Some(beside.join(DATASET_INDEX_NAME)) } else { self.output.clone() };
        let destination = output.as_deref().map(|path| check_output(path, false)).transpose()?;
        // Packs are named as seen from the dataset index; a stream is nowhere.
        let folder = match (&output, destination) {
            (Some(path), Some(Destination::File(_))) => path.parent().unwrap_or(&beside),
            _ => &beside,
        };
        let index = DatasetIndex::of(&set, folder);
        let mut text = serde_json::to_string_pretty(&index).map_err(std::io::Error::from)?;
        text.push('\n');
        match output {
            None => {
                let mut out = stdout();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            Some(path) => {
                report_leftovers(&remove_leftovers(&path, |_| false));
                // A reader sees the old dataset index or the new one.
                let write =
                    |mut out: OutputFile| out.write_all(text.as_bytes()).and_then(|()| out.finish(true));
                OutputFile::create(&path).and_then(write).map_err(|error| CliError::io(&path, error))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

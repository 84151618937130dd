//! The verbs, one file each.

mod cat;
mod convert;
mod create;
mod extract;
mod index;
mod list;
mod merge;
mod repair;
mod split;
mod stats;
mod verify;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use serde_json::json;
use shardpack::set::{PackSet, expand_braces, resolve};
use shardpack::sink::Destination;
use shardpack::source::FileSource;
use shardpack::write::PackSummary;
use shardpack::{Method, ReadOptions, Record, Source};

use crate::manual::{Completions, Man};
use crate::output::{CliError, fail, print_json, stdout};
use crate::packs::http::Network;
use crate::size;

/// Datasets in packs: make, read, check and change ShardPack files.
#[derive(Debug, Parser)]
#[command(name = "shardpack", version, max_term_width = 100, propagate_version = true)]
pub(crate) struct ShardPack {
    #[command(subcommand)]
    verb: Verb,

    #[command(flatten)]
    network: Network,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(Box<create::Create>),
    List(list::List),
    Cat(cat::Cat),
    Extract(extract::Extract),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Stats(stats::Stats),
    Merge(merge::Merge),
    Split(split::Split),
    Index(index::Index),
    Convert(convert::Convert),
    #[command(
        after_help = "Example:\n  shardpack completions bash > ~/.local/share/bash-completion/completions/shardpack"
    )]
    Completions(Completions),
    #[command(after_help = "Examples:\n  shardpack man | man -l -\n  shardpack man ~/.local/share/man/man1")]
    Man(Man),
}

impl ShardPack {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let network = &self.network;
        match self.verb {
            Verb::Create(verb) => verb.run(),
            Verb::List(verb) => verb.run(network),
            Verb::Cat(verb) => verb.run(network),
            Verb::Extract(verb) => verb.run(network),
            Verb::Verify(verb) => verb.run(network),
            Verb::Repair(verb) => verb.run(network),
            Verb::Stats(verb) => verb.run(network),
            Verb::Merge(verb) => verb.run(network),
            Verb::Split(verb) => verb.run(network),
            Verb::Index(verb) => verb.run(network),
            Verb::Convert(verb) => verb.run(network),
            Verb::Completions(verb) => verb.run(Self::command()),
            Verb::Man(verb) => verb.run(Self::command()),
        }
    }
}

/// Compression argument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// Entries as they are
    #[default]
    None,
    Gzip,
    /// LZ4 frames
    Lz4,
    Zstd,
    /// Zstd where content type and gain speak for it
    Auto,
}

impl From<Compression> for Method {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Gzip => Self::Gzip,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd => Self::Zstd,
            Compression::Auto => Self::Auto,
        }
    }
}

/// Opens a pack by its path or URL.
fn source(path: &str, network: &Network) -> Result<Arc<dyn Source>, CliError> {
    if is_address(path) {
        return Ok(Arc::new(network.source(path)?));
    }
    Ok(Arc::new(FileSource::open(path).map_err(|error| CliError::Io(path.to_owned(), error))?))
}

/// Opens all packs that inputs name: files, patterns, folders, addresses.
fn open_set(inputs: &[String], options: &ReadOptions, network: &Network) -> Result<PackSet, CliError> {
    let sources = names(inputs)?.iter().map(|name| source(name, network)).collect::<Result<Vec<_>, _>>()?;
    Ok(PackSet::from_sources(&sources, options)?)
}

/// The packs that inputs name, in their order.
fn names(inputs: &[String]) -> Result<Vec<String>, CliError> {
    let mut names = Vec::new();
    for input in inputs {
        if is_address(input) {
            names.extend(expand_braces(input)?);
        } else {
            names.extend(resolve(&[input])?.iter().map(|path| path.display().to_string()));
        }
    }
    Ok(names)
}

/// Bytes of all records in a set.
fn records_bytes(set: &PackSet) -> u64 {
    set.packs().iter().map(|pack| pack.index().footer().records_end()).sum()
}

/// Bytes of the entries of a record.
fn content_bytes(record: &Record) -> u64 {
    record.file_entries.iter().map(|entry| entry.data.len() as u64).sum()
}

fn is_address(input: &str) -> bool {
    input.starts_with("http://") || input.starts_with("https://")
}

/// `name=value` of an option.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} should be NAME=VALUE")),
    }
}

/// Resolves what `output` leads to before any work is done. Where that is standard output, nothing else can be printed there.
fn check_output(output: &Path, json: bool) -> Result<Destination, CliError> {
    let destination = Destination::resolve(output).map_err(|error| CliError::io(output, error))?;
    if json && destination == Destination::Stdout {
        return fail("--json: standard output takes what --output writes, and nothing else");
    }
    Ok(destination)
}

/// Reports the packs that were written: on standard output, or on standard error where a pack went there.
fn report(done: &[(PathBuf, PackSummary)], json: bool) -> Result<ExitCode, CliError> {
    let to_stdout =
        |(path, _): &(PathBuf, PackSummary)| Destination::resolve(path).ok() == Some(Destination::Stdout);
    let mut out: Box<dyn Write> =
        if done.iter().any(to_stdout) { Box::new(io::stderr()) } else { Box::new(stdout()) };
    let mut values = Vec::new();
    for (path, PackSummary { bytes, statistics, .. }) in done {
        let (records, entries, pack) = (statistics.records, statistics.entries, path.display());
        values.push(json!({
            "pack": pack.to_string(), "bytes": bytes, "records": records, "entries": entries,
            "payload_bytes": statistics.payload_bytes, "stored_bytes": statistics.stored_bytes,
        }));
        if !json {
            writeln!(out, "{pack}: {records} records, {entries} entries, {}", size::show(*bytes))?;
        }
    }
    if json {
        print_json(&mut out, &json!({"packs": values}))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

//! The verbs, one file each.

mod chunks;
mod completions;
mod hash;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::CliError;

/// A self-hosted, deduplicating hub for models and datasets.
#[derive(Debug, Parser)]
#[command(name = "drystone", version, max_term_width = 100, propagate_version = true)]
pub(crate) struct Drystone {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Hash(hash::Hash),
    Chunks(chunks::Chunks),
    Completions(completions::Completions),
}

impl Drystone {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Hash(verb) => verb.run(),
            Verb::Chunks(verb) => verb.run(),
            Verb::Completions(verb) => verb.run(),
        }
    }
}

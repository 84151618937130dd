//! The verbs, one file each.

mod admin;
mod backup;
mod cas;
mod cat;
mod check;
mod chunks;
mod config;
mod demo;
mod doctor;
mod gc;
mod hash;
mod inspect;
mod ls;
mod noise;
mod pull;
mod push;
mod rebuild;
mod restore;
mod rm;
mod serve;
mod shard;
mod stats;
mod store;
mod store_args;
mod token;
mod verify;
mod xorb;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::manual::{Completions, Man};
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
    Push(Box<push::Push>),
    Pull(Box<pull::Pull>),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Rm(rm::Rm),
    Hash(hash::Hash),
    Chunks(chunks::Chunks),
    Inspect(inspect::Inspect),
    Check(check::Check),
    /// Make a xorb, or take one apart
    #[command(subcommand)]
    Xorb(xorb::XorbVerb),
    /// Make a shard, or take one apart
    #[command(subcommand)]
    Shard(shard::ShardVerb),
    /// Move whole files by XET hash, to and from a server or a store directory
    #[command(subcommand)]
    Cas(Box<cas::CasVerb>),
    Serve(serve::Serve),
    /// Create, list and revoke the tokens of a server
    ///
    /// Tokens are in the server's catalog, as a hash. What is done here holds for a running server within a few seconds.
    #[command(subcommand)]
    Token(token::TokenVerb),
    Admin(admin::Admin),
    Gc(gc::Gc),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Verify(verify::Verify),
    Rebuild(rebuild::Rebuild),
    Stats(stats::Stats),
    /// Copy the objects of a store, move its catalog
    #[command(subcommand)]
    Store(store::StoreVerb),
    /// Show the settings of a server without starting it
    #[command(subcommand)]
    Config(config::ConfigVerb),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    #[command(
        after_help = "Example:\n  drystone completions bash > ~/.local/share/bash-completion/completions/drystone"
    )]
    Completions(Completions),
    #[command(after_help = "Examples:\n  drystone man | man -l -\n  drystone man ~/.local/share/man/man1")]
    Man(Man),
}

impl Drystone {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Push(verb) => verb.run(),
            Verb::Pull(verb) => verb.run(),
            Verb::Ls(verb) => verb.run(),
            Verb::Cat(verb) => verb.run(),
            Verb::Rm(verb) => verb.run(),
            Verb::Hash(verb) => verb.run(),
            Verb::Chunks(verb) => verb.run(),
            Verb::Inspect(verb) => verb.run(),
            Verb::Check(verb) => verb.run(),
            Verb::Xorb(verb) => verb.run(),
            Verb::Shard(verb) => verb.run(),
            Verb::Cas(verb) => verb.run(),
            Verb::Serve(verb) => verb.run(),
            Verb::Token(verb) => verb.run(),
            Verb::Admin(verb) => verb.run(),
            Verb::Gc(verb) => verb.run(),
            Verb::Backup(verb) => verb.run(),
            Verb::Restore(verb) => verb.run(),
            Verb::Verify(verb) => verb.run(),
            Verb::Rebuild(verb) => verb.run(),
            Verb::Stats(verb) => verb.run(),
            Verb::Store(verb) => verb.run(),
            Verb::Config(verb) => verb.run(),
            Verb::Demo(verb) => verb.run(),
            Verb::Doctor(verb) => verb.run(),
            Verb::Completions(verb) => verb.run(Self::command()),
            Verb::Man(verb) => verb.run(Self::command()),
        }
    }
}

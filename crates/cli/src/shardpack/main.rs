//! `shardpack`: packs on the command line.

mod cmd;
mod describe;
mod formats;
mod http;
mod input;
#[path = "../man.rs"]
mod man;
mod output;
mod progress;
mod size;
mod tar;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cmd::ShardPack::parse().run().unwrap_or_else(|error| output::end(&error))
}

//! `drystone`: the hub's command line.

mod cmd;
mod describe;
mod files;
mod local;
mod man;
mod output;
mod progress;
mod remote;
#[path = "shardpack/size.rs"]
mod size;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

/// The system's own takes a tenth of the time of small requests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cmd::Drystone::parse().run().unwrap_or_else(|error| output::end(&error))
}

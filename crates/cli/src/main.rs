//! `drystone`: the hub's command line.

mod cmd;
mod describe;
mod files;
mod local;
mod output;
mod progress;
mod remote;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cmd::Drystone::parse().run().unwrap_or_else(|error| output::end(&error))
}

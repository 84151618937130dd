//! The commands `drystone` and `shardpack`.

mod clock;
mod cmd;
mod describe;
mod files;
mod local;
mod manual;
mod output;
mod packs;
mod progress;
mod remote;
mod size;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

use output::CliError;

/// Runs `drystone` with the arguments of this process.
pub fn drystone() -> ExitCode {
    run(|| cmd::Drystone::parse().run(), "drystone")
}

/// Runs `shardpack` with the arguments of this process.
pub fn shardpack() -> ExitCode {
    run(|| packs::ShardPack::parse().run(), "shardpack")
}

fn run(command: impl FnOnce() -> Result<ExitCode, CliError>, program: &'static str) -> ExitCode {
    output::set_program(program);
    let kernels = client::kernels::select(std::env::var_os(client::kernels::VARIABLE).as_deref());
    kernels.map_err(CliError::from).and_then(|()| command()).unwrap_or_else(|error| output::end(&error))
}

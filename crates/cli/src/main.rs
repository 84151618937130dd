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
    let drystone = cmd::Drystone::parse();
    let chosen = client::kernels::select(std::env::var_os(client::kernels::VARIABLE).as_deref())
        .map_err(output::CliError::from);
    chosen.and_then(|()| drystone.run()).unwrap_or_else(|error| output::end(&error))
}

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
    let shardpack = cmd::ShardPack::parse();
    let chosen = client::kernels::select(std::env::var_os(client::kernels::VARIABLE).as_deref());
    let chosen = chosen.map_err(|error| output::Failure::message(error.to_string()));
    chosen.and_then(|()| shardpack.run()).unwrap_or_else(|error| output::end(&error))
}

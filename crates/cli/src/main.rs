//! `drystone`: the hub's command line.

mod cmd;
mod describe;
mod files;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command = cmd::Drystone::parse();
    match command.run() {
        Ok(code) => code,
        // Whoever reads us has seen enough: `drystone chunks big | head`.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drystone: {error}");
            ExitCode::from(1)
        }
    }
}

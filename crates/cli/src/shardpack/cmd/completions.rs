//! `shardpack completions`: what a shell needs to complete our verbs.

use std::io;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::output::Failure;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  shardpack completions bash > ~/.local/share/bash-completion/completions/shardpack"
)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::ShardPack::command(), "shardpack", &mut script);
        io::Write::write_all(&mut io::stdout(), &script)?;
        Ok(ExitCode::SUCCESS)
    }
}

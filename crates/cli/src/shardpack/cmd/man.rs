//! `shardpack man`: manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::output::Failure;

/// Write manual pages
///
/// With a folder, a page for each verb; without, the page of the command itself to standard output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  shardpack man | man -l -\n  shardpack man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Folder to write into; made if it is not there
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let written = crate::man::write(super::ShardPack::command(), self.folder.as_deref());
        written.map_err(|error| match &self.folder {
            Some(folder) => Failure::io(folder, error),
            None => error.into(),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

//! Manual pages and shell completions, generated from the definition of a command line. Both programs have them.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::CliError;

/// Write manual pages
///
/// With a directory, a page for each verb; without, the page of the command itself to standard output.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory to write into, created if missing
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> Result<ExitCode, CliError> {
        match &self.folder {
            Some(folder) => std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command, folder))
                .map_err(|error| CliError::io(folder, error))?,
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page)?;
                io::stdout().write_all(&page)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to generate for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: Command) -> Result<ExitCode, CliError> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

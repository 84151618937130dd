//! Manual pages, generated from the definition of the command line. Shared by both programs.

use std::io::{self, Write as _};
use std::path::Path;

use clap::Command;

/// Writes the pages of a command and of its verbs into a folder; without one, the first to standard output.
pub(crate) fn write(command: Command, folder: Option<&Path>) -> io::Result<()> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return io::stdout().write_all(&page);
    };
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)
}

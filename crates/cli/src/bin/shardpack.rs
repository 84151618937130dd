//! `shardpack`: packs on the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    drystone_cli::shardpack()
}

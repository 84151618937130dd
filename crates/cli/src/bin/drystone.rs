//! `drystone`: the hub's command line.

use std::process::ExitCode;

/// Serves small requests a tenth faster than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    drystone_cli::drystone()
}

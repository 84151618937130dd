//! Kernels: the choice of the environment, made once by each program that moves data.

use xet::kernels::{self, Choice};

use crate::error::{Error, ErrorKind, Result};

/// Names the kernels to use: `native` or `portable`.
pub const VARIABLE: &str = "DRYSTONE_KERNELS";

/// Chooses what [`VARIABLE`] says, if it is set. To be called when a program starts.
pub fn select_from_environment() -> Result<()> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(()) };
    let refuse = |why: String| Error::new(ErrorKind::Invalid, format!("{VARIABLE} {why}"));
    let choice: Choice = text.to_string_lossy().parse().map_err(|error| refuse(format!("{error}")))?;
    kernels::select(choice).map_err(|first| refuse(format!("came too late: this process uses {first} ones")))
}

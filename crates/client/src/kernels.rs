//! Choice of the hashing and chunking kernels, made once when a program starts.

use std::ffi::OsStr;

use xet::kernels::{self, Choice};

use crate::error::{Error, ErrorKind, Result};

/// Environment variable with the kernels to use: `native` or `portable`.
pub const VARIABLE: &str = "DRYSTONE_KERNELS";

/// Chooses the kernels that the value of [`VARIABLE`] names, if it is set.
pub fn select(value: Option<&OsStr>) -> Result<()> {
    let Some(text) = value.filter(|text| !text.is_empty()) else { return Ok(()) };
    let refuse = |why: String| Error::new(ErrorKind::Invalid, format!("{VARIABLE} {why}"));
    let choice: Choice = text.to_string_lossy().parse().map_err(|error| refuse(format!("{error}")))?;
    kernels::select(choice).map_err(|first| refuse(format!("came too late: this process uses {first} ones")))
}

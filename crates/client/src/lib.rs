//! Client of a XET hub: push and pull of files with dedup, caching and retries, and the calls of the Hub API.

pub mod budget;
pub mod cache;
pub mod cas;
mod chunk;
pub mod cut;
pub mod error;
mod http;
pub mod hub;
pub mod kernels;
pub mod progress;
pub mod pull;
pub mod push;
pub mod retry;
mod temp_name;
pub mod token;
pub mod walk;

pub use cas::Cas;
pub use error::{Error, ErrorKind, Result};
pub use progress::Progress;

//! Files on their way to and from a XET hub: reading, cutting, hashing on all cores; sending what is new.

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

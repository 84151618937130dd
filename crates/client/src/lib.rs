//! Files on their way to and from a XET hub: reading, cutting, hashing on all cores.

pub mod cut;
pub mod error;
pub mod walk;

pub use error::{Error, ErrorKind};

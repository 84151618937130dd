//! Objects in a directory of this machine: staged files that are synced and renamed, reads without a copy through the
//! object store library, and the lock that tells processes from each other.

pub(crate) mod buffers;
pub(crate) mod direct_read;
pub(crate) mod lock;
pub(crate) mod read;
pub(crate) mod write;

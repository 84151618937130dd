//! Signed URLs: of ranges of xorbs, and of whole files for git-lfs.

pub(crate) mod data_url;
pub(crate) mod host;
pub(crate) mod lfs_url;

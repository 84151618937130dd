//! Formats of others that datasets come in.

pub(crate) mod image_folder;
pub(crate) mod mds;
pub(crate) mod parquet;
pub(crate) mod tfrecord;

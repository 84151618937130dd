//! Records from directories, manifests and tar archives.

pub(crate) mod folder;
pub(crate) mod group;
pub(crate) mod manifest;
pub(crate) mod webdataset;

use shardpack::Record;

use crate::output::CliError;

/// Records in the order they are to be written.
pub(crate) type Records<'a> = Box<dyn Iterator<Item = Result<Record, CliError>> + 'a>;

/// Records, and their number and size where known in advance.
pub(crate) struct Input<'a> {
    pub(crate) records: Records<'a>,
    /// Bytes to come; 0 where unknown.
    pub(crate) total_bytes: u64,
    /// Records to come, where that is known.
    pub(crate) record_count: Option<u64>,
}

/// Whether a record has one entry name twice; that name.
pub(crate) fn repeated_entry(record: &Record) -> Option<&str> {
    let mut names: Vec<_> = record.file_entries.iter().map(|entry| entry.file_name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

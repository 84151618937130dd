//! ShardPack: a dataset container that training code reads by record.
//!
//! A pack holds records, a record holds named entries, and an index at the end says where every record begins.
//!
//! | part                              | is                                                                       |
//! |-----------------------------------|--------------------------------------------------------------------------|
//! | [`layout`], [`outline`]           | the bytes, each structure with its table                                 |
//! | [`record`], [`codec`], [`index`]  | a record in its bytes, its compressions, what the end of a pack says     |
//! | [`content_type`]                  | what a file is, by its name                                              |
//! | [`mod@write`], [`order`]          | records to bytes; which record comes when. Pure, as all above            |
//! | [`source`], [`sink`]              | where bytes come from and go to: files, memory; others bring their own   |
//! | [`read`], [`recover`], [`check`]  | any record of a pack, what is left of a damaged one, whether it is sound |
//! | [`repair`]                        | the sound records of a damaged pack, as a new pack                       |
//! | [`set`]                           | many packs as one: patterns, dataset index, columns, overlays                |
//!
//! Nothing here knows a hub, a socket or the environment; only `source`, `sink` and `set` touch files and threads.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::cast_possible_truncation))]

// Helpers of tests are shared with the integration tests, which name this crate.
#[cfg(test)]
extern crate self as shardpack;

pub mod check;
pub mod codec;
pub mod content_type;
pub mod cursor;
pub mod error;
pub mod index;
pub mod layout;
pub mod order;
pub mod outline;
pub mod read;
pub mod record;
pub mod recover;
pub mod repair;
pub mod set;
pub mod sink;
pub mod source;
#[cfg(test)]
mod tests;
pub mod write;

pub use codec::Method;
pub use error::{Error, ErrorKind, FormatError};
pub use layout::{
    Compression, ContentType, EndMarker, EntryHeader, Footer, Index, RecordHeader, SectionHeader,
};
pub use outline::{Outline, has_pack_magic};
pub use read::{OnError, ReadOptions, ShardPackReader, StreamReader};
pub use record::{FileEntry, Record, RecordRef, Verify};
pub use sink::ShardPackWriter;
pub use source::Source;
pub use write::{PackEncoder, WriteOptions};

//! ShardPack: a dataset container that training code reads by record.
//!
//! A pack holds records, a record holds named entries, and an index at the end says where every record begins. This
//! crate knows the bytes ([`layout`]) and what a whole pack consists of ([`Outline`]); writer and reader stand on that.
//!
//! Pure: bytes in, values out. Nothing here knows a clock, a file, a socket, a thread or the environment.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod cursor;
pub mod error;
pub mod layout;
pub mod outline;

pub use error::FormatError;
pub use layout::{
    Compression, ContentType, EndMarker, EntryHeader, Footer, Index, RecordHeader, SectionHeader,
};
pub use outline::{Outline, looks_like_pack};

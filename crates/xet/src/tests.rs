//! Tests of the formats as a whole: against their documents, golden vectors and slow twins.

mod format_hashing;
mod format_shard;
mod format_xorb;
mod twins;
mod vectors;
mod vectors_chunk;
mod vectors_shard;
mod xorb_golden;

//! The shape of `manifest.json`. Field names are those of the file; the vectors' README says what they mean.
//!
//! A hash stays a string: 64 digits in XET form, unless the name ends in `_raw_hex` or is a SHA-256 (plain order).
#![allow(missing_docs, reason = "the fields are those of the manifest, explained in the vectors' README")]

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Recipe;

/// A hash and a length, as the manifest lists chunks and leaves.
pub type Chunk = (String, u64);

#[derive(Debug, Clone, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub set: String,
    pub text_words: Vec<String>,
    pub inputs: Vec<Input>,
    pub merkle: Vec<Merkle>,
    pub keyed_hash: Vec<KeyedHash>,
    pub byte_grouping: Vec<ByteGrouping>,
    pub chunk_records: Vec<ChunkRecord>,
    pub xorbs: Vec<Xorb>,
    pub shards: Vec<Shard>,
    pub adversarial: Vec<Adversarial>,
    /// Files published by others; absent from the committed set.
    pub official: Option<Official>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Input {
    pub name: String,
    pub recipe: Recipe,
    pub size: u64,
    pub sha256: String,
    pub file_hash: String,
    pub merkle_root: String,
    pub verification_hash_all_chunks: String,
    pub eligible_by_hash: Vec<usize>,
    pub num_chunks: usize,
    /// Inline, at most 16; use [`super::Vectors::chunks`], which also reads the file.
    pub chunks: Option<Vec<Chunk>>,
    pub chunks_file: Option<String>,
    pub upload_plan: Option<UploadPlan>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct UploadPlan {
    pub terms: Vec<Term>,
    /// One verification hash a term.
    pub verification: Vec<String>,
    pub xorbs: Vec<PlannedXorb>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Term {
    pub cas_flags: u32,
    pub chunk_index_start: u32,
    pub chunk_index_end: u32,
    pub unpacked_segment_bytes: u32,
    pub xorb_hash: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PlannedXorb {
    pub num_chunks: usize,
    pub raw_bytes: u64,
    pub xorb_hash: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Merkle {
    pub name: String,
    pub leaves: Vec<Chunk>,
    pub salt_raw_hex: String,
    pub eligible: Vec<bool>,
    pub file_hash: String,
    pub file_hash_salted: String,
    pub root: String,
    pub verification_hash: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct KeyedHash {
    pub hash: String,
    pub hash_raw_hex: String,
    pub key: String,
    pub key_raw_hex: String,
    pub keyed: String,
    pub keyed_raw_hex: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ByteGrouping {
    pub raw: String,
    pub grouped: String,
}

/// Scheme number, stored length, raw length.
pub type ChunkHeader = (u8, u32, u32);

#[derive(Debug, Clone, Deserialize)]
pub struct ChunkRecord {
    pub file: String,
    pub chunk_hash: String,
    pub header: ChunkHeader,
    pub raw_sha256: String,
    pub raw_size: u64,
    pub recipe: Recipe,
    pub requested_scheme: String,
    pub serialized_size: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Xorb {
    pub name: String,
    pub xorb_hash: String,
    pub chunks: Vec<Chunk>,
    pub raw_sha256: String,
    pub raw_size: u64,
    pub sources: Vec<XorbSource>,
    pub files: Vec<XorbFile>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct XorbSource {
    pub recipe: Recipe,
}

#[derive(Debug, Clone, Deserialize)]
pub struct XorbFile {
    pub file: String,
    pub form: String,
    pub scheme: String,
    pub size: u64,
    pub chunk_headers: Vec<ChunkHeader>,
    pub chunk_region_size: u64,
    pub footer: Option<XorbFooter>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct XorbFooter {
    pub footer_version_on_disk: u8,
    /// What the reference turned it into while reading.
    pub version: u8,
    pub xorb_hash: String,
    pub num_chunks: u32,
    pub chunk_hashes: Vec<String>,
    pub chunk_boundary_offsets: Vec<u32>,
    pub unpacked_chunk_offsets: Vec<u32>,
    pub info_length: u32,
    pub nonce: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Shard {
    pub name: String,
    pub inputs: Vec<ShardInput>,
    pub mode: String,
    pub num_bytes_on_disk_filled: bool,
    pub with_sha256: bool,
    pub with_verification: bool,
    pub files: Vec<ShardFile>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ShardInput {
    pub recipe: Recipe,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ShardFile {
    pub file: String,
    pub size: u64,
    pub form: ShardForm,
    pub header_version: u64,
    pub header_footer_size: u64,
    pub cas_info_offset: u64,
    pub files: Vec<FileBlock>,
    pub xorbs: Vec<XorbBlock>,
    pub footer: Option<ShardFooter>,
    /// First word of the hash in hexadecimal, record index.
    pub file_lookup: Option<Vec<(String, u32)>>,
    /// First word of the hash in hexadecimal, record index.
    pub cas_lookup: Option<Vec<(String, u32)>>,
    /// First word of the hash in hexadecimal, record index of the xorb, chunk index in it.
    pub chunk_lookup: Option<Vec<(String, u32, u32)>>,
    pub dedup_queries: Option<Vec<DedupQuery>>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ShardForm {
    pub kind: String,
    pub tag: String,
    pub with_verification: Option<bool>,
    /// In XET string form.
    pub hmac_key: Option<String>,
    /// Seconds; can be beyond what a clock shows.
    pub valid_for: Option<i64>,
    pub chunk_lookup: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FileBlock {
    pub file_hash: String,
    pub file_flags: u32,
    pub num_entries: u32,
    pub terms: Vec<Term>,
    pub verification: Vec<String>,
    pub sha256_field_raw_hex: Option<String>,
    pub sha256_hash_string: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct XorbBlock {
    pub xorb_hash: String,
    pub cas_flags: u32,
    pub num_entries: u32,
    pub num_bytes_in_cas: u32,
    pub num_bytes_on_disk: u32,
    /// Hash, offset of its first raw byte in the xorb, raw bytes, flags.
    pub chunks: Vec<(String, u32, u32, u32)>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ShardFooter {
    pub version: u64,
    pub file_info_offset: u64,
    pub cas_info_offset: u64,
    pub file_lookup_offset: u64,
    pub file_lookup_num_entry: u64,
    pub cas_lookup_offset: u64,
    pub cas_lookup_num_entry: u64,
    pub chunk_lookup_offset: u64,
    pub chunk_lookup_num_entry: u64,
    pub chunk_hash_hmac_key: String,
    pub chunk_hash_hmac_key_raw_hex: String,
    pub shard_creation_timestamp: u64,
    /// A string, because it can be 2^64-1.
    pub shard_key_expiry: String,
    pub stored_bytes_on_disk: u64,
    pub materialized_bytes: u64,
    pub stored_bytes: u64,
    pub footer_offset: u64,
}

impl ShardFooter {
    /// The expiry as a number.
    ///
    /// # Panics
    ///
    /// If the manifest holds no number there.
    pub fn expiry(&self) -> u64 {
        self.shard_key_expiry.parse().expect("shard_key_expiry is a decimal u64")
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct DedupQuery {
    pub first_chunk_hash: String,
    pub num_query: usize,
    pub result: DedupResult,
}

#[derive(Debug, Clone, Deserialize)]
pub struct DedupResult {
    pub matched: usize,
    pub chunk_index_start: u32,
    pub chunk_index_end: u32,
    pub unpacked_segment_bytes: u32,
    pub xorb_hash: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Adversarial {
    pub file: String,
    pub kind: AdversarialKind,
    pub level: AdversarialLevel,
    pub expect: Expect,
    pub basis: String,
    pub xorb_hash: Option<String>,
    /// What each reader of the reference answered; none where it accepted.
    pub reference: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdversarialKind {
    XorbFooter,
    XorbFooterless,
    ShardUpload,
    ShardStored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdversarialLevel {
    Format,
    Semantic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    Accept,
    Reject,
    Unspecified,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Official {
    pub source: String,
    pub ev_population: EvPopulation,
    pub published_values: String,
    pub gpt2_dedup_shard: Gpt2DedupShard,
}

#[derive(Debug, Clone, Deserialize)]
pub struct EvPopulation {
    pub size: u64,
    pub num_chunks: usize,
    pub sha256: String,
    pub file_hash: String,
    pub xorb_hash: String,
    pub range_hash_all_chunks: String,
    pub dedupe_hmac_key: String,
    pub chunks_file: String,
    pub shards: BTreeMap<String, String>,
    pub xorb_prefix: String,
    pub xorb_prefix_chunks: usize,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Gpt2DedupShard {
    pub shard: String,
    pub json: String,
    pub known_chunk: KnownChunk,
}

#[derive(Debug, Clone, Deserialize)]
pub struct KnownChunk {
    pub hash: String,
    pub xorb: usize,
    pub chunk: usize,
}

/// The values printed in the reference's own unit tests.
#[derive(Debug, Clone, Deserialize)]
pub struct Published {
    pub merkle: Vec<PublishedMerkle>,
    pub chunk_boundaries: Vec<PublishedCuts>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PublishedMerkle {
    pub leaves: Vec<Chunk>,
    pub root: String,
    pub file_hashes: Vec<PublishedFileHash>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PublishedFileHash {
    /// In XET string form.
    pub salt: String,
    pub file_hash: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PublishedCuts {
    pub name: String,
    pub recipe: Recipe,
    /// Where chunks end; the last is the length.
    pub boundaries: Vec<usize>,
}

//! Paths, headers and media types.
//!
//! Clients append paths to the CAS URL as they are. Over the years they asked for the same thing under several
//! paths, and the published draft has one more, so a server answers all that [`Endpoint::templates`] lists.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::FormatError;
use crate::hash::{ChunkHash, FileHash, XorbHash};

/// The namespace of xorbs, and of files in a batch.
pub const PREFIX_DEFAULT: &str = "default";
/// The documented namespace of dedup queries. Current clients send [`PREFIX_DEFAULT`]; servers take any.
#[cfg(test)]
const PREFIX_DEDUP: &str = "default-merkledb";

/// Names of headers, in lower case as HTTP/2 has them; they compare without case.
pub mod header {
    /// Address of the CAS routes.
    pub const XET_CAS_URL: &str = "x-xet-cas-url";
    /// The token for them.
    pub const XET_ACCESS_TOKEN: &str = "x-xet-access-token";
    /// When that expires, in seconds since 1970.
    pub const XET_TOKEN_EXPIRATION: &str = "x-xet-token-expiration";
    /// The file hash of what a Hub path resolves to.
    pub const XET_HASH: &str = "x-xet-hash";
    /// The token route, where no `Link` says it.
    pub const XET_REFRESH_ROUTE: &str = "x-xet-refresh-route";
    /// Names a client's session, on CAS routes and data URLs.
    pub const XET_SESSION_ID: &str = "x-xet-session-id";
    /// Names one request; the server chooses it.
    pub const REQUEST_ID: &str = "x-request-id";
    /// Which bytes of a file will be replaced.
    pub const RANGE_DIRTY: &str = "x-range-dirty";
    /// The size of what a Hub path resolves to.
    pub const LINKED_SIZE: &str = "x-linked-size";
    /// The entity tag of what a Hub path resolves to.
    pub const LINKED_ETAG: &str = "x-linked-etag";
    /// `rel` of the `Link` to the token route.
    pub const LINK_REL_AUTH: &str = "xet-auth";
    /// `rel` of the `Link` to the reconstruction.
    pub const LINK_REL_RECONSTRUCTION: &str = "xet-reconstruction-info";
}

/// The query parameter that says which ranges a data URL is signed for.
pub const QUERY_SIGNED_RANGE: &str = "X-Xet-Signed-Range";
/// The query parameter, repeated, that names the files of a batch.
pub(crate) const QUERY_FILE_ID: &str = "file_id";

/// Media types.
pub mod content_type {
    /// JSON bodies.
    pub const JSON: &str = "application/json";
    /// Xorbs, shards, data.
    pub const BYTES: &str = "application/octet-stream";
    /// Frames.
    pub const NDJSON: &str = "application/x-ndjson";
}

/// The routes of the CAS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// GET: a file's reconstruction, version 1.
    ReconstructionV1,
    /// GET: a file's reconstruction, version 2.
    ReconstructionV2,
    /// GET with a query, POST with a body: several reconstructions.
    BatchReconstruction,
    /// GET: dedup query.
    Chunk,
    /// POST: upload. HEAD: is it there, how long.
    Xorb,
    /// POST: upload, one answer.
    ShardsV1,
    /// POST: upload, answered by frames.
    ShardsV2,
    /// POST: upload under a name that means nothing, as clients did before 1.2.
    ShardKeyed,
    /// HEAD: is it there, how long.
    File,
    /// GET: what must be known to replace ranges of a file.
    FileChunkHashes,
    /// POST: telemetry.
    Telemetry,
    /// GET: the chunks of a file. Only our servers have it.
    ChunkList,
}

impl Endpoint {
    /// Every route.
    pub const ALL: &[Self] = &[
        Self::ReconstructionV1,
        Self::ReconstructionV2,
        Self::BatchReconstruction,
        Self::Chunk,
        Self::Xorb,
        Self::ShardsV1,
        Self::ShardsV2,
        Self::ShardKeyed,
        Self::File,
        Self::FileChunkHashes,
        Self::Telemetry,
        Self::ChunkList,
    ];

    /// The path current clients use, then those of others. Variable segments are in braces.
    pub const fn templates(self) -> &'static [&'static str] {
        match self {
            Self::ReconstructionV1 => &[
                "/v1/reconstructions/{file}",
                "/api/v1/reconstructions/{file}",
                "/reconstructions/{file}",
                "/reconstruction/{file}",
            ],
            Self::ReconstructionV2 => &["/v2/reconstructions/{file}", "/api/v2/reconstructions/{file}"],
            Self::BatchReconstruction => {
                &["/v1/reconstructions", "/api/v1/reconstructions", "/reconstructions"]
            }
            Self::Chunk => &[
                "/v1/chunks/{prefix}/{chunk}",
                "/api/v1/chunks/{prefix}/{chunk}",
                "/chunks/{prefix}/{chunk}",
                "/chunk/{prefix}/{chunk}",
            ],
            Self::Xorb => &[
                "/v1/xorbs/{prefix}/{xorb}",
                "/api/v1/xorbs/{prefix}/{xorb}",
                "/xorbs/{prefix}/{xorb}",
                "/xorb/{prefix}/{xorb}",
            ],
            Self::ShardsV1 => &["/v1/shards", "/api/v1/shards", "/shards"],
            Self::ShardsV2 => &["/v2/shards", "/api/v2/shards"],
            Self::ShardKeyed => &["/shard/{prefix}/{shard}"],
            Self::File => &["/v1/files/{file}", "/api/v1/files/{file}", "/files/{file}"],
            Self::FileChunkHashes => &["/v2/file-chunk-hashes/{file}", "/api/v2/file-chunk-hashes/{file}"],
            Self::Telemetry => &["/v1/telemetry", "/api/v1/telemetry"],
            Self::ChunkList => &["/v1/drystone/chunk-lists/{file}"],
        }
    }
}

/// Upload of shards, version 1.
pub const SHARDS_V1: &str = "/v1/shards";
/// Upload of shards, version 2.
pub const SHARDS_V2: &str = "/v2/shards";
/// Telemetry.
#[cfg(test)]
const TELEMETRY: &str = "/v1/telemetry";
/// Batch reconstruction by POST.
pub const BATCH: &str = "/v1/reconstructions";

/// The path of a file's reconstruction, version 1.
pub fn reconstruction_v1(file: &FileHash) -> String {
    format!("/v1/reconstructions/{file}")
}

/// The path of a file's reconstruction, version 2.
pub fn reconstruction_v2(file: &FileHash) -> String {
    format!("/v2/reconstructions/{file}")
}

/// The path and query of a batch reconstruction by GET.
pub fn batch(files: &[FileHash]) -> String {
    let mut path = String::from(BATCH);
    for (i, file) in files.iter().enumerate() {
        let mark = if i == 0 { '?' } else { '&' };
        write!(path, "{mark}{QUERY_FILE_ID}={file}").expect("a string takes every write");
    }
    path
}

/// The files in the query of a batch reconstruction, without its question mark. Other parameters are ignored.
pub fn parse_batch_query(query: &str, files_max: usize) -> Result<Vec<FileHash>, FormatError> {
    let mut files = Vec::new();
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    for (_, value) in values.filter(|(name, _)| *name == QUERY_FILE_ID) {
        if files.len() >= files_max {
            let max = files_max as u64;
            return Err(FormatError::Range { at: 0, what: "number of files", min: 0, max, found: max + 1 });
        }
        files.push(value.parse()?);
    }
    Ok(files)
}

/// The path of a dedup query.
pub fn chunk(prefix: &str, chunk: &ChunkHash) -> String {
    format!("/v1/chunks/{}/{chunk}", segment(prefix))
}

/// The path of a xorb.
pub fn xorb(xorb: &XorbHash) -> String {
    format!("/v1/xorbs/{PREFIX_DEFAULT}/{xorb}")
}

/// The path of a file, for HEAD.
pub fn file(file: &FileHash) -> String {
    format!("/v1/files/{file}")
}

/// The path of `file-chunk-hashes`, for replacing ranges of a file.
#[cfg(test)]
fn file_chunk_hashes(file: &FileHash) -> String {
    format!("/v2/file-chunk-hashes/{file}")
}

/// The path and query of a page of a file's chunks, after the first `from` of them.
pub fn chunk_list(file: &FileHash, from: u64) -> String {
    format!("/v1/drystone/chunk-lists/{file}?{}={from}", super::chunk_list::QUERY_FROM)
}

/// Scope of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenScope {
    /// Download.
    Read,
    /// Upload, and download.
    Write,
}

impl TokenScope {
    /// The last but one segment of the token route.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Read => "xet-read-token",
            Self::Write => "xet-write-token",
        }
    }
}

/// The path of the token route, on the Hub. `kind` is `models`, `datasets`, `spaces` or `buckets`, `id` has its own
/// slash; a bucket has no revision.
pub fn token(kind: &str, id: &str, scope: TokenScope, revision: Option<&str>) -> String {
    let id: Vec<String> = id.split('/').map(segment).collect();
    let mut path = format!("/api/{}/{}/{}", segment(kind), id.join("/"), scope.segment());
    if let Some(revision) = revision {
        path.push('/');
        path.push_str(&segment(revision));
    }
    path
}

/// Text as one path segment: all but unreserved characters escaped, slashes too.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, &NOT_UNRESERVED).to_string()
}

/// Characters to escape: all that RFC 3986 reserves.
const NOT_UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::limits;

    #[test]
    fn no_two_routes_share_a_path() {
        let all: Vec<_> = Endpoint::ALL.iter().flat_map(|route| route.templates()).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|path| path.starts_with('/') && !path.ends_with('/')));
    }

    #[test]
    fn built_paths_fit_the_first_template() {
        let zero = "0".repeat(64);
        let built = [
            (Endpoint::ReconstructionV1, reconstruction_v1(&FileHash::ZERO)),
            (Endpoint::ReconstructionV2, reconstruction_v2(&FileHash::ZERO)),
            (Endpoint::BatchReconstruction, batch(&[])),
            (Endpoint::Chunk, chunk(PREFIX_DEDUP, &ChunkHash::ZERO)),
            (Endpoint::Xorb, xorb(&XorbHash::ZERO)),
            (Endpoint::ShardsV1, SHARDS_V1.to_owned()),
            (Endpoint::ShardsV2, SHARDS_V2.to_owned()),
            (Endpoint::File, file(&FileHash::ZERO)),
            (Endpoint::FileChunkHashes, file_chunk_hashes(&FileHash::ZERO)),
            (Endpoint::Telemetry, TELEMETRY.to_owned()),
        ];
        for (route, path) in built {
            let prefix = if route == Endpoint::Chunk { "default-merkledb" } else { "default" };
            let mut expected = route.templates()[0].replace("{prefix}", prefix);
            for name in ["{file}", "{chunk}", "{xorb}"] {
                expected = expected.replace(name, &zero);
            }
            assert_eq!(path, expected);
        }
    }

    #[test]
    fn a_batch_query_reads_back() {
        let files = [FileHash::new([1; 32]), FileHash::new([0xab; 32])];
        let path = batch(&files);
        let (path, query) = path.split_once('?').unwrap();
        assert_eq!(path, "/v1/reconstructions");
        assert_eq!(parse_batch_query(query, limits::BATCH_FILES_MAX).unwrap(), files);
        assert_eq!(parse_batch_query(&query.to_uppercase().replace("FILE_ID", "file_id"), 2).unwrap(), files);
        assert!(parse_batch_query(query, 1).is_err());
        assert!(parse_batch_query("file_id=12", 9).is_err());
        assert_eq!(parse_batch_query("x=1&&file&a=b", 9).unwrap(), []);
    }

    #[test]
    fn a_revision_is_one_segment() {
        let path = token("models", "org/name", TokenScope::Write, Some("refs/pr/1"));
        assert_eq!(path, "/api/models/org/name/xet-write-token/refs%2Fpr%2F1");
        assert_eq!(
            token("buckets", "org/b é", TokenScope::Read, None),
            "/api/buckets/org/b%20%C3%A9/xet-read-token"
        );
    }
}

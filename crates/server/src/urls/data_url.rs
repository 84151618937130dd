//! Data URLs signed by the server: the holder of one may read these bytes of this object until it expires.
//!
//! Such a URL carries everything needed to check it, so any server with the key answers it without asking the
//! catalog, and it is fetched without a token:
//!
//! `/v1/data/<xorb hash>-<digest>?X-Xet-Signed-Range=bytes%3D0-99,200-299&X-Xet-Expires=…&X-Xet-Key=…&X-Xet-Signature=…`
//!
//! The signature is the version byte and the HMAC-SHA256 of
//!
//! | size | field                                                            |
//! |-----:|------------------------------------------------------------------|
//! |    1 | version, 1                                                       |
//! |   32 | xorb hash                                                        |
//! |   32 | digest of the object: uploads of one xorb may differ in bytes    |
//! |    8 | expiry, Unix seconds, little-endian                              |
//! |    4 | number of ranges, little-endian                                  |
//! |  16n | first and last byte of each, little-endian, ascending            |
//! |    1 | only in URLs of private repositories: 1                          |
//!
//! in URL-safe Base64. A URL of a private repository has `&X-Xet-Cache=private` besides: what it answers may be kept by the
//! caller, not by caches that serve others.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use xet::XorbHash;
use xet::hash::parse_hex;
use xet::limits;
use xet::wire::range::parse_bounded_ranges;
use xet::wire::routes::QUERY_SIGNED_RANGE;
use xet::wire::{ErrorCode, HttpRange};

use crate::secret::{KeyRing, Secret, hex, mac, mac_matches};

/// The path of data URLs, as a route.
pub const DATA_ROUTE: &str = "/v1/data/{object}";

/// Which object a data URL is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataKey {
    /// The xorb.
    pub xorb: XorbHash,
    /// The digest of its stored bytes.
    pub digest: [u8; 32],
}

impl DataKey {
    /// Reads what [`Display`](fmt::Display) prints: the last segment of the path.
    pub fn parse(text: &str) -> Option<Self> {
        let (xorb, digest) = text.split_once('-')?;
        let xorb: XorbHash = xorb.parse().ok()?;
        Some(Self { xorb, digest: parse_hex(digest)? })
    }
}

impl fmt::Display for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.xorb, hex(&self.digest))
    }
}

/// What a request on a data URL may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataGrant {
    /// Of which object.
    pub(crate) key: DataKey,
    /// Which bytes, as they were requested: each a member of the signed set, none twice.
    pub(crate) ranges: Vec<HttpRange>,
    /// Until when, in Unix seconds.
    pub(crate) expires_s: u64,
    /// Whether caches that serve others must not keep the answer.
    pub(crate) is_private: bool,
}

/// Why a data URL opens nothing. On the wire all are 403, which makes clients ask for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Not the form of a data URL.
    #[error("this is not a data URL")]
    Malformed,
    /// Signed with a key that is not believed, any more or at all.
    #[error("the URL was signed with an unknown key")]
    UnknownKey,
    /// Something was changed after signing.
    #[error("the signature does not fit the URL")]
    Signature,
    /// Too old.
    #[error("the URL has expired")]
    Expired,
    /// No bytes were requested; the whole object is never granted.
    #[error("the request must say in a Range header which of the signed ranges it wants")]
    NoRange,
    /// Bytes were requested that the URL was not signed for.
    #[error("the URL was signed for other ranges")]
    OutOfRange,
}

impl Refusal {
    /// The code it is sent with.
    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Self::Malformed | Self::UnknownKey | Self::Signature | Self::NoRange => ErrorCode::Forbidden,
            Self::Expired | Self::OutOfRange => ErrorCode::UrlExpired,
        }
    }
}

/// A set of ranges that no URL can be signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a data URL is signed for 1 to {max} ranges, not {found}")]
pub struct RangeCount {
    /// How many there are.
    pub found: usize,
    /// How many there may be.
    pub max: usize,
}

/// Signs and verifies data URLs.
#[derive(Debug, Clone)]
pub struct Signer {
    /// By id, the signing one first.
    keys: Vec<(String, Secret<[u8; 32]>)>,
}

impl Signer {
    /// Signs with the current key of the ring and believes all of it.
    pub fn new(keys: &KeyRing) -> Self {
        Self { keys: keys.derive("data urls") }
    }

    /// The path and query that open `ranges` of an object of a private repository or not until `expires_s`. Order and
    /// repetition do not matter: one set has one URL.
    pub fn sign(
        &self,
        key: &DataKey,
        ranges: &[HttpRange],
        expires_s: u64,
        is_private: bool,
    ) -> Result<String, RangeCount> {
        let set = canonical(ranges);
        let max = limits::URL_RANGES_MAX;
        if !(1..=max).contains(&set.len()) {
            return Err(RangeCount { found: set.len(), max });
        }
        let (id, secret) = self.keys.first().expect("a ring has a current key");
        let tag = mac(secret.expose(), &[&message(key, &set, expires_s, is_private)]);
        let mut signature = vec![VERSION];
        signature.extend(tag);
        let list: Vec<String> = set.iter().map(HttpRange::to_string).collect();
        Ok(format!(
            "{DATA_PATH}{key}?{QUERY_SIGNED_RANGE}=bytes%3D{}&{QUERY_EXPIRES}={expires_s}{}&{QUERY_KEY}={id}&{QUERY_SIGNATURE}={}",
            list.join(","),
            if is_private { format!("&{QUERY_CACHE}={CACHE_PRIVATE}") } else { String::new() },
            URL_SAFE_NO_PAD.encode(signature)
        ))
    }

    /// What a request may have that came with this path and query, `Range` header and time.
    ///
    /// A URL opens single members of its set and lists of them. A part of a member is refused too: so the answers that
    /// a cache may have to hold for one URL stay few, and what was granted is what is read.
    pub(crate) fn verify(
        &self,
        path: &str,
        query: &str,
        range: Option<&str>,
        now_s: u64,
    ) -> Result<DataGrant, Refusal> {
        let signed = Signed::parse(path, query).ok_or(Refusal::Malformed)?;
        let known = self.keys.iter().find(|(id, _)| *id == signed.key_id);
        let (_, secret) = known.ok_or(Refusal::UnknownKey)?;
        let message = message(&signed.key, &signed.set, signed.expires_s, signed.is_private);
        let [version, tag @ ..] = &signed.signature;
        if *version != VERSION || !mac_matches(secret.expose(), &[&message], tag) {
            return Err(Refusal::Signature);
        }
        if now_s >= signed.expires_s {
            return Err(Refusal::Expired);
        }
        let ranges = requested(&signed.set, range.ok_or(Refusal::NoRange)?)?;
        let Signed { key, expires_s, is_private, .. } = signed;
        Ok(DataGrant { key, ranges, expires_s, is_private })
    }
}

/// What a data URL says, before anyone knows whether it is true.
struct Signed<'a> {
    key: DataKey,
    set: Vec<HttpRange>,
    expires_s: u64,
    is_private: bool,
    key_id: &'a str,
    signature: [u8; 33],
}

impl<'a> Signed<'a> {
    fn parse(path: &str, query: &'a str) -> Option<Self> {
        let key = DataKey::parse(path.strip_prefix(DATA_PATH)?)?;
        // Some clients and proxies escape `=` and `,`.
        let ranges = percent_decode_str(parameter(query, QUERY_SIGNED_RANGE)?).decode_utf8().ok()?;
        let set = parse_bounded_ranges(&ranges, limits::URL_RANGES_MAX).ok()?;
        let expires_s = parameter(query, QUERY_EXPIRES)?.parse().ok()?;
        let key_id = parameter(query, QUERY_KEY)?;
        // Whatever it says, the signature decides.
        let is_private = parameter(query, QUERY_CACHE) == Some(CACHE_PRIVATE);
        // Bounded before it is decoded: the query is as long as the server lets a request line be.
        let text = parameter(query, QUERY_SIGNATURE).filter(|text| text.len() == 44)?;
        let signature = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        Some(Self { key, set, expires_s, is_private, key_id, signature })
    }
}

/// The ranges of a header, when each is in the set and none comes twice.
fn requested(set: &[HttpRange], header: &str) -> Result<Vec<HttpRange>, Refusal> {
    let ranges = parse_bounded_ranges(header, set.len()).map_err(|_| Refusal::OutOfRange)?;
    let all_members = ranges.iter().all(|range| set.binary_search(range).is_ok());
    if !all_members || canonical(&ranges).len() != ranges.len() {
        return Err(Refusal::OutOfRange);
    }
    Ok(ranges)
}

/// The ranges as a set: ascending, each once. Neighbours stay apart, for each is requested by itself.
fn canonical(ranges: &[HttpRange]) -> Vec<HttpRange> {
    let mut set = ranges.to_vec();
    set.sort_unstable();
    set.dedup();
    set
}

/// The bytes that are signed. A set that is not canonical yields other bytes than its canonical form did.
fn message(key: &DataKey, set: &[HttpRange], expires_s: u64, is_private: bool) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(key.xorb.as_bytes());
    bytes.extend(key.digest);
    bytes.extend(expires_s.to_le_bytes());
    bytes.extend(u32::try_from(set.len()).unwrap_or(u32::MAX).to_le_bytes());
    for range in set {
        bytes.extend(range.first().to_le_bytes());
        bytes.extend(range.last().to_le_bytes());
    }
    if is_private {
        bytes.push(1);
    }
    bytes
}

/// The value of a parameter that occurs exactly once. Others are ignored: proxies add their own.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut values = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| *key == name);
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

const VERSION: u8 = 1;
const DATA_PATH: &str = "/v1/data/";
const QUERY_EXPIRES: &str = "X-Xet-Expires";
const QUERY_KEY: &str = "X-Xet-Key";
const QUERY_CACHE: &str = "X-Xet-Cache";
const CACHE_PRIVATE: &str = "private";
/// The parameter that must not be logged.
pub(crate) const QUERY_SIGNATURE: &str = "X-Xet-Signature";

#[cfg(test)]
mod tests;

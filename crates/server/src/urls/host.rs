//! Where clients fetch the bytes of xorbs: from the server, by URLs it signs, or from the bucket, by URLs that are signed
//! with the bucket's keys. One of the two for everybody, chosen when the server starts.
//!
//! | | from the server | from the bucket |
//! |---|---|---|
//! | ranges of a URL | many, one by one or together | one |
//! | requested with another range | refused | refused |
//! | expires | `url_ttl_s` from now or a little later, on a round time | `url_ttl_s` from when it was signed |
//! | the same for everybody | for an eighth of its life | for an eighth of its life, at each server |
//! | may be kept by caches, of public repositories | until it expires | until it expires |
//! | of private ones | by the caller alone | by the caller alone |
//! | `ETag` | the xorb's hash | the bucket's own |

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use moka::sync::Cache;
use store::{ObjectKey, Objects, Store, XorbKey};
use xet::plan::{Fetch, FetchRange};
use xet::wire::HttpRange;
use xet::{ShardHash, XorbHash, limits};

use crate::config::{DataUrlPolicy, ServeConfig};
use crate::urls::data_url::{DataKey, RangeCount, Signer};

/// Makes data URLs.
#[derive(Debug, Clone, Default)]
pub enum DataUrls {
    /// Signed by the server, which reads the objects itself.
    #[default]
    Server,
    /// Signed with the bucket's keys.
    Bucket(BucketUrls),
}

impl DataUrls {
    /// What the settings ask for, if the objects can give it.
    ///
    /// Left to choose, it takes the bucket's only where clients can be expected to reach them: at a public name, over
    /// TLS. A bucket beside the server, on a private network or without TLS, is read through the server.
    pub async fn choose(config: &ServeConfig, store: &Store) -> store::Result<Self> {
        let bucket = || Self::Bucket(BucketUrls::new(store.objects().clone(), config.url_ttl_s));
        match config.data_urls {
            DataUrlPolicy::Server => Ok(Self::Server),
            DataUrlPolicy::Auto if !store.objects().can_presign() => Ok(Self::Server),
            DataUrlPolicy::Auto => Ok(match sample(store.objects()).await {
                Ok(Some(url)) if is_public(&url) => bucket(),
                Ok(_) => Self::Server,
                Err(error) => {
                    tracing::warn!(%error, "the bucket's URLs cannot be signed: data goes through the server");
                    Self::Server
                }
            }),
            DataUrlPolicy::Bucket => match sample(store.objects()).await? {
                Some(_) => Ok(bucket()),
                None => Err(store::Error::new(
                    store::ErrorKind::Invalid,
                    "data_urls: these objects cannot be fetched without the server: use server or auto",
                )),
            },
        }
    }

    /// What the choice is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Bucket(_) => "bucket",
        }
    }

    /// The URLs of everything an answer fetches: `keys` are the objects of `fetches`, in their order.
    pub(crate) async fn url_for<'a>(
        &'a self,
        server: ServerUrls<'a>,
        fetches: &[Fetch],
        keys: &[XorbKey],
        is_private: bool,
    ) -> store::Result<Urls<'a>> {
        let bucket = match self {
            Self::Server => {
                let key =
                    |key: &XorbKey| (key.hash, DataKey { xorb: key.hash, digest: *key.digest.as_bytes() });
                return Ok(Urls::Server { server, keys: keys.iter().map(key).collect(), is_private });
            }
            Self::Bucket(bucket) => bucket,
        };
        let mut urls = HashMap::new();
        for (fetch, key) in fetches.iter().zip(keys) {
            for range in &fetch.ranges {
                let url = bucket.url(key, &range.stored_bytes, is_private).await?;
                urls.insert((fetch.xorb, range.stored_bytes.start), url);
            }
            // Signing is work, and a long answer must not keep others from theirs.
            tokio::task::yield_now().await;
        }
        Ok(Urls::Bucket(urls))
    }
}

/// Makes data URLs that the server signs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUrls<'a> {
    pub(crate) base_url: &'a str,
    pub(crate) signer: &'a Signer,
    pub(crate) ttl_s: u64,
    pub(crate) now_s: u64,
}

impl ServerUrls<'_> {
    /// A URL that opens `ranges` of an object for at least the lifetime of URLs, of a private repository or not.
    ///
    /// It expires on a round time, so that for a while everyone who may read the same ranges gets the same URL, and
    /// caches on the way are useful.
    pub(crate) fn url(
        &self,
        key: &DataKey,
        ranges: &[HttpRange],
        is_private: bool,
    ) -> Result<String, RangeCount> {
        let step_s = (self.ttl_s / 8).max(1);
        let expires_s = self.now_s.saturating_add(self.ttl_s).checked_next_multiple_of(step_s);
        let path = self.signer.sign(key, ranges, expires_s.unwrap_or(u64::MAX), is_private)?;
        Ok(format!("{}{path}", self.base_url))
    }
}

/// The URLs of one answer.
pub(crate) enum Urls<'a> {
    Server {
        server: ServerUrls<'a>,
        keys: HashMap<XorbHash, DataKey>,
        is_private: bool,
    },
    /// By xorb and first byte: no two ranges of a fetch overlap.
    Bucket(HashMap<(XorbHash, u64), Arc<str>>),
}

impl Urls<'_> {
    /// How many ranges one URL may stand for. Several ranges in one request mean something else to each kind of bucket.
    pub(crate) fn ranges_max(&self) -> usize {
        match self {
            Self::Server { .. } => limits::URL_RANGES_MAX,
            Self::Bucket(_) => 1,
        }
    }

    /// The URL of these ranges, of which there are at most [`ranges_max`](Self::ranges_max).
    pub(crate) fn of(&self, xorb: &XorbHash, ranges: &[FetchRange]) -> String {
        match self {
            Self::Server { server, keys, is_private } => {
                let key = keys.get(xorb).expect("a plan has a key for each xorb it fetches");
                let ranges: Vec<_> = ranges
                    .iter()
                    .filter_map(|range| HttpRange::from_half_open(&range.stored_bytes))
                    .collect();
                server
                    .url(key, &ranges, *is_private)
                    .expect("a plan's ranges are not empty, and a URL has few of them")
            }
            Self::Bucket(urls) => {
                let [range] = ranges else { unreachable!("a bucket's URL is for one range") };
                let url = urls.get(&(*xorb, range.stored_bytes.start));
                url.expect("every range of the plan was signed").to_string()
            }
        }
    }
}

/// Signs with the bucket's keys, and caches for a while what it signed: so that everyone who may read the same range
/// gets the same URL, and caches on the way have a use.
#[derive(Clone)]
pub struct BucketUrls {
    objects: Objects,
    ttl: Duration,
    signed: Cache<(XorbKey, u64, u64, bool), Arc<str>>,
}

impl BucketUrls {
    fn new(objects: Objects, ttl_s: u64) -> Self {
        let weight = |_: &(XorbKey, u64, u64, bool), url: &Arc<str>| {
            u32::try_from(url.len() + 160).unwrap_or(u32::MAX)
        };
        let signed = Cache::builder()
            .weigher(weight)
            .max_capacity(SIGNED_BYTES_MAX)
            .time_to_live(Duration::from_secs((ttl_s / 8).max(1)))
            .build();
        Self { objects, ttl: Duration::from_secs(ttl_s), signed }
    }

    async fn url(&self, key: &XorbKey, range: &Range<u64>, is_private: bool) -> store::Result<Arc<str>> {
        let place = (*key, range.start, range.end, is_private);
        if let Some(url) = self.signed.get(&place) {
            return Ok(url);
        }
        let ranges = std::slice::from_ref(range);
        let urls = self.objects.presign_for(&ObjectKey::Xorb(*key), ranges, self.ttl, is_private).await?;
        let url = urls.and_then(|mut urls| urls.pop()).ok_or_else(|| {
            store::Error::new(store::ErrorKind::Internal, format!("{}: not signed", ObjectKey::Xorb(*key)))
        })?;
        let url: Arc<str> = url.into();
        self.signed.insert(place, Arc::clone(&url));
        Ok(url)
    }
}

impl fmt::Debug for BucketUrls {
    /// Without the URLs, which open things.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketUrls")
            .field("objects", &self.objects)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// A URL of an object that does not exist: to see whether signing works, and what the bucket is called.
async fn sample(objects: &Objects) -> store::Result<Option<String>> {
    let range = std::slice::from_ref(&(0..1));
    let urls = objects.presign(&ObjectKey::Shard(ShardHash::ZERO), range, Duration::from_secs(1)).await?;
    Ok(urls.and_then(|mut urls| urls.pop()))
}

/// Whether clients elsewhere can be expected to reach a URL.
fn is_public(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let Some(host) = uri.host().filter(|_| uri.scheme_str() == Some("https")) else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => {
            !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified())
        }
        Ok(IpAddr::V6(ip)) => !is_private_v6(&ip),
        Err(_) => {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            host.contains('.') && !PRIVATE_NAMES.iter().any(|end| host.ends_with(end))
        }
    }
}

fn is_private_v6(ip: &Ipv6Addr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
}

/// How names end that mean something on one network only.
const PRIVATE_NAMES: &[&str] =
    &[".arpa", ".internal", ".intranet", ".invalid", ".lan", ".local", ".localhost", ".svc", ".test"];

/// What remembered URLs may take.
const SIGNED_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_as_public_by_name_and_tls() {
        for url in [
            "https://bucket.s3.eu-west-1.amazonaws.com/a?b",
            "https://storage.googleapis.com/bucket/a",
            "https://s3.example.org:9000/bucket/a",
            "https://93.184.216.34/a",
            "https://[2606:2800:220:1::1]/a",
        ] {
            assert!(is_public(url), "{url}");
        }
        for url in [
            "http://bucket.s3.eu-west-1.amazonaws.com/a",
            "https://localhost/a",
            "https://minio:9000/a",
            "https://rgw.ceph.svc/a",
            "https://s3.cluster.local./a",
            "https://S3.Example.Internal/a",
            "https://10.1.2.3/a",
            "https://192.168.1.1:443/a",
            "https://127.0.0.1/a",
            "https://[::1]:9000/a",
            "https://[fd00::1]/a",
            "not a url",
        ] {
            assert!(!is_public(url), "{url}");
        }
    }
}

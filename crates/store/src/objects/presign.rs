//! Presigned URLs: the bucket itself serves a range of an object to the holder of the URL, without a token, until it expires.
//!
//! A URL is good for one range: the `Range` header is part of what is signed, so a request with another, or without one,
//! is refused by the bucket. No two ranges share a URL, for some clients take requests on one URL for one request.
//!
//! | query parameter          | says                                                                        |
//! |--------------------------|-----------------------------------------------------------------------------|
//! | `x-xet-signed-range`     | the range, for people and access logs; buckets ignore what begins with `x-`  |
//! | `response-cache-control` | who may keep the answer, which never changes: everyone, or the caller alone |
//! | `response-expires`       | until when: no longer than the URL is good                                  |

use std::ops::Range;
use std::time::{Duration, SystemTime};

use object_store::signer::{HeaderName, HeaderValue, Method, SignedUrlOptions};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::key::{ObjectKey, path};
use crate::objects::{Objects, translate};

impl Objects {
    /// Whether [`presign`](Self::presign) gives URLs.
    pub fn can_presign(&self) -> bool {
        self.signer.is_some()
    }

    /// URLs that open `ranges` of an object for `ttl` from now, one for each range and in their order. `None` where there
    /// is nothing that could check them: in a directory. Ranges may not be empty.
    pub async fn presign(
        &self,
        key: &ObjectKey,
        ranges: &[Range<u64>],
        ttl: Duration,
    ) -> Result<Option<Vec<String>>> {
        self.presign_for(key, ranges, ttl, false).await
    }

    /// The same, of a private repository or not: who may keep the answer.
    pub async fn presign_for(
        &self,
        key: &ObjectKey,
        ranges: &[Range<u64>],
        ttl: Duration,
        is_private: bool,
    ) -> Result<Option<Vec<String>>> {
        let Some(signer) = &self.signer else { return Ok(None) };
        let expires = httpdate::fmt_http_date(SystemTime::now() + ttl);
        let mut urls = Vec::with_capacity(ranges.len());
        for range in ranges {
            let options = options(range, &expires, is_private).ok_or_else(|| {
                Error::new(ErrorKind::Invalid, format!("presign {key}: {range:?} has no bytes"))
            })?;
            let url = signer.signed_url_opts(Method::GET, &path(key), ttl, &options).await;
            urls.push(url.map_err(|source| translate("presign", &key.to_string(), source))?.into());
        }
        Ok(Some(urls))
    }
}

fn options(range: &Range<u64>, expires: &str, is_private: bool) -> Option<SignedUrlOptions> {
    let last = range.end.checked_sub(1).filter(|last| range.start <= *last)?;
    // Exactly what clients send for it.
    let header = format!("bytes={}-{last}", range.start);
    let value = HeaderValue::from_str(&header).ok()?;
    let query = [
        ("x-xet-signed-range", header.as_str()),
        ("response-cache-control", if is_private { "private, immutable" } else { "public, immutable" }),
        ("response-expires", expires),
    ];
    Some(
        SignedUrlOptions::new().with_query(query).with_signed_header(HeaderName::from_static("range"), value),
    )
}

//! What stored xorbs hold: their footers, read once and kept as long as memory allows.

use std::sync::Arc;

use moka::future::Cache;
use xet::xorb::{Footer, Form, XorbInfo};

use crate::budget::Workers;
use crate::content::recipe::RecipeXorb;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::XorbKey;
use crate::objects::Objects;
use crate::objects::key::ObjectKey;

/// Footers of stored xorbs. Several who ask for one at once wait for one read.
#[derive(Debug, Clone)]
pub(crate) struct Footers {
    objects: Objects,
    workers: Workers,
    cache: Cache<XorbKey, Arc<XorbInfo>>,
}

/// How long an unused footer stays in memory: every upload adds one, and most are not read soon.
const IDLE: std::time::Duration = std::time::Duration::from_secs(300);

impl Footers {
    pub(crate) fn new(objects: Objects, workers: Workers, bytes_max: u64) -> Self {
        let weigh = |_: &XorbKey, info: &Arc<XorbInfo>| INFO_BYTES + CHUNK_BYTES * info.chunk_count();
        let cache = Cache::builder().max_capacity(bytes_max).weigher(weigh).time_to_idle(IDLE);
        Self { objects, workers, cache: cache.build() }
    }

    /// The chunks of a stored xorb, from its footer alone.
    pub(crate) async fn of(&self, xorb: &RecipeXorb) -> Result<Arc<XorbInfo>> {
        let loaded = self.cache.try_get_with(xorb.key, self.load(*xorb)).await;
        // The one error is shared by all who waited for the read.
        loaded.map_err(|error: Arc<Error>| Error::new(error.kind(), error.to_string()))
    }

    /// Keeps what is known already.
    pub(crate) async fn remember(&self, key: XorbKey, info: Arc<XorbInfo>) {
        self.cache.insert(key, info).await;
    }

    async fn load(&self, xorb: RecipeXorb) -> Result<Arc<XorbInfo>> {
        let key = ObjectKey::Xorb(xorb.key);
        let object_bytes = u64::from(xorb.object_bytes);
        let footer_bytes = Form::V1.footer_bytes(xorb.chunk_count);
        let wrong = || Error::new(ErrorKind::Corrupt, format!("{key} does not match its row in the catalog"));
        let start = object_bytes.checked_sub(footer_bytes).ok_or_else(wrong)?;
        let tail =
            self.objects.range(&key, start..object_bytes).await.map_err(|error| match error.kind() {
                // The catalog says it is there.
                ErrorKind::NotFound => error.with_kind(ErrorKind::Corrupt),
                _ => error,
            })?;
        // The root over the chunks is computed here: damage does not get past it.
        let parsed = self.workers.run(move || Footer::parse(&tail, start)).await?;
        let footer = parsed.map_err(|source| Error::corrupt(format!("footer of {key}"), source))?;
        let info = footer.into_info().ok_or_else(wrong)?;
        if info.hash() != xorb.key.hash || info.stored_bytes() != start {
            return Err(wrong());
        }
        Ok(Arc::new(info))
    }
}

/// Approximate memory per chunk, and per xorb besides.
const CHUNK_BYTES: u32 = 40;

const INFO_BYTES: u32 = 256;

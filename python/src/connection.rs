//! Connection: address, token, cache and options of a hub, shared by a client and the files that it opened.

use std::path::PathBuf;
use std::sync::Arc;

use client::cache::Cache;
use client::cas::http::HttpOptions;
use client::hub::{Hub, RepoPath};
use client::pull::PullOptions;
use client::push::PushOptions;
use client::token::Token;

use crate::process::ForkSafe;

/// Address, token and options of a hub, shared by a client and the files that it opened.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) endpoint: String,
    pub(crate) token: Option<Token>,
    pub(crate) http: HttpOptions,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_bytes: u64,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) offline: bool,
    hub: ForkSafe<Hub>,
}

impl Connection {
    pub(crate) fn new(
        endpoint: String,
        token: Option<Token>,
        http: HttpOptions,
        memory_bytes: Option<u64>,
    ) -> Self {
        let (cache_dir, cache_bytes) = (None, 0);
        Self {
            endpoint,
            token,
            http,
            cache_dir,
            cache_bytes,
            memory_bytes,
            offline: false,
            hub: ForkSafe::new(),
        }
    }

    /// The same with a cache in `folder`; `offline`, everything comes from there.
    pub(crate) fn with_cache(self, folder: Option<PathBuf>, bytes_max: u64, offline: bool) -> Self {
        Self { cache_dir: folder, cache_bytes: bytes_max, offline, ..self }
    }

    /// The hub, connected to by this process.
    pub(crate) fn hub(&self) -> client::Result<Arc<Hub>> {
        self.hub.get_or_init(|| {
            let hub = Hub::new(&self.endpoint, self.token.clone(), self.http.clone())?;
            Ok(match self.cache()? {
                Some(cache) => hub.with_cache(cache, self.offline),
                None => hub,
            })
        })
    }

    fn cache(&self) -> client::Result<Option<Arc<Cache>>> {
        let open = |folder: &PathBuf| Cache::open(&folder.join("chunks"), self.cache_bytes).map(Arc::new);
        self.cache_dir.as_ref().map(open).transpose()
    }

    pub(crate) fn pull_options(&self, cache_chunks: bool) -> client::Result<PullOptions> {
        let mut options = PullOptions::default();
        options.memory_bytes_max = self.memory_bytes.unwrap_or(options.memory_bytes_max);
        if cache_chunks {
            options.cache = self.cache()?;
        }
        Ok(options)
    }

    pub(crate) fn push_options(&self, to: &RepoPath) -> PushOptions {
        let mut options = PushOptions::default();
        options.memory_bytes = self.memory_bytes.unwrap_or(options.memory_bytes);
        // What one hub has, another may not; so each has a folder of its own.
        let name: String = format!("{} {}", self.endpoint, to.repo)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        options.cache = self.cache_dir.as_ref().map(|folder| folder.join("python").join(name));
        options
    }
}

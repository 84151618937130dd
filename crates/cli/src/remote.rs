//! Arguments of the verbs that use a hub: endpoint, token, cache, downloads.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::cache::Cache;
use client::cas::http::HttpOptions;
use client::hub::Hub;
use client::hub::pattern::Selection;
use client::hub::settings::Settings;
use client::pull::PullOptions;
use client::push::PushOptions;
use client::token::Token;

use crate::output::{CliError, fail};

/// The hub, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    /// The hub, such as <https://hub.example.com> [default: `$DRYSTONE_ENDPOINT`, else `$HF_ENDPOINT`, else that of client.toml]
    #[arg(long, value_name = "URL", help_heading = "The hub")]
    endpoint: Option<String>,

    /// Access token [default: `$DRYSTONE_TOKEN`, else `$HF_TOKEN`, else that of client.toml]
    #[arg(long, value_name = "TOKEN", value_parser = parse_token, help_heading = "The hub")]
    token: Option<Token>,

    /// Send the token over plain HTTP to other machines too, where anyone on the way can read it
    #[arg(long, help_heading = "The hub")]
    token_in_clear: bool,

    /// Proxy for every request [default: from `$HTTPS_PROXY` and `$NO_PROXY`]
    #[arg(long, value_name = "URL", help_heading = "The hub")]
    proxy: Option<String>,

    /// File of certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE", help_heading = "The hub")]
    ca_file: Vec<PathBuf>,

    /// Bandwidth limit in bytes per second, for sending and for receiving
    #[arg(long, value_name = "BYTES", help_heading = "The hub")]
    bandwidth: Option<u64>,
}

impl HubArgs {
    /// Connects to the hub that the arguments name.
    pub(crate) fn hub(&self) -> Result<Hub, CliError> {
        let Settings { endpoint, token } = self.settings()?;
        Ok(Hub::new(&endpoint, token, self.options())?)
    }

    pub(crate) fn settings(&self) -> Result<Settings, CliError> {
        Ok(Settings::find(self.endpoint.clone(), self.token.clone(), &|name| std::env::var_os(name))?)
    }

    pub(crate) fn options(&self) -> HttpOptions {
        HttpOptions {
            token_in_clear: self.token_in_clear,
            proxy: self.proxy.clone(),
            ca_files: self.ca_file.clone(),
            bandwidth_bytes_per_s: self.bandwidth,
            ..HttpOptions::default()
        }
    }
}

/// The cache directory.
#[derive(Debug, Args)]
pub(crate) struct CacheDirArgs {
    /// Cache directory, also for downloaded chunks [default: `$DRYSTONE_CACHE_DIR`, else drystone in the user's cache directory, without chunks]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// Disable the cache
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

impl CacheDirArgs {
    /// Directory that was named. Chunks are cached only there, since they take much space.
    pub(crate) fn explicit_dir(&self) -> Option<PathBuf> {
        let named = self.cache_dir.clone().or_else(|| dir_in("DRYSTONE_CACHE_DIR"));
        named.filter(|_| !self.no_cache)
    }

    /// Directory for one store: what one store has, another may not.
    pub(crate) fn store_dir(&self, store: &str) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        let root = self.explicit_dir().or_else(user_cache)?;
        let digest = <sha2::Sha256 as sha2::Digest>::digest(store.as_bytes());
        Some(root.join(xet::hash::hex(digest.get(..8)?)))
    }
}

/// The cache of downloaded chunks.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Size limit in bytes of the cache that --cache-dir names [default: 16 GiB]
    #[arg(long, value_name = "BYTES", conflicts_with = "no_cache")]
    cache_bytes: Option<u64>,

    /// Read only from the cache, without network access
    #[arg(long, conflicts_with = "no_cache")]
    pub(crate) offline: bool,
}

impl CacheArgs {
    /// Opens the cache, if there is one.
    pub(crate) fn cache(&self, dir: &CacheDirArgs) -> Result<Option<Arc<Cache>>, CliError> {
        match dir.explicit_dir() {
            Some(folder) => {
                let bytes = self.cache_bytes.unwrap_or(CACHE_BYTES);
                Ok(Some(Arc::new(Cache::open(&folder.join("chunks"), bytes)?)))
            }
            None if self.cache_bytes.is_some() => fail("--cache-bytes needs a cache; pass --cache-dir DIR"),
            None if self.offline => {
                fail("--offline needs a cache; pass --cache-dir DIR or set DRYSTONE_CACHE_DIR")
            }
            None => Ok(None),
        }
    }
}

/// The hub, read through a cache.
#[derive(Debug, Args)]
pub(crate) struct CachedHubArgs {
    #[command(flatten)]
    hub: HubArgs,

    #[command(flatten)]
    cache_dir: CacheDirArgs,

    #[command(flatten)]
    cache: CacheArgs,
}

impl CachedHubArgs {
    /// Connects to the hub through the cache, if there is one.
    pub(crate) fn open(&self) -> Result<(Hub, Option<Arc<Cache>>), CliError> {
        let cache = self.cache.cache(&self.cache_dir)?;
        let hub = self.hub.hub()?;
        Ok(match cache {
            Some(cache) => (hub.with_cache(cache.clone(), self.cache.offline), Some(cache)),
            None => (hub, None),
        })
    }
}

/// Files of a directory or repository.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Only files that match; `*` matches slashes too
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,

    /// No files that match
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
}

impl SelectionArgs {
    pub(crate) fn selection(&self) -> Selection {
        Selection { include: self.include.clone(), exclude: self.exclude.clone() }
    }
}

/// Options of uploads.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Number of worker threads [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Memory limit in bytes for data in flight [default: 128 MiB for each worker, at most a quarter of the machine's, and 1 GiB]
    #[arg(long = "memory", value_name = "BYTES")]
    memory_bytes: Option<u64>,

    /// Seconds after which to fail altogether
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: Option<u64>,
}

impl PushArgs {
    /// Converts to options of the push engine, with this cache directory.
    pub(crate) fn options(&self, cache: Option<PathBuf>, dry_run: bool) -> PushOptions {
        let mut options = PushOptions { cache, dry_run, ..PushOptions::default() };
        options.threads = self.threads.unwrap_or(options.threads);
        options.memory_bytes = self.memory_bytes.unwrap_or(options.memory_bytes);
        options
    }
}

/// Default size limit of a cache.
const CACHE_BYTES: u64 = 16 << 30;

/// Options of downloads.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Download everything again, whatever is at the target
    #[arg(long)]
    no_reuse: bool,

    /// Do not sync files to the disk
    #[arg(long)]
    no_sync: bool,

    /// Memory limit in bytes for data in flight [default: a quarter of the machine's, at most 1 GiB]
    #[arg(long = "memory", value_name = "BYTES")]
    memory_bytes: Option<u64>,

    /// Number of parallel downloads
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,

    /// Number of worker threads [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Seconds without progress after which a request is retried
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    stall: Option<u64>,

    /// Seconds after which to fail altogether
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: Option<u64>,
}

impl PullArgs {
    /// Converts to options of the pull engine, with this cache.
    pub(crate) fn options(&self, cache: Option<Arc<Cache>>) -> PullOptions {
        let mut options = PullOptions { cache, ..PullOptions::default() };
        options.memory_bytes_max = self.memory_bytes.unwrap_or(options.memory_bytes_max);
        options.connections_max = self.connections.map_or(options.connections_max, NonZeroUsize::get);
        options.threads = self.threads.unwrap_or(options.threads);
        options.sync = !self.no_sync;
        options.reuse = !self.no_reuse;
        if let Some(stall) = self.stall.map(Duration::from_secs) {
            options.patience.stall_after = stall;
            options.patience.hedge_after = options.patience.hedge_after.min(stall / 3);
        }
        options
    }
}

/// Accepts any text, as a type that is never printed.
fn parse_token(text: &str) -> Result<Token, std::convert::Infallible> {
    Ok(Token::new(text))
}

fn user_cache() -> Option<PathBuf> {
    let home = || dir_in("HOME").map(|home| home.join(Path::new(".cache")));
    dir_in("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("drystone"))
}

fn dir_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

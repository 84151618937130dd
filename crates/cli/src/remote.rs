//! Flags that say which hub, how to reach it, and what to remember of it.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::cache::Cache;
use client::cas::http::HttpOptions;
use client::hub::Hub;
use client::hub::settings::Settings;
use client::pull::PullOptions;
use client::token::Token;

use crate::output::CliError;

/// Which hub, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// The hub, such as <https://hub.example.com> [default: `$DRYSTONE_ENDPOINT`, else `$HF_ENDPOINT`, else that of client.toml]
    #[arg(long, value_name = "URL", help_heading = "The hub")]
    endpoint: Option<String>,

    /// A token of it [default: `$DRYSTONE_TOKEN`, else `$HF_TOKEN`, else that of client.toml]
    #[arg(long, value_name = "TOKEN", value_parser = parse_token, help_heading = "The hub")]
    token: Option<Token>,

    /// Send the token also over plain HTTP to another machine, where anyone on the way can read it
    #[arg(long, help_heading = "The hub")]
    token_in_clear: bool,

    /// A proxy for every request [default: what `$HTTPS_PROXY` and `$NO_PROXY` say]
    #[arg(long, value_name = "URL", help_heading = "The hub")]
    proxy: Option<String>,

    /// A file of certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE", help_heading = "The hub")]
    ca_file: Vec<PathBuf>,

    /// The most bytes to send, and to receive, each second
    #[arg(long, value_name = "BYTES", help_heading = "The hub")]
    bandwidth: Option<u64>,
}

impl Remote {
    /// The hub, spoken to as the flags say.
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

/// What to remember.
#[derive(Debug, Args)]
pub(crate) struct Memory {
    /// Where to remember what the other side has, and to keep fetched chunks [default: `$DRYSTONE_CACHE_DIR`, else drystone in the user's cache folder, without chunks]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// Remember nothing
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

impl Memory {
    /// The cache somebody asked for: chunks are kept only there, since they take much room.
    pub(crate) fn named(&self) -> Option<PathBuf> {
        let named = self.cache_dir.clone().or_else(|| folder_in("DRYSTONE_CACHE_DIR"));
        named.filter(|_| !self.no_cache)
    }

    /// The folder for one store: what one has, another may not.
    pub(crate) fn of(&self, store: &str) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        let root = self.named().or_else(user_cache)?;
        let digest = <sha2::Sha256 as sha2::Digest>::digest(store.as_bytes());
        Some(root.join(xet::hash::hex(digest.get(..8)?)))
    }
}

/// What to keep of what is read.
#[derive(Debug, Args)]
pub(crate) struct Keeping {
    /// Bytes to keep in the cache that --cache-dir names [default: 16 GiB]
    #[arg(long, value_name = "BYTES", conflicts_with = "no_cache")]
    cache_bytes: Option<u64>,

    /// Take everything from that cache and ask nobody
    #[arg(long, conflicts_with = "no_cache")]
    pub(crate) offline: bool,
}

impl Keeping {
    /// The cache, if there is one.
    pub(crate) fn cache(&self, memory: &Memory) -> Result<Option<Arc<Cache>>, CliError> {
        match memory.named() {
            Some(folder) => {
                let bytes = self.cache_bytes.unwrap_or(CACHE_BYTES);
                Ok(Some(Arc::new(Cache::open(&folder.join("chunks"), bytes)?)))
            }
            None if self.cache_bytes.is_some() => {
                Err(CliError::Message("--cache-bytes: name the cache with --cache-dir DIR".into()))
            }
            None if self.offline => Err(CliError::Message("offline from where? say --cache-dir DIR".into())),
            None => Ok(None),
        }
    }

    /// A hub whose answers are kept in that cache, or found there.
    pub(crate) fn hub(&self, remote: &Remote, cache: Option<&Arc<Cache>>) -> Result<Hub, CliError> {
        let hub = remote.hub()?;
        Ok(match cache {
            Some(cache) => hub.with_cache(cache.clone(), self.offline),
            None => hub,
        })
    }
}

/// What a cache may hold unless it is said.
const CACHE_BYTES: u64 = 16 << 30;

/// How to pull.
#[derive(Debug, Args)]
pub(crate) struct Pulling {
    /// Do not look at what is at the target already
    #[arg(long)]
    no_reuse: bool,

    /// Do not wait until the disk has everything
    #[arg(long)]
    no_sync: bool,

    /// Memory for what is on its way, in bytes [default: a quarter of the machine's, at most 1 GiB]
    #[arg(long = "memory", value_name = "BYTES")]
    memory_bytes: Option<u64>,

    /// Downloads at once, at most
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,

    /// Workers [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Seconds after which a download without progress is given up and made again
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    stall: Option<u64>,

    /// Seconds after which to give up altogether
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: Option<u64>,
}

impl Pulling {
    /// As the flags say, with this cache.
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

/// As a token, which nothing prints.
fn parse_token(text: &str) -> Result<Token, std::convert::Infallible> {
    Ok(Token::new(text))
}

fn user_cache() -> Option<PathBuf> {
    let home = || folder_in("HOME").map(|home| home.join(Path::new(".cache")));
    folder_in("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("drystone"))
}

fn folder_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

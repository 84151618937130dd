//! What `serve` is told: defaults, then a file, then the environment, then flags; each outweighs those before it.
//!
//! A setting has one name: `url_ttl_s` in the file is `DRYSTONE_URL_TTL_S` in the environment and `--url-ttl-s` as a
//! flag. Everything is text until it is read, so every source is read and refused in the same way.

pub mod fields;
pub mod sources;
pub mod told;

pub use sources::{Layers, Source};

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use xet::limits;

use crate::door::PlaceLimits;
use crate::secret::Secret;

/// Everything a server must know to start.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How clients reach the server, without a slash at the end; `None`: as it listens.
    pub public_url: Option<String>,
    /// The folder of everything that is stored, unless the next two say otherwise.
    pub data: PathBuf,
    /// Where objects are; `None`: in the data folder. May hold a password.
    pub objects: Option<Secret<String>>,
    /// Where the catalog is; `None`: in the data folder. May hold a password.
    pub catalog: Option<Secret<String>>,
    /// Whether tokens are asked for.
    pub auth: bool,
    /// The certificate chain and the key, as PEM files; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// What bounds requests.
    pub limits: Limits,
    /// Who may read the metrics.
    pub metrics: MetricsAccess,
    /// Whose chunks a client may learn of.
    pub dedup: DedupPolicy,
    /// Where clients fetch data.
    pub data_urls: DataUrlPolicy,
    /// The file of the signing key; `None`: in the data folder, or agreed on by the catalog.
    pub signing_key_file: Option<PathBuf>,
    /// How long a data URL is good.
    pub url_ttl_s: u64,
    /// How long a CAS token is good.
    pub token_ttl_s: u64,
    /// How long a deleted repository or revision can be had back; 0: not at all.
    pub trash_s: u64,
    /// How far the audit log goes back; 0: to the beginning.
    pub audit_s: u64,
    /// How long the server goes on after it was told to stop, and says at `/ready` that it will.
    pub shutdown_delay_s: u64,
    /// How long requests may take to finish once the server was told to stop.
    pub shutdown_grace_s: u64,
    /// How long after one sweep the next begins; 0: none.
    pub sweep_interval_s: u64,
    /// How long what is unused is kept.
    pub sweep_grace_s: u64,
    /// How log lines look.
    pub log_format: LogFormat,
    /// The least important level that is logged.
    pub log_level: LogLevel,
}

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What bounds requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The body of a xorb upload.
    pub xorb_body_bytes_max: u64,
    /// The body of a shard upload.
    pub shard_body_bytes_max: u64,
    /// The body of anything else, commits above all.
    pub other_body_bytes_max: u64,
    /// One part of a file that is sent in parts; files of up to 64 parts are sent whole.
    pub lfs_part_bytes: u64,
    /// What uploads, answers and the cache of footers together may hold.
    pub memory_bytes: u64,
    /// Which of that is for footers of stored xorbs; `None`: an eighth.
    pub footer_cache_bytes: Option<u64>,
    /// What an upload must leave free on the disk of a local store; 0: nothing.
    pub disk_free_bytes_min: u64,
    /// Connections at the same time.
    pub connections_max: u32,
    /// Which of them one address may have; `None`: a quarter, or all where a proxy stands before the server.
    pub connections_per_address_max: Option<u32>,
    /// Requests per second from one address, after a burst of ten times as many; 0: any number.
    pub requests_per_s: u32,
    /// The same with one token, from wherever.
    pub token_requests_per_s: u32,
    /// How long a client may take for the TLS handshake and the first header, and for each later header.
    pub header_timeout_s: u64,
    /// How long a connection may wait for its next request.
    pub keep_alive_s: u64,
    /// How long a client may send nothing in the middle of a body.
    pub body_timeout_s: u64,
    /// How long a connection may be silent in both directions, also while the server works on an answer.
    pub idle_timeout_s: u64,
}

/// Who may read the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Everyone where the server listens on a loopback address and nothing says that others reach it; else who shows
    /// an admin token.
    Auto,
    /// Everyone.
    Open,
    /// Who shows an admin token.
    Admin,
    /// No one.
    Off,
}

/// Whose chunks a dedup query may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupPolicy {
    /// No one's.
    Off,
    /// Those of the same repository.
    Repo,
    /// Those of the same namespace.
    Namespace,
    /// Everyone's. Who asks learns that someone has the chunk.
    Global,
}

/// Where clients fetch data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataUrlPolicy {
    /// From the bucket where that is public, else from the server.
    Auto,
    /// From the server.
    Server,
    /// From the bucket.
    Bucket,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Levels of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Something is broken.
    Error,
    /// Something is odd.
    Warn,
    /// Each request.
    Info,
    /// What happens within a request.
    Debug,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            public_url: None,
            data: PathBuf::from("drystone-data"),
            objects: None,
            catalog: None,
            auth: true,
            tls: None,
            limits: Limits::default(),
            metrics: MetricsAccess::Auto,
            dedup: DedupPolicy::Namespace,
            data_urls: DataUrlPolicy::Auto,
            signing_key_file: None,
            url_ttl_s: 3600,
            token_ttl_s: 3600,
            trash_s: 7 * 24 * 3600,
            audit_s: 365 * 24 * 3600,
            shutdown_delay_s: 0,
            shutdown_grace_s: 30,
            sweep_interval_s: 86_400,
            sweep_grace_s: store::sweep::GRACE_S,
            log_format: LogFormat::Text,
            log_level: LogLevel::Info,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            xorb_body_bytes_max: limits::XORB_STORED_BYTES_MAX,
            shard_body_bytes_max: limits::SHARD_BYTES_MAX,
            other_body_bytes_max: 64 << 20,
            lfs_part_bytes: 64 << 20,
            memory_bytes: 512 << 20,
            footer_cache_bytes: None,
            disk_free_bytes_min: 1 << 30,
            connections_max: 4096,
            connections_per_address_max: None,
            requests_per_s: 0,
            token_requests_per_s: 0,
            header_timeout_s: 15,
            // Clients keep idle connections for 60 seconds: they should let go first.
            keep_alive_s: 75,
            body_timeout_s: 60,
            idle_timeout_s: 900,
        }
    }
}

/// What `memory_bytes` is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    /// For bodies that arrive. Nothing else takes from it: readers cannot keep writers out.
    pub uploads_bytes: u64,
    /// For data on its way out.
    pub answers_bytes: u64,
    /// For footers of stored xorbs.
    pub footers_bytes: u64,
}

impl Limits {
    /// A quarter for answers, an eighth or what is set for footers, the rest for uploads.
    pub fn memory_shares(&self) -> MemoryShares {
        let answers_bytes = self.memory_bytes / 4;
        let footers_bytes = self.footer_cache_bytes.unwrap_or(self.memory_bytes / 8);
        let uploads_bytes = self.memory_bytes.saturating_sub(answers_bytes).saturating_sub(footers_bytes);
        MemoryShares { uploads_bytes, answers_bytes, footers_bytes }
    }
}

impl ServeConfig {
    /// Whether everyone may read the metrics, only whoever keeps the server (`false`), or no one (`None`).
    pub fn metrics_are_open(&self) -> Option<bool> {
        match self.metrics {
            MetricsAccess::Off => None,
            MetricsAccess::Open => Some(true),
            MetricsAccess::Admin => Some(false),
            // A proxy on the same machine makes everyone a neighbour: a public URL tells of one.
            MetricsAccess::Auto => Some(self.listen.ip().is_loopback() && self.public_url.is_none()),
        }
    }

    /// Connections in total and from one address.
    pub fn place_limits(&self) -> PlaceLimits {
        let total = self.limits.connections_max;
        // A public URL on a loopback address tells of a proxy, which is where all connections come from.
        let is_behind_proxy = self.listen.ip().is_loopback() && self.public_url.is_some();
        let share = if is_behind_proxy { total } else { (total / 4).max(1) };
        let per_address = self.limits.connections_per_address_max.unwrap_or(share).min(total);
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        PlaceLimits { total: count(total), per_address: count(per_address) }
    }

    /// Reads the layers, the heaviest last, and checks what came out.
    pub fn load(layers: &Layers) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut tls = (None, None);
        for (name, setting) in layers.merged()? {
            fields::apply(&mut config, &mut tls, name, &setting)?;
        }
        config.tls = match tls {
            (None, None) => None,
            (Some((cert, _)), Some((key, _))) => Some(TlsFiles { cert, key }),
            (Some((_, from)), None) => {
                return Err(ConfigError::new("tls_cert", from, "needs tls_key as well"));
            }
            (None, Some((_, from))) => {
                return Err(ConfigError::new("tls_key", from, "needs tls_cert as well"));
            }
        };
        config.check(layers)?;
        Ok(config)
    }

    /// The URL clients append paths to, for a server that listens at `bound`.
    pub fn base_url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{bound}"))
    }

    /// What only two settings together can get wrong. Blames the one that is easier to change.
    fn check(&self, layers: &Layers) -> Result<(), ConfigError> {
        let refuse = |field, message: String| Err(ConfigError::new(field, layers.source_of(field), message));
        let ip = self.listen.ip();
        if !self.auth && !ip.is_loopback() {
            let message =
                format!("off is only for a server that no one else reaches, and {ip} is no loopback address");
            return refuse("auth", message);
        }
        if ip.is_unspecified() && self.public_url.is_none() {
            return refuse("listen", format!("{ip} is no address to connect to: set public_url"));
        }
        let largest = self.limits.xorb_body_bytes_max.max(self.limits.shard_body_bytes_max);
        let shares = self.limits.memory_shares();
        if shares.uploads_bytes < largest {
            let message = format!(
                "leaves {} bytes for uploads, and the largest body has {largest}",
                shares.uploads_bytes
            );
            return refuse("memory_bytes", message);
        }
        Ok(())
    }
}

/// A setting that cannot be used, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The setting.
    pub field: String,
    /// Who said it.
    pub source: Source,
    /// What is wrong.
    pub message: String,
}

impl ConfigError {
    pub(crate) fn new(field: impl Into<String>, source: Source, message: impl Into<String>) -> Self {
        Self { field: field.into(), source, message: message.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Default => write!(f, "{}: {}", self.field, self.message),
            source => write!(f, "{} ({source}): {}", self.field, self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;

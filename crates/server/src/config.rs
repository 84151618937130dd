//! Configuration of `serve`: defaults, then a file, then the environment, then flags; each takes precedence over those before it.
//!
//! A setting has one name: `url_ttl_s` in the file is `DRYSTONE_URL_TTL_S` in the environment and `--url-ttl-s` as a
//! flag. It is the name of a field of [`ServeConfig`] or [`Limits`], whose attributes say which values it takes. Every
//! value is text until it is deserialised, so that every source is checked in the same way.

pub(crate) mod effective;
pub(crate) mod layers;
mod values;

pub use effective::EffectiveSetting;
pub use layers::Layers;
pub(crate) use layers::Source;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xet::limits;

use crate::secret::Secret;

/// Every setting of a server.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct ServeConfig {
    /// Where to listen; port 0 takes a free one.
    #[serde(deserialize_with = "values::listen")]
    pub listen: SocketAddr,
    /// How clients reach the server, without a slash at the end; `None`: as it listens.
    #[serde(deserialize_with = "values::public_url")]
    pub public_url: Option<String>,
    /// The folder of everything that is stored, unless the next two say otherwise.
    #[serde(deserialize_with = "values::path")]
    pub data: PathBuf,
    /// Where objects are; `None`: in the data folder. May hold a password.
    #[serde(deserialize_with = "values::url", serialize_with = "values::without_secrets")]
    pub objects: Option<Secret<String>>,
    /// Where the catalog is; `None`: in the data folder. May hold a password.
    #[serde(deserialize_with = "values::url", serialize_with = "values::without_secrets")]
    pub catalog: Option<Secret<String>>,
    /// Whether tokens are required.
    #[serde(deserialize_with = "values::on_off", serialize_with = "values::show_on_off")]
    pub auth: bool,
    /// The certificate chain, as a PEM file; `None`: plain HTTP.
    #[serde(deserialize_with = "values::optional_path")]
    pub tls_cert: Option<PathBuf>,
    /// The private key, as a PEM file.
    #[serde(deserialize_with = "values::optional_path")]
    pub tls_key: Option<PathBuf>,
    /// What bounds requests.
    #[serde(flatten)]
    pub limits: Limits,
    /// Who may read the metrics.
    #[serde(deserialize_with = "values::word")]
    pub metrics: MetricsAccess,
    /// Whose chunks a client may learn of.
    #[serde(deserialize_with = "values::word")]
    pub dedup: DedupPolicy,
    /// Where clients fetch data.
    #[serde(deserialize_with = "values::word")]
    pub data_urls: DataUrlPolicy,
    /// The file of the signing key; `None`: in the data folder, or agreed on by the catalog.
    #[serde(deserialize_with = "values::optional_path")]
    pub signing_key_file: Option<PathBuf>,
    /// How long a data URL is good.
    #[serde(deserialize_with = "values::number::<_, _, 60, WEEK_S>")]
    pub url_ttl_s: u64,
    /// How long a CAS token is good.
    // Clients renew a token 60 seconds before it expires: a shorter life would renew it for ever.
    #[serde(deserialize_with = "values::number::<_, _, 120, WEEK_S>")]
    pub token_ttl_s: u64,
    /// How long a deleted repository or revision can be had back; 0: not at all.
    #[serde(deserialize_with = "values::number::<_, _, 0, { 520 * WEEK_S }>")]
    pub trash_s: u64,
    /// How far the audit log goes back; 0: to the beginning.
    #[serde(deserialize_with = "values::number::<_, _, 0, { 5200 * WEEK_S }>")]
    pub audit_s: u64,
    /// How long the server goes on after the signal to stop, while `/ready` reports that it stops.
    #[serde(deserialize_with = "values::number::<_, _, 0, 3600>")]
    pub shutdown_delay_s: u64,
    /// How long requests may take to finish once the server stops.
    #[serde(deserialize_with = "values::number::<_, _, 0, 3600>")]
    pub shutdown_grace_s: u64,
    /// How long after one sweep the next begins; 0: none.
    #[serde(deserialize_with = "values::number::<_, _, 0, { 366 * DAY_S }>")]
    pub sweep_interval_s: u64,
    /// How long what is unused is kept.
    // What a dedup answer names must live as long as the answer, and a while longer.
    #[serde(deserialize_with = "values::number::<_, _, { DAY_S + 3600 }, { 3660 * DAY_S }>")]
    pub sweep_grace_s: u64,
    /// How log lines look.
    #[serde(deserialize_with = "values::word")]
    pub log_format: LogFormat,
    /// The least important level that is logged.
    #[serde(deserialize_with = "values::word")]
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Limits {
    /// The body of a xorb upload.
    // A smaller limit would refuse xorbs that every client may send.
    #[serde(deserialize_with = "values::bytes::<_, _, { limits::XORB_STORED_BYTES_MAX }, { 1 << 30 }>")]
    pub xorb_body_bytes_max: u64,
    /// The body of a shard upload.
    #[serde(deserialize_with = "values::bytes::<_, _, { 1 << 20 }, { limits::SHARD_BYTES_MAX }>")]
    pub shard_body_bytes_max: u64,
    /// The body of anything else, commits above all.
    #[serde(deserialize_with = "values::bytes::<_, _, { 1 << 20 }, { 1 << 32 }>")]
    pub other_body_bytes_max: u64,
    /// One part of a file that is sent in parts; files of up to 64 parts are sent whole.
    #[serde(deserialize_with = "values::bytes::<_, _, { 1 << 16 }, { 1 << 30 }>")]
    pub lfs_part_bytes: u64,
    /// What uploads, answers and the cache of footers together may hold.
    #[serde(deserialize_with = "values::bytes::<_, _, { 1 << 26 }, { 1 << 44 }>")]
    pub memory_bytes: u64,
    /// Which of that is for footers of stored xorbs; `None`: an eighth.
    #[serde(deserialize_with = "values::bytes::<_, _, { 1 << 20 }, { 1 << 42 }>")]
    pub footer_cache_bytes: Option<u64>,
    /// What an upload must leave free on the disk of a local store; 0: nothing.
    #[serde(deserialize_with = "values::bytes::<_, _, 0, { 1 << 50 }>")]
    pub disk_free_bytes_min: u64,
    /// Connections at the same time.
    #[serde(deserialize_with = "values::number::<_, _, 1, 1_000_000>")]
    pub connections_max: u32,
    /// Which of them one address may have; `None`: a quarter, or all where a proxy stands before the server.
    #[serde(deserialize_with = "values::number::<_, _, 1, 1_000_000>")]
    pub connections_per_address_max: Option<u32>,
    /// Requests per second from one address, after a burst of ten times as many; 0: any number.
    #[serde(deserialize_with = "values::number::<_, _, 0, 1_000_000>")]
    pub requests_per_s: u32,
    /// The same with one token, from wherever.
    #[serde(deserialize_with = "values::number::<_, _, 0, 1_000_000>")]
    pub token_requests_per_s: u32,
    /// How long a client may take for the TLS handshake and the first header, and for each later header.
    #[serde(deserialize_with = "values::number::<_, _, 1, 3600>")]
    pub header_timeout_s: u64,
    /// How long a connection may wait for its next request.
    #[serde(deserialize_with = "values::number::<_, _, 1, 3600>")]
    pub keep_alive_s: u64,
    /// How long a client may send nothing in the middle of a body.
    #[serde(deserialize_with = "values::number::<_, _, 1, 3600>")]
    pub body_timeout_s: u64,
    /// How long a connection may be silent in both directions, also while the server works on an answer.
    #[serde(deserialize_with = "values::number::<_, _, 10, 86_400>")]
    pub idle_timeout_s: u64,
}

/// Who may read the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DedupPolicy {
    /// No one's.
    Off,
    /// Those of the same repository.
    Repo,
    /// Those of the same namespace.
    Namespace,
    /// Everyone's. The caller learns that someone has the chunk.
    Global,
}

/// Where clients fetch data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DataUrlPolicy {
    /// From the bucket where that is public, else from the server.
    Auto,
    /// From the server.
    Server,
    /// From the bucket.
    Bucket,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Levels of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
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
            tls_cert: None,
            tls_key: None,
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
            sweep_grace_s: store::upkeep::GRACE_S,
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
            // Clients keep idle connections for 60 seconds: they should close first.
            keep_alive_s: 75,
            body_timeout_s: 60,
            idle_timeout_s: 900,
        }
    }
}

/// Most connections at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// In total.
    pub(crate) total: usize,
    /// From one address.
    pub(crate) per_address: usize,
}

/// What `memory_bytes` is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryShares {
    /// For bodies that arrive. Nothing else takes from it: readers cannot keep writers out.
    pub(crate) uploads_bytes: u64,
    /// For data on its way out.
    pub(crate) answers_bytes: u64,
    /// For footers of stored xorbs.
    pub(crate) footers_bytes: u64,
}

impl Limits {
    /// A quarter for answers, an eighth or what is set for footers, the rest for uploads.
    pub(crate) fn memory_shares(&self) -> MemoryShares {
        let answers_bytes = self.memory_bytes / 4;
        let footers_bytes = self.footer_cache_bytes.unwrap_or(self.memory_bytes / 8);
        let uploads_bytes = self.memory_bytes.saturating_sub(answers_bytes).saturating_sub(footers_bytes);
        MemoryShares { uploads_bytes, answers_bytes, footers_bytes }
    }
}

impl ServeConfig {
    /// Whether everyone may read the metrics, only administrators (`false`), or no one (`None`).
    pub(crate) fn metrics_are_open(&self) -> Option<bool> {
        match self.metrics {
            MetricsAccess::Off => None,
            MetricsAccess::Open => Some(true),
            MetricsAccess::Admin => Some(false),
            // A proxy on the same machine makes everyone a neighbour: a public URL is a sign of one.
            MetricsAccess::Auto => Some(self.listen.ip().is_loopback() && self.public_url.is_none()),
        }
    }

    /// Connections in total and from one address.
    pub(crate) fn connection_limits(&self) -> ConnectionLimits {
        let total = self.limits.connections_max;
        // A public URL on a loopback address is a sign of a proxy, which is where all connections come from.
        let is_behind_proxy = self.listen.ip().is_loopback() && self.public_url.is_some();
        let share = if is_behind_proxy { total } else { (total / 4).max(1) };
        let per_address = self.limits.connections_per_address_max.unwrap_or(share).min(total);
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        ConnectionLimits { total: count(total), per_address: count(per_address) }
    }

    /// Reads the layers, the last taking precedence, and checks the result.
    pub fn load(layers: &Layers) -> Result<Self, ConfigError> {
        let merged = layers.merged()?;
        // One by one first: an error then belongs to its setting.
        for (name, setting) in &merged {
            values::parse::<Self>([(name.as_str(), setting.text.as_str())])
                .map_err(|message| ConfigError::new(name, setting.source.clone(), message))?;
        }
        let all = merged.iter().map(|(name, setting)| (name.as_str(), setting.text.as_str()));
        let config: Self = values::parse(all)
            .map_err(|message| ConfigError::new("configuration", Source::Default, message))?;
        config.check(layers)?;
        Ok(config)
    }

    /// The certificate chain and its key; `None`: plain HTTP.
    pub fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles { cert: self.tls_cert.clone()?, key: self.tls_key.clone()? })
    }

    /// The URL clients append paths to, for a server that listens at `bound`.
    pub fn base_url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{bound}"))
    }

    /// What only two settings together can get wrong. Blames the one that is easier to change.
    fn check(&self, layers: &Layers) -> Result<(), ConfigError> {
        let refuse = |field, message: String| Err(ConfigError::new(field, layers.source_of(field), message));
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => return refuse("tls_cert", "needs tls_key as well".to_owned()),
            (None, Some(_)) => return refuse("tls_key", "needs tls_cert as well".to_owned()),
            _ => {}
        }
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
    /// Origin of the value.
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

const DAY_S: u64 = 24 * 3600;
const WEEK_S: u64 = 7 * DAY_S;

#[cfg(test)]
mod tests;

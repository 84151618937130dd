//! How each setting is read from text, in one table.

use std::path::PathBuf;

use axum::http::Uri;
use xet::limits;

use super::sources::{Setting, Source};
use super::{ConfigError, DataUrlPolicy, DedupPolicy, LogFormat, LogLevel, MetricsAccess, ServeConfig};
use crate::secret::Secret;

/// Every setting: its name, and what it is.
pub const FIELDS: &[(&str, &str)] = &[
    ("listen", "address and port to listen on; port 0 takes a free one"),
    ("public_url", "how clients reach the server, without a slash at the end"),
    ("data", "folder of everything that is stored"),
    ("objects", "where objects are, such as s3://bucket/prefix; else in the data folder"),
    ("catalog", "where the catalog is, such as postgres://host/name; else in the data folder"),
    ("auth", "on, or off for a loopback address"),
    ("tls_cert", "PEM file of the certificate chain"),
    ("tls_key", "PEM file of the private key"),
    ("xorb_body_bytes_max", "largest body of a xorb upload"),
    ("shard_body_bytes_max", "largest body of a shard upload"),
    ("other_body_bytes_max", "largest body of any other request"),
    ("lfs_part_bytes", "length of a part where clients without XET send a file in parts: above 64 of these"),
    ("memory_bytes", "what uploads, answers and the cache of footers together may hold"),
    ("footer_cache_bytes", "which of that is for footers of stored xorbs; else an eighth"),
    ("disk_free_bytes_min", "what uploads leave free on the disk of a local store; 0 for nothing"),
    ("connections_max", "connections at the same time"),
    (
        "connections_per_address_max",
        "connections from one address; else a quarter, or all behind a proxy on this machine",
    ),
    ("requests_per_s", "requests per second from one address; 0 for any number"),
    ("token_requests_per_s", "requests per second with one token; 0 for any number"),
    ("header_timeout_s", "seconds for the TLS handshake and the header of a request"),
    ("keep_alive_s", "seconds a connection may wait for its next request"),
    ("body_timeout_s", "seconds a client may send nothing in the middle of a body"),
    ("idle_timeout_s", "seconds a connection may be silent in both directions"),
    ("metrics", "who may read /metrics: auto, open, admin or off"),
    ("dedup", "whose chunks a dedup query may find: off, repo, namespace or global"),
    ("data_urls", "where clients fetch data: auto, server or bucket"),
    ("signing_key_file", "file of the key that signs tokens and data URLs, for servers that share one"),
    ("url_ttl_s", "seconds a data URL is good"),
    ("token_ttl_s", "seconds a CAS token is good"),
    ("trash_s", "seconds a deleted repository or revision can be had back; 0 for not at all"),
    ("audit_s", "seconds the audit log goes back; 0 for ever"),
    ("shutdown_delay_s", "seconds the server goes on after it was told to stop, with /ready saying no"),
    ("shutdown_grace_s", "seconds requests may take to finish when the server stops"),
    ("sweep_interval_s", "seconds between two sweeps of what nobody needs any more; 0 for none"),
    ("sweep_grace_s", "seconds that what is unused is kept"),
    ("log_format", "text or json"),
    ("log_level", "error, warn, info or debug"),
];

/// A file of the TLS pair and who named it.
pub(super) type TlsFile = Option<(PathBuf, Source)>;

/// Puts one setting where it belongs.
pub(super) fn apply(
    config: &mut ServeConfig,
    tls: &mut (TlsFile, TlsFile),
    name: &'static str,
    setting: &Setting,
) -> Result<(), ConfigError> {
    let text = setting.text.as_str();
    let limits = &mut config.limits;
    let read = match name {
        "listen" => listen(text).map(|v| config.listen = v),
        "public_url" => public_url(text).map(|v| config.public_url = Some(v)),
        "data" => path(text).map(|v| config.data = v),
        "objects" => url(text).map(|v| config.objects = Some(v)),
        "catalog" => url(text).map(|v| config.catalog = Some(v)),
        "auth" => word(text, &[("on", true), ("true", true), ("off", false), ("false", false)])
            .map(|v| config.auth = v),
        "tls_cert" => path(text).map(|v| tls.0 = Some((v, setting.source.clone()))),
        "tls_key" => path(text).map(|v| tls.1 = Some((v, setting.source.clone()))),
        // A smaller limit would refuse xorbs that every client may send.
        "xorb_body_bytes_max" => {
            bytes(text, limits::XORB_STORED_BYTES_MAX, 1 << 30).map(|v| limits.xorb_body_bytes_max = v)
        }
        "shard_body_bytes_max" => {
            bytes(text, 1 << 20, limits::SHARD_BYTES_MAX).map(|v| limits.shard_body_bytes_max = v)
        }
        "other_body_bytes_max" => bytes(text, 1 << 20, 1 << 32).map(|v| limits.other_body_bytes_max = v),
        "lfs_part_bytes" => bytes(text, 1 << 16, 1 << 30).map(|v| limits.lfs_part_bytes = v),
        "memory_bytes" => bytes(text, 1 << 26, 1 << 44).map(|v| limits.memory_bytes = v),
        "footer_cache_bytes" => bytes(text, 1 << 20, 1 << 42).map(|v| limits.footer_cache_bytes = Some(v)),
        "disk_free_bytes_min" => bytes(text, 0, 1 << 50).map(|v| limits.disk_free_bytes_min = v),
        "connections_max" => count(text, 1, 1_000_000).map(|v| limits.connections_max = v),
        "connections_per_address_max" => {
            count(text, 1, 1_000_000).map(|v| limits.connections_per_address_max = Some(v))
        }
        "requests_per_s" => count(text, 0, 1_000_000).map(|v| limits.requests_per_s = v),
        "token_requests_per_s" => count(text, 0, 1_000_000).map(|v| limits.token_requests_per_s = v),
        "header_timeout_s" => number(text, 1, 3600).map(|v| limits.header_timeout_s = v),
        "keep_alive_s" => number(text, 1, 3600).map(|v| limits.keep_alive_s = v),
        "body_timeout_s" => number(text, 1, 3600).map(|v| limits.body_timeout_s = v),
        "idle_timeout_s" => number(text, 10, 86_400).map(|v| limits.idle_timeout_s = v),
        "metrics" => {
            let words = [
                ("auto", MetricsAccess::Auto),
                ("open", MetricsAccess::Open),
                ("admin", MetricsAccess::Admin),
                ("off", MetricsAccess::Off),
            ];
            word(text, &words).map(|v| config.metrics = v)
        }
        "dedup" => {
            let words = [
                ("off", DedupPolicy::Off),
                ("repo", DedupPolicy::Repo),
                ("namespace", DedupPolicy::Namespace),
                ("global", DedupPolicy::Global),
            ];
            word(text, &words).map(|v| config.dedup = v)
        }
        "data_urls" => {
            let words = [
                ("auto", DataUrlPolicy::Auto),
                ("server", DataUrlPolicy::Server),
                ("bucket", DataUrlPolicy::Bucket),
            ];
            word(text, &words).map(|v| config.data_urls = v)
        }
        "signing_key_file" => path(text).map(|v| config.signing_key_file = Some(v)),
        "url_ttl_s" => number(text, 60, WEEK_S).map(|v| config.url_ttl_s = v),
        // Clients renew a token 60 seconds before it expires: a shorter life would renew it for ever.
        "token_ttl_s" => number(text, 120, WEEK_S).map(|v| config.token_ttl_s = v),
        "trash_s" => number(text, 0, 520 * WEEK_S).map(|v| config.trash_s = v),
        "audit_s" => number(text, 0, 5200 * WEEK_S).map(|v| config.audit_s = v),
        "shutdown_delay_s" => number(text, 0, 3600).map(|v| config.shutdown_delay_s = v),
        "shutdown_grace_s" => number(text, 0, 3600).map(|v| config.shutdown_grace_s = v),
        "sweep_interval_s" => number(text, 0, 366 * DAY_S).map(|v| config.sweep_interval_s = v),
        // What a dedup answer names must live as long as the answer, and a while longer.
        "sweep_grace_s" => number(text, DAY_S + 3600, 3660 * DAY_S).map(|v| config.sweep_grace_s = v),
        "log_format" => {
            word(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)]).map(|v| config.log_format = v)
        }
        "log_level" => {
            let words = [
                ("error", LogLevel::Error),
                ("warn", LogLevel::Warn),
                ("info", LogLevel::Info),
                ("debug", LogLevel::Debug),
            ];
            word(text, &words).map(|v| config.log_level = v)
        }
        _ => Err(format!("no setting is named {name}")),
    };
    read.map_err(|message| ConfigError::new(name, setting.source.clone(), message))
}

/// What reading a value ends with; the message says what was expected.
type Read<T> = Result<T, String>;

fn listen(text: &str) -> Read<std::net::SocketAddr> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let numeric = numeric.as_deref().unwrap_or(text);
    numeric
        .parse()
        .map_err(|_| format!("expected address:port such as 127.0.0.1:8080, found {}", quote(text)))
}

/// Clients append paths to this as it is, so it must end where they begin.
fn public_url(text: &str) -> Read<String> {
    let expected = |what: &str| Err(format!("{what}, found {}", quote(text)));
    let Ok(uri) = text.parse::<Uri>() else { return expected("expected a URL") };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return expected("expected http:// or https://");
    }
    if text.ends_with('/') {
        return expected("expected no slash at the end");
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if uri.query().is_some() || text.contains(['#', '?']) || authority.contains('@') {
        return expected("expected no user, query or fragment");
    }
    Ok(text.to_owned())
}

/// A URL that the store will read. It is not repeated in messages: it may hold a password.
fn url(text: &str) -> Read<Secret<String>> {
    let sound = text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && !scheme.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    if sound {
        Ok(Secret::new(text.to_owned()))
    } else {
        Err("expected a URL such as s3://bucket/prefix".to_owned())
    }
}

fn path(text: &str) -> Read<PathBuf> {
    if text.is_empty() { Err("expected a path, found nothing".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Read<T> {
    let found = words.iter().find(|(word, _)| *word == text);
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("expected {}, found {}", all.join(" or "), quote(text)))
}

fn number(text: &str, min: u64, max: u64) -> Read<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let value = text.parse().ok().filter(|value| digits && (min..=max).contains(value));
    value.ok_or_else(|| format!("expected a number from {min} to {max}, found {}", quote(text)))
}

fn count(text: &str, min: u32, max: u32) -> Read<u32> {
    let value = number(text, u64::from(min), u64::from(max))?;
    u32::try_from(value).map_err(|_| format!("expected at most {max}"))
}

/// A number of bytes, with or without `KiB`, `MiB` or `GiB` after it.
fn bytes(text: &str, min: u64, max: u64) -> Read<u64> {
    let units = [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let with_unit =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), *factor)));
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    let value = number(digits, 0, u64::MAX).ok().and_then(|value| value.checked_mul(factor));
    value.filter(|value| (min..=max).contains(value)).ok_or_else(|| {
        format!("expected {min} to {max} bytes, as a number or with KiB, MiB or GiB, found {}", quote(text))
    })
}

/// A value in a message, cut where it is long.
fn quote(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

const DAY_S: u64 = 24 * 3600;
const WEEK_S: u64 = 7 * DAY_S;

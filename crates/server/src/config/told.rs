//! Every setting as it came out, for whoever asks what a server was told.

use super::fields::FIELDS;
use super::{DataUrlPolicy, DedupPolicy, Layers, LogFormat, LogLevel, MetricsAccess, ServeConfig, Source};

/// One setting and who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub name: &'static str,
    /// What holds, without passwords; `None` where nothing was said and nothing is assumed.
    pub value: Option<String>,
    /// Who said it.
    pub source: Source,
}

impl ServeConfig {
    /// All settings in the order of [`FIELDS`].
    pub fn told(&self, layers: &Layers) -> Vec<Told> {
        let told = |(name, _): &(&'static str, &str)| Told {
            name,
            value: self.value_of(name),
            source: layers.source_of(name),
        };
        FIELDS.iter().map(told).collect()
    }

    fn value_of(&self, name: &str) -> Option<String> {
        let limits = &self.limits;
        let number = |number: u64| Some(number.to_string());
        match name {
            "listen" => Some(self.listen.to_string()),
            "public_url" => self.public_url.clone(),
            "data" => Some(self.data.display().to_string()),
            "objects" => self.objects.as_ref().map(|url| without_secrets(url.expose())),
            "catalog" => self.catalog.as_ref().map(|url| without_secrets(url.expose())),
            "auth" => Some(if self.auth { "on" } else { "off" }.to_owned()),
            "tls_cert" => self.tls.as_ref().map(|tls| tls.cert.display().to_string()),
            "tls_key" => self.tls.as_ref().map(|tls| tls.key.display().to_string()),
            "xorb_body_bytes_max" => number(limits.xorb_body_bytes_max),
            "shard_body_bytes_max" => number(limits.shard_body_bytes_max),
            "other_body_bytes_max" => number(limits.other_body_bytes_max),
            "lfs_part_bytes" => number(limits.lfs_part_bytes),
            "memory_bytes" => number(limits.memory_bytes),
            "footer_cache_bytes" => number(limits.memory_shares().footers_bytes),
            "disk_free_bytes_min" => number(limits.disk_free_bytes_min),
            "connections_max" => number(limits.connections_max.into()),
            "connections_per_address_max" => number(self.place_limits().per_address as u64),
            "requests_per_s" => number(limits.requests_per_s.into()),
            "token_requests_per_s" => number(limits.token_requests_per_s.into()),
            "header_timeout_s" => number(limits.header_timeout_s),
            "keep_alive_s" => number(limits.keep_alive_s),
            "body_timeout_s" => number(limits.body_timeout_s),
            "idle_timeout_s" => number(limits.idle_timeout_s),
            "metrics" => Some(
                match self.metrics {
                    MetricsAccess::Auto => "auto",
                    MetricsAccess::Open => "open",
                    MetricsAccess::Admin => "admin",
                    MetricsAccess::Off => "off",
                }
                .to_owned(),
            ),
            "dedup" => Some(
                match self.dedup {
                    DedupPolicy::Off => "off",
                    DedupPolicy::Repo => "repo",
                    DedupPolicy::Namespace => "namespace",
                    DedupPolicy::Global => "global",
                }
                .to_owned(),
            ),
            "data_urls" => Some(
                match self.data_urls {
                    DataUrlPolicy::Auto => "auto",
                    DataUrlPolicy::Server => "server",
                    DataUrlPolicy::Bucket => "bucket",
                }
                .to_owned(),
            ),
            "signing_key_file" => self.signing_key_file.as_ref().map(|file| file.display().to_string()),
            "url_ttl_s" => number(self.url_ttl_s),
            "token_ttl_s" => number(self.token_ttl_s),
            "trash_s" => number(self.trash_s),
            "audit_s" => number(self.audit_s),
            "shutdown_delay_s" => number(self.shutdown_delay_s),
            "shutdown_grace_s" => number(self.shutdown_grace_s),
            "sweep_interval_s" => number(self.sweep_interval_s),
            "sweep_grace_s" => number(self.sweep_grace_s),
            "log_format" => Some(if self.log_format == LogFormat::Text { "text" } else { "json" }.to_owned()),
            "log_level" => Some(
                match self.log_level {
                    LogLevel::Error => "error",
                    LogLevel::Warn => "warn",
                    LogLevel::Info => "info",
                    LogLevel::Debug => "debug",
                }
                .to_owned(),
            ),
            _ => None,
        }
    }
}

/// A URL without what may be secret: whoever it names before the host, and its query.
pub fn without_secrets(url: &str) -> String {
    let (url, query) = match url.split_once('?') {
        Some((url, _)) => (url, "?..."),
        None => (url, ""),
    };
    // The last sign counts: a password may hold one itself.
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}{query}"),
        _ => format!("{url}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_told_with_who_said_it() {
        let layers = Layers::new().with_file("hub.toml", "url_ttl_s = 100\ndedup = 'repo'").unwrap();
        let layers = layers.with_environment([("DRYSTONE_DEDUP".to_owned(), "off".to_owned())]);
        let layers = layers.with_flag("tls_cert", "c.pem").with_flag("tls_key", "k.pem");
        let config = ServeConfig::load(&layers).unwrap();
        let told = config.told(&layers);
        assert_eq!(told.len(), FIELDS.len());
        let of = |name| told.iter().find(|told| told.name == name).unwrap();
        assert_eq!(
            (of("url_ttl_s").value.as_deref(), &of("url_ttl_s").source),
            (Some("100"), &Source::File("hub.toml".into()))
        );
        assert_eq!(
            (of("dedup").value.as_deref(), of("dedup").source.to_string().as_str()),
            (Some("off"), "from DRYSTONE_DEDUP")
        );
        assert_eq!(of("tls_key").value.as_deref(), Some("k.pem"));
        assert_eq!(
            (of("listen").value.as_deref(), &of("listen").source),
            (Some("127.0.0.1:8080"), &Source::Default)
        );
        // What holds can be said again and means the same, so none of it was told wrongly.
        let again = told.iter().filter_map(|told| Some((told.name, told.value.clone()?)));
        let again = again.fold(Layers::new(), |layers, (name, value)| layers.with_flag(name, value));
        let again = ServeConfig::load(&again).unwrap();
        let values = |config: &ServeConfig| {
            config.told(&Layers::new()).into_iter().map(|told| told.value).collect::<Vec<_>>()
        };
        assert_eq!(values(&again), values(&config));
        let unsaid = ["public_url", "objects", "catalog", "signing_key_file"];
        assert!(told.iter().all(|told| told.value.is_some() != unsaid.contains(&told.name)));
    }

    #[test]
    fn passwords_are_not_told() {
        for (url, shown) in [
            ("postgres://ada:hunter2@db:5432/hub", "postgres://...@db:5432/hub"),
            ("postgres://ada:hunter2/@x@db/hub?password=hunter2", "postgres://...@db/hub?..."),
            ("s3://bucket/prefix", "s3://bucket/prefix"),
            ("sqlite:///srv/catalog.db", "sqlite:///srv/catalog.db"),
            ("sqlite:x.db?mode=rwc", "sqlite:x.db?..."),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}

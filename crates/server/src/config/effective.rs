//! The effective settings of a server, each with its origin.

use serde_json::Value;

use super::{Layers, ServeConfig, Source};

/// One setting, its value and where that came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// Its name.
    pub name: String,
    /// The value, without passwords; `None` where it is not set and has no default.
    pub value: Option<String>,
    /// Origin of the value.
    pub source: Source,
}

impl ServeConfig {
    /// Names of all settings.
    pub fn names() -> Vec<String> {
        Self::default().values().into_iter().map(|(name, _)| name).collect()
    }

    /// All settings in the order of their names.
    pub fn effective(&self, layers: &Layers) -> Vec<EffectiveSetting> {
        let setting = |(name, value): (String, Value)| {
            let value = match (name.as_str(), value) {
                // Shares of other settings, unless they are set.
                ("footer_cache_bytes", _) => Some(self.limits.memory_shares().footers_bytes.to_string()),
                ("connections_per_address_max", _) => Some(self.connection_limits().per_address.to_string()),
                (_, Value::Null) => None,
                (_, Value::String(text)) => Some(text),
                (_, value) => Some(value.to_string()),
            };
            EffectiveSetting { value, source: layers.source_of(&name), name }
        };
        self.values().into_iter().map(setting).collect()
    }

    fn values(&self) -> Vec<(String, Value)> {
        let mut values: Vec<_> = match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values.into_iter().collect(),
            _ => Vec::new(),
        };
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values
    }
}

/// A URL without its user, password and query, which may be secret.
pub(crate) fn without_secrets(url: &str) -> String {
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
    fn every_setting_is_shown_with_its_origin() {
        let layers = Layers::new().with_file("hub.toml", "url_ttl_s = 100\ndedup = 'repo'").unwrap();
        let layers = layers.with_environment([("DRYSTONE_DEDUP".to_owned(), "off".to_owned())]);
        let layers = layers.with_flag("tls_cert", "c.pem").with_flag("tls_key", "k.pem");
        let config = ServeConfig::load(&layers).unwrap();
        let settings = config.effective(&layers);
        assert_eq!(settings.len(), ServeConfig::names().len());
        let of = |name| settings.iter().find(|setting| setting.name == name).unwrap();
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
        // Every value can be given again as a flag and means the same.
        let again =
            settings.iter().filter_map(|setting| Some((setting.name.as_str(), setting.value.clone()?)));
        let again = again.fold(Layers::new(), |layers, (name, value)| layers.with_flag(name, value));
        let again = ServeConfig::load(&again).unwrap();
        let values = |config: &ServeConfig| {
            config.effective(&Layers::new()).into_iter().map(|setting| setting.value).collect::<Vec<_>>()
        };
        assert_eq!(values(&again), values(&config));
        let unset = ["public_url", "objects", "catalog", "signing_key_file"];
        assert!(
            settings.iter().all(|setting| setting.value.is_some() != unset.contains(&setting.name.as_str()))
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        for (url, text) in [
            ("postgres://ada:hunter2@db:5432/hub", "postgres://...@db:5432/hub"),
            ("postgres://ada:hunter2/@x@db/hub?password=hunter2", "postgres://...@db/hub?..."),
            ("s3://bucket/prefix", "s3://bucket/prefix"),
            ("sqlite:///srv/catalog.db", "sqlite:///srv/catalog.db"),
            ("sqlite:x.db?mode=rwc", "sqlite:x.db?..."),
        ] {
            assert_eq!(without_secrets(url), text);
        }
    }
}

use proptest::prelude::*;

use super::*;

fn env(pairs: &[(&str, &str)]) -> Layers {
    Layers::new().with_environment(pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())))
}

fn file(text: &str) -> Result<ServeConfig, ConfigError> {
    ServeConfig::load(&Layers::new().with_file("hub.toml", text)?)
}

fn flag(name: &str, text: &str) -> Result<ServeConfig, ConfigError> {
    ServeConfig::load(&Layers::new().with_flag(name, text))
}

#[test]
fn without_settings_it_is_a_sound_server_on_loopback_with_tokens() {
    let config = ServeConfig::load(&Layers::new()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert!(config.auth && config.tls().is_none());
    assert_eq!(config.dedup, DedupPolicy::Namespace);
    assert_eq!(config.base_url("127.0.0.1:4321".parse().unwrap()), "http://127.0.0.1:4321");
}

#[test]
fn flags_take_precedence_over_the_environment_and_that_over_the_file() {
    let file = "url_ttl_s = 100\ntoken_ttl_s = 200\nconnections_max = 300\n";
    let layers = Layers::new().with_file("hub.toml", file).unwrap();
    let variables = [("DRYSTONE_TOKEN_TTL_S", "201"), ("DRYSTONE_CONNECTIONS_MAX", "301"), ("HOME", "/x")];
    let layers = layers.with_environment(variables.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let config = ServeConfig::load(&layers.with_flag("connections-max", "302")).unwrap();
    assert_eq!((config.url_ttl_s, config.token_ttl_s, config.limits.connections_max), (100, 201, 302));
}

#[test]
fn every_setting_can_be_set_in_every_way() {
    let values = [
        ("listen", "[::1]:0"),
        ("public_url", "https://hub.example/cas"),
        ("data", "/srv/hub"),
        ("objects", "s3://bucket/prefix"),
        ("catalog", "postgres://ada:hunter2@db/hub"),
        ("auth", "off"),
        ("tls_cert", "cert.pem"),
        ("tls_key", "key.pem"),
        ("xorb_body_bytes_max", "70MiB"),
        ("shard_body_bytes_max", "32 MiB"),
        ("other_body_bytes_max", "10000000"),
        ("lfs_part_bytes", "1MiB"),
        ("memory_bytes", "2GiB"),
        ("footer_cache_bytes", "8MiB"),
        ("disk_free_bytes_min", "0"),
        ("connections_max", "10"),
        ("connections_per_address_max", "3"),
        ("requests_per_s", "5"),
        ("token_requests_per_s", "6"),
        ("header_timeout_s", "9"),
        ("keep_alive_s", "12"),
        ("body_timeout_s", "7"),
        ("idle_timeout_s", "11"),
        ("metrics", "admin"),
        ("dedup", "global"),
        ("data_urls", "bucket"),
        ("signing_key_file", "/run/secrets/key"),
        ("url_ttl_s", "900"),
        ("token_ttl_s", "901"),
        ("trash_s", "77"),
        ("audit_s", "78"),
        ("shutdown_delay_s", "2"),
        ("shutdown_grace_s", "3"),
        ("sweep_interval_s", "0"),
        ("sweep_grace_s", "90000"),
        ("log_format", "json"),
        ("log_level", "warn"),
    ];
    let mut names = values.map(|(name, _)| name.to_owned());
    names.sort();
    assert_eq!(names.as_slice(), ServeConfig::names());

    let toml: String = values.iter().map(|(name, text)| format!("{name} = {text:?}\n")).collect();
    let from_file = Layers::new().with_file("hub.toml", &toml).unwrap();
    let variables = values.map(|(name, text)| (format!("DRYSTONE_{}", name.to_uppercase()), text.to_owned()));
    let from_environment = Layers::new().with_environment(variables);
    let flags = values
        .iter()
        .fold(Layers::new(), |layers, (name, text)| layers.with_flag(&name.replace('_', "-"), *text));

    let loaded = [from_file, from_environment, flags].map(|layers| ServeConfig::load(&layers).unwrap());
    let texts = loaded.each_ref().map(|config| format!("{config:?}"));
    assert!(
        texts.iter().all(|text| *text == texts[0] && !text.contains("hunter2") && !text.contains("bucket"))
    );

    let [config, ..] = loaded;
    assert_eq!(config.base_url(config.listen), "https://hub.example/cas");
    assert_eq!(config.catalog.as_ref().unwrap().expose(), "postgres://ada:hunter2@db/hub");
    assert_eq!(config.objects.as_ref().unwrap().expose(), "s3://bucket/prefix");
    assert_eq!(config.tls(), Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() }));
    let limits = Limits {
        xorb_body_bytes_max: 70 << 20,
        shard_body_bytes_max: 32 << 20,
        other_body_bytes_max: 10_000_000,
        lfs_part_bytes: 1 << 20,
        memory_bytes: 2 << 30,
        footer_cache_bytes: Some(8 << 20),
        disk_free_bytes_min: 0,
        connections_max: 10,
        requests_per_s: 5,
        token_requests_per_s: 6,
        connections_per_address_max: Some(3),
        header_timeout_s: 9,
        keep_alive_s: 12,
        body_timeout_s: 7,
        idle_timeout_s: 11,
    };
    assert_eq!(config.limits, limits);
    assert_eq!((config.url_ttl_s, config.token_ttl_s), (900, 901));
    assert_eq!((config.trash_s, config.audit_s), (77, 78));
    assert_eq!((config.shutdown_delay_s, config.shutdown_grace_s), (2, 3));
    assert_eq!((config.sweep_interval_s, config.sweep_grace_s), (0, 90_000));
    assert_eq!(
        (config.dedup, config.log_format, config.log_level),
        (DedupPolicy::Global, LogFormat::Json, LogLevel::Warn)
    );
    assert!(!config.auth);
    assert_eq!(config.data_urls, DataUrlPolicy::Bucket);
    assert_eq!(config.signing_key_file, Some("/run/secrets/key".into()));
    assert_eq!(config.metrics, MetricsAccess::Admin);
}

#[test]
fn metrics_are_open_only_where_no_remote_peer_can_connect() {
    let open = |layers: Layers| ServeConfig::load(&layers).unwrap().metrics_are_open();
    assert_eq!(open(Layers::new()), Some(true));
    assert_eq!(open(Layers::new().with_flag("public_url", "https://hub.example")), Some(false));
    assert_eq!(open(Layers::new().with_flag("listen", "192.168.1.1:80")), Some(false));
    assert_eq!(
        open(Layers::new().with_flag("listen", "192.168.1.1:80").with_flag("metrics", "open")),
        Some(true)
    );
    assert_eq!(open(Layers::new().with_flag("metrics", "admin")), Some(false));
    assert_eq!(open(Layers::new().with_flag("metrics", "off")), None);
}

#[test]
fn memory_is_divided_so_that_no_share_takes_from_another() {
    let shares = ServeConfig::default().limits.memory_shares();
    let (uploads_bytes, answers_bytes, footers_bytes) = (320 << 20, 128 << 20, 64 << 20);
    assert_eq!(shares, MemoryShares { uploads_bytes, answers_bytes, footers_bytes });
    let layers = Layers::new().with_flag("memory_bytes", "128MiB");
    assert!(ServeConfig::load(&layers).is_ok());
    let error = ServeConfig::load(&layers.with_flag("footer_cache_bytes", "64MiB")).unwrap_err();
    assert_eq!(error.field, "memory_bytes");
}

#[test]
fn numbers_and_truths_of_the_file_need_no_quotes() {
    let config = file("url_ttl_s = 60\nauth = true\nmemory_bytes = 536870912").unwrap();
    assert_eq!((config.url_ttl_s, config.auth, config.limits.memory_bytes), (60, true, 1 << 29));
}

#[test]
fn an_error_names_the_setting_and_its_origin() {
    let text = |result: Result<ServeConfig, ConfigError>| result.unwrap_err().to_string();
    assert_eq!(
        text(file("url_ttl_s = 5")),
        "url_ttl_s (in hub.toml): expected a number from 60 to 604800, found \"5\""
    );
    assert_eq!(
        text(ServeConfig::load(&env(&[("DRYSTONE_DEDUP", "maybe")]))),
        "dedup (from DRYSTONE_DEDUP): expected off or repo or namespace or global, found \"maybe\""
    );
    assert_eq!(
        text(flag("listen", "hub.example")),
        "listen (from --listen): expected address:port such as 127.0.0.1:8080, found \"hub.example\""
    );
}

#[test]
fn auth_can_be_off_on_loopback_only() {
    for listen in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80"] {
        let layers = Layers::new().with_flag("listen", listen).with_flag("auth", "off");
        assert!(!ServeConfig::load(&layers).unwrap().auth, "{listen}");
    }
    for listen in ["0.0.0.0:80", "192.168.1.1:80", "[::]:80", "[2001:db8::1]:80", "[::ffff:127.0.0.1]:80"] {
        let layers =
            env(&[("DRYSTONE_AUTH", "off")]).with_flag("listen", listen).with_flag("public-url", "http://a");
        let error = ServeConfig::load(&layers).unwrap_err();
        assert_eq!(
            (error.field.as_str(), error.source),
            ("auth", Source::Environment("DRYSTONE_AUTH".into())),
            "{listen}"
        );
    }
}

#[test]
fn a_public_url_is_what_paths_can_follow() {
    for good in ["http://a", "https://hub.example:8443", "https://hub.example/cas/v9"] {
        assert_eq!(flag("public_url", good).unwrap().public_url.as_deref(), Some(good));
    }
    for bad in [
        "",
        "hub.example",
        "ftp://a",
        "http://a/",
        "http://a/b/",
        "http://a?x",
        "http://a?",
        "http://a#x",
        "http://u:p@a",
        "/x",
    ] {
        assert_eq!(flag("public_url", bad).unwrap_err().field, "public_url", "{bad}");
    }
}

#[test]
fn an_unspecified_address_needs_a_public_url() {
    assert_eq!(flag("listen", "0.0.0.0:80").unwrap_err().field, "listen");
    let layers = Layers::new().with_flag("listen", "0.0.0.0:80").with_flag("public_url", "http://hub");
    assert!(ServeConfig::load(&layers).is_ok());
}

#[test]
fn a_certificate_comes_with_its_key() {
    assert_eq!(flag("tls_cert", "a").unwrap_err().field, "tls_cert");
    assert_eq!(flag("tls_key", "a").unwrap_err().field, "tls_key");
}

#[test]
fn memory_must_hold_the_largest_body() {
    let error = flag("memory_bytes", "64MiB").unwrap_err();
    assert_eq!((error.field.as_str(), error.source), ("memory_bytes", Source::Flag("--memory-bytes".into())));
    assert!(flag("memory_bytes", "128MiB").is_ok());
    assert!(flag("xorb_body_bytes_max", "67108864").is_err(), "smaller than what clients may send");
    assert!(flag("memory_bytes", "99999999999999GiB").is_err(), "too large for a number");
}

#[test]
fn unknown_names_are_refused_with_a_hint() {
    let message = |text: &str| file(text).unwrap_err().to_string();
    assert_eq!(message("lisen = 1"), "lisen (in hub.toml): unknown setting; did you mean listen?");
    assert_eq!(message("url-ttl-s = 1"), "url-ttl-s (in hub.toml): unknown setting; did you mean url_ttl_s?");
    assert_eq!(
        message("token_ttl = 1"),
        "token_ttl (in hub.toml): unknown setting; did you mean token_ttl_s?"
    );
    assert_eq!(message("memory = 1"), "memory (in hub.toml): unknown setting; did you mean memory_bytes?");
    assert_eq!(message("color = 'red'"), "color (in hub.toml): unknown setting");
    assert_eq!(
        flag("listne", "x").unwrap_err().to_string(),
        "listne (from --listne): unknown setting; did you mean listen?"
    );
}

#[test]
fn foreign_variables_pass_unless_they_resemble_a_setting() {
    let orchestrator = [
        ("DRYSTONE_SERVICE_HOST", "10.0.0.1"),
        ("DRYSTONE_PORT", "tcp://10.0.0.1:80"),
        ("DRYSTONE_TOKEN", "x"),
    ];
    assert!(ServeConfig::load(&env(&orchestrator)).is_ok());
    let slip = ServeConfig::load(&env(&[("DRYSTONE_LISTN", "127.0.0.1:1")])).unwrap_err();
    assert!(slip.to_string().ends_with("did you mean listen?"));
    assert!(ServeConfig::load(&env(&[("DRYSTONE_LISTEN", "")])).is_ok(), "empty is not set");
}

#[test]
fn a_file_that_is_no_toml_or_has_tables_is_refused() {
    for bad in [
        "listen",
        "listen = ",
        "listen = [1]",
        "[limits]\nmemory_bytes = 1",
        "url_ttl_s = 1.5",
        "a = 1\na = 2",
    ] {
        let error = Layers::new().with_file("hub.toml", bad).unwrap_err();
        assert_eq!(error.source, Source::File("hub.toml".into()), "{bad}");
    }
}

#[test]
fn passwords_are_in_no_message() {
    let error = flag("catalog", "hunter2").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    let layers = Layers::new().with_flag("catalog", "postgres://u:hunter2@h/d");
    assert!(!format!("{layers:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn no_text_panics(name in "[a-z_-]{0,20}", text in ".{0,40}", toml in ".{0,80}") {
        let _ = flag(&name, &text);
        let _ = file(&toml);
        for name in ServeConfig::names() {
            let _ = flag(&name, &text);
        }
    }
}

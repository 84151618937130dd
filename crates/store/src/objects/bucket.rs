//! Opening objects by URL: a folder, or a bucket with the options its kind knows.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::signer::Signer;
use object_store::{ClientConfigKey, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::{Host, Url};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::{Cause, Objects};

impl Objects {
    /// Objects where a URL says:
    ///
    /// | URL                          | what                                      | options   |
    /// |------------------------------|-------------------------------------------|-----------|
    /// | `file:///directory`          | a directory                               | none      |
    /// | `s3://bucket/prefix`         | a bucket of S3 or what speaks its language | `aws_…`    |
    /// | `gs://bucket/prefix`         | a bucket of Google Cloud Storage          | `google_…` |
    /// | `az://container/prefix`      | a container of Azure Blob Storage         | `azure_…`  |
    ///
    /// Options are named as the variables of the environment, such as `AWS_ENDPOINT_URL`; unknown ones are ignored.
    /// Sends no request before the bucket is used.
    pub fn open(url: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        // The text of a URL that cannot be read is not repeated: it may hold a password.
        let parsed = Url::parse(url)
            .map_err(|source| Error::caused(ErrorKind::Invalid, "the URL of the object store", source))?;
        if parsed.password().is_some() {
            let message = "the URL of the object store holds a password: give it by the environment instead";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let shown = format!("object store {}", &parsed[..url::Position::AfterPath]);
        if parsed.scheme() == "file" {
            let directory = parsed.to_file_path();
            let not_local = Error::new(ErrorKind::Invalid, format!("{shown}: not a local path"));
            return Self::local(&directory.map_err(|()| not_local)?);
        }
        let opened = open(&parsed, options.into_iter().collect())
            .map_err(|source| Error::caused(ErrorKind::Invalid, shown, source))?;
        let place = parsed[..url::Position::AfterPath].trim_end_matches('/').into();
        Ok(Self { place: (parsed.scheme() != "memory").then_some(place), ..opened })
    }

    fn signing<S: ObjectStore + Signer>(store: S, prefix: Path) -> Self {
        let store = Arc::new(PrefixStore::new(store, prefix));
        Self { signer: Some(store.clone()), ..Self::new(store) }
    }
}

/// Sets those options on a builder that it knows.
macro_rules! configured {
    ($builder:expr, $options:expr) => {
        $options.into_iter().fold($builder, |builder, (name, value)| {
            match name.to_ascii_lowercase().parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            }
        })
    };
}

fn open(url: &Url, options: Vec<(String, String)>) -> std::result::Result<Objects, Cause> {
    let (scheme, prefix) = ObjectStoreScheme::parse(url)?;
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder =
                configured!(AmazonS3Builder::new().with_url(url.as_str()).with_retry(retry()), options);
            Objects::signing(allow_loopback(builder).build()?, prefix)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = configured!(
                GoogleCloudStorageBuilder::new().with_url(url.as_str()).with_retry(retry()),
                options
            );
            Objects::signing(builder.build()?, prefix)
        }
        // Azure signs for an object but for no range of it, so it signs nothing here.
        ObjectStoreScheme::MicrosoftAzure => {
            let builder =
                configured!(MicrosoftAzureBuilder::new().with_url(url.as_str()).with_retry(retry()), options);
            Objects::new(Arc::new(PrefixStore::new(builder.build()?, prefix)))
        }
        ObjectStoreScheme::Memory => Objects::new(Arc::new(PrefixStore::new(InMemory::new(), prefix))),
        _ => return Err("expected file://, s3://, gs:// or az://".into()),
    })
}

/// Clients wait while a request is retried, and retry themselves: better soon than often.
fn retry() -> RetryConfig {
    RetryConfig { max_retries: 6, retry_timeout: Duration::from_secs(20), ..RetryConfig::default() }
}

/// Plain HTTP must be allowed by `AWS_ALLOW_HTTP`, except to this machine.
fn allow_loopback(builder: AmazonS3Builder) -> AmazonS3Builder {
    let endpoints = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoints.iter().find_map(|key| builder.get_config_value(key));
    let is_loopback = endpoint.and_then(|text| Url::parse(&text).ok()).is_some_and(|url| match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    });
    if is_loopback {
        builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true")
    } else {
        builder
    }
}

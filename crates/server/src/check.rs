//! Checks of a configuration: whether its data directory, objects, catalog and certificate can be used.
//!
//! Nothing is made or changed by it, except for a file that is written and removed at once.

use std::path::{Path, PathBuf};

use store::upkeep::identity;
use store::{Catalog, ObjectKey};
use xet::ShardHash;

use crate::config::ServeConfig;
use crate::data_dir::{DataDir, open_bucket};
use crate::disk::free_bytes;
use crate::net::tls::Tls;
use crate::secret::{hex, random};

/// Outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What was checked.
    pub what: &'static str,
    /// What was found, or what is wrong.
    pub outcome: Result<String, String>,
}

/// Tries everything that can be tried without starting.
pub async fn check_config(config: &ServeConfig) -> Vec<Checked> {
    let mut checked = vec![
        Checked { what: "data folder", outcome: data(config) },
        Checked { what: "objects", outcome: objects(config).await },
        Checked { what: "catalog", outcome: catalog_of(config).await },
    ];
    if checked.iter().all(|checked| checked.outcome.is_ok()) {
        checked.push(Checked { what: "store", outcome: check_store(config).await });
    }
    if let Some(files) = &config.tls() {
        let outcome = Tls::open(files).map(|_| "the key fits the certificate".to_owned());
        checked.push(Checked { what: "certificate", outcome: outcome.map_err(|error| error.to_string()) });
    }
    checked
}

fn data(config: &ServeConfig) -> Result<String, String> {
    let folder = nearest_existing(&config.data);
    let name = folder.display();
    let trial = folder.join(format!(".drystone-check-{}", hex(&random::<8>())));
    let written = std::fs::write(&trial, b"a trial").and_then(|()| std::fs::remove_file(&trial));
    written.map_err(|error| format!("{name}: {error}"))?;
    let free = free_bytes(&folder);
    let min = config.limits.disk_free_bytes_min;
    if config.objects.is_none() && free.is_some_and(|free| free < min) {
        let free = free.unwrap_or(0);
        return Err(format!("{name}: {free} bytes are free, less than disk_free_bytes_min ({min})"));
    }
    Ok(match folder == config.data {
        true => format!("{name} can be written"),
        false => format!("{} will be made in {name}", config.data.display()),
    })
}

async fn objects(config: &ServeConfig) -> Result<String, String> {
    let (objects, place) = match &config.objects {
        Some(url) => {
            let folder = url.expose().strip_prefix("file://").map(PathBuf::from);
            if let Some(folder) = folder.as_ref().filter(|folder| !folder.exists()) {
                return Ok(format!("{} will be made", folder.display()));
            }
            (open_bucket(url), folder.map_or("the bucket".to_owned(), |folder| folder.display().to_string()))
        }
        None => {
            let folder = config.data.join("objects");
            if !folder.exists() {
                return Ok(format!("{} will be made", folder.display()));
            }
            (store::Objects::local(&folder), folder.display().to_string())
        }
    };
    let objects = objects.map_err(|error| error.to_string())?;
    let found = objects.head(&ObjectKey::Shard(ShardHash::ZERO)).await;
    found.map(|_| format!("{place} answers")).map_err(|error| error.to_string())
}

async fn catalog_of(config: &ServeConfig) -> Result<String, String> {
    let url = match &config.catalog {
        Some(url) => url.expose().clone(),
        None => {
            let file = DataDir::new(&config.data).catalog_file();
            if !file.exists() {
                return Ok(format!("{} will be made", file.display()));
            }
            format!("sqlite://{}", file.display())
        }
    };
    Catalog::probe(&url).await.map(|_| "it answers".to_owned()).map_err(|error| error.to_string())
}

/// Whether catalog and objects belong to one store, and to which. Changes nothing.
pub async fn check_store(config: &ServeConfig) -> Result<String, String> {
    let data_dir = DataDir::new(&config.data);
    let found = compare_ids(&data_dir, config).await;
    found.map_err(|error| error.to_string())
}

async fn compare_ids(data_dir: &DataDir, config: &ServeConfig) -> store::Result<String> {
    let names = data_dir.names(config);
    let catalog = match data_dir.is_catalog_there(config).await? {
        true => Some(Catalog::probe(&data_dir.catalog_url(config)).await?.store_id),
        false => None,
    };
    let objects = match data_dir.existing_objects(config)? {
        Some(objects) => Some((objects.store_id().await?, identity::is_empty(&objects).await?)),
        None => None,
    };
    Ok(match (objects, catalog) {
        (Some((Some(of_objects), _)), Some(Some(of_catalog))) if of_objects == of_catalog => {
            format!("objects and catalog belong to store {of_objects}")
        }
        (Some((Some(of_objects), _)), Some(Some(of_catalog))) => {
            return Err(identity::mismatch(of_objects, of_catalog, &names));
        }
        (Some((id, false)), None) => return Err(identity::no_rows(id, &names)),
        (None | Some((_, true)), None) => "there is none yet; \"drystone serve\" creates it".to_owned(),
        (_, Some(_)) => "objects and catalog have no common id yet; the next start compares them".to_owned(),
    })
}

/// The directory, or its nearest parent that exists.
pub fn nearest_existing(folder: &Path) -> PathBuf {
    let mut at = folder;
    while !at.exists() {
        match at.parent() {
            Some(above) if !above.as_os_str().is_empty() => at = above,
            _ => return PathBuf::from("."),
        }
    }
    at.to_owned()
}

//! The signing key of several servers: a token or data URL of one must be good at the others.
//!
//! | settings                | where the key is                                                               |
//! |-------------------------|--------------------------------------------------------------------------------|
//! | `signing_key_file`      | in that file, which is never made here: an administrator gives all servers one |
//! | a PostgreSQL `catalog`  | in the catalog, agreed on by the first start; each data folder keeps a copy      |
//! | neither                 | in the data folder alone                                                       |

use std::io;

use store::{Catalog, Error, ErrorKind};

use crate::config::ServeConfig;
use crate::data_dir::{DataDir, KEY_FILE, read_key};
use crate::secret::{Key, KeyRing, Secret, hex};

impl DataDir {
    /// The keys these settings speak of; makes one where there is none and it is ours to make.
    pub async fn shared_keys(&self, config: &ServeConfig, catalog: &Catalog) -> store::Result<KeyRing> {
        if let Some(file) = &config.signing_key_file {
            let failed = |source| failed(format!("signing_key_file {}", file.display()), source);
            return Self::keys_of(file).map_err(failed);
        }
        let in_folder = |source| failed(self.folder.join(KEY_FILE).display().to_string(), source);
        if !is_shared(config) {
            return self.keys_or_new().map_err(in_folder);
        }
        let mine = match self.keys() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(in_folder)?),
        };
        let offered = mine.as_ref().map_or_else(|| Key::random().bytes().clone(), KeyRing::current_bytes);
        let agreed = catalog.agree(KEY_FILE, offered.expose()).await?;
        let agreed: [u8; 32] = agreed
            .try_into()
            .map_err(|_| Error::new(ErrorKind::Corrupt, format!("catalog: {KEY_FILE} is not 32 bytes")))?;
        let stored = self.secret_or_new(KEY_FILE, || Secret::new(hex(&agreed))).map_err(in_folder)?;
        let ring = read_key(&stored).map_err(in_folder)?;
        if ring.current_bytes().expose() != &agreed {
            let message = format!(
                "{} is not the key that the catalog keeps for all its servers: remove the file to take the catalog's",
                self.folder.join(KEY_FILE).display()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(ring)
    }
}

/// Whether other servers may use the same catalog.
pub(crate) fn is_shared(config: &ServeConfig) -> bool {
    config.catalog.as_ref().is_some_and(|url| url.expose().starts_with("postgres"))
}

fn failed(what: String, source: io::Error) -> Error {
    Error::caused(ErrorKind::Invalid, what, source)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use store::Catalog;

    use super::*;

    fn id(keys: &KeyRing) -> String {
        keys.derive("x").remove(0).0
    }

    /// What counts is the URL in the settings; any catalog will do for the table.
    async fn catalog(folder: &std::path::Path) -> Arc<Catalog> {
        Arc::new(Catalog::open_file(&folder.join("catalog.db")).await.unwrap())
    }

    #[tokio::test]
    async fn servers_over_one_database_agree_on_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path()).await;
        let catalog_url = Some(Secret::new("postgres://db/hub".to_owned()));
        let config = ServeConfig { catalog: catalog_url, ..ServeConfig::default() };
        let data_dirs = ["a", "b"].map(|name| DataDir::new(&folder.path().join(name)));
        let a = data_dirs[0].shared_keys(&config, &catalog).await.unwrap();
        let b = data_dirs[1].shared_keys(&config, &catalog).await.unwrap();
        assert_eq!(id(&a), id(&b));
        assert_eq!(id(&data_dirs[1].keys().unwrap()), id(&a), "the folder has a copy for `token create`");

        let other = DataDir::new(&folder.path().join("c"));
        let own = id(&other.keys_or_new().unwrap());
        let error = other.shared_keys(&config, &catalog).await.unwrap_err();
        assert!(error.to_string().contains("remove the file"), "{error}");
        assert_eq!(id(&other.keys().unwrap()), own, "nothing was replaced");
    }

    #[tokio::test]
    async fn an_older_server_brings_its_key_into_the_catalog() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path()).await;
        let catalog_url = Some(Secret::new("postgres://db/hub".to_owned()));
        let config = ServeConfig { catalog: catalog_url, ..ServeConfig::default() };
        let old = DataDir::new(&folder.path().join("old"));
        let key = id(&old.keys_or_new().unwrap());
        assert_eq!(id(&old.shared_keys(&config, &catalog).await.unwrap()), key);
        let new = DataDir::new(&folder.path().join("new"));
        assert_eq!(id(&new.shared_keys(&config, &catalog).await.unwrap()), key);
    }

    #[tokio::test]
    async fn a_named_key_file_is_read_and_never_made() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path()).await;
        let file = folder.path().join("key");
        let config = ServeConfig { signing_key_file: Some(file.clone()), ..ServeConfig::default() };
        let data_dir = DataDir::new(&folder.path().join("data"));
        assert!(data_dir.shared_keys(&config, &catalog).await.is_err());
        assert!(!file.exists());
        fs::write(&file, hex(&[7; 32])).unwrap();
        let keys = data_dir.shared_keys(&config, &catalog).await.unwrap();
        assert_eq!(id(&keys), id(&KeyRing::new(Key::new([7; 32]))));
        assert!(data_dir.keys().is_err(), "it is stored in one place");
    }
}

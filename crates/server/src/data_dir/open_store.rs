//! Opening of the store that settings name: objects and catalog must belong together before anything is created.
//!
//! | opening    | catalog not there                   | objects not there   |
//! |------------|-------------------------------------|---------------------|
//! | `Create`   | created, where there are no objects | created             |
//! | `Existing` | refused                             | refused             |
//! | `Rebuild`  | created                             | refused             |

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use store::upkeep::identity::{self, Names};
use store::{Catalog, Error, ErrorKind, Objects, Result, Store, StoreId};

use crate::config::ServeConfig;
use crate::config::effective::without_secrets;
use crate::data_dir::{DataDir, open_bucket};
use crate::secret::KeyRing;

/// Which parts of a store may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A new store where there is none: for servers.
    Create,
    /// Nothing: for every command that works on a store.
    Existing,
    /// The catalog: for `rebuild`.
    Rebuild,
}

/// Objects and their catalog, which belong together.
#[derive(Debug, Clone)]
pub struct OpenStore {
    /// The objects.
    pub objects: Objects,
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The id of both; `None` while the catalog is rebuilt.
    pub id: Option<StoreId>,
}

impl DataDir {
    /// Opens what the settings say is served, by default what is in the folder, and creates a new store where there is none.
    pub async fn open(&self, config: &ServeConfig, keys: &KeyRing) -> Result<Store> {
        self.open_as(config, keys, Opening::Create).await
    }

    /// Opens a store.
    pub async fn open_as(&self, config: &ServeConfig, keys: &KeyRing, opening: Opening) -> Result<Store> {
        let OpenStore { objects, catalog, .. } = self.open_parts(config, opening).await?;
        Ok(Self::store(config, keys, objects, catalog))
    }

    /// Opens objects and catalog, once it is known that they belong together.
    pub async fn open_parts(&self, config: &ServeConfig, opening: Opening) -> Result<OpenStore> {
        self.refuse_backup(config)?;
        let names = self.names(config);
        let is_catalog_there = self.is_catalog_there(config).await?;
        if opening == Opening::Existing && !is_catalog_there {
            return Err(no_catalog(&names));
        }
        let objects = match self.existing_objects(config)? {
            Some(objects) => objects,
            None if opening == Opening::Create => {
                // Where the catalog lists objects a new folder would hide that they are missing.
                if is_catalog_there {
                    let none = Objects::open("memory:///", [])?;
                    identity::identify(&none, &*self.open_catalog(config).await?, &names).await?;
                }
                self.create_objects(config)?
            }
            None => return Err(no_objects(&names)),
        };
        objects.check().await?;
        match opening {
            Opening::Rebuild if identity::is_empty(&objects).await? => return Err(no_objects(&names)),
            Opening::Create if !is_catalog_there => identity::require_empty(&objects, &names).await?,
            _ => {}
        }
        let catalog = self.open_catalog(config).await?;
        let id = match opening {
            Opening::Rebuild => None,
            _ => Some(identity::identify(&objects, &catalog, &names).await?),
        };
        Ok(OpenStore { objects, catalog, id })
    }

    /// Opens the catalog alone, which must be there. Where the objects can be found too, it must belong to them.
    pub async fn open_existing_catalog(&self, config: &ServeConfig) -> Result<Arc<Catalog>> {
        if config.objects.is_some() || self.existing_objects(config)?.is_some() {
            return Ok(self.open_parts(config, Opening::Existing).await?.catalog);
        }
        self.refuse_backup(config)?;
        match self.is_catalog_there(config).await? {
            true => self.open_catalog(config).await,
            false => Err(no_catalog(&self.names(config))),
        }
    }

    /// Refuses the directory of a backup: what is written to it is lost with the next backup, what is collected from it is lost
    /// for good.
    fn refuse_backup(&self, config: &ServeConfig) -> Result<()> {
        if config.catalog.is_some() || !self.folder.join(BACKUP_FILE).exists() {
            return Ok(());
        }
        let message = format!(
            "{}: this is a backup, not a store; \"drystone restore\" makes a store of it in another directory",
            self.folder.display()
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Catalog and objects as messages show them.
    pub fn names(&self, config: &ServeConfig) -> Names {
        let name = |url: &Option<crate::secret::Secret<String>>, file: PathBuf| match url {
            Some(url) => without_secrets(url.expose()),
            None => file.display().to_string(),
        };
        Names {
            catalog: name(&config.catalog, self.catalog_file()),
            objects: name(&config.objects, self.objects_folder()),
        }
    }

    /// The URL of the catalog. May hold a password.
    pub(crate) fn catalog_url(&self, config: &ServeConfig) -> String {
        match &config.catalog {
            Some(url) => url.expose().clone(),
            None => format!("sqlite://{}", self.catalog_file().display()),
        }
    }

    /// Whether there is a catalog; changes nothing.
    pub(crate) async fn is_catalog_there(&self, config: &ServeConfig) -> Result<bool> {
        match &config.catalog {
            Some(url) => Catalog::exists(url.expose()).await,
            None => Catalog::is_in_file(&self.catalog_file()),
        }
    }

    /// The objects, unless their directory does not exist; changes nothing.
    pub(crate) fn existing_objects(&self, config: &ServeConfig) -> Result<Option<Objects>> {
        let folder = match &config.objects {
            Some(url) => match file_url(url.expose()) {
                Some(folder) => folder,
                None => return open_bucket(url).map(Some),
            },
            None => self.objects_folder(),
        };
        if folder.is_dir() { Objects::local(&folder).map(Some) } else { Ok(None) }
    }

    fn objects_folder(&self) -> PathBuf {
        self.folder.join("objects")
    }

    fn create_objects(&self, config: &ServeConfig) -> Result<Objects> {
        match &config.objects {
            Some(url) => open_bucket(url),
            None => Objects::local(&self.objects_folder()),
        }
    }

    async fn open_catalog(&self, config: &ServeConfig) -> Result<Arc<Catalog>> {
        if let Some(url) = &config.catalog {
            return Catalog::open_or_create(url.expose()).await;
        }
        fs::create_dir_all(&self.folder).map_err(|source| {
            Error::caused(ErrorKind::Internal, self.folder.display().to_string(), source)
        })?;
        Ok(Arc::new(Catalog::open_file(&self.catalog_file()).await?))
    }
}

/// The folder of a `file://` URL.
pub fn file_url(url: &str) -> Option<PathBuf> {
    let url = url::Url::parse(url).ok().filter(|url| url.scheme() == "file")?;
    url.to_file_path().ok()
}

/// The file in the directory of a backup that says so.
pub const BACKUP_FILE: &str = "backup.json";

fn no_catalog(names: &Names) -> Error {
    let message = format!(
        "{}: no catalog of a store; pass the right --data or --catalog, or the server's --config. \"drystone serve\" creates a \
         new store, \"drystone rebuild\" a catalog from objects",
        names.catalog
    );
    Error::new(ErrorKind::NotFound, message)
}

fn no_objects(names: &Names) -> Error {
    let message = format!(
        "{}: no objects of a store; pass the right --data or --objects, or the server's --config",
        names.objects
    );
    Error::new(ErrorKind::NotFound, message)
}

//! Store id: objects and catalog carry the same one, so that a command never pairs a catalog with objects of another store.
//!
//! The id is in the object `store.json` and in the catalog under [`CATALOG_NAME`]. Where one of the two has none yet, it is
//! written only if both are empty or the catalog's rows were found among the objects:
//!
//! | objects        | catalog             | outcome                                                         |
//! |----------------|---------------------|-----------------------------------------------------------------|
//! | id a           | id a                | opened                                                          |
//! | id a           | id b                | refused                                                         |
//! | empty          | without rows        | a new store: the id that either has, else a new one, is written |
//! | not empty      | without rows        | refused: the catalog is lost; `rebuild` makes one               |
//! | empty          | with rows           | refused: the objects are elsewhere, or lost                     |
//! | not empty      | rows found          | the id that either has, else a new one, is written              |
//! | not empty      | rows not found      | refused                                                         |
//!
//! The catalog decides between servers that start at once: [`Catalog::agree`] returns one id to all of them.

#[cfg(test)]
mod tests;

use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::content::xorbs;
use crate::db::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::people;
use crate::ids::StoreId;
use crate::objects::key::ObjectKey;
use crate::objects::{Folder, Objects};
use crate::upkeep::inventory;

/// Names of a catalog and of objects as messages show them: without passwords.
#[derive(Debug, Clone)]
pub struct Names {
    /// The catalog.
    pub catalog: String,
    /// The objects.
    pub objects: String,
}

/// Ids of both sides, as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// That of the objects.
    pub objects: Option<StoreId>,
    /// That of the catalog.
    pub catalog: Option<StoreId>,
}

/// The name under which a catalog has the id.
pub const CATALOG_NAME: &str = "store_id";

/// Reads both ids; changes nothing.
pub async fn ids(objects: &Objects, catalog: &Catalog) -> Result<Ids> {
    let catalog = catalog.agreed(CATALOG_NAME).await?.map(StoreId::from_catalog).transpose()?;
    Ok(Ids { objects: objects.store_id().await?, catalog })
}

/// Checks that the catalog belongs to the objects, and returns the id of both. Writes it where it is missing.
pub async fn identify(objects: &Objects, catalog: &Catalog, names: &Names) -> Result<StoreId> {
    match match_pair(objects, catalog, names).await? {
        Pair::Same(id) => Ok(id),
        Pair::Incomplete(found) => write(found, objects, catalog, names).await,
    }
}

/// Checks that the catalog belongs to the objects; changes neither.
pub async fn require_pair(objects: &Objects, catalog: &Catalog, names: &Names) -> Result<()> {
    match_pair(objects, catalog, names).await.map(|_| ())
}

/// Objects and a catalog that belong together.
enum Pair {
    /// Both have this id.
    Same(StoreId),
    /// At most one has an id, this one.
    Incomplete(Option<StoreId>),
}

async fn match_pair(objects: &Objects, catalog: &Catalog, names: &Names) -> Result<Pair> {
    refuse_unfinished_rebuild(catalog, names).await?;
    let ids = ids(objects, catalog).await?;
    let found = match (ids.objects, ids.catalog) {
        (Some(of_objects), Some(of_catalog)) if of_objects == of_catalog => {
            return Ok(Pair::Same(of_objects));
        }
        (Some(of_objects), Some(of_catalog)) => return Err(mismatch(of_objects, of_catalog, names)),
        (objects, catalog) => objects.or(catalog),
    };
    match compare(objects, catalog).await? {
        Comparison::BothEmpty | Comparison::RowsFound => Ok(Pair::Incomplete(found)),
        Comparison::NoRows => Err(no_rows(ids.objects, names)),
        Comparison::NoObjects => Err(no_objects(names)),
        Comparison::RowsNotFound { found, sampled } => Err(rows_not_found(found, sampled, names)),
    }
}

/// Checks that there is nothing but the id, before a catalog is created for these objects.
pub async fn require_empty(objects: &Objects, names: &Names) -> Result<()> {
    if !is_empty(objects).await? {
        return Err(no_rows(objects.store_id().await?, names));
    }
    match (objects.store_id().await?, objects.misnamed().await?) {
        (None, Some(at)) => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{}: not the objects of a store, but {at} is; pass the right --objects, or a directory of its own for a new store",
                names.objects
            ),
        )),
        _ => Ok(()),
    }
}

/// Begins to fill a catalog from the objects. Until [`finish_rebuild`] nobody opens it: objects that it does not list yet
/// would be taken for unused.
pub(crate) async fn begin_rebuild(objects: &Objects, catalog: &Catalog) -> Result<()> {
    let ids = ids(objects, catalog).await?;
    if let (Some(of_objects), Some(of_catalog)) = (ids.objects, ids.catalog)
        && of_objects != of_catalog
    {
        let (objects, catalog) = (of_objects.short(), of_catalog.short());
        let message = format!(
            "the catalog belongs to store {catalog}, the objects to store {objects}: move the catalog away, then rebuild"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    catalog.agree(REBUILD_BEGUN, b"1").await?;
    Ok(())
}

/// The catalog has all that the objects tell.
pub(crate) async fn finish_rebuild(objects: &Objects, catalog: &Catalog) -> Result<StoreId> {
    let ids = ids(objects, catalog).await?;
    let names = Names { catalog: "the new catalog".to_owned(), objects: "these objects".to_owned() };
    let id = write(ids.objects.or(ids.catalog), objects, catalog, &names).await?;
    catalog.agree(REBUILD_FINISHED, b"1").await?;
    Ok(id)
}

async fn refuse_unfinished_rebuild(catalog: &Catalog, names: &Names) -> Result<()> {
    if catalog.agreed(REBUILD_BEGUN).await?.is_none() || catalog.agreed(REBUILD_FINISHED).await?.is_some() {
        return Ok(());
    }
    let message = format!(
        "the rebuild of the catalog at {} did not finish, so it lists only part of the objects; move it away (PostgreSQL: \
         empty the database) and run \"drystone rebuild\" again",
        names.catalog
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

/// Catalog first: it decides between two writers. Of an interrupted write the next opening finds the catalog's id.
pub(crate) async fn write(
    found: Option<StoreId>,
    objects: &Objects,
    catalog: &Catalog,
    names: &Names,
) -> Result<StoreId> {
    let offered = found.map_or_else(StoreId::random, Ok)?;
    let agreed = StoreId::from_catalog(catalog.agree(CATALOG_NAME, offered.as_bytes()).await?)?;
    if objects.store_id().await? != Some(agreed) {
        // Another catalog may have been quicker over the same objects.
        if let Some(other) = found.filter(|found| *found != agreed) {
            return Err(mismatch(other, agreed, names));
        }
        objects.put_store_id(&agreed).await?;
    }
    match objects.store_id().await? {
        Some(written) if written == agreed => Ok(agreed),
        Some(other) => Err(mismatch(other, agreed, names)),
        None => {
            Err(Error::new(ErrorKind::Unavailable, format!("{}: the store id was not kept", names.objects)))
        }
    }
}

/// What a sample of the catalog's rows and a sample of the objects say about each other.
enum Comparison {
    BothEmpty,
    NoRows,
    NoObjects,
    RowsFound,
    RowsNotFound { found: usize, sampled: usize },
}

async fn compare(objects: &Objects, catalog: &Catalog) -> Result<Comparison> {
    let rows = sample_rows(catalog).await?;
    let are_objects_empty = is_empty(objects).await?;
    if rows.is_empty() {
        if are_objects_empty {
            return Ok(Comparison::BothEmpty);
        }
        let is_known = knows_some_object(objects, catalog).await?;
        return Ok(if is_known { Comparison::RowsFound } else { Comparison::NoRows });
    }
    if are_objects_empty {
        return Ok(Comparison::NoObjects);
    }
    let heads = futures::stream::iter(rows.clone()).map(|key| async move { objects.head(&key).await });
    let heads: Vec<_> = heads.buffer_unordered(HEADS_AT_ONCE).try_collect().await?;
    let (found, sampled) = (heads.iter().filter(|head| head.is_some()).count(), rows.len());
    Ok(match found * 2 >= sampled {
        true => Comparison::RowsFound,
        false => Comparison::RowsNotFound { found, sampled },
    })
}

/// Objects that the catalog says are stored, at most a few dozen of each sort.
async fn sample_rows(catalog: &Catalog) -> Result<Vec<ObjectKey>> {
    let mut keys = Vec::new();
    keys.extend(
        inventory::xorb_page(catalog, &[], SAMPLE_ROWS)
            .await?
            .iter()
            .filter(|row| row.is_live())
            .map(|row| ObjectKey::Xorb(row.key)),
    );
    keys.extend(
        inventory::shard_page(catalog, &[], SAMPLE_ROWS).await?.iter().map(|row| ObjectKey::Shard(row.hash)),
    );
    for repo in inventory::all_repos(catalog, &[], SAMPLE_ROWS).await? {
        let bundles = inventory::bundle_page(catalog, repo.row.id, &[], 1).await?;
        keys.extend(bundles.into_iter().map(|commit| ObjectKey::Bundle { repo: repo.row.id, commit }));
    }
    Ok(keys)
}

/// Whether there are objects of a store. One page of each listing is enough.
pub async fn is_empty(objects: &Objects) -> Result<bool> {
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Repos, Folder::People] {
        if objects.list(folder).try_next().await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a catalog that has nothing left to serve still has rows of what was deleted from these objects, or users.
async fn knows_some_object(objects: &Objects, catalog: &Catalog) -> Result<bool> {
    let mut listed = objects.list(Folder::Xorbs).take(SAMPLE_OBJECTS);
    let mut xorbs = Vec::new();
    while let Some(listed) = listed.try_next().await? {
        if let Some(ObjectKey::Xorb(key)) = listed.key {
            xorbs.push(key);
        }
    }
    let hashes: Vec<_> = xorbs.iter().map(|key| key.hash).collect();
    if xorbs::xorbs(catalog, &hashes).await?.iter().any(|row| xorbs.contains(&row.key)) {
        return Ok(true);
    }
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Repos] {
        if objects.list(folder).try_next().await?.is_some() {
            return Ok(false);
        }
    }
    Ok(!people::namespaces(catalog).await?.is_empty())
}

/// Why a catalog of another store is refused.
pub fn mismatch(of_objects: StoreId, of_catalog: StoreId, names: &Names) -> Error {
    let Names { catalog, objects } = names;
    let message = format!(
        "the catalog at {catalog} belongs to store {}, the objects at {objects} to store {}; pass the right --catalog or \
         --objects, or run \"drystone rebuild\" with a new catalog to make one from these objects",
        of_catalog.short(),
        of_objects.short()
    );
    Error::new(ErrorKind::Invalid, message)
}

/// Why objects without a catalog are refused.
pub fn no_rows(of_objects: Option<StoreId>, names: &Names) -> Error {
    let Names { catalog, objects } = names;
    let id = of_objects.map_or_else(String::new, |id| format!(" of store {}", id.short()));
    let message = format!(
        "there is no catalog, or an empty one, at {catalog}, but there are objects{id} at {objects}; pass the right \
         --catalog, restore its backup, or run \"drystone rebuild\" to make a catalog from these objects"
    );
    Error::new(ErrorKind::Invalid, message)
}

fn no_objects(names: &Names) -> Error {
    let Names { catalog, objects } = names;
    let message = format!(
        "the catalog at {catalog} lists objects, but there are none at {objects}; pass the right --objects, mount the \
         disk, or restore the objects from a copy"
    );
    Error::new(ErrorKind::Invalid, message)
}

fn rows_not_found(found: usize, sampled: usize, names: &Names) -> Error {
    let Names { catalog, objects } = names;
    let message = format!(
        "the catalog at {catalog} does not belong to the objects at {objects}: of {sampled} objects that it lists {found} \
         were found there; pass the right --catalog or --objects, or run \"drystone rebuild\" with a new catalog to make \
         one from these objects"
    );
    Error::new(ErrorKind::Invalid, message)
}

const REBUILD_BEGUN: &str = "rebuild_begun";

const REBUILD_FINISHED: &str = "rebuild_finished";

const SAMPLE_ROWS: u64 = 32;

const SAMPLE_OBJECTS: usize = 64;

const HEADS_AT_ONCE: usize = 16;

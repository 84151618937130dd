//! Check of a copy: whether every object that its catalog names is there.

use crate::upkeep::examine::examine_bundle;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::content::files::{self, Use};
use crate::content::shards;
use crate::db::Catalog;
use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::objects::key::ObjectKey;
use crate::upkeep::backup::PAGE;
use crate::upkeep::gc::condemned;
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::inventory;

/// What the catalog of a copy needs.
#[derive(Debug, Default)]
pub(crate) struct CheckedCopy {
    pub(crate) needed: u64,
    /// What the copy does not have.
    pub(crate) missing: Vec<String>,
    /// What the copy has and the source does not.
    pub(crate) lost: Vec<String>,
}

/// Looks for every object that the catalog names, in the copy and, if there is one, in its source. Xorbs and shards that no file
/// is made of, and that went, are given up in the catalog, as garbage collection did at the source.
pub(crate) async fn check(
    catalog: &Catalog,
    copy: &Objects,
    source: Option<&Objects>,
    now_s: u64,
) -> Result<CheckedCopy> {
    let mut checked = CheckedCopy::default();
    let sides = Sides { copy, source };
    check_xorbs(catalog, &sides, now_s, &mut checked).await?;
    check_shards(catalog, &sides, now_s, &mut checked).await?;
    check_bundles(catalog, &sides, &mut checked).await?;
    Ok(checked)
}

async fn check_xorbs(
    catalog: &Catalog,
    sides: &Sides<'_>,
    now_s: u64,
    checked: &mut CheckedCopy,
) -> Result<()> {
    let mut after = Vec::new();
    loop {
        let rows = inventory::xorb_page(catalog, &after, PAGE).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.key.hash.as_bytes().to_vec();
        checked.needed += rows.len() as u64;
        let keys = rows.iter().map(|row| (ObjectKey::Xorb(row.key), row.object_bytes));
        let gone = sides.gone(keys.collect()).await?;
        let hashes: Vec<_> = gone.all().filter_map(hash_of).collect();
        let used = files::uses(catalog, Use::Xorbs, &hashes).await?;
        let is_used = |key: &ObjectKey| {
            hash_of(key).is_none_or(|hash| used.iter().any(|(used, count)| *used == hash && *count > 0))
        };
        give_up(catalog, StoredKind::Xorbs, gone.all().filter(|key| !is_used(key)), now_s).await?;
        checked.record(&gone, is_used);
    }
}

async fn check_shards(
    catalog: &Catalog,
    sides: &Sides<'_>,
    now_s: u64,
    checked: &mut CheckedCopy,
) -> Result<()> {
    let mut after = Vec::new();
    loop {
        let rows = inventory::shard_page(catalog, &after, PAGE).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.hash.as_bytes().to_vec();
        checked.needed += rows.len() as u64;
        let keys = rows.iter().map(|row| (ObjectKey::Shard(row.hash), row.object_bytes));
        let gone = sides.gone(keys.collect()).await?;
        give_up(catalog, StoredKind::Shards, gone.all(), now_s).await?;
        let hashes: Vec<_> = gone.all().filter_map(shard_of).collect();
        let left = shards::shards(catalog, &hashes).await?;
        checked.record(&gone, |key| left.iter().any(|row| Some(row.hash) == shard_of(key)));
    }
}

async fn check_bundles(catalog: &Catalog, sides: &Sides<'_>, checked: &mut CheckedCopy) -> Result<()> {
    let mut after = Vec::new();
    loop {
        let repos = inventory::all_repos(catalog, &after, PAGE).await?;
        let Some(last) = repos.last() else { return Ok(()) };
        after = last.row.id.as_bytes().to_vec();
        for repo in repos {
            let mut after = Vec::new();
            loop {
                let bundles = inventory::bundle_page(catalog, repo.row.id, &after, PAGE).await?;
                let Some(last) = bundles.last() else { break };
                after = last.as_bytes().to_vec();
                checked.needed += bundles.len() as u64;
                let key = |commit| (ObjectKey::Bundle { repo: repo.row.id, commit }, 0);
                let mut gone = sides.gone(bundles.iter().copied().map(key).collect()).await?;
                // A backup that is restored is read once more: of bundles only the catalog knows whether they are whole.
                if sides.source.is_none() {
                    for (key, _) in bundles.into_iter().map(key) {
                        if examine_bundle(catalog, sides.copy, key).await?.is_err() {
                            gone.of_copy.push(key);
                        }
                    }
                }
                checked.record(&gone, |_| true);
            }
        }
    }
}

impl CheckedCopy {
    fn record(&mut self, gone: &MissingObjects, is_needed: impl Fn(&ObjectKey) -> bool) {
        let needed = |keys: &[ObjectKey]| -> Vec<String> {
            keys.iter().filter(|key| is_needed(key)).map(ToString::to_string).collect()
        };
        self.missing.extend(needed(&gone.of_copy));
        self.lost.extend(needed(&gone.of_source));
    }
}

/// Where objects are looked for.
struct Sides<'a> {
    copy: &'a Objects,
    source: Option<&'a Objects>,
}

/// Objects that are missing or have another length.
struct MissingObjects {
    of_copy: Vec<ObjectKey>,
    /// Those that only the source does not have.
    of_source: Vec<ObjectKey>,
}

impl Sides<'_> {
    async fn gone(&self, keys: Vec<(ObjectKey, u64)>) -> Result<MissingObjects> {
        let mut of_source = match self.source {
            Some(source) => missing(source, keys.clone()).await?,
            None => Vec::new(),
        };
        let of_copy = missing(self.copy, keys).await?;
        of_source.retain(|key| !of_copy.contains(key));
        Ok(MissingObjects { of_copy, of_source })
    }
}

impl MissingObjects {
    fn all(&self) -> impl Iterator<Item = &ObjectKey> {
        self.of_copy.iter().chain(&self.of_source)
    }
}

/// Those of these objects that are missing or have another length; 0 is any.
pub(crate) async fn missing(objects: &Objects, keys: Vec<(ObjectKey, u64)>) -> Result<Vec<ObjectKey>> {
    let looks = keys.into_iter().map(|(key, bytes)| async move {
        let found = objects.head(&key).await?;
        let is_there = found.is_some_and(|found| bytes == 0 || found == bytes);
        Ok::<_, Error>((!is_there).then_some(key))
    });
    let looks: Vec<_> = looks.collect();
    stream::iter(looks)
        .buffered(HEADS_AT_ONCE)
        .try_filter_map(|key| async move { Ok(key) })
        .try_collect()
        .await
}

async fn give_up<'a>(
    catalog: &Catalog,
    of: StoredKind,
    keys: impl Iterator<Item = &'a ObjectKey>,
    now_s: u64,
) -> Result<()> {
    let hashes: Vec<_> = keys.filter_map(hash_of).collect();
    condemned::condemn(catalog, of, &hashes, u64::MAX, now_s).await?;
    condemned::mark_deletable(catalog, of, &hashes, u64::MAX, now_s).await?;
    condemned::bury(catalog, of, &hashes, now_s).await
}

fn hash_of(key: &ObjectKey) -> Option<[u8; 32]> {
    match key {
        ObjectKey::Xorb(key) => Some(*key.hash.as_bytes()),
        ObjectKey::Shard(hash) => Some(*hash.as_bytes()),
        _ => None,
    }
}

fn shard_of(key: &ObjectKey) -> Option<xet::ShardHash> {
    match key {
        ObjectKey::Shard(hash) => Some(*hash),
        _ => None,
    }
}

const HEADS_AT_ONCE: usize = 32;

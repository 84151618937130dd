//! Examines one object: whether its bytes are those that its key names.

use crate::db::Catalog;
use crate::upkeep::inventory::{self, BundledObject};
use futures::stream::TryStreamExt as _;
use xet::ShardHash;
use xet::xorb::XorbScanner;

use crate::error::{Error, ErrorKind, Result};
use crate::hub::bundle::Bundle;
use crate::hub::snapshot::collect::{PeopleSnapshot, RepoSnapshot};
use crate::ids::{Digest, Oid, XorbKey};
use crate::objects::Objects;
use crate::objects::key::ObjectKey;
use crate::objects::local::direct_read::each_piece;

/// Bytes that were hashed, or what is wrong.
pub(crate) type ExaminedBytes = std::result::Result<u64, String>;

/// Whether an object of any store has the bytes its key speaks of.
pub(crate) async fn examine(objects: &Objects, key: ObjectKey, bytes: u64) -> Result<ExaminedBytes> {
    let Some(found) = objects.head(&key).await? else { return Ok(Err("it is missing".to_owned())) };
    if bytes > 0 && found != bytes {
        return Ok(Err(format!("it has {found} bytes instead of {bytes}")));
    }
    let hashed = match key {
        ObjectKey::Xorb(xorb) => scan(objects, xorb, found).await.map(|()| Ok(found)),
        ObjectKey::Shard(hash) => objects.whole(&key).await.map(|body| {
            let is = ShardHash::of(&body);
            if is == hash { Ok(found) } else { Err(format!("its hash is {is}")) }
        }),
        ObjectKey::Bundle { commit, .. } => objects.whole(&key).await.map(|body| {
            // The commit is last and names its tree, that all below it; each body is named by its bytes.
            let opened = Bundle::parse(&body).map_err(|error| error.to_string())?;
            let last = opened.objects.last().map(|(kind, body, _)| Oid::of(*kind, body));
            if last == Some(commit) { Ok(found) } else { Err("it does not end in its commit".to_owned()) }
        }),
        ObjectKey::Repo { .. } => {
            objects.whole(&key).await.and_then(|body| RepoSnapshot::parse(&body)).map(|_| Ok(found))
        }
        ObjectKey::People { .. } => {
            objects.whole(&key).await.and_then(|body| PeopleSnapshot::parse(&body)).map(|_| Ok(found))
        }
        // It is on its way out: no request needs it.
        ObjectKey::Part { .. } => Ok(Ok(0)),
    };
    match hashed {
        Ok(found) => Ok(found),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Whether a bundle has every git object that the catalog reads from it. The bundle alone does not tell: its commit names a tree, and
/// what that names may be in other bundles.
pub(crate) async fn examine_bundle(
    catalog: &Catalog,
    objects: &Objects,
    key: ObjectKey,
) -> Result<std::result::Result<(), String>> {
    let ObjectKey::Bundle { repo, commit } = key else { return Ok(Ok(())) };
    let body = match objects.whole(&key).await {
        Ok(body) => body,
        // Deleted by garbage collection since it was listed, or it was found missing before.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(())),
        Err(error) => return Err(error),
    };
    let mut after = Vec::new();
    loop {
        let rows = inventory::bundled_page(catalog, repo, commit, &after, PAGE).await?;
        let Some(last) = rows.last() else { return Ok(Ok(())) };
        after = last.oid.as_bytes().to_vec();
        let body = body.clone();
        let is_whole = move |row: &BundledObject| {
            let place = usize::try_from(row.offset).ok().zip(usize::try_from(row.bytes).ok());
            let found = place.and_then(|(start, len)| body.get(start..start.checked_add(len)?));
            found.is_some_and(|found| Oid::of(row.kind, found) == row.oid)
        };
        let find = move || rows.into_iter().find(|row| !is_whole(row));
        let wrong = tokio::task::spawn_blocking(find).await;
        let failed = |source| Error::caused(ErrorKind::Internal, format!("read {key}"), source);
        if let Some(row) = wrong.map_err(failed)? {
            return Ok(Err(format!("its git object {} is not what it was", row.oid)));
        }
    }
}

/// Every chunk decodes to what its hash says, and the footer is the one in the key.
async fn scan(objects: &Objects, xorb: XorbKey, bytes: u64) -> Result<()> {
    let key = ObjectKey::Xorb(xorb);
    let damaged = |source| Error::corrupt("it", source);
    let mut scanner = XorbScanner::new(Some(xorb.hash));
    match objects.path_of(&key) {
        Some(path) => {
            let block = objects.large_blocks.take();
            let scan = move || {
                each_piece(&path, block, |piece| scanner.push(piece).map_err(damaged)).map(|()| scanner)
            };
            let scanned = tokio::task::spawn_blocking(scan).await;
            scanner = scanned
                .map_err(|source| Error::caused(ErrorKind::Internal, format!("read {key}"), source))??;
        }
        None => {
            let mut pieces = objects.stream(&key, 0..bytes).await?;
            while let Some(piece) = pieces.try_next().await? {
                // A block at a time: short enough to stay on this thread.
                scanner.push(&piece).map_err(damaged)?;
            }
        }
    }
    let scanned = scanner.finish().map_err(damaged)?;
    scanned.expect_footer().map_err(damaged)?;
    let footer = objects.range(&key, scanned.info.stored_bytes()..bytes).await?;
    match Digest::of(&footer) {
        is if is == xorb.digest => Ok(()),
        is => Err(Error::new(ErrorKind::Corrupt, format!("the digest of its footer is {is}"))),
    }
}

/// Git objects that are read at once.
const PAGE: u64 = 500;

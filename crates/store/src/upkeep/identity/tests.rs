use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use testkit::postgres::Postgres;
use xet::{ShardHash, XorbHash};

use super::*;
use crate::content::rows::{XorbRow, XorbState};
use crate::content::xorbs;
use crate::db::Catalog;
use crate::ids::{Digest, XorbKey};

fn objects() -> Objects {
    Objects::new(Arc::new(InMemory::new()))
}

fn names() -> Names {
    Names { catalog: "CATALOG".into(), objects: "OBJECTS".into() }
}

/// Catalogs in files of one folder.
struct Catalogs(tempfile::TempDir);

impl Catalogs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn open(&self, name: &str) -> Catalog {
        Catalog::open_file(&self.0.path().join(name)).await.unwrap()
    }
}

/// The object and the row of one xorb.
async fn store_xorb(n: u8, objects: Option<&Objects>, catalog: Option<&Catalog>) {
    let key = XorbKey { hash: XorbHash::new([n; 32]), digest: Digest::new([n; 32]) };
    if let Some(objects) = objects {
        objects.put(&ObjectKey::Xorb(key), vec![Bytes::from_static(b"xorb")]).await.unwrap();
    }
    if let Some(catalog) = catalog {
        let row = XorbRow {
            key,
            object_bytes: 4,
            raw_bytes: 4,
            chunk_count: 1,
            state: XorbState::Live,
            created_s: 1,
            referenced_s: 1,
            verified_s: 0,
        };
        xorbs::add_xorbs(catalog, &[row]).await.unwrap();
    }
}

async fn refused(objects: &Objects, catalog: &Catalog) -> String {
    let before = ids(objects, catalog).await.unwrap();
    let error = identify(objects, catalog, &names()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(ids(objects, catalog).await.unwrap(), before, "nothing is written by a refusal");
    error.to_string()
}

#[tokio::test]
async fn a_new_store_gets_one_id_and_keeps_it() {
    let (catalogs, objects) = (Catalogs::new(), objects());
    let catalog = catalogs.open("a.db").await;
    let id = identify(&objects, &catalog, &names()).await.unwrap();
    assert_eq!(ids(&objects, &catalog).await.unwrap(), Ids { objects: Some(id), catalog: Some(id) });
    assert_eq!(identify(&objects, &catalog, &names()).await.unwrap(), id);
    store_xorb(1, Some(&objects), Some(&catalog)).await;
    assert_eq!(identify(&objects, &catalog, &names()).await.unwrap(), id);
}

#[tokio::test]
async fn a_catalog_of_another_store_is_refused_by_both_ids() {
    let (catalogs, ours, theirs) = (Catalogs::new(), objects(), objects());
    let (a, b) = (catalogs.open("a.db").await, catalogs.open("b.db").await);
    let id = identify(&ours, &a, &names()).await.unwrap();
    let other = identify(&theirs, &b, &names()).await.unwrap();
    let message = refused(&ours, &b).await;
    for part in [id.short(), other.short(), "CATALOG".into(), "OBJECTS".into(), "drystone rebuild".into()] {
        assert!(message.contains(&part), "{part}: {message}");
    }
}

#[tokio::test]
async fn an_empty_catalog_over_objects_is_refused_with_the_way_out() {
    let (catalogs, objects) = (Catalogs::new(), objects());
    identify(&objects, &catalogs.open("lost.db").await, &names()).await.unwrap();
    for key in [ObjectKey::Shard(ShardHash::ZERO), ObjectKey::People { version: 1 }] {
        objects.put(&key, vec![Bytes::from_static(b"x")]).await.unwrap();
        let message = refused(&objects, &catalogs.open("new.db").await).await;
        assert!(message.contains("drystone rebuild") && message.contains("CATALOG"), "{message}");
        assert!(require_empty(&objects, &names()).await.is_err());
        objects.delete(&key).await.unwrap();
    }
    require_empty(&objects, &names()).await.unwrap();
}

#[tokio::test]
async fn a_store_of_an_older_version_is_adopted_when_its_rows_are_found() {
    let (catalogs, objects) = (Catalogs::new(), objects());
    let catalog = catalogs.open("old.db").await;
    for n in 1..5 {
        store_xorb(n, Some(&objects), Some(&catalog)).await;
    }
    let id = identify(&objects, &catalog, &names()).await.unwrap();
    assert_eq!(ids(&objects, &catalog).await.unwrap(), Ids { objects: Some(id), catalog: Some(id) });
}

#[tokio::test]
async fn a_catalog_whose_rows_are_not_among_the_objects_is_refused() {
    let (catalogs, ours, theirs) = (Catalogs::new(), objects(), objects());
    let catalog = catalogs.open("old.db").await;
    for n in 1..5 {
        store_xorb(n, None, Some(&catalog)).await;
        store_xorb(n + 100, Some(&theirs), None).await;
    }
    let message = refused(&theirs, &catalog).await;
    assert!(message.contains("of 4 objects that it lists 0"), "{message}");
    // Objects of nobody: the disk is not mounted, or the URL is wrong.
    let message = refused(&ours, &catalog).await;
    assert!(message.contains("there are none at OBJECTS"), "{message}");
}

#[tokio::test]
async fn an_id_that_one_side_lost_comes_back_only_to_where_it_belongs() {
    let (catalogs, lost, other) = (Catalogs::new(), objects(), objects());
    let catalog = catalogs.open("a.db").await;
    let id = identify(&objects(), &catalog, &names()).await.unwrap();
    // A copy of the objects that was made without the id.
    store_xorb(1, Some(&lost), Some(&catalog)).await;
    store_xorb(9, Some(&other), None).await;
    refused(&other, &catalog).await;
    assert_eq!(identify(&lost, &catalog, &names()).await.unwrap(), id);
    // A catalog of a backup from before there were ids.
    let old = catalogs.open("old.db").await;
    store_xorb(1, None, Some(&old)).await;
    assert_eq!(identify(&lost, &old, &names()).await.unwrap(), id);
}

#[tokio::test]
async fn a_rebuild_that_did_not_finish_is_not_opened() {
    let (catalogs, objects) = (Catalogs::new(), objects());
    let catalog = catalogs.open("new.db").await;
    store_xorb(1, Some(&objects), None).await;
    begin_rebuild(&objects, &catalog).await.unwrap();
    store_xorb(1, None, Some(&catalog)).await;
    let message = refused(&objects, &catalog).await;
    assert!(message.contains("did not finish"), "{message}");
    let id = finish_rebuild(&objects, &catalog).await.unwrap();
    assert_eq!(identify(&objects, &catalog, &names()).await.unwrap(), id);
    // Nor does a rebuild take a catalog of another store.
    let foreign = catalogs.open("foreign.db").await;
    identify(&super::tests::objects(), &foreign, &names()).await.unwrap();
    assert!(begin_rebuild(&objects, &foreign).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_agree_on_one_id() {
    let Some(postgres) = Postgres::start() else { return };
    let url = postgres.fresh_database();
    Catalog::open_or_create(&url).await.unwrap();
    let objects = objects();
    let starts = (0..8).map(|_| {
        let (url, objects) = (url.clone(), objects.clone());
        tokio::spawn(async move {
            let catalog = Catalog::open(&url).await.unwrap();
            identify(&objects, &catalog, &names()).await.unwrap()
        })
    });
    let mut found = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        found.push(start.await.unwrap());
    }
    assert!(found.iter().all(|id| *id == found[0]), "{found:?}");
    assert_eq!(objects.store_id().await.unwrap(), Some(found[0]));
}

#[tokio::test]
async fn a_damaged_id_is_an_error_and_not_a_new_store() {
    let (catalogs, folder) = (Catalogs::new(), tempfile::tempdir().unwrap());
    let objects = Objects::local(folder.path()).unwrap();
    let catalog = catalogs.open("a.db").await;
    identify(&objects, &catalog, &names()).await.unwrap();
    for text in
        ["", "{}", "{\"store_id\":\"12\",\"format\":1}", "{\"store_id\":\"12\",\"format\":2}", "\u{0}"]
    {
        std::fs::write(folder.path().join("store.json"), text).unwrap();
        assert!(identify(&objects, &catalog, &names()).await.is_err(), "{text}");
    }
}

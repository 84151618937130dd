//! Backups: whole beside deletions, nothing twice, restored to a store that lacks nothing.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::path::Path;

use common::{NOW_S, TestStore, writer};
use store::upkeep::identity::{Names, identify};
use store::upkeep::{
    BackedUp, BackupProgress, BackupSource, BackupTarget, CatalogTarget, Prune, RestoreTarget, Restored,
    VerifyOptions, VerifyProgress, backup, restore, sqlite_url,
};
use store::{Catalog, ErrorKind, ObjectKey, Objects, Result, Store, testing};
use testkit::corpus;
use testkit::upload::Upload;
use xet::compress::Policy;

fn names() -> Names {
    Names { catalog: "the catalog".to_owned(), objects: "the objects".to_owned() }
}

async fn back_up(fixture: &TestStore, dest: &Path, prune: bool) -> Result<BackedUp> {
    let source = BackupSource {
        objects: fixture.store.objects().clone(),
        catalog: sqlite_url(&fixture.database_file()).unwrap(),
        names: names(),
    };
    let target = BackupTarget {
        objects: Objects::local(&dest.join("objects")).unwrap(),
        catalog: dest.join("catalog.db"),
        interrupted_s: None,
        prune: if prune { Prune::UnlessLarge } else { Prune::Nothing },
    };
    backup(&source, &target, || NOW_S, &BackupProgress::default()).await
}

async fn give_back(dest: &Path, to: &Path) -> Result<Restored> {
    let target = RestoreTarget {
        objects: Objects::local(&to.join("objects")).unwrap(),
        catalog: CatalogTarget::File(to.join("catalog.db")),
        catalog_sha256: None,
        interrupted_s: None,
    };
    let objects = Objects::local(&dest.join("objects")).unwrap();
    restore(&objects, &dest.join("catalog.db"), &target, || NOW_S, &BackupProgress::default()).await
}

async fn open(fixture: &TestStore, folder: &Path) -> Store {
    let catalog = std::sync::Arc::new(Catalog::open_file(&folder.join("catalog.db")).await.unwrap());
    let objects = Objects::local(&folder.join("objects")).unwrap();
    Store::new(objects, catalog, fixture.clock.clone(), &store::Options::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_incremental_and_restores_to_a_whole_store() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/a");
    let (dest, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut uploads = Vec::new();
    for n in 0..3 {
        let data = corpus::noise(n, 200_000);
        uploads.push((Upload::of(&[&data], 100, Policy::Auto), data));
        fixture.upload(&grant, &uploads[n as usize].0).await.unwrap();
        let done = back_up(&fixture, dest.path(), false).await.unwrap();
        assert_eq!((done.objects, done.known, done.damaged.len()), (2, 2 * n, 0), "{done:?}");
        assert_eq!(done.needed, 2 * (n + 1));
    }
    let restored = give_back(dest.path(), to.path()).await.unwrap();
    assert_eq!((restored.objects, restored.damaged.len()), (6, 0));
    let again = give_back(dest.path(), to.path()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Invalid, "a catalog is not overwritten");
    let store = open(&fixture, to.path()).await;
    let options = VerifyOptions { deep: true, ..VerifyOptions::default() };
    let verified = store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
    assert!(verified.damages.is_empty(), "{:?}", verified.damages);
    for (upload, data) in &uploads {
        let pieces =
            store.content().read_file(&grant, upload.files[0].hash, 0..data.len() as u64).await.unwrap();
        let pieces: Vec<bytes::Bytes> = futures::TryStreamExt::try_collect(pieces).await.unwrap();
        assert!(pieces.concat() == *data);
    }
}

/// Garbage collection may take what no file needs between the snapshot and the copy; what files need is missed by name.
#[tokio::test(flavor = "multi_thread")]
async fn what_went_unused_is_given_up_and_what_is_needed_is_named() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/a");
    let dest = tempfile::tempdir().unwrap();
    identify(fixture.store.objects(), &fixture.catalog, &names()).await.unwrap();
    let (used, unused) = (corpus::noise(1, 100_000), corpus::noise(2, 100_000));
    let used = Upload::of(&[&used], 100, Policy::Auto);
    fixture.upload(&grant, &used).await.unwrap();
    let unused = Upload::of(&[&unused], 100, Policy::Auto).xorbs.remove(0);
    fixture.put_xorb(&grant, unused.info.hash(), &unused.bytes).await.unwrap();
    let key = async |hash| ObjectKey::Xorb(testing::xorbs(&fixture.catalog, &[hash]).await.unwrap()[0].key);
    let objects = fixture.store.objects();
    objects.delete(&key(unused.info.hash()).await).await.unwrap();
    let done = back_up(&fixture, dest.path(), false).await.unwrap();
    assert_eq!(done.damaged, Vec::<String>::new());
    let lost = key(used.xorbs[0].info.hash()).await;
    let dest = tempfile::tempdir().unwrap();
    objects.delete(&lost).await.unwrap();
    let done = back_up(&fixture, dest.path(), false).await.unwrap();
    assert_eq!(done.damaged, [lost.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_leaves_what_the_store_or_the_snapshot_has() {
    let fixture = TestStore::new().await;
    let (grant, dest) = (writer("ann/a"), tempfile::tempdir().unwrap());
    let (one, two) = (corpus::noise(1, 100_000), corpus::noise(2, 100_000));
    let (one, two) = (Upload::of(&[&one], 100, Policy::Auto), Upload::of(&[&two], 100, Policy::Auto));
    fixture.upload(&grant, &one).await.unwrap();
    fixture.put_xorb(&grant, two.xorbs[0].info.hash(), &two.xorbs[0].bytes).await.unwrap();
    assert_eq!(back_up(&fixture, dest.path(), true).await.unwrap().pruned, 0);
    // Gone with its row, as after garbage collection.
    let hash = two.xorbs[0].info.hash();
    let gone = ObjectKey::Xorb(testing::xorbs(&fixture.catalog, &[hash]).await.unwrap()[0].key);
    fixture.store.objects().delete(&gone).await.unwrap();
    fixture.database().execute("DELETE FROM xorbs WHERE hash = ?1", [hash.as_bytes()]).unwrap();
    assert_eq!(back_up(&fixture, dest.path(), false).await.unwrap().pruned, 0);
    assert_eq!(back_up(&fixture, dest.path(), true).await.unwrap().pruned, 1);
    let copy = Objects::local(&dest.path().join("objects")).unwrap();
    assert_eq!(copy.head(&gone).await.unwrap(), None);
    assert!(give_back(dest.path(), tempfile::tempdir().unwrap().path()).await.unwrap().damaged.is_empty());
}

/// A catalog in PostgreSQL becomes a snapshot in SQLite, row by row, and the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_from_one_database_to_the_other() {
    let Some(server) = testkit::postgres::Postgres::start() else { return };
    let url = server.fresh_database();
    let folder = tempfile::tempdir().unwrap();
    let catalog = store::Catalog::open_or_create(&url).await.unwrap();
    let fixture = TestStore::over(folder, catalog, &store::Options::default());
    let (grant, data) = (writer("ann/a"), corpus::noise(1, 300_000));
    let upload = Upload::of(&[&data], 100, Policy::Auto);
    fixture.upload(&grant, &upload).await.unwrap();
    let source = BackupSource { objects: fixture.store.objects().clone(), catalog: url, names: names() };
    let dest = tempfile::tempdir().unwrap();
    let target = BackupTarget {
        objects: Objects::local(&dest.path().join("objects")).unwrap(),
        catalog: dest.path().join("catalog.db"),
        interrupted_s: None,
        prune: Prune::Nothing,
    };
    let done = backup(&source, &target, || NOW_S, &BackupProgress::default()).await.unwrap();
    assert_eq!((done.objects, done.damaged.len()), (2, 0));
    // A database that was made anew has no rows: the backup stays as it was.
    let snapshot = std::fs::read(dest.path().join("catalog.db")).unwrap();
    for is_opened in [false, true] {
        let anew = server.fresh_database();
        if is_opened {
            store::Catalog::open_or_create(&anew).await.unwrap();
        }
        let source = BackupSource { objects: fixture.store.objects().clone(), catalog: anew, names: names() };
        backup(&source, &target, || NOW_S, &BackupProgress::default()).await.unwrap_err();
        assert!(std::fs::read(dest.path().join("catalog.db")).unwrap() == snapshot);
    }

    let to = tempfile::tempdir().unwrap();
    give_back(dest.path(), to.path()).await.unwrap();
    let counts = testing::counts(&fixture.catalog).await.unwrap();
    assert_eq!(testing::counts(open(&fixture, to.path()).await.catalog()).await.unwrap(), counts);

    let fresh = server.fresh_database();
    let target = RestoreTarget {
        objects: Objects::local(&to.path().join("more")).unwrap(),
        catalog: CatalogTarget::Postgres { url: fresh.clone(), draft: to.path().join("draft") },
        catalog_sha256: None,
        interrupted_s: None,
    };
    let objects = Objects::local(&dest.path().join("objects")).unwrap();
    restore(&objects, &dest.path().join("catalog.db"), &target, || NOW_S, &BackupProgress::default())
        .await
        .unwrap();
    let restored = store::Catalog::open(&fresh).await.unwrap();
    assert_eq!(testing::counts(&restored).await.unwrap(), counts);
}

//! Verify, rebuild and compaction: damage is named and healed, a lost catalog comes back, half-used xorbs shrink.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use common::{TestStore, Upload};
use futures::TryStreamExt as _;
use object_store::memory::InMemory;
use store::audit::AuditQuery;
use store::clock::ManualClock;
use store::content::XorbState;
use store::hub::refs::{HEADS, MAIN};
use store::hub::{Operation, RepoRow, Request};
use store::names::{Kind, RepoName};
use store::objects::Folder;
use store::upkeep::{
    CompactOptions, CompactProgress, GRACE_S, GcOptions, GcProgress, RebuildProgress, Repair, RepairOutcome,
    Verified, VerifyOptions, VerifyProgress,
};
use store::{Catalog, ErrorKind, Grant, ObjectKey, Objects, Options, Store, XorbKey, testing};
use testkit::corpus;
use xet::FileHash;
use xet::compress::{Policy, Scheme};

fn name(text: &str) -> RepoName {
    RepoName::new(Kind::Model, "ann", text).unwrap()
}

fn grant(text: &str) -> Grant {
    Grant::write(name(text).scope().unwrap())
}

async fn put(fixture: &TestStore, repo: &RepoRow, branch: &str, path: &str, upload: &Upload, n: usize) {
    let put =
        Operation::PutLinked { path: path.into(), sha256: upload.files[n].sha256.unwrap(), bytes: None };
    let small = Operation::Put { path: format!("{path}.txt"), content: Bytes::from(format!("about {path}")) };
    let request = Request {
        ref_name: branch.into(),
        parent: None,
        author: "ann".into(),
        message: format!("put {path}"),
        operations: vec![put, small],
    };
    fixture.store.hub().commit(repo, &request).await.unwrap();
    fixture.clock.advance(1);
}

/// Two repositories that share a file, with history, a branch and large and small files.
async fn filled() -> (TestStore, Vec<(Vec<u8>, FileHash)>) {
    let fixture = TestStore::new().await;
    let data = [corpus::text(1, 200_000), corpus::noise(2, 150_000), corpus::text(3, 90_000)];
    let upload = Upload::of(&[&data[0], &data[1], &data[2]], 2, Policy::Auto);
    for text in ["one", "two"] {
        fixture.store.hub().create_repo(&name(text), true, "ann").await.unwrap();
        fixture.upload(&grant(text), &upload).await.unwrap();
    }
    let one = fixture.store.hub().repo(&name("one")).await.unwrap().unwrap();
    let two = fixture.store.hub().repo(&name("two")).await.unwrap().unwrap();
    put(&fixture, &one, MAIN, "a.bin", &upload, 0).await;
    put(&fixture, &one, MAIN, "folder/b.bin", &upload, 1).await;
    let at = fixture.store.hub().ref_target(one.id, MAIN).await.unwrap().unwrap();
    fixture.store.hub().create_ref(one.id, HEADS, "side", at).await.unwrap();
    put(&fixture, &one, "refs/heads/side", "c.bin", &upload, 2).await;
    for n in 0..3 {
        put(&fixture, &two, MAIN, &format!("{n}.bin"), &upload, n).await;
    }
    let files = data.into_iter().zip(&upload.files).map(|(data, file)| (data, file.hash)).collect();
    (fixture, files)
}

async fn verify(fixture: &TestStore, deep: bool, repair: Option<Repair>) -> Verified {
    let options = VerifyOptions { deep, repair, ..VerifyOptions::default() };
    fixture.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap()
}

async fn first_xorb(fixture: &TestStore, file: FileHash) -> XorbKey {
    testing::all_files(&fixture.catalog, &[file]).await.unwrap()[0].recipe.xorbs[0].key
}

#[tokio::test]
async fn a_sound_store_is_sound() {
    let (fixture, _) = filled().await;
    let quick = verify(&fixture, false, None).await;
    assert!(quick.damages.is_empty(), "{:?}", quick.damages);
    let deep = verify(&fixture, true, None).await;
    assert!(deep.damages.is_empty() && deep.objects == quick.objects && deep.bytes > 300_000, "{deep:?}");
    // What was just read need not be read again.
    fixture.clock.advance(100);
    let since_s = common::NOW_S + 50;
    let options = VerifyOptions { deep: true, since_s, ..VerifyOptions::default() };
    let again = fixture.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
    assert_eq!(again.objects, deep.objects, "it was read before that");
    let options = VerifyOptions { deep: true, since_s: common::NOW_S, ..VerifyOptions::default() };
    let again = fixture.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
    assert!(again.objects < deep.objects);
    // Each is in the log, the newest first.
    let query = AuditQuery { limit: 9, is_upkeep: true, ..AuditQuery::default() };
    let audit_events = testing::audit_events(&fixture.catalog, &query).await.unwrap();
    let reported: Vec<_> =
        audit_events.iter().map(|row| row.event.detail.split(':').next().unwrap()).collect();
    assert_eq!(reported, ["deep", "deep", "deep", "quick"]);
    let expected = format!("deep: {} objects, {} bytes read, nothing damaged", deep.objects, deep.bytes);
    assert_eq!(audit_events[2].event.detail, expected);
}

/// Missing, cut, one byte flipped: exactly that is named, everything else reads, and an upload repairs it.
#[tokio::test]
async fn damage_is_named_and_the_next_upload_heals_it() {
    for damage in ["missing", "cut", "flipped"] {
        for policy in [Policy::Auto, Policy::Always(Scheme::Raw)] {
            let (fixture, files) = filled().await;
            let key = first_xorb(&fixture, files[0].1).await;
            let object = ObjectKey::Xorb(key);
            let mut body = fixture.store.objects().whole(&object).await.unwrap().to_vec();
            match damage {
                "missing" => fixture.store.objects().delete(&object).await.unwrap(),
                "cut" => {
                    body.truncate(body.len() / 2);
                    fixture.store.objects().put(&object, vec![body.into()]).await.unwrap();
                }
                _ => {
                    let middle = body.len() / 2;
                    body[middle] ^= 1;
                    fixture.store.objects().put(&object, vec![body.into()]).await.unwrap();
                }
            }
            let found = verify(&fixture, damage == "flipped", None).await;
            assert_eq!(found.damages.len(), 1, "{damage}: {:?}", found.damages);
            let named = &found.damages[0];
            assert_eq!(named.what, object.to_string());
            assert!(named.files.contains(&files[0].1.to_string()), "{named:?}");
            assert_eq!(named.repos, ["ann/models/one", "ann/models/two"]);
            for (data, file) in &files[1..] {
                assert_eq!(fixture.read(&grant("one"), *file, None).await.unwrap(), *data);
            }
            let marked = verify(&fixture, true, Some(Repair::Mark)).await;
            assert_eq!(marked.damages[0].repaired, RepairOutcome::Marked);
            assert_eq!(
                testing::xorbs(&fixture.catalog, &[key.hash]).await.unwrap()[0].state,
                XorbState::Damaged
            );

            // The next upload of it, compressed in whatever way, repairs it for all.
            let again = Upload::of(&[&files[0].0, &files[1].0, &files[2].0], 2, policy);
            let xorb = again.xorbs.iter().find(|xorb| xorb.info.hash() == key.hash).unwrap();
            fixture.put_xorb(&grant("two"), key.hash, &xorb.bytes).await.unwrap();
            assert_eq!(
                testing::xorbs(&fixture.catalog, &[key.hash]).await.unwrap()[0].state,
                XorbState::Live
            );
            let repaired = verify(&fixture, true, None).await;
            assert!(repaired.damages.is_empty(), "{damage}: {:?}", repaired.damages);
            for (data, file) in &files {
                assert_eq!(fixture.read(&grant("one"), *file, None).await.unwrap(), *data);
            }
        }
    }
}

#[tokio::test]
async fn damage_is_restored_from_a_second_store() {
    let (fixture, files) = filled().await;
    let copy = Objects::new(Arc::new(InMemory::new()));
    let mut keys = Vec::new();
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits] {
        let listed: Vec<_> = fixture.store.objects().list(folder).try_collect().await.unwrap();
        for listed in listed {
            let key = listed.key.unwrap();
            copy.put(&key, vec![fixture.store.objects().whole(&key).await.unwrap()]).await.unwrap();
            keys.push(key);
        }
    }
    for key in &keys {
        fixture.store.objects().delete(key).await.unwrap();
    }
    let lost = verify(&fixture, false, None).await;
    assert_eq!(lost.damages.len(), keys.len());
    let repaired = verify(&fixture, true, Some(Repair::From(copy))).await;
    assert!(repaired.damages.iter().all(|damage| damage.repaired == RepairOutcome::Restored), "{repaired:?}");
    assert!(verify(&fixture, true, None).await.damages.is_empty());
    for (data, file) in &files {
        assert_eq!(fixture.read(&grant("two"), *file, None).await.unwrap(), *data);
    }
}

/// Every row of a table as text, without columns that are times.
fn dump(database: &rusqlite::Connection, table: &str, columns: &str) -> Vec<String> {
    let hex = columns.split(", ").map(|column| format!("COALESCE(HEX({column}), '-')")).collect::<Vec<_>>();
    let query = format!("SELECT {} FROM {table}", hex.join(" || ' ' || "));
    let mut query = database.prepare(&query).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    let mut rows: Vec<String> = rows.collect::<rusqlite::Result<_>>().unwrap();
    rows.sort();
    rows
}

#[tokio::test]
async fn a_lost_catalog_comes_back_row_by_row() {
    let (fixture, files) = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.db");
    let catalog = Arc::new(Catalog::open_file(&file).await.unwrap());
    let clock = Arc::new(ManualClock::at(common::NOW_S));
    let store = Store::new(fixture.store.objects().clone(), catalog.clone(), clock, &Options::default());
    let rebuilt = store.upkeep().rebuild(&RebuildProgress::default()).await.unwrap();
    assert_eq!(rebuilt.skipped, [""; 0]);
    assert_eq!((rebuilt.repos, rebuilt.commits, rebuilt.lost_files), (2, 8, 0));
    let error = store.upkeep().rebuild(&RebuildProgress::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "it is not empty any more");

    let (before, after) = (fixture.database(), rusqlite::Connection::open(&file).unwrap());
    for (table, columns) in [
        ("xorbs", "hash, digest, object_bytes, raw_bytes, chunk_count, state"),
        ("files", "hash, file_bytes, layout, shard"),
        ("file_xorbs", "xorb, file"),
        ("shards", "hash, object_bytes, state"),
        ("repo_files", "namespace, repo, file"),
        ("repo_sha256s", "namespace, repo, sha256, file"),
        ("repo_xorbs", "xorb, namespace, repo"),
        ("dedup", "chunk, namespace, repo, xorb, chunk_index"),
        ("repos", "id, kind, namespace, name, private"),
        ("refs", "repo, name, target"),
        (
            "git_objects",
            "repo, oid, kind, bytes, body, bundle, bundle_offset, parent, depth, sha256, linked_bytes, file",
        ),
    ] {
        let expected = dump(&before, table, columns);
        assert!(!expected.is_empty(), "{table}");
        assert_eq!(dump(&after, table, columns), expected, "{table}");
    }
    let options = VerifyOptions { deep: true, ..VerifyOptions::default() };
    let sound = store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
    assert_eq!(sound.damages, []);
    for (data, file) in &files {
        let pieces: Vec<Bytes> = store
            .content()
            .read_file(&grant("two"), *file, 0..data.len() as u64)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(pieces.concat(), *data);
    }
}

#[tokio::test]
async fn what_is_left_of_damaged_objects_is_rebuilt_and_the_rest_named() {
    let (fixture, files) = filled().await;
    let loose = Upload::of(&[&corpus::noise(77, 40_000)], 100, Policy::Auto);
    fixture.upload(&Grant::write("bob/scratch".parse().unwrap()), &loose).await.unwrap();
    let key = ObjectKey::Xorb(first_xorb(&fixture, files[0].1).await);
    fixture.store.objects().delete(&key).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let catalog = Arc::new(Catalog::open_file(&folder.path().join("new.db")).await.unwrap());
    let clock = Arc::new(ManualClock::at(common::NOW_S));
    let store = Store::new(fixture.store.objects().clone(), catalog.clone(), clock, &Options::default());
    let rebuilt = store.upkeep().rebuild(&RebuildProgress::default()).await.unwrap();
    assert!(rebuilt.skipped.iter().all(|skipped| skipped.contains(&files[0].1.to_string())), "{rebuilt:?}");
    assert_eq!((rebuilt.skipped.len(), rebuilt.lost_files), (2, 1), "{rebuilt:?}");
    let readers = testing::readers(&catalog, &[loose.files[0].hash]).await.unwrap();
    assert_eq!(readers[0].1.to_string(), "lost-found/files");
    for (data, file) in &files[1..] {
        let pieces: Vec<Bytes> = store
            .content()
            .read_file(&grant("one"), *file, 0..data.len() as u64)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(pieces.concat(), *data);
    }
}

#[tokio::test]
async fn a_xorb_of_which_little_is_needed_shrinks_while_old_plans_still_read() {
    let fixture = TestStore::new().await;
    let repo = fixture.store.hub().create_repo(&name("one"), false, "ann").await.unwrap();
    // Twenty files in one xorb; all but three are given up.
    let data: Vec<_> = (0..20).map(|n| corpus::noise(n, 40_000)).collect();
    let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let upload = Upload::of(&slices, 1000, Policy::Auto);
    assert_eq!(upload.xorbs.len(), 1);
    fixture.upload(&grant("one"), &upload).await.unwrap();
    for n in [3, 4, 11] {
        put(&fixture, &repo, MAIN, &format!("{n}.bin"), &upload, n).await;
    }
    fixture.clock.advance(GRACE_S + 10);
    let collect_garbage = async || {
        fixture.store.upkeep().collect_garbage(&GcOptions::default(), &GcProgress::default()).await.unwrap()
    };
    assert_eq!(collect_garbage().await.files, 17);
    let old_plan = fixture.store.content().plan(&grant("one"), upload.files[3].hash, None).await.unwrap();
    let compact = async |dry_run| {
        let options = CompactOptions { dry_run, ..CompactOptions::default() };
        fixture.store.upkeep().compact(&options, &CompactProgress::default()).await.unwrap()
    };
    let would = compact(true).await;
    assert_eq!((would.rewritten, would.files), (1, 3));
    assert!(would.freed_bytes > 500_000);
    let did = compact(false).await;
    assert_eq!(did, would);
    assert_eq!(compact(false).await.rewritten, 0);
    let store::content::Planned::Covered(old_plan) = old_plan else { panic!("past the end") };
    assert_eq!(fixture.rebuild(&old_plan, u64::MAX).await, data[3], "who has a plan reads on");
    let mut after = BTreeMap::new();
    for n in [3, 4, 11] {
        assert_eq!(fixture.read(&grant("one"), upload.files[n].hash, None).await.unwrap(), data[n]);
        after.insert(n, first_xorb(&fixture, upload.files[n].hash).await);
    }
    assert!(after.values().all(|key| key.hash != upload.xorbs[0].info.hash()));
    // The old xorb and its shard leave as all do; then the catalog can be made again from what is left.
    collect_garbage().await;
    fixture.clock.advance(GRACE_S + 10);
    assert!(collect_garbage().await.deleted_bytes > 700_000);
    assert!(verify(&fixture, true, None).await.damages.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let catalog = Arc::new(Catalog::open_file(&folder.path().join("new.db")).await.unwrap());
    let clock = Arc::new(ManualClock::at(common::NOW_S));
    let store = Store::new(fixture.store.objects().clone(), catalog.clone(), clock, &Options::default());
    assert_eq!(store.upkeep().rebuild(&RebuildProgress::default()).await.unwrap().skipped, [""; 0]);
    assert_eq!(testing::counts(&catalog).await.unwrap().files, 3);
}

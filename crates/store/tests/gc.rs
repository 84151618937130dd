//! Sweep, one case at a time: what goes, what stays, and what comes back.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use bytes::Bytes;
use common::{NOW_S, TestStore, Upload, writer};
use store::content::XorbState;
use store::hub::refs::{HEADS, MAIN};
use store::hub::{Operation, RepoRow, Request};
use store::names::{Kind, RepoName};
use store::upkeep::{Estimate, GRACE_S, GcOptions, GcProgress, GcReport};
use store::{ErrorKind, Grant, testing};
use testkit::corpus;
use xet::compress::Policy;

fn name() -> RepoName {
    RepoName::new(Kind::Model, "ann", "repo").unwrap()
}

fn grant() -> Grant {
    Grant::write(name().scope().unwrap())
}

fn upload(seed: u64) -> (Vec<u8>, Upload) {
    let data = corpus::noise(seed, 100_000);
    let upload = Upload::of(&[&data], 100, Policy::Auto);
    (data, upload)
}

async fn collect_garbage(fixture: &TestStore) -> GcReport {
    // Objects are dated by the real clock, far before the fixture's: grace of objects is not tried here.
    fixture.store.upkeep().collect_garbage(&GcOptions::default(), &GcProgress::default()).await.unwrap()
}

async fn estimated(fixture: &TestStore) -> Estimate {
    fixture.store.upkeep().estimate_gc(&GcOptions::default(), &GcProgress::default()).await.unwrap()
}

async fn put(fixture: &TestStore, repo: &RepoRow, branch: &str, path: &str, upload: &Upload) {
    let put =
        Operation::PutLinked { path: path.into(), sha256: upload.files[0].sha256.unwrap(), bytes: None };
    let request = Request {
        ref_name: branch.into(),
        parent: None,
        author: "ann".into(),
        message: format!("put {path}"),
        operations: vec![put],
    };
    fixture.store.hub().commit(repo, &request).await.unwrap();
}

#[tokio::test]
async fn what_no_ref_leads_to_goes_when_its_grace_is_over_and_everything_else_stays() {
    let fixture = TestStore::new().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let ((retained, retained_upload), (lost, lost_upload)) = (upload(1), upload(2));
    fixture.upload(&grant(), &retained_upload).await.unwrap();
    fixture.upload(&grant(), &lost_upload).await.unwrap();
    put(&fixture, &repo, MAIN, "kept.bin", &retained_upload).await;
    let at = fixture.store.hub().ref_target(repo.id, MAIN).await.unwrap().unwrap();
    fixture.store.hub().create_ref(repo.id, HEADS, "side", at).await.unwrap();
    put(&fixture, &repo, "refs/heads/side", "lost.bin", &lost_upload).await;
    let (retained_file, lost_file) = (retained_upload.files[0].hash, lost_upload.files[0].hash);

    fixture.clock.advance(2 * GRACE_S);
    assert_eq!(collect_garbage(&fixture).await, GcReport::default(), "two refs lead to everything");
    fixture.store.hub().delete_ref(repo.id, HEADS, "side").await.unwrap();
    assert_eq!(collect_garbage(&fixture).await, GcReport::default(), "a client may still read the commit");
    fixture.clock.advance(86_400 + 1);
    let estimate = estimated(&fixture).await;
    assert_eq!((estimate.git_objects, estimate.files, estimate.xorbs, estimate.ripe_bytes), (3, 1, 1, 0));
    assert!(estimate.xorb_bytes > 90_000);

    // Commit, tree and pointer; the file; its xorb and shard.
    let swept = collect_garbage(&fixture).await;
    assert_eq!((swept.git_objects, swept.repo_files, swept.files, swept.condemned), (3, 1, 1, 2));
    assert_eq!(swept.orphans, 1, "the bundle of the commit");
    assert_eq!(fixture.read(&grant(), lost_file, None).await.unwrap_err().kind(), ErrorKind::NotFound);
    fixture.clock.advance(GRACE_S - 10);
    assert_eq!(collect_garbage(&fixture).await, GcReport::default());
    fixture.clock.advance(20);
    let estimate = estimated(&fixture).await;
    assert_eq!((estimate.xorbs, estimate.ripe_bytes), (1, estimate.xorb_bytes));
    let swept = collect_garbage(&fixture).await;
    assert_eq!((swept.deleted, swept.condemned), (2, 0));
    assert_eq!(fixture.state().await.1.len(), 2, "a xorb and a shard are left");
    assert_eq!(fixture.read(&grant(), retained_file, None).await.unwrap(), retained);

    // It may be uploaded again at once, under another key than the one that was deleted.
    fixture.upload(&grant(), &lost_upload).await.unwrap();
    assert_eq!(fixture.read(&grant(), lost_file, None).await.unwrap(), lost);
    let rows = testing::xorbs(&fixture.catalog, &[lost_upload.xorbs[0].info.hash()]).await.unwrap();
    assert_eq!(rows[0].state, XorbState::Live);
}

#[tokio::test]
async fn a_push_finds_its_xorbs_again_within_the_grace_and_is_refused_whole_after_it() {
    let fixture = TestStore::new().await;
    fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let (data, upload) = upload(1);
    fixture.upload(&grant(), &upload).await.unwrap();
    // Nobody commits it.
    fixture.clock.advance(GRACE_S + 10);
    let swept = collect_garbage(&fixture).await;
    assert_eq!((swept.repo_files, swept.files, swept.condemned), (1, 1, 2));
    // A client with a cache of the xorbs registers the file without sending them.
    fixture.clock.advance(GRACE_S - 10);
    fixture.register(&grant(), &upload.shard()).await.unwrap();
    assert_eq!(fixture.read(&grant(), upload.files[0].hash, None).await.unwrap(), data);
    fixture.clock.advance(GRACE_S + 10);
    collect_garbage(&fixture).await;
    fixture.clock.advance(GRACE_S + 10);
    assert_eq!(collect_garbage(&fixture).await.deleted, 2);
    let error = fixture.register(&grant(), &upload.shard()).await.unwrap_err();
    assert!(error.to_string().contains("is not stored"), "{error}");
    assert_eq!(testing::counts(&fixture.catalog).await.unwrap().files, 0);
    fixture.upload(&grant(), &upload).await.unwrap();
    assert_eq!(fixture.read(&grant(), upload.files[0].hash, None).await.unwrap(), data);
}

/// GC gave the object up and was paused before it deleted it; the xorb is uploaded again; then the deletion happens.
#[tokio::test]
async fn a_deletion_that_is_late_finds_nothing_of_what_came_again() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/models/repo");
    let (data, upload) = upload(1);
    let xorb = &upload.xorbs[0];
    fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap();
    let old = testing::xorbs(&fixture.catalog, &[xorb.info.hash()]).await.unwrap().remove(0);
    let hash = [*xorb.info.hash().as_bytes()];
    testing::condemn_xorbs(&fixture.catalog, &hash, u64::MAX >> 1, 5).await.unwrap();
    testing::doom_xorbs(&fixture.catalog, &hash, u64::MAX >> 1, 6).await.unwrap();

    fixture.upload(&grant, &upload).await.unwrap();
    let new = testing::xorbs(&fixture.catalog, &[xorb.info.hash()]).await.unwrap().remove(0);
    assert_ne!(old.key, new.key);
    fixture.store.objects().delete(&store::ObjectKey::Xorb(old.key)).await.unwrap();
    testing::bury_xorbs(&fixture.catalog, &hash, 7).await.unwrap();
    assert_eq!(fixture.read(&grant, upload.files[0].hash, None).await.unwrap(), data);
    let stored = fixture.store.objects().whole(&store::ObjectKey::Xorb(new.key)).await.unwrap();
    let scanned = xet::xorb::verify(&stored, Some(new.key.hash), true).unwrap();
    assert_ne!(scanned.nonce, [0; 4]);
    assert_eq!(store::Digest::of(&stored[scanned.info.stored_bytes() as usize..]), new.key.digest);
}

#[tokio::test]
async fn a_grace_shorter_than_dedup_answers_live_is_refused_beside_servers() {
    let fixture = TestStore::new().await;
    let collect_garbage = async |grace_s, offline| {
        let options = GcOptions { grace_s, offline, allow_large_deletion: true, ..GcOptions::default() };
        fixture
            .store
            .upkeep()
            .collect_garbage(&options, &GcProgress::default())
            .await
            .map_err(|error| error.kind())
    };
    assert_eq!(collect_garbage(86_400, false).await, Err(ErrorKind::Invalid));
    assert_eq!(collect_garbage(0, false).await, Err(ErrorKind::Invalid));
    assert!(collect_garbage(86_400 + 3600, false).await.is_ok());
    let (_, upload) = upload(1);
    fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    fixture.upload(&grant(), &upload).await.unwrap();
    // Nobody else is there: all goes at once, with nothing left to wait for.
    let swept = collect_garbage(0, true).await.unwrap();
    assert_eq!((swept.files, swept.condemned, swept.deleted), (1, 2, 2));
    let (counts, paths) = fixture.state().await;
    assert_eq!((counts.xorbs, counts.shards, paths.len()), (0, 0, 0));
    fixture.upload(&grant(), &upload).await.unwrap();
}

#[tokio::test]
async fn two_sweeps_do_not_run_at_once_and_one_that_died_is_taken_up() {
    let fixture = TestStore::new().await;
    let (_, upload) = upload(1);
    fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    fixture.upload(&grant(), &upload).await.unwrap();
    fixture.clock.advance(2 * GRACE_S);
    let options = GcOptions::default();
    for n in 1..100 {
        fixture.faults.fail_before(n);
        let broken = fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await;
        fixture.faults.disarm();
        if broken.is_ok() {
            return;
        }
        let busy = fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await;
        // The first three begin, take and commit the lease.
        assert!(n <= 3 || busy.is_err_and(|error| error.kind() == ErrorKind::Conflict), "after {n}");
        fixture.clock.advance(601);
        fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap();
    }
    panic!("a small sweep takes too many operations");
}

/// A clock that is years ahead: the trash would be over, and a sweep that dies would hold its lease for years.
#[tokio::test]
async fn a_clock_that_is_years_ahead_deletes_nothing_and_holds_no_lease() {
    const YEARS_S: u64 = 10 * 365 * 86_400;
    let fixture = TestStore::new().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    collect_garbage(&fixture).await;
    fixture.store.hub().trash_repo(&repo, 7 * 86_400).await.unwrap();
    let options = GcOptions::default();
    fixture.clock.advance(YEARS_S);
    let refused = fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Denied && refused.to_string().contains("3650 days ago"),
        "{refused}"
    );
    assert!(fixture.store.upkeep().sweep_refusal(&options).await.unwrap().is_some());
    fixture.faults.fail_before(3);
    fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap_err();
    fixture.faults.disarm();

    fixture.clock.set(NOW_S + 60);
    fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap();
    let trashed = fixture.store.hub().trashed_repo(repo.id).await.unwrap();
    fixture.store.hub().restore_repo(&trashed, &name()).await.unwrap();
    // A clock at its zero is no reason to refuse when it is right again.
    fixture.clock.set(100);
    fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap();
    fixture.clock.set(NOW_S + 120);
    fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap();
    fixture.clock.advance(YEARS_S);
    let allowed = GcOptions { allow_large_deletion: true, ..options.clone() };
    fixture.store.upkeep().collect_garbage(&allowed, &GcProgress::default()).await.unwrap();
    fixture.store.upkeep().collect_garbage(&options, &GcProgress::default()).await.unwrap();
}

/// What no repository ever registers is kept while its sender goes on sending, and two days.
#[tokio::test]
async fn a_xorb_that_was_never_registered_goes_two_days_after_its_repository_sent_anything() {
    const DAY_S: u64 = 86_400;
    let fixture = TestStore::new().await;
    let (sent, later, registered) = (upload(1).1, upload(2).1, upload(3).1);
    let put_xorb = async |grant: &Grant, upload: &Upload| {
        let xorb = &upload.xorbs[0];
        fixture.put_xorb(grant, xorb.info.hash(), &xorb.bytes).await.unwrap();
    };
    let state = async |upload: &Upload| {
        let rows = testing::xorbs(&fixture.catalog, &[upload.xorbs[0].info.hash()]).await.unwrap();
        rows.first().map(|row| row.state)
    };
    put_xorb(&grant(), &sent).await;
    // Another repository registered this one, and deleted it: it has the whole grace, whichever client sent it.
    fixture.upload(&writer("bob/models/repo"), &registered).await.unwrap();
    put_xorb(&grant(), &registered).await;
    fixture.clock.advance(DAY_S);
    put_xorb(&grant(), &later).await;
    fixture.clock.advance(2 * DAY_S - 10);
    collect_garbage(&fixture).await;
    fixture.upload(&grant(), &sent).await.expect("an upload that took days is registered");
    assert_eq!(state(&later).await, Some(XorbState::Condemned));
    fixture.clock.advance(2 * DAY_S + 10);
    let swept = collect_garbage(&fixture).await;
    assert_eq!(swept.deleted, 1, "{swept:?}");
    assert_eq!(state(&later).await, Some(XorbState::Gone));
    assert_eq!(state(&sent).await, Some(XorbState::Live));
    assert_eq!(state(&registered).await, Some(XorbState::Live));
    // Its sender uploads all of it again.
    fixture.upload(&grant(), &later).await.unwrap();
    assert_eq!(state(&later).await, Some(XorbState::Live));
}

#[tokio::test]
async fn what_a_race_and_a_broken_upload_leave_is_removed() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/models/repo");
    let (data, upload) = upload(1);
    fixture.upload(&grant, &upload).await.unwrap();
    let before = fixture.state().await;
    // Another form of the same xorb lost, and a shard was stored but not registered.
    let hash = upload.xorbs[0].info.hash();
    let loser = store::XorbKey { hash, digest: store::Digest::of(b"loser") };
    fixture
        .store
        .objects()
        .put(&store::ObjectKey::Xorb(loser), vec![Bytes::from_static(b"loser")])
        .await
        .unwrap();
    fixture.faults.fail_before(4);
    let other = Upload::of(&[&corpus::noise(2, 50_000)], 100, Policy::Auto);
    for n in 1..12 {
        fixture.faults.fail_before(n);
        let _ = fixture.upload(&grant, &other).await.map_err(|_| ());
    }
    fixture.faults.disarm();
    fixture.clock.advance(2 * GRACE_S);
    collect_garbage(&fixture).await;
    fixture.clock.advance(2 * GRACE_S);
    collect_garbage(&fixture).await;
    // The other upload went through in the end and belongs to no repository: files of plain scopes stay.
    assert_eq!(fixture.read(&grant, upload.files[0].hash, None).await.unwrap(), data);
    let after = fixture.state().await;
    assert!(before.1.iter().all(|path| after.1.contains(path)));
    assert_eq!(after.0.xorbs as usize + after.0.shards as usize, after.1.len(), "no object without a row");
}

#[tokio::test]
async fn a_repository_that_cannot_be_read_keeps_all_it_has() {
    let fixture = TestStore::new().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let (_, upload) = upload(1);
    fixture.upload(&grant(), &upload).await.unwrap();
    put(&fixture, &repo, MAIN, "a.bin", &upload).await;
    fixture.database().execute("UPDATE git_objects SET body = X'00' WHERE kind = 2", []).unwrap();
    fixture.clock.advance(3 * GRACE_S);
    let swept = collect_garbage(&fixture).await;
    assert_eq!(swept.skipped.len(), 1, "{swept:?}");
    assert_eq!((swept.git_objects, swept.repo_files, swept.files, swept.condemned), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_commit_whose_file_was_swept_is_refused() {
    let fixture = TestStore::new().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let (_, upload) = upload(1);
    fixture.upload(&grant(), &upload).await.unwrap();
    // The digest is computed already, so that the commit's operations can be counted.
    let digests = [upload.files[0].sha256.unwrap()];
    assert_eq!(
        fixture.store.content().linked_files(&repo.scope().unwrap(), &digests).await.unwrap().len(),
        1
    );
    fixture.clock.advance(GRACE_S + 10);
    // The commit has found the file, and waits; meanwhile the file goes.
    fixture.faults.hold_from(8);
    let commit = tokio::spawn({
        let (store, repo) = (fixture.store.clone(), repo.clone());
        let sha256 = upload.files[0].sha256.unwrap();
        async move {
            let put = Operation::PutLinked { path: "a.bin".into(), sha256, bytes: None };
            let (author, message) = ("ann".into(), "late".into());
            let request =
                Request { ref_name: MAIN.into(), parent: None, author, message, operations: vec![put] };
            store.hub().commit(&repo, &request).await
        }
    });
    while fixture.faults.waiting() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let file = [upload.files[0].hash];
    assert_eq!(testing::drop_repo_files(&fixture.catalog, &file, u64::MAX >> 1).await.unwrap(), 1);
    fixture.faults.release();
    assert_eq!(commit.await.unwrap().unwrap_err().kind(), ErrorKind::Conflict);
}

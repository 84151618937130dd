//! Administration of a store: quotas, restored revisions, an interrupted verification, a catalog that moves to another database.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::{TestStore, Upload, writer};
use store::audit::{self, Actor, AuditQuery};
use store::clock::ManualClock;
use store::content::{Limit, QuotaOf, QuotaRow, Usage};
use store::hub::refs::{HEADS, MAIN};
use store::hub::{Operation, RepoRow, Request};
use store::names::{Kind, RepoName};
use store::upkeep::{
    GRACE_S, GcOptions, GcProgress, GcReport, MigrateProgress, RebuildProgress, VerifyOptions,
    VerifyProgress, migrate,
};
use store::{Catalog, ErrorKind, Grant, Options, Result, Store, testing};
use testkit::corpus;
use xet::compress::Policy;

const TRASH_S: u64 = 60 * 86_400;

fn name() -> RepoName {
    RepoName::new(Kind::Model, "ann", "repo").unwrap()
}

fn grant() -> Grant {
    Grant::write(name().scope().unwrap())
}

fn upload(seed: u64) -> Upload {
    Upload::of(&[&corpus::noise(seed, 100_000)], 100, Policy::Auto)
}

async fn fixture() -> TestStore {
    TestStore::with_options(&Options { trash_s: TRASH_S, ..Options::default() }).await
}

async fn commit(fixture: &TestStore, repo: &RepoRow, branch: &str, operation: Operation) -> Result<()> {
    let request = Request {
        ref_name: branch.into(),
        parent: None,
        author: "ann".into(),
        message: "change".into(),
        operations: vec![operation],
    };
    fixture.store.hub().commit(repo, &request).await.map(|_| ())
}

async fn put(fixture: &TestStore, repo: &RepoRow, branch: &str, path: &str, upload: &Upload) {
    let sha256 = upload.files[0].sha256.unwrap();
    commit(fixture, repo, branch, Operation::PutLinked { path: path.into(), sha256, bytes: None })
        .await
        .unwrap();
}

async fn collect_garbage(fixture: &TestStore) -> GcReport {
    fixture.store.upkeep().collect_garbage(&GcOptions::default(), &GcProgress::default()).await.unwrap()
}

fn quota(of: QuotaOf, logical: Option<u64>, physical: Option<u64>) -> QuotaRow {
    QuotaRow {
        of,
        logical: Limit { soft: None, hard: logical },
        physical: Limit { soft: None, hard: physical },
    }
}

#[tokio::test]
async fn a_hard_quota_refuses_before_bytes_are_taken_in_and_says_how_much() {
    let fixture = fixture().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let of = QuotaOf::Repo(name().scope().unwrap());
    let first = upload(1);
    fixture.upload(&grant(), &first).await.unwrap();
    let before = fixture.state().await;

    // Stored bytes: the xorb is refused by the length it announces.
    fixture.store.hub().set_quota(&quota(of.clone(), None, Some(150_000))).await.unwrap();
    let second = upload(2);
    let xorb = &second.xorbs[0];
    let endless = futures::stream::pending();
    let refused = fixture
        .store
        .content()
        .put_xorb(&grant(), xorb.info.hash(), Some(xorb.bytes.len() as u64), endless)
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    let text = refused.to_string();
    assert!(text.contains("quota of ann/repo: 150000 physical bytes") && text.contains("wanted"), "{text}");
    assert_eq!(fixture.state().await, before);

    // Bytes of files: the shard is refused, and by the namespace's quota just so.
    fixture.store.hub().remove_quota(&of).await.unwrap();
    fixture
        .store
        .hub()
        .set_quota(&quota(QuotaOf::Namespace("ann".into()), Some(150_000), None))
        .await
        .unwrap();
    let refused = fixture.upload(&grant(), &second).await.unwrap_err();
    assert!(refused.to_string().contains("quota of ann: 150000 logical bytes"), "{refused}");
    assert_eq!(fixture.state().await.0.files, 1);
    // Existing content adds nothing; others are not concerned.
    fixture.upload(&grant(), &first).await.unwrap();
    fixture.upload(&writer("bob/models/x"), &second).await.unwrap();
    // A whole file is refused by its length.
    let ann = grant();
    let whole = fixture.store.content().put_file(
        &ann,
        xet::Sha256::new([1; 32]),
        100_000,
        futures::stream::pending(),
    );
    assert_eq!(whole.await.unwrap_err().kind(), ErrorKind::Full);
    // So is a commit that brings bytes; one that deletes is not.
    let bytes = Bytes::from(vec![1; 80_000]);
    let small = Operation::Put { path: "a".into(), content: bytes.clone() };
    assert_eq!(commit(&fixture, &repo, MAIN, small).await.unwrap_err().kind(), ErrorKind::Full);
    fixture.store.hub().set_quota(&quota(QuotaOf::Namespace("ann".into()), Some(1), Some(1))).await.unwrap();
    commit(&fixture, &repo, MAIN, Operation::Delete { path: ".gitattributes".into() }).await.unwrap();

    fixture.store.hub().remove_quota(&QuotaOf::Namespace("ann".into())).await.unwrap();
    fixture.upload(&grant(), &second).await.unwrap();
    assert_eq!(fixture.store.hub().remove_quota(&of).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn above_a_soft_quota_there_is_a_warning_and_nothing_is_refused() {
    let fixture = fixture().await;
    fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let limit = Limit { soft: Some(50_000), hard: None };
    let row = QuotaRow { of: QuotaOf::Namespace("ann".into()), logical: limit, physical: Limit::default() };
    fixture.store.hub().set_quota(&row).await.unwrap();
    let scope = name().scope().unwrap();
    fixture.upload(&grant(), &upload(1)).await.unwrap();
    let fresh = Store::new(
        fixture.store.objects().clone(),
        fixture.catalog.clone(),
        fixture.clock.clone(),
        &Options::default(),
    );
    let warning = fresh.content().quota_warning(&scope).await.unwrap().unwrap();
    assert!(warning.starts_with("ann takes 10") && warning.contains("more than the 50000"), "{warning}");
    assert_eq!(fresh.content().quota_warning(writer("bob/models/x").scope()).await.unwrap(), None);
    let [(_, usage)] = fresh.content().quota_usage().await.unwrap().try_into().unwrap();
    assert!(usage.logical_bytes > 100_000 && usage.physical_bytes > 100_000, "{usage:?}");
}

#[tokio::test]
async fn a_branch_that_was_deleted_comes_back_with_its_files_until_its_time_is_up() {
    let fixture = fixture().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let (first, second) = (upload(1), upload(2));
    for upload in [&first, &second] {
        fixture.upload(&grant(), upload).await.unwrap();
    }
    put(&fixture, &repo, MAIN, "kept.bin", &first).await;
    let at = fixture.store.hub().ref_target(repo.id, MAIN).await.unwrap().unwrap();
    fixture.store.hub().create_ref(repo.id, HEADS, "side", at).await.unwrap();
    put(&fixture, &repo, "refs/heads/side", "lost.bin", &second).await;
    let lost = fixture.store.hub().ref_target(repo.id, "refs/heads/side").await.unwrap().unwrap();
    assert!(fixture.store.hub().reflog(repo.id).await.unwrap().is_empty(), "every commit led on");
    fixture.store.hub().delete_ref(repo.id, HEADS, "side").await.unwrap();
    let [left] = fixture.store.hub().reflog(repo.id).await.unwrap().try_into().unwrap();
    assert_eq!((left.oid, left.name.as_str()), (lost, "refs/heads/side"));
    assert_eq!(left.reclaim_s, left.left_s + TRASH_S);

    fixture.clock.advance(TRASH_S - 86_400);
    assert_eq!(collect_garbage(&fixture).await.files, 0, "it can still be had back");
    let error = fixture.store.hub().undelete_revision(&repo, at, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "no ref has left that one");
    assert_eq!(fixture.store.hub().undelete_revision(&repo, lost, None).await.unwrap(), "refs/heads/side");
    assert_eq!(fixture.store.hub().ref_target(repo.id, "refs/heads/side").await.unwrap(), Some(lost));
    assert_eq!(fixture.read(&grant(), second.files[0].hash, None).await.unwrap(), corpus::noise(2, 100_000));

    // Squashed away, its history is had back under another name.
    put(&fixture, &repo, MAIN, "more.bin", &second).await;
    let old = fixture.store.hub().ref_target(repo.id, MAIN).await.unwrap().unwrap();
    fixture.store.hub().squash(&repo, MAIN, "ann", "one").await.unwrap();
    let name = fixture.store.hub().undelete_revision(&repo, old, Some("before")).await.unwrap();
    assert_eq!(name, "refs/heads/before");
    assert_eq!(fixture.store.hub().history(repo.id, old, 0, 10).await.unwrap().1, 3);
    let bad = fixture.store.hub().undelete_revision(&repo, old, Some("a..b")).await.unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::Invalid);

    // Deleted again and left alone it goes.
    for branch in ["side", "before"] {
        fixture.store.hub().delete_ref(repo.id, HEADS, branch).await.unwrap();
    }
    fixture.clock.advance(TRASH_S + 86_401);
    assert!(collect_garbage(&fixture).await.git_objects > 0);
    assert!(fixture.store.hub().reflog(repo.id).await.unwrap().is_empty());
    assert_eq!(
        fixture.store.hub().undelete_revision(&repo, lost, None).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    fixture.clock.advance(GRACE_S);
    assert_eq!(fixture.read(&grant(), first.files[0].hash, None).await.unwrap(), corpus::noise(1, 100_000));
}

#[tokio::test]
async fn a_deleted_file_is_committed_back_from_the_last_revision_that_had_it() {
    let fixture = fixture().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    let (first, second) = (upload(1), upload(2));
    for upload in [&first, &second] {
        fixture.upload(&grant(), upload).await.unwrap();
        put(&fixture, &repo, MAIN, "a/weights.bin", upload).await;
    }
    let there = fixture.store.hub().undelete_file(&repo, "main", "a/weights.bin", "ann").await.unwrap_err();
    assert_eq!(there.kind(), ErrorKind::Conflict);
    let had = fixture.store.hub().ref_target(repo.id, MAIN).await.unwrap().unwrap();
    commit(&fixture, &repo, MAIN, Operation::DeleteFolder { path: "a".into() }).await.unwrap();
    let (committed, from) =
        fixture.store.hub().undelete_file(&repo, "main", "a/weights.bin", "ann").await.unwrap();
    assert_eq!((from, committed.was_made), (had, true));
    let found = |commit| fixture.store.hub().find_path(repo.id, commit, "a/weights.bin");
    let (is, was) = (found(committed.oid).await.unwrap().unwrap(), found(had).await.unwrap().unwrap());
    assert_eq!(is.oid, was.oid, "the later of the two");

    // Also when the history was squashed after it was deleted.
    commit(&fixture, &repo, MAIN, Operation::Delete { path: "a/weights.bin".into() }).await.unwrap();
    fixture.store.hub().squash(&repo, MAIN, "ann", "one").await.unwrap();
    let (committed, _) =
        fixture.store.hub().undelete_file(&repo, "main", "a/weights.bin", "ann").await.unwrap();
    assert_eq!(found(committed.oid).await.unwrap().unwrap().oid, was.oid);
    let nothing = fixture.store.hub().undelete_file(&repo, "main", "nothing", "ann").await.unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn what_can_be_had_back_and_what_is_taken_survive_a_lost_catalog() {
    let fixture = fixture().await;
    let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    fixture.upload(&grant(), &upload(1)).await.unwrap();
    put(&fixture, &repo, MAIN, "a.bin", &upload(1)).await;
    fixture.store.hub().squash(&repo, MAIN, "ann", "one").await.unwrap();
    let left = fixture.store.hub().reflog(repo.id).await.unwrap();
    assert_eq!(left.len(), 1);
    let of = QuotaOf::Namespace("ann".into());
    let usage = testing::usage(&fixture.catalog, &of).await.unwrap();
    assert_ne!(usage, Usage::default());

    let folder = tempfile::tempdir().unwrap();
    let catalog = Arc::new(Catalog::open_file(&folder.path().join("new.db")).await.unwrap());
    let clock = Arc::new(ManualClock::at(common::NOW_S));
    let store = Store::new(fixture.store.objects().clone(), catalog, clock, &Options::default());
    store.upkeep().rebuild(&RebuildProgress::default()).await.unwrap();
    assert_eq!(store.hub().reflog(repo.id).await.unwrap(), left);
    assert_eq!(store.hub().usage(&of).await.unwrap(), usage);
    let old = left[0].oid;
    store.hub().undelete_revision(&repo, old, Some("old")).await.unwrap();
    assert_eq!(store.hub().ref_target(repo.id, "refs/heads/old").await.unwrap(), Some(old));
}

#[tokio::test]
async fn a_verification_that_was_cut_goes_on_where_it_was_and_never_past_damage() {
    let fixture = fixture().await;
    fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
    for seed in 0..4 {
        fixture.upload(&grant(), &upload(seed)).await.unwrap();
    }
    let run = |resume| {
        let (store, options) = (fixture.store.clone(), VerifyOptions { resume, ..VerifyOptions::default() });
        async move { store.upkeep().verify(&options, &VerifyProgress::default()).await }
    };
    let whole = run(false).await.unwrap().objects;
    assert_eq!(run(true).await.unwrap().objects, whole, "one that ended leaves no place");
    // Cut later and later, until what is left is done.
    let mut calls = 1..;
    let mut cut_until_done = async || loop {
        fixture.faults.fail_before(calls.next().unwrap());
        let cut = run(true).await;
        fixture.faults.disarm();
        match cut {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
            Ok(done) => break done,
        }
    };
    let rest = cut_until_done().await.objects;
    assert!(rest < whole, "the last part alone: {rest} of {whole}");
    assert_eq!(run(true).await.unwrap().objects, whole, "and then from the beginning");

    let key = testing::xorbs(&fixture.catalog, &[upload(3).xorbs[0].info.hash()]).await.unwrap()[0].key;
    fixture.store.objects().delete(&store::ObjectKey::Xorb(key)).await.unwrap();
    assert_eq!(cut_until_done().await.damages.len(), 1, "a resumed run reports it");
}

/// Every row of every table, as text, sorted.
fn sqlite_rows(query: &str, database: &rusqlite::Connection) -> Vec<String> {
    let mut query = database.prepare(query).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    let mut rows: Vec<String> = rows.collect::<rusqlite::Result<_>>().unwrap();
    rows.sort();
    rows
}

/// The same of the other database.
async fn postgres_rows(query: &str, database: &sqlx::PgPool) -> Vec<String> {
    let query = sqlx::AssertSqlSafe(query.to_owned());
    let mut rows: Vec<String> = sqlx::query_scalar(query).fetch_all(database).await.unwrap();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_moves_to_postgres_row_by_row() {
    let Some(server) = testkit::postgres::Postgres::start() else { return };
    let fixture = fixture().await;
    let work = async {
        let repo = fixture.store.hub().create_repo(&name(), true, "ann").await.unwrap();
        fixture.upload(&grant(), &upload(1)).await.unwrap();
        put(&fixture, &repo, MAIN, "a.bin", &upload(1)).await;
        fixture.store.hub().squash(&repo, MAIN, "ann", "one").await.unwrap();
        fixture.store.hub().add_namespace("team", true).await.unwrap();
        fixture.store.hub().set_member("team", "bob", true).await.unwrap();
        fixture
            .store
            .hub()
            .open_pull(&repo, repo_head(&fixture, &repo).await, "bob", "a title", "more")
            .await
            .unwrap();
        fixture
            .store
            .hub()
            .set_quota(&quota(QuotaOf::Namespace("ann".into()), Some(1 << 40), None))
            .await
            .unwrap();
        fixture.catalog.agree("key", &[0, 1, 255]).await.unwrap();
    };
    audit::by(Actor::named("ann"), work).await;
    let file = fixture.database_file();
    let (from, to) = (format!("sqlite://{}", file.display()), server.fresh_database());
    let progress = MigrateProgress::default();
    let busy = migrate(&from, &to, false, &progress).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Conflict, "{busy}");
    assert!(busy.to_string().contains("stop the server"), "{busy}");

    // Nobody has it open any more.
    let copy = tempfile::tempdir().unwrap();
    let database = fixture.database();
    let alone = copy.path().join("catalog.db");
    database.execute("VACUUM INTO ?1", [alone.to_str().unwrap()]).unwrap();
    let from = format!("sqlite://{}", alone.display());
    let dry = migrate(&from, &to, true, &progress).await.unwrap();
    let done = migrate(&from, &to, false, &progress).await.unwrap();
    assert_eq!(dry, done);
    assert!(done.tables.iter().any(|(name, rows)| name == "audit" && *rows > 5), "{done:?}");

    let moved = sqlx::PgPool::connect(&to).await.unwrap();
    let columns = "SELECT m.name || '|' || p.name || '|' || p.type FROM sqlite_master m JOIN \
        pragma_table_info(m.name) p WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE '\\_sqlx%' \
        ESCAPE '\\' ORDER BY 1";
    let mut tables: std::collections::BTreeMap<String, (Vec<String>, Vec<String>)> = Default::default();
    for line in sqlite_rows(columns, &database) {
        let [table, column, holds] = line.split('|').collect::<Vec<_>>().try_into().unwrap();
        let (lite, post) = tables.entry(table.to_owned()).or_default();
        let text = |shown: String| format!("CASE WHEN {column} IS NULL THEN '-' ELSE {shown} END");
        match holds {
            "BLOB" => {
                lite.push(text(format!("LOWER(HEX({column}))")));
                post.push(text(format!("ENCODE({column}, 'hex')")));
            }
            _ => [lite, post].into_iter().for_each(|list| list.push(text(format!("CAST({column} AS TEXT)")))),
        }
    }
    assert!(tables.len() >= 20, "{tables:?}");
    for (table, (lite, post)) in tables {
        let query = |columns: &[String]| format!("SELECT {} FROM {table}", columns.join(" || ' ' || "));
        let expected = sqlite_rows(&query(&lite), &database);
        assert_eq!(postgres_rows(&query(&post), &moved).await, expected, "{table}");
    }

    // It works on: numbers go on where they were, and what was there is found.
    let catalog = store::Catalog::open(&to).await.unwrap();
    let store =
        Store::new(fixture.store.objects().clone(), catalog, fixture.clock.clone(), &Options::default());
    let found = testing::files(store.catalog(), grant().scope(), &[upload(1).files[0].hash]).await.unwrap();
    assert_eq!(found[0].recipe.file_bytes(), 100_000);
    assert!(store.hub().repo(&name()).await.unwrap().unwrap().private);
    let audit_events = || async {
        let query = AuditQuery { limit: 100, ..AuditQuery::default() };
        store.hub().audit_events(&query).await.unwrap()
    };
    let before = audit_events().await;
    store.hub().add_namespace("eve", false).await.unwrap();
    let after = audit_events().await;
    assert_eq!((after.len(), &after[1..]), (before.len() + 1, before.as_slice()));
    let again = migrate(&from, &to, false, &progress).await.unwrap_err();
    assert!(again.to_string().contains("no server has used"), "{again}");
}

async fn repo_head(fixture: &TestStore, repo: &RepoRow) -> store::ids::Oid {
    fixture.store.hub().ref_target(repo.id, MAIN).await.unwrap().unwrap()
}

/// Two servers whose clocks differ: by less than the grace nothing is noticed, and by more the late one is refused and
/// loses nothing that was acknowledged.
#[tokio::test]
async fn clocks_of_two_servers_may_differ() {
    for (skew_s, is_noticed) in [(20 * 86_400, false), (40 * 86_400, true)] {
        let fixture = fixture().await;
        let ahead = Arc::new(ManualClock::at(common::NOW_S + skew_s));
        let options = Options { trash_s: TRASH_S, ..Options::default() };
        let other =
            Store::new(fixture.store.objects().clone(), fixture.catalog.clone(), ahead.clone(), &options);
        let repo = fixture.store.hub().create_repo(&name(), false, "ann").await.unwrap();
        let (first, second) = (upload(1), upload(2));
        fixture.upload(&grant(), &first).await.unwrap();
        put(&fixture, &repo, MAIN, "first.bin", &first).await;
        fixture.upload(&grant(), &second).await.unwrap();
        // The other sweeps before the commit, and once more when its grace is over by its own clock.
        let collect_garbage = async || {
            other.upkeep().collect_garbage(&GcOptions::default(), &GcProgress::default()).await.unwrap()
        };
        let swept = collect_garbage().await;
        assert_eq!(swept.files, u64::from(is_noticed), "{skew_s}");
        let sha256 = second.files[0].sha256.unwrap();
        let second_put = || Operation::PutLinked { path: "second.bin".into(), sha256, bytes: None };
        if is_noticed {
            assert!(commit(&fixture, &repo, MAIN, second_put()).await.is_err(), "it is no longer there");
            // Told to send it again the client does, and then it stays.
            fixture.upload(&grant(), &second).await.unwrap();
        }
        commit(&fixture, &repo, MAIN, second_put()).await.unwrap();
        fixture.clock.advance(60);
        ahead.advance(60);
        collect_garbage().await;
        fixture.store.upkeep().collect_garbage(&GcOptions::default(), &GcProgress::default()).await.unwrap();
        for (seed, upload) in [(1, &first), (2, &second)] {
            let found = fixture.read(&grant(), upload.files[0].hash, None).await.unwrap();
            assert_eq!(found, corpus::noise(seed, 100_000), "{skew_s}");
        }
    }
}

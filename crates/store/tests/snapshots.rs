//! Records: what the catalog alone would know can be had back from objects.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::sync::Arc;

use common::TestStore;
use futures::StreamExt as _;
use store::clock::ManualClock;
use store::content::{Limit, QuotaRow};
use store::hub::refs::{HEADS, MAIN, TAGS};
use store::hub::{MemberRow, PullQuery, PullRow, PullState, RefRow, RepoRow};
use store::ids::RepoId;
use store::names::RepoName;
use store::objects::Folder;
use store::upkeep::RebuildProgress;
use store::{Catalog, Options, Store, testing};

fn name(text: &str) -> RepoName {
    RepoName::parse(text).unwrap()
}

async fn repo(fixture: &TestStore, text: &str) -> RepoRow {
    fixture.store.hub().create_repo(&name(text), false, "ann").await.unwrap()
}

#[tokio::test]
async fn state_that_no_bundle_has_is_persisted_and_restored() {
    let fixture = TestStore::new().await;
    let store = &fixture.store;
    let one = repo(&fixture, "ann/one").await;
    let main = store.hub().ref_target(one.id, MAIN).await.unwrap().unwrap();
    store.hub().create_ref(one.id, TAGS, "v1", main).await.unwrap();
    store.hub().create_ref(one.id, HEADS, "feat/x", main).await.unwrap();
    store.hub().create_ref(one.id, HEADS, "gone", main).await.unwrap();
    store.hub().delete_ref(one.id, HEADS, "gone").await.unwrap();
    let pull = store.hub().open_pull(&one, main, "bob", "title", "why").await.unwrap();
    store.hub().set_pull(one.id, pull.number, PullState::Closed).await.unwrap();
    store.hub().set_private(&one, true).await.unwrap();
    let one = store.hub().repo(&one.name).await.unwrap().unwrap();
    store.hub().rename_repo(&one, &name("team/one")).await.unwrap();
    let two = repo(&fixture, "ann/two").await;
    store.hub().trash_repo(&two, 1000).await.unwrap();
    store.hub().add_namespace("team", true).await.unwrap();
    store.hub().add_namespace("cleo", false).await.unwrap();
    store.hub().set_member("team", "cleo", true).await.unwrap();
    store.hub().set_member("team", "dan", false).await.unwrap();
    store.hub().remove_member("team", "dan").await.unwrap();
    for user in ["eve", "fay"] {
        store.hub().add_namespace(user, false).await.unwrap();
    }
    store.hub().disable_user("eve").await.unwrap();
    store.hub().delete_namespace("fay", false).await.unwrap();
    let limit = |soft, hard| Limit { soft, hard };
    for (of, logical, physical) in [
        ("team", limit(Some(1), Some(u64::MAX >> 1)), limit(None, None)),
        ("datasets/team/later", limit(None, Some(7)), limit(Some(0), None)),
        ("ann", limit(None, None), limit(None, Some(9))),
    ] {
        store.hub().set_quota(&QuotaRow { of: of.parse().unwrap(), logical, physical }).await.unwrap();
    }
    store.hub().remove_quota(&"ann".parse().unwrap()).await.unwrap();

    let before = state(store, [one.id, two.id]).await;
    assert_eq!(before.0[0].as_ref().unwrap().name, name("team/one"));
    assert_eq!((before.1[0].len(), before.2.1, before.3.len(), before.4.len()), (4, 1, 1, 2));

    // Two that changed their names with each other.
    for (from, to) in [("ann/x", "ann/z"), ("ann/y", "ann/x"), ("ann/z", "ann/y")] {
        let row = match store.hub().repo(&name(from)).await.unwrap() {
            Some(row) => row,
            None => repo(&fixture, from).await,
        };
        store.hub().rename_repo(&row, &name(to)).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let catalog = Arc::new(Catalog::open_file(&folder.path().join("new.db")).await.unwrap());
    let clock = Arc::new(ManualClock::at(common::NOW_S));
    let again = Store::new(store.objects().clone(), catalog, clock, &Options::default());
    let rebuilt = again.upkeep().rebuild(&RebuildProgress::default()).await.unwrap();
    assert_eq!((rebuilt.repos, rebuilt.skipped), (4, Vec::new()));
    assert_eq!(state(&again, [one.id, two.id]).await, before);
    let people = testing::namespaces(again.catalog()).await.unwrap();
    assert_eq!(people, testing::namespaces(store.catalog()).await.unwrap());
    let states: Vec<_> = people.iter().map(|row| (row.name.as_str(), row.state.as_str())).collect();
    let expected = [("cleo", "active"), ("eve", "disabled"), ("fay", "deleted"), ("team", "active")];
    assert_eq!(states, expected, "a disabled user stays disabled, a deleted name reserved");
    for swapped in ["ann/x", "ann/y"] {
        let id = |row: Option<RepoRow>| row.unwrap().id;
        assert_eq!(
            id(again.hub().repo(&name(swapped)).await.unwrap()),
            id(store.hub().repo(&name(swapped)).await.unwrap())
        );
    }
    // The next snapshot counts, whichever catalog wrote it.
    let one = again.hub().repo(&name("team/one")).await.unwrap().unwrap();
    again.hub().set_private(&one, false).await.unwrap();
    let snapshots = store.objects().list(Folder::Repos).count().await;
    assert_eq!(snapshots, 4, "one for each: older ones are removed");
    again.hub().delete_repo(&again.hub().trashed_repo(two.id).await.unwrap()).await.unwrap();
    assert_eq!(store.objects().list(Folder::Repos).count().await, 3);
}

type State = ([Option<RepoRow>; 2], [Vec<RefRow>; 2], (Vec<PullRow>, u64), Vec<MemberRow>, Vec<QuotaRow>);

async fn state(store: &Store, [one, two]: [RepoId; 2]) -> State {
    let hub = store.hub();
    let repos = [hub.repo_of(one).await.unwrap(), hub.repo_of(two).await.unwrap()];
    let refs = [hub.refs(one, "").await.unwrap(), hub.refs(two, "").await.unwrap()];
    let quotas = store.content().quota_usage().await.unwrap().into_iter().map(|(quota, _)| quota).collect();
    (
        repos,
        refs,
        hub.list_pulls(one, &PullQuery { limit: 9, ..PullQuery::default() }).await.unwrap(),
        hub.members("team").await.unwrap(),
        quotas,
    )
}

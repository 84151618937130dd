//! Records: what the catalog alone would know can be had back from objects.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod house;

use futures::StreamExt as _;
use house::House;
use store::catalog::repo::{RefChange, RepoRow};
use store::objects::Folder;
use store::repo::refs::{HEADS, MAIN, TAGS};
use store::repo::{PullState, RepoName};

fn name(text: &str) -> RepoName {
    RepoName::parse(text).unwrap()
}

async fn repo(house: &House, text: &str) -> RepoRow {
    house.store.create_repo(&name(text), false, "ann").await.unwrap()
}

#[tokio::test]
async fn what_no_bundle_tells_is_written_down_and_found_again() {
    let house = House::new().await;
    let store = &house.store;
    let one = repo(&house, "ann/one").await;
    let main = store.ref_target(one.id, MAIN).await.unwrap().unwrap();
    store.create_ref(one.id, TAGS, "v1", main).await.unwrap();
    store.create_ref(one.id, HEADS, "feat/x", main).await.unwrap();
    store.create_ref(one.id, HEADS, "gone", main).await.unwrap();
    store.delete_ref(one.id, HEADS, "gone").await.unwrap();
    let pull = store.open_pull(&one, main, "bob", "title", "why").await.unwrap();
    store.set_pull(one.id, pull.number, PullState::Closed).await.unwrap();
    store.set_private(&one, true).await.unwrap();
    let one = store.repo(&one.name).await.unwrap().unwrap();
    store.rename_repo(&one, &name("team/one")).await.unwrap();
    let two = repo(&house, "ann/two").await;
    store.trash_repo(&two, 1000).await.unwrap();
    store.add_namespace("team", true).await.unwrap();
    store.add_namespace("cleo", false).await.unwrap();
    store.set_member("team", "cleo", true).await.unwrap();
    store.set_member("team", "dan", false).await.unwrap();
    store.remove_member("team", "dan").await.unwrap();

    let state = || async {
        let hub = store.hub();
        let repos = [hub.repo_of(one.id).await.unwrap(), hub.repo_of(two.id).await.unwrap()];
        let refs = [hub.refs(one.id, "").await.unwrap(), hub.refs(two.id, "").await.unwrap()];
        let pulls = hub.list_pulls(one.id, 0, 9).await.unwrap();
        (repos, refs, pulls, hub.members("team").await.unwrap())
    };
    let before = state().await;
    assert_eq!(before.0[0].as_ref().unwrap().name, name("team/one"));
    assert_eq!((before.1[0].len(), before.2.1, before.3.len()), (4, 1, 1));

    // As a catalog is that was made again from bundles: the names they tell, no tags, nobody.
    let hub = store.hub();
    let [Some(first), Some(second)] = before.0.clone() else { panic!("both are there") };
    assert!(
        hub.change_repo(&first, &RepoRow { name: name("ann/one"), private: false, ..first.clone() })
            .await
            .unwrap()
    );
    assert!(hub.change_repo(&second, &RepoRow { reclaim_s: None, ..second.clone() }).await.unwrap());
    for row in &before.1[0][1..] {
        let change = RefChange { name: row.name.clone(), from: Some(row.target), to: None };
        assert!(hub.move_refs(one.id, &[change], first.updated_s).await.unwrap());
    }
    hub.set_pull(one.id, pull.number, PullState::Open).await.unwrap();
    hub.remove_members("team", &["cleo".to_owned()]).await.unwrap();
    assert_ne!(state().await, before);
    assert_eq!(store.apply_records().await.unwrap(), 2);
    assert_eq!(state().await, before);
    let records = store.objects().list(Folder::Repos).count().await;
    assert_eq!(records, 2, "one for each: older ones are removed");

    store.delete_repo(&store.trashed_repo(two.id).await.unwrap()).await.unwrap();
    assert_eq!(store.objects().list(Folder::Repos).count().await, 1);
}

//! Bundles of git objects: a wrong byte in one is found by a deep verification, wherever it is.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::TestStore;
use object_store::memory::InMemory;
use store::hub::{Operation, Request};
use store::names::{Kind, RepoName};
use store::upkeep::{Repair, RepairOutcome, Verified, VerifyOptions, VerifyProgress};
use store::{ObjectKey, Objects};
use testkit::corpus;

async fn verify(fixture: &TestStore, deep: bool) -> Verified {
    let options = VerifyOptions { deep, ..VerifyOptions::default() };
    fixture.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_byte_anywhere_in_a_bundle_is_found() {
    let fixture = TestStore::new().await;
    let name = RepoName::new(Kind::Model, "ann", "repo").unwrap();
    let repo = fixture.store.hub().create_repo(&name, false, "ann").await.unwrap();
    let put =
        |path: &str, content: Vec<u8>| Operation::Put { path: path.into(), content: Bytes::from(content) };
    let request = Request {
        ref_name: "refs/heads/main".into(),
        parent: None,
        author: "ann".into(),
        message: "change".into(),
        // Two contents for one path: the bundle has an object that no tree names.
        operations: vec![
            put("a/small.txt", b"some words".to_vec()),
            put("large.txt", corpus::noise(1, 50_000)),
            put("twice.txt", b"first".to_vec()),
            put("twice.txt", b"second".to_vec()),
        ],
    };
    let commit = fixture.store.hub().commit(&repo, &request).await.unwrap().oid;
    assert_eq!(verify(&fixture, true).await.damages.len(), 0);
    let key = ObjectKey::Bundle { repo: repo.id, commit };
    let whole = fixture.store.objects().whole(&key).await.unwrap();
    let origin = b"ann/repo\nrefs/heads/main".len();
    let mut missed = Vec::new();
    let bodies = [b"some words".as_slice(), b"small.txt", b"large.txt", b"twice.txt", b"second", b"change"];
    let found = bodies.iter().map(|body| whole.windows(body.len()).position(|at| at == *body).unwrap());
    for at in found.chain([12 + origin + 40_000, whole.len() - 1]) {
        let mut wrong = whole.to_vec();
        wrong[at] ^= 1;
        fixture.store.objects().put(&key, vec![wrong.into()]).await.unwrap();
        let damages = verify(&fixture, true).await.damages;
        if damages.len() != 1 || damages[0].what != key.to_string() {
            missed.push(at);
        }
    }
    assert!(missed.is_empty(), "{missed:?} of {}", whole.len());

    // A second store with the same wrong byte repairs nothing; one without does.
    for is_sound in [false, true] {
        let other = Objects::new(Arc::new(InMemory::new()));
        let mut body = whole.to_vec();
        body[40_000] ^= u8::from(!is_sound);
        other.put(&key, vec![body.into()]).await.unwrap();
        let repair = Some(Repair::From(other));
        let options = VerifyOptions { deep: true, repair, ..VerifyOptions::default() };
        let verified = fixture.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
        let repaired = if is_sound { RepairOutcome::Restored } else { RepairOutcome::No };
        assert_eq!(verified.damages[0].repaired, repaired);
    }
    assert_eq!(verify(&fixture, true).await.damages.len(), 0);
}

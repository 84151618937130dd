//! Claimed digests: none counts before it was computed from the bytes; what is damaged is sent again and repairs.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{TestStore, writer};
use futures::stream;
use store::audit::AuditQuery;
use store::hub::{Operation, Request};
use store::names::{Kind, RepoName};
use store::upkeep::{Repair, RepairOutcome, Verified, VerifyOptions, VerifyProgress};
use store::{DedupOptions, DedupPolicy, ErrorKind, Grant, ObjectKey, Scope, testing};
use testkit::corpus;
use testkit::upload::{Upload, shard};
use xet::Sha256;
use xet::compress::Policy;

fn scope(name: &str) -> Scope {
    name.parse().unwrap()
}

fn sha256(data: &[u8]) -> Sha256 {
    Sha256::new(testkit::sha256(data))
}

/// Registers `data` under a digest that may be false.
async fn register_as(fixture: &TestStore, grant: &Grant, data: &[u8], claim: Sha256) -> Upload {
    let mut upload = Upload::of(&[data], 100, Policy::Auto);
    upload.files[0].sha256 = Some(claim);
    fixture.upload(grant, &upload).await.unwrap();
    upload
}

async fn verify(fixture: &TestStore, deep: bool, repair: Option<Repair>) -> Verified {
    let options = VerifyOptions { deep, repair, ..VerifyOptions::default() };
    fixture.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_digest_counts_for_nothing_and_the_true_file_takes_its_place() {
    let fixture = TestStore::new().await;
    let repo = fixture
        .store
        .hub()
        .create_repo(&RepoName::new(Kind::Model, "ann", "m").unwrap(), true, "ann")
        .await
        .unwrap();
    let grant = writer("ann/m");
    let grant =
        if repo.scope().unwrap() == *grant.scope() { grant } else { Grant::write(repo.scope().unwrap()) };
    let (good, evil) = (corpus::noise(1, 300_000), corpus::noise(2, 300_000));
    register_as(&fixture, &grant, &evil, sha256(&good)).await;
    let put = Operation::PutLinked { path: "f.bin".into(), sha256: sha256(&good), bytes: Some(300_000) };
    let request = Request {
        ref_name: "refs/heads/main".into(),
        parent: None,
        author: "ann".into(),
        message: "a file".into(),
        operations: vec![put],
    };
    let refused = fixture.store.hub().commit(&repo, &request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(
        refused.to_string().contains("f.bin") && refused.to_string().contains("another digest"),
        "{refused}"
    );
    assert_eq!(fixture.store.content().linked_files(grant.scope(), &[sha256(&good)]).await.unwrap(), []);
    let audit_events =
        testing::audit_events(&fixture.catalog, &AuditQuery { limit: 100, ..AuditQuery::default() })
            .await
            .unwrap();
    assert_eq!(audit_events.iter().filter(|event| event.event.action == "digest.refuse").count(), 1);

    let upload = register_as(&fixture, &grant, &good, sha256(&good)).await;
    fixture.store.hub().commit(&repo, &request).await.unwrap();
    let found = fixture.store.content().linked_files(grant.scope(), &[sha256(&good)]).await.unwrap();
    assert_eq!(found[0].file, upload.files[0].hash);
    assert!(verify(&fixture, true, None).await.damages.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_all_sizes_and_cuts_get_the_digest_of_their_bytes() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/m");
    let mut data: Vec<Vec<u8>> =
        (0..300).map(|n| corpus::noise(n, 100 + 977 * n as usize % 60_000)).collect();
    data.extend([
        Vec::new(),
        corpus::text(3, 5_000_000),
        corpus::noise(900, 9_000_000),
        corpus::text(4, 3_900_000),
    ]);
    // One that is in the others.
    data.push(data[10..40].concat());
    for xorb_chunks in [3, 1000] {
        let files: Vec<_> = data.iter().map(Vec::as_slice).collect();
        let grant = Grant::write(scope(&format!("ann/of-{xorb_chunks}")));
        fixture.upload(&grant, &Upload::of(&files, xorb_chunks, Policy::Auto)).await.unwrap();
        let digests: Vec<_> = data.iter().map(|data| sha256(data)).collect();
        assert_eq!(testing::linked_files(&fixture.catalog, grant.scope(), &digests).await.unwrap(), []);
        let requests = (0..8).map(|_| {
            let (store, scope, digests) = (fixture.store.clone(), grant.scope().clone(), digests.clone());
            tokio::spawn(async move { store.content().linked_files(&scope, &digests).await.unwrap().len() })
        });
        for found in requests.collect::<Vec<_>>() {
            assert_eq!(found.await.unwrap(), data.len());
        }
        assert_eq!(
            fixture.store.content().stored_files(grant.scope(), &digests, None).await.unwrap().len(),
            data.len()
        );
    }
    assert!(verify(&fixture, true, None).await.damages.is_empty());
    assert_eq!(fixture.store.content().linked_files(grant.scope(), &[sha256(b"")]).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_computed_after_the_registration_where_that_is_wanted() {
    let fixture = TestStore::new().await;
    fixture.store.content().compute_digests_early();
    let (grant, data) = (writer("ann/m"), corpus::noise(1, 6_000_000));
    fixture.upload(&grant, &Upload::of(&[&data], 100, Policy::Auto)).await.unwrap();
    for _ in 0..500 {
        if !testing::linked_files(&fixture.catalog, grant.scope(), &[sha256(&data)]).await.unwrap().is_empty()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing was computed");
}

/// What the server cut itself needs no second look.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_arrived_whole_has_its_digest_at_once() {
    let fixture = TestStore::new().await;
    let (grant, data) = (writer("ann/m"), corpus::noise(1, 600_000));
    let body = stream::iter([Ok(Bytes::from(data.clone()))]);
    fixture.store.content().put_file(&grant, sha256(&data), data.len() as u64, body).await.unwrap();
    assert_eq!(
        testing::linked_files(&fixture.catalog, grant.scope(), &[sha256(&data)]).await.unwrap().len(),
        1
    );
}

/// How long a commit takes must not show what others have.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_computed_counts_where_the_dedup_policy_lets_it() {
    for (policy, namespace, elsewhere) in [
        (DedupPolicy::Global, true, true),
        (DedupPolicy::Namespace, true, false),
        (DedupPolicy::Repo, false, false),
        (DedupPolicy::Off, false, false),
    ] {
        let fixture = TestStore::with_dedup(DedupOptions { policy, ..DedupOptions::default() }).await;
        let data = corpus::noise(1, 200_000);
        let upload = Upload::of(&[&data], 100, Policy::Auto);
        for name in ["ann/first", "ann/second", "bob/third"] {
            fixture.upload(&writer(name), &upload).await.unwrap();
        }
        fixture.store.content().linked_files(&scope("ann/first"), &[sha256(&data)]).await.unwrap();
        // With the bytes gone only what is known can be used.
        let row = testing::xorbs(&fixture.catalog, &[upload.xorbs[0].info.hash()]).await.unwrap().remove(0);
        fixture.store.objects().delete(&ObjectKey::Xorb(row.key)).await.unwrap();
        for (name, is_known) in [("ann/second", namespace), ("bob/third", elsewhere)] {
            let found = fixture.store.content().linked_files(&scope(name), &[sha256(&data)]).await.unwrap();
            assert_eq!(found.len(), usize::from(is_known), "{policy:?} {name}");
        }
    }
}

/// A file of damaged xorbs is wanted again, from any client and however it is cut into xorbs.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_in_other_xorbs_heals_a_damaged_file() {
    for whole_file in [true, false] {
        let fixture = TestStore::new().await;
        let (one, two) = (writer("ann/one"), writer("bob/two"));
        let data = corpus::noise(1, 2_000_000);
        let upload = Upload::of(&[&data], 7, Policy::Auto);
        fixture.upload(&one, &upload).await.unwrap();
        let digests = [sha256(&data)];
        assert_eq!(fixture.store.content().stored_files(one.scope(), &digests, None).await.unwrap().len(), 1);
        let row = testing::xorbs(&fixture.catalog, &[upload.xorbs[1].info.hash()]).await.unwrap().remove(0);
        let key = ObjectKey::Xorb(row.key);
        let mut bytes = fixture.store.objects().whole(&key).await.unwrap().to_vec();
        bytes[1000] ^= 4;
        fixture.store.objects().put(&key, vec![bytes.into()]).await.unwrap();
        let found = verify(&fixture, true, Some(Repair::Mark)).await;
        assert_eq!(
            found.damages.iter().map(|damage| damage.repaired).collect::<Vec<_>>(),
            [RepairOutcome::Marked]
        );
        assert_eq!(fixture.store.content().stored_files(one.scope(), &digests, None).await.unwrap(), []);
        assert_eq!(fixture.store.content().linked_files(one.scope(), &digests).await.unwrap().len(), 1);
        let body = stream::iter([Ok(Bytes::from(data.clone()))]);
        match whole_file {
            true => {
                _ = fixture
                    .store
                    .content()
                    .put_file(&two, digests[0], data.len() as u64, body)
                    .await
                    .unwrap();
            }
            false => {
                let again = Upload::of(&[&data], 1000, Policy::Auto);
                for xorb in &again.xorbs {
                    fixture.put_xorb(&two, xorb.info.hash(), &xorb.bytes).await.unwrap();
                }
                fixture.register(&two, &shard(&again.files, &again.entries())).await.unwrap();
            }
        }
        for grant in [&one, &two] {
            assert_eq!(
                fixture.store.content().stored_files(grant.scope(), &digests, None).await.unwrap().len(),
                1
            );
            assert!(fixture.read(grant, upload.files[0].hash, None).await.unwrap() == data);
        }
        let clean = verify(&fixture, true, None).await;
        assert!(clean.damages.is_empty(), "{:?}", clean.damages);
    }
}

/// Deep verification computes what nothing has relied on yet, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_deep_verification_computes_claims() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/m");
    let data = corpus::noise(1, 300_000);
    register_as(&fixture, &grant, &data, sha256(b"something else")).await;
    register_as(&fixture, &writer("ann/true"), &data, sha256(&data)).await;
    assert!(verify(&fixture, false, None).await.damages.is_empty());
    let found = verify(&fixture, true, None).await;
    assert_eq!(found.damages.len(), 1, "{:?}", found.damages);
    assert_eq!(
        (found.damages[0].repaired, found.damages[0].repos.clone()),
        (RepairOutcome::Removed, vec!["ann/m".into()])
    );
    assert!(verify(&fixture, true, None).await.damages.is_empty());
    let known = testing::linked_files(&fixture.catalog, &scope("ann/true"), &[sha256(&data)]).await.unwrap();
    assert_eq!(known.len(), 1);
}

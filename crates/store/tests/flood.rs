//! What a hostile writer can store beyond what is counted, and how long a refusal can be made to take.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use common::{TestStore, Upload, pieces, writer};
use futures::future::join_all;
use store::ErrorKind;
use store::content::{Limit, QuotaOf, QuotaRow};
use store::hub::{Operation, Request};
use store::names::{Kind, RepoName};
use testkit::corpus;
use testkit::upload::shard;
use xet::compress::{Policy, Scheme};
use xet::shard::{FileEntry, Term};
use xet::{FileHash, RangeHash, XorbHash};

async fn set_quota(fixture: &TestStore, physical_bytes: u64) {
    let of = QuotaOf::Namespace("ann".into());
    let physical = Limit { soft: None, hard: Some(physical_bytes) };
    fixture.store.hub().set_quota(&QuotaRow { of, logical: Limit::default(), physical }).await.unwrap();
}

/// A sender chooses how each chunk is compressed, so one hash has many objects. All but the first would be stored and not counted.
#[tokio::test(flavor = "multi_thread")]
async fn of_one_xorb_that_is_sent_in_many_forms_at_once_one_object_is_stored() {
    let fixture = TestStore::new().await;
    let data: Vec<u8> = (0..300_000_u32).flat_map(|n| (n / 100).to_le_bytes()).collect();
    let schemes = [Scheme::Raw, Scheme::Lz4, Scheme::GroupedLz4];
    let forms = schemes.map(|scheme| Upload::of(&[&data], 100, Policy::Always(scheme)));
    let hash = forms[0].xorbs[0].info.hash();
    let lengths: HashSet<_> = forms.iter().map(|form| form.xorbs[0].bytes.len()).collect();
    assert_eq!(lengths.len(), forms.len(), "the forms differ");
    for round in ["ann/a", "ann/b"] {
        let grant = writer(round);
        let sent = forms.iter().cycle().take(12);
        let sent = sent.map(|form| fixture.put_xorb(&grant, hash, &form.xorbs[0].bytes));
        for stored in join_all(sent).await {
            stored.unwrap();
        }
        // What was written for the sake of time alone is deleted after the answer.
        for _ in 0..100 {
            if fixture.state().await.1.len() == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(fixture.state().await.1.len(), 1, "{round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_unknown_length_are_held_against_the_quota_when_they_are_here() {
    let fixture = TestStore::new().await;
    set_quota(&fixture, 500_000).await;
    let uploads: Vec<_> =
        (0..10).map(|seed| Upload::of(&[&corpus::noise(seed, 200_000)], 100, Policy::Auto)).collect();
    let grant = writer("ann/a");
    let sent = uploads.iter().map(|upload| {
        let xorb = &upload.xorbs[0];
        fixture.store.content().put_xorb(&grant, xorb.info.hash(), None, pieces(&xorb.bytes, 10_000))
    });
    let mut taken = 0;
    for stored in join_all(sent).await {
        match stored {
            Ok(_) => taken += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
        }
    }
    assert!((1..=2).contains(&taken), "{taken} of 200,000 bytes each fit into 500,000");
    assert_eq!(fixture.state().await.1.len(), taken);
}

/// A term may say anything of its chunks; a refusal that waits for as long as their proof would take must not wait for minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_term_over_impossible_chunks_is_refused_soon() {
    let fixture = TestStore::new().await;
    let stored = Upload::of(&[&corpus::noise(1, 200_000)], 100, Policy::Auto);
    fixture.upload(&writer("ann/secret"), &stored).await.unwrap();
    for xorb in [stored.xorbs[0].info.hash(), XorbHash::new([0xee; 32])] {
        let term = Term { xorb, flags: 0, raw_bytes: 77, chunks: 0..u32::MAX };
        let file = FileEntry {
            hash: FileHash::new([0xab; 32]),
            terms: vec![term],
            verification: Some(vec![RangeHash(FileHash::new([0xcd; 32]).0)]),
            sha256: None,
        };
        let begin = Instant::now();
        let refused = fixture.register(&writer("bob/own"), &shard(&[file], &[])).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

/// Shards and commits that arrive together are held against what the others bring.
#[tokio::test(flavor = "multi_thread")]
async fn shards_and_commits_at_once_stay_below_a_hard_quota() {
    let fixture = TestStore::new().await;
    let limit = Limit { soft: None, hard: Some(500_000) };
    for namespace in ["ann", "bob"] {
        let of = QuotaOf::Namespace(namespace.into());
        fixture
            .store
            .hub()
            .set_quota(&QuotaRow { of, logical: limit, physical: Limit::default() })
            .await
            .unwrap();
    }
    let uploads: Vec<_> =
        (0..10).map(|seed| Upload::of(&[&corpus::noise(seed, 200_000)], 100, Policy::Auto)).collect();
    let grant = writer("ann/models/a");
    for upload in &uploads {
        fixture.put_xorb(&grant, upload.xorbs[0].info.hash(), &upload.xorbs[0].bytes).await.unwrap();
    }
    let shards: Vec<_> = uploads.iter().map(Upload::shard).collect();
    let registered = join_all(shards.iter().map(|shard| fixture.register(&grant, shard))).await;
    let taken = registered.iter().filter(|registered| registered.is_ok()).count();
    assert!((1..=2).contains(&taken), "{taken} shards of 200,000 bytes each fit into 500,000");

    let mut repos = Vec::new();
    for n in 0..10 {
        let name = RepoName::new(Kind::Model, "bob", &format!("r{n}")).unwrap();
        repos.push(fixture.store.hub().create_repo(&name, false, "bob").await.unwrap());
    }
    let requests = (0..10).map(|seed| Request {
        ref_name: "refs/heads/main".into(),
        parent: None,
        author: "bob".into(),
        message: "change".into(),
        operations: vec![Operation::Put { path: "a".into(), content: corpus::noise(seed, 200_000).into() }],
    });
    let requests: Vec<_> = requests.collect();
    let commits =
        repos.iter().zip(&requests).map(|(repo, request)| fixture.store.hub().commit(repo, request));
    let taken = join_all(commits).await.iter().filter(|committed| committed.is_ok()).count();
    assert!((1..=2).contains(&taken), "{taken} commits of 200,000 bytes each fit into 500,000");
}

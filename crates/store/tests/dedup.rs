//! Dedup answers: who finds what, in which form, for how long.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use common::{NOW_S, TestStore, Upload, writer};
use store::content::{QuotaOf, TOUCH_S};
use store::{DedupOptions, DedupPolicy, ErrorKind, Grant, testing};
use testkit::corpus;
use xet::ChunkHash;
use xet::compress::Policy;
use xet::shard::{ShardView, verify_stored};

async fn filled(policy: DedupPolicy) -> (TestStore, Upload) {
    let dedup = DedupOptions { policy, secret: [7; 32], key_s: 1000, answer_s: 600 };
    let fixture = TestStore::with_dedup(dedup).await;
    let upload = Upload::of(&[&corpus::noise(1, 900_000), &corpus::text(2, 300_000)], 100, Policy::Auto);
    fixture.upload(&writer("ann/repo"), &upload).await.unwrap();
    (fixture, upload)
}

/// The hash of chunk `n` of the only xorb.
fn chunk(upload: &Upload, n: u32) -> ChunkHash {
    upload.xorbs[0].info.chunks()[n as usize].hash
}

#[tokio::test]
async fn the_first_chunk_of_a_file_finds_its_whole_xorb() {
    let (fixture, upload) = filled(DedupPolicy::Global).await;
    for file in &upload.files {
        let first = chunk(&upload, file.terms[0].chunks.start);
        let answer = fixture.store.content().dedup(&writer("bob/other"), first).await.unwrap().unwrap();
        let shard = verify_stored(&answer).unwrap();
        assert!(shard.files.is_empty() && !shard.key().is_zero());
        let footer = shard.footer.as_ref().unwrap();
        assert_eq!((footer.created_s, footer.expires_s), (NOW_S, NOW_S + 600));
        let hashes: Vec<_> = upload.xorbs[0].info.chunks().iter().map(|place| place.hash).collect();
        let found = ShardView::new(&answer).unwrap().dedup(&hashes).unwrap().unwrap();
        assert_eq!((found.xorb, found.matched), (upload.xorbs[0].info.hash(), hashes.len()));
        // Nobody learns a hash.
        assert!(hashes.iter().all(|hash| shard.xorbs[0].chunks.iter().all(|chunk| chunk.hash != *hash)));
    }
}

#[tokio::test]
async fn the_xorbs_that_follow_in_a_file_are_reported_and_retained_too() {
    let dedup = DedupOptions { policy: DedupPolicy::Repo, secret: [7; 32], key_s: 1000, answer_s: 600 };
    let fixture = TestStore::with_dedup(dedup).await;
    let upload = Upload::of(&[&corpus::noise(1, 3_000_000)], 2, Policy::Auto);
    assert!(upload.xorbs.len() > 16, "{} xorbs", upload.xorbs.len());
    fixture.upload(&writer("ann/repo"), &upload).await.unwrap();
    let hashes: Vec<_> = upload.xorbs.iter().map(|xorb| xorb.info.hash()).collect();
    fixture.clock.advance(TOUCH_S);
    let answer =
        fixture.store.content().dedup(&writer("ann/repo"), chunk(&upload, 0)).await.unwrap().unwrap();
    let shard = verify_stored(&answer).unwrap();
    let mut reported: Vec<_> = shard.xorbs.iter().map(|xorb| xorb.hash).collect();
    let mut expected = hashes[..16].to_vec();
    reported.sort_unstable();
    expected.sort_unstable();
    assert_eq!(reported, expected);
    for row in testing::xorbs(&fixture.catalog, &hashes).await.unwrap() {
        let expected = if reported.contains(&row.key.hash) { NOW_S + TOUCH_S } else { NOW_S };
        assert_eq!(row.referenced_s, expected);
    }
    // What follows in a file of another repository is not reported, though its xorbs are within reach.
    let fixture = TestStore::with_dedup(DedupOptions { policy: DedupPolicy::Global, ..options() }).await;
    fixture.upload(&writer("ann/repo"), &upload).await.unwrap();
    for other in ["ann/other", "bob/repo"] {
        let answer = fixture.store.content().dedup(&writer(other), chunk(&upload, 0)).await.unwrap().unwrap();
        let reported: Vec<_> = verify_stored(&answer).unwrap().xorbs.iter().map(|xorb| xorb.hash).collect();
        assert_eq!(reported, hashes[..1], "{other}");
    }
}

/// A file that was stored before lies in the xorbs of its first uploader. Other content of those is not reported.
#[tokio::test]
async fn xorbs_of_others_that_a_file_lies_in_are_not_reported() {
    for policy in [DedupPolicy::Global, DedupPolicy::Namespace, DedupPolicy::Repo] {
        let fixture = TestStore::with_dedup(DedupOptions { policy, ..options() }).await;
        let (shared, secret) = (corpus::noise(1, 400_000), corpus::noise(2, 400_000));
        let chunks = Upload::of(&[&shared], 100, Policy::Auto).xorbs[0].info.chunk_count() as usize;
        // Ann's second xorb has the end of the file and the secret; bob's has the end alone.
        let (ann, bob) = (
            Upload::of(&[&shared, &secret], chunks - 2, Policy::Auto),
            Upload::of(&[&shared], chunks - 2, Policy::Auto),
        );
        assert_eq!(ann.xorbs[0].info.hash(), bob.xorbs[0].info.hash());
        assert_ne!(ann.xorbs[1].info.hash(), bob.xorbs[1].info.hash());
        fixture.upload(&writer("ann/secret"), &ann).await.unwrap();
        fixture.upload(&writer("bob/own"), &bob).await.unwrap();
        let answer =
            fixture.store.content().dedup(&writer("bob/own"), chunk(&bob, 0)).await.unwrap().unwrap();
        let reported: Vec<_> = verify_stored(&answer).unwrap().xorbs.iter().map(|xorb| xorb.hash).collect();
        assert!(!reported.contains(&ann.xorbs[1].info.hash()), "{policy:?}");
    }
}

fn options() -> DedupOptions {
    DedupOptions { policy: DedupPolicy::Global, secret: [7; 32], key_s: 1000, answer_s: 600 }
}

#[tokio::test]
async fn readers_get_no_answers() {
    let (fixture, upload) = filled(DedupPolicy::Global).await;
    let reader = Grant::read("ann/repo".parse().unwrap());
    let refused = fixture.store.content().dedup(&reader, chunk(&upload, 0)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let refused = fixture.store.content().xorb_bytes(&reader, upload.xorbs[0].info.hash()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn a_xorb_of_one_chunk_is_named_to_its_own_repository_alone() {
    let fixture = TestStore::with_dedup(options()).await;
    let upload = Upload::of(&[&corpus::noise(1, 5000)], 100, Policy::Auto);
    assert_eq!(upload.xorbs[0].info.chunk_count(), 1);
    fixture.upload(&writer("ann/repo"), &upload).await.unwrap();
    let hash = upload.xorbs[0].info.hash();
    for (scope, expected) in [("ann/repo", true), ("ann/other", false), ("bob/repo", false)] {
        let answer = fixture.store.content().dedup(&writer(scope), chunk(&upload, 0)).await.unwrap();
        assert_eq!(answer.is_some(), expected, "{scope}");
        let bytes = fixture.store.content().xorb_bytes(&writer(scope), hash).await.unwrap();
        assert_eq!(bytes.is_some(), expected, "{scope}");
    }
}

#[tokio::test]
async fn a_repository_narrows_who_finds_its_chunks_and_whose_it_finds() {
    let (fixture, upload) = filled(DedupPolicy::Global).await;
    let finds = async |scope: &str| {
        let answer =
            fixture.store.content().dedup(&writer(scope), chunk(&upload, 0)).await.unwrap().is_some();
        let xorb =
            fixture.store.content().xorb_bytes(&writer(scope), upload.xorbs[0].info.hash()).await.unwrap();
        (answer, xorb.is_some())
    };
    let set = async |of: &str, policy: Option<DedupPolicy>| {
        // In the store's own words, a repository is named with its kind.
        let of = match of.split_once('/') {
            Some(_) => QuotaOf::Repo(of.parse().unwrap()),
            None => QuotaOf::Namespace(of.to_owned()),
        };
        fixture.store.hub().set_dedup_policy(&of, policy).await.unwrap();
    };
    assert_eq!((finds("ann/other").await, finds("bob/repo").await), ((true, true), (true, true)));
    set("ann/repo", Some(DedupPolicy::Namespace)).await;
    assert_eq!((finds("ann/other").await, finds("bob/repo").await), ((true, true), (false, false)));
    set("ann/repo", Some(DedupPolicy::Repo)).await;
    assert_eq!((finds("ann/repo").await, finds("ann/other").await), ((true, true), (false, false)));
    set("ann/repo", None).await;
    // A caller whose own policy is narrow finds less, too.
    set("bob", Some(DedupPolicy::Namespace)).await;
    assert_eq!((finds("ann/other").await, finds("bob/repo").await), ((true, true), (false, false)));
    set("ann/repo", Some(DedupPolicy::Off)).await;
    assert_eq!((finds("ann/repo").await, finds("ann/other").await), ((false, true), (false, false)));
    assert_eq!(testing::counts(&fixture.catalog).await.unwrap().dedup, 0);
}

#[tokio::test]
async fn chunks_that_are_not_eligible_or_not_there_find_nothing() {
    let (fixture, upload) = filled(DedupPolicy::Global).await;
    let firsts: Vec<_> = upload.files.iter().map(|file| chunk(&upload, file.terms[0].chunks.start)).collect();
    for place in upload.xorbs[0].info.chunks() {
        let expected = firsts.contains(&place.hash) || place.hash.is_dedup_eligible();
        let answer = fixture.store.content().dedup(&writer("ann/repo"), place.hash).await.unwrap();
        assert_eq!(answer.is_some(), expected);
    }
    assert_eq!(fixture.store.content().dedup(&writer("ann/repo"), ChunkHash::ZERO).await.unwrap(), None);
}

#[tokio::test]
async fn a_policy_decides_who_finds_what() {
    let expected = [
        (DedupPolicy::Global, [true, true, true]),
        (DedupPolicy::Namespace, [true, true, false]),
        (DedupPolicy::Repo, [true, false, false]),
        (DedupPolicy::Off, [false, false, false]),
    ];
    for (policy, expected) in expected {
        let (fixture, upload) = filled(policy).await;
        for (scope, expected) in ["ann/repo", "ann/other", "bob/repo"].into_iter().zip(expected) {
            let answer = fixture.store.content().dedup(&writer(scope), chunk(&upload, 0)).await.unwrap();
            assert_eq!(answer.is_some(), expected, "{policy:?} {scope}");
        }
    }
}

#[tokio::test]
async fn keys_rotate_and_answers_keep_the_xorb_alive() {
    let (fixture, upload) = filled(DedupPolicy::Global).await;
    let query = async || {
        fixture.store.content().dedup(&writer("ann/repo"), chunk(&upload, 0)).await.unwrap().unwrap()
    };
    let referenced = async || {
        testing::xorbs(&fixture.catalog, &[upload.xorbs[0].info.hash()]).await.unwrap()[0].referenced_s
    };
    let first = query().await;
    assert_eq!(query().await, first);
    assert_eq!(referenced().await, NOW_S);
    fixture.clock.advance(TOUCH_S);
    let later = query().await;
    assert_ne!(ShardView::new(&first).unwrap().key(), ShardView::new(&later).unwrap().key());
    assert_eq!(referenced().await, NOW_S + TOUCH_S);
    // A condemned xorb is not reported.
    // Its file is no longer anybody's: nothing is made of it.
    fixture.database().execute("DELETE FROM file_xorbs", []).unwrap();
    let hashes = [*upload.xorbs[0].info.hash().as_bytes()];
    assert_eq!(testing::condemn_xorbs(&fixture.catalog, &hashes, u64::MAX >> 1, 1).await.unwrap(), 1);
    assert_eq!(fixture.store.content().dedup(&writer("ann/repo"), chunk(&upload, 0)).await.unwrap(), None);
}

//! Who may refer to a xorb: what is refused does not tell what is stored, by its words or by its time.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{TestStore, Upload, writer};
use store::content::QuotaOf;
use store::{DedupOptions, DedupPolicy, ErrorKind, Options, testing};
use testkit::corpus;
use testkit::upload::shard;
use xet::compress::Policy;
use xet::shard::FileEntry;
use xet::{FileHash, RangeHash, XorbHash};

const POLICIES: [DedupPolicy; 4] =
    [DedupPolicy::Global, DedupPolicy::Namespace, DedupPolicy::Repo, DedupPolicy::Off];

/// A store in which `ann/secret` has a file in a xorb of many chunks, and one in a xorb of a single chunk.
async fn filled(policy: DedupPolicy) -> (TestStore, Upload, Upload) {
    let fixture = TestStore::with_dedup(DedupOptions { policy, ..DedupOptions::default() }).await;
    let long = Upload::of(&[&corpus::noise(1, 900_000)], 100, Policy::Auto);
    let short = Upload::of(&[&corpus::noise(2, 5000)], 100, Policy::Auto);
    assert_eq!((long.xorbs.len(), short.xorbs[0].info.chunk_count()), (1, 1));
    for upload in [&long, &short] {
        fixture.upload(&writer("ann/secret"), upload).await.unwrap();
    }
    (fixture, long, short)
}

/// What a caller without the chunks can claim about a xorb.
fn guess(xorb: XorbHash, chunks: std::ops::Range<u32>, raw_bytes: u32) -> Vec<u8> {
    let term = xet::shard::Term { xorb, flags: 0, raw_bytes, chunks };
    let file = FileEntry {
        hash: FileHash::new([0xab; 32]),
        terms: vec![term],
        verification: Some(vec![RangeHash(FileHash::new([0xcd; 32]).0)]),
        sha256: None,
    };
    shard(&[file], &[])
}

const ABSENT: XorbHash = XorbHash::new([0xee; 32]);

#[tokio::test(flavor = "multi_thread")]
async fn a_guess_gets_one_answer_whether_the_xorb_is_stored_or_not() {
    for policy in POLICIES {
        let (fixture, long, short) = filled(policy).await;
        // Stored and never registered, damaged, and on its way out: none of them is reported.
        let pending = Upload::of(&[&corpus::noise(3, 200_000)], 100, Policy::Auto);
        let damaged = Upload::of(&[&corpus::noise(4, 200_000)], 100, Policy::Auto);
        fixture
            .put_xorb(&writer("ann/secret"), pending.xorbs[0].info.hash(), &pending.xorbs[0].bytes)
            .await
            .unwrap();
        fixture.upload(&writer("ann/secret"), &damaged).await.unwrap();
        let key = testing::xorbs(&fixture.catalog, &[damaged.xorbs[0].info.hash()]).await.unwrap()[0].key;
        testing::mark_damaged(&fixture.catalog, &[key], common::NOW_S).await.unwrap();
        let count = long.xorbs[0].info.chunk_count();
        for caller in ["bob/own", "ann/sibling"] {
            for (chunks, raw_bytes) in
                [(0..1, 40_000), (0..count, 900_000), (0..count + 5, 900_000), (0..2, 77), (5..9000, 1)]
            {
                let refused = async |xorb: XorbHash| {
                    let refused =
                        fixture.register(&writer(caller), &guess(xorb, chunks.clone(), raw_bytes)).await;
                    let refused = refused.unwrap_err();
                    (refused.kind(), refused.to_string().replace(&xorb.to_string(), "X"))
                };
                let absent = refused(ABSENT).await;
                assert_eq!(absent.0, ErrorKind::Invalid);
                for upload in [&long, &short, &pending, &damaged] {
                    let stored = refused(upload.xorbs[0].info.hash()).await;
                    assert_eq!(stored, absent, "{policy:?} {caller} {chunks:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_range_hash_opens_what_the_policy_reaches_and_never_a_xorb_of_one_chunk() {
    for (policy, expected) in
        POLICIES.into_iter().zip([[true, true], [true, false], [false, false], [false, false]])
    {
        let (fixture, long, short) = filled(policy).await;
        for (caller, expected) in ["ann/sibling", "bob/own"].into_iter().zip(expected) {
            let grant = writer(caller);
            let done = fixture.register(&grant, &shard(&long.files, &[])).await;
            assert_eq!(done.is_ok(), expected, "{policy:?} {caller}");
            assert_eq!(fixture.read(&grant, long.files[0].hash, None).await.is_ok(), expected);
            let refused = fixture.register(&grant, &shard(&short.files, &[])).await.unwrap_err();
            let absent = fixture.register(&grant, &guess(ABSENT, 0..1, 1)).await.unwrap_err();
            let named = refused.to_string().replace(&short.xorbs[0].info.hash().to_string(), "X");
            assert_eq!(named, absent.to_string().replace(&ABSENT.to_string(), "X"));
            // Nor by listing it.
            assert!(fixture.register(&grant, &shard(&[], &short.entries())).await.is_err());
            assert!(fixture.read(&grant, short.files[0].hash, None).await.is_err());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_sent_they_may_refer_to_in_another_repository() {
    for policy in POLICIES {
        let (fixture, ..) = filled(policy).await;
        let (here, there) = (writer("bob/here").sent_by("token"), writer("team/there").sent_by("token"));
        let upload = Upload::of(&[&corpus::noise(5, 5000)], 100, Policy::Auto);
        fixture.upload(&here, &upload).await.unwrap();
        // A client has a cache of what it sent, and sends the shard alone.
        assert!(fixture.register(&writer("team/there"), &upload.shard()).await.is_err(), "{policy:?}");
        assert!(fixture.register(&writer("team/there").sent_by("other"), &upload.shard()).await.is_err());
        fixture.register(&there, &upload.shard()).await.unwrap();
        fixture.read(&there, upload.files[0].hash, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_does_not_reveal_what_others_have() {
    for policy in POLICIES {
        let (fixture, long, short) = filled(policy).await;
        let grant = writer("bob/own");
        for upload in [&long, &short] {
            let xorb = &upload.xorbs[0];
            assert!(
                fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap().was_inserted,
                "{policy:?}"
            );
            assert!(!fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap().was_inserted);
            assert!(fixture.register(&grant, &upload.shard()).await.unwrap().was_inserted, "{policy:?}");
            assert!(!fixture.register(&grant, &upload.shard()).await.unwrap().was_inserted);
            assert!(!fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap().was_inserted);
        }
    }
}

/// A shard names several xorbs: which one is refused follows from the shard alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_wrong_term_is_named_whatever_is_stored() {
    let (fixture, long, _) = filled(DedupPolicy::Global).await;
    let own = Upload::of(&[&corpus::noise(6, 300_000)], 100, Policy::Auto);
    let grant = writer("bob/own");
    fixture.put_xorb(&grant, own.xorbs[0].info.hash(), &own.xorbs[0].bytes).await.unwrap();
    let mut wrong = own.files[0].clone();
    wrong.verification = Some(vec![RangeHash(FileHash::new([0xcd; 32]).0); wrong.terms.len()]);
    let guesses = |xorb: XorbHash| {
        let guess = xet::shard::Shard::parse_upload(&guess(xorb, 0..1, 40_000)).unwrap();
        guess.files.into_iter().next().unwrap()
    };
    let mut refusals = Vec::new();
    for xorb in [ABSENT, long.xorbs[0].info.hash()] {
        for files in
            [[wrong.clone(), guesses(xorb)], [guesses(xorb), wrong.clone()], [wrong.clone(), wrong.clone()]]
        {
            let refused = fixture.register(&grant, &shard(&files, &[])).await.unwrap_err();
            refusals.push(refused.to_string().replace(&xorb.to_string(), "X"));
        }
    }
    assert_eq!(refusals[..3], refusals[3..]);
    assert!(refusals[2].contains("range hash"), "what the caller sent is refused in detail: {refusals:?}");
}

/// 1,000 guesses at a stored xorb and 1,000 at an absent one, in turns. A difference of 0.2 between the distributions has a
/// probability below 1e-17 where there is none. Guesses begin one after the other, and footers are read anew for each: without
/// the steps of time the difference is far above that, 0.4 on two busy cores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_takes_as_long_whether_the_xorb_is_stored_or_not() {
    const SAMPLES: usize = 1000;
    for policy in [DedupPolicy::Global, DedupPolicy::Repo] {
        let dedup = DedupOptions { policy, ..DedupOptions::default() };
        let fixture =
            TestStore::with_options(&Options { dedup, footer_bytes_max: 0, ..Options::default() }).await;
        let long = Upload::of(&[&corpus::noise(1, 900_000)], 100, Policy::Auto);
        fixture.upload(&writer("ann/secret"), &long).await.unwrap();
        let fixture = Arc::new(fixture);
        let start = tokio::time::Instant::now();
        let tasks = (0..2 * SAMPLES).map(|n| {
            let xorb = if n % 2 == 0 { ABSENT } else { long.xorbs[0].info.hash() };
            let fixture = fixture.clone();
            tokio::spawn(async move {
                tokio::time::sleep_until(start + BETWEEN * u32::try_from(n).unwrap()).await;
                let begin = Instant::now();
                fixture.register(&writer("bob/own"), &guess(xorb, 0..20, 500_000)).await.unwrap_err();
                begin.elapsed()
            })
        });
        let mut times = [Vec::new(), Vec::new()];
        for (n, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
            times[n % 2].push(task.await.unwrap());
        }
        times.iter_mut().for_each(|times| times.sort_unstable());
        let [absent, stored] = &times;
        let share =
            |of: &[Duration], at: Duration| of.partition_point(|time| *time <= at) as f64 / SAMPLES as f64;
        let apart = absent.iter().chain(stored).map(|at| (share(absent, *at) - share(stored, *at)).abs());
        let apart = apart.fold(0.0, f64::max);
        let medians = (absent[SAMPLES / 2], stored[SAMPLES / 2]);
        assert!(apart < 0.2, "{policy:?}: {apart}; medians {medians:?}");
        assert!(absent[0] >= Duration::from_millis(200), "it is answered in steps: {:?}", absent[0]);
    }
}

/// Time from the start of one guess to that of the next: more than one takes.
const BETWEEN: Duration = Duration::from_millis(5);

/// Whole files follow the policy of their repository, not that of the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_sent_whole_refers_only_to_what_its_own_policy_reaches() {
    let fixture =
        TestStore::with_dedup(DedupOptions { policy: DedupPolicy::Global, ..DedupOptions::default() }).await;
    let data = corpus::noise(1, 900_000);
    let upload = Upload::of(&[&data], 100, Policy::Auto);
    fixture.upload(&writer("ann/models/secret"), &upload).await.unwrap();
    let sha256 = xet::Sha256::new(testkit::sha256(&data));
    for (scope, policy) in [
        ("bob/models/off", DedupPolicy::Off),
        ("bob/models/repo", DedupPolicy::Repo),
        ("eve/models/namespace", DedupPolicy::Namespace),
    ] {
        let grant = writer(scope);
        let of = QuotaOf::Repo(grant.scope().clone());
        fixture.store.hub().set_dedup_policy(&of, Some(policy)).await.unwrap();
        let body = common::pieces(&data, 70_001);
        let taken = fixture.store.content().put_file(&grant, sha256, data.len() as u64, body).await;
        let taken = taken.unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        // Nothing was found that others have: all of it counts as new.
        assert_eq!(taken.new_bytes, data.len() as u64, "{policy:?}");
        assert_eq!(fixture.read(&grant, taken.file, None).await.unwrap(), data, "{policy:?}");
    }
}

/// A digest that another repository has had computed is used only where the policy of this one reaches that repository.
#[tokio::test(flavor = "multi_thread")]
async fn computed_digests_are_taken_over_within_the_policy_of_the_repository() {
    let fixture =
        TestStore::with_dedup(DedupOptions { policy: DedupPolicy::Global, ..DedupOptions::default() }).await;
    let data = corpus::noise(1, 300_000);
    let sha256 = xet::Sha256::new(testkit::sha256(&data));
    let mut upload = Upload::of(&[&data], 100, Policy::Auto);
    upload.files[0].sha256 = Some(sha256);
    let (ann, bob) = (writer("ann/models/secret"), writer("bob/models/own"));
    fixture.upload(&ann, &upload).await.unwrap();
    fixture.upload(&bob, &upload).await.unwrap();
    let of = QuotaOf::Repo(bob.scope().clone());
    fixture.store.hub().set_dedup_policy(&of, Some(DedupPolicy::Off)).await.unwrap();
    // The digest claimed for ann's repository is false, to see whose answer bob's gets.
    let wrong = xet::Sha256::new([7; 32]);
    testing::add_digest(&fixture.catalog, ann.scope(), upload.files[0].hash, wrong).await.unwrap();
    let found = fixture.store.content().linked_files(bob.scope(), &[sha256]).await.unwrap();
    assert_eq!(found.len(), 1, "it was computed from the bytes");
}

/// The progress of a registration that takes long is shown: it does not depend on what others have stored.
#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_refused_shard_does_not_reveal_what_is_stored() {
    let (fixture, long, _) = filled(DedupPolicy::Global).await;
    let grant = writer("bob/own");
    // More xorbs of the caller's than footers are held at once, then a guess.
    let own = Upload::of(&[&corpus::noise(6, 6_000_000)], 2, Policy::Auto);
    assert!(own.xorbs.len() > 40, "{}", own.xorbs.len());
    for xorb in &own.xorbs {
        fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap();
    }
    for at in 30..36 {
        let mut shown = Vec::new();
        for xorb in [ABSENT, long.xorbs[0].info.hash()] {
            let mut file = own.files[0].clone();
            file.terms[at].xorb = xorb;
            let progress = store::content::Progress::default();
            let body = shard(&[file], &[]);
            let declared = Some(body.len() as u64);
            let pieces = common::pieces(&body, 1000);
            fixture.store.content().register(&grant, declared, pieces, &progress).await.unwrap_err();
            shown.push(progress.terms());
        }
        assert_eq!(shown[0], shown[1], "term {at}");
    }
}

/// A xorb that another repository has is written like a new one: its sender does not see it by the time. Nothing is left over.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_what_others_have_does_the_work_of_a_new_one() {
    for policy in POLICIES {
        let (fixture, long, _) = filled(policy).await;
        let before = fixture.state().await.1.len();
        let bob = writer("bob/own");
        let operations = async |upload: &Upload| {
            let xorb = &upload.xorbs[0];
            fixture.store.content().dedup_policy(bob.scope()).await.unwrap();
            fixture.faults.disarm();
            fixture.put_xorb(&bob, xorb.info.hash(), &xorb.bytes).await.unwrap();
            fixture.faults.operations()
        };
        let of_new = operations(&Upload::of(&[&corpus::noise(9, 900_000)], 100, Policy::Auto)).await;
        let of_stored = operations(&long).await;
        // Where the caller may know that it is here, it is not written again. The row of a new xorb is one statement.
        let is_known = policy == DedupPolicy::Global;
        assert_eq!(of_stored + 1 < of_new, is_known, "{policy:?}: {of_stored} {of_new}");
        let is_clean = async || fixture.state().await.1.len() == before + 1;
        for _ in 0..100 {
            if is_clean().await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(is_clean().await, "{policy:?}: what was written again is deleted");
    }
}

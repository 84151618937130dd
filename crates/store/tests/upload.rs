//! Uploads end to end: what goes in comes out, damage leaves nothing, and a retry after any failure succeeds.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::sync::Arc;

use common::{TestStore, Upload, pieces, writer};
use futures::stream;
use store::content::{Planned, XorbState};
use store::{ErrorKind, Grant, Options, testing};
use testkit::corpus;
use testkit::postgres::Postgres;
use testkit::upload::shard;
use xet::compress::{Policy, Scheme};
use xet::shard::{Term, XorbEntry};
use xet::xorb::Form;
use xet::{ChunkHash, FileHash, RangeHash, Sha256, XorbHash};

fn sample() -> (Vec<Vec<u8>>, Upload) {
    let mut data =
        vec![corpus::noise(1, 900_000), corpus::text(2, 400_000), Vec::new(), corpus::text(3, 100)];
    // A file that shares a part with the first, and one that repeats itself.
    data.push([&data[0][..300_000], &corpus::noise(4, 50_000)[..]].concat());
    data.push(corpus::constant(7, 600_000));
    let files: Vec<_> = data.iter().map(Vec::as_slice).collect();
    let upload = Upload::of(&files, 9, Policy::Auto);
    (data, upload)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_in_comes_out_whole_and_in_parts() {
    comes_out(TestStore::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_in_comes_out_of_postgres_too() {
    let Some(server) = Postgres::start() else { return };
    let url = server.fresh_database();
    // Servers that start together bring the tables up to date together.
    let opened = futures::future::join_all((0..4).map(|_| store::Catalog::open_or_create(&url))).await;
    let catalog = opened.into_iter().map(Result::unwrap).next().unwrap();
    comes_out(TestStore::over(tempfile::tempdir().unwrap(), catalog, &Options::default())).await;
}

async fn comes_out(fixture: TestStore) {
    let grant = writer("ann/repo");
    let (data, upload) = sample();
    assert!(upload.xorbs.len() > 3);
    let done = fixture.upload(&grant, &upload).await.unwrap();
    assert_eq!((done.was_inserted, done.files), (true, data.len() as u64));
    for (data, file) in data.iter().zip(&upload.files) {
        let len = data.len() as u64;
        assert_eq!(fixture.store.content().file_bytes(&grant, file.hash).await.unwrap(), len);
        assert!(fixture.read(&grant, file.hash, None).await.unwrap() == *data);
        let cuts = [0, 1, 8192, len / 3, len / 2, len.saturating_sub(1), len];
        for start in cuts.into_iter().filter(|start| *start < len) {
            for end in cuts.into_iter().filter(|end| *end > start).chain([u64::MAX]) {
                let read = fixture.read(&grant, file.hash, Some(start..end)).await.unwrap();
                assert!(read == data[start as usize..end.min(len) as usize], "{start}..{end} of {len}");
            }
        }
        for start in [len.max(1), len + 1, u64::MAX] {
            let planned =
                fixture.store.content().plan(&grant, file.hash, Some(start..u64::MAX)).await.unwrap();
            assert_eq!(planned, Planned::PastEnd { file_bytes: len });
        }
    }
    let hashes: Vec<_> = upload.files.iter().map(|file| file.hash).collect();
    let batch = fixture.store.content().plan_batch(&grant, &hashes).await.unwrap();
    assert_eq!(batch.plan.files.len(), hashes.len());
    assert_eq!(batch.plan.fetches.len(), upload.xorbs.len());
    for fetch in &batch.plan.fetches {
        assert_eq!(fetch.ranges.len(), 1, "all chunks of every xorb are needed");
    }
}

/// The recipes of the catalog and the footers of the xorbs must lead to the same plans.
#[tokio::test(flavor = "multi_thread")]
async fn plans_are_those_of_the_protocol() {
    use xet::plan::{PlanTerm, XorbEnds};
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let (data, upload) = sample();
    fixture.upload(&grant, &upload).await.unwrap();
    let ends: Vec<(XorbHash, Vec<u32>, Vec<u32>)> = upload
        .xorbs
        .iter()
        .map(|xorb| {
            let chunks = xorb.info.chunks();
            let stored = chunks.iter().map(|place| place.stored_end).collect();
            (xorb.info.hash(), stored, chunks.iter().map(|place| place.raw_end).collect())
        })
        .collect();
    let ends = |hash: &XorbHash| {
        let (_, stored, raw) = ends.iter().find(|(of, ..)| of == hash)?;
        Some(XorbEnds { stored, raw })
    };
    let mut random = corpus::SplitMix64::new(5);
    for (data, file) in data.iter().zip(&upload.files) {
        let terms: Vec<_> = file
            .terms
            .iter()
            .map(|term| PlanTerm { xorb: term.xorb, chunks: term.chunks.clone(), raw_bytes: term.raw_bytes })
            .collect();
        for _ in 0..40 {
            let start = random.below(data.len() as u64 + 1);
            let range = Some(start..start + 1 + random.below(data.len() as u64 + 1));
            let expected = xet::plan::plan(&terms, range.clone(), ends).unwrap();
            match (fixture.store.content().plan(&grant, file.hash, range).await.unwrap(), expected) {
                (Planned::Covered(found), xet::plan::Planned::Covered(plan)) => assert_eq!(found.plan, plan),
                (Planned::PastEnd { file_bytes }, xet::plan::Planned::PastEnd { file_bytes: expected }) => {
                    assert_eq!(file_bytes, expected);
                }
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_whole_file_is_one_catalog_query() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let (_, upload) = sample();
    fixture.upload(&grant, &upload).await.unwrap();
    fixture.faults.disarm();
    fixture.store.content().plan(&grant, upload.files[0].hash, None).await.unwrap();
    assert_eq!(fixture.faults.operations(), 1);
}

#[tokio::test]
async fn repeating_an_upload_changes_nothing() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let (_, upload) = sample();
    fixture.upload(&grant, &upload).await.unwrap();
    let state = fixture.state().await;
    let xorb = &upload.xorbs[0];
    assert!(!fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap().was_inserted);
    assert!(!fixture.upload(&grant, &upload).await.unwrap().was_inserted);
    assert_eq!(fixture.state().await, state);
}

#[tokio::test]
async fn a_reader_may_not_write_and_others_may_not_read() {
    let fixture = TestStore::new().await;
    let (ann, bob) = (writer("ann/repo"), writer("bob/repo"));
    let (_, upload) = sample();
    let reader = Grant::read("ann/repo".parse().unwrap());
    assert_eq!(fixture.upload(&reader, &upload).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(fixture.register(&reader, &upload.shard()).await.unwrap_err().kind(), ErrorKind::Denied);
    fixture.upload(&ann, &upload).await.unwrap();

    let file = upload.files[0].hash;
    fixture.store.content().plan(&reader, file, None).await.unwrap();
    let error = fixture.store.content().plan(&bob, file, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), format!("no file {file}"));
    let batch = fixture.store.content().plan_batch(&bob, &[file]).await;
    assert_eq!(batch.unwrap_err().kind(), ErrorKind::NotFound);
    // Who has the file registers it, without sending a byte of it again, and then may.
    fixture.register(&bob, &shard(&upload.files, &[])).await.unwrap();
    fixture.store.content().plan(&bob, file, None).await.unwrap();
}

/// One hash, two compressions, at once: one wins, and everything read later is the winner's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_uploads_of_one_xorb_with_different_bytes_are_safe() {
    for round in 0..5 {
        let fixture = Arc::new(TestStore::new().await);
        let data = corpus::text(round, 500_000);
        let policies = [Scheme::Raw, Scheme::Lz4, Scheme::GroupedLz4].map(Policy::Always);
        let uploads = policies.map(|policy| Upload::of(&[&data], 100, policy));
        let hash = uploads[0].xorbs[0].info.hash();
        assert!(uploads.iter().all(|upload| upload.xorbs[0].info.hash() == hash));
        let file = uploads[0].files[0].hash;
        let racers = uploads.map(|upload| {
            let fixture = fixture.clone();
            tokio::spawn(async move {
                let grant = writer("ann/repo");
                let xorb = &upload.xorbs[0];
                let stored = fixture.put_xorb(&grant, hash, &xorb.bytes).await.unwrap();
                fixture.register(&grant, &upload.shard()).await.unwrap();
                stored.was_inserted
            })
        });
        let mut inserted = 0;
        for racer in racers {
            inserted += usize::from(racer.await.unwrap());
        }
        assert_eq!(inserted, 1);
        let grant = writer("ann/repo");
        assert!(fixture.read(&grant, file, None).await.unwrap() == data);
        assert!(fixture.read(&grant, file, Some(99_999..200_001)).await.unwrap() == data[99_999..200_001]);
    }
}

#[tokio::test]
async fn every_form_is_stored_with_the_same_footer() {
    let data = corpus::text(1, 200_000);
    let mut objects = Vec::new();
    for form in [Form::Footerless, Form::V0, Form::V1] {
        let fixture = TestStore::new().await;
        let mut upload = Upload::of(&[&data], 100, Policy::Auto);
        let xorb = &mut upload.xorbs[0];
        xorb.info.encode_footer(form, &mut xorb.bytes);
        fixture.upload(&writer("ann/repo"), &upload).await.unwrap();
        objects.push(fixture.state().await.1);
    }
    assert_eq!(objects[0].len(), 2);
    assert!(objects.iter().all(|paths| *paths == objects[0]));
}

#[tokio::test]
async fn damaged_xorbs_leave_nothing() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let upload = Upload::of(&[&corpus::text(1, 60_000)], 100, Policy::Auto);
    let (hash, bytes) = (upload.xorbs[0].info.hash(), &upload.xorbs[0].bytes);
    let empty = fixture.state().await;
    let mut damaged: Vec<(XorbHash, Vec<u8>)> = vec![(XorbHash::new([1; 32]), bytes.clone()), (hash, vec![])];
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        damaged.push((hash, bytes[..at].to_vec()));
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        damaged.push((hash, flipped));
    }
    damaged.push((hash, [&bytes[..], b"x"].concat()));
    for (hash, bytes) in damaged {
        let error = fixture.put_xorb(&grant, hash, &bytes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(fixture.state().await, empty);
}

#[tokio::test]
async fn a_body_that_lies_about_its_length_or_breaks_off_leaves_nothing() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let upload = Upload::of(&[&corpus::text(1, 60_000)], 100, Policy::Auto);
    let (hash, bytes) = (upload.xorbs[0].info.hash(), &upload.xorbs[0].bytes);
    let empty = fixture.state().await;
    let put_xorb = async |declared, body: Vec<_>| {
        fixture.store.content().put_xorb(&grant, hash, declared, stream::iter(body)).await.unwrap_err().kind()
    };
    let whole = || vec![Ok(bytes.clone().into())];
    assert_eq!(put_xorb(Some(5), whole()).await, ErrorKind::Invalid);
    assert_eq!(put_xorb(Some(u64::MAX), whole()).await, ErrorKind::Invalid);
    let broken = vec![Ok(bytes[..100].to_vec().into()), Err("the line went dead".into())];
    assert_eq!(put_xorb(None, broken).await, ErrorKind::Unavailable);
    assert_eq!(fixture.state().await, empty);
    fixture.store.content().put_xorb(&grant, hash, None, pieces(bytes, 1)).await.unwrap();
}

#[tokio::test]
async fn a_shard_that_lies_is_refused_whole() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let (_, upload) = sample();
    for xorb in &upload.xorbs {
        fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap();
    }
    let before = fixture.state().await;
    type Lie = fn(&mut Upload, &mut Vec<XorbEntry>);
    let lies: [(&str, Lie); 10] = [
        ("file hash", |upload, _| upload.files[0].hash = FileHash::new([1; 32])),
        ("raw bytes of a term", |upload, _| upload.files[0].terms[0].raw_bytes += 1),
        ("end of a term's chunks", |upload, _| upload.files[0].terms[0].chunks.end = 9000),
        ("raw bytes of a term", |upload, _| upload.files[0].terms[0].chunks.end -= 1),
        ("range hash", |upload, _| upload.files[1].verification.as_mut().unwrap()[0] = RangeHash::ZERO),
        ("range hash of a term", |upload, _| {
            upload.files.iter_mut().for_each(|file| file.verification = None);
        }),
        ("is not stored", |upload, _| upload.files[0].terms[0].xorb = XorbHash::new([1; 32])),
        ("file hash", |upload, _| upload.files[2].hash = FileHash::new([1; 32])),
        ("xorb hash", |_, xorbs| xorbs[0].chunks[0].hash = ChunkHash::ZERO),
        ("is not stored", |_, xorbs| {
            xorbs[0].chunks.truncate(1);
            xorbs[0].raw_bytes = xorbs[0].chunks[0].raw_bytes;
            xorbs[0].hash = XorbHash(xorbs[0].chunks[0].hash.0);
        }),
    ];
    for (reason, lie) in lies {
        let mut upload = Upload { xorbs: upload.xorbs.clone(), files: upload.files.clone() };
        let mut entries = upload.entries();
        lie(&mut upload, &mut entries);
        let error = fixture.register(&grant, &shard(&upload.files, &entries)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(reason), "{error} does not speak of {reason}");
        assert_eq!(fixture.state().await, before, "{reason}");
    }
    fixture.register(&grant, &upload.shard()).await.unwrap();
}

/// The hash of a xorb of one chunk does not cover its length.
#[tokio::test]
async fn a_single_chunk_cannot_lie_about_its_length() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let upload = Upload::of(&[b"Hello World!"], 100, Policy::Auto);
    fixture.put_xorb(&grant, upload.xorbs[0].info.hash(), &upload.xorbs[0].bytes).await.unwrap();
    let mut entries = upload.entries();
    entries[0].chunks[0].raw_bytes = 5;
    entries[0].raw_bytes = 5;
    let error = fixture.register(&grant, &shard(&[], &entries)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("raw bytes of a xorb"), "{error}");
}

#[tokio::test]
async fn a_shard_that_refers_to_a_condemned_xorb_revives_it() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let upload = Upload::of(&[&corpus::text(1, 60_000)], 100, Policy::Auto);
    let xorb = &upload.xorbs[0];
    let hash = xorb.info.hash();
    fixture.put_xorb(&grant, hash, &xorb.bytes).await.unwrap();
    let condemn = async || {
        assert_eq!(
            testing::condemn_xorbs(&fixture.catalog, &[*hash.as_bytes()], u64::MAX >> 1, 1).await.unwrap(),
            1
        );
    };
    condemn().await;
    assert!(!fixture.put_xorb(&grant, hash, &xorb.bytes).await.unwrap().was_inserted);
    assert_eq!(testing::xorbs(&fixture.catalog, &[hash]).await.unwrap()[0].state, XorbState::Live);
    condemn().await;
    fixture.register(&grant, &upload.shard()).await.unwrap();
    assert_eq!(testing::xorbs(&fixture.catalog, &[hash]).await.unwrap()[0].state, XorbState::Live);
}

/// A small term may name a whole xorb and be repeated; a shard cannot buy endless work with that.
#[tokio::test]
async fn a_shard_of_endless_terms_runs_out_of_budget() {
    let fixture =
        TestStore::with_options(&Options { shard_chunks_max: 100 * 8192, ..Options::default() }).await;
    let grant = writer("ann/repo");
    let chunks: Vec<u8> = corpus::noise(1, 8192);
    let mut builder = xet::xorb::XorbBuilder::new(Policy::Always(Scheme::Raw));
    for byte in &chunks {
        builder.push(ChunkHash::of(&[*byte]), &[*byte]).unwrap();
    }
    let xorb = builder.seal(Form::Footerless).unwrap();
    fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap();
    let term = Term { xorb: xorb.info.hash(), flags: 0, raw_bytes: 8192, chunks: 0..8192 };
    let range = RangeHash::of(xorb.info.chunks().iter().map(|place| &place.hash));
    for (terms, reason) in [(100, "file hash"), (101, "chunks of all files of a shard")] {
        let file = xet::shard::FileEntry {
            hash: FileHash::new([1; 32]),
            terms: vec![term.clone(); terms],
            verification: Some(vec![range; terms]),
            sha256: None,
        };
        let error = fixture.register(&grant, &shard(&[file], &[])).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

/// Terms are proven in windows, which end after a number of xorbs or terms: none may be passed over.
#[tokio::test(flavor = "multi_thread")]
async fn every_term_of_a_long_shard_is_proven_wherever_a_window_ends() {
    let small: Vec<_> = (0..5000_u32).map(u32::to_le_bytes).collect();
    let large = corpus::noise(1, 3_000_000);
    let files: Vec<&[u8]> = small.iter().map(<[u8; 4]>::as_slice).chain([large.as_slice()]).collect();
    for xorb_chunks in [50, 1500] {
        let (fixture, grant) = (TestStore::new().await, writer("ann/repo"));
        let upload = Upload::of(&files, xorb_chunks, Policy::Auto);
        for xorb in &upload.xorbs {
            fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap();
        }
        for wrong in [0, 1599, 1600, 4095, 4096, 5000] {
            let mut files = upload.files.clone();
            let verification = files[wrong].verification.as_mut().unwrap();
            *verification.last_mut().unwrap() = RangeHash::of(&[ChunkHash::of(b"another")]);
            let error = fixture.register(&grant, &shard(&files, &[])).await.unwrap_err();
            assert!(error.to_string().contains("range hash"), "{wrong}: {error}");
        }
        assert_eq!(fixture.register(&grant, &upload.shard()).await.unwrap().files, 5001);
        for file in [0, 1600, 4096, 5000] {
            let hash = upload.files[file].hash;
            assert!(fixture.read(&grant, hash, None).await.unwrap() == files[file], "{file}");
        }
    }
}

/// 64 MiB of raw bytes, 8192 chunks, nothing shrinks: longer on the way than 64 MiB, and genuine clients send it.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_xorb_is_taken() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let mut builder = xet::xorb::XorbBuilder::new(Policy::Always(Scheme::Raw));
    let mut chunk = corpus::noise(1, 8192);
    for n in 0..8192_u32 {
        chunk[..4].copy_from_slice(&n.to_le_bytes());
        builder.push(ChunkHash::of(&chunk), &chunk).unwrap();
    }
    let xorb = builder.seal(Form::V1).unwrap();
    assert_eq!(xorb.bytes.len() as u64, xet::limits::XORB_STORED_BYTES_MAX);
    assert!(fixture.put_xorb(&grant, xorb.info.hash(), &xorb.bytes).await.unwrap().was_inserted);
    let one_more = [&xorb.bytes[..], b"x"].concat();
    let error = fixture.put_xorb(&grant, xorb.info.hash(), &one_more).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// With memory for one body at a time the others wait their turn, and all get through.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_wait_for_memory_and_none_starves() {
    let fixture = TestStore::with_options(&Options { body_bytes_max: 4096, ..Options::default() }).await;
    let fixture = Arc::new(fixture);
    let uploads = (0..8).map(|seed| {
        let fixture = fixture.clone();
        tokio::spawn(async move {
            let (grant, data) = (writer("ann/repo"), corpus::text(seed, 200_000));
            let upload = Upload::of(&[&data], 100, Policy::Auto);
            fixture.upload(&grant, &upload).await.unwrap();
            assert!(fixture.read(&grant, upload.files[0].hash, None).await.unwrap() == data);
        })
    });
    for upload in uploads.collect::<Vec<_>>() {
        upload.await.unwrap();
    }
}

/// Genuine clients send zeros for the digest of nothing.
#[tokio::test]
async fn the_empty_file_is_found_by_its_true_digest() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let mut upload = Upload::of(&[b""], 100, Policy::Auto);
    let truth = upload.files[0].sha256.replace(Sha256::default()).unwrap();
    fixture.upload(&grant, &upload).await.unwrap();
    let found =
        testing::files_by_sha256(&fixture.catalog, grant.scope(), &[truth, Sha256::default()]).await.unwrap();
    assert_eq!(found, [(truth, FileHash::ZERO)]);
    assert!(fixture.read(&grant, FileHash::ZERO, None).await.unwrap().is_empty());
}

/// Fail at the first, second, third … operation, before or after it took effect: nothing half done is visible, and the
/// same upload again succeeds.
#[tokio::test]
async fn an_upload_survives_a_failure_at_every_step() {
    let grant = writer("ann/repo");
    let (data, upload) = sample();
    let mut steps = 0;
    for n in 1.. {
        let mut struck = false;
        for after in [false, true] {
            let fixture = TestStore::new().await;
            if after {
                fixture.faults.fail_after(n);
            } else {
                fixture.faults.fail_before(n);
            }
            let first = fixture.upload(&grant, &upload).await;
            let reached = fixture.faults.operations() >= n;
            fixture.faults.disarm();
            struck |= reached;
            assert_eq!(first.is_err(), reached, "{n}: {first:?}");
            if let Err(error) = &first {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{n}: {error}");
            }
            // All files or none, and what is visible is whole.
            let mut visible = 0;
            for (data, file) in data.iter().zip(&upload.files) {
                match fixture.read(&grant, file.hash, None).await {
                    Ok(read) => {
                        assert!(read == *data);
                        visible += 1;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                }
            }
            assert!(visible == 0 || visible == data.len(), "{n}: {visible} of {} files", data.len());
            // Every row has its object.
            let hashes: Vec<_> = upload.xorbs.iter().map(|xorb| xorb.info.hash()).collect();
            for row in testing::xorbs(&fixture.catalog, &hashes).await.unwrap() {
                let key = store::ObjectKey::Xorb(row.key);
                assert_eq!(fixture.store.objects().head(&key).await.unwrap(), Some(row.object_bytes));
            }

            fixture.upload(&grant, &upload).await.unwrap();
            for (data, file) in data.iter().zip(&upload.files) {
                assert!(fixture.read(&grant, file.hash, None).await.unwrap() == *data);
            }
        }
        if !struck {
            break;
        }
        steps = n;
    }
    assert!(steps >= upload.xorbs.len() as u64 * 3 + 3, "only {steps} steps");
}

/// Bytes we stored went bad: that is our fault, and is reported as such.
#[tokio::test]
async fn damage_in_the_store_is_corrupt_not_invalid() {
    let fixture = TestStore::new().await;
    let grant = writer("ann/repo");
    let data = corpus::noise(1, 500_000);
    let upload = Upload::of(&[&data], 100, Policy::Auto);
    fixture.upload(&grant, &upload).await.unwrap();
    let hash = upload.xorbs[0].info.hash();
    let row = testing::xorbs(&fixture.catalog, &[hash]).await.unwrap().remove(0);
    let key = store::ObjectKey::Xorb(row.key);

    // A store that has not seen the footer yet.
    let fresh = || {
        let catalog = fixture.catalog.clone();
        store::Store::new(
            fixture.store.objects().clone(),
            catalog,
            fixture.clock.clone(),
            &store::Options::default(),
        )
    };
    let range = Some(100_000..200_000);
    fresh().content().plan(&grant, upload.files[0].hash, range.clone()).await.unwrap();
    let mut bytes = fixture.store.objects().whole(&key).await.unwrap().to_vec();
    let at = bytes.len() - 200;
    bytes[at] ^= 1;
    fixture.store.objects().put(&key, vec![bytes.into()]).await.unwrap();
    let error = fresh().content().plan(&grant, upload.files[0].hash, range.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    fixture.store.objects().delete(&key).await.unwrap();
    let error = fresh().content().plan(&grant, upload.files[0].hash, range).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

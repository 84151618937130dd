//! The golden vectors through the store: uploads come out byte for byte, damage gets its verdict.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::collections::HashMap;

use common::{TestStore, Upload, writer};
use store::{ErrorKind, testing};
use testkit::Vectors;
use testkit::vectors::model::{AdversarialKind, Expect};
use xet::compress::Policy;
use xet::shard::Shard;
use xet::xorb::{Form, SealedXorb, XorbBuilder};
use xet::{ChunkHash, FileHash, XorbHash};

/// Every xorb of the set, in every form and compression: stored once, and its raw bytes come out.
#[tokio::test(flavor = "multi_thread")]
async fn every_xorb_is_taken_in_every_form() {
    let vectors = Vectors::open();
    let grant = writer("ann/repo");
    for xorb in &vectors.manifest.xorbs {
        let hash: XorbHash = xorb.xorb_hash.parse().unwrap();
        let fixture = TestStore::new().await;
        for (n, file) in xorb.files.iter().enumerate() {
            println!("{}", file.file);
            let stored = fixture.put_xorb(&grant, hash, &vectors.read(&file.file)).await.unwrap();
            assert_eq!(stored.was_inserted, n == 0);
        }
        let row = testing::xorbs(&fixture.catalog, &[hash]).await.unwrap().remove(0);
        assert_eq!((row.raw_bytes, row.chunk_count as usize), (xorb.raw_size, xorb.chunks.len()));
        let object = fixture.store.content().read(row.key, 0..row.object_bytes).await.unwrap();
        let scanned = xet::xorb::verify(&object, Some(hash), true).unwrap();
        assert_eq!((scanned.form, scanned.nonce), (Form::V1, [0; 4]));
    }
}

/// Every shard of the set, with the xorbs it speaks of made from the inputs.
#[tokio::test(flavor = "multi_thread")]
async fn every_shard_brings_its_files_back_byte_for_byte() {
    let vectors = Vectors::open();
    let grant = writer("ann/repo");
    for group in &vectors.manifest.shards {
        println!("{}", group.name);
        let fixture = TestStore::new().await;
        let inputs: Vec<_> = group.inputs.iter().map(|input| vectors.make(&input.recipe)).collect();
        let mut chunks: HashMap<ChunkHash, &[u8]> = HashMap::new();
        let mut files: HashMap<FileHash, &[u8]> = HashMap::new();
        for data in &inputs {
            let mut start = 0;
            for end in xet::chunk::cut(data) {
                chunks.insert(ChunkHash::of(&data[start..end]), &data[start..end]);
                start = end;
            }
            files.insert(Upload::of(&[data], 1000, Policy::Auto).files[0].hash, data);
        }
        let upload = group.files.iter().find(|file| file.form.kind == "upload").unwrap();
        let bytes = vectors.read(&upload.file);
        let shard = Shard::parse_upload(&bytes).unwrap();
        for (n, xorb) in shard.xorbs.iter().enumerate() {
            let missing = fixture.register(&grant, &bytes).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::Invalid, "{n} xorbs are there: {missing}");
            let sealed = build(xorb.chunks.iter().map(|chunk| chunks[&chunk.hash]));
            fixture.put_xorb(&grant, xorb.hash, &sealed.bytes).await.unwrap();
        }
        let registered = fixture.register(&grant, &bytes).await;
        if !group.with_verification && shard.files.iter().any(|file| !file.terms.is_empty()) {
            // Uploads must prove that they know the chunks.
            assert_eq!(registered.unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(fixture.state().await.0.files, 0);
            continue;
        }
        // A shard without files and xorbs adds nothing to the repository.
        let adds = !(shard.files.is_empty() && shard.xorbs.is_empty());
        assert_eq!(registered.unwrap().was_inserted, adds);
        for file in &shard.files {
            let read = fixture.read(&grant, file.hash, None).await.unwrap();
            assert!(read == files[&file.hash], "{}", file.hash);
            if let Some(sha256) = file.sha256 {
                let found =
                    testing::files_by_sha256(&fixture.catalog, grant.scope(), &[sha256]).await.unwrap();
                assert!(found.contains(&(sha256, file.hash)));
            }
        }
        // The stored form says the same, with true lengths.
        let (counts, paths) = fixture.state().await;
        assert_eq!(counts.shards, 1);
        let stored = paths.iter().find(|path| path.starts_with("shards/")).unwrap().parse().unwrap();
        let stored =
            xet::shard::verify_stored(&fixture.store.objects().whole(&stored).await.unwrap()).unwrap();
        assert_eq!(stored.files.len(), shard.files.len());
        assert!(stored.xorbs.iter().all(|xorb| xorb.stored_bytes > 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_adversarial_file_gets_its_verdict_and_a_refused_one_changes_nothing() {
    let vectors = Vectors::open();
    let grant = writer("ann/repo");
    let mut seen = HashMap::new();
    for case in &vectors.manifest.adversarial {
        let bytes = vectors.read(&case.file);
        let fixture = TestStore::new().await;
        let is_xorb = matches!(case.kind, AdversarialKind::XorbFooter | AdversarialKind::XorbFooterless);
        if !is_xorb {
            with_xorbs_of_shards(&vectors, &fixture).await;
        }
        let before = fixture.state().await;
        let refused = match is_xorb {
            true => {
                let hash = case.xorb_hash.as_ref().unwrap().parse().unwrap();
                fixture.put_xorb(&grant, hash, &bytes).await.map(|_| ()).err()
            }
            false => fixture.register(&grant, &bytes).await.map(|_| ()).err(),
        };
        println!("{}: {:?}", case.file, refused.as_ref().map(ToString::to_string));
        match (case.kind, case.expect) {
            // As an upload, a shard ends at its second bookend: damage behind it is nobody's concern.
            (AdversarialKind::ShardStored, _) | (_, Expect::Unspecified) => {}
            (_, Expect::Accept) => assert!(refused.is_none(), "{}", case.file),
            (_, Expect::Reject) => assert!(refused.is_some(), "{}", case.file),
        }
        if let Some(error) = refused {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{}: {error}", case.file);
            assert_eq!(fixture.state().await, before, "{}", case.file);
        }
        *seen.entry(is_xorb).or_insert(0) += 1;
    }
    assert!(seen[&true] > 10 && seen[&false] > 10, "{seen:?}");
}

/// Stores every xorb that some shard of the set speaks of, so that only what is wrong with a case itself shows.
async fn with_xorbs_of_shards(vectors: &Vectors, fixture: &TestStore) {
    let mut chunks: HashMap<ChunkHash, Vec<u8>> = HashMap::new();
    for group in &vectors.manifest.shards {
        for input in &group.inputs {
            let data = vectors.make(&input.recipe);
            let mut start = 0;
            for end in xet::chunk::cut(&data) {
                chunks.insert(ChunkHash::of(&data[start..end]), data[start..end].to_vec());
                start = end;
            }
        }
        let upload = group.files.iter().find(|file| file.form.kind == "upload").unwrap();
        for xorb in Shard::parse_upload(&vectors.read(&upload.file)).unwrap().xorbs {
            let sealed = build(xorb.chunks.iter().map(|chunk| &chunks[&chunk.hash][..]));
            fixture.put_xorb(&writer("ann/repo"), xorb.hash, &sealed.bytes).await.unwrap();
        }
    }
}

fn build<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> SealedXorb {
    let mut builder = XorbBuilder::new(Policy::Auto);
    chunks.for_each(|chunk| builder.push(ChunkHash::of(chunk), chunk).unwrap());
    builder.seal(Form::Footerless).unwrap()
}

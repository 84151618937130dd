//! Shards against the golden vectors: bytes, answers and verdicts of the reference.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::BTreeSet;

use crate::hash::HashKey;
use crate::shard::dedup_response::{self, DedupResponseOptions};
use crate::shard::{
    ChunkEntry, FileEntry, Footer, Form, LookupTables, Shard, ShardBuilder, ShardView, StoredOptions, Term,
    XorbEntry, build, verify_stored, verify_upload,
};
use crate::{ChunkHash, Hash, XorbHash};
use testkit::vectors::model::{AdversarialKind, Expect, Shard as Group, ShardFile};
use testkit::vectors::{Kind, Vectors};

#[test]
fn every_shard_is_parsed_as_the_reference_parses_it() {
    for_each_shard(|_, listed, bytes| {
        let shard = parse(listed, bytes);
        assert_eq!(shard.files, files(listed));
        assert_eq!(shard.xorbs, xorbs(listed));
        assert_eq!(shard.header.footer_bytes, listed.header_footer_size);
        assert_eq!(shard.footer, footer(listed));

        let tables = shard.tables.unwrap_or_default();
        let files: Vec<_> = tables.files.iter().map(|e| (format!("{:016x}", e.prefix), e.row)).collect();
        let xorbs: Vec<_> = tables.xorbs.iter().map(|e| (format!("{:016x}", e.prefix), e.row)).collect();
        let chunks = tables.chunks.iter().map(|e| (format!("{:016x}", e.prefix), e.row, e.chunk));
        assert_eq!(files, listed.file_lookup.clone().unwrap_or_default());
        assert_eq!(xorbs, listed.cas_lookup.clone().unwrap_or_default());
        assert_eq!(chunks.collect::<Vec<_>>(), listed.chunk_lookup.clone().unwrap_or_default());
    });
}

#[test]
fn every_shard_is_encoded_again_to_the_same_bytes() {
    for_each_shard(|_, listed, bytes| assert!(parse(listed, bytes).encode().unwrap() == bytes));
}

/// From the upload alone, every other form of the same content: flags, keys, tables, totals.
#[test]
fn every_form_follows_from_the_upload() {
    let mut forms = BTreeSet::new();
    for_each_shard(|group, listed, bytes| {
        let upload = upload_of(group);
        let mut builder = ShardBuilder::default();
        // Backwards, so that sorting has something to do.
        files(upload).into_iter().rev().for_each(|file| assert!(builder.push_file(file)));
        xorbs(upload).into_iter().rev().for_each(|xorb| assert!(builder.push_xorb(xorb)));
        files(upload).into_iter().for_each(|file| assert!(!builder.push_file(file)));

        let form = &listed.form;
        forms.insert(form.kind.clone());
        let key = form.hmac_key.as_deref().map_or(HashKey::ZERO, key);
        let created_s = listed.footer.as_ref().map_or(0, |footer| footer.shard_creation_timestamp);
        let expires_s = created_s + u64::try_from(form.valid_for.unwrap_or_default()).unwrap();
        let bare = StoredOptions { tables: LookupTables::NONE, key: HashKey::ZERO, created_s, expires_s: 0 };
        let built = match form.kind.as_str() {
            "upload" => {
                assert_eq!(builder.upload_bytes(), bytes.len() as u64);
                builder.encode(&Form::Upload)
            }
            "stored" => builder.encode(&Form::Stored(StoredOptions::LOCAL)),
            "minimal" => {
                builder.flag_file_starts();
                if form.with_verification == Some(false) {
                    builder.drop_verification();
                }
                assert_eq!(builder.upload_bytes() + Footer::LEN as u64, bytes.len() as u64);
                builder.encode(&Form::Stored(bare))
            }
            "xorb_only" => {
                builder.flag_file_starts();
                builder.drop_files();
                assert_eq!(builder.upload_bytes() + Footer::LEN as u64, bytes.len() as u64);
                builder.encode(&Form::Stored(bare))
            }
            "dedup" => {
                builder.flag_file_starts();
                let tables = form.chunk_lookup == Some(true);
                dedup_response::encode(
                    builder.finish().1,
                    &DedupResponseOptions { key, created_s, expires_s, tables },
                )
            }
            "keyed_full" => {
                builder.key_chunks(&key);
                builder.encode(&Form::Stored(StoredOptions {
                    tables: LookupTables::ALL,
                    key,
                    created_s,
                    expires_s,
                }))
            }
            other => panic!("a form nobody knows: {other}"),
        };
        assert!(built.unwrap() == bytes, "bytes differ");
    });
    assert_eq!(forms.len(), 6, "{forms:?}");
}

#[test]
fn every_shard_agrees_with_itself() {
    for_each_shard(|_, listed, bytes| {
        if listed.footer.is_none() {
            verify_upload(bytes).unwrap();
            return;
        }
        let keyed = !verify_stored(bytes).unwrap().key().is_zero();
        // Read as an upload, a keyed shard has lost its key, and its hashes contradict each other.
        assert_eq!(verify_upload(bytes).is_err(), keyed);
    });
}

#[test]
fn a_view_finds_everything_and_nothing_else() {
    for_each_shard(|_, listed, bytes| {
        if listed.footer.is_none() {
            assert!(ShardView::new(bytes).is_err());
            return;
        }
        let view = ShardView::new(bytes).unwrap();
        for xorb in xorbs(listed) {
            assert_eq!(view.chunk_count(&xorb.hash).unwrap(), Some(xorb.chunks.len() as u32));
        }
        for absent in [Hash::new([7; 32]), Hash::new([0xff; 32])] {
            assert_eq!(view.chunk_count(&XorbHash(absent)).unwrap(), None);
            assert_eq!(view.chunk(&ChunkHash(absent)).unwrap(), None);
        }
    });
}

/// The reference answered these with tables; without them our answers must be the same.
#[test]
fn dedup_queries_are_answered_as_the_reference_answers_them() {
    let mut answered = 0;
    for_each_shard(|group, listed, bytes| {
        let Some(queries) = &listed.dedup_queries else { return };
        let plain = xorbs(upload_of(group));
        let shard = Shard::parse_stored(bytes).unwrap();
        let Form::Stored(footing) = shard.form() else { panic!("a stored shard") };
        let bare = Form::Stored(StoredOptions { tables: LookupTables::NONE, ..footing });
        let bare = build::encode(&shard.files, &shard.xorbs, &bare).unwrap();
        for query in queries {
            let first: ChunkHash = query.first_chunk_hash.parse().unwrap();
            let run = plain.iter().find_map(|xorb| {
                let start = xorb.chunks.iter().position(|chunk| chunk.hash == first)?;
                xorb.chunks.get(start..start + query.num_query)
            });
            let hashes: Vec<_> = run.expect("a run of some xorb").iter().map(|chunk| chunk.hash).collect();
            for bytes in [bytes, &bare] {
                let found = ShardView::new(bytes).unwrap().dedup(&hashes).unwrap().unwrap();
                assert_eq!(found.xorb.to_string(), query.result.xorb_hash);
                assert_eq!(found.chunks, query.result.chunk_index_start..query.result.chunk_index_end);
                assert_eq!(found.raw_bytes, u64::from(query.result.unpacked_segment_bytes));
                assert_eq!(found.matched, query.result.matched);
            }
            answered += 1;
        }
    });
    assert!(answered > 0);
}

#[test]
fn damaged_shards_get_the_verdict_of_the_specification() {
    let vectors = Vectors::open();
    let mut seen = 0;
    for case in &vectors.manifest.adversarial {
        let verify: fn(&[u8]) -> Result<Shard, _> = match case.kind {
            AdversarialKind::ShardUpload => verify_upload,
            AdversarialKind::ShardStored => verify_stored,
            _ => continue,
        };
        let verdict = verify(&vectors.read(&case.file));
        match case.expect {
            Expect::Accept => assert!(verdict.is_ok(), "{}: {verdict:?}", case.file),
            Expect::Reject => assert!(verdict.is_err(), "{} was accepted", case.file),
            Expect::Unspecified => println!("{}: {:?}", case.file, verdict.err()),
        }
        seen += 1;
    }
    assert!(vectors.kind == Kind::Committed || seen >= 18, "only {seen}");
}

#[test]
fn published_shards_are_understood() {
    let vectors = Vectors::open();
    let Some(official) = &vectors.manifest.official else { return };
    let ev = &official.ev_population;
    let shard = |name: &str| vectors.read(&ev.shards[name]);

    for name in ["shard", "shard.verification", "shard.dedupe"] {
        assert!(verify_stored(&shard(name)).unwrap().encode().unwrap() == shard(name), "{name}");
    }
    let bytes = shard("shard.verification-no-footer");
    let upload = verify_upload(&bytes).unwrap();
    assert!(upload.encode().unwrap() == bytes);
    let [file] = &upload.files[..] else { panic!("one file") };
    assert_eq!(file.hash.to_string(), ev.file_hash);
    assert_eq!(file.sha256.unwrap().to_string(), ev.sha256);
    assert_eq!(file.verification.as_ref().unwrap()[0].to_string(), ev.range_hash_all_chunks);
    assert_eq!(file.raw_bytes(), ev.size);

    // The answer follows from the upload, and finds its chunks.
    let dedup = shard("shard.dedupe");
    let Footer { created_s, expires_s, .. } = Shard::parse_stored(&dedup).unwrap().footer.unwrap();
    let options = DedupResponseOptions { key: key(&ev.dedupe_hmac_key), created_s, expires_s, tables: false };
    assert!(dedup_response::encode(upload.xorbs.clone(), &options).unwrap() == dedup);
    let hashes: Vec<_> = upload.xorbs[0].chunks.iter().map(|chunk| chunk.hash).collect();
    let found = ShardView::new(&dedup).unwrap().dedup(&hashes[100..]).unwrap().unwrap();
    assert_eq!((found.chunks, found.matched), (100..796, 696));

    let gpt2 = &official.gpt2_dedup_shard;
    let bytes = vectors.read(&gpt2.shard);
    let shard = verify_stored(&bytes).unwrap();
    assert!(shard.encode().unwrap() == bytes);
    let hash: ChunkHash = gpt2.known_chunk.hash.parse().unwrap();
    let (xorb, chunk) = ShardView::new(&bytes).unwrap().chunk(&hash).unwrap().unwrap();
    assert_eq!(xorb, shard.xorbs[gpt2.known_chunk.xorb].hash);
    assert_eq!(chunk as usize, gpt2.known_chunk.chunk);
}

fn for_each_shard(mut visit: impl FnMut(&Group, &ShardFile, &[u8])) {
    let vectors = Vectors::open();
    for group in &vectors.manifest.shards {
        for listed in &group.files {
            println!("{}", listed.file);
            let bytes = vectors.read(&listed.file);
            assert_eq!(bytes.len() as u64, listed.size);
            visit(group, listed, &bytes);
        }
    }
}

fn upload_of(group: &Group) -> &ShardFile {
    group.files.iter().find(|listed| listed.form.kind == "upload").expect("each group has an upload")
}

fn parse(listed: &ShardFile, bytes: &[u8]) -> Shard {
    match listed.footer {
        Some(_) => Shard::parse_stored(bytes).unwrap(),
        None => Shard::parse_upload(bytes).unwrap(),
    }
}

fn files(listed: &ShardFile) -> Vec<FileEntry> {
    let mut files = Vec::new();
    for block in &listed.files {
        let terms = block.terms.iter().map(|term| Term {
            xorb: term.xorb_hash.parse().unwrap(),
            flags: term.cas_flags,
            raw_bytes: term.unpacked_segment_bytes,
            chunks: term.chunk_index_start..term.chunk_index_end,
        });
        let verification = block.verification.iter().map(|hash| hash.parse().unwrap()).collect();
        files.push(FileEntry {
            hash: block.file_hash.parse().unwrap(),
            terms: terms.collect(),
            verification: (block.file_flags >> 31 == 1).then_some(verification),
            sha256: block.sha256_hash_string.as_ref().map(|digest| digest.parse().unwrap()),
        });
    }
    files
}

fn xorbs(listed: &ShardFile) -> Vec<XorbEntry> {
    let mut xorbs = Vec::new();
    for block in &listed.xorbs {
        let chunks = block.chunks.iter().map(|(hash, raw_start, raw_bytes, flags)| ChunkEntry {
            hash: hash.parse().unwrap(),
            raw_start: *raw_start,
            raw_bytes: *raw_bytes,
            flags: *flags,
        });
        xorbs.push(XorbEntry {
            hash: block.xorb_hash.parse().unwrap(),
            flags: block.cas_flags,
            raw_bytes: block.num_bytes_in_cas,
            stored_bytes: block.num_bytes_on_disk,
            chunks: chunks.collect(),
        });
    }
    xorbs
}

fn footer(listed: &ShardFile) -> Option<Footer> {
    listed.footer.as_ref().map(|footer| Footer {
        file_section_offset: footer.file_info_offset,
        xorb_section_offset: footer.cas_info_offset,
        file_table_offset: footer.file_lookup_offset,
        file_table_entries: footer.file_lookup_num_entry,
        xorb_table_offset: footer.cas_lookup_offset,
        xorb_table_entries: footer.cas_lookup_num_entry,
        chunk_table_offset: footer.chunk_lookup_offset,
        chunk_table_entries: footer.chunk_lookup_num_entry,
        key: key(&footer.chunk_hash_hmac_key),
        created_s: footer.shard_creation_timestamp,
        expires_s: footer.expiry(),
        xorbs_stored_bytes: footer.stored_bytes_on_disk,
        files_raw_bytes: footer.materialized_bytes,
        xorbs_raw_bytes: footer.stored_bytes,
        footer_offset: footer.footer_offset,
    })
}

fn key(text: &str) -> HashKey {
    HashKey::new(*text.parse::<Hash>().unwrap().as_bytes())
}

//! Shards against golden data: bytes, answers and verdicts of the reference.
//!
//! The data lies beside the repository, in `../shared/vectors`, or where `DRYSTONE_VECTORS` says. Without it these tests
//! say so and pass.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use xet::hash::HashKey;
use xet::shard::keyed::{self, AnswerOptions};
use xet::shard::{
    ChunkEntry, FileEntry, Footing, Form, Shard, ShardBuilder, ShardView, TableChoice, Tables, Term,
    XorbEntry, verify_stored, verify_upload,
};
use xet::{ChunkHash, Hash};

#[test]
fn every_shard_is_parsed_as_the_reference_parses_it() {
    for_each_shard(|_, file, bytes| {
        let shard = parse(file, bytes);
        assert_eq!(shard.files, files(file));
        assert_eq!(shard.xorbs, xorbs(file));
        assert_eq!(shard.header.footer_bytes, number(&file["header_footer_size"]));
        let Some(footer) = &shard.footer else {
            assert!(file["footer"].is_null());
            return;
        };
        let said = &file["footer"];
        for (found, name) in [
            (footer.file_section_offset, "file_info_offset"),
            (footer.xorb_section_offset, "cas_info_offset"),
            (footer.file_table_offset, "file_lookup_offset"),
            (footer.file_table_entries, "file_lookup_num_entry"),
            (footer.xorb_table_offset, "cas_lookup_offset"),
            (footer.xorb_table_entries, "cas_lookup_num_entry"),
            (footer.chunk_table_offset, "chunk_lookup_offset"),
            (footer.chunk_table_entries, "chunk_lookup_num_entry"),
            (footer.created_s, "shard_creation_timestamp"),
            (footer.expires_s, "shard_key_expiry"),
            (footer.xorbs_stored_bytes, "stored_bytes_on_disk"),
            (footer.files_raw_bytes, "materialized_bytes"),
            (footer.xorbs_raw_bytes, "stored_bytes"),
            (footer.footer_offset, "footer_offset"),
        ] {
            assert_eq!(found, number(&said[name]), "{name}");
        }
        assert_eq!(footer.key, key(&said["chunk_hash_hmac_key"]));
        let tables = shard.tables.clone().unwrap_or_default();
        let files = tables.files.iter().map(|e| (e.prefix, e.record, 0));
        let xorbs = tables.xorbs.iter().map(|e| (e.prefix, e.record, 0));
        let chunks = tables.chunks.iter().map(|e| (e.prefix, e.record, e.chunk));
        assert!(files.eq(table(&file["file_lookup"])));
        assert!(xorbs.eq(table(&file["cas_lookup"])));
        assert!(chunks.eq(table(&file["chunk_lookup"])));
    });
}

#[test]
fn every_shard_is_encoded_again_to_the_same_bytes() {
    for_each_shard(|_, file, bytes| {
        let shard = parse(file, bytes);
        assert_eq!(shard.encode().unwrap(), bytes);
        assert_eq!(shard.tables.unwrap_or_default().is_empty(), {
            let tables = Tables::of(&shard.files, &shard.xorbs);
            tables.is_empty()
                || file["footer"]["chunk_lookup_num_entry"].as_u64().unwrap_or(0) == 0
                    && file["footer"]["file_lookup_num_entry"].as_u64().unwrap_or(0) == 0
        });
    });
}

/// From the upload alone, every other form of the same content: flags, keys, tables, totals.
#[test]
fn every_form_follows_from_the_upload() {
    let mut forms = BTreeMap::<String, usize>::new();
    for_each_shard(|group, file, bytes| {
        let upload =
            group["files"].as_array().unwrap().iter().find(|file| text(&file["form"]["kind"]) == "upload");
        let upload = upload.expect("each group has an upload");
        let mut builder = ShardBuilder::default();
        // Backwards, so that sorting has something to do.
        files(upload).into_iter().rev().for_each(|file| assert!(builder.push_file(file)));
        xorbs(upload).into_iter().rev().for_each(|xorb| assert!(builder.push_xorb(xorb)));
        files(upload).into_iter().for_each(|file| assert!(!builder.push_file(file)));

        let kind = text(&file["form"]["kind"]);
        *forms.entry(kind.to_owned()).or_default() += 1;
        let footer = &file["footer"];
        let created_s = footer["shard_creation_timestamp"].as_u64().unwrap_or_default();
        let no_tables = Footing { tables: TableChoice::NONE, key: HashKey::ZERO, created_s, expires_s: 0 };
        let built = match kind {
            "upload" => {
                assert_eq!(builder.upload_bytes(), bytes.len() as u64);
                builder.encode(&Form::Upload)
            }
            "stored" => builder.encode(&Form::Stored(Footing::LOCAL)),
            "minimal" => {
                builder.flag_file_starts();
                if file["form"]["with_verification"] == false {
                    builder.drop_verification();
                }
                assert_eq!(builder.upload_bytes() + 200, bytes.len() as u64);
                builder.encode(&Form::Stored(no_tables))
            }
            "xorb_only" => {
                builder.flag_file_starts();
                builder.drop_files();
                assert_eq!(builder.upload_bytes() + 200, bytes.len() as u64);
                builder.encode(&Form::Stored(no_tables))
            }
            "dedup" => {
                builder.flag_file_starts();
                let (_, xorbs) = builder.finish();
                keyed::answer(
                    xorbs,
                    &AnswerOptions {
                        key: key(&file["form"]["hmac_key"]),
                        created_s,
                        expires_s: created_s + number(&file["form"]["valid_for"]),
                        tables: file["form"]["chunk_lookup"] == true,
                    },
                )
            }
            "keyed_full" => {
                let key = key(&file["form"]["hmac_key"]);
                builder.key_chunks(&key);
                let expires_s = created_s + number(&file["form"]["valid_for"]);
                builder.encode(&Form::Stored(Footing { tables: TableChoice::ALL, key, created_s, expires_s }))
            }
            other => panic!("a form nobody knows: {other}"),
        };
        assert!(built.unwrap() == bytes, "bytes differ");
    });
    if !forms.is_empty() {
        assert_eq!(forms.len(), 6, "{forms:?}");
    }
}

#[test]
fn every_shard_agrees_with_itself() {
    for_each_shard(|_, file, bytes| {
        if !file["footer"].is_null() {
            let keyed = !verify_stored(bytes).unwrap().key().is_zero();
            // Read as an upload, a keyed shard has lost its key, and its hashes contradict each other.
            assert_eq!(verify_upload(bytes).is_err(), keyed);
            return;
        }
        verify_upload(bytes).unwrap();
    });
}

#[test]
fn a_view_finds_everything_and_nothing_else() {
    for_each_shard(|_, file, bytes| {
        if file["footer"].is_null() {
            assert!(ShardView::new(bytes).is_err());
            return;
        }
        let view = ShardView::new(bytes).unwrap();
        for entry in files(file) {
            assert_eq!(view.file(&entry.hash).unwrap().as_ref(), Some(&entry));
        }
        for entry in xorbs(file) {
            assert_eq!(view.xorb(&entry.hash).unwrap().as_ref(), Some(&entry));
        }
        for absent in [Hash::new([7; 32]), Hash::new([0xff; 32])] {
            assert_eq!(view.file(&xet::FileHash(absent)).unwrap(), None);
            assert_eq!(view.xorb(&xet::XorbHash(absent)).unwrap(), None);
            assert_eq!(view.chunk(&ChunkHash(absent)).unwrap(), None);
        }
    });
}

/// The reference answered these with tables; without them our answers must be the same.
#[test]
fn dedup_queries_are_answered_as_the_reference_answers_them() {
    let mut asked = 0;
    for_each_shard(|group, file, bytes| {
        let Some(queries) = file["dedup_queries"].as_array() else { return };
        let upload =
            group["files"].as_array().unwrap().iter().find(|file| text(&file["form"]["kind"]) == "upload");
        let plain = xorbs(upload.unwrap());
        let shard = Shard::parse_stored(bytes).unwrap();
        let Form::Stored(footing) = shard.form() else { unreachable!() };
        let bare = Form::Stored(Footing { tables: TableChoice::NONE, ..footing });
        let bare = xet::shard::build::encode(&shard.files, &shard.xorbs, &bare).unwrap();
        for query in queries {
            let first: ChunkHash = text(&query["first_chunk_hash"]).parse().unwrap();
            let count = number(&query["num_query"]) as usize;
            let chunks = plain
                .iter()
                .find_map(|xorb| {
                    let start = xorb.chunks.iter().position(|chunk| chunk.hash == first)?;
                    xorb.chunks.get(start..start + count)
                })
                .expect("the query is a run of some xorb");
            let hashes: Vec<_> = chunks.iter().map(|chunk| chunk.hash).collect();
            for bytes in [bytes, &bare] {
                let found = ShardView::new(bytes).unwrap().dedup(&hashes).unwrap();
                let expected = &query["result"];
                let Some(found) = found else {
                    assert!(expected.is_null());
                    continue;
                };
                assert_eq!(found.xorb.to_string(), text(&expected["xorb_hash"]));
                assert_eq!(u64::from(found.chunks.start), number(&expected["chunk_index_start"]));
                assert_eq!(u64::from(found.chunks.end), number(&expected["chunk_index_end"]));
                assert_eq!(found.raw_bytes, number(&expected["unpacked_segment_bytes"]));
                assert_eq!(found.matched as u64, number(&expected["matched"]));
            }
            asked += 1;
        }
    });
    println!("{asked} queries");
}

#[test]
fn damaged_shards_get_the_verdict_of_the_specification() {
    let Some((root, manifest)) = manifest() else { return };
    let mut seen = 0;
    for case in manifest["adversarial"].as_array().unwrap() {
        let name = text(&case["file"]);
        let verify: fn(&[u8]) -> Result<Shard, _> = match text(&case["kind"]) {
            "shard_upload" => verify_upload,
            "shard_stored" => verify_stored,
            _ => continue,
        };
        let verdict = verify(&std::fs::read(root.join(name)).unwrap());
        match text(&case["expect"]) {
            "accept" => assert!(verdict.is_ok(), "{name}: {verdict:?}"),
            "reject" => assert!(verdict.is_err(), "{name} was accepted"),
            _ => println!("{name}: {:?}", verdict.err()),
        }
        seen += 1;
    }
    assert!(seen >= 18, "only {seen}");
}

#[test]
fn published_shards_are_understood() {
    let Some((root, manifest)) = manifest() else { return };
    let official = &manifest["official"];
    let ev = &official["ev_population"];
    let read = |name: &Value| std::fs::read(root.join(text(name))).ok();
    let (Some(plain), Some(verified), Some(bare), Some(dedup)) = (
        read(&ev["shards"]["shard"]),
        read(&ev["shards"]["shard.verification"]),
        read(&ev["shards"]["shard.verification-no-footer"]),
        read(&ev["shards"]["shard.dedupe"]),
    ) else {
        println!("no published shards here");
        return;
    };

    for stored in [&plain, &verified, &dedup] {
        assert_eq!(verify_stored(stored).unwrap().encode().unwrap(), *stored);
    }
    let upload = verify_upload(&bare).unwrap();
    assert_eq!(upload.encode().unwrap(), bare);
    let [file] = &upload.files[..] else { panic!("one file") };
    assert_eq!(file.hash.to_string(), text(&ev["file_hash"]));
    assert_eq!(file.sha256.unwrap().to_string(), text(&ev["sha256"]));
    assert_eq!(file.verification.as_ref().unwrap()[0].to_string(), text(&ev["range_hash_all_chunks"]));

    // The answer follows from the upload.
    let footer = Shard::parse_stored(&dedup).unwrap().footer.unwrap();
    let (created_s, expires_s) = (footer.created_s, footer.expires_s);
    let options = AnswerOptions { key: key(&ev["dedupe_hmac_key"]), created_s, expires_s, tables: false };
    assert!(keyed::answer(upload.xorbs.clone(), &options).unwrap() == dedup);
    let hashes: Vec<_> = upload.xorbs[0].chunks.iter().map(|chunk| chunk.hash).collect();
    let found = ShardView::new(&dedup).unwrap().dedup(&hashes[100..]).unwrap().unwrap();
    assert_eq!((found.chunks, found.matched), (100..796, 696));

    let gpt2 = &official["gpt2_dedup_shard"];
    let Some(bytes) = read(&gpt2["shard"]) else { return };
    assert_eq!(verify_stored(&bytes).unwrap().encode().unwrap(), bytes);
    let known = &gpt2["known_chunk"];
    let hash: ChunkHash = text(&known["hash"]).parse().unwrap();
    let (xorb, chunk) = ShardView::new(&bytes).unwrap().chunk(&hash).unwrap().unwrap();
    let xorbs = Shard::parse_stored(&bytes).unwrap().xorbs;
    assert_eq!(xorb, xorbs[number(&known["xorb"]) as usize].hash);
    assert_eq!(u64::from(chunk), number(&known["chunk"]));
}

fn for_each_shard(mut visit: impl FnMut(&Value, &Value, &[u8])) {
    let Some((root, manifest)) = manifest() else { return };
    for group in manifest["shards"].as_array().unwrap() {
        for file in group["files"].as_array().unwrap() {
            let name = text(&file["file"]);
            println!("{name}");
            let bytes = std::fs::read(root.join(name)).unwrap();
            assert_eq!(bytes.len() as u64, number(&file["size"]));
            visit(group, file, &bytes);
        }
    }
}

fn manifest() -> Option<(PathBuf, Value)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors");
    let root = std::env::var_os("DRYSTONE_VECTORS").map_or_else(|| beside.into(), PathBuf::from);
    let Ok(text) = std::fs::read(root.join("manifest.json")) else {
        println!("no golden data here");
        return None;
    };
    Some((root, serde_json::from_slice(&text).unwrap()))
}

fn parse(file: &Value, bytes: &[u8]) -> Shard {
    if file["footer"].is_null() {
        Shard::parse_upload(bytes).unwrap()
    } else {
        Shard::parse_stored(bytes).unwrap()
    }
}

fn files(file: &Value) -> Vec<FileEntry> {
    let entry = |file: &Value| FileEntry {
        hash: text(&file["file_hash"]).parse().unwrap(),
        terms: list(&file["terms"], |term| Term {
            xorb: text(&term["xorb_hash"]).parse().unwrap(),
            flags: narrow(&term["cas_flags"]),
            raw_bytes: narrow(&term["unpacked_segment_bytes"]),
            chunks: narrow(&term["chunk_index_start"])..narrow(&term["chunk_index_end"]),
        }),
        verification: (narrow(&file["file_flags"]) >> 31 == 1)
            .then(|| list(&file["verification"], |hash| text(hash).parse().unwrap())),
        sha256: file["sha256_hash_string"].as_str().map(|hash| hash.parse().unwrap()),
    };
    list(&file["files"], entry)
}

fn xorbs(file: &Value) -> Vec<XorbEntry> {
    let entry = |xorb: &Value| XorbEntry {
        hash: text(&xorb["xorb_hash"]).parse().unwrap(),
        flags: narrow(&xorb["cas_flags"]),
        raw_bytes: narrow(&xorb["num_bytes_in_cas"]),
        stored_bytes: narrow(&xorb["num_bytes_on_disk"]),
        chunks: list(&xorb["chunks"], |chunk| ChunkEntry {
            hash: text(&chunk[0]).parse().unwrap(),
            raw_start: narrow(&chunk[1]),
            raw_bytes: narrow(&chunk[2]),
            flags: narrow(&chunk[3]),
        }),
    };
    list(&file["xorbs"], entry)
}

fn table(entries: &Value) -> impl Iterator<Item = (u64, u32, u32)> {
    entries.as_array().unwrap().iter().map(|entry| {
        let chunk = if entry[2].is_null() { 0 } else { narrow(&entry[2]) };
        (u64::from_str_radix(text(&entry[0]), 16).unwrap(), narrow(&entry[1]), chunk)
    })
}

fn key(value: &Value) -> HashKey {
    HashKey::new(*text(value).parse::<Hash>().unwrap().as_bytes())
}

fn list<T>(value: &Value, entry: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().unwrap().iter().map(entry).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A number, written as one or as text.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| text(value).parse().unwrap())
}

fn narrow(value: &Value) -> u32 {
    number(value).try_into().unwrap()
}

//! `inspect`: every field of every golden file, and the text output.

use serde_json::{Value, json};
use testkit::Vectors;
use testkit::vectors::model::{FileBlock, ShardFile, ShardFooter, Term, Xorb, XorbBlock, XorbFile};

use super::{Folder, drystone, json, number, text, vector};

#[test]
fn every_xorb_is_shown_as_the_reference_reads_it() {
    let vectors = Vectors::open();
    for xorb in &vectors.manifest.xorbs {
        for file in &xorb.files {
            let path = vector(&vectors, &file.file);
            let found = json(drystone(["inspect", "--json", &path]));
            assert_eq!(found, described_xorb(xorb, file), "{}", file.file);
            agrees_with_the_footer(&found, file);

            let shown = drystone(["inspect", &path]).run().ok();
            assert!(shown.contains(&xorb.xorb_hash), "{shown}");
            assert!(shown.contains(&format!("chunks  {}\n", xorb.chunks.len())), "{shown}");
            for (hash, _) in &xorb.chunks {
                assert!(shown.contains(hash), "{}: {hash}", file.file);
            }
        }
    }
}

fn described_xorb(xorb: &Xorb, file: &XorbFile) -> Value {
    let mut offset = 0;
    let chunks = xorb.chunks.iter().zip(&file.chunk_headers).map(|((hash, length), header)| {
        let (scheme, stored, raw) = *header;
        assert_eq!(*length, u64::from(raw));
        let at = offset;
        offset += 8 + u64::from(stored);
        let scheme = ["none", "lz4", "bg4-lz4"][usize::from(scheme)];
        json!({"hash": hash, "offset": at, "stored_bytes": stored, "raw_bytes": raw, "scheme": scheme})
    });
    let chunks: Vec<_> = chunks.collect();
    let footer = match file.form.as_str() {
        "footerless" => "none",
        "footer_v0" => "v0",
        "footer_v1" | "footer_v1_nonce" => "v1",
        other => panic!("a form nobody knows: {other}"),
    };
    let mut described = json!({
        "kind": "xorb",
        "hash": xorb.xorb_hash,
        "footer": footer,
        "size": file.size,
        "stored_bytes": file.chunk_region_size,
        "raw_bytes": xorb.raw_size,
        "chunks": chunks,
    });
    if let Some(footer) = &file.footer {
        described["nonce"] = json!(footer.nonce);
    }
    described
}

/// The footer says again what the chunks say.
fn agrees_with_the_footer(found: &Value, file: &XorbFile) {
    let Some(footer) = &file.footer else { return };
    let chunks = found["chunks"].as_array().unwrap();
    let mut raw_end = 0;
    assert_eq!(chunks.len(), footer.num_chunks as usize);
    for (n, chunk) in chunks.iter().enumerate() {
        raw_end += number(chunk, "raw_bytes");
        let stored_end = number(chunk, "offset") + 8 + number(chunk, "stored_bytes");
        assert_eq!(text(chunk, "hash"), footer.chunk_hashes[n]);
        assert_eq!(stored_end, u64::from(footer.chunk_boundary_offsets[n]));
        // The legacy footer does not say where raw chunks end.
        if footer.footer_version_on_disk == 1 {
            assert_eq!(raw_end, u64::from(footer.unpacked_chunk_offsets[n]));
        }
    }
    assert_eq!(found["size"], number(found, "stored_bytes") + u64::from(footer.info_length) + 4);
}

#[test]
fn every_shard_is_shown_as_the_reference_reads_it() {
    let vectors = Vectors::open();
    for file in vectors.manifest.shards.iter().flat_map(|shard| &shard.files) {
        let path = vector(&vectors, &file.file);
        let found = json(drystone(["inspect", "--json", &path]));
        assert_eq!(found, described_shard(file), "{}", file.file);

        let shown = drystone(["inspect", &path]).run().ok();
        for line in [format!("files   {}\n", file.files.len()), format!("xorbs   {}\n", file.xorbs.len())] {
            assert!(shown.contains(&line), "{}: {line}", file.file);
        }
        let hashes = file.files.iter().map(|file| &file.file_hash);
        for hash in hashes.chain(file.xorbs.iter().map(|xorb| &xorb.xorb_hash)) {
            assert!(shown.contains(hash.as_str()), "{}: {hash}", file.file);
        }
    }
}

fn described_shard(file: &ShardFile) -> Value {
    let mut described = json!({
        "kind": "shard",
        "header": {"version": file.header_version, "footer_size": file.header_footer_size},
        "files": file.files.iter().map(described_file).collect::<Vec<_>>(),
        "xorbs": file.xorbs.iter().map(described_block).collect::<Vec<_>>(),
    });
    let (files, xorbs, chunks) = (&file.file_lookup, &file.cas_lookup, &file.chunk_lookup);
    let entries =
        [files.iter().flatten().count(), xorbs.iter().flatten().count(), chunks.iter().flatten().count()];
    if entries != [0; 3] {
        let none = Vec::<()>::new;
        described["tables"] = json!({
            "files": files.as_ref().map_or_else(|| json!(none()), |entries| json!(entries)),
            "xorbs": xorbs.as_ref().map_or_else(|| json!(none()), |entries| json!(entries)),
            "chunks": chunks.as_ref().map_or_else(|| json!(none()), |entries| json!(entries)),
        });
    }
    if let Some(footer) = &file.footer {
        described["footer"] = described_footer(footer);
    }
    described
}

fn described_file(file: &FileBlock) -> Value {
    assert_eq!(file.terms.len(), file.num_entries as usize);
    let term = |(n, term): (usize, &Term)| {
        let mut described = json!({
            "xorb": term.xorb_hash,
            "flags": term.cas_flags,
            "chunks": [term.chunk_index_start, term.chunk_index_end],
            "raw_bytes": term.unpacked_segment_bytes,
        });
        if let Some(hash) = file.verification.get(n) {
            described["verification"] = json!(hash);
        }
        described
    };
    let mut described = json!({
        "hash": file.file_hash,
        "flags": file.file_flags,
        "size": file.terms.iter().map(|term| u64::from(term.unpacked_segment_bytes)).sum::<u64>(),
        "terms": file.terms.iter().enumerate().map(term).collect::<Vec<_>>(),
    });
    if let Some(sha256) = &file.sha256_hash_string {
        described["sha256"] = json!(sha256);
    }
    described
}

fn described_block(xorb: &XorbBlock) -> Value {
    assert_eq!(xorb.chunks.len(), xorb.num_entries as usize);
    let chunk = |(hash, start, bytes, flags): &(String, u32, u32, u32)| json!({"hash": hash, "raw_start": start, "raw_bytes": bytes, "flags": flags});
    json!({
        "hash": xorb.xorb_hash,
        "flags": xorb.cas_flags,
        "raw_bytes": xorb.num_bytes_in_cas,
        "stored_bytes": xorb.num_bytes_on_disk,
        "chunks": xorb.chunks.iter().map(chunk).collect::<Vec<_>>(),
    })
}

fn described_footer(footer: &ShardFooter) -> Value {
    json!({
        "version": footer.version,
        "file_section_offset": footer.file_info_offset,
        "xorb_section_offset": footer.cas_info_offset,
        "file_table_offset": footer.file_lookup_offset,
        "file_table_entries": footer.file_lookup_num_entry,
        "xorb_table_offset": footer.cas_lookup_offset,
        "xorb_table_entries": footer.cas_lookup_num_entry,
        "chunk_table_offset": footer.chunk_lookup_offset,
        "chunk_table_entries": footer.chunk_lookup_num_entry,
        "chunk_hash_key": footer.chunk_hash_hmac_key_raw_hex,
        "created": footer.shard_creation_timestamp,
        "expires": footer.expiry(),
        "xorbs_stored_bytes": footer.stored_bytes_on_disk,
        "files_raw_bytes": footer.materialized_bytes,
        "xorbs_raw_bytes": footer.stored_bytes,
        "footer_offset": footer.footer_offset,
    })
}

#[test]
fn published_files_are_shown_as_published() {
    let vectors = Vectors::open();
    let Some(official) = &vectors.manifest.official else { return };
    let ev = &official.ev_population;
    let chunks = vectors.chunks_file(&ev.chunks_file);
    for (name, file) in &ev.shards {
        let found = json(drystone(["inspect", "--json", &vector(&vectors, file)]));
        assert_eq!(text(&found["xorbs"][0], "hash"), ev.xorb_hash, "{name}");
        assert_eq!(found["xorbs"][0]["chunks"].as_array().unwrap().len(), ev.num_chunks, "{name}");
        if name == "shard.dedupe" {
            assert_eq!(found["files"], json!([]));
            continue;
        }
        for (found, (hash, length)) in found["xorbs"][0]["chunks"].as_array().unwrap().iter().zip(&chunks) {
            assert_eq!((text(found, "hash"), number(found, "raw_bytes")), (hash.as_str(), *length), "{name}");
        }
        let file = &found["files"][0];
        assert_eq!((text(file, "hash"), number(file, "size")), (ev.file_hash.as_str(), ev.size), "{name}");
        if name.starts_with("shard.verification") {
            assert_eq!(text(&file["terms"][0], "verification"), ev.range_hash_all_chunks, "{name}");
        }
        assert_eq!(found.get("footer").is_none(), name.ends_with("no-footer"), "{name}");
    }

    let found = json(drystone(["inspect", "--json", &vector(&vectors, &ev.xorb_prefix)]));
    let shown = found["chunks"].as_array().unwrap();
    assert_eq!((shown.len(), text(&found, "footer")), (ev.xorb_prefix_chunks, "none"));
    for (found, (hash, length)) in shown.iter().zip(&chunks) {
        assert_eq!((text(found, "hash"), number(found, "raw_bytes")), (hash.as_str(), *length));
    }

    let gpt2 = &official.gpt2_dedup_shard;
    let found = json(drystone(["inspect", "--json", &vector(&vectors, &gpt2.shard)]));
    let published: Value = serde_json::from_slice(&vectors.read(&gpt2.json)).unwrap();
    let hashes = |xorb: &Value| -> Value {
        let chunks = xorb["chunks"].as_array().unwrap().iter().map(|chunk| chunk["hash"].clone());
        json!({"hash": xorb["hash"], "chunk_hashes": chunks.collect::<Vec<_>>()})
    };
    let found: Vec<_> = found["xorbs"].as_array().unwrap().iter().map(hashes).collect();
    assert_eq!(json!(found), published["xorbs"]);
}

#[test]
fn a_damaged_xorb_is_shown_up_to_the_damage() {
    let folder = Folder::new();
    let input = folder.put("input", testkit::corpus::noise(5, 400_000));
    let xorb = folder.at("whole.xorb");
    drystone(["xorb", "build", &input, "-o", &xorb]).run().ok();
    let first_end = {
        let found = json(drystone(["inspect", "--json", &xorb]));
        number(&found["chunks"][1], "offset")
    };
    let mut bytes = folder.read("whole.xorb");
    bytes[usize::try_from(first_end).unwrap() + 3000] ^= 1;
    bytes.truncate(300_000);
    let cut = folder.put("cut.xorb", bytes);

    let ended = drystone(["inspect", &cut]).run();
    let shown = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(shown.lines().count() > 2, "{shown}");
    let complaint = ended.fails(1);
    assert!(complaint.contains("offset") && complaint.contains(&cut), "{complaint}");
    assert!(drystone(["inspect", "--json", &cut]).run().fails(1).contains("offset"));
}

#[test]
fn other_files_are_not_taken_for_ours() {
    let folder = Folder::new();
    for (name, bytes) in [("empty", vec![]), ("text", b"hello, world\n".to_vec()), ("zeros", vec![0; 5000])] {
        let path = folder.put(name, bytes);
        let complaint = drystone(["inspect", &path]).run().fails(1);
        assert!(complaint.contains(&path), "{complaint}");
    }
    let missing = folder.at("missing");
    assert!(drystone(["inspect", &missing]).run().fails(1).contains(&missing));
    assert!(drystone(["inspect", &folder.at("")]).run().fails(1).contains(&folder.at("")));
}

#[test]
fn a_pack_is_recognised_whole_or_cut() {
    let path = testkit::vectors::repository().join("testdata/packs/small.pack");
    let found = json(drystone(["inspect", "--json", path.to_str().unwrap()]));
    assert_eq!((text(&found, "kind"), number(&found["footer"], "record_count")), ("shardpack", 12));
    let footer = json!({
        "version": [1, 0], "record_count": 12, "index_offset": 5936, "index_size": 400,
        "keys_unique": true, "keys_sorted": false, "records_aligned": false,
    });
    let section = json!({
        "type": 1, "offset": 6040, "critical": false, "payload_bytes": 21, "text": "{\"creator\": \"MyName\"}",
    });
    let entry = json!({
        "name": "left.jpg", "content_type": "image/jpeg", "compression": "none",
        "file_size": 0, "stored_size": 0, "data_offset": 104, "sound": true,
    });
    let record = json!({
        "key": "images0/image000000", "offset": 0, "size": 104, "tombstone": false, "overlay": false,
        "metadata_format": 1, "metadata_bytes": 7, "entries": [entry],
    });
    assert_eq!([&found["footer"], &found["sections"][0], &found["records"][0]], [&footer, &section, &record]);
    assert_eq!([&found["size"], &found["sound"], &found["faults"]], [&json!(6400), &json!(true), &json!([])]);
    assert!(found["sections"][1].get("text").is_none() && found.get("truncated_at").is_none());
    let shown = drystone(["inspect", path.to_str().unwrap()]).run().ok();
    assert!(shown.contains("records  12") && shown.contains("images2/image000011"), "{shown}");

    let folder = Folder::new();
    let cut = folder.put("cut.pack", &std::fs::read(path).unwrap()[..3000]);
    let ended = drystone(["inspect", &cut]).run();
    let shown = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(shown.contains("images0/image000000"), "{shown}");
    let complaint = ended.fails(1);
    assert!(complaint.contains("offset 2920") && complaint.contains(&cut), "{complaint}");
}

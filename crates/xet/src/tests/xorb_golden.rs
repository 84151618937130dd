//! Xorbs written by the reference implementation: read exactly, and their footers written exactly.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::cell::Cell;

use crate::compress::{Decompressor, Policy, Scheme};
use crate::cursor::Reader;
use crate::xorb::{
    ChunkDecoder, ChunkHeader, ChunkReader, Footer, Form, ScannedXorb, XorbBuilder, XorbScanner, read_chunks,
    verify,
};
use crate::{ChunkHash, XorbHash};
use testkit::Vectors;
use testkit::vectors::model::{AdversarialKind, Expect, Xorb, XorbFile};

fn form(file: &XorbFile) -> Form {
    match file.form.as_str() {
        "footerless" => Form::Footerless,
        "footer_v0" => Form::V0,
        "footer_v1" | "footer_v1_nonce" => Form::V1,
        other => panic!("unknown form {other}"),
    }
}

fn hash(xorb: &Xorb) -> XorbHash {
    xorb.xorb_hash.parse().unwrap()
}

/// Every golden file, its bytes and what a scan found in it.
fn each(check: impl Fn(&Xorb, &XorbFile, &[u8], &ScannedXorb)) {
    let vectors = Vectors::open();
    for xorb in &vectors.manifest.xorbs {
        for file in &xorb.files {
            let bytes = vectors.read(&file.file);
            assert_eq!(bytes.len() as u64, file.size, "{}", file.file);
            let need_footer = form(file) != Form::Footerless;
            let scanned = verify(&bytes, Some(hash(xorb)), need_footer)
                .unwrap_or_else(|error| panic!("{}: {error}", file.file));
            check(xorb, file, &bytes, &scanned);
        }
    }
}

#[test]
fn every_form_is_read_as_the_reference_wrote_it() {
    each(|xorb, file, bytes, scanned| {
        let info = &scanned.info;
        assert_eq!((info.hash(), scanned.form), (hash(xorb), form(file)), "{}", file.file);
        assert_eq!((info.raw_bytes(), info.stored_bytes()), (xorb.raw_size, file.chunk_region_size));
        let chunks: Vec<_> = (0..info.chunk_count())
            .map(|i| (info.chunks()[i as usize].hash.to_string(), u64::from(info.chunk_len(i).unwrap())))
            .collect();
        assert_eq!(chunks, xorb.chunks, "{}", file.file);

        for (i, (scheme, stored_len, chunk_len)) in (0u32..).zip(file.chunk_headers.iter().copied()) {
            let at = info.stored_range(i..i + 1).unwrap().start as usize;
            let header = ChunkHeader::parse(&mut Reader::new(&bytes[at..])).unwrap();
            let scheme = Scheme::parse(0, scheme).unwrap();
            assert_eq!(header, ChunkHeader { stored_len, scheme, chunk_len }, "{} chunk {i}", file.file);
            assert_eq!(header.encode(), bytes[at..at + 8]);
        }
    });
}

#[test]
fn every_footer_says_what_the_reference_read() {
    each(|_, file, bytes, scanned| {
        let Some(golden) = &file.footer else {
            assert_eq!((scanned.form, scanned.nonce), (Form::Footerless, [0; 4]));
            return;
        };
        let needed = Footer::tail_bytes(&bytes[bytes.len() - 4..], file.size - 4).unwrap();
        assert_eq!(needed, u64::from(golden.info_length) + 4, "{}", file.file);
        let start = file.size - needed;
        let footer = Footer::parse(&bytes[start as usize..], start).unwrap();

        assert_eq!(footer.hash.to_string(), golden.xorb_hash);
        assert_eq!(footer.form == Form::V1, golden.footer_version_on_disk == 1);
        assert_eq!(footer.chunks.len(), golden.num_chunks as usize);
        assert_eq!(testkit::hex(&footer.nonce), golden.nonce);
        assert_eq!(footer.nonce, scanned.nonce);
        assert!(footer.chunks.iter().map(|c| c.hash.to_string()).eq(golden.chunk_hashes.iter().cloned()));
        assert!(footer.chunks.iter().map(|c| c.stored_end).eq(golden.chunk_boundary_offsets.iter().copied()));
        let raw_ends: Vec<_> = footer.chunks.iter().filter_map(|c| c.raw_end).collect();
        assert_eq!(raw_ends, golden.unpacked_chunk_offsets);
        if footer.form == Form::V1 {
            assert_eq!(footer.into_info().as_ref(), Some(&scanned.info));
        }
    });
}

#[test]
fn our_footers_are_the_references_to_the_byte() {
    let vectors = Vectors::open();
    let mut compared = [0, 0];
    each(|_, file, bytes, scanned| {
        let mut ours = Vec::new();
        scanned.info.encode_footer(scanned.form, &mut ours);
        let at = ours.len().saturating_sub(20);
        if let Some(nonce) = ours.get_mut(at..at + 4) {
            nonce.copy_from_slice(&scanned.nonce);
        }
        assert_eq!(ours, bytes[scanned.info.stored_bytes() as usize..], "{}", file.file);
    });
    // Whatever form a xorb arrived in, the footer we would store is the one the reference wrote for the same stored chunks.
    for xorb in &vectors.manifest.xorbs {
        for file in &xorb.files {
            let info = verify(&vectors.read(&file.file), None, false).unwrap().info;
            for (i, form_name) in [(0, "footer_v0"), (1, "footer_v1")] {
                let twin =
                    xorb.files.iter().find(|twin| twin.scheme == file.scheme && twin.form == form_name);
                let Some(twin) = twin else { continue };
                let mut ours = Vec::new();
                info.encode_footer(form(twin), &mut ours);
                assert_eq!(ours, vectors.read(&twin.file)[info.stored_bytes() as usize..], "{}", twin.file);
                compared[i] += 1;
            }
        }
    }
    assert!(compared.iter().all(|compared| *compared > 0), "{compared:?}");
}

/// Raw chunks leave an encoder no freedom, so the whole file must agree.
#[test]
fn an_uncompressed_xorb_is_built_to_the_byte() {
    let built = Cell::new(0);
    each(|_, file, bytes, scanned| {
        if file.scheme != "none" || scanned.nonce != [0; 4] {
            return;
        }
        let mut builder = XorbBuilder::new(Policy::Always(Scheme::Raw));
        let mut scanner = XorbScanner::new(None);
        let push = &mut |chunk: crate::xorb::DecodedChunk<'_>| builder.push(chunk.hash, chunk.raw).unwrap();
        scanner.push_with(bytes, push).unwrap();
        let sealed = builder.seal(scanned.form).unwrap();
        assert!(sealed.bytes == bytes, "{}", file.file);
        assert_eq!(sealed.info, scanned.info);
        built.set(built.get() + 1);
    });
    assert!(built.get() > 0);
}

#[test]
fn the_raw_bytes_are_those_of_the_sources() {
    let vectors = Vectors::open();
    each(|xorb, file, bytes, scanned| {
        let mut raw = Vec::new();
        let decompressor = &mut Decompressor::new();
        read_chunks(&scanned.info, 0..scanned.info.chunk_count(), bytes, 0, decompressor, &mut raw).unwrap();
        assert_eq!(testkit::hex(&testkit::sha256(&raw)), xorb.raw_sha256, "{}", file.file);
        let sources: Vec<u8> = xorb.sources.iter().flat_map(|source| vectors.make(&source.recipe)).collect();
        assert!(raw == sources, "{}", file.file);
    });
}

#[test]
fn stored_chunks_of_every_scheme_decode() {
    let vectors = Vectors::open();
    let mut decoder = ChunkDecoder::new();
    for chunk_file in &vectors.manifest.chunk_records {
        let bytes = vectors.read(&chunk_file.file);
        let mut reader = ChunkReader::new(&bytes, 0, &mut decoder);
        let chunk = reader.next_chunk().unwrap().unwrap();
        assert_eq!(chunk.hash.to_string(), chunk_file.chunk_hash, "{}", chunk_file.file);
        assert_eq!(chunk.raw, vectors.make(&chunk_file.recipe), "{}", chunk_file.file);
        assert_eq!(
            (chunk.header.scheme.byte(), chunk.header.stored_len, chunk.header.chunk_len),
            chunk_file.header
        );
        assert_eq!(chunk.stored, 0..chunk_file.serialized_size);
        assert_eq!(reader.next_chunk(), Ok(None));
    }
}

#[test]
fn the_published_xorb_begins_with_the_published_chunks() {
    let vectors = Vectors::open();
    let Some(official) = &vectors.manifest.official else { return };
    let golden = &official.ev_population;
    let bytes = vectors.read(&golden.xorb_prefix);
    let chunks = vectors.chunks_file(&golden.chunks_file);
    let mut decoder = ChunkDecoder::new();
    let mut reader = ChunkReader::new(&bytes, 0, &mut decoder);
    for (hash, len) in &chunks[..golden.xorb_prefix_chunks] {
        let chunk = reader.next_chunk().unwrap().unwrap();
        assert_eq!(chunk.hash, hash.parse::<ChunkHash>().unwrap());
        assert_eq!(chunk.raw.len() as u64, *len);
    }
    assert_eq!(reader.next_chunk(), Ok(None));
}

#[test]
fn damaged_xorbs_get_the_verdict_they_deserve() {
    let vectors = Vectors::open();
    let mut judged = 0;
    for case in &vectors.manifest.adversarial {
        let need_footer = match case.kind {
            AdversarialKind::XorbFooter => true,
            AdversarialKind::XorbFooterless => false,
            _ => continue,
        };
        let bytes = vectors.read(&case.file);
        let expected = case.xorb_hash.as_ref().map(|hash| hash.parse().unwrap());
        let verdict = verify(&bytes, expected, need_footer);
        match case.expect {
            Expect::Accept => assert!(verdict.is_ok(), "{}: {verdict:?}", case.file),
            Expect::Reject => assert!(verdict.is_err(), "{}: {}", case.file, case.basis),
            Expect::Unspecified => {}
        }
        if let Err(error) = verdict {
            assert!(error.at() <= bytes.len() as u64, "{}: {error}", case.file);
        }
        judged += 1;
    }
    assert!(judged > 0);
}

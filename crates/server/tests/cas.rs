//! The whole CAS over HTTP, with the golden vectors, on every kind of objects and catalog.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod support;

use std::collections::HashMap;

use axum::body::Body;
use axum::http::Request;
use server::{Claims, DedupPolicy, Origin, ServeConfig};
use support::{Backend, Backends, Hub, build, chunks_of};
use testkit::Vectors;
use testkit::vectors::model::{AdversarialKind, Expect};
use tower::ServiceExt as _;
use xet::shard::Shard;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;
use xet::wire::{
    Batch, ErrorBody, Frame, FrameReader, ReconstructionV1, ReconstructionV2, ShardUploaded, XorbUploaded,
    parse_json,
};
use xet::{FileHash, XorbHash};

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_xorb_is_taken_in_every_form_and_under_every_path() {
    let places = Backends::start();
    for place in places.all() {
        // Where all is for everyone, a xorb can be seen before a shard names it.
        takes_xorbs(&place.hub_with(DedupPolicy::Global).await).await;
    }
}

async fn takes_xorbs(hub: &Hub) {
    let vectors = Vectors::open();
    let paths = ["/v1/xorbs/default", "/api/v1/xorbs/default", "/xorbs/default", "/xorb/default"];
    for xorb in &vectors.manifest.xorbs {
        let hash: XorbHash = xorb.xorb_hash.parse().unwrap();
        let mut is_new = hub.head(&format!("/v1/xorbs/default/{hash}")).await.status == 404;
        for (n, file) in xorb.files.iter().enumerate() {
            let got = hub.post(&format!("{}/{hash}", paths[n % 4]), &vectors.read(&file.file)).await;
            assert_eq!(got.status, 200, "{}", file.file);
            assert_eq!(parse_json::<XorbUploaded>(&got.body).unwrap().was_inserted, is_new);
            is_new = false;
        }
        let got = hub.head(&format!("/v1/xorbs/default/{hash}")).await;
        let row = store::testing::xorbs(hub.store.catalog(), &[hash]).await.unwrap().remove(0);
        assert_eq!((got.status, &got.headers["content-length"]), (200, &row.object_bytes.into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_shards_bring_their_files_back_by_both_versions_ranges_and_batches() {
    let places = Backends::start();
    for place in places.all() {
        brings_files_back(&place).await;
    }
}

async fn brings_files_back(place: &Backend<'_>) {
    let vectors = Vectors::open();
    let all_chunks = chunks_of(&vectors);
    for (n, group) in vectors.manifest.shards.iter().filter(|group| group.with_verification).enumerate() {
        let hub = place.hub().await;
        let upload = group.files.iter().find(|file| file.form.kind == "upload").unwrap();
        let bytes = vectors.read(&upload.file);
        let shard = Shard::parse_upload(&bytes).unwrap();
        let mut raw_xorbs: HashMap<XorbHash, Vec<&[u8]>> = HashMap::new();
        for xorb in &shard.xorbs {
            let got = hub.post("/v2/shards", &bytes).await;
            assert_eq!(got.status, 400, "its xorbs are not all here");
            let chunks: Vec<_> = xorb.chunks.iter().map(|chunk| &all_chunks[&chunk.hash][..]).collect();
            assert!(hub.upload_xorb(&xorb.hash, &build(chunks.iter().copied()).bytes).await);
            raw_xorbs.insert(xorb.hash, chunks);
        }
        if n % 2 == 0 {
            let got = hub.post("/v2/shards", &bytes).await;
            assert_eq!(
                (got.status, &got.headers["content-type"]),
                (200, &"application/x-ndjson".parse().unwrap())
            );
            let (mut reader, mut rest, mut last) = (FrameReader::new(), &got.body[..], None);
            while let Some(frame) = reader.read(&mut rest).unwrap() {
                last = Some(frame);
            }
            assert!(matches!(last, Some(Frame::Result { .. })), "{last:?}");
        }
        let got = hub.post(["/v1/shards", "/shards", "/shard/default/x"][n % 3], &bytes).await;
        assert_eq!(got.status, 200);
        let result = u64::from(parse_json::<ShardUploaded>(&got.body).unwrap().result);
        // A shard without files adds nothing to the repository.
        assert_eq!(result, u64::from(n % 2 != 0 && !shard.files.is_empty()), "{}", group.name);

        for file in &shard.files {
            let whole: Vec<u8> = file
                .terms
                .iter()
                .flat_map(|term| {
                    raw_xorbs[&term.xorb][term.chunks.start as usize..term.chunks.end as usize].concat()
                })
                .collect();
            let size = whole.len() as u64;
            let hash = file.hash;
            for (first, last) in
                [(0, size.saturating_sub(1)), (size / 3, size / 2), (size.saturating_sub(1), u64::MAX - 1)]
            {
                let range = format!("bytes={first}-{last}");
                let length = last.saturating_add(1).min(size).saturating_sub(first);
                let expected = &whole[first as usize..(first + length) as usize];
                let v1 = hub.get(&format!("/v1/reconstructions/{hash}"), Some(&range)).await;
                let v1: ReconstructionV1 = parse_json(&v1.body).unwrap();
                assert!(hub.rebuild(&v1.try_into().unwrap(), length).await == expected, "{range}");
                let v2 = hub.get(&format!("/v2/reconstructions/{hash}"), Some(&range)).await;
                assert_eq!(v2.headers["cache-control"], "private, no-store");
                let v2: ReconstructionV2 = parse_json(&v2.body).unwrap();
                hub.check_urls(&v2);
                assert!(hub.rebuild(&v2.try_into().unwrap(), length).await == expected, "{range}");
            }
            let past = hub
                .get(&format!("/v2/reconstructions/{hash}"), Some(&format!("bytes={}-", size.max(1))))
                .await;
            assert_eq!(
                (past.status, past.headers["content-range"].to_str().unwrap()),
                (416, &*format!("bytes */{size}"))
            );
            let head = hub.head(&format!("/v1/files/{hash}")).await;
            assert_eq!((head.status, &head.headers["content-length"]), (200, &size.into()));
        }
        let ids: Vec<_> = shard.files.iter().map(|file| format!("file_id={}", file.hash)).collect();
        let by_query = hub.get(&format!("/v1/reconstructions?{}", ids.join("&")), None).await;
        let keys: Vec<_> = shard
            .files
            .iter()
            .map(|file| format!(r#"{{"prefix":"default","hash":"{}"}}"#, file.hash))
            .collect();
        let by_body = hub.post("/v1/reconstructions", format!("[{}]", keys.join(",")).as_bytes()).await;
        let by_query: Batch = parse_json(&by_query.body).unwrap();
        assert_eq!(by_query, parse_json(&by_body.body).unwrap());

        let eligible =
            shard.xorbs.iter().flat_map(|xorb| &xorb.chunks).find(|chunk| chunk.hash.is_dedup_eligible());
        if let Some(chunk) = eligible {
            for prefix in ["default", "default-merkledb"] {
                let got = hub.get(&format!("/v1/chunks/{prefix}/{}", chunk.hash), None).await;
                assert_eq!(got.status, 200);
                assert_eq!(xet::shard::verify_stored(&got.body).unwrap().xorbs.len(), 1);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_or_not_for_the_caller_is_404_and_what_is_malformed_400() {
    let places = Backends::start();
    for place in places.all() {
        refuses(&place.hub().await).await;
    }
}

async fn refuses(hub: &Hub) {
    let hash = FileHash::new([1; 32]);
    for (uri, range, status) in [
        (format!("/v1/reconstructions/{hash}"), None, 404),
        (format!("/v2/reconstructions/{hash}"), Some("bytes=5-9"), 404),
        (format!("/v2/reconstructions/{hash}"), Some("bytes=-5"), 404),
        (format!("/v1/reconstructions/{hash}"), Some("lines=1"), 400),
        (format!("/v1/reconstructions/{hash}"), Some("bytes=0-1,5-9"), 400),
        ("/v1/reconstructions/abc".to_owned(), None, 400),
        (format!("/v1/reconstructions?file_id={hash}"), None, 404),
        ("/v1/reconstructions?file_id=x".to_owned(), None, 400),
        (format!("/v1/chunks/default/{hash}"), None, 404),
        ("/v1/chunks/default/..%2f".to_owned(), None, 400),
    ] {
        assert_eq!(hub.get(&uri, range).await.status, status, "{uri} {range:?}");
    }
    assert_eq!(hub.head(&format!("/v1/files/{hash}")).await.status, 404);
    let reader = format!("Bearer {}", hub.token(TokenScope::Read, "a"));
    let uri = format!("/v1/xorbs/default/{hash}");
    assert_eq!(hub.send("POST", &uri, &[("authorization", &reader)], vec![1]).await.status, 403);
    assert_eq!(hub.send("POST", &uri, &[], vec![1]).await.status, 401);
    assert_eq!(hub.send("GET", "/ready", &[], Vec::new()).await.status, 200);
    let huge = [
        ("authorization", &*format!("Bearer {}", hub.token(TokenScope::Write, "a"))),
        ("content-length", "99999999"),
    ];
    let request =
        Request::builder().method("POST").uri(&uri).header(huge[0].0, huge[0].1).header(huge[1].0, huge[1].1);
    let refused = hub.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(refused.status().as_u16(), 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_adversarial_file_gets_its_verdict_and_a_refused_one_changes_nothing() {
    let places = Backends::start();
    for place in places.all() {
        gives_verdicts(&place.hub().await).await;
    }
}

async fn gives_verdicts(hub: &Hub) {
    let vectors = Vectors::open();
    let all_chunks = chunks_of(&vectors);
    for group in &vectors.manifest.shards {
        let upload = group.files.iter().find(|file| file.form.kind == "upload").unwrap();
        for xorb in Shard::parse_upload(&vectors.read(&upload.file)).unwrap().xorbs {
            let sealed = build(xorb.chunks.iter().map(|chunk| &all_chunks[&chunk.hash][..]));
            hub.upload_xorb(&xorb.hash, &sealed.bytes).await;
        }
    }
    for case in &vectors.manifest.adversarial {
        let bytes = vectors.read(&case.file);
        let before = hub.counts().await;
        let is_xorb = matches!(case.kind, AdversarialKind::XorbFooter | AdversarialKind::XorbFooterless);
        let uris = match is_xorb {
            true => vec![format!("/v1/xorbs/default/{}", case.xorb_hash.as_ref().unwrap())],
            false => vec!["/v1/shards".to_owned(), "/v2/shards".to_owned()],
        };
        for uri in uris {
            let got = hub.post(&uri, &bytes).await;
            match (case.kind, case.expect) {
                // As an upload, a shard ends at its second bookend: damage behind it is nobody's concern.
                (AdversarialKind::ShardStored, _) | (_, Expect::Unspecified) => {}
                (_, Expect::Accept) => assert_eq!(got.status, 200, "{}", case.file),
                (_, Expect::Reject) => assert_eq!(got.status, 400, "{}", case.file),
            }
            if got.status != 200 {
                assert_eq!(hub.counts().await, before, "{}", case.file);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_of_a_xorb_that_is_not_here_says_which() {
    let (vectors, hub) = (Vectors::open(), Hub::local(ServeConfig::default()).await);
    let group = vectors.manifest.shards.iter().find(|group| group.with_verification).unwrap();
    let upload = group.files.iter().find(|file| file.form.kind == "upload").unwrap();
    let bytes = vectors.read(&upload.file);
    let shard = Shard::parse_upload(&bytes).unwrap();
    for uri in ["/v1/shards", "/v2/shards"] {
        let got = hub.post(uri, &bytes).await;
        let refusal: ErrorBody = parse_json(&got.body).unwrap();
        assert_eq!((got.status, refusal.code.as_str()), (400, "missing_xorb"));
        let named = shard.xorbs.iter().any(|xorb| refusal.error.contains(&xorb.hash.to_string()));
        assert!(named, "{}", refusal.error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_who_never_finish_do_not_keep_uploads_out() {
    let (vectors, hub) = (Vectors::open(), Hub::local(ServeConfig::default()).await);
    let all_chunks = chunks_of(&vectors);
    let chunks: Vec<&[u8]> = all_chunks.values().take(20).map(Vec::as_slice).collect();
    let sealed = build(chunks.into_iter());
    hub.upload_xorb(&sealed.info.hash(), &sealed.bytes).await;
    let row = store::testing::xorbs(hub.store.catalog(), &[sealed.info.hash()]).await.unwrap().remove(0);
    let key = server::DataKey { xorb: sealed.info.hash(), digest: *row.key.digest.as_bytes() };
    let url = hub.state.data_url(&key, &[xet::wire::HttpRange::new(0, 99).unwrap()]).unwrap();
    let url = url.strip_prefix(&hub.state.base_url).unwrap();

    // Each answer is stored and not read, until one more has to wait.
    let mut unread = Vec::new();
    loop {
        let request = Request::get(url).header("range", "bytes=0-99").body(Body::empty()).unwrap();
        let mut asking = Box::pin(hub.app.clone().oneshot(request));
        let full = hub.state.answers.usage();
        let must_wait = full.in_use_bytes + (1 << 20) > full.total_bytes;
        match tokio::time::timeout(std::time::Duration::from_millis(200), &mut asking).await {
            Ok(answer) => unread.push(answer.unwrap()),
            Err(_) if must_wait => break,
            Err(_) => unread.push(asking.await.unwrap()),
        }
        assert!(unread.len() <= 128, "the share has an end");
    }
    assert!(unread.iter().all(|answer| answer.status().as_u16() == 206));
    assert_eq!(hub.state.budget.usage().in_use_bytes, 0);
    let more: Vec<&[u8]> = all_chunks.values().skip(20).take(20).map(Vec::as_slice).collect();
    let sealed = build(more.into_iter());
    assert!(hub.upload_xorb(&sealed.info.hash(), &sealed.bytes).await);
}

#[tokio::test]
async fn a_disk_that_is_almost_full_takes_no_uploads() {
    let mut config = ServeConfig::default();
    config.limits.disk_free_bytes_min = 1 << 50;
    let hub = Hub::local(config).await;
    let hash = FileHash::new([1; 32]);
    for uri in [format!("/v1/xorbs/default/{hash}"), "/v1/shards".to_owned(), "/v2/shards".to_owned()] {
        let got = hub.post(&uri, b"anything").await;
        let refusal: ErrorBody = parse_json(&got.body).unwrap();
        assert_eq!((got.status, refusal.code.as_str()), (507, "storage_full"), "{uri}");
    }
    assert_eq!(hub.get(&format!("/v1/reconstructions/{hash}"), None).await.status, 404, "it still reads");
}

/// The first term of a file in a xorb of several chunks: one of a single chunk is named to nobody else.
fn held_by_many(shard: &Shard) -> Option<(&xet::shard::Term, &xet::shard::XorbEntry)> {
    let firsts = shard.files.iter().filter_map(|file| file.terms.first());
    let mut held =
        firsts.filter_map(|term| Some((term, shard.xorbs.iter().find(|xorb| xorb.hash == term.xorb)?)));
    held.find(|(_, holder)| holder.chunks.len() > 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dedup_policy_says_who_may_know_of_a_xorb_or_a_chunk() {
    let vectors = Vectors::open();
    let all_chunks = chunks_of(&vectors);
    let group = vectors.manifest.shards.iter().filter(|group| group.with_verification);
    // The first chunk of a file can always be queried.
    let (bytes, shard) = group
        .map(|group| vectors.read(&group.files.iter().find(|file| file.form.kind == "upload").unwrap().file))
        .map(|bytes| (bytes.clone(), Shard::parse_upload(&bytes).unwrap()))
        .find(|(_, shard)| held_by_many(shard).is_some())
        .unwrap();
    let (term, holder) = held_by_many(&shard).unwrap();
    let (xorb, chunk) = (term.xorb, holder.chunks[term.chunks.start as usize].hash);

    // Seen from the repository itself, a sister, and an unrelated one: HEAD of the xorb, then the dedup query.
    let cases = [
        (DedupPolicy::Off, [(200, 404), (404, 404), (404, 404)]),
        (DedupPolicy::Repo, [(200, 200), (404, 404), (404, 404)]),
        (DedupPolicy::Namespace, [(200, 200), (200, 200), (404, 404)]),
        (DedupPolicy::Global, [(200, 200), (200, 200), (200, 200)]),
    ];
    for (policy, expected) in cases {
        let hub = Hub::local(ServeConfig { dedup: policy, ..ServeConfig::default() }).await;
        for xorb in &shard.xorbs {
            let chunks = xorb.chunks.iter().map(|chunk| &all_chunks[&chunk.hash][..]);
            hub.upload_xorb(&xorb.hash, &build(chunks).bytes).await;
        }
        assert_eq!(hub.post("/v1/shards", &bytes).await.status, 200);
        for ((namespace, name), (head, query)) in
            [("ann", "a"), ("ann", "b"), ("bob", "a")].into_iter().zip(expected)
        {
            let repo = RepoName { kind: RepoKind::Model, namespace: namespace.into(), name: name.into() };
            // The sender of a xorb may refer to it anywhere: the others are others.
            let origin = match (namespace, name) {
                ("ann", "a") => testkit::origin::ORIGIN.to_owned(),
                _ => format!("{namespace}-{name}"),
            };
            if origin != testkit::origin::ORIGIN {
                testkit::origin::add_origin_named(hub.store.catalog(), &origin).await;
            }
            let claims =
                Claims::new("x", Origin::Token(origin), TokenScope::Write, repo, hub.state.now_s(), 60);
            let token = format!("Bearer {}", hub.state.cas_tokens().issue(&claims).token.expose());
            let auth = [("authorization", token.as_str())];
            let got = hub.send("HEAD", &format!("/v1/xorbs/default/{xorb}"), &auth, Vec::new()).await;
            assert_eq!(got.status, head, "{policy:?} {namespace}/{name} HEAD");
            let got = hub.send("GET", &format!("/v1/chunks/default/{chunk}"), &auth, Vec::new()).await;
            assert_eq!(got.status, query, "{policy:?} {namespace}/{name} chunk");
        }
    }
}

#[test]
fn an_upload_without_a_length_is_counted_and_its_calls_are_timed() {
    let (recorder, metrics) = server::Metrics::local().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (text, sent) = metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (vectors, hub) = (Vectors::open(), Hub::local(ServeConfig::default()).await);
            let all_chunks = chunks_of(&vectors);
            let sealed = build(all_chunks.values().take(20).map(Vec::as_slice));
            let pieces: Vec<_> =
                sealed.bytes.chunks(1000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
            let request = Request::post(format!("/v1/xorbs/default/{}", sealed.info.hash()))
                .header("authorization", format!("Bearer {}", hub.token(TokenScope::Write, "a")))
                .body(Body::from_stream(futures::stream::iter(pieces)));
            let response = hub.app.clone().oneshot(request.unwrap()).await.unwrap();
            assert_eq!(response.status().as_u16(), 200);
            (metrics.render(), sealed.bytes.len())
        })
    });
    let count = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(count("drystone_received_bytes_total "), sent as f64);
    assert_eq!(count("drystone_xorbs_received_total{new=\"true\"}"), 1.0);
    assert_eq!(count("drystone_ingest_seconds_count"), 1.0);
    // The xorb, and the id of the store.
    assert_eq!(count("drystone_object_seconds_count{call=\"put\"}"), 2.0);
    assert_eq!(count("drystone_catalog_seconds_count{call=\"record an upload\"}"), 1.0);
}

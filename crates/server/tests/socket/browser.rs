//! What browsers and caches go by: CORS on every route they ask, and how long answers may be kept.

use crate::hub::{Hub, sample};
use testkit::http::{Answer, RequestBody};
use xet::wire::routes::TokenScope;
use xet::wire::{ReconstructionV2, parse_json};

const ORIGIN: (&str, &str) = ("origin", "https://page.example");

/// A hub with some files: their first chunk, what opens it, and the client's header.
struct Page {
    hub: Hub,
    authorization: String,
    file: String,
    xorb: String,
    chunk: String,
    data_url: String,
    range: String,
}

fn page() -> Page {
    let hub = Hub::new();
    let upload = sample(1).1;
    let cas = hub.cas("a");
    cas.upload(&upload, "/v1/shards").unwrap();
    let file = upload.files[0].hash.to_string();
    let answer = cas.get(&format!("/v2/reconstructions/{file}")).unwrap();
    let found: ReconstructionV2 = parse_json(&answer.body).unwrap();
    let fetch = &found.xorbs.values().next().unwrap()[0];
    let data_url = fetch.url.strip_prefix(&hub.state.base_url).unwrap().to_owned();
    let range = format!("bytes={}", fetch.ranges[0].bytes);
    // Uploaders ask where chunks are; writing includes reading.
    let authorization = format!("Bearer {}", hub.token(TokenScope::Write, "a"));
    let first = upload.files[0].terms[0].xorb;
    let sealed = upload.xorbs.iter().find(|xorb| xorb.info.hash() == first).unwrap();
    let chunk = sealed.info.chunks()[0].hash.to_string();
    Page { hub, authorization, file, xorb: first.to_string(), chunk, data_url, range }
}

fn listed(answer: &Answer, header: &str) -> Vec<String> {
    let list = answer.header(header).unwrap_or_default();
    list.split(',').map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[test]
fn a_page_of_another_site_may_request_everything_a_client_requests() {
    let page = page();
    let file = &page.file;
    let routes = [
        ("GET", format!("/v2/reconstructions/{file}")),
        ("GET", format!("/v1/reconstructions/{file}")),
        ("GET", format!("/v1/reconstructions?file_id={file}")),
        ("GET", format!("/v1/chunks/default-merkledb/{}", page.chunk)),
        ("POST", format!("/v1/xorbs/default/{}", page.xorb)),
        ("HEAD", format!("/v1/xorbs/default/{}", page.xorb)),
        ("HEAD", format!("/v1/files/{file}")),
        ("POST", "/v1/shards".to_owned()),
        ("POST", "/v2/shards".to_owned()),
        ("POST", "/v1/telemetry".to_owned()),
        ("GET", page.data_url.clone()),
        ("GET", "/api/models/ann/a/xet-read-token/main".to_owned()),
        ("GET", "/nothing/here".to_owned()),
    ];
    for (method, path) in &routes {
        let wanted = "authorization, range, x-xet-session-id, content-type";
        let headers =
            [ORIGIN, ("access-control-request-method", *method), ("access-control-request-headers", wanted)];
        let preflight = page.hub.http.send("OPTIONS", path, &headers, RequestBody::Nothing).unwrap();
        assert_eq!(preflight.status, 200, "{path}");
        assert_eq!(preflight.header("access-control-allow-origin"), Some("*"), "{path}");
        assert!(
            listed(&preflight, "access-control-allow-methods").contains(&method.to_ascii_lowercase()),
            "{path}"
        );
        let allowed = listed(&preflight, "access-control-allow-headers");
        assert!(
            wanted.split(", ").all(|name| allowed.iter().any(|found| found == name)),
            "{path}: {allowed:?}"
        );
        assert!(preflight.header("access-control-max-age").is_some(), "{path}");
        assert!(preflight.header("access-control-allow-credentials").is_none(), "{path}");

        // The request itself, refused or not: a page must be able to read why.
        let headers = [
            ORIGIN,
            ("authorization", &page.authorization),
            ("range", &page.range),
            ("x-xet-session-id", "s"),
        ];
        let body = if *method == "POST" { RequestBody::Whole(b"x") } else { RequestBody::Nothing };
        let answer = page.hub.http.send(method, path, &headers, body).unwrap();
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
        let exposed = listed(&answer, "access-control-expose-headers");
        for name in [
            "content-range",
            "content-length",
            "etag",
            "x-request-id",
            "retry-after",
            "accept-ranges",
            "x-xet-hash",
        ] {
            assert!(exposed.iter().any(|found| found == name), "{path}: {name} in {exposed:?}");
        }
    }
}

#[test]
fn data_may_be_cached_by_everyone_until_its_url_expires() {
    let page = page();
    let now_s = page.hub.state.now_s();
    let get = |headers: &[(&str, &str)]| {
        page.hub.http.send("GET", &page.data_url, headers, RequestBody::Nothing).unwrap()
    };
    let data = get(&[("range", &page.range)]);
    assert_eq!(data.status, 206);
    let etag = format!("\"{}\"", page.data_url.split('/').nth(3).unwrap().split('-').next().unwrap());
    assert_eq!(data.header("etag"), Some(etag.as_str()));
    let cache = data.header("cache-control").unwrap();
    // No repository of this name is public.
    let age: u64 = cache.strip_prefix("private, immutable, max-age=").unwrap().parse().unwrap();
    let query = page.data_url.split_once("X-Xet-Expires=").unwrap().1;
    let expires_s: u64 = query.split('&').next().unwrap().parse().unwrap();
    assert!(
        now_s + age <= expires_s + 60 && age > 0 && age <= expires_s - now_s,
        "{age} of {}",
        expires_s - now_s
    );
    assert!(data.header("expires").is_some_and(|date| date.ends_with("GMT")));
    assert_eq!(data.header("accept-ranges"), Some("bytes"));

    // What a cache has already is not sent again, and what it has of something else is never mixed with it.
    let same = get(&[("range", &page.range), ("if-none-match", &etag)]);
    assert_eq!((same.status, same.body.len(), same.header("etag")), (304, 0, Some(etag.as_str())));
    assert_eq!(get(&[("range", &page.range), ("if-range", &etag)]).body, data.body);
    assert_eq!(get(&[("range", &page.range), ("if-range", "\"other\"")]).status, 403);
}

#[test]
fn answers_for_one_caller_are_cached_for_no_one_else() {
    let page = page();
    let get = |method: &str, path: &str| {
        page.hub
            .http
            .send(method, path, &[("authorization", &page.authorization)], RequestBody::Nothing)
            .unwrap()
    };
    let file = &page.file;
    for (method, path) in [
        ("GET", format!("/v1/reconstructions/{file}")),
        ("GET", format!("/v2/reconstructions/{file}")),
        ("GET", format!("/reconstruction/{file}")),
        ("GET", format!("/v1/reconstructions?file_id={file}")),
        ("HEAD", format!("/v1/files/{file}")),
        ("HEAD", format!("/v1/xorbs/default/{}", page.xorb)),
    ] {
        let answer = get(method, &path);
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (200, Some("private, no-store")),
            "{path}"
        );
    }
    let dedup = get("GET", &format!("/v1/chunks/default/{}", page.chunk));
    assert_eq!((dedup.status, dedup.header("cache-control")), (200, Some("private, max-age=3600")));
    assert!(listed(&dedup, "vary").contains(&"authorization".to_owned()), "{:?}", dedup.headers);
    // A refusal is about now.
    let missing = get("GET", &format!("/v1/chunks/default/{file}"));
    assert_eq!((missing.status, missing.header("cache-control")), (404, Some("no-store")));
    assert_eq!(
        get("GET", &format!("/v1/reconstructions/{}", page.xorb)).header("cache-control"),
        Some("no-store")
    );
}

//! Numbers of a request: none of them sizes anything before it is bounded, and none that cannot be meant is taken for another.

use std::time::{Duration, Instant};

use super::*;

/// Every place of a request that takes a number, `#` in its place; and whether the largest numbers may be accepted there.
const TABLE: &[(&str, &str, &str, bool)] = &[
    ("GET", "/api/models?limit=#", "", true),
    ("GET", "/api/models/ann/a/tree/main?limit=#", "", true),
    ("GET", "/api/models/ann/a/commits/main?limit=#", "", true),
    ("GET", "/api/models/ann/a/commits/main?p=#&limit=#", "", true),
    ("GET", "/api/models/ann/a/discussions?p=#", "", true),
    ("GET", "/api/models/ann/a/discussions/#", "", false),
    ("POST", "/api/models/ann/a/discussions/#/merge", "{}", false),
    ("GET", "/api/admin/audit?since=#", "", true),
    ("GET", "/api/admin/audit?before=#&limit=#", "", true),
    ("PUT", "/api/admin/quotas", r#"{"of": "ann", "logicalHard": #}"#, false),
    (
        "POST",
        "/api/models/ann/a/preupload/main",
        r#"{"files": [{"path": "x.bin", "size": #, "sample": ""}]}"#,
        true,
    ),
    (
        "POST",
        "/ann/a.git/info/lfs/objects/batch",
        r#"{"operation": "upload", "transfers": ["multipart", "basic"], "objects": [{"oid": "OID", "size": #}]}"#,
        true,
    ),
    (
        "POST",
        "/ann/a.git/info/lfs/objects/batch",
        r#"{"operation": "upload", "transfers": ["xet"], "objects": [{"oid": "OID", "size": #}]}"#,
        true,
    ),
    (
        "POST",
        "/ann/a.git/info/lfs/objects/batch",
        r#"{"operation": "download", "objects": [{"oid": "OID", "size": #}]}"#,
        true,
    ),
    ("GET", "/ann/a.git/info/lfs/locks?limit=#", "", true),
    ("POST", "/ann/a.git/info/lfs/locks/verify", r#"{"limit": #}"#, true),
    ("PUT", "/lfs/models/ann/a/OID?size=#&expires=#&signature=00", "", false),
    ("PUT", "/lfs/models/ann/a/OID/parts/#?size=#&part=#&expires=#&signature=00", "", false),
    ("POST", "/lfs/models/ann/a/OID/parts?size=#&part=#&expires=#&signature=00", "{}", false),
    (
        "POST",
        "/api/models/ann/a/commit/main",
        "{\"key\": \"header\", \"value\": {\"summary\": \"s\"}}\n\
         {\"key\": \"lfsFile\", \"value\": {\"path\": \"x\", \"algo\": \"sha256\", \"oid\": \"OID\", \"size\": #}}",
        false,
    ),
    ("GET", "/?p=#", "", true),
    ("GET", "/ann/a/commits/main?p=#", "", true),
    ("GET", "/ann/a/commit/main?p=#", "", false),
    ("GET", "/ann/a/blob/main/a.txt?p=#", "", true),
    ("GET", "/ann/a/blob/main/a.shardpack?p=#", "", true),
    ("GET", "/ann/a/blob/main/a.shardpack?record=#", "", true),
    ("GET", "/ann/a/entry/main/a.shardpack?record=#&entry=x", "", false),
    ("GET", "/-/admin/audit?before=#", "", true),
    ("GET", "/v1/drystone/chunk-lists/OID?from=#", "", false),
];

const LARGEST: [&str; 3] = ["9223372036854775807", "9223372036854775808", "18446744073709551615"];
const IMPOSSIBLE: [&str; 5] = ["18446744073709551616", "-1", "1.5", "1e400", "x"];

async fn hub() -> Hub {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let files = [header("one"), file("a.txt", b"a\n"), file("a.shardpack", b"not a pack")];
    assert_eq!(hub.commit(&hub.admin, "ann/a", &files).await.status, 200);
    hub
}

#[tokio::test]
async fn no_number_is_believed() {
    let hub = hub().await;
    let oid = "0123456789abcdef".repeat(4);
    for (method, uri, body, may_be_large) in TABLE {
        for number in LARGEST.iter().chain(&IMPOSSIBLE) {
            let fill = |text: &str| text.replace('#', number).replace("OID", &oid);
            let begin = Instant::now();
            let got = hub.call(&hub.admin, method, &fill(uri), fill(body).as_bytes()).await;
            let reply =
                format!("{method} {uri} {number}: {} {}", got.status, String::from_utf8_lossy(&got.body));
            assert!(got.status < 500 && begin.elapsed() < Duration::from_secs(5), "{reply}");
            assert!(got.body.len() < 200_000, "{reply:.300}");
            // Pages and lists end where there is no more, also for numbers beyond any; else a refusal is due.
            let is_clamped = *number == "18446744073709551616" && uri.contains("=#");
            if !may_be_large && *number != LARGEST[0] || IMPOSSIBLE.contains(number) && !is_clamped {
                assert!(got.status >= 400, "{reply}");
            }
        }
    }
}

#[tokio::test]
async fn a_batch_whose_parts_would_fill_the_memory_is_refused() {
    let hub = hub().await;
    let batch = |sizes: Vec<u64>| {
        let object = |(n, size)| json!({"oid": format!("{n:064x}"), "size": size});
        let objects: Vec<_> = sizes.into_iter().enumerate().map(object).collect();
        json!({"operation": "upload", "transfers": ["multipart", "basic"], "objects": objects})
    };
    let uri = "/ann/a.git/info/lfs/objects/batch";
    for size in [200_000_000_000, 1 << 45, 1 << 63, u64::MAX] {
        let got = hub.admin("POST", uri, batch(vec![size; 1000])).await;
        let objects = got.json()["objects"].clone();
        assert_eq!(got.status, 200);
        assert!(
            objects.as_array().unwrap().iter().all(|object| object["error"]["code"] == json!(422)),
            "{size}"
        );
    }
    // Each could be sent, but not all in one batch.
    let got = hub.admin("POST", uri, batch(vec![100_000_000_000; 1000])).await;
    assert_eq!(got.status, 422, "{}", String::from_utf8_lossy(&got.body));
    let got = hub.admin("POST", uri, batch(vec![100_000_000_000; 10])).await;
    let header = &got.json()["objects"][9]["actions"]["upload"]["header"];
    assert_eq!((got.status, header.as_object().unwrap().len()), (200, 1 + 1491));
    assert_eq!(hub.admin("POST", uri, batch(vec![1; 1001])).await.status, 400);
}

#[tokio::test]
async fn parts_are_longer_where_they_would_be_too_many() {
    let mut config = ServeConfig::default();
    config.limits.lfs_part_bytes = 1 << 16;
    let hub = Hub::with(config).await;
    hub.create("a", false).await;
    let size: u64 = 10_000_000_001;
    let batch = json!({"operation": "upload", "transfers": ["multipart"], "objects": [{"oid": "1".repeat(64), "size": size}]});
    let got = hub.admin("POST", "/ann/a.git/info/lfs/objects/batch", batch).await.json();
    let header = got["objects"][0]["actions"]["upload"]["header"].as_object().unwrap().clone();
    let chunk: u64 = header["chunk_size"].as_str().unwrap().parse().unwrap();
    assert_eq!((chunk, header.len() as u64 - 1), (size.div_ceil(10_000), size.div_ceil(chunk)));
}

#[tokio::test]
async fn lists_in_a_request_have_an_end() {
    let hub = hub().await;
    let many = |one: Value, count: usize| Value::Array(vec![one; count]);
    let lines = |count: usize| {
        let deleted = json!({"key": "deletedFile", "value": {"path": "a"}}).to_string();
        [header("x").to_string()]
            .into_iter()
            .chain(std::iter::repeat_n(deleted, count))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let nested = |depth: usize| "[".repeat(depth);
    for (method, uri, body, status) in [
        (
            "POST",
            "/api/models/ann/a/paths-info/main",
            json!({"paths": many(json!("a"), 10_001)}).to_string(),
            400,
        ),
        (
            "POST",
            "/api/models/ann/a/paths-info/main",
            json!({"paths": many(json!("a"), 1001), "expand": true}).to_string(),
            400,
        ),
        (
            "POST",
            "/api/models/ann/a/preupload/main",
            json!({"files": many(json!({"path": "a", "size": 1}), 10_001)}).to_string(),
            400,
        ),
        (
            "POST",
            "/api/models/ann/a/preupload/main",
            json!({"files": [], "gitIgnore": "*\n".repeat(40_000)}).to_string(),
            400,
        ),
        ("POST", "/api/models/ann/a/commit/main", lines(100_001), 400),
        ("POST", "/api/models/ann/a/commit/main", "\n".repeat(1 << 20), 400),
        ("POST", "/api/models/ann/a/commit/main", nested(1 << 20), 400),
        ("POST", "/api/repos/create", format!(r#"{{"files": {}"#, nested(900_000)), 400),
        ("PUT", "/api/models/ann/a/settings", format!(r#"{{"gated": {}"#, nested(1000)), 400),
        ("GET", &format!("/api/models?search={}", "x".repeat(60_000)), String::new(), 400),
        ("GET", &format!("/?search={}", "%25".repeat(20_000)), String::new(), 400),
        ("GET", &format!("/ann/a/resolve/{}/x", "x".repeat(60_000)), String::new(), 404),
        ("GET", &format!("/api/models/ann/a/tree/main?cursor={}", "a/".repeat(30_000)), String::new(), 200),
        (
            "POST",
            "/api/models/ann/a/tag/main",
            json!({"tag": "t", "message": "m".repeat(5000)}).to_string(),
            400,
        ),
        ("POST", "/api/models/ann/a/tag/main", json!({"tag": "t".repeat(300)}).to_string(), 400),
        // Histories and lists of pull requests have many of these in one answer.
        ("POST", "/api/models/ann/a/commit/main", header(&"s".repeat(70_000)).to_string(), 400),
        ("POST", "/api/models/ann/a/commit/main?create_pr=1", header(&"s".repeat(5000)).to_string(), 400),
        (
            "POST",
            "/api/models/ann/a/super-squash/main",
            json!({"message": "m".repeat(70_000)}).to_string(),
            400,
        ),
        (
            "POST",
            "/api/models/ann/a/discussions",
            json!({"title": "t".repeat(5000), "pullRequest": true}).to_string(),
            400,
        ),
        (
            "POST",
            "/api/models/ann/a/discussions",
            json!({"title": "t", "description": "d".repeat(70_000), "pullRequest": true}).to_string(),
            400,
        ),
    ] {
        let begin = Instant::now();
        let auth = format!("Bearer {}", hub.admin);
        let headers = [("authorization", auth.as_str()), ("content-type", "application/json")];
        let got = hub.send(method, uri, &headers, body.as_bytes()).await;
        let reply = String::from_utf8_lossy(&got.body).chars().take(300).collect::<String>();
        assert_eq!(got.status, status, "{method} {uri:.80}: {reply}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{method} {uri:.80}");
    }
}

#[tokio::test]
async fn ranges_of_any_number_are_answered_or_refused() {
    let hub = hub().await;
    let many: Vec<_> = (0..5000).map(|n| format!("{n}-{n}")).collect();
    for range in LARGEST
        .into_iter()
        .chain(IMPOSSIBLE)
        .flat_map(|n| [format!("{n}-"), format!("-{n}"), format!("0-{n}")])
    {
        for uri in ["/ann/a/resolve/main/a.txt", "/ann/a/raw/main/a.txt"] {
            let got = hub.send("GET", uri, &[("range", &format!("bytes={range}"))], b"").await;
            assert!(matches!(got.status, 200 | 206 | 416), "{range}: {}", got.status);
        }
    }
    let many = format!("bytes={}", many.join(","));
    assert_eq!(hub.send("GET", "/ann/a/resolve/main/a.txt", &[("range", &many)], b"").await.status, 416);
}

//! Paths, methods and ranges that mean nothing, and requests that are none.

use testkit::http::RequestBody;

use super::{Bench, Body};

#[test]
fn paths_methods_and_ranges_that_mean_nothing() {
    let bench = Bench::new();
    let (file, xorb) = (bench.old.files[0].hash, bench.new.xorbs[0].info.hash());
    let mut cases = vec![
        bench.get("no such route", "/v3/reconstructions/x", 404, "not_found").says("path"),
        bench.get("one part", "/nothing", 404, "not_found"),
        bench.get("grants", "/v1/xorb-grants/default/abc", 404, "not_found"),
        bench.get("no dirty ranges", format!("/v2/file-chunk-hashes/{file}"), 400, "invalid").says("dirty"),
        bench
            .get("dirty ranges past the end", format!("/v2/file-chunk-hashes/{file}"), 400, "invalid")
            .header("x-range-dirty", "bytes=99999999999-99999999999999")
            .says("end"),
        bench
            .get("dirty ranges that are none", format!("/v2/file-chunk-hashes/{file}"), 400, "invalid")
            .header("x-range-dirty", "bytes=9-"),
        bench
            .get("dirty ranges of an unknown file", format!("/v2/file-chunk-hashes/{xorb}"), 404, "not_found")
            .header("x-range-dirty", "bytes=0-9"),
        bench.get("an unknown file", format!("/v2/reconstructions/{xorb}"), 404, "not_found").says("file"),
        bench
            .get("an unknown file, by range", format!("/v1/reconstructions/{xorb}"), 404, "not_found")
            .header("range", "bytes=0-9"),
        bench.get("an unknown chunk", format!("/v1/chunks/default/{xorb}"), 404, "not_found").says("chunk"),
        bench
            .get("reading a xorb", format!("/v1/xorbs/default/{xorb}"), 405, "method_not_allowed")
            .says("method"),
        bench.get("reading shards", "/v1/shards", 405, "method_not_allowed"),
        bench.get("an invented method", "/v1/shards", 405, "method_not_allowed").method("BREW"),
        bench.get("deleting a file", format!("/v1/files/{file}"), 405, "method_not_allowed").method("DELETE"),
        bench
            .get("putting a xorb", format!("/v1/xorbs/default/{xorb}"), 405, "method_not_allowed")
            .method("PUT"),
        bench.get("HEAD of an unknown xorb", format!("/v1/xorbs/default/{xorb}"), 404, "").method("HEAD"),
        bench.get("HEAD of an unknown file", format!("/v1/files/{xorb}"), 404, "").method("HEAD"),
        bench
            .get("HEAD of an unknown reconstruction", format!("/v1/reconstructions/{xorb}"), 404, "")
            .method("HEAD"),
        bench.get("HEAD of no route", "/nothing", 404, "").method("HEAD"),
    ];
    // Names that are no hashes, as they are and escaped, in every place where a hash or a prefix stands.
    let hash = xorb.to_string();
    for bad in [
        "..",
        "%2e%2e",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e%2f%2e%2e",
        "..%5c..%5c",
        "%00",
        "a%00b",
        "%c0%ae%c0%ae",
        "%252e%252e",
        "abc",
        &hash[..63],
        &format!("{hash}0"),
        &format!("{}g", &hash[..63]),
        &format!("{hash}%00"),
        &format!("+{}", &hash[..63]),
        &format!("{hash}-{hash}"),
        "%f0%9f%92%a9",
        "~",
        "*",
        "-",
    ] {
        for path in [
            format!("/v1/reconstructions/{bad}"),
            format!("/v2/reconstructions/{bad}"),
            format!("/reconstruction/{bad}"),
            format!("/v1/chunks/default/{bad}"),
            format!("/chunk/default/{bad}"),
        ] {
            cases.push(bench.get(&format!("GET {path}"), path, 400, "invalid").says("64 hexadecimal digits"));
        }
        for path in [format!("/v1/files/{bad}"), format!("/v1/xorbs/default/{bad}")] {
            cases.push(bench.get(&format!("HEAD {path}"), path, 400, "").method("HEAD"));
        }
        for path in [format!("/v1/xorbs/default/{bad}"), format!("/xorb/default/{bad}")] {
            cases.push(
                bench
                    .post(&format!("POST {path}"), path, Body::Whole(bench.xorb()), 400, "invalid")
                    .says("64 hexadecimal"),
            );
        }
        cases.push(
            bench
                .get(&format!("batch {bad}"), format!("/v1/reconstructions?file_id={bad}"), 400, "invalid")
                .says("query"),
        );
    }
    for bad in ["..", "%2e%2e", "..%2f..%2fetc", "..%5c", "%00", "a%20b", "%c0%ae", "a.b", &"p".repeat(65)] {
        let path = format!("/v1/xorbs/{bad}/{xorb}");
        cases.push(
            bench
                .post(&format!("POST {path}"), path, Body::Whole(bench.xorb()), 400, "invalid")
                .says("prefix"),
        );
        let path = format!("/v1/chunks/{bad}/{xorb}");
        cases.push(bench.get(&format!("GET {path}"), path, 400, "invalid").says("prefix"));
    }
    // One segment too many is another path.
    for path in [
        "/v1/reconstructions/../../etc/passwd",
        "/v1/reconstructions/a/b",
        "/v1/data/a/b",
        "//v1/shards",
        "/v1//shards",
    ] {
        cases.push(bench.get(path, path, 404, "not_found"));
    }
    let size = 300_000_u64;
    for version in ["v1", "v2"] {
        let path = format!("/{version}/reconstructions/{file}");
        for range in [
            "lines=0-9",
            "bytes=9-0",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=0-9,20-29",
            "bytes=0--9",
            "bytes=99999999999999999999-",
            "bytes 0-9",
            "bytes=0-99999999999999999999",
            "bytes=18446744073709551615-18446744073709551616",
            "",
            "\u{e9}",
        ] {
            let name = format!("{version} {range:?}");
            cases.push(bench.get(&name, path.clone(), 400, "invalid").header("range", range).says("Range"));
        }
        let many: Vec<_> = (0..3000).map(|n| format!("{n}-{n}")).collect();
        cases.push(
            bench
                .get("too many ranges", path.clone(), 400, "invalid")
                .header("range", format!("bytes={}", many.join(","))),
        );
        for range in [
            format!("bytes={size}-"),
            format!("bytes={size}-{}", u64::MAX - 1),
            "bytes=256000000-767999999".to_owned(),
        ] {
            cases.push(
                bench.get(&range.clone(), path.clone(), 416, "range_not_satisfiable").header("range", range),
            );
        }
    }
    bench.run(cases);
}

/// What is no HTTP, or more of it than anyone needs, is refused by the library before we see it.
#[test]
fn requests_that_are_none() {
    let bench = Bench::new();
    let before = bench.hub.stored();
    let long = "a".repeat(600_000);
    let many: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    for (name, request, statuses) in [
        ("a huge header", format!("GET /health HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"), &[431][..]),
        ("a huge path", format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"), &[414, 431]),
        ("many headers", format!("GET /health HTTP/1.1\r\nhost: a\r\n{many}\r\n"), &[431]),
        ("no HTTP", "hello\r\n\r\n".to_owned(), &[400]),
        (
            "two lengths",
            "POST /v1/shards HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"
                .to_owned(),
            &[400],
        ),
        (
            "a negative length",
            "POST /v1/shards HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n".to_owned(),
            &[400],
        ),
        (
            "an overflowing length",
            format!("POST /v1/shards HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", "9".repeat(30)),
            &[400],
        ),
    ] {
        let answer = bench.hub.http.raw(request.as_bytes()).unwrap().finish().unwrap();
        assert!(statuses.contains(&answer.status), "{name}: {}", answer.status);
    }
    // Both a length and chunks: taken as chunks or refused, never as two requests.
    let smuggled = format!(
        "POST /v1/shards HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\nconnection: close\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: a\r\n\r\n",
        bench.write
    );
    let answer = bench.hub.http.raw(smuggled.as_bytes()).unwrap().finish().unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(bench.hub.stored(), before);
    assert_eq!(
        bench.hub.http.send("GET", "/health", &[], RequestBody::Nothing).unwrap().status,
        200,
        "it still answers"
    );
}

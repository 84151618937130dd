use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use xet::XorbHash;
use xet::wire::multipart::parse;

use super::*;
use crate::urls::data_url::DataKey;

const NOW: u64 = 1_800_000_000;
const ETAG: &str = "some-tag";

fn data() -> Vec<u8> {
    (0..1000_u32).map(|i| (i % 251) as u8).collect()
}

fn source(range: Range<u64>) -> Pieces {
    let bytes = data()[range.start as usize..range.end as usize].to_vec();
    stream::iter(bytes.chunks(64).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect::<Vec<_>>()).boxed()
}

fn representation() -> Representation {
    Representation {
        total_bytes: 1000,
        etag: ETAG.into(),
        content_type: content_type::BYTES,
        cache: Cache::Revalidate,
    }
}

fn grant(ranges: &[(u64, u64)]) -> DataGrant {
    let ranges = ranges.iter().map(|(first, last)| HttpRange::new(*first, *last).unwrap()).collect();
    DataGrant {
        key: DataKey { xorb: XorbHash::new([3; 32]), digest: [4; 32] },
        ranges,
        expires_s: NOW + 900,
        is_private: false,
    }
}

/// What a client sees: status, headers, body.
type Received = (u16, HeaderMap, Vec<u8>);

async fn send(app: Router, method: Method, headers: &[(&str, &str)]) -> Received {
    let mut request = Request::builder().method(method).uri("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    (head.status.as_u16(), head.headers, body)
}

/// Requests the open representation.
async fn send_open(method: Method, headers: &[(&str, &str)]) -> Received {
    let handler = |method: Method, headers: HeaderMap| async move {
        answer(&method, &headers, &representation(), source)
    };
    send(Router::new().route("/", get(handler)), method, headers).await
}

/// Requests granted ranges of a xorb.
async fn send_granted(method: Method, headers: &[(&str, &str)], ranges: &[(u64, u64)]) -> Received {
    let grant = grant(ranges);
    let handler = move |method: Method, headers: HeaderMap| async move {
        answer_granted(&method, &headers, &xorb(&grant, 1000, NOW), &grant, source)
    };
    send(Router::new().route("/", get(handler)), method, headers).await
}

#[tokio::test]
async fn without_a_range_the_whole_is_sent() {
    let (status, headers, body) = send_open(Method::GET, &[]).await;
    assert_eq!((status, body), (200, data()));
    assert_eq!(headers["content-length"], "1000");
    assert_eq!(headers["accept-ranges"], "bytes");
    assert_eq!(headers["etag"], "\"some-tag\"");
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!(headers["cache-control"], "private, no-cache");
}

#[tokio::test]
async fn one_range_is_a_plain_part() {
    for (header, span) in [
        ("bytes=0-0", 0..1),
        ("bytes=10-99", 10..100),
        ("bytes=990-", 990..1000),
        ("bytes=-10", 990..1000),
        ("bytes=990-18446744073709551615", 990..1000),
        ("bytes=0-999", 0..1000),
        ("bytes=5-9, 2000-3000", 5..10),
    ] {
        let (status, headers, body) = send_open(Method::GET, &[("range", header)]).await;
        assert_eq!((status, body), (206, data()[span.clone()].to_vec()), "{header}");
        assert_eq!(headers["content-range"], format!("bytes {}-{}/1000", span.start, span.end - 1));
        assert_eq!(headers["content-length"], span.len().to_string());
    }
}

#[tokio::test]
async fn several_ranges_are_parts_of_one_body_of_the_announced_length() {
    let (status, headers, body) = send_open(Method::GET, &[("range", "bytes=500-599,0-99,-1")]).await;
    assert_eq!(status, 206);
    assert_eq!(headers["content-length"], body.len().to_string());
    assert!(!headers.contains_key("content-range"));
    let boundary = Boundary::of_content_type(headers["content-type"].to_str().unwrap()).unwrap();
    let parts = parse(&body, &boundary, 9).unwrap();
    let spans: Vec<_> = parts.iter().map(|part| part.range.half_open()).collect();
    assert_eq!(spans, [500..600, 0..100, 999..1000]);
    assert!(parts.iter().all(|part| part.total_bytes == Some(1000)));
    assert!(
        parts
            .iter()
            .zip(spans)
            .all(|(part, span)| part.bytes == &data()[span.start as usize..span.end as usize])
    );
}

#[tokio::test]
async fn two_answers_have_different_boundaries() {
    let header = [("range", "bytes=0-1,5-6")];
    let (_, first, _) = send_open(Method::GET, &header).await;
    let (_, second, _) = send_open(Method::GET, &header).await;
    assert_ne!(first["content-type"], second["content-type"]);
}

#[tokio::test]
async fn past_the_end_is_416_with_the_length() {
    let many = format!("bytes={}", vec!["0-0"; limits::HEADER_RANGES_MAX + 1].join(","));
    for header in ["bytes=1000-", "bytes=1000-2000", "bytes=-0", "bytes=0-999,0-999", many.as_str()] {
        let (status, headers, body) = send_open(Method::GET, &[("range", header)]).await;
        assert_eq!(
            (status, &headers["content-range"]),
            (416, &HeaderValue::from_static("bytes */1000")),
            "{header:.40}"
        );
        assert!(String::from_utf8(body).unwrap().contains("range_not_satisfiable"));
    }
}

#[tokio::test]
async fn what_is_no_range_is_ignored() {
    for header in ["bytes=", "bytes=9-5", "chunks=0-1", "nonsense"] {
        assert_eq!(send_open(Method::GET, &[("range", header)]).await.0, 200, "{header}");
    }
}

#[tokio::test]
async fn head_sends_the_length_and_no_body() {
    for headers in [&[][..], &[("range", "bytes=0-9")][..]] {
        let (status, headers, body) = send_open(Method::HEAD, headers).await;
        assert_eq!((status, body.len()), (200, 0));
        assert_eq!(headers["content-length"], "1000");
        assert_eq!(headers["etag"], "\"some-tag\"");
    }
}

#[tokio::test]
async fn if_range_holds_for_the_same_strong_tag_only() {
    for (tag, status) in [
        ("\"some-tag\"", 206),
        ("W/\"some-tag\"", 200),
        ("\"other\"", 200),
        ("*", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
    ] {
        let (seen, _, body) = send_open(Method::GET, &[("range", "bytes=0-9"), ("if-range", tag)]).await;
        assert_eq!(seen, status, "{tag}");
        assert_eq!(body.len(), if status == 206 { 10 } else { 1000 });
    }
}

#[tokio::test]
async fn a_cached_representation_is_not_sent_again() {
    for tag in ["\"some-tag\"", "W/\"some-tag\"", "\"a\", \"some-tag\"", "*"] {
        let (status, headers, body) =
            send_open(Method::GET, &[("if-none-match", tag), ("range", "bytes=0-9")]).await;
        assert_eq!((status, body.len()), (304, 0), "{tag}");
        assert_eq!(headers["etag"], "\"some-tag\"");
    }
    assert_eq!(send_open(Method::GET, &[("if-none-match", "\"other\"")]).await.0, 200);
}

#[tokio::test]
async fn a_data_url_answers_with_its_ranges_and_may_be_cached_until_it_expires() {
    let (status, headers, body) =
        send_granted(Method::GET, &[("range", "bytes=100-199")], &[(100, 199)]).await;
    assert_eq!((status, body), (206, data()[100..200].to_vec()));
    assert_eq!(headers["cache-control"], "public, immutable, max-age=900");
    assert_eq!(headers["expires"], "Fri, 15 Jan 2027 08:15:00 GMT");
    assert_eq!(headers["etag"], format!("\"{}\"", XorbHash::new([3; 32])));

    let (status, headers, body) = send_granted(Method::GET, &[], &[(100, 199), (0, 9)]).await;
    let boundary = Boundary::of_content_type(headers["content-type"].to_str().unwrap()).unwrap();
    let parts = parse(&body, &boundary, 2).unwrap();
    assert_eq!((status, parts[0].range.half_open(), parts[1].range.half_open()), (206, 100..200, 0..10));
}

#[tokio::test]
async fn a_data_url_never_answers_with_the_whole() {
    let (status, _, body) =
        send_granted(Method::GET, &[("range", "bytes=0-9"), ("if-range", "\"other\"")], &[(0, 9)]).await;
    assert_eq!(status, 403);
    assert!(String::from_utf8(body).unwrap().contains("url_expired"));
    let tag = format!("\"{}\"", XorbHash::new([3; 32]));
    assert_eq!(send_granted(Method::GET, &[("if-range", &tag)], &[(0, 9)]).await.0, 206);
    assert_eq!(send_granted(Method::GET, &[("if-none-match", &tag)], &[(0, 9)]).await.0, 304);

    let (status, headers, body) = send_granted(Method::HEAD, &[], &[(0, 9)]).await;
    assert_eq!((status, body.len()), (200, 0));
    assert_eq!(headers["content-length"], "1000");
    assert_eq!(send_granted(Method::GET, &[], &[(0, 1000)]).await.0, 416);
}

#[tokio::test]
async fn an_empty_representation_has_no_ranges() {
    let empty = Representation { total_bytes: 0, ..representation() };
    let handler =
        move |method: Method, headers: HeaderMap| async move { answer(&method, &headers, &empty, source) };
    let app = Router::new().route("/", get(handler));
    let (status, headers, body) = send(app.clone(), Method::GET, &[]).await;
    assert_eq!((status, body.len()), (200, 0));
    assert_eq!(headers["content-length"], "0");
    assert_eq!(send(app, Method::GET, &[("range", "bytes=0-")]).await.0, 416);
}

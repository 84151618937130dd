//! Objects in a real bucket: the same behaviour as in a directory, refusals that say what to do, and presigned URLs.

use reqwest::header::{CACHE_CONTROL, CONTENT_RANGE, EXPIRES, RANGE};
use testkit::s3::S3;

use super::*;

fn open(s3: &S3, bucket: &str) -> Objects {
    Objects::open(bucket, s3.environment()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_behaves_as_objects_should() {
    let s3 = S3::start();
    behaves(open(&s3, &s3.fresh_bucket())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_object_in_a_bucket_streams_in_pieces() {
    let s3 = S3::start();
    let objects = open(&s3, &s3.fresh_bucket());
    let (key, data) = (xorb_key(), testkit::corpus::noise(1, 3_000_000));
    objects.put(&key, vec![data.clone().into()]).await.unwrap();
    let pieces: Vec<_> = objects.stream(&key, 10..2_900_000).await.unwrap().try_collect().await.unwrap();
    assert!(pieces.len() > 1 && pieces.concat() == data[10..2_900_000]);
    assert_eq!(objects.range(&key, 2_999_000..3_000_000).await.unwrap(), data[2_999_000..]);
}

/// An object that was cut must not be taken for a bucket that is down: nobody may wait for it to come back.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_too_short_is_corrupt_wherever_the_range_begins() {
    let s3 = S3::start();
    let folder = tempfile::tempdir().unwrap();
    for objects in [open(&s3, &s3.fresh_bucket()), Objects::local(folder.path()).unwrap()] {
        let key = xorb_key();
        objects.put(&key, vec![Bytes::from("abc")]).await.unwrap();
        for range in [1..4, 3..5, 100..200] {
            let error = objects.range(&key, range.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{range:?} {error}");
            let streamed = async { objects.stream(&key, range).await?.try_collect::<Vec<_>>().await };
            let error = streamed.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_reported_and_not_repeated() {
    let s3 = S3::start();
    let bucket = s3.fresh_bucket();
    let wrong = |name: &str, value: &str| {
        let options = s3.environment().into_iter().filter(|(known, _)| known != name);
        options.chain([(name.to_owned(), value.to_owned())]).collect::<Vec<_>>()
    };
    for options in [wrong("AWS_SECRET_ACCESS_KEY", "not-the-secret"), wrong("AWS_ACCESS_KEY_ID", "nobody")] {
        let objects = Objects::open(&bucket, options).unwrap();
        let put = objects.put(&xorb_key(), vec![Bytes::from("abc")]).await.unwrap_err();
        let range = objects.range(&xorb_key(), 0..1).await.unwrap_err();
        let head = objects.head(&xorb_key()).await.unwrap_err();
        let list = objects.list(Folder::Xorbs).try_collect::<Vec<_>>().await.unwrap_err();
        let check = objects.check().await.unwrap_err();
        for error in [put, range, head, list, check] {
            let shown = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Internal, "{shown}");
            assert!(shown.contains("check the access key"), "{shown}");
            assert!(!shown.contains("not-the-secret") && !shown.contains(s3.secret()), "{shown}");
        }
    }
    assert!(!format!("{:?}", open(&s3, &bucket)).contains(s3.secret()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_is_reported_as_missing() {
    let s3 = S3::start();
    // Our own server makes a bucket when something is put there; so this only looks.
    let error = open(&s3, "s3://nobody-made-this-one").check().await.unwrap_err();
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");
}

/// A URL with another byte where `from` begins, after `skip` bytes of it.
fn altered(url: &str, from: &str, skip: usize) -> String {
    let at = url.find(from).unwrap() + from.len() + skip;
    let other = if &url[at..=at] == "0" { "1" } else { "0" };
    format!("{}{other}{}", &url[..at], &url[at + 1..])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_presigned_url_opens_its_range_alone_until_it_expires() {
    let s3 = S3::start();
    let objects = open(&s3, &s3.fresh_bucket());
    let data = testkit::corpus::noise(2, 1000);
    objects.put(&xorb_key(), vec![data.clone().into()]).await.unwrap();
    let ranges = [0..100, 100..200, 500..1000];
    let urls = objects.presign(&xorb_key(), &ranges, Duration::from_secs(600)).await.unwrap().unwrap();
    assert!(urls[0] != urls[1] && urls[1] != urls[2]);
    assert!(urls.iter().all(|url| !url.contains(s3.secret())));

    let client = reqwest::Client::new();
    let get = async |url: &str, range: Option<&str>| {
        let request = client.get(url);
        let request = if let Some(range) = range { request.header(RANGE, range) } else { request };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.headers().clone(), answer.bytes().await.unwrap())
    };
    for (range, url) in ranges.iter().zip(&urls) {
        let header = format!("bytes={}-{}", range.start, range.end - 1);
        let (status, headers, body) = get(url, Some(&header)).await;
        assert_eq!(status, 206, "{}", String::from_utf8_lossy(&body));
        assert!(body == data[range.start as usize..range.end as usize]);
        assert_eq!(headers[CONTENT_RANGE], format!("{}/1000", header.replace('=', " ")));
        // The server of the tests ignores the requested response headers; Ceph's and Amazon's do not.
        if !s3.is_ours() {
            assert_eq!(headers[CACHE_CONTROL], "public, immutable");
            assert!(headers.contains_key(EXPIRES));
        }
        for other in [Some("bytes=0-999"), Some("bytes=0-"), Some("bytes=0-99,100-199"), None] {
            assert_eq!(get(url, other).await.0, 403, "{other:?}");
        }
        assert_eq!(get(&altered(url, "X-Amz-Signature=", 5), Some(&header)).await.0, 403);
        assert_eq!(get(&altered(url, "x-xet-signed-range=bytes%3D", 0), Some(&header)).await.0, 403);
        assert_eq!(client.put(url).header(RANGE, &header).body("x").send().await.unwrap().status(), 403);
    }
    assert_eq!(client.delete(&urls[0]).header(RANGE, "bytes=0-99").send().await.unwrap().status(), 403);

    let short = objects.presign(&xorb_key(), &ranges[..1], Duration::from_secs(1)).await.unwrap().unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while get(&short[0], Some("bytes=0-99")).await.0 != 403 {
        assert!(std::time::Instant::now() < end, "the URL never expires");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let empty = objects.presign(&xorb_key(), std::slice::from_ref(&(5..5)), Duration::from_secs(9)).await;
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_directory_presigns_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::local(folder.path()).unwrap();
    assert!(!objects.can_presign());
    assert_eq!(objects.presign(&xorb_key(), &[], Duration::from_secs(60)).await.unwrap(), None);
}

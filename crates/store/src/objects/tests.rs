//! Objects in a directory, in memory and in a bucket: the same behaviour.

use std::time::Duration;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use url::Url;
use xet::{ShardHash, XorbHash};

use super::*;
use crate::ids::{Digest, XorbKey};
use crate::objects::key::ObjectKey;

mod live;

fn xorb_key() -> ObjectKey {
    ObjectKey::Xorb(XorbKey { hash: XorbHash::new([1; 32]), digest: Digest::of(b"abc") })
}

#[test]
fn keys_are_spelled_one_way() {
    let key = xorb_key();
    let digest = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(key.to_string(), format!("xorbs/01/{}-{digest}", "01".repeat(32)));
    assert_eq!(key.to_string().parse::<ObjectKey>().unwrap(), key);
    let shard = ObjectKey::Shard(ShardHash::new([0xab; 32]));
    assert_eq!(shard.to_string(), format!("shards/ab/{}", "ab".repeat(32)));
    assert_eq!(shard.to_string().parse::<ObjectKey>().unwrap(), shard);

    let upper = format!("shards/ab/{}", "AB".repeat(32));
    let elsewhere = format!("shards/cd/{}", "ab".repeat(32));
    let deeper = format!("shards/ab/x/{}", "ab".repeat(32));
    for other in ["", "xorbs", "xorbs/01/x-y", "other/ab/cd", &upper, &elsewhere, &deeper] {
        assert!(other.parse::<ObjectKey>().is_err(), "{other}");
    }
}

async fn behaves(objects: Objects) {
    let key = xorb_key();
    objects.check().await.unwrap();
    assert_eq!(objects.head(&key).await.unwrap(), None);
    assert_eq!(objects.range(&key, 0..1).await.unwrap_err().kind(), ErrorKind::NotFound);
    objects.delete(&key).await.unwrap();

    let parts = || vec![Bytes::from("ab"), Bytes::new(), Bytes::from("c")];
    objects.put(&key, parts()).await.unwrap();
    objects.put(&key, parts()).await.unwrap();
    assert_eq!(objects.head(&key).await.unwrap(), Some(3));
    assert_eq!(objects.range(&key, 1..3).await.unwrap(), "bc");
    assert_eq!(objects.range(&key, 1..1).await.unwrap(), "");
    assert_eq!(objects.whole(&key).await.unwrap(), "abc");
    let short = objects.range(&key, 1..4).await.unwrap_err();
    assert!(matches!(short.kind(), ErrorKind::Corrupt | ErrorKind::Unavailable), "{short}");

    let streamed = async |range: Range<u64>| {
        let pieces: Vec<Bytes> = objects.stream(&key, range).await?.try_collect().await?;
        Ok::<_, Error>(pieces.concat())
    };
    assert_eq!(streamed(0..3).await.unwrap(), b"abc");
    assert_eq!(streamed(1..2).await.unwrap(), b"b");
    assert_eq!(streamed(2..2).await.unwrap(), b"");
    assert!(streamed(1..4).await.is_err());

    let listed: Vec<_> = objects.list(Folder::Xorbs).try_collect().await.unwrap();
    assert_eq!(listed.iter().map(|o| (o.key, o.bytes)).collect::<Vec<_>>(), [(Some(key), 3)]);
    assert!(objects.list(Folder::Shards).try_collect::<Vec<_>>().await.unwrap().is_empty());
    objects.delete(&key).await.unwrap();
    assert_eq!(objects.head(&key).await.unwrap(), None);

    // Many at once; one that is not there is no hindrance.
    let many: Vec<_> = (0..3).map(|version| ObjectKey::People { version }).collect();
    for key in [many[0], many[2], key] {
        objects.put(&key, parts()).await.unwrap();
    }
    objects.delete_all(many).await.unwrap();
    assert!(objects.list(Folder::People).try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(objects.head(&key).await.unwrap(), Some(3));
    objects.delete_all(vec![key]).await.unwrap();
    objects.delete_all(Vec::new()).await.unwrap();
    assert_eq!(objects.head(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_directory_behaves_as_objects_should() {
    let folder = tempfile::tempdir().unwrap();
    behaves(Objects::local(&folder.path().join("new/objects")).unwrap()).await;
    let url = Url::from_directory_path(folder.path().join("by url")).unwrap();
    behaves(Objects::open(url.as_str(), []).unwrap()).await;
}

#[tokio::test]
async fn memory_behaves_as_objects_should() {
    behaves(Objects::new(Arc::new(InMemory::new()))).await;
    behaves(Objects::open("memory:///some/prefix", []).unwrap()).await;
}

#[tokio::test]
async fn a_long_object_streams_in_pieces_and_a_cut_one_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::local(folder.path()).unwrap();
    let (key, data) = (xorb_key(), testkit::corpus::noise(1, 3_000_000));
    objects.put(&key, vec![data.clone().into()]).await.unwrap();
    let pieces: Vec<_> = objects.stream(&key, 10..2_900_000).await.unwrap().try_collect().await.unwrap();
    assert!(pieces.len() > 3 && pieces.concat() == data[10..2_900_000]);

    let mut pieces = objects.stream(&key, 0..3_000_000).await.unwrap();
    let first = pieces.try_next().await.unwrap().unwrap();
    assert!(data.starts_with(&first));
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join(key.to_string())).unwrap();
    file.set_len(1_000_000).unwrap();
    let error = pieces.try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// An operator may drop a file there; nobody may mistake it for an object.
#[tokio::test]
async fn foreign_files_are_listed_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::local(folder.path()).unwrap();
    std::fs::create_dir_all(folder.path().join("xorbs/zz")).unwrap();
    std::fs::write(folder.path().join("xorbs/zz/notes.txt"), "hello").unwrap();
    let listed: Vec<_> = objects.list(Folder::Xorbs).try_collect().await.unwrap();
    assert_eq!(
        listed.iter().map(|o| (o.path.as_str(), o.key)).collect::<Vec<_>>(),
        [("xorbs/zz/notes.txt", None)]
    );
}

#[test]
fn a_store_of_no_known_kind_is_refused() {
    for url in ["", "nothing://x", "/plain/path"] {
        assert_eq!(Objects::open(url, []).unwrap_err().kind(), ErrorKind::Invalid, "{url}");
    }
}

#[test]
fn a_password_in_a_url_is_refused_and_not_repeated() {
    for url in ["s3://id:hush@bucket/prefix", "s3://id:hush@bucket:port/", "az://c:hush@account/x"] {
        let error = Objects::open(url, []).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    }
}

/// No network is touched before the first request.
#[test]
fn a_bucket_is_opened_by_its_url() {
    let options = [("aws_region", "nowhere"), ("aws_access_key_id", "id"), ("aws_secret_access_key", "hush")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let objects = Objects::open("s3://bucket/some/prefix", options).unwrap();
    let shown = format!("{objects:?}");
    assert!(shown.contains("some/prefix") && !shown.contains("hush"), "{shown}");
    assert!(objects.can_presign());
    let options = [("azure_storage_account_name", "a"), ("azure_storage_account_key", "aHVzaA==")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert!(!Objects::open("az://container/prefix", options).unwrap().can_presign());
}

//! Large files by parts.

use super::*;

#[tokio::test]
async fn a_very_large_file_arrives_by_parts_in_any_order() {
    let mut config = ServeConfig::default();
    config.limits.lfs_part_bytes = 1 << 16;
    let hub = Hub::with(config).await;
    hub.create("a", false).await;
    let data = testkit::corpus::noise(9, 65 * (1 << 16) + 5);
    let oid = hex(&data);
    let post = |transfers: Value, size: usize| {
        let batch =
            json!({"operation": "upload", "transfers": transfers, "objects": [{"oid": oid, "size": size}]});
        let hub = &hub;
        async move { hub.admin("POST", "/ann/a.git/info/lfs/objects/batch", batch).await.json() }
    };
    assert_eq!(post(json!(["basic"]), data.len()).await["transfer"], json!("basic"));
    assert_eq!(
        post(json!(["basic", "multipart"]), 64 << 16).await["transfer"],
        json!("basic"),
        "not large enough"
    );
    let answer = post(json!(["basic", "multipart"]), data.len()).await;
    assert_eq!(answer["transfer"], json!("multipart"));
    let upload = &answer["objects"][0]["actions"]["upload"];
    let mut urls = upload["header"].as_object().unwrap().clone();
    assert_eq!(urls.remove("chunk_size").unwrap(), json!("65536"));
    assert_eq!(urls.len(), 66);
    let href = upload["href"].as_str().unwrap();
    let claim = json!({"oid": oid, "parts": []}).to_string();

    let part = |n: usize| &data[n << 16..data.len().min((n + 1) << 16)];
    for (n, url) in urls.values().enumerate().rev().skip(1) {
        let put = hub.send("PUT", url.as_str().unwrap(), &[], part(n)).await;
        assert_eq!((put.status, put.header("etag").is_empty()), (200, false));
    }
    assert_eq!(hub.send("POST", href, &[], claim.as_bytes()).await.status, 400, "one is missing");
    let last = urls.values().next_back().unwrap().as_str().unwrap();
    assert_eq!(hub.send("PUT", last, &[], part(0)).await.status, 413, "another length");
    assert_eq!(hub.send("PUT", &last.replace("part=65536", "part=131072"), &[], part(65)).await.status, 403);
    assert_eq!(hub.send("PUT", last, &[], b"other").await.status, 200);
    assert_eq!(hub.send("POST", href, &[], claim.as_bytes()).await.status, 400, "not what was announced");
    assert_eq!(hub.send("PUT", last, &[], part(65)).await.status, 200);
    for _ in 0..2 {
        assert_eq!(hub.send("POST", href, &[], claim.as_bytes()).await.status, 200);
    }
    let lines =
        [header("up"), json!({"key": "lfsFile", "value": {"path": "w.bin", "algo": "sha256", "oid": oid}})];
    assert_eq!(hub.commit(&hub.admin, "ann/a", &lines).await.status, 200);
    assert!(hub.send("GET", "/ann/a/resolve/main/w.bin", &[], b"").await.body == data);
    use futures::StreamExt as _;
    let left = hub.store.objects().list(store::objects::Folder::Parts).count().await;
    assert_eq!(left, 0, "parts are forgotten");
}

//! Administration: users, and the trash.

use super::*;

#[tokio::test]
async fn people_are_managed_through_the_api() {
    let hub = Hub::new().await;
    let (orgs, members) = ("/api/admin/orgs", "/api/admin/orgs/team/members");
    assert_eq!(hub.admin("PUT", &format!("{members}/ann"), json!({"role": "write"})).await.status, 404);
    for (uri, name, status) in
        [("/api/admin/users", "ann", 201), (orgs, "team", 201), (orgs, "team", 409), (orgs, "te am", 400)]
    {
        assert_eq!(hub.admin("POST", uri, json!({"name": name})).await.status, status, "{name}");
    }
    assert_eq!(
        hub.admin("GET", "/api/admin/users", Value::Null).await.json(),
        json!([{"name": "ann", "state": "active"}])
    );
    assert_eq!(hub.admin("GET", orgs, Value::Null).await.json(), json!([{"name": "team"}]));

    let ann = hub.personal("ann", Rights::Write, Bound::Everywhere).await;
    let create = json!({"name": "team/a", "private": true}).to_string();
    assert_eq!(hub.call(&ann, "POST", "/api/repos/create", create.as_bytes()).await.status, 403);
    for (role, status) in [("read", 403), ("odd", 403), ("write", 200)] {
        hub.admin("PUT", &format!("{members}/ann"), json!({"role": role})).await;
        assert_eq!(hub.call(&ann, "POST", "/api/repos/create", create.as_bytes()).await.status, status);
    }
    assert_eq!(
        hub.admin("GET", members, Value::Null).await.json(),
        json!([{"org": "team", "user": "ann", "role": "write"}])
    );
    let repos = hub.admin("GET", "/api/admin/repos?type=model", Value::Null).await.json();
    assert_eq!((&repos[0]["repo"], &repos[0]["private"]), (&json!("team/a"), &json!(true)));
    assert_eq!(hub.call(&ann, "GET", "/api/models/team/a", b"").await.status, 200);
    assert_eq!(hub.admin("DELETE", &format!("{members}/ann"), Value::Null).await.status, 200);
    assert_eq!(hub.admin("DELETE", &format!("{members}/ann"), Value::Null).await.status, 404);
    assert_eq!(hub.call(&ann, "GET", "/api/models/team/a", b"").await.status, 404);
}

#[tokio::test]
async fn a_deleted_repository_can_be_had_back() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let data = testkit::corpus::noise(3, 200_000);
    hub.upload("ann/a", "w.bin", &data).await;
    let old = hub.token(Rights::Write, "a").await;
    let hash = hub.send("HEAD", "/ann/a/resolve/main/w.bin", &[], b"").await.header("x-xet-hash").to_owned();
    let reconstruction = format!("/v1/reconstructions/{hash}");
    assert_eq!(hub.call(&old, "GET", &reconstruction, b"").await.status, 200);
    let delete = || hub.admin("DELETE", "/api/repos/delete", json!({"name": "ann/a"}));
    assert_eq!(delete().await.status, 200);
    assert_eq!(delete().await.status, 404);
    assert_eq!(hub.send("GET", "/ann/a/resolve/main/w.bin", &[], b"").await.status, 401);
    // 404 as long as the token is cached, then 401: what it was for is gone.
    let is_closed = async || matches!(hub.call(&old, "GET", &reconstruction, b"").await.status, 401 | 404);
    assert!(is_closed().await, "its files are not to be had");

    let trash = hub.admin("GET", "/api/admin/trash", Value::Null).await.json();
    assert_eq!(trash[0]["repo"], json!("ann/a"));
    assert!(trash[0]["reclaimAt"].is_string());
    let uri = format!("/api/admin/trash/{}", trash[0]["id"].as_str().unwrap());
    assert_eq!(hub.store.hub().reclaim_trash().await.unwrap(), [], "its time has not come");

    // Its name is free, and its next owner gets nothing of it.
    hub.create("a", false).await;
    assert_eq!(hub.send("GET", "/ann/a/resolve/main/w.bin", &[], b"").await.status, 404);
    assert!(is_closed().await);
    assert_eq!(hub.admin("POST", &uri, json!({})).await.status, 409);
    assert_eq!(hub.admin("POST", &uri, json!({"repo": "ann/b"})).await.json()["repo"], json!("ann/b"));
    assert!(hub.send("GET", "/ann/b/resolve/main/w.bin", &[], b"").await.body == data);
    assert_eq!(hub.admin("GET", "/api/admin/trash", Value::Null).await.json(), json!([]));
    assert_eq!(hub.admin("POST", &uri, json!({})).await.status, 404);

    hub.admin("DELETE", "/api/repos/delete", json!({"name": "ann/b"})).await;
    assert_eq!(hub.admin("DELETE", &uri, Value::Null).await.status, 200);
    assert_eq!(hub.admin("GET", "/api/admin/trash", Value::Null).await.json(), json!([]));

    let hub = Hub::with(ServeConfig { trash_s: 0, ..ServeConfig::default() }).await;
    hub.create("a", false).await;
    hub.admin("DELETE", "/api/repos/delete", json!({"name": "ann/a"})).await;
    assert_eq!(hub.admin("GET", "/api/admin/trash", Value::Null).await.json(), json!([]), "no trash");
}

#[tokio::test]
async fn a_quota_is_set_from_afar_and_refuses_with_413_what_it_should() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let quotas = "/api/admin/quotas";
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    assert_eq!(hub.call(&ann, "GET", quotas, b"").await.status, 403);
    for (body, status) in [
        (json!({"of": "ann", "logicalHard": 300_000, "physicalSoft": 10}), 200),
        (json!({"of": "a/b/c/d"}), 400),
        (json!({"of": "ann", "hard": 1}), 400),
    ] {
        assert_eq!(hub.admin("PUT", quotas, body).await.status, status);
    }
    hub.upload("ann/a", "w.bin", &testkit::corpus::noise(1, 200_000)).await;
    let listed = hub.admin("GET", quotas, Value::Null).await.json();
    assert_eq!((&listed[0]["of"], &listed[0]["logicalHard"]), (&json!("ann"), &json!(300_000)));
    assert!(listed[0]["logicalBytes"].as_u64().unwrap() > 200_000, "{listed}");

    // Before any byte: the batch says how much is coming.
    let data = testkit::corpus::noise(2, 200_000);
    let batch = json!({"operation": "upload", "transfers": ["basic", "xet"],
                       "objects": [{"oid": hex(&data), "size": data.len()}]});
    let batch = batch.to_string();
    let batch = || hub.call(&ann, "POST", "/ann/a.git/info/lfs/objects/batch", batch.as_bytes());
    // Usage is cached for a moment.
    let refused = loop {
        let got = batch().await;
        if got.status == 413 {
            break got;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    assert_eq!(refused.json()["code"], json!("quota_exceeded"));
    let message = refused.header("x-error-message");
    assert!(
        message.contains("quota of ann: 300000 logical bytes") && message.contains("200000 more"),
        "{message}"
    );
    // So does what clients ask first, unless the file is there already.
    for (path, size, status) in [("new.bin", 200_000, 413), ("w.bin", 200_000, 200), ("w.bin", 200_001, 413)]
    {
        let body = json!({"files": [{"path": path, "size": size, "sample": ""}]}).to_string();
        let got = hub.call(&ann, "POST", "/api/models/ann/a/preupload/main", body.as_bytes()).await;
        assert_eq!(got.status, status, "{path} {size}");
    }
    // A commit of a small file too; one that deletes is let through, and both tell of the soft limit.
    let put = [header("up"), file("big.txt", &vec![b'x'; 150_000])];
    assert_eq!(hub.commit(&ann, "ann/a", &put).await.status, 413);
    let delete = [header("rm"), json!({"key": "deletedFile", "value": {"path": "w.bin"}})];
    let deleted = hub.commit(&ann, "ann/a", &delete).await;
    assert_eq!(deleted.status, 200);
    assert!(deleted.header("x-hf-warning").starts_with("quota; ann takes"), "{:?}", deleted.headers);
    // The xorb of a client that cuts files itself.
    let upload = testkit::upload::Upload::of(&[&data], 100, xet::compress::Policy::Auto);
    assert_eq!(hub.admin("PUT", quotas, json!({"of": "ann/a", "physicalHard": 250_000})).await.status, 200);
    let xorb = &upload.xorbs[0];
    let token = hub.token(Rights::Write, "a").await;
    let got = hub.call(&token, "POST", &format!("/v1/xorbs/default/{}", xorb.info.hash()), &xorb.bytes).await;
    assert_eq!((got.status, &got.json()["code"]), (413, &json!("quota_exceeded")));

    for of in ["ann", "ann/a"] {
        assert_eq!(hub.admin("DELETE", &format!("{quotas}?of={of}"), Value::Null).await.status, 200);
    }
    assert_eq!(hub.admin("DELETE", &format!("{quotas}?of=ann"), Value::Null).await.status, 404);
    assert_eq!(batch().await.status, 200);
}

#[tokio::test]
async fn the_audit_log_says_who_did_what_in_which_request_and_no_token() {
    let hub = Hub::new().await;
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let create = json!({"name": "ann/a"}).to_string();
    let created = hub.call(&ann, "POST", "/api/repos/create", create.as_bytes()).await;
    assert_eq!(hub.commit(&ann, "ann/a", &[header("up"), file("a.txt", b"a")]).await.status, 200);
    hub.admin("POST", "/api/admin/orgs", json!({"name": "team"})).await;
    assert_eq!(hub.call(&ann, "GET", "/api/admin/audit", b"").await.status, 403);
    assert_eq!(hub.admin("GET", "/api/admin/audit?before=x", Value::Null).await.status, 400);

    let got = hub.admin("GET", "/api/admin/audit", Value::Null).await;
    let log = got.json();
    let event =
        |action: &str| log.as_array().unwrap().iter().find(|row| row["action"] == action).unwrap().clone();
    let made = event("repo.create");
    assert_eq!((&made["who"], &made["target"]), (&json!("ann"), &json!("ann/a")));
    assert_eq!(made["request"].as_str().unwrap(), created.header("x-request-id"));
    assert_eq!(event("ref.move")["who"], json!("ann"));
    assert_eq!(
        (&event("org.create")["who"], &event("org.create")["target"]),
        (&json!("admin token \"admin\""), &json!("team"))
    );
    let text = String::from_utf8(got.body).unwrap();
    assert!(text.contains("token.create") && !text.contains(&ann) && !text.contains(&hub.admin));

    let page = hub.admin("GET", "/api/admin/audit?limit=2", Value::Null).await;
    let next = page.header("link").split('>').next().unwrap().trim_start_matches('<').to_owned();
    let rest = hub.admin("GET", &next, Value::Null).await.json();
    assert_eq!((&page.json()[0], &page.json()[1], &rest[0]), (&log[0], &log[1], &log[2]));
}

#[tokio::test]
async fn what_was_deleted_is_had_back_from_afar() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let data = testkit::corpus::noise(3, 200_000);
    hub.upload("ann/a", "w.bin", &data).await;
    let delete = [header("rm"), json!({"key": "deletedFile", "value": {"path": "w.bin"}})];
    assert_eq!(hub.commit(&hub.admin, "ann/a", &delete).await.status, 200);
    let uri = "/api/admin/undelete";
    assert_eq!(hub.admin("POST", uri, json!({"repo": "ann/a"})).await.status, 400);
    assert_eq!(hub.admin("POST", uri, json!({"repo": "ann/b", "path": "w.bin"})).await.status, 404);
    assert_eq!(hub.admin("POST", uri, json!({"repo": "ann/a", "path": "w.bin"})).await.status, 200);
    assert!(hub.send("GET", "/ann/a/resolve/main/w.bin", &[], b"").await.body == data);

    assert_eq!(hub.admin("POST", "/api/models/ann/a/branch/side", json!({})).await.status, 201);
    let info = hub.admin("GET", "/api/models/ann/a/revision/side", Value::Null).await.json();
    hub.admin("DELETE", "/api/models/ann/a/branch/side", Value::Null).await;
    let left = hub.admin("GET", &format!("{uri}?repo=ann/a"), Value::Null).await.json();
    assert_eq!((&left[0]["revision"], &left[0]["ref"]), (&info["sha"], &json!("refs/heads/side")));
    assert!(left[0]["reclaimAt"].as_str() > left[0]["leftAt"].as_str());
    let body = json!({"repo": "ann/a", "revision": info["sha"]});
    assert_eq!(hub.admin("POST", uri, body).await.json()["ref"], json!("refs/heads/side"));
    assert_eq!(hub.admin("GET", "/api/models/ann/a/revision/side", Value::Null).await.status, 200);
}

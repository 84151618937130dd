//! What whoever keeps the server does: people, and the trash.

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
    assert_eq!(hub.admin("GET", "/api/admin/users", Value::Null).await.json(), json!([{"name": "ann"}]));
    assert_eq!(hub.admin("GET", orgs, Value::Null).await.json(), json!([{"name": "team"}]));

    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let create = json!({"name": "team/a", "private": true}).to_string();
    assert_eq!(hub.ask(&ann, "POST", "/api/repos/create", create.as_bytes()).await.status, 403);
    for (role, status) in [("read", 403), ("odd", 403), ("write", 200)] {
        hub.admin("PUT", &format!("{members}/ann"), json!({"role": role})).await;
        assert_eq!(hub.ask(&ann, "POST", "/api/repos/create", create.as_bytes()).await.status, status);
    }
    assert_eq!(
        hub.admin("GET", members, Value::Null).await.json(),
        json!([{"org": "team", "user": "ann", "role": "write"}])
    );
    let repos = hub.admin("GET", "/api/admin/repos?type=model", Value::Null).await.json();
    assert_eq!((&repos[0]["repo"], &repos[0]["private"]), (&json!("team/a"), &json!(true)));
    assert_eq!(hub.ask(&ann, "GET", "/api/models/team/a", b"").await.status, 200);
    assert_eq!(hub.admin("DELETE", &format!("{members}/ann"), Value::Null).await.status, 200);
    assert_eq!(hub.admin("DELETE", &format!("{members}/ann"), Value::Null).await.status, 404);
    assert_eq!(hub.ask(&ann, "GET", "/api/models/team/a", b"").await.status, 404);
}

#[tokio::test]
async fn a_deleted_repository_can_be_had_back() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let data = testkit::corpus::noise(3, 200_000);
    hub.upload("ann/a", "w.bin", &data).await;
    let old = hub.token(TokenScope::Write, "a");
    let hash = hub.send("HEAD", "/ann/a/resolve/main/w.bin", &[], b"").await.header("x-xet-hash").to_owned();
    let reconstruction = format!("/v1/reconstructions/{hash}");
    assert_eq!(hub.ask(&old, "GET", &reconstruction, b"").await.status, 200);
    let delete = || hub.admin("DELETE", "/api/repos/delete", json!({"name": "ann/a"}));
    assert_eq!(delete().await.status, 200);
    assert_eq!(delete().await.status, 404);
    assert_eq!(hub.send("GET", "/ann/a/resolve/main/w.bin", &[], b"").await.status, 401);
    assert_eq!(hub.ask(&old, "GET", &reconstruction, b"").await.status, 404, "its files are not to be had");

    let trash = hub.admin("GET", "/api/admin/trash", Value::Null).await.json();
    assert_eq!(trash[0]["repo"], json!("ann/a"));
    assert!(trash[0]["reclaimAt"].is_string());
    let uri = format!("/api/admin/trash/{}", trash[0]["id"].as_str().unwrap());
    assert_eq!(hub.store.reclaim_trash().await.unwrap(), [], "its time has not come");

    // Its name is free, and whoever takes it gets nothing of it.
    hub.create("a", false).await;
    assert_eq!(hub.send("GET", "/ann/a/resolve/main/w.bin", &[], b"").await.status, 404);
    assert_eq!(hub.ask(&old, "GET", &reconstruction, b"").await.status, 404);
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

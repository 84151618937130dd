//! What would change the result and is not implemented is refused by its name, and changes nothing.

use super::*;

/// Every body of the Hub API, the LFS API and the administration, as clients send them.
fn bodies() -> Vec<(&'static str, &'static str, Value)> {
    let oid = "1".repeat(64);
    vec![
        (
            "POST",
            "/api/repos/create",
            json!({"name": "b", "organization": "ann", "type": "model", "private": false}),
        ),
        ("DELETE", "/api/repos/delete", json!({"name": "a", "organization": "ann", "type": "model"})),
        ("POST", "/api/repos/move", json!({"fromRepo": "ann/a", "toRepo": "ann/z", "type": "model"})),
        ("POST", "/api/validate-yaml", json!({"content": "a: 1", "repoType": "model"})),
        ("PUT", "/api/models/ann/a/settings", json!({"private": true})),
        ("POST", "/api/models/ann/a/branch/x", json!({"startingPoint": "main"})),
        ("DELETE", "/api/models/ann/a/branch/there", json!({})),
        ("POST", "/api/models/ann/a/tag/main", json!({"tag": "t"})),
        ("DELETE", "/api/models/ann/a/tag/there", json!({})),
        ("POST", "/api/models/ann/a/super-squash/main", json!({"message": "m"})),
        ("POST", "/api/models/ann/a/preupload/main", json!({"files": []})),
        ("POST", "/api/models/ann/a/paths-info/main", json!({"paths": []})),
        (
            "POST",
            "/api/models/ann/a/discussions",
            json!({"title": "t", "description": "", "pullRequest": true}),
        ),
        ("POST", "/api/models/ann/a/discussions/1/status", json!({"status": "closed"})),
        ("POST", "/api/models/ann/a/discussions/1/merge", json!({})),
        (
            "POST",
            "/ann/a.git/info/lfs/objects/batch",
            json!({"operation": "download", "objects": [{"oid": oid, "size": 1}]}),
        ),
        ("POST", "/ann/a.git/info/lfs/locks", json!({"path": "x"})),
        ("POST", "/ann/a.git/info/lfs/locks/verify", json!({})),
        ("POST", "/api/admin/users", json!({"name": "bob"})),
        ("POST", "/api/admin/orgs", json!({"name": "team"})),
        ("PUT", "/api/admin/orgs/ann/members/bob", json!({"role": "read"})),
        ("PUT", "/api/admin/quotas", json!({"of": "ann"})),
        ("POST", "/api/admin/undelete", json!({"repo": "ann/a", "path": "x"})),
        ("PUT", "/api/admin/users/ann", json!({"disabled": true})),
        ("PUT", "/api/admin/users/ann/password", json!({"password": "a new password"})),
        ("DELETE", "/api/admin/users/ann", json!({})),
        ("DELETE", "/api/admin/orgs/ann", json!({})),
        ("DELETE", "/api/admin/orgs/ann/members/bob", json!({})),
        ("DELETE", "/api/admin/quotas?of=ann", json!({})),
        ("POST", "/api/admin/trash/00000000000000000000000000000000", json!({"repo": "ann/z"})),
        ("DELETE", "/api/admin/trash/00000000000000000000000000000000", json!({})),
        ("PUT", "/api/admin/dedup", json!({"of": "ann", "dedup": "off"})),
        ("PUT", "/api/models/ann/a/dedup", json!({"dedup": "off"})),
        ("POST", "/ann/a.git/info/lfs/locks/1/unlock", json!({"force": true})),
    ]
}

/// What a caller could have changed.
async fn state(hub: &Hub) -> Vec<Value> {
    let mut state = Vec::new();
    for uri in [
        "/api/models?expand=sha",
        "/api/models/ann/a/refs?include_prs=1",
        "/api/models/ann/a/discussions",
        "/ann/a.git/info/lfs/locks",
        "/api/admin/users",
        "/api/admin/orgs",
        "/api/admin/quotas",
    ] {
        state.push(hub.admin("GET", uri, Value::Null).await.json());
    }
    state
}

async fn hub() -> Hub {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    assert_eq!(hub.commit(&hub.admin, "ann/a", &[header("one"), file("a.txt", b"a")]).await.status, 200);
    for (uri, body) in [
        ("/api/models/ann/a/branch/there", json!({})),
        ("/api/models/ann/a/tag/main", json!({"tag": "there"})),
        ("/api/models/ann/a/discussions", json!({"title": "t", "pullRequest": true})),
    ] {
        assert!(hub.admin("POST", uri, body).await.status < 300, "{uri}");
    }
    hub
}

#[tokio::test]
async fn a_field_that_is_not_known_is_refused_by_its_name_and_nothing_changes() {
    let hub = hub().await;
    let before = state(&hub).await;
    let auth = format!("Bearer {}", hub.admin);
    let headers = [("authorization", auth.as_str()), ("content-type", "application/json")];
    for (method, uri, body) in bodies() {
        for value in [json!(1), json!(null), json!(false), json!({"deep": [1]})] {
            let mut body = body.clone();
            body["xyzzy"] = value;
            let got = hub.send(method, uri, &headers, body.to_string().as_bytes()).await;
            let reply = String::from_utf8_lossy(&got.body);
            assert!(
                (400..500).contains(&got.status) && reply.contains("xyzzy"),
                "{method} {uri}: {} {reply}",
                got.status
            );
        }
        let and = if uri.contains('?') { '&' } else { '?' };
        let got =
            hub.send(method, &format!("{uri}{and}xyzzy=1"), &headers, body.to_string().as_bytes()).await;
        let reply = String::from_utf8_lossy(&got.body);
        assert!(
            got.status == 400 && reply.contains("xyzzy"),
            "{method} {uri}?xyzzy=1: {} {reply}",
            got.status
        );
    }
    assert_eq!(state(&hub).await, before);
}

/// Of two values of one field, one would be ignored; a value of another type would be taken for something else.
#[tokio::test]
async fn a_field_that_is_given_twice_or_with_another_type_is_refused_and_nothing_changes() {
    let hub = hub().await;
    let before = state(&hub).await;
    for (method, uri, body) in bodies() {
        for (field, value) in body.as_object().unwrap() {
            let text = body.to_string();
            let twice = format!("{},{}:{value}}}", &text[..text.len() - 1], json!(field));
            // Whatever a card or a title may be, none of these takes a list of numbers or a number for a text.
            let mut other = body.clone();
            other[field] = match value {
                Value::String(_) => json!(7),
                Value::Bool(_) => json!("true"),
                Value::Number(_) => json!("1"),
                _ => json!("x"),
            };
            let is_content = uri == "/api/validate-yaml" && field == "content";
            for text in [Some(twice), (!is_content).then(|| other.to_string())].into_iter().flatten() {
                let got = hub.call(&hub.admin, method, uri, text.as_bytes()).await;
                let reply = String::from_utf8_lossy(&got.body);
                assert!(got.status == 400, "{method} {uri} {text}: {} {reply}", got.status);
            }
        }
        for text in ["[]", "7", "{\"a\":", "{} {}", "\u{feff}{}"] {
            let got = hub.call(&hub.admin, method, uri, text.as_bytes()).await;
            assert_eq!(got.status, 400, "{method} {uri} {text}");
        }
    }
    assert_eq!(state(&hub).await, before);
}

#[tokio::test]
async fn lists_and_infos_give_what_is_named_and_nothing_else() {
    let hub = hub().await;
    let get = async |uri: &str| hub.admin("GET", uri, Value::Null).await;
    hub.upload("ann/a", "w.bin", &testkit::corpus::noise(4, 70_000)).await;
    for expand in ["expand=likes,sha", "expand[]=likes&expand[]=sha"] {
        assert!(get(&format!("/api/models?{expand}")).await.json()[0]["sha"].is_string(), "{expand}");
        assert!(get(&format!("/api/models/ann/a?{expand}")).await.json()["siblings"].is_null(), "{expand}");
    }
    let info = get("/api/models/ann/a?expand=sha,siblings,xetEnabled").await.json();
    assert!(info["siblings"].is_array() && info["xetEnabled"] == json!(true), "{info}");
    let used = get("/api/models/ann/a?blobs=true").await.json()["usedStorage"].clone();
    assert!(used.as_u64().unwrap() > 70_000);
    for expand in ["expand=usedStorage", "expand=usedStorage,siblings"] {
        assert_eq!(get(&format!("/api/models/ann/a?{expand}")).await.json()["usedStorage"], used, "{expand}");
    }
    assert_eq!(get("/api/models?expand=xetEnabled").await.json()[0]["xetEnabled"], json!(true));
    for uri in ["/api/models?cursor=abc", "/api/admin/repos?cursor=abc"] {
        assert_eq!(get(uri).await.status, 400, "{uri}");
    }
    assert_eq!(get("/api/models?cursor=ann/a").await.json(), json!([]));
}

#[tokio::test]
async fn pull_requests_are_filtered_before_they_are_counted() {
    let hub = hub().await;
    let uri = "/api/models/ann/a/discussions";
    for n in 0..60 {
        let open = json!({"title": format!("t{n}"), "pullRequest": true});
        assert_eq!(hub.admin("POST", uri, open).await.status, 200);
    }
    let closed = hub.admin("POST", &format!("{uri}/1/status"), json!({"status": "closed"})).await;
    assert_eq!(closed.status, 200);
    let found = async |query: &str| {
        let page = hub.admin("GET", &format!("{uri}?{query}"), Value::Null).await.json();
        (page["discussions"].as_array().unwrap().len(), page["count"].as_u64().unwrap())
    };
    // The only closed one is the oldest of 61, behind the first page of all.
    assert_eq!(found("status=closed").await, (1, 1));
    assert_eq!(found("status=open&p=1").await, (10, 60));
    assert_eq!(found("status=all&author=admin").await, (50, 61));
    assert_eq!(found("author=bob").await, (0, 0));
    assert_eq!(found("type=discussion").await, (0, 0));
    assert_eq!(found("type=pull_request").await, (50, 61));
}

#[tokio::test]
async fn a_form_of_paths_is_as_strict_as_its_json() {
    let hub = hub().await;
    let send = async |form: &str| {
        let got = hub.call(&hub.admin, "POST", "/api/models/ann/a/paths-info/main", form.as_bytes()).await;
        (got.status, String::from_utf8_lossy(&got.body).into_owned())
    };
    for form in ["paths=a.txt&expand=maybe", "paths=a.txt&expand=true&expand=false", "paths=a.txt&xyzzy=1"] {
        let (status, reply) = send(form).await;
        assert!(
            status == 400 && (reply.contains("expand") || reply.contains("xyzzy")),
            "{form}: {status} {reply}"
        );
    }
    for form in ["paths=a.txt&expand=True", "paths=a.txt&expand=false", "paths=a.txt&paths=b", "paths=a.txt"]
    {
        let (status, reply) = send(form).await;
        assert!(status == 200 && reply.contains("a.txt"), "{form}: {status} {reply}");
    }
}

#[tokio::test]
async fn lines_of_a_commit_are_as_strict() {
    let hub = hub().await;
    let before = state(&hub).await;
    for line in [
        json!({"key": "header", "value": {"summary": "s", "xyzzy": 1}}),
        json!({"key": "file", "value": {"path": "x", "content": "", "encoding": "base64", "xyzzy": 1}}),
        json!({"key": "lfsFile", "value": {"path": "x", "oid": "1".repeat(64), "xyzzy": 1}}),
        json!({"key": "deletedFile", "value": {"path": "a.txt", "xyzzy": 1}}),
        json!({"key": "deletedFolder", "value": {"path": "a", "xyzzy": 1}}),
        json!({"key": "copyFile", "value": {"path": "x", "srcPath": "a.txt", "xyzzy": 1}}),
        json!({"key": "xyzzy", "value": {}}),
        json!({"key": "deletedFile", "value": {"path": "a.txt"}, "xyzzy": 1}),
    ] {
        let is_header = line["key"] == json!("header");
        let lines = if is_header { vec![line] } else { vec![header("s"), line] };
        let got = hub.commit(&hub.admin, "ann/a", &lines).await;
        let reply = String::from_utf8_lossy(&got.body);
        assert!(got.status == 400 && reply.contains("xyzzy"), "{lines:?}: {} {reply}", got.status);
    }
    let got = hub.commit(&hub.admin, "ann/a", &[header("one"), json!(["deletedFile", ["a.txt"]])]).await;
    assert_eq!(got.status, 400, "a list for an object");
    let got = hub.commit(&hub.admin, "ann/a", &[header("one"), header("two"), file("x", b"1")]).await;
    assert_eq!(got.status, 400, "two headers");
    assert_eq!(state(&hub).await, before);
}

#[tokio::test]
async fn what_is_not_implemented_is_refused_unless_it_is_empty() {
    let hub = hub().await;
    let before = state(&hub).await;
    let create = |field: &str, value: Value| {
        let mut body = json!({"name": "new", "organization": "ann"});
        body[field] = value;
        ("POST", "/api/repos/create", body)
    };
    let refused = [
        create("gated", json!("auto")),
        create("files", json!([{"path": "a", "content": "", "encoding": "base64"}])),
        create("license", json!("mit")),
        create("resourceGroupId", json!("x")),
        create("region", json!("eu")),
        create("storageRegion", json!("eu")),
        create("exist_ok", json!(true)),
        create("hardware", json!("cpu")),
        create("secrets", json!([{"key": "a"}])),
        create("sdk", json!("static")),
        create("visibility", json!("hidden")),
        ("POST", "/api/repos/create", json!({"name": "new", "private": true, "visibility": "public"})),
        ("POST", "/api/repos/create", json!({"name": "ann/new", "organization": "bob"})),
        ("PUT", "/api/models/ann/a/settings", json!({"gated": "manual"})),
        ("PUT", "/api/models/ann/a/settings", json!({"gated": true, "private": true})),
        ("PUT", "/api/models/ann/a/settings", json!({"xetEnabled": false})),
        ("POST", "/api/models/ann/a/branch/x", json!({"emptyBranch": true})),
        ("POST", "/api/models/ann/a/discussions/1/status", json!({"status": "closed", "comment": "why"})),
        ("POST", "/api/models/ann/a/discussions/1/merge", json!({"comment": "why"})),
        (
            "POST",
            "/ann/a.git/info/lfs/objects/batch",
            json!({"operation": "upload", "objects": [], "hash_algo": "sha512"}),
        ),
        (
            "POST",
            "/ann/a.git/info/lfs/objects/batch",
            json!({"operation": "upload", "objects": [], "transfers": ["tus"]}),
        ),
        ("POST", "/ann/a.git/info/lfs/objects/batch", json!({"operation": "verify", "objects": []})),
    ];
    for (method, uri, body) in refused {
        let got = hub.admin(method, uri, body.clone()).await;
        let reply = String::from_utf8_lossy(&got.body);
        let field = body.as_object().unwrap().keys().any(|field| reply.contains(field.as_str()));
        assert!((400..500).contains(&got.status) && field, "{uri} {body}: {} {reply}", got.status);
    }
    assert_eq!(state(&hub).await, before);
    for (n, (field, value)) in [
        ("gated", json!(false)),
        ("files", json!([])),
        ("license", json!(null)),
        ("exist_ok", json!(false)),
        ("visibility", json!("private")),
        ("organization", json!(null)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = json!({"name": format!("ann/ok-{n}")});
        body[field] = value;
        assert_eq!(hub.admin("POST", "/api/repos/create", body).await.status, 200, "{field}");
    }
    let space = json!({"name": "ann/s", "type": "space", "sdk": "static"});
    assert_eq!(hub.admin("POST", "/api/repos/create", space).await.status, 200);
    let settings = json!({"gated": false, "visibility": "private", "xetEnabled": true});
    assert_eq!(hub.admin("PUT", "/api/models/ann/a/settings", settings).await.status, 200);
    // The message of a tag is in the audit log.
    let tag = json!({"tag": "v1", "message": "the first"});
    assert_eq!(hub.admin("POST", "/api/models/ann/a/tag/main", tag).await.status, 201);
    let audit = hub.admin("GET", "/api/admin/audit?limit=5", Value::Null).await.json();
    let noted =
        audit.as_array().unwrap().iter().find(|event| event["action"] == json!("tag.message")).unwrap();
    assert_eq!((&noted["target"], &noted["detail"]), (&json!("ann/a refs/tags/v1"), &json!("the first")));
}

#[tokio::test]
async fn parameters_and_headers_that_are_not_honoured_are_refused_by_name() {
    let hub = hub().await;
    for (uri, name) in [
        ("/api/models?filter=x", "filter"),
        ("/api/models?pipeline_tag=x", "pipeline_tag"),
        ("/api/models?sort=likes&direction=-1", "sort"),
        ("/api/models?gated=true", "gated"),
        ("/api/models?search=a&search=b", "search"),
        ("/api/models/ann/a?expand=cardData", "cardData"),
        ("/api/models/ann/a/commits/main?expand[]=formatted", "expand"),
        ("/ann/a/resolve/main/a.txt?xyzzy=1", "xyzzy"),
        ("/api/whoami-v2?xyzzy=1", "xyzzy"),
        ("/ann/a?xyzzy=1", "xyzzy"),
        ("/api/models/ann/a/xet-read-token/main?xyzzy=1", "xyzzy"),
        ("/api/admin/users?xyzzy=1", "xyzzy"),
    ] {
        let got = hub.admin("GET", uri, Value::Null).await;
        let reply = String::from_utf8_lossy(&got.body);
        assert!(got.status == 400 && reply.contains(name), "{uri}: {} {reply}", got.status);
    }
    let auth = format!("Bearer {}", hub.admin);
    for (method, name, value) in [
        ("POST", "x-http-method-override", "DELETE"),
        ("POST", "content-encoding", "gzip"),
        ("POST", "if-match", "\"x\""),
        ("POST", "if-none-match", "*"),
        ("POST", "content-range", "bytes 0-1/2"),
        ("POST", "expect", "anything"),
    ] {
        let headers = [("authorization", auth.as_str()), (name, value)];
        let got = hub.send(method, "/api/models/ann/a/branch/new", &headers, b"{}").await;
        let reply = String::from_utf8_lossy(&got.body).to_ascii_lowercase();
        assert!(got.status == 400 && reply.contains(name), "{name}: {} {reply}", got.status);
    }
    let uri = "/ann/a/resolve/main/a.txt";
    let etag = hub.send("HEAD", uri, &[], b"").await.header("etag").to_owned();
    for (value, status) in
        [(etag.as_str(), 200), ("*", 200), ("\"other\"", 412), ("\"other\", \"more\"", 412)]
    {
        assert_eq!(hub.send("GET", uri, &[("if-match", value)], b"").await.status, status, "{value}");
    }
}

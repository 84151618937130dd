//! Pull requests, locks and `.gitignore`.

use super::*;

/// Opens a pull request with these lines; answers with its number.
async fn propose(hub: &Hub, lines: &[Value]) -> u64 {
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    let uri = "/api/models/ann/a/commit/main?create_pr=1";
    let got = hub.call(&hub.admin, "POST", uri, lines.join("\n").as_bytes()).await;
    assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    let url = got.json()["pullRequestUrl"].as_str().unwrap().to_owned();
    url.rsplit('/').next().unwrap().parse().unwrap()
}

async fn merge(hub: &Hub, number: u64) -> Got {
    hub.admin("POST", &format!("/api/models/ann/a/discussions/{number}/merge"), json!({})).await
}

async fn read(hub: &Hub, path: &str) -> Vec<u8> {
    let got = hub.admin("GET", &format!("/ann/a/resolve/main/{path}"), Value::Null).await;
    if got.status == 200 { got.body } else { Vec::new() }
}

#[tokio::test]
async fn a_pull_request_is_merged_over_what_main_became() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let deleted = |path: &str| json!({"key": "deletedFile", "value": {"path": path}});
    let begin =
        [header("begin"), file("a", b"1"), file("d/b", b"1"), file("d/c", b"1"), file("gone/x", b"1")];
    hub.commit(&hub.admin, "ann/a", &begin).await;
    let first =
        propose(&hub, &[header("first"), file("a", b"2"), file("d/new", b"2"), deleted("gone/x")]).await;
    let second = propose(&hub, &[header("second"), file("d/b", b"3"), file("a", b"3")]).await;
    let third = propose(&hub, &[header("third"), file("d/c", b"4")]).await;
    hub.commit(&hub.admin, "ann/a", &[header("meanwhile"), file("d/b", b"5")]).await;

    let merged = merge(&hub, first).await;
    assert_eq!(merged.status, 200, "{}", String::from_utf8_lossy(&merged.body));
    assert_eq!(
        [read(&hub, "a").await, read(&hub, "d/b").await, read(&hub, "d/new").await],
        [b"2", b"5", b"2"]
    );
    assert_eq!(read(&hub, "gone/x").await, b"");
    let oid = merged.json()["commitOid"].clone();
    let details =
        hub.admin("GET", &format!("/api/models/ann/a/discussions/{first}"), Value::Null).await.json();
    assert_eq!((&details["status"], &details["changes"]["mergeCommitId"]), (&json!("merged"), &oid));
    assert_eq!(merge(&hub, first).await.json()["commitOid"], oid, "merged is merged");
    let commits = hub.admin("GET", "/api/models/ann/a/commits/main", Value::Null).await.json();
    assert_eq!((&commits[0]["id"], &commits[0]["title"]), (&oid, &json!(format!("first (#{first})"))));

    let refused = merge(&hub, second).await;
    assert_eq!(refused.status, 409);
    let why = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(why.contains(": a, d/b;"), "{why}");
    assert_eq!((read(&hub, "a").await, read(&hub, "d/b").await), (b"2".to_vec(), b"5".to_vec()));

    let status = |to: &str| {
        let (hub, body) = (&hub, json!({"status": to}));
        async move { hub.admin("POST", &format!("/api/models/ann/a/discussions/{third}/status"), body).await }
    };
    assert_eq!(status("closed").await.json()["newStatus"]["data"]["status"], json!("closed"));
    assert_eq!(merge(&hub, third).await.status, 409, "closed");
    assert_eq!((status("open").await.status, status("odd").await.status), (200, 400));
    assert_eq!((merge(&hub, third).await.status, read(&hub, "d/c").await), (200, b"4".to_vec()));
    assert_eq!(status("open").await.status, 409, "merged is merged");

    let list = |query: &str| {
        let (hub, uri) = (&hub, format!("/api/models/ann/a/discussions?{query}"));
        async move {
            let body = hub.admin("GET", &uri, Value::Null).await.json();
            let numbers: Vec<_> = body["discussions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["num"].as_u64().unwrap())
                .collect();
            (numbers, body["count"].as_u64().unwrap())
        }
    };
    assert_eq!(list("").await, (vec![third, second, first], 3));
    assert_eq!(list("status=open").await.0, [second]);
    assert_eq!((list("type=discussion").await.0, list("p=1").await.0), (vec![], vec![]));
    assert_eq!(merge(&hub, 99).await.status, 404);

    // Nothing in common any more.
    hub.admin("POST", "/api/models/ann/a/super-squash/main", json!({})).await;
    assert_eq!(merge(&hub, second).await.status, 409);
}

#[tokio::test]
async fn locks_belong_to_the_user_who_made_them() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let locks = |rest: &str| format!("/ann/a.git/info/lfs/locks{rest}");
    let lock = |path: &str| json!({"path": path, "ref": {"name": "refs/heads/main"}}).to_string();
    let made = hub.call(&ann, "POST", &locks(""), lock("w.bin").as_bytes()).await;
    assert_eq!((made.status, made.header("content-type")), (201, "application/vnd.git-lfs+json"));
    let made = made.json()["lock"].clone();
    assert_eq!((&made["path"], &made["owner"]["name"]), (&json!("w.bin"), &json!("ann")));
    let taken = hub.admin("POST", &locks(""), json!({"path": "w.bin"})).await;
    assert_eq!((taken.status, &taken.json()["lock"]), (409, &made));
    hub.admin("POST", &locks(""), json!({"path": "x.bin"})).await;
    assert_eq!(hub.admin("POST", &locks(""), json!({"path": "../x"})).await.status, 400);

    let list = hub.send("GET", &locks("?limit=1"), &[], b"").await.json();
    assert_eq!((&list["locks"][0], &list["next_cursor"]), (&made, &json!("w.bin")));
    let next = hub.send("GET", &locks("?limit=1&cursor=w.bin"), &[], b"").await.json();
    assert_eq!(next["locks"][0]["path"], json!("x.bin"));
    let verified = hub.call(&ann, "POST", &locks("/verify"), b"{}").await.json();
    assert_eq!(
        (&verified["ours"][0]["path"], &verified["theirs"][0]["path"]),
        (&json!("w.bin"), &json!("x.bin"))
    );

    let unlock = locks(&format!("/{}/unlock", verified["theirs"][0]["id"].as_str().unwrap()));
    assert_eq!(hub.call(&ann, "POST", &unlock, b"{}").await.status, 403);
    assert_eq!(hub.call(&ann, "POST", &unlock, br#"{"force":true}"#).await.status, 200);
    assert_eq!(hub.call(&ann, "POST", &unlock, b"{}").await.status, 404);
    // A lock goes with its repository.
    hub.admin("DELETE", "/api/repos/delete", json!({"name": "ann/a"})).await;
    hub.create("a", false).await;
    assert_eq!(hub.send("GET", &locks(""), &[], b"").await.json()["locks"], json!([]));
}

#[tokio::test]
async fn files_are_ignored_by_the_gitignore_that_comes_along_or_is_there() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let post = |extra: Value| {
        let mut body = json!({"files": [{"path": "a.log", "size": 1}, {"path": "b.txt", "size": 1}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let hub = &hub;
        async move {
            let got = hub.admin("POST", "/api/models/ann/a/preupload/main", body).await.json();
            [got["files"][0]["shouldIgnore"].clone(), got["files"][1]["shouldIgnore"].clone()]
        }
    };
    assert_eq!(post(json!({})).await, [json!(false), json!(false)]);
    assert_eq!(post(json!({"gitIgnore": "*.log\n"})).await, [json!(true), json!(false)]);
    hub.commit(&hub.admin, "ann/a", &[header("ignore"), file(".gitignore", b"*.txt\n")]).await;
    assert_eq!(post(json!({})).await, [json!(false), json!(true)]);
    assert_eq!(post(json!({"gitIgnore": "*.log\n"})).await, [json!(true), json!(false)]);
}

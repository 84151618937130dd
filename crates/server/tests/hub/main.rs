//! The Hub API over HTTP, in process: what clients other than `huggingface_hub` ask for, and who is refused what.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod access;
mod hashes;
mod keep;
mod names;
mod numbers;
mod parts;
mod review;
mod signed;
mod strict;
mod walk;
mod web;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use server::personal_token::{self, NewToken};
use server::{AppState, DataDir, Key, KeyRing, ServeConfig};
use sha2::Digest as _;
use store::Store;
use store::hub::{Bound, Rights};
use tempfile::TempDir;
use tower::ServiceExt as _;

struct Hub {
    app: Router,
    state: AppState,
    store: Store,
    admin: String,
    _folder: TempDir,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Hub {
    async fn new() -> Self {
        Self::with(ServeConfig::default()).await
    }

    async fn with(config: ServeConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyRing::new(Key::new([7; 32]));
        let store = DataDir::new(folder.path()).open(&config, &keys).await.unwrap();
        let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap()).with_store(store.clone());
        let mut hub =
            Self { app: server::app(state.clone()), state, store, admin: String::new(), _folder: folder };
        hub.admin = hub.personal("admin", Rights::Admin, Bound::Everywhere).await;
        hub
    }

    /// A personal token.
    async fn personal(&self, subject: &str, rights: Rights, bound: Bound) -> String {
        let token = personal_token::make();
        let length =
            NewToken { label: subject.into(), subject: subject.into(), rights, bound, expires_s: None };
        assert!(self.store.hub().tokens().add(&length.row(&token, 0)).await.unwrap());
        token.expose().clone()
    }

    /// A token of ann for one of ann's models.
    async fn token(&self, rights: Rights, name: &str) -> String {
        self.personal("ann", rights, Bound::Repo(format!("ann/models/{name}").parse().unwrap())).await
    }

    async fn send(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: &[u8]) -> Got {
        let uri = uri.strip_prefix(&self.state.base_url).unwrap_or(uri);
        let mut request = Request::builder().method(method).uri(uri).header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response =
            self.app.clone().oneshot(request.body(Body::from(body.to_vec())).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Got { status: head.status.as_u16(), headers: head.headers, body }
    }

    async fn call(&self, token: &str, method: &str, uri: &str, body: &[u8]) -> Got {
        self.send(method, uri, &[("authorization", &format!("Bearer {token}"))], body).await
    }

    async fn admin(&self, method: &str, uri: &str, body: Value) -> Got {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.call(&self.admin, method, uri, body.as_bytes()).await
    }

    async fn create(&self, name: &str, private: bool) {
        let body = json!({"name": name, "organization": "ann", "private": private});
        let got = self.admin("POST", "/api/repos/create", body).await;
        assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    }

    async fn commit(&self, token: &str, repo: &str, lines: &[Value]) -> Got {
        let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
        self.call(token, "POST", &format!("/api/models/{repo}/commit/main"), lines.join("\n").as_bytes())
            .await
    }

    /// Uploads whole and commits.
    async fn upload(&self, repo: &str, path: &str, data: &[u8]) {
        let oid = hex(data);
        let batch = json!({"operation": "upload", "transfers": ["basic"], "objects": [{"oid": oid, "size": data.len()}]});
        let got = self.admin("POST", &format!("/{repo}.git/info/lfs/objects/batch"), batch).await;
        let answer = got.json();
        assert_eq!((got.status, &answer["transfer"]), (200, &json!("basic")));
        if let Some(href) = answer["objects"][0]["actions"]["upload"]["href"].as_str() {
            assert_eq!(self.send("PUT", href, &[], data).await.status, 200);
            let verify = answer["objects"][0]["actions"]["verify"]["href"].as_str().unwrap();
            let claim = json!({"oid": oid, "size": data.len()}).to_string();
            assert_eq!(self.send("POST", verify, &[], claim.as_bytes()).await.status, 200);
        }
        let lines =
            [header("up"), json!({"key": "lfsFile", "value": {"path": path, "algo": "sha256", "oid": oid}})];
        assert_eq!(self.commit(&self.admin, repo, &lines).await.status, 200);
    }
}

fn header(summary: &str) -> Value {
    json!({"key": "header", "value": {"summary": summary}})
}

fn file(path: &str, content: &[u8]) -> Value {
    json!({"key": "file", "value": {"path": path, "content": STANDARD.encode(content), "encoding": "base64"}})
}

fn hex(data: &[u8]) -> String {
    sha2::Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_file_is_described_by_its_headers_and_sent_by_ranges() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let data = testkit::corpus::noise(1, 700_000);
    hub.upload("ann/a", "dir/w \u{fc}.bin", &data).await;
    let uri = "/ann/a/resolve/main/dir/w%20%C3%BC.bin";
    let head = hub.send("HEAD", uri, &[], b"").await;
    let oid = hex(&data);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "700000", 0));
    assert_eq!((head.header("x-linked-size"), head.header("accept-ranges")), ("700000", "bytes"));
    assert_eq!(head.header("etag"), format!("\"{oid}\""));
    assert_eq!(head.header("x-linked-etag"), format!("\"{oid}\""));
    let commit = head.header("x-repo-commit");
    assert_eq!((commit.len(), head.header("x-xet-hash").len()), (40, 64));
    let base = &hub.state.base_url;
    let link = format!(
        "<{base}/api/models/ann/a/xet-read-token/{commit}>; rel=\"xet-auth\", \
         <{base}/v1/reconstructions/{}>; rel=\"xet-reconstruction-info\"",
        head.header("x-xet-hash")
    );
    assert_eq!(head.header("link"), link);

    let whole = hub.send("GET", uri, &[], b"").await;
    assert!((whole.status, whole.body.as_slice()) == (200, data.as_slice()));
    for (range, span) in
        [("bytes=5-14", 5..15), ("bytes=650000-", 650_000..700_000), ("bytes=-7", 699_993..700_000)]
    {
        let part = hub.send("GET", uri, &[("range", range)], b"").await;
        assert!((part.status, part.body.as_slice()) == (206, &data[span.clone()]), "{range}");
        assert_eq!(part.header("content-range"), format!("bytes {}-{}/700000", span.start, span.end - 1));
    }
    assert_eq!(hub.send("GET", uri, &[("range", "bytes=700000-")], b"").await.status, 416);
    assert_eq!(hub.send("GET", uri, &[("if-none-match", &format!("\"{oid}\""))], b"").await.status, 304);

    // As huggingface.js asks.
    let accept = ("accept", "application/vnd.xet-fileinfo+json, */*");
    let info = hub.send("GET", uri, &[accept, ("range", "bytes=0-0")], b"").await;
    assert_eq!((info.status, info.header("content-type")), (200, "application/vnd.xet-fileinfo+json"));
    assert_eq!((info.header("x-linked-size"), info.header("link")), ("700000", link.as_str()));
    let cached = format!("/api/resolve-cache/models/ann/a/{commit}/dir/w%20%C3%BC.bin");
    assert_eq!(hub.send("HEAD", &cached, &[], b"").await.header("x-repo-commit"), commit);
    let raw = hub.send("GET", "/ann/a/raw/main/dir/w%20%C3%BC.bin", &[], b"").await;
    assert!(String::from_utf8(raw.body).unwrap().contains(&format!("oid sha256:{oid}\nsize 700000\n")));
}

#[tokio::test]
async fn what_is_not_there_says_what_is_missing() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    for (uri, code) in [
        ("/ann/none/resolve/main/a", "RepoNotFound"),
        ("/ann/a/resolve/none/a", "RevisionNotFound"),
        ("/ann/a/resolve/main/none", "EntryNotFound"),
        ("/ann/a/raw/main/none", "EntryNotFound"),
        ("/api/models/ann/none", "RepoNotFound"),
        ("/api/datasets/ann/a", "RepoNotFound"),
        ("/api/models/ann/a/revision/none", "RevisionNotFound"),
        ("/api/models/ann/a/tree/main/none", "EntryNotFound"),
        ("/api/models/ann/a/tree/feat%2Fnone", "RevisionNotFound"),
        ("/api/models/ann/a/xet-read-token/none", "RevisionNotFound"),
        ("/ann/a/resolve/ma%00in/a", "RevisionNotFound"),
        ("/ann/a/resolve/main/a%00", "EntryNotFound"),
    ] {
        let got = hub.admin("GET", uri, Value::Null).await;
        assert_eq!((got.status, got.header("x-error-code")), (404, code), "{uri}");
        assert!(got.json()["error"].is_string());
    }
    let got = hub.admin("GET", "/ann/a/resolve/main/none", Value::Null).await;
    assert_eq!(got.header("x-repo-commit").len(), 40, "clients remember what a commit has not");
}

#[tokio::test]
async fn a_commit_is_read_line_by_line_and_refused_as_a_whole() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let made =
        hub.commit(&hub.admin, "ann/a", &[header("two"), file("a.txt", b"1"), file("d/b.txt", b"2")]).await;
    let body = made.json();
    let oid = body["commitOid"].as_str().unwrap();
    assert_eq!(body["commitUrl"], json!(format!("{}/ann/a/commit/{oid}", hub.state.base_url)));
    let lfs = |oid: &str| json!({"key": "lfsFile", "value": {"path": "w", "algo": "sha256", "oid": oid, "size": 1}});
    let deleted = json!({"key": "deletedFile", "value": {"path": "none"}});
    let parent = json!({"key": "header", "value": {"summary": "x", "parentCommit": "0".repeat(40)}});
    for (lines, status) in [
        (vec![file("c", b"3")], 400),
        (vec![header("x"), json!({"key": "unknown", "value": {}})], 400),
        (vec![header("x"), file("c", b"3"), lfs(&"0".repeat(64))], 400),
        (vec![header("x"), lfs("abc")], 400),
        (vec![header("x"), file("../c", b"3")], 400),
        (vec![header("x"), file("c", b"3"), deleted], 404),
        (vec![parent, file("c", b"3")], 412),
    ] {
        let got = hub.commit(&hub.admin, "ann/a", &lines).await;
        assert_eq!(got.status, status, "{lines:?}");
    }
    let tree = hub.admin("GET", "/api/models/ann/a/tree/main?recursive=true", Value::Null).await;
    let paths: Vec<_> = tree.json().as_array().unwrap().iter().map(|item| item["path"].clone()).collect();
    assert_eq!(paths, [".gitattributes", "a.txt", "d", "d/b.txt"]);
    let copy =
        json!({"key": "copyFile", "value": {"path": "e.txt", "srcPath": "d/b.txt", "srcRevision": oid}});
    assert_eq!(hub.commit(&hub.admin, "ann/a", &[header("copy"), copy]).await.status, 200);
    assert_eq!(hub.admin("GET", "/ann/a/resolve/main/e.txt", Value::Null).await.body, b"2");
}

#[tokio::test]
async fn listings_link_to_their_next_page() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let files: Vec<_> = (0..25).map(|n| file(&format!("d/{n:02} x"), b"1")).collect();
    let lines: Vec<_> = [header("many")].into_iter().chain(files).collect();
    assert_eq!(hub.commit(&hub.admin, "ann/a", &lines).await.status, 200);
    let mut uri = "/api/models/ann/a/tree/main?recursive=true&limit=7".to_owned();
    let mut paths = Vec::new();
    for page in 0.. {
        assert!(page < 10, "the pages never end");
        let got = hub.admin("GET", &uri, Value::Null).await;
        assert_eq!(got.status, 200, "{uri}");
        paths.extend(
            got.json().as_array().unwrap().iter().map(|item| item["path"].as_str().unwrap().to_owned()),
        );
        let Some(next) = got.header("link").strip_prefix('<') else { break };
        uri = next.split_once(">; rel=\"next\"").unwrap().0.to_owned();
    }
    assert_eq!(paths.len(), 27);
    assert!(paths.is_sorted(), "{paths:?}");
    // As huggingface.js and huggingface_hub ask for paths.
    for (kind, body) in [
        ("application/json", json!({"paths": ["d/01 x", "none", "d"]}).to_string()),
        ("application/x-www-form-urlencoded", "paths=d%2F01+x&paths=none&paths=d&expand=true".to_owned()),
    ] {
        let auth = format!("Bearer {}", hub.admin);
        let headers = [("authorization", auth.as_str()), ("content-type", kind)];
        let got = hub.send("POST", "/api/models/ann/a/paths-info/main", &headers, body.as_bytes()).await;
        let found: Vec<_> = got.json().as_array().unwrap().iter().map(|item| item["path"].clone()).collect();
        assert_eq!(found, ["d/01 x", "d"], "{kind}");
    }
    let commits = hub.admin("GET", "/api/models/ann/a/commits/main?limit=1", Value::Null).await;
    assert_eq!((commits.header("x-total-count"), commits.json().as_array().unwrap().len()), ("2", 1));
}

#[tokio::test]
async fn a_private_repository_does_not_exist_for_others() {
    let hub = Hub::new().await;
    hub.create("secret", true).await;
    hub.create("other", false).await;
    let data = testkit::corpus::noise(2, 100_000);
    hub.upload("ann/secret", "w.bin", &data).await;
    let outsider = hub.token(Rights::Write, "other").await;
    let paths = [
        "/api/models/ann/secret",
        "/api/models/ann/secret/tree/main",
        "/api/models/ann/secret/refs",
        "/api/models/ann/secret/commits/main",
        "/api/models/ann/secret/xet-read-token/main",
        "/api/models/ann/secret/xet-write-token/main",
        "/api/models/ann/secret/auth-check",
        "/ann/secret/resolve/main/w.bin",
        "/ann/secret/raw/main/w.bin",
    ];
    for path in paths {
        let got = hub.call(&outsider, "GET", path, b"").await;
        assert_eq!((got.status, got.header("x-error-code")), (404, "RepoNotFound"), "{path}");
        let got = hub.send("GET", path, &[], b"").await;
        assert_eq!((got.status, got.header("x-error-code")), (401, "RepoNotFound"), "{path}");
        let got = hub.call("ds_forged", "GET", path, b"").await;
        assert_eq!(got.status, 401, "{path}");
    }
    let batch =
        json!({"operation": "download", "objects": [{"oid": hex(&data), "size": data.len()}]}).to_string();
    let got = hub.call(&outsider, "POST", "/ann/secret.git/info/lfs/objects/batch", batch.as_bytes()).await;
    assert_eq!(got.status, 404);
    // Nor by its digest in a repository of one's own.
    let got = hub.call(&outsider, "POST", "/ann/other.git/info/lfs/objects/batch", batch.as_bytes()).await;
    assert_eq!(got.json()["objects"][0]["error"]["code"], 404);
    let lfs = json!({"key": "lfsFile", "value": {"path": "w", "algo": "sha256", "oid": hex(&data)}});
    assert_eq!(hub.commit(&outsider, "ann/other", &[header("steal"), lfs]).await.status, 400);
    let head = hub.call(&hub.admin, "HEAD", "/ann/secret/resolve/main/w.bin", b"").await;
    let plan = format!("/v2/reconstructions/{}", head.header("x-xet-hash"));
    assert_eq!(hub.call(&outsider, "GET", &plan, b"").await.status, 404);
    assert_eq!(hub.call(&hub.token(Rights::Read, "secret").await, "GET", &plan, b"").await.status, 200);
    let listed = hub.send("GET", "/api/models", &[], b"").await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_that_reads_does_not_write() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let reader = hub.token(Rights::Read, "a").await;
    let elsewhere = hub.token(Rights::Write, "b").await;
    let lines = [header("x"), file("c", b"3")];
    for token in [&reader, &elsewhere] {
        assert_eq!(hub.commit(token, "ann/a", &lines).await.status, 403);
        for (method, path, body) in [
            ("POST", "/api/models/ann/a/preupload/main", json!({"files": []})),
            ("POST", "/api/models/ann/a/branch/b", json!({})),
            ("POST", "/api/models/ann/a/tag/main", json!({"tag": "t"})),
            ("POST", "/api/models/ann/a/super-squash/main", json!({})),
            ("POST", "/api/models/ann/a/discussions", json!({"title": "t", "pullRequest": true})),
            ("PUT", "/api/models/ann/a/settings", json!({"private": true})),
            ("GET", "/api/models/ann/a/xet-write-token/main", Value::Null),
            ("DELETE", "/api/repos/delete", json!({"name": "a", "organization": "ann"})),
            ("POST", "/api/repos/move", json!({"fromRepo": "ann/a", "toRepo": "ann/c"})),
            ("POST", "/api/repos/create", json!({"name": "new", "organization": "bob"})),
            ("POST", "/ann/a.git/info/lfs/objects/batch", json!({"operation": "upload", "objects": []})),
        ] {
            let got = hub.call(token, method, path, body.to_string().as_bytes()).await;
            assert_eq!(got.status, 403, "{method} {path}");
        }
    }
    assert_eq!(hub.call(&reader, "GET", "/api/models/ann/a/xet-read-token/main", b"").await.status, 200);
    let writer = hub.token(Rights::Write, "a").await;
    assert_eq!(hub.commit(&writer, "ann/a", &lines).await.status, 200);
    let basic = format!("Basic {}", STANDARD.encode(format!("ann:{}", hub.admin)));
    assert_eq!(
        hub.send("GET", "/api/whoami-v2", &[("authorization", &basic)], b"").await.json()["name"],
        "admin"
    );
    let prefixed = format!("hf_{}", hub.admin);
    assert_eq!(
        hub.call(&prefixed, "GET", "/api/whoami-v2", b"").await.status,
        200,
        "as huggingface.js wants it"
    );
    assert_eq!(hub.send("GET", "/api/whoami-v2", &[], b"").await.status, 401);
}

#[tokio::test]
async fn lfs_urls_are_signed_for_one_object_and_one_action() {
    let hub = Hub::new().await;
    hub.create("a", true).await;
    let data = testkit::corpus::noise(3, 200_000);
    let object = json!({"oid": hex(&data), "size": data.len()});
    let batch = |operation: &str, transfers: &[&str]| json!({"operation": operation, "transfers": transfers, "objects": [object]});
    let uri = "/ann/a.git/info/lfs/objects/batch";
    // Who offers XET is shown the way there.
    let xet = hub.admin("POST", uri, batch("upload", &["basic", "multipart", "xet"])).await;
    let answer = xet.json();
    assert_eq!(
        (xet.header("content-type"), &answer["transfer"]),
        ("application/vnd.git-lfs+json", &json!("xet"))
    );
    let headers = &answer["objects"][0]["actions"]["upload"]["header"];
    assert_eq!(headers["X-Xet-Cas-Url"], json!(hub.state.base_url));
    assert!(headers["X-Xet-Access-Token"].is_string() && headers["X-Xet-Token-Expiration"].is_string());

    let plain = hub.admin("POST", uri, batch("upload", &["basic"])).await.json();
    let href = plain["objects"][0]["actions"]["upload"]["href"].as_str().unwrap();
    assert_eq!(hub.send("PUT", href, &[], &data[1..]).await.status, 400);
    let mut wrong = data.clone();
    wrong[7] ^= 1;
    assert_eq!(hub.send("PUT", href, &[], &wrong).await.status, 400);
    let verify = plain["objects"][0]["actions"]["verify"]["href"].as_str().unwrap();
    assert_eq!(hub.send("POST", verify, &[], object.to_string().as_bytes()).await.status, 404);
    let bare = href.split_once('?').unwrap().0;
    for forged in
        [bare.to_owned(), href.replace("size=200000", "size=200001"), href.replace("/ann/a/", "/ann/b/")]
    {
        let got = hub.send("PUT", &forged, &[], &data).await;
        assert_eq!(got.status, 403, "{forged}");
    }
    assert_eq!(hub.send("GET", href, &[], b"").await.status, 403, "a URL for sending");
    assert_eq!(hub.send("PUT", href, &[], &data).await.status, 200);
    assert_eq!(hub.send("POST", verify, &[], object.to_string().as_bytes()).await.status, 200);
    let again = hub.admin("POST", uri, batch("upload", &["basic"])).await.json();
    assert!(again["objects"][0].get("actions").is_none(), "it is here already");

    let down = hub.admin("POST", uri, batch("download", &["basic"])).await.json();
    let href = down["objects"][0]["actions"]["download"]["href"].as_str().unwrap();
    let part = hub.send("GET", href, &[("range", "bytes=100000-")], b"").await;
    assert!((part.status, part.body.as_slice()) == (206, &data[100_000..]));
    assert_eq!(hub.admin("DELETE", "/api/repos/delete", json!({"name": "ann/a"})).await.status, 200);
    assert_eq!(hub.send("GET", href, &[], b"").await.status, 403, "gone with its repository");
}

#[tokio::test]
async fn pull_requests_are_refs_of_their_own() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let lines = [header("propose").to_string(), file("p", b"1").to_string()].join("\n");
    let uri = "/api/models/ann/a/commit/main?create_pr=1";
    let got = hub.call(&hub.admin, "POST", uri, lines.as_bytes()).await.json();
    assert_eq!(got["pullRequestUrl"], json!(format!("{}/ann/a/discussions/1", hub.state.base_url)));
    let opened = json!({"title": "two", "description": "why", "pullRequest": true});
    assert_eq!(hub.admin("POST", "/api/models/ann/a/discussions", opened).await.json()["num"], 2);
    let details = hub.admin("GET", "/api/models/ann/a/discussions/2?diff=1", Value::Null).await.json();
    assert_eq!(
        (&details["title"], &details["isPullRequest"], &details["status"]),
        (&json!("two"), &json!(true), &json!("open"))
    );
    let uri = "/api/models/ann/a/commit/refs%2Fpr%2F2";
    assert_eq!(hub.call(&hub.admin, "POST", uri, lines.as_bytes()).await.status, 200);
    for number in [1, 2] {
        let uri = format!("/ann/a/resolve/refs%2Fpr%2F{number}/p");
        assert_eq!(hub.admin("GET", &uri, Value::Null).await.body, b"1");
    }
    assert_eq!(hub.admin("GET", "/ann/a/resolve/main/p", Value::Null).await.status, 404);
    let token = hub.admin("GET", "/api/models/ann/a/xet-write-token/None?create_pr=1", Value::Null).await;
    assert_eq!(token.status, 200);
}

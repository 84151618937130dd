//! Pages for signed-in users: what their session opens, what forms change, what the server reports meanwhile.

use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc;
use store::upkeep::{GcOptions, GcProgress, VerifyOptions, VerifyProgress};

use super::*;

/// A browser that is signed in.
pub(super) struct Browser<'a> {
    hub: &'a Hub,
    pub(super) cookie: String,
    /// What forms carry.
    pub(super) word: String,
}

impl<'a> Browser<'a> {
    pub(super) async fn sign_in(hub: &'a Hub, token: &str) -> Self {
        let entered = hub.send("POST", "/-/sign-in", &[], format!("token={token}").as_bytes()).await;
        assert_eq!(entered.status, 303);
        let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
        let home = hub.send("GET", "/", &[("cookie", &cookie)], b"").await;
        let home = String::from_utf8(home.body).unwrap();
        let word = home.split("name=\"word\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        Self { hub, cookie, word }
    }

    /// Signs in by password; the status if that fails.
    async fn sign_in_by_password(hub: &'a Hub, name: &str, password: &str) -> Result<Self, u16> {
        let form = format!("name={name}&password={password}");
        let entered = hub.send("POST", "/-/sign-in", &[], form.as_bytes()).await;
        if entered.status != 303 {
            return Err(entered.status);
        }
        let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
        let home = hub.send("GET", "/", &[("cookie", &cookie)], b"").await;
        let home = String::from_utf8(home.body).unwrap();
        let word = home.split("name=\"word\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        Ok(Self { hub, cookie, word })
    }

    async fn get(&self, uri: &str) -> (u16, String) {
        let got = self.hub.send("GET", uri, &[("cookie", &self.cookie)], b"").await;
        (got.status, String::from_utf8(got.body).unwrap())
    }

    async fn post(&self, uri: &str, form: &str) -> Got {
        let form = format!("word={}&{form}", self.word);
        self.hub.send("POST", uri, &[("cookie", &self.cookie)], form.as_bytes()).await
    }
}

async fn within_a_minute(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect(what);
}

#[tokio::test]
async fn a_session_ends_with_the_token_that_opened_it() {
    let hub = Hub::new().await;
    let (ann, other) = (
        hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await,
        hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await,
    );
    let (first, second) = (Browser::sign_in(&hub, &ann).await, Browser::sign_in(&hub, &other).await);
    assert_eq!((first.get("/-/account").await.0, second.get("/-/account").await.0), (200, 200));
    let digest = *personal_token::TokenHash::of(&ann).unwrap().as_bytes();
    let tokens = hub.store.hub().tokens();
    let id = tokens.by_digest(&digest).await.unwrap().unwrap().id;
    tokens.revoke(&id, hub.state.now_s()).await.unwrap();
    within_a_minute("the session is over", async || first.get("/-/account").await.0 == 401).await;
    assert_eq!(second.get("/-/account").await.0, 200, "another token opened that one");
}

/// Users ann and bob, with passwords.
async fn with_passwords() -> Hub {
    let hub = Hub::new().await;
    for name in ["ann", "bob"] {
        hub.store.hub().add_namespace(name, false).await.unwrap();
        let body = json!({"password": format!("password of {name}")});
        let got = hub.admin("PUT", &format!("/api/admin/users/{name}/password"), body).await;
        assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    }
    hub
}

#[tokio::test]
async fn a_changed_password_ends_the_other_sessions_and_the_tokens_made_in_them() {
    let hub = with_passwords().await;
    let sign_in = async || Browser::sign_in_by_password(&hub, "ann", "password of ann").await.unwrap();
    let (thief, owner) = (sign_in().await, sign_in().await);
    let bob = Browser::sign_in_by_password(&hub, "bob", "password of bob").await.unwrap();
    let make = async |browser: &Browser<'_>| {
        let page = browser.post("/-/account/token", "label=x&rights=write&days=0").await;
        let page = String::from_utf8(page.body).unwrap();
        let (_, token) = page.split_once(">ds_").unwrap();
        format!("ds_{}", &token[..43])
    };
    let (stolen, own) = (make(&thief).await, make(&owner).await);
    let status = async |token: &str| hub.call(token, "GET", "/api/whoami-v2", b"").await.status;
    assert_eq!([status(&stolen).await, status(&own).await], [200, 200]);
    let changed = owner.post("/-/account/password", "old=password of ann&new=another password").await;
    assert_eq!(changed.status, 303, "{}", String::from_utf8_lossy(&changed.body));
    within_a_minute("the other session is over", async || thief.get("/-/account").await.0 == 401).await;
    within_a_minute("and its token", async || status(&stolen).await == 401).await;
    assert_eq!((owner.get("/-/account").await.0, status(&own).await), (200, 200), "what changed it stays");
    assert_eq!(bob.get("/-/account").await.0, 200);
    assert_eq!(Browser::sign_in_by_password(&hub, "ann", "password of ann").await.err(), Some(401));
    // Set by an administrator: all of them end.
    let got = hub.admin("PUT", "/api/admin/users/ann/password", json!({"password": null})).await;
    assert_eq!(got.status, 200);
    within_a_minute("this one too", async || owner.get("/-/account").await.0 == 401).await;
    assert_eq!(Browser::sign_in_by_password(&hub, "ann", "another password").await.err(), Some(401));
}

#[tokio::test]
async fn of_many_guesses_at_once_ten_are_checked() {
    let hub = with_passwords().await;
    let guess = |n: u32| {
        let hub = &hub;
        async move { Browser::sign_in_by_password(hub, "ann", &format!("guess {n}")).await.err() }
    };
    let answers = futures::future::join_all((0..60).map(guess)).await;
    let checked = answers.iter().filter(|status| **status == Some(401)).count();
    let refused = answers.iter().filter(|status| **status == Some(429)).count();
    assert_eq!((checked, refused), (10, 50));
    assert_eq!(Browser::sign_in_by_password(&hub, "ann", "password of ann").await.err(), Some(429));
    assert!(Browser::sign_in_by_password(&hub, "bob", "password of bob").await.is_ok(), "another name");
}

#[tokio::test]
async fn a_disabled_user_does_not_sign_in() {
    let hub = with_passwords().await;
    let ann = Browser::sign_in_by_password(&hub, "ann", "password of ann").await.unwrap();
    let admin = Browser::sign_in(&hub, &hub.admin).await;
    assert_eq!(admin.post("/-/admin/disable-user", "user=ann").await.status, 303);
    within_a_minute("the session is over", async || ann.get("/-/account").await.0 == 401).await;
    assert_eq!(Browser::sign_in_by_password(&hub, "ann", "password of ann").await.err(), Some(401));
    assert!(admin.get("/-/admin").await.1.contains("disabled"));
    assert_eq!(admin.post("/-/admin/enable-user", "user=ann").await.status, 303);
    assert_eq!(ann.get("/-/account").await.0, 401, "a session that ended does not come back");
    assert!(Browser::sign_in_by_password(&hub, "ann", "password of ann").await.is_ok());
    assert_eq!(admin.post("/-/admin/delete-user", "user=ann&confirm=an").await.status, 400);
    assert_eq!(admin.post("/-/admin/delete-user", "user=ann&confirm=ann").await.status, 303);
    assert_eq!(Browser::sign_in_by_password(&hub, "ann", "password of ann").await.err(), Some(401));
    let again = hub.admin("POST", "/api/admin/users", json!({"name": "ann"})).await;
    assert_eq!(again.status, 409);
    assert!(String::from_utf8(again.body).unwrap().contains("reserved"));
}

#[tokio::test]
async fn the_audit_log_names_who_acts() {
    let hub = with_passwords().await;
    let admin = Browser::sign_in(&hub, &hub.admin).await;
    admin.post("/-/admin/org", "name=team").await;
    let ann = Browser::sign_in_by_password(&hub, "ann", "password of ann").await.unwrap();
    ann.post("/-/account/token", "label=x&rights=write&days=0").await;
    let team = hub.personal("team", Rights::Write, Bound::Namespace("team".into())).await;
    let body = json!({"name": "a", "organization": "team"}).to_string();
    assert_eq!(hub.call(&team, "POST", "/api/repos/create", body.as_bytes()).await.status, 200);
    let log = hub.admin("GET", "/api/admin/audit", Value::Null).await.json();
    let who = |action: &str| -> Vec<String> {
        let rows = log.as_array().unwrap().iter().filter(|row| row["action"] == action);
        rows.map(|row| row["who"].as_str().unwrap().to_owned()).collect()
    };
    let admin = "admin token \"admin\"";
    assert_eq!(who("org.create"), [admin]);
    assert_eq!(who("password.set"), [admin, admin]);
    assert_eq!(who("repo.create"), ["team (service token)"]);
    // The newest first: by the test itself, of ann, of ann's sign-in, of the administrator's, by the test itself.
    assert_eq!(who("token.create"), ["store", "ann", "ann", admin, "store"]);
}

#[tokio::test]
async fn the_dashboard_shows_sweeps_and_verifications_to_administrators() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    hub.upload("ann/a", "w.bin", &testkit::corpus::noise(3, 400_000)).await;
    let page = hub.admin("GET", "/-/dedup", Value::Null).await;
    assert!(String::from_utf8(page.body).unwrap().contains("Nothing was swept or verified yet."));
    hub.store.upkeep().verify(&VerifyOptions::default(), &VerifyProgress::default()).await.unwrap();
    let repo = store::names::RepoName::parse("ann/a").unwrap();
    let repo = hub.store.hub().repo(&repo).await.unwrap().unwrap();
    hub.store.hub().delete_repo(&repo).await.unwrap();
    let sweep = GcOptions { grace_s: 0, offline: true, ..GcOptions::default() };
    hub.store.upkeep().collect_garbage(&sweep, &GcProgress::default()).await.unwrap();
    // One that finds nothing is not reported.
    hub.store.upkeep().collect_garbage(&sweep, &GcProgress::default()).await.unwrap();
    let bob = hub.personal("bob", Rights::Read, Bound::Namespace("bob".into())).await;
    let page = String::from_utf8(hub.admin("GET", "/-/dedup", Value::Null).await.body).unwrap();
    let answers = page.split("Sweeps and verifications").nth(1).unwrap();
    assert!(answers.contains("quick: ") && answers.contains(" objects, nothing damaged"), "{answers}");
    assert!(answers.contains("<td>sweep</td>") && answers.contains(" deleted "), "{answers}");
    assert_eq!(answers.matches("<tr><td").count(), 2, "{answers}");
    assert!(!page.contains("repo.") && !page.contains("ref.move") && !page.contains("token.create"));
    // Totals of the server show whether what one uploads was there before.
    for others in [hub.call(&bob, "GET", "/-/dedup", b"").await, hub.send("GET", "/-/dedup", &[], b"").await]
    {
        let page = String::from_utf8(others.body).unwrap();
        assert!(!page.contains("Sweeps") && !page.contains("Over time"));
    }
}

#[tokio::test]
async fn what_a_branch_has_left_comes_back_by_a_form() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    hub.commit(&hub.admin, "ann/a", &[header("first <b>"), file("a.txt", b"1")]).await;
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let browser = Browser::sign_in(&hub, &ann).await;
    assert!(browser.get("/ann/a/commits/main").await.1.contains("href=\"/ann/a/undelete\""));
    let anyone = hub.send("GET", "/ann/a/commits/main", &[], b"").await;
    assert!(!String::from_utf8(anyone.body).unwrap().contains("/undelete"));
    // A squash leaves all that was before it.
    hub.commit(&hub.admin, "ann/a", &[header("second"), file("b.txt", b"2")]).await;
    assert_eq!(
        hub.admin("POST", "/api/models/ann/a/super-squash/main", json!({"message": "one"})).await.status,
        200
    );
    let (status, page) = browser.get("/ann/a/undelete").await;
    assert!(status == 200 && page.contains("second") && page.contains("<td>main</td>"), "{page}");
    let revision = page.split("name=\"revision\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let forged = hub.send("POST", "/ann/a/undelete", &[("cookie", &browser.cookie)], b"revision=x").await;
    assert_eq!(forged.status, 403);
    assert_eq!(browser.post("/ann/a/undelete", "revision=nonsense").await.status, 400);
    assert_eq!(browser.post("/ann/a/undelete", &format!("revision={}", "1".repeat(40))).await.status, 404);
    let back = browser.post("/ann/a/undelete", &format!("revision={revision}&as=old")).await;
    assert_eq!((back.status, back.header("location")), (303, "/ann/a/commits/old"));
    let (status, history) = browser.get("/ann/a/commits/old").await;
    assert!(
        status == 200 && history.contains("first &#60;b&#62;") && history.contains("second"),
        "{history}"
    );
    // A file that a commit deleted.
    let deleted = json!({"key": "deletedFile", "value": {"path": "b.txt"}});
    assert_eq!(hub.commit(&hub.admin, "ann/a", &[header("gone"), deleted]).await.status, 200);
    let back = browser.post("/ann/a/undelete", "path=b.txt&as=").await;
    assert_eq!((back.status, back.header("location")), (303, "/ann/a/blob/main/b.txt"));
    assert_eq!(browser.get("/ann/a/resolve/main/b.txt").await, (200, "2".to_owned()));
    // Others have no such page.
    let bob = hub.personal("bob", Rights::Write, Bound::Namespace("bob".into())).await;
    let bob = Browser::sign_in(&hub, &bob).await;
    assert_eq!(bob.get("/ann/a/undelete").await.0, 403);
    assert_eq!(bob.post("/ann/a/undelete", &format!("revision={revision}")).await.status, 403);
}

#[tokio::test]
async fn an_upload_reports_its_progress() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let data = testkit::corpus::noise(5, 6_000_000);
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let browser = Browser::sign_in(&hub, &ann).await;
    let uri = "/ann/a/upload/main/-/file?id=one";
    let (mut sender, body) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let request = Request::put(uri)
        .header("content-length", data.len())
        .header("cookie", &browser.cookie)
        .header("x-drystone-word", &browser.word)
        .body(Body::from_stream(body))
        .unwrap();
    let upload = tokio::spawn(hub.app.clone().oneshot(request));
    assert_eq!(browser.get("/ann/a/upload/main/-/file?id=two").await.0, 404);
    let (half, rest) = data.split_at(3_000_000);
    sender.send(Ok(Bytes::copy_from_slice(half))).await.unwrap();
    let mut answers = Value::Null;
    within_a_minute("something has arrived", async || {
        let (status, body) = browser.get(uri).await;
        answers = serde_json::from_str(&body).unwrap();
        status == 200 && answers["receivedBytes"].as_u64() > Some(1_000_000)
    })
    .await;
    let (received, fresh) =
        (answers["receivedBytes"].as_u64().unwrap(), answers["newBytes"].as_u64().unwrap());
    assert!(received <= 3_000_000 && fresh <= received && fresh > received / 2, "{answers}");
    let other = hub.admin("GET", uri, Value::Null).await;
    assert_eq!(other.status, 404, "another user's");
    sender.send(Ok(Bytes::copy_from_slice(rest))).await.unwrap();
    drop(sender);
    let answer = upload.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    let answer: Value =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(answer["newBytes"], 6_000_000);
    assert_eq!(browser.get(uri).await.0, 404, "it is over");
}

#[tokio::test]
async fn values_of_forms_that_cannot_be_meant_are_refused() {
    let hub = Hub::new().await;
    let browser = Browser::sign_in(&hub, &hub.admin).await;
    for (uri, form) in [
        ("/-/admin/quota", "of=ann&logical_hard=abc"),
        ("/-/admin/quota", "of=ann&logical_hard=-1"),
        ("/-/admin/quota", "of=ann&logical_hard=1e300"),
        ("/-/admin/quota", "of=ann&logical_hard=NaN"),
        ("/-/admin/token", "user=ann&label=x&rights=read&days=soon"),
        ("/-/admin/token", "user=ann&label=x&rights=read&days=-1"),
        ("/-/admin/token", "user=ann&label=x&rights=read&days=18446744073709551615"),
        ("/-/admin/user", "name=bob&xyzzy=1"),
        ("/-/admin/member", "org=ann&user=bob&role=owner"),
        ("/-/account/token", "label=x&rights=everything&days=1"),
        ("/-/account/token", "label=x&rights=read&days=never"),
    ] {
        let got = browser.post(uri, form).await;
        assert_eq!(got.status, 400, "{uri} {form}: {}", String::from_utf8_lossy(&got.body));
    }
    assert_eq!(hub.admin("GET", "/api/admin/users", Value::Null).await.json(), json!([]));
    assert_eq!(hub.admin("GET", "/api/admin/quotas", Value::Null).await.json(), json!([]));
}

#[tokio::test]
async fn signed_urls_of_files_end_with_the_access_they_were_made_for() {
    let mut config = ServeConfig::default();
    config.limits.lfs_part_bytes = 1 << 16;
    let hub = Hub::with(config).await;
    hub.create("a", true).await;
    hub.upload("ann/a", "w.bin", &testkit::corpus::noise(3, 200_000)).await;
    let oid = hex(&testkit::corpus::noise(3, 200_000));
    let data = testkit::corpus::noise(4, 65 * (1 << 16) + 5);
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let batch = async |operation: &str, oid: &str, size: usize| {
        let transfers = if operation == "upload" { json!(["basic", "multipart"]) } else { json!(["basic"]) };
        let batch =
            json!({"operation": operation, "transfers": transfers, "objects": [{"oid": oid, "size": size}]});
        let got =
            hub.call(&ann, "POST", "/ann/a.git/info/lfs/objects/batch", batch.to_string().as_bytes()).await;
        got.json()["objects"][0]["actions"].clone()
    };
    let href = |action: &Value| action["href"].as_str().unwrap().to_owned();
    let download = href(&batch("download", &oid, 200_000).await["download"]);
    let small = batch("upload", &hex(b"small"), 5).await;
    let (upload, verify) = (href(&small["upload"]), href(&small["verify"]));
    let large = batch("upload", &hex(&data), data.len()).await;
    let join = href(&large["upload"]);
    let part = large["upload"]["header"]["00001"].as_str().unwrap().to_owned();
    let claim = json!({"oid": hex(b"small"), "size": 5}).to_string();
    let statuses = async || {
        [
            hub.send("GET", &download, &[], b"").await.status,
            hub.send("PUT", &upload, &[], b"small").await.status,
            hub.send("POST", &verify, &[], claim.as_bytes()).await.status,
            hub.send("PUT", &part, &[], &data[..1 << 16]).await.status,
            // Parts are missing.
            hub.send("POST", &join, &[], b"{}").await.status,
        ]
    };
    assert_eq!(statuses().await, [200, 200, 200, 200, 400]);
    // Signed for one caller, it does not become another's.
    let id = download.split("for=").nth(1).unwrap().split('&').next().unwrap();
    for other in ["anonymous", "open", "token.000000000000", ""] {
        let forged = download.replace(&format!("for={id}"), &format!("for={other}"));
        assert_eq!(hub.send("GET", &forged, &[], b"").await.status, 403, "{other}");
    }
    let digest = *personal_token::TokenHash::of(&ann).unwrap().as_bytes();
    let tokens = hub.store.hub().tokens();
    let id = tokens.by_digest(&digest).await.unwrap().unwrap().id;
    tokens.revoke(&id, hub.state.now_s()).await.unwrap();
    within_a_minute("the URLs are void", async || statuses().await == [403; 5]).await;
    // An anonymous caller's ends when the repository turns private.
    assert_eq!(hub.admin("PUT", "/api/models/ann/a/settings", json!({"private": false})).await.status, 200);
    let anonymous = json!({"operation": "download", "objects": [{"oid": oid, "size": 200_000}]}).to_string();
    let got = hub.send("POST", "/ann/a.git/info/lfs/objects/batch", &[], anonymous.as_bytes()).await;
    let download = href(&got.json()["objects"][0]["actions"]["download"]);
    assert_eq!(hub.send("GET", &download, &[], b"").await.status, 200);
    assert_eq!(hub.admin("PUT", "/api/models/ann/a/settings", json!({"private": true})).await.status, 200);
    within_a_minute("anonymous access is over", async || {
        hub.send("GET", &download, &[], b"").await.status == 403
    })
    .await;
}

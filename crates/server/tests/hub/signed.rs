//! Pages for whoever is signed in: what their session opens, what forms change, what is told while it happens.

use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc;
use store::sweep::{SweepOptions, SweepProgress};
use store::verify::{VerifyOptions, VerifyProgress};

use super::*;

/// A browser that is signed in.
struct Browser<'a> {
    hub: &'a Hub,
    cookie: String,
    /// What forms carry.
    word: String,
}

impl<'a> Browser<'a> {
    async fn sign_in(hub: &'a Hub, token: &str) -> Self {
        let entered = hub.send("POST", "/-/sign-in", &[], format!("token={token}").as_bytes()).await;
        assert_eq!(entered.status, 303);
        let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
        let home = hub.send("GET", "/", &[("cookie", &cookie)], b"").await;
        let home = String::from_utf8(home.body).unwrap();
        let word = home.split("name=\"word\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        Self { hub, cookie, word }
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
    let digest = *personal::TokenHash::of(&ann).unwrap().as_bytes();
    let tokens = hub.store.catalog().tokens();
    let id = tokens.by_digest(&digest).await.unwrap().unwrap().id;
    tokens.revoke(&id, hub.state.now_s()).await.unwrap();
    within_a_minute("the session is over", async || first.get("/-/account").await.0 == 401).await;
    assert_eq!(second.get("/-/account").await.0, 200, "another token opened that one");
}

#[tokio::test]
async fn the_dashboard_tells_of_sweeps_and_verifications_to_those_who_are_known() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    hub.upload("ann/a", "w.bin", &testkit::corpus::noise(3, 400_000)).await;
    let page = hub.admin("GET", "/-/dedup", Value::Null).await;
    assert!(String::from_utf8(page.body).unwrap().contains("Nothing was swept or verified yet."));
    hub.store.verify(&VerifyOptions::default(), &VerifyProgress::default()).await.unwrap();
    let repo = store::repo::RepoName::parse("ann/a").unwrap();
    let repo = hub.store.repo(&repo).await.unwrap().unwrap();
    hub.store.delete_repo(&repo).await.unwrap();
    let sweep = SweepOptions { grace_s: 0, offline: true, rate_per_s: None };
    hub.store.sweep(&sweep, &SweepProgress::default()).await.unwrap();
    // One that finds nothing is not told of.
    hub.store.sweep(&sweep, &SweepProgress::default()).await.unwrap();
    let bob = hub.personal("bob", Rights::Read, Bound::Namespace("bob".into())).await;
    let page = String::from_utf8(hub.ask(&bob, "GET", "/-/dedup", b"").await.body).unwrap();
    let told = page.split("Sweeps and verifications").nth(1).unwrap();
    assert!(told.contains("quick: ") && told.contains(" objects, nothing damaged"), "{told}");
    assert!(told.contains("<td>sweep</td>") && told.contains(" deleted "), "{told}");
    assert_eq!(told.matches("<tr><td").count(), 2, "{told}");
    assert!(!page.contains("repo.") && !page.contains("ref.move") && !page.contains("token.create"));
    let anyone = hub.send("GET", "/-/dedup", &[], b"").await;
    assert!(!String::from_utf8(anyone.body).unwrap().contains("Sweeps"));
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
async fn an_upload_tells_how_far_it_is() {
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
    let mut told = Value::Null;
    within_a_minute("something has arrived", async || {
        let (status, body) = browser.get(uri).await;
        told = serde_json::from_str(&body).unwrap();
        status == 200 && told["receivedBytes"].as_u64() > Some(1_000_000)
    })
    .await;
    let (received, fresh) = (told["receivedBytes"].as_u64().unwrap(), told["newBytes"].as_u64().unwrap());
    assert!(received <= 3_000_000 && fresh <= received && fresh > received / 2, "{told}");
    let other = hub.admin("GET", uri, Value::Null).await;
    assert_eq!(other.status, 404, "somebody else's");
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

//! Pages in process: what a browser test cannot see, and what must stay as it was for programs.

use super::*;

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

impl Got {
    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    fn is_page(&self) -> bool {
        self.header("content-type").starts_with("text/html")
    }
}

#[tokio::test]
async fn pages_leave_paths_of_programs_alone() {
    let hub = Hub::new().await;
    for (method, uri) in [
        ("GET", "/api/none"),
        ("POST", "/api/none"),
        ("GET", "/v1/none"),
        ("GET", "/lfs/x"),
        ("GET", "/no/such/path"),
    ] {
        let got = hub.send(method, uri, &[], b"").await;
        assert_eq!((got.status, got.json()["code"].as_str()), (404, Some("not_found")), "{method} {uri}");
        let page = hub.send("GET", uri, &[BROWSER], b"").await;
        assert!(page.status == 404 && page.is_page(), "{uri}");
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"), "{uri}");
    }
    let got = hub.send("POST", "/ann/a", &[], b"").await;
    assert_eq!((got.status, got.header("allow")), (405, "GET,HEAD"));
}

#[tokio::test]
async fn a_commit_page_lists_what_was_added_removed_and_changed() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let first =
        [header("one"), file("a/b/old.txt", b"1\n2\n3\n"), file("same.txt", b"s"), file("a.txt", b"x\n")];
    assert_eq!(hub.commit(&hub.admin, "ann/a", &first).await.status, 200);
    let deleted = json!({"key": "deletedFile", "value": {"path": "a/b/old.txt"}});
    let second = [header("two"), deleted, file("a/new.txt", b"1\n"), file("a.txt", b"y\n")];
    let oid = hub.commit(&hub.admin, "ann/a", &second).await.json()["commitOid"].as_str().unwrap().to_owned();
    let page = hub.send("GET", &format!("/ann/a/commit/{oid}"), &[], b"").await.text();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"));
    assert!(at("changed\">changed") < at("a.txt</a>"));
    assert!(at("removed\">removed") < at("a/b/old.txt</a>") && at("added\">added") < at("a/new.txt</a>"));
    assert!(!page.contains("same.txt"));
    // The one file of the root commit's successor is in its history, page by page.
    let history = hub.send("GET", "/ann/a/commits/main", &[], b"").await.text();
    assert!(history.contains("3 commits") && history.contains(&oid));
    assert_eq!(hub.send("GET", "/ann/a/commits/main?p=18446744073709551615", &[], b"").await.status, 200);
    assert_eq!(hub.send("GET", &format!("/ann/a/commit/{oid}?p=99999999"), &[], b"").await.status, 400);
}

#[tokio::test]
async fn a_map_contains_nothing_its_reader_may_not_see() {
    let hub = Hub::new().await;
    let data = testkit::corpus::noise(3, 400_000);
    for (name, private) in [("open", false), ("twin", false), ("hidden", true)] {
        hub.create(name, private).await;
        hub.upload(&format!("ann/{name}"), "w.bin", &data).await;
    }
    hub.upload("ann/hidden", "longer.bin", &[data.as_slice(), b"and more"].concat()).await;
    let anyone = hub.send("GET", "/ann/open/blob/main/w.bin", &[], b"").await.text();
    assert!(anyone.contains("ann/twin: w.bin") && !anyone.contains("ann/hidden"));
    let keeper = hub.admin("GET", "/ann/open/blob/main/w.bin", json!(null)).await.text();
    assert!(keeper.contains("ann/hidden: longer.bin"), "{keeper}");
    let dashboard = hub.send("GET", "/-/dedup", &[], b"").await.text();
    assert!(
        dashboard.contains("ann/open")
            && !dashboard.contains("ann/hidden")
            && !dashboard.contains("Over time")
    );
    let dashboard = hub.admin("GET", "/-/dedup", json!(null)).await.text();
    assert!(dashboard.contains("Over time") && dashboard.contains("ann/hidden: longer.bin"));
}

#[tokio::test]
async fn what_is_stored_is_sent_disarmed() {
    let hub = Hub::new().await;
    hub.create("a", false).await;
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    hub.commit(&hub.admin, "ann/a", &[header("x"), file("x.svg", svg), file("x.html", svg)]).await;
    hub.upload("ann/a", "big.png", &testkit::corpus::noise(1, 5000)).await;
    for (path, kind) in [
        ("resolve/main/x.svg", "image/svg+xml"),
        ("resolve/main/x.html", "text/plain; charset=utf-8"),
        ("raw/main/x.svg", "text/plain; charset=utf-8"),
        ("resolve/main/big.png", "image/png"),
        ("raw/main/big.png", "text/plain; charset=utf-8"),
    ] {
        let got = hub.send("GET", &format!("/ann/a/{path}"), &[], b"").await;
        assert_eq!((got.status, got.header("content-type")), (200, kind), "{path}");
        assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(got.header("content-security-policy"), "default-src 'none'; sandbox", "{path}");
    }
    let parts = hub.send("GET", "/ann/a/resolve/main/big.png", &[("range", "bytes=0-1,5-6")], b"").await;
    assert!(
        parts.header("content-type").starts_with("multipart/byteranges"),
        "{}",
        parts.header("content-type")
    );
}

#[tokio::test]
async fn assets_are_cached_for_ever_under_the_name_of_their_content() {
    let hub = Hub::new().await;
    let home = hub.send("GET", "/", &[], b"").await;
    assert!(home.is_page() && home.header("cache-control") == "private, no-cache");
    let page = home.text();
    let urls: std::collections::BTreeSet<&str> =
        page.split('"').filter(|piece| piece.starts_with("/-/assets/")).collect();
    assert_eq!(urls.len(), 3);
    for url in urls {
        let got = hub.send("GET", url, &[], b"").await;
        assert_eq!((got.status, got.header("x-content-type-options")), (200, "nosniff"), "{url}");
        assert!(got.header("cache-control").ends_with("immutable") && !got.body.is_empty(), "{url}");
    }
}

#[tokio::test]
async fn an_error_page_knows_who_is_signed_in() {
    let hub = Hub::new().await;
    hub.create("a", true).await;
    let ann = hub.personal("ann", Rights::Read, Bound::Namespace("ann".into())).await;
    let cookie = ("cookie", format!("drystone-session={ann}"));
    for (uri, status) in
        [("/ann/none", 404), ("/no/such/path", 404), ("/ann/a/blob/main/none", 404), ("/-/admin", 403)]
    {
        let page = hub.send("GET", uri, &[BROWSER, (cookie.0, &cookie.1)], b"").await;
        assert!(page.status == status && page.is_page(), "{uri}: {}", page.status);
        assert!(
            page.text().contains("/-/account\"") && page.text().contains("Sign out"),
            "{uri}: {}",
            page.text()
        );
        assert!(!page.text().contains(">Sign in<"), "{uri}");
        let outsider = hub.send("GET", uri, &[BROWSER], b"").await;
        assert!(outsider.text().contains(">Sign in<") && !outsider.text().contains("Sign out"), "{uri}");
        let over = hub.send("GET", uri, &[BROWSER, ("cookie", "drystone-session=ds_none")], b"").await;
        assert!(over.text().contains(">Sign in<"), "{uri}");
    }
}

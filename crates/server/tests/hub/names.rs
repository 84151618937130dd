//! Names over HTTP: unique without regard to case, found in any case, shown as created.

use super::*;

#[tokio::test]
async fn a_repository_is_found_in_any_case_by_every_route_and_shown_as_created() {
    let hub = Hub::new().await;
    hub.create("Model", true).await;
    hub.upload("ANN/mODEL", "w.bin", &testkit::corpus::noise(3, 200_000)).await;
    let ann = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let one = hub.personal("ann", Rights::Write, Bound::Repo("ann/models/Model".parse().unwrap())).await;
    for token in [&ann, &one] {
        for uri in ["/api/models/ANN/MODEL", "/api/models/Ann/model/revision/main"] {
            let got = hub.call(token, "GET", uri, b"").await;
            assert_eq!((got.status, got.json()["id"].as_str()), (200, Some("ann/Model")), "{uri}");
        }
        for uri in [
            "/Ann/model",
            "/ANN/model/tree/main",
            "/ann/MODEL/blob/main/w.bin",
            "/ann/model/commits/main",
            "/ann/model/upload/main",
            "/ANN/MODEL/resolve/main/w.bin",
            "/api/models/ANN/model/tree/main",
            "/api/models/ANN/model/refs",
            "/api/models/ANN/model/auth-check/write",
            "/ANN/model.git/info/lfs/locks",
        ] {
            let got = hub.call(token, "GET", uri, b"").await;
            let text = String::from_utf8_lossy(&got.body);
            assert_eq!(got.status, 200, "{uri}: {text}");
            assert!(
                !text.contains("/ANN/") && !text.contains("ann/model") && !text.contains("MODEL"),
                "{uri}: {text}"
            );
        }
        assert_eq!(hub.commit(token, "aNN/MODEL", &[header("x"), file("a.txt", b"a")]).await.status, 200);
        // A CAS token is for the repository as it is spelled: what was registered in it is read by it.
        let given = hub.call(token, "GET", "/api/models/ANN/MODEL/xet-write-token/main", b"").await;
        let head = hub.call(token, "HEAD", "/ann/Model/resolve/main/w.bin", b"").await;
        let cas = given.json()["accessToken"].as_str().unwrap().to_owned();
        let uri = format!("/v1/reconstructions/{}", head.header("x-xet-hash"));
        assert_eq!(hub.call(&cas, "GET", &uri, b"").await.status, 200);
    }
    for author in ["ann", "ANN"] {
        let got = hub.call(&ann, "GET", &format!("/api/models?author={author}"), b"").await;
        assert_eq!(got.json().as_array().map(Vec::len), Some(1), "{author}");
    }
}

#[tokio::test]
async fn a_name_that_differs_in_case_only_is_taken_and_a_rename_may_change_the_case() {
    let hub = Hub::new().await;
    hub.create("Model", false).await;
    for body in [
        json!({"name": "model", "organization": "ANN"}),
        json!({"name": "MODEL", "organization": "ann"}),
        json!({"name": "Ann/modeL"}),
    ] {
        let got = hub.admin("POST", "/api/repos/create", body.clone()).await;
        assert_eq!((got.status, got.json()["id"].as_str()), (409, Some("ann/Model")), "{body}");
    }
    // A new name in a namespace takes the namespace's spelling.
    let got = hub.admin("POST", "/api/repos/create", json!({"name": "ANN/Other"})).await;
    assert_eq!((got.status, got.json()["id"].as_str()), (200, Some("ann/Other")));
    assert_eq!(hub.admin("POST", "/api/admin/users", json!({"name": "ANN"})).await.status, 409);
    assert_eq!(hub.admin("POST", "/api/admin/users", json!({"name": "ann"})).await.status, 201);
    assert_eq!(hub.admin("POST", "/api/admin/orgs", json!({"name": "Ann"})).await.status, 409);
    for name in [
        "x.git",
        "x.GIT",
        "x.Git",
        "x.IPYNB",
        "x.",
        ".x",
        "..",
        "a..b",
        "a--b",
        "-x",
        "x%2fy",
        "x\\y",
        "\u{212a}elvin",
        "x y",
        "",
    ] {
        let got = hub.admin("POST", "/api/repos/create", json!({"name": name, "organization": "ann"})).await;
        assert_eq!(got.status, 400, "{name:?}");
    }
    for namespace in ["API", "Datasets", "SPACES", "v1", "Reconstructions", "Health"] {
        let got =
            hub.admin("POST", "/api/repos/create", json!({"name": "x", "organization": namespace})).await;
        assert_eq!(got.status, 400, "{namespace:?}");
        assert_eq!(
            hub.admin("POST", "/api/admin/users", json!({"name": namespace})).await.status,
            400,
            "{namespace}"
        );
    }
    let rename = async |from: &str, to: &str| {
        hub.admin("POST", "/api/repos/move", json!({"fromRepo": from, "toRepo": to})).await
    };
    let got = rename("ANN/model", "Ann/mODEL").await;
    assert_eq!((got.status, got.json()["id"].as_str()), (200, Some("ann/mODEL")));
    assert_eq!(rename("ann/other", "ann/Model").await.status, 409);
    assert_eq!(rename("ann/other", "ann/Other").await.status, 200);
    assert_eq!(rename("ann/other", "ann/Other.GIT").await.status, 400);
    let info = hub.admin("GET", "/api/models/ann/model", Value::Null).await;
    assert_eq!(info.json()["id"], "ann/mODEL");
    let delete = hub.admin("DELETE", "/api/repos/delete", json!({"name": "ANN/MODEL"})).await;
    assert_eq!(delete.status, 200);
    hub.create("model", false).await;
    assert_eq!(hub.admin("GET", "/api/models/ann/Model", Value::Null).await.json()["id"], "ann/model");
}

#[tokio::test]
async fn members_and_quotas_are_of_the_name_as_it_is_spelled() {
    let hub = Hub::new().await;
    for (path, name) in [("orgs", "Team"), ("users", "Ann")] {
        assert_eq!(hub.admin("POST", &format!("/api/admin/{path}"), json!({"name": name})).await.status, 201);
    }
    let set = hub.admin("PUT", "/api/admin/orgs/TEAM/members/ann", json!({"role": "write"})).await;
    assert_eq!(set.status, 200, "{}", String::from_utf8_lossy(&set.body));
    let ann = hub.personal("Ann", Rights::Write, Bound::Everywhere).await;
    let body = json!({"name": "x", "organization": "team"}).to_string();
    let got = hub.call(&ann, "POST", "/api/repos/create", body.as_bytes()).await;
    assert_eq!((got.status, got.json()["id"].as_str()), (200, Some("Team/x")));
    let members = hub.admin("GET", "/api/admin/orgs/team/members", Value::Null).await;
    assert_eq!(members.json()[0]["user"], "Ann");
    for (of, spelled) in [("TEAM", "Team"), ("team/X", "Team/x")] {
        let set = hub.admin("PUT", "/api/admin/quotas", json!({"of": of, "logicalHard": 1})).await;
        assert_eq!((set.status, set.json()["of"].as_str()), (200, Some(spelled)));
        assert_eq!(hub.admin("DELETE", &format!("/api/admin/quotas?of={of}"), Value::Null).await.status, 200);
    }
    assert_eq!(hub.admin("DELETE", "/api/admin/orgs/team/members/ANN", Value::Null).await.status, 200);
}

/// Every path that is no repository's begins with a word that no namespace may be.
#[test]
fn no_namespace_hides_a_route() {
    for path in server::paths() {
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let first = segments[0];
        if segments.len() >= 2 && !first.starts_with('{') && first != "-" {
            assert!(store::names::is_reserved(first), "{path}");
            assert!(store::names::is_reserved(&first.to_uppercase()), "{path}");
        }
    }
}

//! Every route of the router is strict: a parameter, a field or a second value that it does not know is refused by its name.
//!
//! The routes are those of the router, so a new one that ignores what it is sent fails here.

use server::paths;

use super::access::{filled, methods, named};
use super::signed::Browser;
use super::*;

/// Routes whose parameters have no meaning, whatever they are: probes, what is signed, and reports.
const ANY_PARAMETERS: &[&str] = &[
    "/health",
    "/ready",
    "/metrics",
    "/openapi.json",
    "/-/assets/{asset}",
    "/v1/data/{object}",
    "/v1/telemetry",
];

/// Routes whose bodies are bytes, or reports that are only counted.
const BYTES: &[(&str, &str)] = &[
    ("POST", "/v1/xorbs/{prefix}/{xorb}"),
    ("POST", "/v1/shards"),
    ("POST", "/v2/shards"),
    ("POST", "/shard/{prefix}/{shard}"),
    ("POST", "/v1/telemetry"),
    ("POST", "/v1/xorb-grants/{*rest}"),
    ("PUT", "{L}"),
    ("PUT", "{L}/parts/{number}"),
    ("PUT", "{W}/upload/{revision}/-/file"),
];

/// A server with everything that paths name.
async fn hub() -> Hub {
    let hub = Hub::new().await;
    for kind in ["model", "dataset", "space"] {
        let create = json!({"name": "a", "organization": "ann", "type": kind});
        assert_eq!(hub.admin("POST", "/api/repos/create", create).await.status, 200);
        let lines = [header("one").to_string(), file("none", b"a").to_string()].join("\n");
        let uri = format!("/api/{kind}s/ann/a/commit/main");
        assert_eq!(hub.call(&hub.admin, "POST", &uri, lines.as_bytes()).await.status, 200);
        for n in 0..7 {
            let open = json!({"title": format!("t{n}"), "pullRequest": true});
            let uri = format!("/api/{kind}s/ann/a/discussions");
            assert_eq!(hub.admin("POST", &uri, open).await.status, 200);
        }
    }
    hub
}

fn path_of(path: &str, kind: &str) -> String {
    let action = if path.contains("/admin/") { "user" } else { "token" };
    filled(path, kind, "a").replace("{action}", action).replace("{object}", "x")
}

#[tokio::test]
async fn every_route_refuses_a_parameter_that_it_does_not_have() {
    let hub = hub().await;
    let auth = format!("Bearer {}", hub.admin);
    let (mut wrong, mut sent_count) = (Vec::new(), 0);
    for path in paths() {
        let (name, kind) = named(&path);
        if ANY_PARAMETERS.contains(&name.as_str()) {
            continue;
        }
        for method in methods(&hub, &path).await {
            for query in ["xyzzy=1", "xyzzy", "xyzzy[]=", "%78yzzy=1"] {
                let uri = format!("{}?{query}", path_of(&path, kind));
                let got = hub.send(&method, &uri, &[("authorization", &auth)], b"").await;
                let reply = String::from_utf8_lossy(&got.body);
                sent_count += 1;
                if got.status != 400 || (method != "HEAD" && !reply.contains("xyzzy")) {
                    wrong.push(format!("{method} {uri} ({path}): {} {reply:.100}", got.status));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {sent_count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent_count > 500, "{sent_count}");
}

#[tokio::test]
async fn every_body_is_refused_for_a_field_that_the_route_does_not_have() {
    let hub = hub().await;
    let browser = Browser::sign_in(&hub, &hub.admin).await;
    let auth = format!("Bearer {}", hub.admin);
    let cas = hub.token(Rights::Write, "a").await;
    let cas = format!("Bearer {cas}");
    let (mut wrong, mut sent_count) = (Vec::new(), 0);
    for path in paths() {
        let (name, kind) = named(&path);
        for method in methods(&hub, &path).await {
            let is_exempt = |(of, path): &(&str, &str)| *of == method && *path == name;
            if matches!(method.as_str(), "GET" | "HEAD") || BYTES.iter().any(is_exempt) {
                continue;
            }
            let is_form =
                path.starts_with("/-/") || path.ends_with("/undelete") && !path.starts_with("/api/");
            let is_page = is_form || path.contains("/upload/");
            let is_cas = path.contains("/reconstructions");
            let zero = "0".repeat(64);
            let body = match () {
                () if path == "/-/sign-in" => "xyzzy=1".to_owned(),
                () if is_form => format!("word={}&xyzzy=1", browser.word),
                () if is_cas => json!([{"prefix": "default", "hash": zero, "xyzzy": 1}]).to_string(),
                () => json!({"xyzzy": 1}).to_string(),
            };
            let by_page = [("cookie", browser.cookie.as_str()), ("x-drystone-word", browser.word.as_str())];
            let headers = match is_page {
                true => by_page.to_vec(),
                false => vec![
                    ("authorization", if is_cas { cas.as_str() } else { auth.as_str() }),
                    ("content-type", "application/json"),
                ],
            };
            let uri = path_of(&path, kind);
            let got = hub.send(&method, &uri, &headers, body.as_bytes()).await;
            let reply = String::from_utf8_lossy(&got.body);
            sent_count += 1;
            if !(400..500).contains(&got.status) || !reply.contains("xyzzy") {
                wrong.push(format!("{method} {uri} ({path}): {} {reply:.200}", got.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {sent_count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent_count > 90, "{sent_count}");
}

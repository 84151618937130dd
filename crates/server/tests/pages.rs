//! What is written about the server is what it does: metrics, settings, the `OpenAPI` document.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;
use server::METRICS;
use server::OPENAPI;
use server::{AppState, Key, KeyRing, ServeConfig};
use tower::ServiceExt as _;
use xet::wire::routes::Endpoint;

const METRICS_PAGE: &str = include_str!("../../../docs/operations/metrics.md");
const GUIDE: &str = include_str!("../../../docs/guide/server.md");

#[test]
fn the_page_about_metrics_has_every_number_as_it_is() {
    let listed: Vec<Vec<String>> = METRICS_PAGE
        .lines()
        .filter(|line| line.starts_with("| `drystone_"))
        .map(|line| line.split('|').skip(1).take(4).map(|cell| cell.trim().to_owned()).collect())
        .collect();
    let known: Vec<Vec<String>> = METRICS
        .iter()
        .map(|(name, kind, labels, what)| {
            [&format!("`{name}`"), *kind, labels, what].map(str::to_owned).to_vec()
        })
        .collect();
    assert_eq!(listed, known);
}

#[test]
fn every_number_in_the_code_is_in_the_table_and_the_other_way() {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        for piece in text.split("\"drystone_").skip(1) {
            let name: String = piece.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            found.insert(format!("drystone_{name}"));
        }
    }
    let known: BTreeSet<String> = METRICS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(found, known);
}

/// The code of the server and the store, but for tests and the table itself.
fn sources() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut files) = (vec![here.join("src"), here.join("../store/src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && name != "tests.rs"
                && !path.ends_with("src/metrics.rs")
            {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn the_guide_names_every_setting() {
    for name in ServeConfig::names() {
        assert!(GUIDE.contains(&format!("`{name}`")), "{name} is not in the guide");
    }
}

/// Every path of the document, aliases included, with its methods.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let doc: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut all = BTreeMap::new();
    for (path, item) in doc["paths"].as_object().unwrap() {
        let methods: BTreeSet<String> = item
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "x-aliases")
            .map(|key| key.to_uppercase())
            .collect();
        let aliases = item["x-aliases"].as_array().into_iter().flatten().map(|alias| alias.as_str().unwrap());
        for path in aliases.chain([path.as_str()]) {
            assert!(all.insert(path.to_owned(), methods.clone()).is_none(), "{path} twice");
        }
    }
    all
}

#[test]
fn the_document_has_the_cas_routes_and_no_others() {
    let documented = documented();
    let routed: BTreeSet<String> = Endpoint::ALL
        .iter()
        .flat_map(|endpoint| endpoint.templates())
        .map(|path| (*path).to_owned())
        .collect();
    let others = |path: &str| {
        let own = ["/health", "/ready", "/metrics", "/openapi.json", server::DATA_ROUTE];
        own.contains(&path) || path.contains("-token")
    };
    let listed: BTreeSet<String> = documented.keys().filter(|path| !others(path)).cloned().collect();
    assert_eq!(listed, routed);
}

#[tokio::test]
async fn the_document_has_the_methods_the_router_has() {
    let state = AppState::new(
        ServeConfig::default(),
        &KeyRing::new(Key::new([7; 32])),
        "127.0.0.1:1".parse().unwrap(),
    );
    let app = server::app(state);
    for (template, methods) in documented() {
        let path = filled(&template);
        // A method no route has: the answer's Allow header lists those it has.
        let request = Request::builder().method("PATCH").uri(&path).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 405, "{template}");
        let allowed: BTreeSet<String> = response.headers()["allow"]
            .to_str()
            .unwrap()
            .split(',')
            .map(|method| method.trim().to_owned())
            .collect();
        // A router answers HEAD wherever it answers GET.
        let expected: BTreeSet<String> =
            methods.iter().cloned().chain(methods.contains("GET").then(|| "HEAD".to_owned())).collect();
        assert_eq!(allowed, expected, "{template}");
    }
    let request = Request::get("/openapi.json").body(Body::empty()).unwrap();
    let body = app.oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, OPENAPI.as_bytes());
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    let doc: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(doc["openapi"], "3.1.0");
    let mut left = vec![&doc];
    let mut seen = 0;
    while let Some(value) = left.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(to)) = map.get("$ref") {
                    assert!(doc.pointer(to.strip_prefix('#').unwrap()).is_some(), "{to}");
                    seen += 1;
                }
                left.extend(map.values());
            }
            Value::Array(list) => left.extend(list),
            _ => {}
        }
    }
    assert!(seen > 50, "{seen}");
    let items = doc["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap());
    let mut ids = BTreeSet::new();
    for (_, operation) in items.filter(|(method, _)| *method != "x-aliases") {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
    }
}

fn filled(template: &str) -> String {
    let (mut path, mut inside) = (String::new(), false);
    for c in template.chars() {
        match c {
            '{' => {
                inside = true;
                path.push('x');
            }
            '}' => inside = false,
            _ if inside => {}
            c => path.push(c),
        }
    }
    path
}

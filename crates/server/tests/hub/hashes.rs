//! Hashes of content: every route that takes one answers callers out of reach as if the content did not exist.

use server::DedupPolicy;
use server::paths;
use testkit::upload::{Upload, shard};
use xet::compress::Policy;
use xet::shard::{FileEntry, Term};
use xet::wire::routes::header::RANGE_DIRTY;
use xet::{FileHash, RangeHash, XorbHash};

use super::*;

/// Content of `ann/secret`: names of it that others may have got hold of.
struct Secret {
    upload: Upload,
    sha256: String,
    data: Vec<u8>,
}

/// A caller who may not know of it, with the repository that the caller writes to.
struct Outsider {
    name: &'static str,
    repo: &'static str,
    personal: Option<String>,
    cas: String,
}

async fn filled(policy: DedupPolicy) -> (Hub, Secret, Vec<Outsider>) {
    let hub = Hub::with(ServeConfig { dedup: policy, ..ServeConfig::default() }).await;
    for name in ["secret", "sibling"] {
        hub.create(name, true).await;
    }
    hub.create("public", false).await;
    let own = json!({"name": "own", "organization": "bob", "private": true});
    assert_eq!(hub.admin("POST", "/api/repos/create", own).await.status, 200);
    let data = testkit::corpus::noise(1, 900_000);
    let mut upload = Upload::of(&[&data], 100, Policy::Auto);
    upload.files[0].sha256 = Some(xet::Sha256::new(testkit::sha256(&data)));
    let cas = cas_token(&hub, "ann/secret", &hub.admin, "write").await;
    for xorb in &upload.xorbs {
        let path = format!("/v1/xorbs/default/{}", xorb.info.hash());
        assert_eq!(hub.call(&cas, "POST", &path, &xorb.bytes).await.status, 200);
    }
    assert_eq!(hub.call(&cas, "POST", "/v1/shards", &upload.shard()).await.status, 200);
    let secret = Secret { upload, sha256: hex(&data), data };
    let lines = [
        header("a secret"),
        json!({"key": "lfsFile", "value": {"path": "w.bin", "algo": "sha256", "oid": secret.sha256}}),
    ];
    assert_eq!(hub.commit(&hub.admin, "ann/secret", &lines).await.status, 200);
    let mut outsiders = Vec::new();
    for (name, repo) in [("a sibling", "ann/sibling"), ("another owner", "bob/own")] {
        let (namespace, model) = repo.split_once('/').unwrap();
        let bound = Bound::Repo(format!("{namespace}/models/{model}").parse().unwrap());
        let personal = hub.personal(namespace, Rights::Write, bound).await;
        let cas = cas_token(&hub, repo, &personal, "write").await;
        outsiders.push(Outsider { name, repo, personal: Some(personal), cas });
    }
    let got = hub.send("GET", "/api/models/ann/public/xet-read-token/main", &[], b"").await;
    let cas = got.json()["accessToken"].as_str().unwrap().to_owned();
    outsiders.push(Outsider { name: "anonymous", repo: "ann/public", personal: None, cas });
    (hub, secret, outsiders)
}

async fn cas_token(hub: &Hub, repo: &str, token: &str, scope: &str) -> String {
    let got = hub.call(token, "GET", &format!("/api/models/{repo}/xet-{scope}-token/main"), b"").await;
    assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    got.json()["accessToken"].as_str().unwrap().to_owned()
}

/// Everything of an answer but what names the request and the content.
fn answer(got: &Got, named: &str) -> (u16, Vec<String>, String) {
    let plain = |text: &str| if named.is_empty() { text.to_owned() } else { text.replace(named, "HASH") };
    let headers = got.headers.iter();
    let headers = headers.filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "date"));
    let mut headers: Vec<_> = headers
        .map(|(name, value)| format!("{name}: {}", plain(&String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    headers.sort();
    let id = got.header("x-request-id");
    let text = plain(&String::from_utf8_lossy(&got.body));
    (got.status, headers, if id.is_empty() { text } else { text.replace(id, "ID") })
}

/// Text without what a signed URL has of the time.
fn unsigned(text: &str) -> String {
    let after = |text: &str, key: &str| {
        let mut parts = text.split(key);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + key + part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
    };
    after(&after(text, "expires="), "signature=")
}

fn other(hash: &str) -> String {
    format!("{}{}", if hash.starts_with('0') { '1' } else { '0' }, &hash[1..])
}

/// Routes whose path has a hash of content, with the part that is one.
const NAMES: [&str; 5] = ["{file}", "{chunk}", "{xorb}", "{shard}", "{oid}"];

#[tokio::test]
async fn a_hash_in_a_path_answers_outsiders_as_one_of_nothing() {
    let (hub, secret, outsiders) = filled(DedupPolicy::Repo).await;
    let info = &secret.upload.xorbs[0].info;
    let stored = |part: &str| match part {
        "{file}" => secret.upload.files[0].hash.to_string(),
        "{chunk}" => info.chunks()[0].hash.to_string(),
        "{xorb}" => info.hash().to_string(),
        "{oid}" => secret.sha256.clone(),
        _ => "0".repeat(64),
    };
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for path in paths() {
        let Some(part) = NAMES.into_iter().find(|part| path.contains(part)) else { continue };
        for outsider in &outsiders {
            let (namespace, name) = outsider.repo.split_once('/').unwrap();
            let at = |hash: &str| {
                let path = path.replace(part, hash).replace("{prefix}", "default").replace("{number}", "1");
                path.replace("{namespace}", namespace).replace("{name}", name)
            };
            let tokens = outsider.personal.iter().chain([&outsider.cas]);
            for (token, method) in tokens.flat_map(|token| ["GET", "HEAD", "POST", "PUT"].map(|m| (token, m)))
            {
                let auth = format!("Bearer {token}");
                let headers = [("authorization", auth.as_str()), (RANGE_DIRTY, "bytes=0-99")];
                let here = stored(part);
                let away = other(&here);
                let of_stored = hub.send(method, &at(&here), &headers, b"x").await;
                let of_absent = hub.send(method, &at(&away), &headers, b"x").await;
                compared += 1;
                if answer(&of_stored, &here) != answer(&of_absent, &away) || of_stored.status < 400 {
                    let (here, away) = (answer(&of_stored, &here), answer(&of_absent, &away));
                    wrong.push(format!("{method} {path} as {}:\n  {here:?}\n  {away:?}", outsider.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 400, "{compared}");
}

#[tokio::test]
async fn a_hash_in_a_body_answers_outsiders_as_one_of_nothing() {
    let (hub, secret, outsiders) = filled(DedupPolicy::Repo).await;
    let size = secret.data.len();
    let copied = |oid: &str| {
        let value = json!({"path": "b.bin", "srcPath": "w.bin", "srcRevision": &oid[..40]});
        [header("copy"), json!({"key": "copyFile", "value": value})]
    };
    let linked = |oid: &str| {
        let value = json!({"path": "b.bin", "algo": "sha256", "oid": oid, "size": size});
        [header("link"), json!({"key": "lfsFile", "value": value})]
    };
    let text = |lines: [Value; 2]| format!("{}\n{}", lines[0], lines[1]);
    let batch = |operation: &str, oid: &str| {
        json!({"operation": operation, "objects": [{"oid": oid, "size": size}]}).to_string()
    };
    let file = secret.upload.files[0].hash.to_string();
    let commit_of_secret =
        hub.admin("GET", "/api/models/ann/secret", Value::Null).await.json()["sha"].clone();
    let commit_of_secret = commit_of_secret.as_str().unwrap().to_owned();
    let mut compared = 0;
    for outsider in &outsiders {
        let Outsider { name, repo, personal, cas } = outsider;
        let api = format!("/api/models/{repo}");
        let mut cases: Vec<(String, Option<&String>, String, String)> = Vec::new();
        for (here, away) in [(&secret.sha256, other(&secret.sha256)), (&file, other(&file))] {
            for operation in ["upload", "download"] {
                let path = format!("/{repo}.git/info/lfs/objects/batch");
                cases.push((path, personal.as_ref(), batch(operation, here), batch(operation, &away)));
            }
            let path = format!("{api}/commit/main");
            cases.push((path, personal.as_ref(), text(linked(here)), text(linked(&away))));
        }
        let path = format!("{api}/commit/main");
        let absent = other(&commit_of_secret);
        cases.push((path, personal.as_ref(), text(copied(&commit_of_secret)), text(copied(&absent))));
        let keys = |hash: &str| json!([{"hash": hash}]).to_string();
        cases.push(("/v1/reconstructions".to_owned(), Some(cas), keys(&file), keys(&other(&file))));
        let body = |xorb: XorbHash, right: bool| {
            let mut files = secret.upload.files.clone();
            files[0].terms[0].xorb = xorb;
            if !right {
                files[0].verification = Some(vec![RangeHash(FileHash::new([0xcd; 32]).0)]);
            }
            shard(&files, &[])
        };
        let xorb = secret.upload.xorbs[0].info.hash();
        let absent: XorbHash = other(&xorb.to_string()).parse().unwrap();
        for path in ["/v1/shards", "/v2/shards"] {
            for right in [true, false] {
                let got = hub.call(cas, "POST", path, &body(xorb, right)).await;
                let of_absent = hub.call(cas, "POST", path, &body(absent, right)).await;
                assert_eq!(
                    answer(&got, &xorb.to_string()),
                    answer(&of_absent, &absent.to_string()),
                    "{name} {path}"
                );
                assert!(got.status >= 400, "{name} {path}: {}", got.status);
                compared += 1;
            }
        }
        for (path, token, here, away) in cases {
            let auth = token.map(|token| format!("Bearer {token}"));
            let headers: Vec<_> = auth.iter().map(|auth| ("authorization", auth.as_str())).collect();
            let of_stored = hub.send("POST", &path, &headers, here.as_bytes()).await;
            let of_absent = hub.send("POST", &path, &headers, away.as_bytes()).await;
            let names = [&secret.sha256, &file, &commit_of_secret];
            let plain = |got: &Got| {
                let (status, headers, text) = answer(got, "");
                let mut text = format!("{}\n{text}", headers.join("\n"));
                for name in names {
                    text = text.replace(name.as_str(), "HASH").replace(&other(name), "HASH");
                }
                (status, unsigned(&text))
            };
            assert_eq!(plain(&of_stored), plain(&of_absent), "{name}: {path} {here}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

/// A file that is registered where it cannot be read is not readable by its hash either.
#[tokio::test]
async fn a_term_that_cannot_be_proven_opens_nothing() {
    let (hub, secret, outsiders) = filled(DedupPolicy::Global).await;
    let xorb = secret.upload.xorbs[0].info.hash();
    let count = secret.upload.xorbs[0].info.chunk_count();
    for Outsider { name, cas, .. } in &outsiders {
        for chunks in [0..1, 0..count, 0..count + 1, count..count + 1, 0..8000] {
            let terms = vec![Term { xorb, flags: 0, raw_bytes: 40_000, chunks: chunks.clone() }];
            let hash = FileHash::new([0xab; 32]);
            for verification in [None, Some(vec![RangeHash(hash.0)])] {
                let file = FileEntry { hash, terms: terms.clone(), verification, sha256: None };
                let got = hub.call(cas, "POST", "/v1/shards", &shard(&[file], &[])).await;
                assert!((400..500).contains(&got.status), "{name} {chunks:?}: {}", got.status);
                assert_eq!(
                    hub.call(cas, "GET", &format!("/v1/reconstructions/{hash}"), b"").await.status,
                    404
                );
            }
        }
    }
}

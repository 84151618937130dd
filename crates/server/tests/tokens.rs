//! The tokens people keep, shown to a server over a real catalog.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use server::auth::people::BELIEVED;
use server::auth::personal::{self, Wanted};
use server::{AppState, House, Key, KeyRing, Secret, ServeConfig};
use store::Store;
use store::catalog::tokens::{Bound, Rights, TokenRow};
use store::repo::{Kind, RepoName};
use tempfile::TempDir;
use tower::ServiceExt as _;
use xet::wire::{ErrorBody, TokenAnswer, parse_json};

const NOW: u64 = 1_800_000_000;

struct Hub {
    state: AppState,
    store: Store,
    now_s: Arc<AtomicU64>,
    house: House,
    _folder: TempDir,
}

impl Hub {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (config, keys) = (ServeConfig::default(), KeyRing::new(Key::new([7; 32])));
        let house = House::new(folder.path());
        let store = house.open(&config, &keys).await.unwrap();
        let now_s = Arc::new(AtomicU64::new(NOW));
        let clock = Arc::clone(&now_s);
        for repo in REPOS {
            store.create_repo(&repo_name(repo), true, "ann").await.unwrap();
        }
        let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap())
            .with_clock(Arc::new(move || clock.load(Ordering::SeqCst)))
            .with_store(store.clone());
        Self { state, store, now_s, house, _folder: folder }
    }

    async fn admit(&self) -> store::Result<bool> {
        let keys = KeyRing::new(Key::new([7; 32]));
        self.house.admit_admin(&self.state.config, &keys, &self.store, NOW).await
    }

    async fn token(
        &self,
        rights: Rights,
        bound: Bound,
        expires_s: Option<u64>,
    ) -> (Secret<String>, TokenRow) {
        let wanted = Wanted { label: "t".into(), subject: "ann".into(), rights, bound, expires_s };
        let token = personal::make();
        let row = wanted.row(&token, NOW);
        assert!(self.store.catalog().tokens().add(&row).await.unwrap());
        (token, row)
    }

    /// Status, code of a refusal and body.
    async fn get(&self, uri: &str, token: &str) -> (u16, String, Vec<u8>) {
        let request = Request::builder().uri(uri).header("authorization", format!("Bearer {token}"));
        let app = server::app(self.state.clone());
        let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        let code = parse_json::<ErrorBody>(&body).map_or(String::new(), |body| body.code.to_string());
        (status, code, body)
    }

    /// What the token route says of a token: the status, and who the CAS token is for.
    async fn ask(&self, token: &str, repo: &str, scope: &str) -> (u16, String) {
        let (status, code, body) = self.get(&format!("/api/{repo}/xet-{scope}-token/main"), token).await;
        if status != 200 {
            return (status, code);
        }
        let answer: TokenAnswer = parse_json(&body).unwrap();
        let claims = self.state.tokens.verify(&answer.access_token, NOW).unwrap();
        (status, format!("{} {}", claims.sub, claims.repo))
    }
}

const REPOS: [&str; 3] = ["models/ann/a", "datasets/ann/a", "models/bob/a"];

fn repo_name(text: &str) -> RepoName {
    let parts: Vec<_> = text.split('/').collect();
    let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == parts[0]).unwrap();
    RepoName::new(kind, parts[1], parts[2]).unwrap()
}

fn repo(text: &str) -> Bound {
    Bound::Repo(text.parse().unwrap())
}

#[tokio::test]
async fn a_token_opens_what_it_is_bound_to_and_no_more() {
    let hub = Hub::new().await;
    let cases = [
        // All three are private: who may not read one is not told that it is there.
        (Rights::Read, repo("ann/models/a"), [(200, 403), (404, 404), (404, 404)]),
        (Rights::Write, repo("ann/models/a"), [(200, 200), (404, 404), (404, 404)]),
        (Rights::Read, Bound::Namespace("ann".into()), [(200, 403), (200, 403), (404, 404)]),
        (Rights::Write, Bound::Namespace("ann".into()), [(200, 200), (200, 200), (404, 404)]),
        (Rights::Write, Bound::Everywhere, [(200, 200), (200, 200), (200, 200)]),
        (Rights::Admin, Bound::Everywhere, [(200, 200), (200, 200), (200, 200)]),
    ];
    for (rights, bound, expected) in cases {
        let (token, _) = hub.token(rights, bound.clone(), None).await;
        for (repo, (read, write)) in REPOS.into_iter().zip(expected) {
            for (scope, status) in [("read", read), ("write", write)] {
                let got = hub.ask(token.expose(), repo, scope).await;
                assert_eq!(got.0, status, "{rights:?} {bound:?} {repo} {scope}");
                assert!(status != 200 || got.1 == format!("ann {repo}"), "{got:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_forged_expired_or_revoked_opens_nothing() {
    let hub = Hub::new().await;
    let route = "/api/models/ann/a/xet-read-token/main";
    let denied = |got: (u16, String, Vec<u8>)| {
        assert_eq!((got.0, got.1.as_str()), (401, "unauthorized"));
        parse_json::<ErrorBody>(&got.2).unwrap().error
    };
    let forged = personal::make();
    assert_eq!(denied(hub.get(route, forged.expose()).await), "the token is not known here");
    assert_eq!(denied(hub.get(route, "hf_something").await), "the token is malformed");

    let (token, row) = hub.token(Rights::Read, Bound::Everywhere, Some(NOW + 10)).await;
    assert_eq!(hub.get(route, token.expose()).await.0, 200);
    hub.now_s.store(NOW + 10, Ordering::SeqCst);
    assert_eq!(denied(hub.get(route, token.expose()).await), "the token has expired");
    hub.now_s.store(NOW, Ordering::SeqCst);

    hub.store.catalog().tokens().revoke(&row.id, NOW).await.unwrap();
    let revoked = async {
        while hub.get(route, token.expose()).await.0 == 200 {
            tokio::time::sleep(BELIEVED / 10).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), revoked)
        .await
        .expect("a revoked token is refused in the end");
    assert_eq!(denied(hub.get(route, token.expose()).await), "the token was revoked");
}

#[tokio::test]
async fn a_token_of_one_repository_opens_the_cas_and_others_are_told_what_to_do() {
    let hub = Hub::new().await;
    let file = format!("/v1/reconstructions/{}", "1".repeat(64));
    let (bound, _) = hub.token(Rights::Read, repo("ann/models/a"), None).await;
    assert_eq!(hub.get(&file, bound.expose()).await.0, 404, "it may ask, and there is no such file");
    let (wide, _) = hub.token(Rights::Admin, Bound::Everywhere, None).await;
    let (status, code, body) = hub.get(&file, wide.expose()).await;
    assert_eq!((status, code.as_str()), (403, "forbidden"));
    assert!(String::from_utf8(body).unwrap().contains("token route"));

    let xorb = format!("/v1/xorbs/default/{}", "1".repeat(64));
    let request = Request::post(&xorb).header("authorization", format!("Bearer {}", bound.expose()));
    let response =
        server::app(hub.state.clone()).oneshot(request.body(Body::from("x")).unwrap()).await.unwrap();
    assert_eq!(response.status().as_u16(), 403, "it reads and does not write");
}

#[tokio::test]
async fn the_use_of_a_token_is_noted_to_the_hour() {
    let hub = Hub::new().await;
    let (token, row) = hub.token(Rights::Read, Bound::Everywhere, None).await;
    let used = async || hub.store.catalog().tokens().by_digest(&row.digest).await.unwrap().unwrap().used_s;
    assert_eq!(used().await, None);
    hub.ask(token.expose(), "models/ann/a", "read").await;
    assert_eq!(used().await, Some(NOW));
}

#[tokio::test]
async fn the_first_admin_token_is_in_the_file_once_and_in_the_catalog_as_a_hash() {
    let hub = Hub::new().await;
    assert!(hub.admit().await.unwrap());
    let token = std::fs::read_to_string(hub.house.admin_token_file()).unwrap().trim().to_owned();
    assert_eq!(hub.ask(&token, "models/bob/a", "write").await, (200, "admin models/bob/a".to_owned()));
    let rows = hub.store.catalog().tokens().all().await.unwrap();
    assert_eq!((rows.len(), rows[0].rights), (1, Rights::Admin));
    assert!(!format!("{rows:?}").contains(&token));

    // The file may go; a restart makes no second token, also when the first was revoked.
    std::fs::remove_file(hub.house.admin_token_file()).unwrap();
    assert!(!hub.admit().await.unwrap());
    hub.store.catalog().tokens().revoke(&rows[0].id, NOW).await.unwrap();
    assert!(!hub.admit().await.unwrap());
    assert!(!hub.house.admin_token_file().exists());
}

#[tokio::test]
async fn a_token_in_the_file_of_a_lost_catalog_is_replaced_and_opens_nothing() {
    let lost = Hub::new().await;
    assert!(lost.admit().await.unwrap());
    let old = std::fs::read_to_string(lost.house.admin_token_file()).unwrap();
    // The same key, another catalog.
    let hub = Hub::new().await;
    std::fs::write(hub.house.admin_token_file(), &old).unwrap();
    assert!(hub.admit().await.unwrap());
    let new = std::fs::read_to_string(hub.house.admin_token_file()).unwrap();
    assert_ne!(new, old);
    assert_eq!(hub.ask(old.trim(), "models/ann/a", "read").await.0, 401);
    assert_eq!(hub.ask(new.trim(), "models/ann/a", "read").await.0, 200);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(hub.house.admin_token_file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn the_file_goes_with_its_token_and_stays_with_others() {
    let hub = Hub::new().await;
    hub.admit().await.unwrap();
    let first = hub.store.catalog().tokens().all().await.unwrap().remove(0);
    let (_, other) = hub.token(Rights::Admin, Bound::Everywhere, None).await;
    assert!(!hub.house.remove_admin_token(&other).unwrap());
    assert!(hub.house.admin_token_file().exists());
    assert!(hub.house.remove_admin_token(&first).unwrap());
    assert!(!hub.house.admin_token_file().exists());
    assert!(!hub.house.remove_admin_token(&first).unwrap());
}

#[tokio::test]
async fn servers_over_one_database_keep_copies_of_a_token_that_is_good() {
    let hub = Hub::new().await;
    let keys = KeyRing::new(Key::new([7; 32]));
    let catalog = Some(Secret::new("postgres://db/hub".to_owned()));
    let config = ServeConfig { catalog, ..ServeConfig::default() };
    assert!(hub.house.admit_admin(&config, &keys, &hub.store, NOW).await.unwrap());
    let token = std::fs::read_to_string(hub.house.admin_token_file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [second, third] = ["two", "three"].map(|name| House::new(&folder.path().join(name)));
    assert!(!second.admit_admin(&config, &keys, &hub.store, NOW).await.unwrap());
    assert_eq!(std::fs::read_to_string(second.admin_token_file()).unwrap(), token);
    let id = hub.store.catalog().tokens().all().await.unwrap().remove(0).id;
    hub.store.catalog().tokens().revoke(&id, NOW).await.unwrap();
    assert!(!third.admit_admin(&config, &keys, &hub.store, NOW).await.unwrap());
    assert!(!third.admin_token_file().exists(), "it was revoked");
}

#[tokio::test]
async fn one_token_may_ask_so_often_and_another_too() {
    let folder = tempfile::tempdir().unwrap();
    let (mut config, keys) = (ServeConfig::default(), KeyRing::new(Key::new([7; 32])));
    config.limits.token_requests_per_s = 1;
    let house = House::new(folder.path());
    let store = house.open(&config, &keys).await.unwrap();
    let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap()).with_store(store.clone());
    let hub = Hub { state, store, now_s: Arc::default(), house, _folder: folder };
    let (one, _) = hub.token(Rights::Read, repo("ann/models/a"), None).await;
    let (two, _) = hub.token(Rights::Read, repo("ann/models/a"), None).await;
    let file = format!("/v1/reconstructions/{}", "1".repeat(64));
    let mut refused = 0;
    // The burst is ten; a slow machine earns a few more on the way.
    while refused == 0 {
        let got = hub.get(&file, one.expose()).await;
        if got.0 == 429 {
            assert_eq!(got.1, "too_many_requests");
            refused += 1;
        } else {
            assert_eq!(got.0, 404);
        }
    }
    assert_eq!(hub.get(&file, two.expose()).await.0, 404);
    assert_eq!(hub.get(&file, personal::make().expose()).await.0, 401, "a stranger's is not counted");
}

#[test]
fn metrics_are_for_admins_where_strangers_reach_the_server() {
    let (recorder, metrics) = server::Metrics::local().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let hub = Hub::new().await;
            let config =
                ServeConfig { public_url: Some("https://hub.example".into()), ..ServeConfig::default() };
            let keys = KeyRing::new(Key::new([7; 32]));
            let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap())
                .with_store(hub.store.clone())
                .with_metrics(metrics);
            let (admin, _) = hub.token(Rights::Admin, Bound::Everywhere, None).await;
            let (writer, _) = hub.token(Rights::Write, Bound::Everywhere, None).await;
            let hub = Hub { state, ..hub };
            assert_eq!(hub.get("/metrics", "x").await.0, 401);
            assert_eq!(hub.get("/metrics", writer.expose()).await.0, 403);
            let (status, _, body) = hub.get("/metrics", admin.expose()).await;
            let text = String::from_utf8(body).unwrap();
            assert_eq!(status, 200);
            for line in [
                r#"drystone_tokens_refused_total{reason="malformed"} 1"#,
                r#"drystone_tokens_refused_total{reason="admin"} 1"#,
            ] {
                assert!(text.contains(line), "{line} is not in\n{text}");
            }
        });
    });
}

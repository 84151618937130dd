//! The tokens people keep, shown to a server over a real catalog.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use server::personal_token::{self, NewToken};
use server::{AppState, DataDir, Key, KeyRing, Secret, ServeConfig, TOKEN_CACHE_TTL};
use store::Store;
use store::hub::{Bound, Rights, TokenRow};
use store::names::{Kind, RepoName};
use tempfile::TempDir;
use tower::ServiceExt as _;
use xet::wire::{ErrorBody, TokenAnswer, parse_json};

const NOW: u64 = 1_800_000_000;

struct Hub {
    state: AppState,
    store: Store,
    now_s: Arc<AtomicU64>,
    data_dir: DataDir,
    _folder: TempDir,
}

impl Hub {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (config, keys) = (ServeConfig::default(), KeyRing::new(Key::new([7; 32])));
        let data_dir = DataDir::new(folder.path());
        let store = data_dir.open(&config, &keys).await.unwrap();
        let now_s = Arc::new(AtomicU64::new(NOW));
        let clock = Arc::clone(&now_s);
        for repo in REPOS {
            store.hub().create_repo(&repo_name(repo), true, "ann").await.unwrap();
        }
        let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap())
            .with_clock(Arc::new(move || clock.load(Ordering::SeqCst)))
            .with_store(store.clone());
        Self { state, store, now_s, data_dir, _folder: folder }
    }

    async fn admit(&self) -> store::Result<bool> {
        let keys = KeyRing::new(Key::new([7; 32]));
        self.data_dir.bootstrap_admin_token(&self.state.config, &keys, &self.store, NOW).await
    }

    async fn token(
        &self,
        rights: Rights,
        bound: Bound,
        expires_s: Option<u64>,
    ) -> (Secret<String>, TokenRow) {
        let length = NewToken { label: "t".into(), subject: "ann".into(), rights, bound, expires_s };
        let token = personal_token::make();
        let row = length.row(&token, NOW);
        assert!(self.store.hub().tokens().add(&row).await.unwrap());
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

    /// What the token route reports about a token: the status, and who the CAS token is for.
    async fn call(&self, token: &str, repo: &str, scope: &str) -> (u16, String) {
        let (status, code, body) = self.get(&format!("/api/{repo}/xet-{scope}-token/main"), token).await;
        if status != 200 {
            return (status, code);
        }
        let answer: TokenAnswer = parse_json(&body).unwrap();
        let claims = self.state.cas_tokens().verify(&answer.access_token, NOW).unwrap();
        (status, format!("{} {}/{}", claims.sub, claims.repo.kind.plural(), claims.repo.id()))
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
        // All three are private: who may not read one does not learn that it exists.
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
                let got = hub.call(token.expose(), repo, scope).await;
                assert_eq!(got.0, status, "{rights:?} {bound:?} {repo} {scope}");
                let actor = if rights == Rights::Admin { "admin token \"t\"" } else { "ann" };
                assert!(status != 200 || got.1 == format!("{actor} {repo}"), "{got:?}");
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
    let forged = personal_token::make();
    assert_eq!(denied(hub.get(route, forged.expose()).await), "the token is not known here");
    assert_eq!(denied(hub.get(route, "hf_something").await), "the token is malformed");

    let (token, row) = hub.token(Rights::Read, Bound::Everywhere, Some(NOW + 10)).await;
    assert_eq!(hub.get(route, token.expose()).await.0, 200);
    hub.now_s.store(NOW + 10, Ordering::SeqCst);
    assert_eq!(denied(hub.get(route, token.expose()).await), "the token has expired");
    hub.now_s.store(NOW, Ordering::SeqCst);

    hub.store.hub().tokens().revoke(&row.id, NOW).await.unwrap();
    let revoked = async {
        while hub.get(route, token.expose()).await.0 == 200 {
            tokio::time::sleep(TOKEN_CACHE_TTL / 10).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), revoked)
        .await
        .expect("a revoked token is refused in the end");
    assert_eq!(denied(hub.get(route, token.expose()).await), "the token was revoked");
}

#[tokio::test]
async fn a_token_of_one_repository_opens_the_cas_and_others_get_a_hint() {
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

/// Longer than what was looked up is cached.
async fn wait() {
    tokio::time::sleep(TOKEN_CACHE_TTL + Duration::from_millis(300)).await;
}

impl Hub {
    /// A token of a user.
    async fn token_of(&self, subject: &str, rights: Rights, bound: Bound) -> (Secret<String>, TokenRow) {
        let length = NewToken { label: "t".into(), subject: subject.into(), rights, bound, expires_s: None };
        let token = personal_token::make();
        let row = length.row(&token, NOW);
        assert!(self.store.hub().tokens().add(&row).await.unwrap());
        (token, row)
    }

    /// A CAS token of a repository, got with a token.
    async fn cas(&self, token: &str, repo: &str, scope: &str) -> String {
        let (status, _, body) = self.get(&format!("/api/{repo}/xet-{scope}-token/main"), token).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        parse_json::<TokenAnswer>(&body).unwrap().access_token
    }

    /// The status of a reconstruction of a file that is in no repository: 404 for callers with access.
    async fn content(&self, token: &str) -> u16 {
        self.get(&format!("/v1/reconstructions/{}", "1".repeat(64)), token).await.0
    }
}

#[tokio::test]
async fn a_cas_token_opens_content_and_nothing_else() {
    let hub = Hub::new().await;
    let (token, _) = hub.token(Rights::Write, Bound::Namespace("ann".into()), None).await;
    let cas = hub.cas(token.expose(), "models/ann/a", "write").await;
    assert_eq!(hub.content(&cas).await, 404);
    for path in [
        "/api/models/ann/a/xet-read-token/main",
        "/api/models/ann/a/xet-write-token/main",
        "/api/models/ann/a",
        "/api/models",
        "/api/whoami-v2",
        "/ann/a",
        "/-/dedup",
        "/ann/a/resolve/main/.gitattributes",
    ] {
        let (status, code, body) = hub.get(path, &cas).await;
        // Pages say it in HTML.
        assert!(status == 403 && ["forbidden", ""].contains(&code.as_str()), "{path}: {status} {code}");
        assert!(String::from_utf8(body).unwrap().contains("personal token"), "{path}");
    }
    // Nor as what git sends, nor with the prefix of huggingface.js.
    assert_eq!(hub.get("/api/whoami-v2", &format!("hf_{cas}")).await.0, 403);
}

#[tokio::test]
async fn a_cas_token_ends_with_the_token_it_was_issued_for() {
    let hub = Hub::new().await;
    let (token, row) = hub.token(Rights::Write, Bound::Namespace("ann".into()), Some(NOW + 50)).await;
    let (other, _) = hub.token(Rights::Write, Bound::Namespace("ann".into()), None).await;
    let cas = hub.cas(token.expose(), "models/ann/a", "write").await;
    let stays = hub.cas(other.expose(), "models/ann/a", "write").await;
    assert_eq!(hub.state.cas_tokens().verify(&cas, NOW).unwrap().exp, NOW + 50, "no longer than the token");
    assert_eq!((hub.content(&cas).await, hub.content(&stays).await), (404, 404));
    hub.store.hub().tokens().revoke(&row.id, NOW).await.unwrap();
    wait().await;
    assert_eq!((hub.content(&cas).await, hub.content(&stays).await), (401, 404));
}

#[tokio::test]
async fn a_cas_token_of_an_anonymous_caller_ends_when_the_repository_turns_private() {
    let hub = Hub::new().await;
    let repo = hub.store.hub().repo(&repo_name("models/ann/a")).await.unwrap().unwrap();
    hub.store.hub().set_private(&repo, false).await.unwrap();
    let request = Request::get("/api/models/ann/a/xet-read-token/main").body(Body::empty()).unwrap();
    let response = server::app(hub.state.clone()).oneshot(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let anonymous = parse_json::<TokenAnswer>(&body).unwrap().access_token;
    let (token, _) = hub.token(Rights::Read, Bound::Everywhere, None).await;
    let cas = hub.cas(token.expose(), "models/ann/a", "read").await;
    assert_eq!((hub.content(&anonymous).await, hub.content(&cas).await), (404, 404));
    let repo = hub.store.hub().repo(&repo_name("models/ann/a")).await.unwrap().unwrap();
    hub.store.hub().set_private(&repo, true).await.unwrap();
    wait().await;
    assert_eq!((hub.content(&anonymous).await, hub.content(&cas).await), (401, 404));
}

#[tokio::test]
async fn a_new_cas_token_is_good_at_once_whatever_was_cached() {
    let hub = Hub::new().await;
    let (token, _) = hub.token(Rights::Write, Bound::Namespace("ann".into()), None).await;
    let scope = async |token: &str| {
        let scope = hub.state.content_scope(token, xet::wire::routes::TokenScope::Read).await;
        scope.map(|scope| scope.to_string())
    };
    let old = hub.cas(token.expose(), "models/ann/a", "read").await;
    assert_eq!(scope(&old).await.unwrap(), "ann/models/a");
    let row = hub.store.hub().repo(&repo_name("models/ann/a")).await.unwrap().unwrap();
    hub.store.hub().rename_repo(&row, &repo_name("models/ann/b")).await.unwrap();
    let new = hub.cas(token.expose(), "models/ann/b", "read").await;
    assert_eq!(scope(&new).await.unwrap(), "ann/models/b", "the content has moved");

    // A repository that is public again opens to a token that was got then.
    let anonymous = async || {
        let request = Request::get("/api/models/ann/b/xet-read-token/main").body(Body::empty()).unwrap();
        let response = server::app(hub.state.clone()).oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        parse_json::<TokenAnswer>(&body).unwrap().access_token
    };
    let set_private = async |private| {
        let row = hub.store.hub().repo(&repo_name("models/ann/b")).await.unwrap().unwrap();
        hub.store.hub().set_private(&row, private).await.unwrap();
    };
    set_private(false).await;
    let first = anonymous().await;
    set_private(true).await;
    assert!(scope(&first).await.is_err());
    set_private(false).await;
    assert_eq!(scope(&anonymous().await).await.unwrap(), "ann/models/b");
}

#[tokio::test]
async fn tokens_of_a_repository_follow_its_name_and_open_no_other_one() {
    let hub = Hub::new().await;
    let (own, _) = hub.token(Rights::Write, repo("ann/models/a"), None).await;
    let (wide, _) = hub.token(Rights::Write, Bound::Namespace("ann".into()), None).await;
    let cas = hub.cas(wide.expose(), "models/ann/a", "read").await;
    let old = hub.store.hub().repo(&repo_name("models/ann/a")).await.unwrap().unwrap();
    assert_eq!(hub.get("/api/models/ann/a", own.expose()).await.0, 200);
    hub.store.hub().rename_repo(&old, &repo_name("models/ann/b")).await.unwrap();
    hub.store.hub().create_repo(&repo_name("models/ann/a"), true, "ann").await.unwrap();
    // At once: the id is compared, not what was looked up.
    assert_eq!(hub.get("/api/models/ann/a", own.expose()).await.0, 404);
    assert_eq!(hub.get("/api/models/ann/b", own.expose()).await.0, 200);
    wait().await;
    let scope = async |token: &str| {
        let scope = hub.state.content_scope(token, xet::wire::routes::TokenScope::Read).await;
        scope.map(|scope| scope.to_string())
    };
    for token in [own.expose(), &cas] {
        assert_eq!(scope(token).await.unwrap(), "ann/models/b");
    }
    // Gone with the repository, and not back with another one of its name.
    let moved = hub.store.hub().repo(&repo_name("models/ann/b")).await.unwrap().unwrap();
    hub.store.hub().trash_repo(&moved, 1000).await.unwrap();
    hub.store.hub().create_repo(&repo_name("models/ann/b"), true, "ann").await.unwrap();
    wait().await;
    for token in [own.expose(), &cas] {
        assert_eq!(hub.content(token).await, 401);
    }
    assert_eq!(hub.get("/api/models/ann/b", own.expose()).await.0, 404);
}

#[tokio::test]
async fn a_token_made_before_its_repository_creates_it_and_is_bound_to_it() {
    let hub = Hub::new().await;
    let (token, row) = hub.token(Rights::Write, repo("ann/models/new"), None).await;
    let create = async |name: &str| {
        let body =
            format!(r#"{{"name": "{name}", "organization": "ann", "type": "model", "private": true}}"#);
        let request = Request::post("/api/repos/create").header("content-length", body.len());
        let request = request.header("authorization", format!("Bearer {}", token.expose()));
        let request = request.body(Body::from(body)).unwrap();
        server::app(hub.state.clone()).oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(hub.content(token.expose()).await, 404, "content needs no repository");
    assert_eq!(create("other").await, 403);
    assert_eq!(create("new").await, 200);
    assert_eq!(hub.get("/api/models/ann/new", token.expose()).await.0, 200, "without waiting");
    let new = hub.store.hub().repo(&repo_name("models/ann/new")).await.unwrap().unwrap();
    let row = hub.store.hub().tokens().by_id(&row.id).await.unwrap().unwrap();
    assert_eq!(row.repo_id, Some(new.id));
    hub.store.hub().delete_repo(&new).await.unwrap();
    wait().await;
    assert_eq!(create("new").await, 403, "it was for the one that is gone");
}

#[tokio::test]
async fn a_token_of_a_user_allows_at_most_what_the_user_may_do() {
    let hub = Hub::new().await;
    for user in ["ann", "bob"] {
        hub.store.hub().add_namespace(user, false).await.unwrap();
    }
    hub.store.hub().add_namespace("team", true).await.unwrap();
    hub.store.hub().create_repo(&repo_name("models/team/a"), true, "x").await.unwrap();
    let status =
        async |token: &Secret<String>, repo: &str, scope: &str| hub.call(token.expose(), repo, scope).await.0;
    let (everywhere, _) = hub.token_of("ann", Rights::Write, Bound::Everywhere).await;
    let (of_bob, _) = hub.token_of("ann", Rights::Write, Bound::Namespace("bob".into())).await;
    let (of_bobs, _) = hub.token_of("ann", Rights::Write, repo("bob/models/a")).await;
    let (of_team, _) = hub.token_of("ann", Rights::Write, Bound::Namespace("team".into())).await;
    let (of_ann, _) = hub.token_of("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    assert_eq!(status(&everywhere, "models/ann/a", "write").await, 200);
    for token in [&everywhere, &of_bob, &of_bobs] {
        assert_eq!(status(token, "models/bob/a", "read").await, 404);
    }
    assert_eq!(hub.content(of_bobs.expose()).await, 403, "nor content by itself");
    for (writes, expected) in [(None, 404), (Some(false), 403), (Some(true), 200)] {
        if let Some(writes) = writes {
            hub.store.hub().set_member("team", "ann", writes).await.unwrap();
        }
        for token in [&everywhere, &of_team] {
            assert_eq!(status(token, "models/team/a", "write").await, expected);
        }
    }
    assert_eq!(status(&of_team, "models/ann/a", "read").await, 404, "no more than it is bound to");
    assert_eq!(status(&of_ann, "models/team/a", "read").await, 404);
    // What was given ends with the membership.
    let cas = hub.cas(everywhere.expose(), "models/team/a", "write").await;
    assert_eq!(hub.content(&cas).await, 404);
    hub.store.hub().remove_member("team", "ann").await.unwrap();
    wait().await;
    assert_eq!(hub.content(&cas).await, 401);
    assert_eq!(status(&everywhere, "models/team/a", "read").await, 404);
}

#[tokio::test]
async fn tokens_of_a_disabled_user_open_nothing_until_the_user_is_enabled() {
    let hub = Hub::new().await;
    hub.store.hub().add_namespace("ann", false).await.unwrap();
    let (token, _) = hub.token(Rights::Write, Bound::Everywhere, None).await;
    let cas = hub.cas(token.expose(), "models/ann/a", "write").await;
    let statuses = async || [hub.get("/api/whoami-v2", token.expose()).await.0, hub.content(&cas).await];
    assert_eq!(statuses().await, [200, 404]);
    hub.store.hub().disable_user("ann").await.unwrap();
    wait().await;
    assert_eq!(statuses().await, [401, 401]);
    hub.store.hub().enable_user("ann").await.unwrap();
    wait().await;
    assert_eq!(statuses().await, [200, 404]);
    assert!(hub.store.hub().delete_namespace("ann", false).await.unwrap_err().to_string().contains("ann/a"));
}

#[tokio::test]
async fn the_use_of_a_token_is_noted_to_the_hour() {
    let hub = Hub::new().await;
    let (token, row) = hub.token(Rights::Read, Bound::Everywhere, None).await;
    let used = async || hub.store.hub().tokens().by_digest(&row.digest).await.unwrap().unwrap().used_s;
    assert_eq!(used().await, None);
    hub.call(token.expose(), "models/ann/a", "read").await;
    assert_eq!(used().await, Some(NOW));
}

#[tokio::test]
async fn the_first_admin_token_is_in_the_file_once_and_in_the_catalog_as_a_hash() {
    let hub = Hub::new().await;
    assert!(hub.admit().await.unwrap());
    let token = std::fs::read_to_string(hub.data_dir.admin_token_file()).unwrap().trim().to_owned();
    assert_eq!(
        hub.call(&token, "models/bob/a", "write").await,
        (200, "admin token \"first admin token\" models/bob/a".to_owned())
    );
    let rows = hub.store.hub().tokens().all().await.unwrap();
    assert_eq!((rows.len(), rows[0].rights), (1, Rights::Admin));
    assert!(!format!("{rows:?}").contains(&token));

    // The file may go; a restart makes no second token, also when the first was revoked.
    std::fs::remove_file(hub.data_dir.admin_token_file()).unwrap();
    assert!(!hub.admit().await.unwrap());
    hub.store.hub().tokens().revoke(&rows[0].id, NOW).await.unwrap();
    assert!(!hub.admit().await.unwrap());
    assert!(!hub.data_dir.admin_token_file().exists());
}

#[tokio::test]
async fn a_token_in_the_file_of_a_lost_catalog_is_replaced_and_opens_nothing() {
    let lost = Hub::new().await;
    assert!(lost.admit().await.unwrap());
    let old = std::fs::read_to_string(lost.data_dir.admin_token_file()).unwrap();
    // The same key, another catalog.
    let hub = Hub::new().await;
    std::fs::write(hub.data_dir.admin_token_file(), &old).unwrap();
    assert!(hub.admit().await.unwrap());
    let new = std::fs::read_to_string(hub.data_dir.admin_token_file()).unwrap();
    assert_ne!(new, old);
    assert_eq!(hub.call(old.trim(), "models/ann/a", "read").await.0, 401);
    assert_eq!(hub.call(new.trim(), "models/ann/a", "read").await.0, 200);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(hub.data_dir.admin_token_file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn the_file_goes_with_its_token_and_stays_with_others() {
    let hub = Hub::new().await;
    hub.admit().await.unwrap();
    let first = hub.store.hub().tokens().all().await.unwrap().remove(0);
    let (_, other) = hub.token(Rights::Admin, Bound::Everywhere, None).await;
    assert!(!hub.data_dir.remove_admin_token(&other).unwrap());
    assert!(hub.data_dir.admin_token_file().exists());
    assert!(hub.data_dir.remove_admin_token(&first).unwrap());
    assert!(!hub.data_dir.admin_token_file().exists());
    assert!(!hub.data_dir.remove_admin_token(&first).unwrap());
}

#[tokio::test]
async fn servers_over_one_database_keep_copies_of_a_token_that_is_good() {
    let hub = Hub::new().await;
    let keys = KeyRing::new(Key::new([7; 32]));
    let catalog = Some(Secret::new("postgres://db/hub".to_owned()));
    let config = ServeConfig { catalog, ..ServeConfig::default() };
    assert!(hub.data_dir.bootstrap_admin_token(&config, &keys, &hub.store, NOW).await.unwrap());
    let token = std::fs::read_to_string(hub.data_dir.admin_token_file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [second, third] = ["two", "three"].map(|name| DataDir::new(&folder.path().join(name)));
    assert!(!second.bootstrap_admin_token(&config, &keys, &hub.store, NOW).await.unwrap());
    assert_eq!(std::fs::read_to_string(second.admin_token_file()).unwrap(), token);
    let id = hub.store.hub().tokens().all().await.unwrap().remove(0).id;
    hub.store.hub().tokens().revoke(&id, NOW).await.unwrap();
    assert!(!third.bootstrap_admin_token(&config, &keys, &hub.store, NOW).await.unwrap());
    assert!(!third.admin_token_file().exists(), "it was revoked");
}

#[tokio::test]
async fn each_token_has_its_own_limit_on_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (mut config, keys) = (ServeConfig::default(), KeyRing::new(Key::new([7; 32])));
    config.limits.token_requests_per_s = 1;
    let data_dir = DataDir::new(folder.path());
    let store = data_dir.open(&config, &keys).await.unwrap();
    let state = AppState::new(config, &keys, "127.0.0.1:1".parse().unwrap()).with_store(store.clone());
    let hub = Hub { state, store, now_s: Arc::default(), data_dir, _folder: folder };
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
    assert_eq!(hub.get(&file, personal_token::make().expose()).await.0, 401, "an unknown one is not counted");
}

#[test]
fn metrics_are_for_admins_where_others_reach_the_server() {
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

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, Uri};
use axum::routing::get;
use http_body_util::BodyExt as _;
use testkit::origin::{ORIGIN, add_origin};
use tower::ServiceExt as _;
use tracing_subscriber::fmt::MakeWriter;
use xet::wire::routes::TokenScope;
use xet::wire::{ErrorBody, parse_json};

use super::*;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::Endpoint;

use crate::auth::{Claims, Origin};
use crate::config::{LogFormat, LogLevel, ServeConfig};
use crate::metrics::Metrics;
use crate::secret::{Key, KeyRing};

const NOW: u64 = 1_800_000_000;

fn state() -> AppState {
    let keys = KeyRing::new(Key::new([7; 32]));
    AppState::new(ServeConfig::default(), &keys, bound()).with_clock(Arc::new(|| NOW))
}

/// The same over a store, with the token that [`token`] is issued for.
async fn state_with_store(folder: &std::path::Path) -> AppState {
    let keys = KeyRing::new(Key::new([7; 32]));
    let store = crate::DataDir::new(folder).open(&ServeConfig::default(), &keys).await.unwrap();
    add_origin(store.catalog()).await;
    state().with_store(store)
}

fn bound() -> std::net::SocketAddr {
    "127.0.0.1:8080".parse().unwrap()
}

fn token(state: &AppState, ttl_s: u64) -> String {
    let repo = RepoName { kind: RepoKind::Model, namespace: "org".into(), name: "a".into() };
    let origin = Origin::Token(ORIGIN.to_owned());
    let issued = state.cas_tokens().issue(&Claims::new("ada", origin, TokenScope::Read, repo, NOW, ttl_s));
    issued.token.expose().clone()
}

fn request(method: Method, uri: &str) -> Request {
    Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
}

async fn send(app: Router, request: Request) -> Response<Body> {
    app.oneshot(request).await.unwrap()
}

async fn body_of(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

/// A path that fits a template.
fn filled(template: &str) -> String {
    let zero = "0".repeat(64);
    let path = template.replace("{prefix}", "default");
    ["{file}", "{chunk}", "{xorb}", "{shard}"].iter().fold(path, |path, name| path.replace(name, &zero))
}

#[tokio::test]
async fn every_endpoint_is_routed() {
    for endpoint in Endpoint::ALL {
        for template in endpoint.templates() {
            // A method no route has: 405 where there is a route.
            let response = send(app(state()), request(Method::PATCH, &filled(template))).await;
            assert_eq!(response.status().as_u16(), 405, "{template}");
        }
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id_of_its_own_and_refusals_are_json() {
    let mut ids = HashSet::new();
    for (method, uri, status) in [
        (Method::GET, "/health", 200),
        (Method::GET, "/nothing", 404),
        (Method::GET, "/v1/xorb-grants/default/abc", 404),
        (Method::POST, "/v1/xorb-grants/x", 404),
        (Method::DELETE, "/health", 405),
        (Method::POST, "/v1/telemetry", 401),
        (Method::GET, "/metrics", 404),
    ] {
        let response = send(app(state()), request(method, uri)).await;
        assert_eq!(response.status().as_u16(), status, "{uri}");
        assert!(ids.insert(response.headers()["x-request-id"].clone()));
        if status != 200 {
            assert_eq!(response.headers()["content-type"], "application/json");
            let body: ErrorBody = parse_json(&body_of(response).await).unwrap();
            assert_eq!(body.code.status(), status);
        }
    }
}

#[tokio::test]
async fn health_says_when_the_server_stops() {
    let state = state();
    let response = send(app(state.clone()), request(Method::GET, "/health")).await;
    let body: serde_json::Value = parse_json(&body_of(response).await).unwrap();
    assert_eq!(body["status"], "ok");
    state.health.stop();
    let response = send(app(state), request(Method::GET, "/health")).await;
    assert_eq!(response.status().as_u16(), 503);
    assert!(response.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn telemetry_is_taken_from_those_with_a_token_up_to_a_mebibyte() {
    let folder = tempfile::tempdir().unwrap();
    let state = state_with_store(folder.path()).await;
    let post = |token: &str, body: Vec<u8>| {
        let builder = Request::builder().method(Method::POST).uri("/v1/telemetry");
        builder.header("authorization", format!("Bearer {token}")).body(Body::from(body)).unwrap()
    };
    let good = token(&state, 60);
    let report = |len: usize| {
        let pad = "x".repeat(len);
        format!(
            r#"{{"time":"2026-01-01T00:00:00Z","event":"xet_upload_summary","metrics":{{"pad":"{pad}"}}}}"#
        )
        .into_bytes()
    };
    let empty = report(0).len();
    for (body, status) in [
        (report(0), 200),
        (report((1 << 20) - empty), 200),
        (report((1 << 20) - empty + 1), 413),
        (vec![b'x'; 4 << 20], 413),
        (b"no report".to_vec(), 400),
    ] {
        let len = body.len();
        let response = send(app(state.clone()), post(&good, body)).await;
        assert_eq!(response.status().as_u16(), status, "{len}");
    }
    let expired = token(&state, 0);
    assert_eq!(send(app(state.clone()), post(&expired, report(0))).await.status().as_u16(), 401);
    assert_eq!(send(app(state), post("x", report(0))).await.status().as_u16(), 401);
}

#[tokio::test]
async fn without_auth_no_token_is_needed() {
    let keys = KeyRing::new(Key::new([7; 32]));
    let state = AppState::new(ServeConfig { auth: false, ..ServeConfig::default() }, &keys, bound());
    assert_eq!(state.auth.authorize(Ok(None), TokenScope::Write).await.unwrap(), None);
}

#[tokio::test]
async fn a_panic_is_a_500_that_does_not_say_what_happened() {
    async fn panics() -> &'static str {
        panic!("secret detail")
    }
    let routes = vec![("/panic".to_owned(), get(panics))];
    let app = router::finish(router::build(vec![(Dialect::Cas, routes)], &state()), state());
    let response = send(app.clone(), request(Method::GET, "/panic")).await;
    assert_eq!(response.status().as_u16(), 500);
    assert!(response.headers().contains_key("x-request-id"));
    let body = String::from_utf8(body_of(response).await).unwrap();
    assert!(body.contains("internal") && !body.contains("secret detail"), "{body}");
    assert_eq!(send(app, request(Method::GET, "/health")).await.status().as_u16(), 404, "it still answers");
}

#[tokio::test]
async fn browsers_may_send_requests_from_any_origin() {
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/v2/reconstructions/abc")
        .header("origin", "https://page.example")
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "authorization,range,x-xet-session-id")
        .body(Body::empty())
        .unwrap();
    let response = send(app(state()), preflight).await;
    assert_eq!(response.status().as_u16(), 200);
    let headers = response.headers();
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert!(!headers.contains_key("access-control-allow-credentials"));
    let allowed = headers["access-control-allow-headers"].to_str().unwrap();
    for name in ["authorization", "range", "x-xet-session-id", "x-range-dirty"] {
        assert!(allowed.contains(name), "{name}");
    }

    let mut plain = request(Method::GET, "/health");
    plain.headers_mut().insert("origin", "https://page.example".parse().unwrap());
    let response = send(app(state()), plain).await;
    let exposed = response.headers()["access-control-expose-headers"].to_str().unwrap();
    for name in ["content-range", "x-request-id", "etag", "x-xet-hash"] {
        assert!(exposed.contains(name), "{name}");
    }
}

#[test]
fn metrics_count_requests_by_route_and_never_by_path() {
    let (recorder, metrics) = Metrics::local().unwrap();
    let app = app(state().with_metrics(metrics));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let text = ::metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            send(app.clone(), request(Method::GET, "/health")).await;
            send(app.clone(), request(Method::GET, "/v1/xorb-grants/default/abc")).await;
            send(app.clone(), request(Method::from_bytes(b"BREW").unwrap(), "/no/such/path")).await;
            let response = send(app, request(Method::GET, "/metrics")).await;
            assert_eq!(response.status().as_u16(), 200);
            String::from_utf8(body_of(response).await).unwrap()
        })
    });
    for line in [
        r#"drystone_http_requests_total{method="GET",route="/health",status="200"} 1"#,
        r#"drystone_http_requests_total{method="GET",route="/v1/xorb-grants/{*rest}",status="404"} 1"#,
        r#"drystone_http_requests_total{method="other",route="none",status="404"} 1"#,
        "drystone_http_requests_in_flight 1",
        r#"drystone_memory_budget_bytes{share="uploads"} 335544320"#,
        r#"drystone_memory_budget_bytes{share="answers"} 134217728"#,
        r#"drystone_memory_waiting_requests{share="uploads"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(text.contains("drystone_http_request_seconds_bucket"));
    assert!(!text.contains("abc") && !text.contains("/no/such"), "{text}");
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBuffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[test]
fn logs_name_the_request_and_neither_token_nor_signature() {
    let folder = tempfile::tempdir().unwrap();
    for (n, format) in [LogFormat::Text, LogFormat::Json].into_iter().enumerate() {
        let buffer = LogBuffer::default();
        let subscriber = crate::logs::subscriber(format, LogLevel::Debug, buffer.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let id = tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async {
                let state = state_with_store(&folder.path().join(n.to_string())).await;
                let request = Request::builder()
                    .method(Method::POST)
                    .uri("/v1/telemetry?X-Xet-Signature=secretsignature")
                    .header("authorization", format!("Bearer {}", token(&state, 60)))
                    .header("x-xet-session-id", "0192-session")
                    .body(Body::from("x"))
                    .unwrap();
                send(app(state), request).await.headers()["x-request-id"].to_str().unwrap().to_owned()
            })
        });
        let log = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains(&id) && log.contains("/v1/telemetry") && log.contains("400"), "{log}");
        assert!(log.contains("0192-session"), "{log}");
        assert!(!log.contains("secretsignature") && !log.contains("eyJ") && !log.contains("Bearer"), "{log}");
    }
}

#[tokio::test]
async fn a_data_url_is_the_same_for_a_while_and_opens_what_it_was_made_for() {
    use crate::urls::data_url::{DataKey, Refusal};
    use xet::wire::HttpRange;

    let key = DataKey { xorb: xet::XorbHash::new([1; 32]), digest: [2; 32] };
    let ranges = [HttpRange::new(0, 99).unwrap()];
    let at = |now_s: u64| {
        let keys = KeyRing::new(Key::new([7; 32]));
        AppState::new(ServeConfig::default(), &keys, bound()).with_clock(Arc::new(move || now_s))
    };
    let url = at(NOW).data_url(&key, &ranges).unwrap();
    assert!(url.starts_with("http://127.0.0.1:8080/v1/data/"));
    let urls: HashSet<_> = (0..3600).map(|s| at(NOW + s).data_url(&key, &ranges).unwrap()).collect();
    assert!((8..=9).contains(&urls.len()), "{}", urls.len());

    let uri: Uri = url.parse().unwrap();
    let verify = |now_s, range| at(NOW).signer.verify(uri.path(), uri.query().unwrap(), range, now_s);
    let range = Some("bytes=0-99");
    assert_eq!(verify(NOW + 3599, range).unwrap().key, key);
    assert_eq!(verify(NOW + 2 * 3600, range), Err(Refusal::Expired));
    assert_eq!(verify(NOW, None), Err(Refusal::NoRange));
}

#[tokio::test]
async fn an_address_with_too_many_requests_must_wait() {
    let mut config = ServeConfig::default();
    config.limits.requests_per_s = 1;
    let app = app(AppState::new(config, &KeyRing::new(Key::new([7; 32])), bound()));
    let from = |address: &str, uri: &str| {
        let mut request = request(Method::GET, uri);
        request
            .extensions_mut()
            .insert(axum::extract::ConnectInfo(crate::net::listener::Peer(address.parse().unwrap())));
        send(app.clone(), request)
    };
    for _ in 0..10 {
        assert_eq!(from("10.0.0.1:1", "/x").await.status().as_u16(), 404);
    }
    let refused = from("10.0.0.1:2", "/x").await;
    assert_eq!(refused.status().as_u16(), 429);
    assert!(refused.headers().contains_key("retry-after") && refused.headers().contains_key("x-request-id"));
    assert_eq!(from("10.0.0.1:1", "/health").await.status().as_u16(), 200);
    assert_eq!(from("10.0.0.2:1", "/x").await.status().as_u16(), 404);
}

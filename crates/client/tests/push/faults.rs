//! Pushes through a proxy that misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::cas::Cas;
use client::cas::http::{HttpCas, HttpOptions};
use client::push::{Pushed, push};
use client::retry::RetryPolicy;
use client::token::{Refresh, Token, Tokens};
use client::{ErrorKind, Progress, Result};
use testkit::corpus::noise;
use testkit::proxy::{Fault, Proxy, Way};
use xet::wire::routes::TokenScope;

use crate::hub::{Hub, quick};

async fn push_through(hub: &Hub, proxy: &Proxy, options: HttpOptions) -> Result<Pushed> {
    let data = noise(1, 5 << 20);
    let paths = hub.write(std::slice::from_ref(&data));
    let cas = Arc::new(hub.cas_at(&proxy.url(), options));
    let pushed = push(cas, paths, hub.options(), Progress::default().into()).await?;
    assert!(hub.read(pushed.files[0].hash).await == data);
    Ok(pushed)
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_refused_and_busy_connections_are_tried_again() {
    for fault in [
        Fault::Cut(Way::Up, 700_000),
        Fault::Cut(Way::Down, 20),
        Fault::Refuse,
        Fault::Status(429, 0),
        Fault::Status(500, 0),
        Fault::Status(503, 1),
    ] {
        let hub = Hub::start().await;
        let proxy = Proxy::start(hub.address).await.unwrap();
        // The first connection queries chunks, which may fail; the next two carry what must arrive.
        proxy.plan([fault, fault, fault]);
        let pushed =
            push_through(&hub, &proxy, quick()).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(pushed.new_bytes, 5 << 20, "{fault:?}");
    }
}

/// What was damaged on its way is refused by the server, which says so; the same bytes again will do.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_xorb_is_refused_and_nothing_is_registered() {
    let hub = Hub::start().await;
    let proxy = Proxy::start(hub.address).await.unwrap();
    proxy.plan([Fault::Corrupt(Way::Up, 3_000_000)]);
    let error = push_through(&hub, &proxy, quick()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.request_id().is_some(), "{error}");
    push_through(&hub, &proxy, quick()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_stands_still_is_given_up() {
    let hub = Hub::start().await;
    let proxy = Proxy::start(hub.address).await.unwrap();
    let (stall_timeout, answer_timeout) = (Duration::from_secs(3), Duration::from_secs(20));
    let options = HttpOptions { stall_timeout, answer_timeout, ..quick() };
    proxy.plan([Fault::Stall(Way::Up, 400_000), Fault::Stall(Way::Up, 400_000)]);
    push_through(&hub, &proxy, options).await.unwrap();
    assert!(proxy.connections() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_an_error_that_says_so() {
    let hub = Hub::start().await;
    let proxy = Proxy::start(hub.address).await.unwrap();
    proxy.plan(std::iter::repeat_n(Fault::Status(503, 0), 100));
    let retry = RetryPolicy { attempts_max: 3, wait: Duration::from_millis(1), ..RetryPolicy::default() };
    let error = push_through(&hub, &proxy, HttpOptions { retry, ..quick() }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("503"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_refreshed_once() {
    let hub = Hub::start().await;
    let fetches = Arc::new(AtomicU64::new(0));
    let (good, count) = (hub.token(TokenScope::Write), fetches.clone());
    let refresh: Refresh = Arc::new(move || {
        let token =
            if count.fetch_add(1, Ordering::Relaxed) == 0 { Token::new("stale") } else { good.clone() };
        Box::pin(async move { Ok(token) })
    });
    let tokens = Some(Arc::new(Tokens::refreshed(refresh)));
    let cas = HttpCas::new(&format!("http://{}", hub.address), tokens, quick()).unwrap();
    assert!(cas.dedup(xet::ChunkHash::of(b"x")).await.unwrap().is_none());
    assert!(cas.dedup(xet::ChunkHash::of(b"y")).await.unwrap().is_none());
    assert_eq!(fetches.load(Ordering::Relaxed), 2);

    let wrong = Some(Arc::new(Tokens::fixed(Token::new("wrong"))));
    let cas = HttpCas::new(&format!("http://{}", hub.address), wrong, quick()).unwrap();
    let error = cas.dedup(xet::ChunkHash::of(b"x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_with_little_bandwidth_arrives() {
    let hub = Hub::start().await;
    let proxy = Proxy::start(hub.address).await.unwrap();
    let options = HttpOptions { bandwidth_bytes_per_s: Some(4 << 20), ..quick() };
    push_through(&hub, &proxy, options).await.unwrap();
}

//! Data URLs: the bytes of xorbs, without a token.

use std::future::Future;
use std::io;
use std::ops::Range;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Response, header};
use futures::{StreamExt as _, TryStreamExt as _};
use store::{Digest, ObjectKey, Store, XorbKey};
use xet::wire::ErrorCode;

use crate::budget::Budget;
use crate::http::body::Pieces;
use crate::http::error::ApiError;
use crate::http::ranges;
use crate::state::AppState;
use crate::urls::data_url::DataKey;

/// An object that was found, and how to read it.
pub(crate) struct FoundObject<O> {
    /// How long it is.
    pub total_bytes: u64,
    /// Opens a range of it. The caller accounts for the memory of the bytes.
    pub open: O,
}

impl<O> std::fmt::Debug for FoundObject<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundObject").field("total_bytes", &self.total_bytes).finish_non_exhaustive()
    }
}

/// Bytes of an answer that are in memory at a time: one piece being read, one being sent.
const ANSWER_BYTES: u64 = 1 << 20;

/// Answers a request on a data URL from the store's objects.
pub(crate) async fn serve(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (parts, _) = request.into_parts();
    let store = state.store.clone().ok_or_else(ApiError::no_store)?;
    answer(&state, &parts, |key| find(store, state.answers.clone(), key)).await
}

async fn find(
    store: Store,
    budget: Budget,
    key: DataKey,
) -> Result<Option<FoundObject<impl FnMut(Range<u64>) -> Pieces + Send + 'static>>, ApiError> {
    let key = XorbKey { hash: key.xorb, digest: Digest::new(key.digest) };
    let permit = budget.acquire(ANSWER_BYTES).await?;
    let Some(reader) = store.objects().reader(&ObjectKey::Xorb(key)).await? else { return Ok(None) };
    let total_bytes = reader.total_bytes();
    let open = move |range: Range<u64>| {
        // Held for as long as the body may open ranges.
        let _permit = &permit;
        let bytes = range.end.saturating_sub(range.start);
        metrics::counter!("drystone_sent_bytes_total").increment(bytes);
        reader.stream(range).map_err(broken).boxed()
    };
    Ok(Some(FoundObject { total_bytes, open }))
}

/// The answer has begun and can only break off; the log says why.
fn broken(error: store::Error) -> io::Error {
    tracing::error!(%error, "a data answer broke off");
    io::Error::other(error)
}

/// Answers a request on a data URL with what `find` finds. Nothing is looked for before the URL is known to be good.
pub(crate) async fn answer<F, Finding, O>(
    state: &AppState,
    request: &Parts,
    find: F,
) -> Result<Response<Body>, ApiError>
where
    F: FnOnce(DataKey) -> Finding,
    Finding: Future<Output = Result<Option<FoundObject<O>>, ApiError>>,
    O: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    let range = request.headers.get(header::RANGE).map(|value| value.to_str().unwrap_or_default());
    let query = request.uri.query().unwrap_or_default();
    let grant = state.signer.verify(request.uri.path(), query, range, state.now_s())?;
    // It was there when the URL was signed. To ask for the reconstruction again is what helps, and what 403 tells
    // clients to do; 404 would end the download, also where the file is now made of other objects.
    let gone = || ApiError::new(ErrorCode::UrlExpired, "the object is not here any more");
    let found = find(grant.key).await?.ok_or_else(gone)?;
    let representation = ranges::xorb(&grant, found.total_bytes, state.now_s());
    let mut response =
        ranges::answer_granted(&request.method, &request.headers, &representation, &grant, found.open);
    // Whatever a xorb holds, a browser must not take it for a page of this site.
    let nosniff = header::HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use axum::extract::{Request, State};
    use axum::routing::get;
    use axum::{Extension, Router};
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    use xet::XorbHash;
    use xet::wire::multipart::{Boundary, parse};
    use xet::wire::{ErrorBody, HttpRange, parse_json};

    use super::*;
    use crate::config::ServeConfig;
    use crate::http::error::Dialect;
    use crate::http::router;
    use crate::secret::{Key, KeyRing};
    use crate::urls::data_url::DATA_ROUTE;

    const NOW: u64 = 1_800_000_000;
    const KEY: DataKey = DataKey { xorb: XorbHash::new([1; 32]), digest: [2; 32] };

    fn object() -> Bytes {
        (0..1000_u32).map(|i| (i % 251) as u8).collect()
    }

    /// A hub that has one object and counts who looks for it.
    struct Hub {
        app: Router,
        state: AppState,
        now_s: Arc<AtomicU64>,
        lookups: Arc<AtomicUsize>,
    }

    async fn handler(
        State(state): State<AppState>,
        Extension(lookups): Extension<Arc<AtomicUsize>>,
        request: Request,
    ) -> Result<Response<Body>, ApiError> {
        let (parts, _) = request.into_parts();
        let find = |key| async move {
            lookups.fetch_add(1, Ordering::SeqCst);
            let open = |range: Range<u64>| {
                let bytes = object().slice(range.start as usize..range.end as usize);
                stream::iter([Ok(bytes)]).boxed()
            };
            Ok((key == KEY).then_some(FoundObject { total_bytes: 1000, open }))
        };
        answer(&state, &parts, find).await
    }

    fn hub() -> Hub {
        let now_s = Arc::new(AtomicU64::new(NOW));
        let clock = Arc::clone(&now_s);
        let bound = "127.0.0.1:8080".parse().unwrap();
        let state = AppState::new(ServeConfig::default(), &KeyRing::new(Key::new([7; 32])), bound)
            .with_clock(Arc::new(move || clock.load(Ordering::SeqCst)));
        let lookups = Arc::new(AtomicUsize::new(0));
        let handler = get(handler).layer(Extension(Arc::clone(&lookups)));
        let routes = vec![(DATA_ROUTE.to_owned(), handler)];
        let app = router::finish(router::build(vec![(Dialect::Cas, routes)], &state), state.clone());
        Hub { app, state, now_s, lookups }
    }

    impl Hub {
        fn url(&self, key: &DataKey) -> String {
            let ranges =
                [(0, 99), (100, 199), (500, 599)].map(|(first, last)| HttpRange::new(first, last).unwrap());
            self.state.data_url(key, &ranges).unwrap()
        }

        async fn send(&self, url: &str, range: &str) -> (u16, header::HeaderMap, Vec<u8>) {
            let request = Request::builder().uri(url).header("range", range).body(Body::empty()).unwrap();
            let (head, body) = self.app.clone().oneshot(request).await.unwrap().into_parts();
            (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes().to_vec())
        }
    }

    #[tokio::test]
    async fn a_signed_url_gives_its_ranges_one_by_one_and_together() {
        let hub = hub();
        let url = hub.url(&KEY);
        let (status, headers, body) = hub.send(&url, "bytes=100-199").await;
        assert_eq!((status, body.as_slice()), (206, &object()[100..200]));
        assert_eq!(headers["content-range"], "bytes 100-199/1000");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(headers["cache-control"].to_str().unwrap().starts_with("public, immutable, max-age="));

        let (status, headers, body) = hub.send(&url, "bytes=0-99,500-599").await;
        let boundary = Boundary::of_content_type(headers["content-type"].to_str().unwrap()).unwrap();
        let parts = parse(&body, &boundary, 2).unwrap();
        assert_eq!((status, parts[0].bytes, parts[1].bytes), (206, &object()[..100], &object()[500..600]));
    }

    #[tokio::test]
    async fn whatever_is_wrong_with_a_url_is_a_403_before_anyone_looks() {
        let hub = hub();
        let url = hub.url(&KEY);
        let forged = url.replace("500-599", "500-999");
        for (url, range, code) in [
            (url.as_str(), "bytes=0-999", "url_expired"),
            (url.as_str(), "bytes=0-", "url_expired"),
            (forged.as_str(), "bytes=500-999", "forbidden"),
            (&url[..url.len() - 5], "bytes=0-99", "forbidden"),
            (url.split_once('?').unwrap().0, "bytes=0-99", "forbidden"),
        ] {
            let (status, _, body) = hub.send(url, range).await;
            let body: ErrorBody = parse_json(&body).unwrap();
            assert_eq!((status, body.code.as_str()), (403, code), "{url}");
        }
        hub.now_s.store(NOW + 2 * 3600, Ordering::SeqCst);
        let (status, _, body) = hub.send(&url, "bytes=0-99").await;
        assert_eq!((status, parse_json::<ErrorBody>(&body).unwrap().code), (403, ErrorCode::UrlExpired));
        assert_eq!(hub.lookups.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn an_object_that_is_gone_makes_the_client_request_a_new_url() {
        let hub = hub();
        let other = DataKey { digest: [3; 32], ..KEY };
        let (status, _, body) = hub.send(&hub.url(&other), "bytes=0-99").await;
        assert_eq!((status, parse_json::<ErrorBody>(&body).unwrap().code), (403, ErrorCode::UrlExpired));
        assert_eq!(hub.lookups.load(Ordering::SeqCst), 1);
    }
}

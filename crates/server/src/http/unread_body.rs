//! Bodies that handlers leave unread: the rest is read and dropped, so that the client receives the response.
//!
//! A connection that is closed with unread bytes is reset, and a reset takes with it what the client has not read yet:
//! the refusal of an upload would look like a broken network, and be tried again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};

use crate::state::AppState;

/// A request whose body handlers may leave unread.
pub(crate) fn drain_unread_body(state: &AppState, request: Request) -> Request {
    // A client that expects `100 Continue` has not sent the body.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return request;
    }
    let limits = &state.config.limits;
    let bytes_max = limits.xorb_body_bytes_max.max(limits.shard_body_bytes_max);
    let time_max = state.body_timeout();
    request.map(|body: Body| {
        let unread = Some(body.into_data_stream());
        Body::from_stream(DrainOnDrop { unread, bytes_max, time_max })
    })
}

/// A body that is read to its end when it is dropped before.
struct DrainOnDrop {
    /// `None` after its end.
    unread: Option<BodyDataStream>,
    /// Most bytes to drain: more than any body that would be accepted.
    bytes_max: u64,
    /// Longest time to drain.
    time_max: Duration,
}

impl Stream for DrainOnDrop {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(unread) = &mut self.unread else { return Poll::Ready(None) };
        let piece = ready!(unread.poll_next_unpin(context));
        if !matches!(piece, Some(Ok(_))) {
            self.unread = None;
        }
        Poll::Ready(piece)
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let (Some(unread), Ok(runtime)) = (self.unread.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (bytes_max, time_max) = (self.bytes_max, self.time_max);
        runtime.spawn(async move {
            // Either end is good: the client has received the response, or has gone.
            let _ = tokio::time::timeout(time_max, drain(unread, bytes_max)).await;
        });
    }
}

async fn drain(mut unread: BodyDataStream, bytes_max: u64) {
    let mut left = bytes_max;
    while let Some(Ok(piece)) = unread.next().await {
        let Some(rest) = left.checked_sub(piece.len() as u64) else { return };
        left = rest;
    }
}

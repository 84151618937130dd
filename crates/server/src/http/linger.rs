//! Lingering: what a client still sends when its answer is ready is read and thrown away, so that it hears the answer.
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
pub(super) fn lingering(state: &AppState, request: Request) -> Request {
    // Whoever waits to be asked for the body has not sent it.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return request;
    }
    let limits = &state.config.limits;
    let bytes_max = limits.xorb_body_bytes_max.max(limits.shard_body_bytes_max);
    let time_max = state.body_timeout();
    request.map(|body: Body| {
        let unread = Some(body.into_data_stream());
        Body::from_stream(Lingering { unread, bytes_max, time_max })
    })
}

/// A body that is read to its end when it is dropped before.
struct Lingering {
    /// `None` after its end.
    unread: Option<BodyDataStream>,
    /// What is thrown away at most: more than any body that would be taken in.
    bytes_max: u64,
    /// For how long at most.
    time_max: Duration,
}

impl Stream for Lingering {
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

impl Drop for Lingering {
    fn drop(&mut self) {
        let (Some(unread), Ok(runtime)) = (self.unread.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (bytes_max, time_max) = (self.bytes_max, self.time_max);
        runtime.spawn(async move {
            // Either end is good: the client has heard the answer, or it does not want to.
            let _ = tokio::time::timeout(time_max, throw_away(unread, bytes_max)).await;
        });
    }
}

async fn throw_away(mut unread: BodyDataStream, bytes_max: u64) {
    let mut left = bytes_max;
    while let Some(Ok(piece)) = unread.next().await {
        let Some(rest) = left.checked_sub(piece.len() as u64) else { return };
        left = rest;
    }
}

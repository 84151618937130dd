//! HTTP bodies in transfer: counted, limited to the configured bandwidth, and aborted when they stall.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use reqwest::{Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::HttpOptions;
use super::answer::broken;
use crate::budget::Bandwidth;
use crate::error::{Error, ErrorKind, Result};

/// A body to send, as often as need be.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    pieces: Vec<Bytes>,
    bytes: u64,
}

impl Pieces {
    pub(super) fn new(pieces: Vec<Bytes>) -> Self {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, bytes }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The body once more, from its start. `watch` sees what was taken.
    pub(super) fn stream(
        &self,
        watch: Watch,
        bandwidth: Option<Arc<Bandwidth>>,
    ) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
        // Short enough that progress is seen and bandwidth is even.
        let cut = |mut piece: Bytes| {
            std::iter::from_fn(move || {
                (!piece.is_empty()).then(|| piece.split_to(piece.len().min(PIECE_BYTES_MAX)))
            })
        };
        stream::iter(self.pieces.clone().into_iter().flat_map(cut)).then(move |piece| {
            let (watch, bandwidth) = (watch.clone(), bandwidth.clone());
            async move {
                if let Some(bandwidth) = bandwidth {
                    bandwidth.pass(piece.len() as u64).await;
                }
                watch.moved.fetch_add(piece.len() as u64, Ordering::Relaxed);
                Ok(piece)
            }
        })
    }
}

/// Sees how much of a body was taken.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    moved: Arc<AtomicU64>,
    total: u64,
}

impl Watch {
    pub(super) fn new(total: u64) -> Self {
        Self { moved: Arc::default(), total }
    }

    /// Returns when the body stands still, or when all of it was taken and no answer came.
    pub(super) async fn stalled(&self, window: Duration, floor_bytes: u64, answer_timeout: Duration) {
        loop {
            let before = self.moved.load(Ordering::Relaxed);
            if before >= self.total {
                return tokio::time::sleep(answer_timeout).await;
            }
            tokio::time::sleep(window).await;
            let after = self.moved.load(Ordering::Relaxed);
            if after < self.total && after - before < floor_bytes.max(1) {
                return;
            }
        }
    }
}

/// The body of an answer to a request for these bytes: exactly those, or an error.
pub(super) fn received(
    what: String,
    answer: Response,
    requested: Range<u64>,
    options: &HttpOptions,
    bandwidth: Option<Arc<Bandwidth>>,
    connection: OwnedSemaphorePermit,
) -> BoxStream<'static, Result<Bytes>> {
    // A server that does not heed ranges sends everything; then what comes before is passed over.
    let skip = if answer.status() == StatusCode::PARTIAL_CONTENT { 0 } else { skipped(&answer, &requested) };
    let state = ReceivedBody {
        what,
        pieces: answer.bytes_stream().boxed(),
        skip,
        left: requested.end - requested.start,
        window: options.stall_timeout,
        floor_bytes: options.floor_bytes,
        window_end: Instant::now() + options.stall_timeout,
        window_bytes: 0,
        bandwidth,
        _connection: connection,
    };
    stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        match state.next().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(state))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

fn skipped(answer: &Response, requested: &Range<u64>) -> u64 {
    // Some answer a range with 200 and the range alone.
    if answer.content_length() == Some(requested.end - requested.start) { 0 } else { requested.start }
}

struct ReceivedBody {
    what: String,
    pieces: BoxStream<'static, reqwest::Result<Bytes>>,
    skip: u64,
    left: u64,
    window: Duration,
    floor_bytes: u64,
    window_end: Instant,
    window_bytes: u64,
    bandwidth: Option<Arc<Bandwidth>>,
    _connection: OwnedSemaphorePermit,
}

impl ReceivedBody {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.left > 0 {
            let what = &self.what;
            let away = |text: &str| Error::new(ErrorKind::Unavailable, format!("{what}: {text}"));
            let piece = tokio::time::timeout(self.window, self.pieces.next()).await;
            let piece = piece.map_err(|_| away("no bytes came"))?;
            let mut piece = match piece {
                Some(piece) => piece.map_err(|source| broken(what, &source.without_url()))?,
                None => return Err(away(&format!("ended {} bytes early", self.left))),
            };
            self.window_bytes += piece.len() as u64;
            let now = Instant::now();
            if now >= self.window_end {
                if self.window_bytes < self.floor_bytes {
                    return Err(away("too slow"));
                }
                (self.window_end, self.window_bytes) = (now + self.window, 0);
            }
            if let Some(bandwidth) = &self.bandwidth {
                bandwidth.pass(piece.len() as u64).await;
            }
            let skip = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
            self.skip -= piece.split_to(skip).len() as u64;
            piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            if !piece.is_empty() {
                self.left -= piece.len() as u64;
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

const PIECE_BYTES_MAX: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_waits_for_the_bandwidth_it_may_have() {
        let pieces = Pieces::new(vec![Bytes::from_static(b"some bytes")]);
        let watch = Watch::new(pieces.bytes());
        let free = pin!(pieces.stream(watch.clone(), None)).next().await;
        assert_eq!(free.unwrap().unwrap(), "some bytes");
        // A thousand seconds are taken already.
        let taken = Arc::new(Bandwidth::new(1));
        taken.pass(1000).await;
        let mut held = pin!(pieces.stream(watch, Some(taken)));
        assert!(held.next().now_or_never().is_none());
    }
}

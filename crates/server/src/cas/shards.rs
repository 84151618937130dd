//! `POST` of shards: one answer in version 1, frames in version 2.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures::stream::{self, Stream};
use store::content::{Progress, Registered};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use xet::wire::routes::{TokenScope, content_type};
use xet::wire::shards::{ShardResult, Stage};
use xet::wire::{ErrorCode, Frame, ShardUploaded};

use crate::cas::caller::Caller;
use crate::http::error::ApiError;
use crate::http::{json, upload};
use crate::state::{AppState, StreamTiming};

/// Registers a shard and says what became of it.
pub(crate) async fn receive_v1(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let work = begin(&state, request).await?;
    let registered = ended(work.registering.await)?;
    Ok(json(&ShardUploaded { result: result_of(registered) }))
}

/// Registers a shard and reports its progress. What ends soon and badly is a plain refusal: its status says more than a
/// frame could.
pub(crate) async fn receive_v2(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let mut work = begin(&state, request).await?;
    let soon = tokio::time::timeout(state.stream_timing.patience, &mut work.registering).await;
    let frames = match soon {
        Ok(joined) => {
            let result = Some(result_of(ended(joined)?));
            let frames =
                [work.frame(), Frame::Committing { stage: Stage::Syncing }, Frame::Result { result }];
            Body::from(frames.iter().flat_map(Frame::encode).collect::<Vec<u8>>())
        }
        Err(_) => Body::from_stream(frames(work, state.stream_timing)),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type::NDJSON)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, frames).into_response())
}

/// A registration under way. It goes on when the client has left: asking again then finds it done.
struct Work {
    registering: JoinHandle<store::Result<Registered>>,
    progress: Arc<Progress>,
}

impl Work {
    fn frame(&self) -> Frame {
        let (verified, total) = self.progress.terms();
        match verified == total && total > 0 {
            true => Frame::Committing { stage: Stage::Uploading },
            false => Frame::Validating { verified, total },
        }
    }
}

/// Reads the shard, which must be here as a whole before an answer may begin, and starts to register it.
async fn begin(state: &AppState, request: Request) -> Result<Work, ApiError> {
    let (parts, body) = request.into_parts();
    let Caller { store, grant } = Caller::check(state, &parts.headers, TokenScope::Write).await?;
    state.require_disk_space(upload::announced_len(&parts.headers).unwrap_or(0))?;
    let bounds = upload::Bounds {
        bytes_max: state.config.limits.shard_body_bytes_max,
        // The body, what the store makes of it: four times as much by its own account.
        memory_factor: 5,
        held_bytes_max: u64::MAX,
        silence: state.body_timeout(),
    };
    let upload = upload::read(&parts.headers, body, &state.budget, bounds).await?;
    let progress = Arc::new(Progress::default());
    let registering = tokio::spawn({
        let progress = progress.clone();
        async move {
            let _permit = upload.permit;
            let pieces = stream::iter(upload.pieces.into_iter().map(Ok));
            store.content().register(&grant, Some(upload.len_bytes), pieces, &progress).await
        }
    });
    Ok(Work { registering, progress })
}

/// One frame when something changed, the last one again when nothing did for long, and one for the end.
fn frames(work: Work, timing: StreamTiming) -> impl Stream<Item = std::io::Result<Bytes>> {
    let state = Some((work, None::<Frame>, Instant::now()));
    stream::unfold(state, move |state| async move {
        let (mut work, mut last, mut last_frame_at) = state?;
        loop {
            let frame = work.frame();
            if last.as_ref() != Some(&frame) || last_frame_at.elapsed() >= timing.heartbeat {
                (last, last_frame_at) = (Some(frame.clone()), Instant::now());
                return Some((Ok(frame.encode().into()), Some((work, last, last_frame_at))));
            }
            if let Ok(joined) = tokio::time::timeout(timing.step, &mut work.registering).await {
                return Some((Ok(terminal(ended(joined)).encode().into()), None));
            }
        }
    })
}

fn terminal(ended: Result<Registered, ApiError>) -> Frame {
    match ended {
        Ok(registered) => Frame::Result { result: Some(result_of(registered)) },
        Err(refused) => Frame::Error {
            message: refused.message().to_owned(),
            retryable: xet::wire::code::is_retryable(refused.code().status()),
        },
    }
}

fn ended(joined: Result<store::Result<Registered>, tokio::task::JoinError>) -> Result<Registered, ApiError> {
    let registered = joined.map_err(|error| {
        tracing::error!(%error, "registering a shard");
        ApiError::new(ErrorCode::Internal, "the server failed; its log has more under this request id")
    })??;
    metrics::counter!("drystone_files_registered_total").increment(registered.files);
    Ok(registered)
}

fn result_of(registered: Registered) -> ShardResult {
    match registered.was_inserted {
        true => ShardResult::Registered,
        false => ShardResult::Exists,
    }
}

//! Large bodies: read whole or piece by piece, within the memory budget, and not slower than a client may be.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use store::content::BodyError;
use xet::wire::ErrorCode;

use crate::budget::{Budget, Permit};
use crate::http::error::ApiError;

/// A body that has arrived, and the permit for holding it: keep them together.
#[derive(Debug)]
pub(crate) struct Upload {
    /// The bytes, in the pieces they came in.
    pub pieces: Vec<Bytes>,
    /// How many they are.
    pub len_bytes: u64,
    /// What they are counted against.
    pub permit: Permit,
}

impl Upload {
    /// The bytes in one piece. Copies unless they came in one, so the permit should be for twice their number.
    pub(crate) fn into_contiguous(self) -> (Bytes, Permit) {
        let bytes = match <[Bytes; 1]>::try_from(self.pieces) {
            Ok([only]) => only,
            Err(pieces) => pieces.concat().into(),
        };
        (bytes, self.permit)
    }
}

/// Bounds of one upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The longest body.
    pub bytes_max: u64,
    /// What holding and handling a body costs, as a multiple of its length.
    pub memory_factor: u64,
    /// The most that handling a body holds, however long it is.
    pub held_bytes_max: u64,
    /// How long the client may send nothing.
    pub silence: Duration,
}

/// A body on its way, and the permit for holding all of it.
pub(crate) struct Arriving {
    /// How long the client says it is.
    pub announced_bytes: Option<u64>,
    /// The bytes. A refusal ends them, as the cause of whatever fails for want of them.
    pub pieces: BoxStream<'static, Result<Bytes, BodyError>>,
    /// What they are counted against.
    pub permit: Permit,
}

impl std::fmt::Debug for Arriving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arriving").field("announced_bytes", &self.announced_bytes).finish_non_exhaustive()
    }
}

/// Begins to read a body whose reader works while it arrives. Waits for memory like [`read`].
pub(crate) async fn arriving(
    headers: &HeaderMap,
    body: Body,
    budget: &Budget,
    bounds: Bounds,
) -> Result<Arriving, ApiError> {
    let announced_bytes = announced_len(headers);
    let permit = reserve(announced_bytes, budget, bounds).await?;
    let pieces = pieces(body, announced_bytes, bounds);
    Ok(Arriving { announced_bytes, pieces, permit })
}

/// A body of a known length whose reader holds little of it at a time, and has taken the memory for that itself.
pub(crate) fn flowing(
    headers: &HeaderMap,
    body: Body,
    bytes_max: u64,
    silence: Duration,
) -> BoxStream<'static, Result<Bytes, BodyError>> {
    let bounds = Bounds { bytes_max, memory_factor: 1, held_bytes_max: bytes_max, silence };
    pieces(body, announced_len(headers), bounds)
}

fn pieces(
    body: Body,
    announced_bytes: Option<u64>,
    bounds: Bounds,
) -> BoxStream<'static, Result<Bytes, BodyError>> {
    let left = announced_bytes.unwrap_or(bounds.bytes_max);
    let pieces = stream::try_unfold((body, left), move |(mut body, left)| async move {
        let Some(piece) = next(&mut body, bounds).await? else {
            // A client that announces more than it sends was cut off.
            let is_short = announced_bytes.is_some() && left > 0;
            return if is_short { Err(too_short().into()) } else { Ok::<_, BodyError>(None) };
        };
        let left = left.checked_sub(piece.len() as u64).ok_or_else(|| too_large(bounds))?;
        Ok(Some((piece, (body, left))))
    });
    pieces.boxed()
}

/// Takes the memory for a body before its first byte is read. Who does not say how much comes may send the most.
async fn reserve(announced: Option<u64>, budget: &Budget, bounds: Bounds) -> Result<Permit, ApiError> {
    if announced.is_some_and(|len| len > bounds.bytes_max) {
        return Err(too_large(bounds));
    }
    let len = announced.unwrap_or(bounds.bytes_max);
    // A body that fits must not be refused for what handling it costs: then it has all there is, alone.
    let needed = len.saturating_mul(bounds.memory_factor).min(bounds.held_bytes_max);
    let needed = needed.min(budget.usage().total_bytes.max(len));
    Ok(budget.acquire(needed).await?)
}

/// The next piece of a body, if it comes in time.
async fn next(body: &mut Body, bounds: Bounds) -> Result<Option<Bytes>, ApiError> {
    loop {
        let frame = tokio::time::timeout(bounds.silence, body.frame()).await;
        let frame = frame.map_err(|_| ApiError::new(ErrorCode::Timeout, "the body stopped coming"))?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|_| ApiError::new(ErrorCode::Invalid, "the body broke off"))?;
        if let Ok(piece) = frame.into_data() {
            // Counted here, where also what has no announced length passes.
            metrics::counter!("drystone_received_bytes_total").increment(piece.len() as u64);
            return Ok(Some(piece));
        }
    }
}

fn too_large(bounds: Bounds) -> ApiError {
    ApiError::new(
        ErrorCode::TooLarge,
        format!("the body is longer than announced or than {} bytes", bounds.bytes_max),
    )
}

fn too_short() -> ApiError {
    ApiError::new(ErrorCode::Invalid, "the body is shorter than announced")
}

/// Reads a body. Waits for memory before the first byte is read, so that a busy server slows its clients down.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    budget: &Budget,
    bounds: Bounds,
) -> Result<Upload, ApiError> {
    let announced = announced_len(headers);
    let mut permit = reserve(announced, budget, bounds).await?;
    let reserved = announced.unwrap_or(bounds.bytes_max);
    let (mut pieces, mut len_bytes) = (Vec::new(), 0_u64);
    let mut body = body;
    while let Some(piece) = next(&mut body, bounds).await? {
        len_bytes = len_bytes.saturating_add(piece.len() as u64);
        if len_bytes > reserved {
            return Err(too_large(bounds));
        }
        push(&mut pieces, piece);
    }
    if announced.is_some_and(|len| len != len_bytes) {
        return Err(too_short());
    }
    permit.shrink_to(len_bytes.saturating_mul(bounds.memory_factor));
    Ok(Upload { pieces, len_bytes, permit })
}

/// Keeps a piece. A client that sends single bytes would make each cost far more than a byte: small ones are joined.
fn push(pieces: &mut Vec<Bytes>, piece: Bytes) {
    match pieces.pop_if(|last| last.len() + piece.len() <= JOIN_BYTES) {
        Some(last) => {
            // The last piece is ours alone from the second byte on, so this grows in place.
            let mut joined = last.try_into_mut().unwrap_or_else(|last| {
                let mut own = bytes::BytesMut::with_capacity(JOIN_BYTES);
                own.extend_from_slice(&last);
                own
            });
            joined.extend_from_slice(&piece);
            pieces.push(joined.freeze());
        }
        None => pieces.push(piece),
    }
}

/// A whole body of at most `bytes_max`. For small ones: large bodies take a permit of the memory budget first.
pub(crate) async fn read_small_body(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut body = Limited::new(body, bytes_max);
    let mut bytes = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(SMALL_BODY_SILENCE, body.frame()).await;
        let frame = frame.map_err(|_| ApiError::new(ErrorCode::Timeout, "the body stopped coming"))?;
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::new(ErrorCode::TooLarge, format!("the body is longer than {bytes_max} bytes"))
            } else {
                ApiError::new(ErrorCode::Invalid, "the body broke off")
            }
        })?;
        if let Ok(piece) = frame.into_data() {
            bytes.extend_from_slice(&piece);
        }
    }
}

/// How long a client may send nothing in the middle of a small body.
const SMALL_BODY_SILENCE: Duration = Duration::from_secs(30);

pub(crate) fn announced_len(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Pieces are joined up to this length.
const JOIN_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};

    use super::*;

    fn bounds(bytes_max: u64) -> Bounds {
        Bounds { bytes_max, memory_factor: 2, held_bytes_max: u64::MAX, silence: Duration::from_millis(100) }
    }

    fn budget() -> Budget {
        Budget::new(1 << 20, 4)
    }

    fn headers(len: Option<u64>) -> HeaderMap {
        len.map(|len| (header::CONTENT_LENGTH, len.into())).into_iter().collect()
    }

    /// A body that comes in pieces of a size.
    fn body(len: usize, piece: usize) -> Body {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let pieces: Vec<_> =
            data.chunks(piece).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_arrives_whole_whatever_its_pieces() {
        for (len, piece) in [(0, 1), (1, 1), (10_000, 1), (100_000, 3000), (100_000, 100_000)] {
            let budget = budget();
            let upload =
                read(&headers(Some(len as u64)), body(len, piece), &budget, bounds(100_000)).await.unwrap();
            assert_eq!(upload.len_bytes, len as u64);
            assert!(upload.pieces.len() <= len / 2000 + 1, "{} pieces", upload.pieces.len());
            assert_eq!(budget.usage().in_use_bytes, (2 * len as u64).next_multiple_of(4096));
            let (bytes, permit) = upload.into_contiguous();
            assert_eq!(bytes, (0..len).map(|i| i as u8).collect::<Vec<_>>());
            drop(permit);
            assert_eq!(budget.usage().in_use_bytes, 0);
        }
    }

    #[tokio::test]
    async fn a_body_without_a_length_is_counted_as_the_longest_until_it_is_here() {
        let budget = budget();
        let upload = read(&headers(None), body(5000, 100), &budget, bounds(100_000)).await.unwrap();
        assert_eq!((upload.len_bytes, budget.usage().in_use_bytes), (5000, 12_288));
    }

    #[tokio::test]
    async fn bodies_that_are_too_long_or_not_as_announced_are_refused() {
        let cases = [
            (Some(101), 101, 413),
            (Some(u64::MAX), 1, 413),
            (None, 101, 413),
            (Some(50), 51, 413),
            (Some(50), 49, 400),
        ];
        for (announced, len, status) in cases {
            let budget = budget();
            let refused = read(&headers(announced), body(len, 10), &budget, bounds(100)).await.unwrap_err();
            assert_eq!(refused.code().status(), status, "{announced:?} {len}");
            assert_eq!(budget.usage().in_use_bytes, 0);
        }
    }

    #[tokio::test]
    async fn a_body_that_stops_coming_is_a_408_and_a_broken_one_a_400() {
        let budget = budget();
        let begun = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"abc"))]).chain(stream::pending());
        let refused =
            read(&headers(Some(9)), Body::from_stream(begun), &budget, bounds(100)).await.unwrap_err();
        assert_eq!(refused.code().status(), 408);
        let broken = stream::iter([Ok(Bytes::from_static(b"abc")), Err(std::io::Error::other("gone"))]);
        let refused =
            read(&headers(Some(9)), Body::from_stream(broken), &budget, bounds(100)).await.unwrap_err();
        assert_eq!(refused.code().status(), 400);
        assert_eq!(budget.usage().in_use_bytes, 0);
    }

    #[tokio::test]
    async fn uploads_wait_for_memory_and_impossible_ones_do_not() {
        let budget = budget();
        let held = budget.try_acquire(1 << 20).unwrap();
        let (headers, long) = (headers(Some(5000)), headers(Some((1 << 20) + 1)));
        let waits = read(&headers, body(5000, 100), &budget, bounds(1 << 20));
        let mut waits = Box::pin(waits);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut waits).await.is_err());
        let refused = read(&long, body((1 << 20) + 1, 4096), &budget, bounds(1 << 21)).await.unwrap_err();
        assert_eq!(refused.code().status(), 413);
        drop(held);
        assert_eq!(waits.await.unwrap().len_bytes, 5000);
    }
}

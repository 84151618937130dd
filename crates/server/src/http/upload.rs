//! Large bodies: read whole, within the memory budget, and not slower than a client may be.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use xet::wire::ErrorCode;

use super::error::Refused;
use crate::budget::{Budget, Permit};

/// A body that has arrived, and the permit for holding it: keep them together.
#[derive(Debug)]
pub struct Upload {
    /// The bytes, in the pieces they came in.
    pub pieces: Vec<Bytes>,
    /// How many they are.
    pub len_bytes: u64,
    /// What they are counted against.
    pub permit: Permit,
}

impl Upload {
    /// The bytes in one piece. Copies unless they came in one, so the permit should be for twice their number.
    pub fn into_contiguous(self) -> (Bytes, Permit) {
        let bytes = match <[Bytes; 1]>::try_from(self.pieces) {
            Ok([only]) => only,
            Err(pieces) => pieces.concat().into(),
        };
        (bytes, self.permit)
    }
}

/// Bounds of one upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The longest body.
    pub bytes_max: u64,
    /// What holding and handling a body costs, as a multiple of its length.
    pub memory_factor: u64,
    /// How long the client may send nothing.
    pub silence: Duration,
}

/// Reads a body. Waits for memory before the first byte is read, so that a busy server slows its clients down.
pub async fn read(
    headers: &HeaderMap,
    body: Body,
    budget: &Budget,
    bounds: Bounds,
) -> Result<Upload, Refused> {
    let too_large =
        || Refused::new(ErrorCode::TooLarge, format!("the body is longer than {} bytes", bounds.bytes_max));
    let announced = announced_len(headers);
    if announced.is_some_and(|len| len > bounds.bytes_max) {
        return Err(too_large());
    }
    // Who does not say how much comes may send the most.
    let reserved = announced.unwrap_or(bounds.bytes_max);
    let mut permit = budget.acquire(reserved.saturating_mul(bounds.memory_factor)).await?;
    let (mut pieces, mut len_bytes) = (Vec::new(), 0_u64);
    let mut body = body;
    loop {
        let frame = tokio::time::timeout(bounds.silence, body.frame()).await;
        let frame = frame.map_err(|_| Refused::new(ErrorCode::Timeout, "the body stopped coming"))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refused::new(ErrorCode::Invalid, "the body broke off"))?;
        let Ok(piece) = frame.into_data() else { continue };
        len_bytes = len_bytes.saturating_add(piece.len() as u64);
        if len_bytes > reserved {
            return Err(too_large());
        }
        push(&mut pieces, piece);
    }
    if announced.is_some_and(|len| len != len_bytes) {
        return Err(Refused::new(ErrorCode::Invalid, "the body is shorter than announced"));
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

fn announced_len(headers: &HeaderMap) -> Option<u64> {
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
        Bounds { bytes_max, memory_factor: 2, silence: Duration::from_millis(100) }
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
        let (headers, long) = (headers(Some(5000)), headers(Some(1 << 20)));
        let waits = read(&headers, body(5000, 100), &budget, bounds(1 << 20));
        let mut waits = Box::pin(waits);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut waits).await.is_err());
        let refused = read(&long, body(1 << 20, 4096), &budget, bounds(1 << 20)).await.unwrap_err();
        assert_eq!(refused.code().status(), 413);
        drop(held);
        assert_eq!(waits.await.unwrap().len_bytes, 5000);
    }
}

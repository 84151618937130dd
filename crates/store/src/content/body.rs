//! A body that arrives in pieces: gathered in segments of a fixed length, never beyond its limit.

use std::pin::Pin;

use bytes::{Buf as _, Bytes};
use futures::{Stream, StreamExt as _};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::local::buffers::{BLOCK_BYTES, Blocks};

/// Why a piece did not arrive.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Bytes inspected together, while they are in a core's own cache.
const INSPECT_BYTES: usize = BLOCK_BYTES;

/// The length a body may have: what its sender declared, if that is allowed, or all that is allowed.
pub(crate) fn limit(what: &str, declared_bytes: Option<u64>, max: u64) -> Result<u64> {
    match declared_bytes {
        Some(declared) if declared > max => {
            let message = format!("{what} should have at most {max} bytes, {declared} are announced");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        declared => Ok(declared.unwrap_or(max)),
    }
}

/// Gathers a body. Pieces are copied into segments: they may be tiny, and many, and each would cost more than its bytes.
pub(crate) struct Segments<'a, S> {
    what: &'a str,
    blocks: &'a Blocks,
    bytes_max: u64,
    left: u64,
    pieces: Pin<Box<S>>,
    /// What of the last piece did not fit its segment.
    rest: Bytes,
}

impl<'a, S> Segments<'a, S>
where
    S: Stream<Item = std::result::Result<Bytes, BodyError>>,
{
    /// The segments of a body of at most `bytes_max` bytes; `what` names it in errors.
    pub(crate) fn new(what: &'a str, blocks: &'a Blocks, bytes_max: u64, pieces: S) -> Self {
        Self { what, blocks, bytes_max, left: bytes_max, pieces: Box::pin(pieces), rest: Bytes::new() }
    }

    /// The next segment: a full block, or the last; `None` after that.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        self.next_seen(|_| Ok(())).await
    }

    /// The next segment, of which `inspect` has seen every byte, in order, soon after it came.
    pub(crate) async fn next_seen(
        &mut self,
        mut inspect: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Bytes>> {
        let mut segment = self.blocks.take();
        let mut seen = 0;
        while segment.len() < self.blocks.block_bytes() {
            if self.rest.is_empty() {
                let Some(piece) = self.pieces.next().await else { break };
                self.rest = self.check(piece)?;
            }
            let taken = segment.fill(&self.rest);
            self.rest.advance(taken);
            if segment.len() - seen >= INSPECT_BYTES {
                inspect(segment.as_ref().get(seen..).unwrap_or_default())?;
                seen = segment.len();
            }
        }
        inspect(segment.as_ref().get(seen..).unwrap_or_default())?;
        // A piece may be a small part of a large buffer, which its reader wants to use again.
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
        Ok((segment.len() > 0).then(|| segment.freeze()))
    }

    fn check(&mut self, piece: std::result::Result<Bytes, BodyError>) -> Result<Bytes> {
        let what = self.what;
        let piece = piece.map_err(|source| {
            Error::caused(ErrorKind::Unavailable, format!("{what} was cut off on its way"), source)
        })?;
        self.left = self.left.checked_sub(piece.len() as u64).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("{what} is longer than {} bytes", self.bytes_max))
        })?;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn pieces_of_any_size_become_even_segments_and_each_byte_is_seen_once() {
        for blocks in [Blocks::small(), Blocks::large()] {
            let bytes = blocks.block_bytes();
            for step in [777, 1000, bytes, 3 * bytes] {
                let data = Bytes::from(testkit::corpus::noise(1, 2 * bytes + 5));
                let pieces: Vec<_> =
                    data.chunks(step).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
                let mut body = Segments::new("body", &blocks, data.len() as u64, stream::iter(pieces));
                let (mut segments, mut seen) = (Vec::new(), Vec::new());
                let mut inspect = |bytes: &[u8]| {
                    seen.extend_from_slice(bytes);
                    Ok(())
                };
                while let Some(segment) = body.next_seen(&mut inspect).await.unwrap() {
                    segments.push(segment);
                }
                assert_eq!(segments.iter().map(Bytes::len).collect::<Vec<_>>(), [bytes, bytes, 5]);
                assert!(segments.concat() == data && seen == data, "{step}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_beyond_its_limit_is_refused() {
        assert_eq!(limit("body", Some(11), 10).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!((limit("body", Some(9), 10).unwrap(), limit("body", None, 10).unwrap()), (9, 10));
        let pieces = stream::iter([Ok(Bytes::from("abc")), Ok(Bytes::from("de"))]);
        let error = Segments::new("body", &Blocks::small(), 4, pieces).next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

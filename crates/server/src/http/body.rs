//! Bodies made of byte ranges: streamed piece by piece, exactly as long as their `Content-Length` says.
//!
//! A source that ends early or says too much makes the body fail, so that the client sees a broken transfer and never
//! a short or shifted answer that looks whole.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use xet::wire::HttpRange;
use xet::wire::multipart::{Boundary, Writer};

/// The bytes of one range, in any pieces.
pub(crate) type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// One range of a source as a body.
pub(crate) fn single<F>(open: F, range: Range<u64>) -> Body
where
    F: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    Body::from_stream(RangeStream::new(open, VecDeque::from([Step::Data(range)])))
}

/// A body of several ranges, and what its headers must say.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// The body.
    pub body: Body,
    /// The `Content-Type`.
    pub content_type: String,
    /// The `Content-Length`.
    pub len_bytes: u64,
}

/// Several ranges of a source `total_bytes` long as a `multipart/byteranges` body; `None` when its length fits no
/// number.
pub(crate) fn multipart<F>(
    open: F,
    boundary: Boundary,
    total_bytes: u64,
    ranges: &[HttpRange],
) -> Option<Multipart>
where
    F: FnMut(Range<u64>) -> Pieces + Send + 'static,
{
    let content_type = boundary.content_type();
    let mut writer = Writer::new(boundary, total_bytes);
    let len_bytes = writer.body_bytes(ranges)?;
    let mut steps = VecDeque::with_capacity(2 * ranges.len() + 1);
    for range in ranges {
        steps.push_back(Step::Text(writer.part(*range).into()));
        steps.push_back(Step::Data(range.half_open()));
    }
    steps.push_back(Step::Text(writer.finish().into()));
    Some(Multipart { body: Body::from_stream(RangeStream::new(open, steps)), content_type, len_bytes })
}

/// What comes next in a body.
enum Step {
    Text(Bytes),
    Data(Range<u64>),
}

/// Takes the steps one after another and opens each range only when its turn comes.
struct RangeStream<F> {
    open: F,
    steps: VecDeque<Step>,
    /// The range being read, and how many of its bytes are to come.
    current: Option<(Pieces, u64)>,
}

impl<F> RangeStream<F> {
    fn new(open: F, steps: VecDeque<Step>) -> Self {
        Self { open, steps, current: None }
    }

    /// Fails, and says nothing after that.
    fn fail(&mut self, error: io::Error) -> Poll<Option<io::Result<Bytes>>> {
        self.current = None;
        self.steps.clear();
        Poll::Ready(Some(Err(error)))
    }
}

// Streams in it are boxed, and the function that opens them is only ever called.
impl<F> Unpin for RangeStream<F> {}

impl<F: FnMut(Range<u64>) -> Pieces> Stream for RangeStream<F> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some((pieces, left)) = &mut this.current {
                let piece = if *left == 0 { None } else { ready!(pieces.as_mut().poll_next(context)) };
                match piece {
                    Some(Ok(bytes)) if bytes.is_empty() => {}
                    Some(Ok(bytes)) => match left.checked_sub(bytes.len() as u64) {
                        Some(rest) => {
                            *left = rest;
                            return Poll::Ready(Some(Ok(bytes)));
                        }
                        None => {
                            return this.fail(io::Error::other("the source has more bytes than the range"));
                        }
                    },
                    Some(Err(error)) => return this.fail(error),
                    None if *left == 0 => this.current = None,
                    None => return this.fail(io::ErrorKind::UnexpectedEof.into()),
                }
                continue;
            }
            match this.steps.pop_front() {
                Some(Step::Text(text)) => return Poll::Ready(Some(Ok(text))),
                Some(Step::Data(range)) => {
                    let left = range.end.saturating_sub(range.start);
                    this.current = Some(((this.open)(range), left));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{FutureExt as _, StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use proptest::prelude::*;
    use xet::wire::multipart::parse;

    use super::*;

    fn data() -> Vec<u8> {
        (0..10_000_u32).map(|i| i.to_le_bytes()[i as usize % 2]).collect()
    }

    /// Opens ranges of `data`, in pieces of a size.
    fn source(piece: usize) -> impl FnMut(Range<u64>) -> Pieces + Send + 'static {
        move |range| {
            let bytes = data()[range.start as usize..range.end as usize].to_vec();
            let pieces: Vec<_> = bytes.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            stream::iter(pieces).boxed()
        }
    }

    fn collect(body: Body) -> Result<Vec<u8>, axum::Error> {
        let collected = body.collect().now_or_never().expect("nothing here waits");
        Ok(collected?.to_bytes().to_vec())
    }

    #[test]
    fn a_source_that_lies_about_its_length_breaks_the_body() {
        for lie in [&b""[..], b"123456789", b"12345678901"] {
            let body = single(move |_| stream::iter([Ok(Bytes::from_static(lie))]).boxed(), 0..10);
            assert!(collect(body).is_err(), "{}", lie.len());
        }
        let failing = |_: Range<u64>| stream::iter([Err(io::ErrorKind::TimedOut.into())]).boxed();
        assert!(collect(single(failing, 0..10)).is_err());
        let endless = |_: Range<u64>| stream::repeat_with(|| Ok(Bytes::from_static(b"12345"))).boxed();
        assert_eq!(collect(single(endless, 0..10)).unwrap(), b"1234512345");
    }

    #[test]
    fn a_range_is_opened_when_its_turn_comes() {
        let opened = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&opened);
        let mut inner = source(100);
        let open = move |range| {
            counter.fetch_add(1, Ordering::SeqCst);
            inner(range)
        };
        let ranges = [HttpRange::new(0, 99).unwrap(), HttpRange::new(500, 599).unwrap()];
        let multipart = multipart(open, Boundary::new("b").unwrap(), 10_000, &ranges).unwrap();
        let mut frames = multipart.body.into_data_stream();
        for expected in [0, 1, 1, 2, 2] {
            frames.next().now_or_never().unwrap().unwrap().unwrap();
            assert_eq!(opened.load(Ordering::SeqCst), expected);
        }
        assert!(frames.next().now_or_never().unwrap().is_none());
    }

    proptest! {
        /// What the client's parser finds is what was requested, and the announced length is the true one.
        #[test]
        fn a_multipart_body_reads_back(
            ends in prop::collection::vec((0..10_000_u64, 0..10_000_u64), 1..9),
            piece in 1..3000_usize,
        ) {
            let ranges: Vec<_> = ends.iter().map(|(a, b)| HttpRange::new(*a.min(b), *a.max(b)).unwrap()).collect();
            let boundary = Boundary::new("some boundary").unwrap();
            let multipart = multipart(source(piece), boundary.clone(), 10_000, &ranges).unwrap();
            let body = collect(multipart.body).unwrap();
            prop_assert_eq!(body.len() as u64, multipart.len_bytes);
            let parts = parse(&body, &boundary, ranges.len()).unwrap();
            let data = data();
            for (part, range) in parts.iter().zip(&ranges) {
                let span = range.half_open();
                prop_assert_eq!(part.range, *range);
                prop_assert_eq!(part.bytes, &data[span.start as usize..span.end as usize]);
            }
            prop_assert_eq!(parts.len(), ranges.len());
        }
    }
}

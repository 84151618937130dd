//! Fetcher: one range of a xorb, from the cache or from the server, decoded while it arrives.
//!
//! Nothing waits for ever. When a request gives no bytes for a while a second one is sent and the first to go on wins; when
//! neither does, or bytes come too slowly, the range is given up and planned anew with fresh URLs.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::time::{sleep, timeout};
use xet::XorbHash;

use super::Puller;
use super::cpu_pool::join;
use super::decoder::{Destination, RangeDecoder, Sink};
use crate::cache::CachedRange;
use crate::cas::Cas;
use crate::error::{Error, ErrorKind, Result};

/// When to stop waiting.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Time without a byte after which a second request for the same bytes starts.
    pub hedge_after: Duration,
    /// Without enough bytes for so long, a request is given up.
    pub stall_after: Duration,
    /// Lowest acceptable rate: bytes per second, on average over `stall_after`.
    pub bytes_per_s_min: u64,
    /// How often a range may fail one time after another, without a single chunk in between.
    pub attempts_max: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            hedge_after: Duration::from_secs(8),
            stall_after: Duration::from_secs(30),
            bytes_per_s_min: 1024,
            attempts_max: 6,
        }
    }
}

/// A range of a xorb to fetch, and who uses it.
#[derive(Debug)]
pub(super) struct FetchJob {
    pub(super) xorb: XorbHash,
    pub(super) chunks: Range<u32>,
    pub(super) stored: Range<u64>,
    /// URL to fetch from; `None` when only the cache may have it.
    pub(super) url: Option<String>,
    pub(super) uses: Vec<Destination>,
}

/// Outcome of a fetch job.
#[derive(Debug)]
pub(super) struct FetchOutcome {
    /// Parts that were not written.
    pub(super) rest: Vec<Destination>,
    /// Whether it was the cache that failed: the wrong entry is deleted, and it counts as no failure of the server.
    pub(super) by_cache: bool,
    pub(super) error: Option<Error>,
}

/// Fetches a unit and writes what it holds.
pub(super) async fn unit(puller: &Puller, unit: FetchJob, sink: Arc<dyn Sink>) -> FetchOutcome {
    let stored_bytes = unit.stored.end - unit.stored.start;
    let held_bytes = stored_bytes.min(2 * SEGMENT_BYTES as u64 + (1 << 20)) + (1 << 20);
    let _memory = puller.memory.reserve(held_bytes).await;

    let mut work = Work { puller, sink, decoder: None, job: None, done_bytes: 0, by_cache: false };
    let result = work.run(unit).await;
    let (rest, error) = match (result, work.decoder.take()) {
        (result, Some(decoder)) => {
            let (rest, scratch) = decoder.into_rest();
            puller.pool.return_scratch(scratch);
            (rest, result.err())
        }
        // A thread that decoded is gone, and with it what it knew.
        (result, None) => (Vec::new(), result.err()),
    };
    FetchOutcome { rest, by_cache: work.by_cache, error }
}

type Job = tokio::task::JoinHandle<(RangeDecoder, Result<()>)>;

/// One unit on its way: the decoder is here, or with a job.
struct Work<'a> {
    puller: &'a Puller,
    sink: Arc<dyn Sink>,
    decoder: Option<RangeDecoder>,
    job: Option<Job>,
    done_bytes: u64,
    by_cache: bool,
}

impl Work<'_> {
    async fn run(&mut self, unit: FetchJob) -> Result<()> {
        let FetchJob { xorb, chunks, stored, url, uses } = unit;
        let scratch = self.puller.pool.take_scratch();
        let cached = match &self.puller.cache {
            Some(cache) => {
                let (cache, requested) = (cache.clone(), chunks.clone());
                self.puller.pool.run(move || cache.find(&xorb, requested)).await?
            }
            None => None,
        };
        let decoder = RangeDecoder::new(xorb, chunks.clone(), stored.start, uses, scratch);
        if let Some(ranges) = cached {
            let expected = ranges.iter().flat_map(|range| range.expected.iter().copied()).collect();
            self.decoder = Some(decoder.expect(expected));
            let result = self.read_cached(ranges).await;
            self.by_cache = result.is_err();
            return result;
        }
        let Some((url, cas)) = url.as_deref().zip(self.puller.cas.as_deref()) else {
            self.decoder = Some(decoder);
            self.by_cache = true;
            return Err(Error::new(ErrorKind::Expired, format!("xorb {xorb} is not in the cache any more")));
        };
        let cache_writer = self.puller.cache.as_ref().and_then(|cache| cache.writer(xorb, chunks));
        self.decoder = Some(decoder.with_cache(cache_writer));
        let _entry = self.puller.concurrency.enter().await;
        let result = self.receive(cas, url, stored).await;
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
            self.puller.concurrency.failed();
        }
        result
    }

    async fn read_cached(&mut self, ranges: Vec<CachedRange>) -> Result<()> {
        for mut range in ranges {
            while range.stored_bytes() > 0 {
                let piece;
                (range, piece) = self
                    .puller
                    .pool
                    .run(move || {
                        let piece = range.read(SEGMENT_BYTES);
                        (range, piece)
                    })
                    .await?;
                let piece = piece.map_err(|source| {
                    range.remove();
                    Error::caused(ErrorKind::Corrupt, "an entry of the cache cannot be read", source)
                })?;
                self.decode(vec![piece]).await?;
                if let Err(error) = self.wait().await {
                    range.remove();
                    return Err(error);
                }
            }
        }
        self.puller.progress.known_bytes.add(self.done_bytes);
        self.finish()
    }

    async fn receive(&mut self, cas: &dyn Cas, url: &str, stored: Range<u64>) -> Result<()> {
        let result = self.all_of(cas, url, stored).await;
        // Whatever happened, the decoder comes home: it knows what was written.
        let waited = self.wait().await;
        result.and(waited)?;
        self.finish()
    }

    async fn all_of(&mut self, cas: &dyn Cas, url: &str, stored: Range<u64>) -> Result<()> {
        let mut flow = WatchedStream::open(cas, url, stored, &self.puller.options.patience).await?;
        loop {
            let mut pieces = Vec::new();
            let mut bytes = 0;
            let mut ended = false;
            let gathered = loop {
                match flow.next().await {
                    Ok(Some(piece)) => {
                        bytes += piece.len();
                        self.puller.progress.wire_bytes.add(piece.len() as u64);
                        self.puller.concurrency.received(piece.len() as u64, Instant::now());
                        pieces.push(piece);
                        if bytes >= SEGMENT_BYTES {
                            break Ok(());
                        }
                    }
                    Ok(None) => {
                        ended = true;
                        break Ok(());
                    }
                    Err(error) => break Err(error),
                }
            };
            // What came before a failure is as good as any.
            self.decode(pieces).await?;
            gathered?;
            if ended {
                return Ok(());
            }
        }
    }

    /// Decodes pieces once those before them are decoded, while the next ones arrive.
    async fn decode(&mut self, pieces: Vec<Bytes>) -> Result<()> {
        self.wait().await?;
        let Some(mut decoder) = self.decoder.take() else { return Ok(()) };
        let sink = self.sink.clone();
        let work = move || {
            let result = decoder.push(pieces, &*sink);
            (decoder, result)
        };
        self.job = Some(self.puller.pool.start(work).await);
        Ok(())
    }

    async fn wait(&mut self) -> Result<()> {
        let Some(job) = self.job.take() else { return Ok(()) };
        let (decoder, result) = join(job).await?;
        let done = decoder.written_bytes();
        self.puller.progress.done_bytes.add(done - self.done_bytes);
        self.done_bytes = done;
        self.decoder = Some(decoder);
        result
    }

    fn finish(&mut self) -> Result<()> {
        self.decoder.as_mut().map_or(Ok(()), RangeDecoder::finish)
    }
}

/// The bytes of one range, as they arrive, watched.
struct WatchedStream<'a> {
    cas: &'a dyn Cas,
    url: &'a str,
    stored: Range<u64>,
    patience: &'a Patience,
    stream: BoxStream<'static, Result<Bytes>>,
    received: u64,
    sampled: Instant,
    since_sample: u64,
}

impl<'a> WatchedStream<'a> {
    async fn open(
        cas: &'a dyn Cas,
        url: &'a str,
        stored: Range<u64>,
        patience: &'a Patience,
    ) -> Result<Self> {
        // Opening may take several attempts, which take longer than one stall.
        let opened = timeout(4 * patience.stall_after, cas.fetch(url, stored.clone())).await;
        let silent = |_| Error::new(ErrorKind::Unavailable, "a download did not begin in time");
        let stream = opened.map_err(silent)??;
        Ok(Self { cas, url, stored, patience, stream, received: 0, sampled: Instant::now(), since_sample: 0 })
    }

    /// The next bytes; `None` after the last.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let item = match timeout(self.patience.hedge_after, self.stream.next()).await {
            Ok(item) => item,
            Err(_) => self.next_of_two().await?,
        };
        let requested = self.stored.end - self.stored.start;
        let Some(piece) = item.transpose()? else {
            if self.received < requested {
                let message = format!("a download ended after {} of {requested} bytes", self.received);
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            return Ok(None);
        };
        self.received += piece.len() as u64;
        if self.received > requested {
            let message = format!("a download has more than the {requested} bytes requested");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        self.watch(piece.len() as u64)?;
        Ok(Some(piece))
    }

    /// The next bytes of this request or of a second one for the same range.
    async fn next_of_two(&mut self) -> Result<Option<Result<Bytes>>> {
        let second = second(self.cas, self.url, self.stored.clone(), self.received);
        let stalled = sleep(self.patience.stall_after.saturating_sub(self.patience.hedge_after));
        tokio::pin!(second, stalled);
        let mut hedging = true;
        loop {
            tokio::select! {
                item = self.stream.next() => return Ok(item),
                opened = &mut second, if hedging => match opened {
                    Ok((piece, stream)) => {
                        self.stream = stream;
                        return Ok(Some(Ok(piece)));
                    }
                    // The first may still come.
                    Err(_) => hedging = false,
                },
                () = &mut stalled => {
                    let seconds = self.patience.stall_after.as_secs_f32();
                    return Err(Error::new(ErrorKind::Unavailable, format!("a download gave no bytes for {seconds:.1} s")));
                }
            }
        }
    }

    /// Gives up on bytes that come, but too slowly to matter.
    fn watch(&mut self, bytes: u64) -> Result<()> {
        self.since_sample += bytes;
        let elapsed = self.sampled.elapsed();
        if elapsed < self.patience.stall_after {
            return Ok(());
        }
        let needed = self.patience.bytes_per_s_min as f64 * elapsed.as_secs_f64();
        if (self.since_sample as f64) < needed {
            let seconds = elapsed.as_secs_f32();
            let message = format!("a download gave {} bytes in {seconds:.1} s", self.since_sample);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        (self.sampled, self.since_sample) = (Instant::now(), 0);
        Ok(())
    }
}

/// Requests a range again and skips the bytes received before; returns the first new ones.
async fn second(
    cas: &dyn Cas,
    url: &str,
    stored: Range<u64>,
    received: u64,
) -> Result<(Bytes, BoxStream<'static, Result<Bytes>>)> {
    let mut stream = cas.fetch(url, stored).await?;
    let mut skip = received;
    while let Some(piece) = stream.next().await {
        let mut piece = piece?;
        let dropped = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
        skip -= dropped as u64;
        let _ = piece.split_to(dropped);
        if !piece.is_empty() {
            return Ok((piece, stream));
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "a download ended early"))
}

/// Stored bytes that are decoded together: enough to be worth a thread.
pub(super) const SEGMENT_BYTES: usize = 1 << 20;

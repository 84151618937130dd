//! A content-addressed store over HTTP.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{CONTENT_TYPE, RANGE};
use reqwest::{Response, StatusCode};
use xet::wire::reconstruction::{FileKey, Term};
use xet::wire::routes::{self, PREFIX_DEFAULT};
use xet::wire::{
    Batch, Frame, FrameReader, HttpRange, Reconstruction, ReconstructionV1, ReconstructionV2, ShardUploaded,
    XorbUploaded, chunk_list, encode_json, parse_json,
};
use xet::{ChunkHash, FileHash, limits};

use super::{Cas, Xorb};
use crate::cas;
use crate::error::{Error, ErrorKind, Result};
use crate::http::answer::{self, broken, is_missing_route};
use crate::http::{Http, Request};
use crate::progress::Progress;
use crate::token::Tokens;

pub use crate::http::HttpOptions;

/// The CAS routes of a server.
#[derive(Debug)]
pub struct HttpCas {
    http: Http,
    /// The server answered a version 1 route after it knew no version 2.
    old_reconstructions: AtomicBool,
    old_shards: AtomicBool,
}

impl HttpCas {
    /// The server at `endpoint`, such as `https://hub.example.com`.
    pub fn new(endpoint: &str, tokens: Option<Arc<Tokens>>, options: HttpOptions) -> Result<Self> {
        Ok(Self {
            http: Http::new(endpoint, tokens, options)?,
            old_reconstructions: AtomicBool::new(false),
            old_shards: AtomicBool::new(false),
        })
    }

    /// Address below which its routes are.
    pub fn base(&self) -> &str {
        self.http.base()
    }

    async fn put_shard_v1(&self, shard: &Bytes) -> Result<()> {
        let request = Request::post(routes::SHARDS_V1, vec![shard.clone()]);
        let bytes = self.http.send_and_read(&request, SMALL_BYTES_MAX).await?;
        let _: ShardUploaded =
            parse_json(&bytes).map_err(|source| Error::invalid(routes::SHARDS_V1, source))?;
        Ok(())
    }

    /// `false` when the server does not know the route.
    async fn put_shard_v2(&self, shard: &Bytes, progress: &Progress) -> Result<bool> {
        let path = routes::SHARDS_V2;
        let request = Request::post(path, vec![shard.clone()]).accept_status(is_missing_route);
        // The outcome is in the answer's body, so an attempt ends with that.
        let work = || async {
            let answer = self.http.send_once(&request).await?;
            if is_missing_route(answer.status()) {
                return Ok(false);
            }
            self.read_frames(path, answer, progress).await?;
            Ok(true)
        };
        self.http.options.retry.run(&progress.retries, work).await
    }

    async fn read_frames(&self, path: &str, answer: Response, progress: &Progress) -> Result<()> {
        let request_id = answer::request_id(&answer);
        let fail = |kind, message: String| Error::new(kind, message).with_request_id(request_id.clone());
        let mut reader = FrameReader::new();
        let mut pieces = answer.bytes_stream();
        let take = |frame: Frame| match frame {
            Frame::Validating { verified, total } => {
                progress.terms_verified.set(verified);
                progress.terms_total.set(total);
                Ok(false)
            }
            Frame::Result { .. } => Ok(true),
            Frame::Error { message, retryable } => {
                let kind = if retryable { ErrorKind::Unavailable } else { ErrorKind::Invalid };
                Err(fail(kind, format!("shard: {message}")))
            }
            _ => Ok(false),
        };
        loop {
            let piece = tokio::time::timeout(self.http.options.answer_timeout, pieces.next()).await.map_err(
                |_| {
                    fail(
                        ErrorKind::Unavailable,
                        format!("{path}: no word for {:?}", self.http.options.answer_timeout),
                    )
                },
            )?;
            let Some(piece) = piece else { break };
            let piece = piece.map_err(|source| broken(path, &source))?;
            let mut piece = &piece[..];
            while let Some(frame) = reader.read(&mut piece).map_err(|source| Error::invalid(path, source))? {
                if take(frame)? {
                    return Ok(());
                }
            }
        }
        let end = reader.finish().map_err(|source| Error::invalid(path, source))?;
        if end.frame.map(take).transpose()? == Some(true) {
            return Ok(());
        }
        // Sending it again is safe: registering twice is registering once.
        Err(fail(ErrorKind::Unavailable, format!("{path}: the answer ended without an outcome")))
    }
}

#[async_trait]
impl Cas for HttpCas {
    async fn reconstruction(
        &self,
        file: FileHash,
        range: Option<Range<u64>>,
    ) -> Result<Option<Reconstruction>> {
        let range = match range {
            Some(range) => match HttpRange::from_half_open(&range) {
                Some(range) => Some(format!("bytes={range}")),
                None => return Ok(None),
            },
            None => None,
        };
        if !self.old_reconstructions.load(Ordering::Relaxed) {
            let path = routes::reconstruction_v2(&file);
            let pass = |status| is_past_end(status) || is_missing_route(status);
            let answer = self.http.send(&ranged(&path, range.as_deref()).accept_status(pass)).await?;
            if is_past_end(answer.status()) {
                return Ok(None);
            }
            if !is_missing_route(answer.status()) {
                let bytes = self.http.read_body(&path, answer, JSON_BYTES_MAX).await?;
                let parsed: ReconstructionV2 =
                    parse_json(&bytes).map_err(|source| Error::invalid(&path, source))?;
                return parsed.try_into().map(Some).map_err(|source| Error::invalid(path, source));
            }
        }
        let path = routes::reconstruction_v1(&file);
        let answer = self.http.send(&ranged(&path, range.as_deref()).accept_status(is_past_end)).await?;
        if is_past_end(answer.status()) {
            return Ok(None);
        }
        let bytes = self.http.read_body(&path, answer, JSON_BYTES_MAX).await?;
        let parsed: ReconstructionV1 = parse_json(&bytes).map_err(|source| Error::invalid(&path, source))?;
        self.old_reconstructions.store(true, Ordering::Relaxed);
        parsed.try_into().map(Some).map_err(|source| Error::invalid(path, source))
    }

    async fn fetch(&self, url: &str, stored: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.http.stream_data(url, stored).await
    }

    async fn dedup(&self, chunk: ChunkHash) -> Result<Option<Bytes>> {
        let path = routes::chunk(PREFIX_DEFAULT, &chunk);
        let missing = |status| status == StatusCode::NOT_FOUND;
        let answer = self.http.send(&Request::get(&path).accept_status(missing)).await?;
        if missing(answer.status()) {
            return Ok(None);
        }
        self.http.read_body(&path, answer, limits::SHARD_BYTES_MAX).await.map(Some)
    }

    async fn put_xorb(&self, xorb: &Xorb) -> Result<bool> {
        let path = routes::xorb(&xorb.hash());
        let bytes =
            self.http.send_and_read(&Request::post(&path, xorb.chunks.clone()), SMALL_BYTES_MAX).await?;
        let uploaded: XorbUploaded = parse_json(&bytes).map_err(|source| Error::invalid(path, source))?;
        Ok(uploaded.was_inserted)
    }

    async fn put_shard(&self, shard: Bytes, progress: &Progress) -> Result<()> {
        if !self.old_shards.load(Ordering::Relaxed) && self.put_shard_v2(&shard, progress).await? {
            return Ok(());
        }
        self.put_shard_v1(&shard).await?;
        self.old_shards.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn reconstructions(&self, files: &[FileHash]) -> Result<Option<cas::Batch>> {
        let prefix = PREFIX_DEFAULT;
        let keys: Vec<_> =
            files.iter().map(|hash| FileKey { prefix: prefix.to_owned(), hash: *hash }).collect();
        // What the server does not know, and files it does not have, are both 404: the caller asks one by one.
        let pass = |status| is_missing_route(status) || status == StatusCode::METHOD_NOT_ALLOWED;
        let request = Request::post(routes::BATCH, vec![encode_json(&keys).into()]);
        let request = request.header(CONTENT_TYPE, routes::content_type::JSON).accept_status(pass);
        let answer = self.http.send(&request).await?;
        if pass(answer.status()) {
            return Ok(None);
        }
        let bytes = self.http.read_body(routes::BATCH, answer, JSON_BYTES_MAX).await?;
        let wrong = |source| Error::invalid(routes::BATCH, source);
        let batch: Batch = parse_json(&bytes).map_err(wrong)?;
        let mut terms = Vec::new();
        let mut split = Vec::new();
        for file in files {
            let Some(list) = batch.files.get(file) else { return Ok(None) };
            split.push(list.iter().map(Term::to_plan).collect());
            terms.extend_from_slice(list);
        }
        let all = ReconstructionV1 { offset_into_first_range: 0, terms, fetch_info: batch.fetch_info };
        Ok(Some(cas::Batch { files: split, fetches: all.try_into().map_err(wrong)? }))
    }

    async fn chunk_list(&self, file: FileHash) -> Result<Option<Vec<(ChunkHash, u32)>>> {
        let mut chunks = Vec::new();
        loop {
            let path = routes::chunk_list(&file, chunks.len() as u64);
            let answer = self.http.send(&Request::get(&path).accept_status(is_missing_route)).await?;
            // Other servers have no such route, and that is all there is to it.
            if is_missing_route(answer.status()) {
                return Ok(None);
            }
            let page = self.http.read_body(&path, answer, chunk_list::PAGE_BYTES_MAX).await?;
            let page = chunk_list::parse(&page).map_err(|source| Error::invalid(path, source))?;
            let is_last = page.len() < chunk_list::PAGE_CHUNKS_MAX;
            chunks.extend(page);
            if is_last {
                return Ok(Some(chunks));
            }
            if chunks.len() > CHUNKS_MAX {
                return Ok(None);
            }
        }
    }
}

/// A question about a range, or about everything.
fn ranged<'a>(path: &'a str, range: Option<&str>) -> Request<'a> {
    match range {
        Some(range) => Request::get(path).header(RANGE, range),
        None => Request::get(path),
    }
}

/// The range begins where the file has ended.
fn is_past_end(status: StatusCode) -> bool {
    status == StatusCode::RANGE_NOT_SATISFIABLE
}

/// Chunks of a file that are worth knowing: some 256 GiB.
const CHUNKS_MAX: usize = 4 << 20;
/// Answers that are a few fields.
const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// A reconstruction: a term takes some 150 bytes.
const JSON_BYTES_MAX: u64 = 256 * 1024 * 1024;

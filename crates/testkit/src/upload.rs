//! What a client sends for some files, and what it does to send it and to read it back: over HTTP, on a real socket.

use std::collections::HashMap;
use std::io;

use xet::compress::Policy;
use xet::merkle::MerkleBuilder;
use xet::shard::{ChunkEntry, FileEntry, Form as ShardForm, ShardBuilder, Term, XorbEntry};
use xet::wire::{Frame, FrameReader, Reconstruction, ReconstructionV2, parse_json};
use xet::xorb::{ChunkDecoder, ChunkReader, Form, SealedXorb, XorbBuilder};
use xet::{ChunkHash, FileHash, RangeHash, Sha256, XorbHash};

use crate::http::{Answer, Http, RequestBody};

/// What a client sends for some files: all their chunks in new xorbs, nothing deduplicated between xorbs.
#[derive(Debug)]
pub struct Upload {
    /// What is sent first, in any order.
    pub xorbs: Vec<SealedXorb>,
    /// What the shard says.
    pub files: Vec<FileEntry>,
}

impl Upload {
    /// Cuts files into chunks and packs `xorb_chunks` chunks into each xorb.
    ///
    /// # Panics
    ///
    /// If `xorb_chunks` is more than a xorb holds.
    pub fn of(files: &[&[u8]], xorb_chunks: usize, policy: Policy) -> Self {
        let mut builder = XorbBuilder::new(policy);
        let mut upload = Self { xorbs: Vec::new(), files: Vec::new() };
        // Chunks of the file at hand: hash, length, xorb, number in it.
        let mut located: Vec<Vec<(ChunkHash, u32, usize, u32)>> = Vec::new();
        for data in files {
            let mut chunks = Vec::new();
            let mut start = 0;
            for end in xet::chunk::cut(data) {
                if builder.chunk_count() as usize == xorb_chunks {
                    upload.xorbs.push(builder.seal(Form::Footerless).expect("it is not empty"));
                }
                let chunk = &data[start..end];
                let hash = ChunkHash::of(chunk);
                let len = u32::try_from(chunk.len()).expect("a chunk is short");
                chunks.push((hash, len, upload.xorbs.len(), builder.chunk_count()));
                builder.push(hash, chunk).expect("the xorb has room");
                start = end;
            }
            located.push(chunks);
        }
        if !builder.is_empty() {
            upload.xorbs.push(builder.seal(Form::Footerless).expect("it is not empty"));
        }
        for (data, chunks) in files.iter().zip(located) {
            let mut merkle = MerkleBuilder::default();
            chunks.iter().for_each(|(hash, len, ..)| merkle.push(*hash, u64::from(*len)));
            let mut terms: Vec<(Term, Vec<ChunkHash>)> = Vec::new();
            for (hash, len, xorb, number) in chunks {
                let xorb = upload.xorbs[xorb].info.hash();
                match terms.last_mut() {
                    Some((term, hashes)) if term.xorb == xorb && term.chunks.end == number => {
                        term.chunks.end += 1;
                        term.raw_bytes += len;
                        hashes.push(hash);
                    }
                    _ => {
                        let chunks = number..number + 1;
                        terms.push((Term { xorb, flags: 0, raw_bytes: len, chunks }, vec![hash]));
                    }
                }
            }
            upload.files.push(FileEntry {
                hash: merkle.finish_file(),
                verification: Some(terms.iter().map(|(_, hashes)| RangeHash::of(hashes)).collect()),
                terms: terms.into_iter().map(|(term, _)| term).collect(),
                sha256: Some(Sha256::new(crate::sha256(data))),
            });
        }
        upload
    }

    /// The shard's view of the xorbs.
    pub fn entries(&self) -> Vec<XorbEntry> {
        self.xorbs.iter().map(entry).collect()
    }

    /// The shard's bytes, as clients send it.
    pub fn shard(&self) -> Vec<u8> {
        shard(&self.files, &self.entries())
    }
}

/// The bytes of a shard, as clients send it.
///
/// # Panics
///
/// If there is no such shard.
pub fn shard(files: &[FileEntry], xorbs: &[XorbEntry]) -> Vec<u8> {
    let mut builder = ShardBuilder::default();
    files.iter().for_each(|file| {
        builder.push_file(file.clone());
    });
    xorbs.iter().for_each(|xorb| {
        builder.push_xorb(xorb.clone());
    });
    builder.encode(&ShardForm::Upload).expect("the counts fit")
}

fn entry(xorb: &SealedXorb) -> XorbEntry {
    let mut raw_start = 0;
    let chunks = xorb.info.chunks().iter().map(|place| {
        let entry =
            ChunkEntry { hash: place.hash, raw_start, raw_bytes: place.raw_end - raw_start, flags: 0 };
        raw_start = place.raw_end;
        entry
    });
    let chunks = chunks.collect();
    XorbEntry { hash: xorb.info.hash(), flags: 0, raw_bytes: raw_start, stored_bytes: 0, chunks }
}

/// A client of a server, with a token.
#[derive(Debug, Clone)]
pub struct Cas {
    /// Where the server is.
    pub http: Http,
    base_url: String,
    authorization: String,
}

/// Why an upload was not acknowledged.
#[derive(Debug)]
pub enum Failed {
    /// The server refused the request.
    Refused {
        /// With this status, or 200 where an event of the stream has it.
        status: u16,
        /// Whether the same may be sent again.
        retryable: bool,
        /// The text of the answer.
        message: String,
    },
    /// The answer was malformed or missing.
    Broken(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl Cas {
    /// A client of the server at `base_url`.
    pub fn new(base_url: &str, token: &str) -> Self {
        let authorization = format!("Bearer {token}");
        Self { http: Http::new(base_url), base_url: base_url.to_owned(), authorization }
    }

    /// Sends a body to a path.
    pub fn post(&self, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.http.send("POST", path, &[("authorization", &self.authorization)], RequestBody::Whole(body))
    }

    /// Requests a path.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        self.http.send("GET", path, &[("authorization", &self.authorization)], RequestBody::Nothing)
    }

    /// Sends a xorb and waits until it is acknowledged.
    pub fn put_xorb(&self, xorb: &SealedXorb) -> Result<(), Failed> {
        acknowledged(&self.post(&format!("/v1/xorbs/default/{}", xorb.info.hash()), &xorb.bytes)?)
    }

    /// Sends a shard to this path, of version 1 or 2, and waits until it is acknowledged.
    pub fn put_shard(&self, path: &str, bytes: &[u8]) -> Result<(), Failed> {
        let answer = self.post(path, bytes)?;
        acknowledged(&answer)?;
        if answer.header("content-type") != Some("application/x-ndjson") {
            return Ok(());
        }
        match last_frame(&answer.body)? {
            Frame::Result { .. } => Ok(()),
            Frame::Error { message, retryable } => {
                Err(Failed::Refused { status: answer.status, retryable, message })
            }
            other => Err(io::Error::other(format!("the last frame is {other:?}")).into()),
        }
    }

    /// Uploads as a client does: every xorb, then the shard.
    pub fn upload(&self, upload: &Upload, shards_path: &str) -> Result<(), Failed> {
        upload.xorbs.iter().try_for_each(|xorb| self.put_xorb(xorb))?;
        self.put_shard(shards_path, &upload.shard())
    }

    /// The bytes of a file, rebuilt from what the server's plan says; nothing if it knows no such file.
    ///
    /// # Panics
    ///
    /// If what the plan says cannot be fetched or does not fit together.
    pub fn file(&self, hash: &FileHash) -> io::Result<Option<Vec<u8>>> {
        let answer = self.get(&format!("/v2/reconstructions/{hash}"))?;
        match answer.status {
            200 => {}
            404 => return Ok(None),
            status => return Err(io::Error::other(format!("{status}: {}", answer.text()))),
        }
        let found: ReconstructionV2 = parse_json(&answer.body).expect("a reconstruction");
        let found: Reconstruction = found.try_into().expect("a sound reconstruction");
        let mut chunks: HashMap<(XorbHash, u32), Vec<u8>> = HashMap::new();
        for (xorb, fetch) in &found.fetches {
            for at in &fetch.ranges {
                let url = fetch.urls[at.url].strip_prefix(&self.base_url).expect("our own server");
                let stored = &at.range.stored_bytes;
                let range = format!("bytes={}-{}", stored.start, stored.end - 1);
                let data = self.http.send("GET", url, &[("range", &range)], RequestBody::Nothing)?;
                if data.status != 206 {
                    return Err(io::Error::other(format!("{}: {}", data.status, data.text())));
                }
                let mut decoder = ChunkDecoder::new();
                let mut reader = ChunkReader::new(&data.body, 0, &mut decoder);
                let mut number = at.range.chunks.start;
                while let Some(chunk) = reader.next_chunk().expect("sound chunks") {
                    chunks.insert((*xorb, number), chunk.raw.to_vec());
                    number += 1;
                }
                assert_eq!(number, at.range.chunks.end, "{hash}");
            }
        }
        let terms = found.terms.iter().flat_map(|term| term.chunks.clone().map(|n| (term.xorb, n)));
        Ok(Some(terms.flat_map(|place| chunks[&place].clone()).collect()))
    }
}

/// The last frame of an answer to a shard, version 2.
pub fn last_frame(body: &[u8]) -> io::Result<Frame> {
    let (mut reader, mut rest, mut last) = (FrameReader::new(), body, None);
    while let Some(frame) = reader.read(&mut rest).map_err(io::Error::other)? {
        last = Some(frame);
    }
    last.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn acknowledged(answer: &Answer) -> Result<(), Failed> {
    match answer.status {
        200 => Ok(()),
        status => {
            let retryable = xet::wire::code::is_retryable(status);
            Err(Failed::Refused { status, retryable, message: answer.text() })
        }
    }
}

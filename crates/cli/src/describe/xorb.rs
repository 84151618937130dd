//! The structure of a xorb.

use std::io::{self, Write};

use serde::Serialize;
use xet::compress::Scheme;
use xet::xorb::{DecodedChunk, Form, ScannedXorb};
use xet::{ChunkHash, XorbHash};

use super::{grouped, hex};

#[derive(Debug, Serialize)]
pub(crate) struct XorbDescription {
    pub(crate) kind: &'static str,
    pub(crate) hash: XorbHash,
    /// Footer version: `none`, `v0` or `v1`.
    pub(crate) footer: &'static str,
    /// The four bytes of the footer that readers ignore, where there is a footer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nonce: Option<String>,
    /// The whole file.
    pub(crate) size: u64,
    /// All chunk records, headers included.
    pub(crate) stored_bytes: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) chunks: Vec<ChunkDescription>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ChunkDescription {
    pub(crate) hash: ChunkHash,
    /// Offset of its header.
    pub(crate) offset: u64,
    /// As stored, without the header.
    pub(crate) stored_bytes: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) scheme: Scheme,
}

impl ChunkDescription {
    pub(crate) fn of(chunk: &DecodedChunk<'_>) -> Self {
        Self {
            hash: chunk.hash,
            offset: chunk.stored.start,
            stored_bytes: chunk.header.stored_len,
            raw_bytes: chunk.header.chunk_len,
            scheme: chunk.header.scheme,
        }
    }
}

impl XorbDescription {
    pub(crate) fn of(scanned: &ScannedXorb, chunks: Vec<ChunkDescription>) -> Self {
        let info = &scanned.info;
        Self {
            kind: "xorb",
            hash: info.hash(),
            footer: match scanned.form {
                Form::Footerless => "none",
                Form::V0 => "v0",
                Form::V1 => "v1",
            },
            nonce: (scanned.form != Form::Footerless).then(|| hex(&scanned.nonce)),
            size: info.stored_bytes() + scanned.form.footer_bytes(info.chunk_count()),
            stored_bytes: info.stored_bytes(),
            raw_bytes: info.raw_bytes(),
            chunks,
        }
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "xorb    {}", self.hash)?;
        writeln!(out, "footer  {}", self.footer)?;
        if let Some(nonce) = self.nonce.as_deref().filter(|nonce| *nonce != "00000000") {
            writeln!(out, "nonce   {nonce}")?;
        }
        let share = 100.0 * self.stored_bytes as f64 / self.raw_bytes as f64;
        let (raw, stored) = (grouped(self.raw_bytes), grouped(self.stored_bytes));
        writeln!(out, "bytes   {raw} raw, {stored} stored ({share:.1} %)")?;
        print_chunks(&self.chunks, out)
    }
}

/// The chunks alone: all there is to say when the rest is damaged.
pub(crate) fn print_chunks(chunks: &[ChunkDescription], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "chunks  {}", chunks.len())?;
    if !chunks.is_empty() {
        writeln!(out, "\n{:>5}  {:>10} {:>8} {:>8}  {:<8} hash", "#", "offset", "stored", "raw", "scheme")?;
    }
    for (i, chunk) in chunks.iter().enumerate() {
        let ChunkDescription { hash, offset, stored_bytes, raw_bytes, scheme } = chunk;
        writeln!(out, "{i:>5}  {offset:>10} {stored_bytes:>8} {raw_bytes:>8}  {scheme:<8} {hash}")?;
    }
    Ok(())
}

//! The structure of a xorb.

use std::io::{self, Write};

use serde::Serialize;
use xet::compress::Scheme;
use xet::xorb::{DecodedChunk, Form, ScannedXorb};
use xet::{ChunkHash, XorbHash};

use super::{grouped, hex};
use crate::output::{CliError, print_json_pretty};

#[derive(Serialize)]
struct XorbJson<'a> {
    kind: &'static str,
    hash: XorbHash,
    footer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    size: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    chunks: &'a [ChunkDescription],
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

/// Prints a xorb, as JSON or as text.
pub(crate) fn print(
    scanned: &ScannedXorb,
    chunks: &[ChunkDescription],
    as_json: bool,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let info = &scanned.info;
    let (hash, stored, raw) = (info.hash(), info.stored_bytes(), info.raw_bytes());
    let footer = match scanned.form {
        Form::Footerless => "none",
        Form::V0 => "v0",
        Form::V1 => "v1",
    };
    // Four bytes of the footer that readers ignore.
    let nonce = (scanned.form != Form::Footerless).then(|| hex(&scanned.nonce));
    if as_json {
        let size = stored + scanned.form.footer_bytes(info.chunk_count());
        let kind = "xorb";
        let value =
            XorbJson { kind, hash, footer, nonce, size, stored_bytes: stored, raw_bytes: raw, chunks };
        return print_json_pretty(out, &value);
    }
    writeln!(out, "xorb    {hash}\nfooter  {footer}")?;
    if let Some(nonce) = nonce.filter(|nonce| nonce != "00000000") {
        writeln!(out, "nonce   {nonce}")?;
    }
    let share = 100.0 * stored as f64 / raw as f64;
    writeln!(out, "bytes   {} raw, {} stored ({share:.1} %)", grouped(raw), grouped(stored))?;
    Ok(print_chunks(chunks, out)?)
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

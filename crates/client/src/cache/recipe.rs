//! File recipe: the terms of a file, stored so that a cached file needs no server.
//!
//! | offset | size | field                                            |
//! |-------:|-----:|--------------------------------------------------|
//! |      0 |    8 | `DRYFILE1`                                       |
//! |      8 |    4 | CRC-32C of the rest                              |
//! |     12 |  44t | terms: xorb hash (32), first chunk, chunk after the last, raw bytes (4 each) |
//!
//! Numbers are little-endian. A recipe that is wrong gives a file of another hash, which is refused.

use xet::cursor::Reader;
use xet::plan::PlanTerm;
use xet::{FormatError, XorbHash};

pub(super) fn encode(terms: &[PlanTerm]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_LEN + 44 * terms.len());
    out.extend(MAGIC);
    out.extend([0; 4]);
    for term in terms {
        out.extend(term.xorb.as_bytes());
        for word in [term.chunks.start, term.chunks.end, term.raw_bytes] {
            out.extend(word.to_le_bytes());
        }
    }
    let sum = crc32c::crc32c(&out[HEAD_LEN..]);
    out[8..HEAD_LEN].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The terms; `None` when the bytes are no recipe.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<PlanTerm>> {
    parse_terms(bytes).ok().flatten()
}

fn parse_terms(bytes: &[u8]) -> Result<Option<Vec<PlanTerm>>, FormatError> {
    let r = &mut Reader::new(bytes);
    let magic: [u8; 8] = r.array("magic")?;
    let sum = r.u32("checksum")?;
    if magic != *MAGIC || crc32c::crc32c(bytes.get(HEAD_LEN..).unwrap_or_default()) != sum {
        return Ok(None);
    }
    let mut terms = Vec::new();
    while r.left() > 0 {
        let xorb = XorbHash::new(r.array("xorb hash")?);
        let chunks = r.u32("first chunk")?..r.u32("last chunk")?;
        let raw_bytes = r.u32("raw bytes")?;
        if chunks.is_empty() {
            return Ok(None);
        }
        terms.push(PlanTerm { xorb, chunks, raw_bytes });
    }
    Ok(Some(terms))
}

const MAGIC: &[u8; 8] = b"DRYFILE1";
const HEAD_LEN: usize = 12;

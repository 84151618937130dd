//! Decompression of one page into exactly as many bytes as its header says, which the caller has found to be few.

use std::io::Read as _;

/// The number of no compression.
pub(super) const PLAIN: i64 = 0;

/// The page's bytes, or why there are none.
pub(super) fn decode(codec: i64, stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    if codec == PLAIN {
        return match stored.len() == raw_bytes {
            true => Ok(stored.to_vec()),
            false => Err("damaged".to_owned()),
        };
    }
    // A page of nulls has no bytes, and some writers do not compress those.
    if raw_bytes == 0 {
        return Ok(Vec::new());
    }
    let mut raw = vec![0; raw_bytes];
    let written = match codec {
        1 if snap::raw::decompress_len(stored).ok() == Some(raw_bytes) => {
            snap::raw::Decoder::new().decompress(stored, &mut raw).ok()
        }
        1 => None,
        2 => flate2::read::MultiGzDecoder::new(stored).read_exact(&mut raw).ok().map(|()| raw_bytes),
        6 => zstd::bulk::decompress_to_buffer(stored, &mut raw).ok(),
        7 => lz4_flex::block::decompress_into(stored, &mut raw).ok(),
        3 => return Err("compressed by LZO".to_owned()),
        4 => return Err("compressed by Brotli".to_owned()),
        5 => return Err("compressed by LZ4 as Hadoop does".to_owned()),
        _ => return Err(format!("compressed by codec {codec}")),
    };
    match written == Some(raw_bytes) {
        true => Ok(raw),
        false => Err("damaged".to_owned()),
    }
}

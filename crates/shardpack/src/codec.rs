//! Codec: the compressions an entry may have, in frames that any stock decoder reads one after another.
//!
//! The levels are fixed, frames carry neither time nor name, and nothing depends on the machine: the same content gives
//! the same bytes.

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use crate::layout::Compression;

/// Level of gzip.
pub(crate) const GZIP_LEVEL: u32 = 6;
/// Level of zstd.
pub(crate) const ZSTD_LEVEL: i32 = 3;

/// Compression method of a writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// Store them as they are.
    #[default]
    None,
    /// Gzip.
    Gzip,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
    /// Zstandard where content type and gain speak for it.
    Auto,
}

impl Method {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Auto => "auto",
        }
    }

    /// Compression that is tried on an entry of that type. Content that is compressed already is left alone whatever the method.
    fn scheme_for(self, content_type: &str) -> Compression {
        match self {
            _ if is_compressed_type(content_type) => Compression::None,
            Self::None => Compression::None,
            Self::Gzip => Compression::Gzip,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd | Self::Auto => Compression::Zstd,
        }
    }

    /// Bytes that must be saved for the compressed form to be worth decoding.
    fn gain_bytes_min(self, file_size: usize) -> usize {
        if self == Self::Auto { file_size / 16 + 1 } else { 1 }
    }
}

/// Offset of a frame in the content, and in the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Offset of its first byte in the content.
    pub content_at: u64,
    /// Offset of the frame in the stored bytes.
    pub stored_at: u64,
}

/// Encoded form of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The frames, when there are more than one.
    pub frames: Vec<Frame>,
}

/// Appends the stored form of `data` to `out`. Content longer than `chunk_bytes` becomes several frames; 0 is no limit.
///
/// A form that is not smaller is taken back: then the data follows as it is, with [`Compression::None`].
pub fn encode(
    method: Method,
    content_type: &str,
    data: &[u8],
    chunk_bytes: usize,
    out: &mut Vec<u8>,
) -> io::Result<(Compression, Encoded)> {
    let start = out.len();
    let scheme = method.scheme_for(content_type);
    let mut encoded = Encoded::default();
    if scheme != Compression::None && !data.is_empty() {
        let chunk_bytes = if chunk_bytes == 0 { data.len() } else { chunk_bytes };
        let mut content_at = 0_u64;
        for chunk in data.chunks(chunk_bytes) {
            encoded.frames.push(Frame { content_at, stored_at: (out.len() - start) as u64 });
            encode_frame(scheme, chunk, out)?;
            content_at += chunk.len() as u64;
        }
        if encoded.frames.len() == 1 {
            encoded.frames.clear();
        }
        if (out.len() - start).saturating_add(method.gain_bytes_min(data.len())) <= data.len() {
            return Ok((scheme, encoded));
        }
        out.truncate(start);
    }
    out.extend_from_slice(data);
    Ok((Compression::None, Encoded::default()))
}

/// The content that `stored` is the form of: `file_size` bytes, or the reason why not.
///
/// Memory grows with what is really there: `file_size` caps it and does not size it beyond a megabyte.
pub fn decode(compression: Compression, stored: &[u8], file_size: u64) -> Result<Vec<u8>, String> {
    let content = match compression {
        Compression::None => Ok(stored.to_vec()),
        Compression::Gzip => read_up_to(MultiGzDecoder::new(stored), file_size),
        Compression::Lz4 => read_up_to(Lz4Frames::new(stored), file_size),
        Compression::Zstd => decode_zstd(stored, file_size),
        Compression::Unknown(code) => return Err(format!("compression {code} is not known to this version")),
    };
    let content =
        content.map_err(|error| format!("{} data cannot be decoded: {error}", compression.name()))?;
    let found = content.len() as u64;
    if found == file_size {
        return Ok(content);
    }
    let more = if found > file_size { "more than " } else { "" };
    let reported = found.min(file_size);
    Err(format!("content should have {file_size} bytes, found {more}{reported}"))
}

/// Whether content of this type is compressed by its own format.
pub(crate) fn is_compressed_type(content_type: &str) -> bool {
    const ALWAYS: [&str; 12] = [
        "application/gzip",
        "application/pdf",
        "application/vnd.apache.parquet",
        "application/x-7z-compressed",
        "application/x-bzip2",
        "application/x-npz",
        "application/x-xz",
        "application/zip",
        "application/zstd",
        "audio/flac",
        "audio/mpeg",
        "audio/ogg",
    ];
    const OPEN_IMAGES: [&str; 5] =
        ["image/bmp", "image/svg+xml", "image/tiff", "image/x-portable-anymap", "image/x-exr"];
    ALWAYS.contains(&content_type)
        || content_type.starts_with("video/")
        || (content_type.starts_with("image/") && !OPEN_IMAGES.contains(&content_type))
}

fn encode_frame(scheme: Compression, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match scheme {
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
            encoder.write_all(chunk)?;
            encoder.finish()?;
        }
        Compression::Lz4 => {
            let block_size = match chunk.len() {
                0..=0x1_0000 => BlockSize::Max64KB,
                0x1_0001..=0x4_0000 => BlockSize::Max256KB,
                0x4_0001..=0x10_0000 => BlockSize::Max1MB,
                _ => BlockSize::Max4MB,
            };
            let info = FrameInfo::new()
                .block_size(block_size)
                .block_mode(BlockMode::Independent)
                .content_size(Some(chunk.len() as u64));
            let mut encoder = FrameEncoder::with_frame_info(info, out);
            encoder.write_all(chunk)?;
            encoder.finish().map_err(io::Error::other)?;
        }
        Compression::Zstd => {
            // One call: the frame states its content size, and its window is no larger.
            let frame = zstd::bulk::compress(chunk, ZSTD_LEVEL)?;
            out.extend_from_slice(&frame);
        }
        Compression::None | Compression::Unknown(_) => out.extend_from_slice(chunk),
    }
    Ok(())
}

fn decode_zstd(stored: &[u8], file_size: u64) -> io::Result<Vec<u8>> {
    match usize::try_from(file_size) {
        // Faster than a stream, and harmless however large the lie.
        Ok(small) if small <= EAGER_BYTES_MAX => zstd::bulk::decompress(stored, small),
        _ => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(stored)?;
            // A window larger than the content is never needed.
            let log = u64::BITS - file_size.leading_zeros();
            decoder.window_log_max(log.clamp(10, 27))?;
            read_up_to(decoder, file_size)
        }
    }
}

/// Reads `file_size` bytes and one more, by which a caller sees that there is too much.
fn read_up_to(from: impl Read, file_size: u64) -> io::Result<Vec<u8>> {
    let room = usize::try_from(file_size).unwrap_or(usize::MAX).min(EAGER_BYTES_MAX);
    let mut content = Vec::with_capacity(room);
    from.take(file_size.saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

/// Several LZ4 frames read as one: the decoder itself stops after each.
struct Lz4Frames<'a> {
    frame: FrameDecoder<&'a [u8]>,
}

impl<'a> Lz4Frames<'a> {
    fn new(stored: &'a [u8]) -> Self {
        Self { frame: FrameDecoder::new(stored) }
    }
}

impl Read for Lz4Frames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let rest = *self.frame.get_ref();
            if rest.is_empty() {
                return Ok(0);
            }
            self.frame = FrameDecoder::new(rest);
        }
    }
}

/// Bytes that may be reserved before a single byte was decoded.
const EAGER_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMES: [(Method, Compression); 4] = [
        (Method::Gzip, Compression::Gzip),
        (Method::Lz4, Compression::Lz4),
        (Method::Zstd, Compression::Zstd),
        (Method::Auto, Compression::Zstd),
    ];

    fn text(len: usize) -> Vec<u8> {
        b"a stone in the field, ".iter().copied().cycle().take(len).collect()
    }

    #[test]
    fn every_scheme_gives_back_what_it_took_in_one_frame_and_in_many() {
        let mut lens = vec![1000, 70_000, 3_000_000];
        lens.extend([65_536, 1 << 20]);
        for (method, scheme) in SCHEMES {
            for &len in &lens {
                for chunk_bytes in [0, 1000, 65_536, 5 << 20] {
                    let data = text(len);
                    let mut stored = b"before".to_vec();
                    let (found, encoded) =
                        encode(method, "text/plain", &data, chunk_bytes, &mut stored).unwrap();
                    assert_eq!(found, scheme, "{method:?} {len} {chunk_bytes}");
                    let frames = if chunk_bytes == 0 { 1 } else { len.div_ceil(chunk_bytes) };
                    assert_eq!(encoded.frames.len(), if frames == 1 { 0 } else { frames });
                    let content = decode(scheme, &stored[6..], len as u64).unwrap();
                    assert_eq!(content, data, "{method:?} {len} {chunk_bytes}");
                    // A frame is a whole: reading may begin at any of them.
                    if let Some(frame) = encoded.frames.get(1) {
                        let rest = &stored[6 + frame.stored_at as usize..];
                        let content = decode(scheme, rest, len as u64 - frame.content_at).unwrap();
                        assert_eq!(content, data[frame.content_at as usize..]);
                    }
                    let mut again = b"before".to_vec();
                    encode(method, "text/plain", &data, chunk_bytes, &mut again).unwrap();
                    assert_eq!(again, stored, "the same bytes every time");
                }
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_stored_as_it_is() {
        let noise: Vec<u8> = blake3::Hasher::new().finalize_xof().take_bytes(5000);
        for method in [Method::None, Method::Gzip, Method::Lz4, Method::Zstd, Method::Auto] {
            for data in [noise.as_slice(), b"", b"x"] {
                let mut stored = Vec::new();
                let (found, _) = encode(method, "text/plain", data, 0, &mut stored).unwrap();
                assert_eq!((found, stored.as_slice()), (Compression::None, data), "{method:?}");
            }
            let mut stored = Vec::new();
            let (found, _) = encode(method, "image/jpeg", &text(5000), 0, &mut stored).unwrap();
            assert_eq!(found, Compression::None, "compressed by its own format");
        }
    }

    #[test]
    fn a_size_that_is_not_that_of_the_content_is_refused() {
        for (method, scheme) in SCHEMES {
            for len in [5000, 2_500_000] {
                let mut stored = Vec::new();
                encode(method, "text/plain", &text(len), 65_536, &mut stored).unwrap();
                for lie in [0, 1, len as u64 - 1, len as u64 + 1, u64::MAX / 2, u64::MAX] {
                    assert!(decode(scheme, &stored, lie).is_err(), "{method:?} {len} {lie}");
                }
                // The last four bytes of an LZ4 frame say only that it is over.
                for cut in [0, 1, 10, stored.len() - 8] {
                    assert!(decode(scheme, &stored[..cut], len as u64).is_err(), "{method:?} cut to {cut}");
                }
            }
        }
        assert!(decode(Compression::Unknown(9), b"", 0).unwrap_err().contains('9'));
    }

    trait Take {
        fn take_bytes(self, len: usize) -> Vec<u8>;
    }

    impl Take for blake3::OutputReader {
        fn take_bytes(mut self, len: usize) -> Vec<u8> {
            let mut bytes = vec![0; len];
            self.fill(&mut bytes);
            bytes
        }
    }
}

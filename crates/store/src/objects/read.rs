//! Objects as streams: large pieces of local files, and a check that all of a range came.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use crate::error::{Error, ErrorKind, Result};

/// Bytes read from a file at once. The library's own stream takes 8 KiB, each by way of another thread.
const PIECE_BYTES: u64 = 512 * 1024;

/// A range of a file. The file is read while somebody asks for more, one piece at a time.
pub(super) fn file(key: String, file: File, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
    let pieces = stream::try_unfold((file, range), move |(mut file, range)| {
        let failed = format!("read {key}");
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let read = move || {
                let mut piece = Vec::new();
                file.seek(SeekFrom::Start(range.start))?;
                file.by_ref().take((range.end - range.start).min(PIECE_BYTES)).read_to_end(&mut piece)?;
                Ok((file, range, piece))
            };
            let read: std::io::Result<_> = tokio::task::spawn_blocking(read)
                .await
                .map_err(|source| Error::caused(ErrorKind::Internal, failed.clone(), source))?;
            let (file, range, piece) =
                read.map_err(|source| Error::caused(ErrorKind::Unavailable, failed, source))?;
            // A file cut short since it was opened: whoever counts the bytes will say so.
            let end = if piece.is_empty() { range.start } else { range.end };
            let rest = range.start + piece.len() as u64..end;
            Ok(Some((Bytes::from(piece), (file, rest))))
        }
    });
    pieces.boxed()
}

/// The pieces of a range, and an error where they end too early.
pub(super) fn whole(
    key: String,
    range: Range<u64>,
    pieces: BoxStream<'static, Result<Bytes>>,
) -> BoxStream<'static, Result<Bytes>> {
    let wanted = range.end - range.start;
    let counted = stream::try_unfold((pieces, wanted), move |(mut pieces, left)| {
        let short = Error::new(ErrorKind::Corrupt, format!("read {key}: {range:?} passes its end"));
        async move {
            match pieces.try_next().await? {
                Some(piece) => {
                    let left = left.checked_sub(piece.len() as u64).ok_or(short)?;
                    Ok(Some((piece, (pieces, left))))
                }
                None if left == 0 => Ok(None),
                None => Err(short),
            }
        }
    });
    counted.boxed()
}

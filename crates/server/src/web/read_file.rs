//! Bytes of files for pages: by ranges, within the memory that answers share, never a whole large file.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use store::content::stream_bytes;
use store::hub::{Item, RepoRow};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::hub::request::HubRequest;
use crate::web::visit::Visit;

/// A range of a file that lies in it. What git has is one object of at most 10 MiB, and is read as one.
pub(super) async fn read(
    visit: &Visit,
    repo: &RepoRow,
    item: &Item,
    range: Range<u64>,
) -> Result<Bytes, ApiError> {
    let needed = range.end.saturating_sub(range.start);
    let Some(linked) = &item.linked else {
        let gone = || ApiError::new(ErrorCode::Corrupt, "the file's row is gone");
        let row = item.row.as_ref().ok_or_else(gone)?;
        let _permit = visit.state.answers.acquire((2 * row.bytes).max(1)).await?;
        let body = visit.store.hub().git_body(repo.id, row).await?;
        let span = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let span = span.filter(|(start, end)| start <= end && *end <= body.len());
        let (start, end) = span.ok_or_else(|| ApiError::invalid("the range is not in the file"))?;
        return Ok(body.slice(start..end));
    };
    if needed == 0 {
        return Ok(Bytes::new());
    }
    let _permit = visit.state.answers.acquire(stream_bytes(needed).saturating_add(needed)).await?;
    let grant = HubRequest::grant(repo)?;
    let mut pieces = visit.store.content().read_file(&grant, linked.file, range).await?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.try_next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

//! Files as they are: one request for each, gone on with where it broke off, and verified.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;

use futures::StreamExt as _;

use super::super::digest::Expected;
use super::super::{Entry, Hub, Repo};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// Writes a file under a name of its own.
pub(super) async fn fetch(
    hub: &Hub,
    repo: &Repo,
    revision: &str,
    entry: &Entry,
    staged: &Path,
    progress: &Progress,
) -> Result<()> {
    let named = |error| Error::io(staged, error);
    let mut file = File::create(staged).map_err(named)?;
    progress.total_bytes.add(entry.bytes);
    let write = |piece: &[u8]| {
        progress.done_bytes.add(piece.len() as u64);
        progress.wire_bytes.add(piece.len() as u64);
        file.write_all(piece).map_err(named)
    };
    read(hub, repo, revision, entry, 0..entry.bytes, write).await.map(|_| ())
}

/// Gives a file its name; folders are made.
pub(super) fn name(staged: &Path, target: &Path) -> Result<()> {
    let moved = match fs::rename(staged, target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = target.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(parent).and_then(|()| fs::rename(staged, target))
        }
        moved => moved,
    };
    moved.map_err(|error| Error::io(target, error))
}

/// Hands bytes of a file to `write` as they come, in order, and tells how many. A whole file is compared with its digest.
pub(super) async fn read(
    hub: &Hub,
    repo: &Repo,
    revision: &str,
    entry: &Entry,
    range: Range<u64>,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let is_whole = range == (0..entry.bytes);
    let mut check = Expected::of(entry).check();
    let mut at = range.start;
    let retry = &hub.http.options.retry;
    let mut attempt = 1;
    while at < range.end {
        let before = at;
        let mut go_on = async || {
            let mut pieces = hub.read(repo, revision, &entry.path, at..range.end).await?;
            while let Some(piece) = pieces.next().await {
                let piece = piece?;
                check.update(&piece);
                write(&piece)?;
                at += piece.len() as u64;
            }
            Ok(())
        };
        if let Err(error) = go_on().await {
            attempt = if at > before { 1 } else { attempt };
            let Some(wait) = retry.pause(attempt, &error) else { return Err(error) };
            tokio::time::sleep(wait).await;
            hub.http.retries.add(1);
            attempt += 1;
        }
    }
    if is_whole && !check.finish() {
        let message =
            format!("{}: what the hub delivers has another digest than it says; pull it again", entry.path);
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    Ok(at - range.start)
}

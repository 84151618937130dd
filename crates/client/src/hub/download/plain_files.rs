//! Plain files, not in the content store: one request for each, resumed where it broke off, and verified.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::Path;

use futures::StreamExt as _;

use super::super::digest::Expected;
use super::super::{Entry, Hub, RepoName};
use crate::cache::Cache;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// Writes a file under a name of its own.
pub(super) async fn fetch(
    hub: &Hub,
    repo: &RepoName,
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
        file.write_all(piece).map_err(named)
    };
    match read(hub, repo, revision, entry, 0..entry.bytes, write).await? {
        ReadBytes::Fetched(bytes) => progress.wire_bytes.add(bytes),
        ReadBytes::Cached(bytes) => progress.known_bytes.add(bytes),
    }
    Ok(())
}

/// Bytes read, by where they came from.
pub(super) enum ReadBytes {
    Fetched(u64),
    Cached(u64),
}

impl ReadBytes {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Fetched(bytes) | Self::Cached(bytes) => *bytes,
        }
    }
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

/// Hands bytes of a file to `write` as they come, in order. A whole file is compared with its digest, and
/// kept where there is a cache.
pub(super) async fn read(
    hub: &Hub,
    repo: &RepoName,
    revision: &str,
    entry: &Entry,
    range: Range<u64>,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<ReadBytes> {
    let is_whole = range == (0..entry.bytes);
    let blob = blob_name(entry).zip(hub.answers.as_ref().map(|answers| &answers.cache));
    if let Some((name, cache)) = &blob
        && let Some(content) = find_blob(cache, name, entry)
    {
        let part = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let part = part.and_then(|(start, end)| content.get(start..end)).unwrap_or_default();
        write(part)?;
        return Ok(ReadBytes::Cached(part.len() as u64));
    }
    if hub.is_offline() && !range.is_empty() {
        let message = format!("{}: is not in the cache; pull it once without --offline", entry.path);
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let mut writer = blob.filter(|_| is_whole).and_then(|(name, cache)| cache.store_blob(&name));
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
                if let Some(writer) = &mut writer {
                    writer.write(&piece);
                }
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
    if let Some(writer) = writer {
        writer.finish();
    }
    Ok(ReadBytes::Fetched(at - range.start))
}

/// Cache key of a file: its digest. Files without one, and large files, are not cached.
fn blob_name(entry: &Entry) -> Option<String> {
    let name = match Expected::of(entry) {
        Expected::Sha256(sha256) => sha256.to_string(),
        Expected::Blob(oid, _) => oid,
        Expected::Anything => return None,
    };
    let is_name = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_name && (1..=BLOB_BYTES_MAX).contains(&entry.bytes)).then_some(name)
}

/// A file of the cache, if it is there and right.
fn find_blob(cache: &Cache, name: &str, entry: &Entry) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    cache.blob(name)?.take(entry.bytes + 1).read_to_end(&mut content).ok()?;
    let mut check = Expected::of(entry).check();
    check.update(&content);
    if content.len() as u64 != entry.bytes || !check.finish() {
        cache.forget_blob(name);
        return None;
    }
    Some(content)
}

/// Hubs keep files up to this length as they are; longer ones are chunks.
const BLOB_BYTES_MAX: u64 = 10 << 20;

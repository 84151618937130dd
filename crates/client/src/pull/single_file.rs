//! Single file: resumes from what is on the disk, fetches the rest, verifies, and renames.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xet::FileHash;

use super::engine::{Engine, FileState, MissingRange};
use super::old_version::OldVersion;
use super::planner::{ChunkList, Recipe, TARGET_UNCHANGED, chunk_list, hash_mismatch, keep_recipe, refetch};
use super::writer::{Expected, PartFile, remove_leftover};
use super::{FileRequest, Pulled, Puller};
use crate::cut::CutOptions;
use crate::error::{Error, ErrorKind, Result};

type Parts = Arc<Vec<PartFile>>;

pub(super) async fn pull(puller: &Puller, request: &FileRequest) -> Result<Pulled> {
    let target = place_of(&request.target)?;
    let old = match puller.options.reuse && target.is_file() {
        true => Some(read_old_version(puller, request.file, &target).await?),
        false => None,
    };
    if let Some((old, _)) = &old
        && old.hash == request.file
    {
        puller.progress.files.add(1);
        puller.progress.leftovers.add(u64::from(remove_leftover(&target)));
        return Ok(Pulled { bytes: old.bytes, unchanged: true });
    }
    let parts = open(puller, request.file, target.clone()).await?;
    let mut size = None;
    if let Some((old, Some(list))) = old {
        size = Some(list.iter().map(|(_, bytes)| u64::from(*bytes)).sum());
        parts[0].expect(Expected::new(&list));
        copy(puller, &old, &list, &target, &parts).await?;
    }
    let mut state = [fill(puller, request.file, &parts, size).await?];
    if !is_right(&parts, &state) {
        refetch(puller, &parts, &mut state, &[0]).await;
    }
    let [mut state] = state;
    if let Some(error) = parts[0].take_error().or(state.error.take()) {
        return Err(error);
    }
    let Some(bytes) = state.size.filter(|size| parts[0].is_right(*size)) else {
        // No later pull could go on with this.
        parts[0].forget()?;
        return Err(hash_mismatch(&request.file, TARGET_UNCHANGED));
    };
    let (sync, sha256) = (puller.options.sync, request.sha256);
    puller.pool.run(move || parts[0].finish(bytes, sync, sha256)).await??;
    puller.progress.files.add(1);
    Ok(Pulled { bytes, unchanged: false })
}

fn is_right(parts: &Parts, [state]: &[FileState; 1]) -> bool {
    state.size.is_some_and(|size| parts[0].is_right(size))
}

pub(super) async fn pull_sparse(
    puller: &Puller,
    file: FileHash,
    ranges: &[Range<u64>],
    target: &Path,
) -> Result<u64> {
    let parts = open(puller, file, place_of(target)?).await?;
    if let Some(list) = chunk_list(puller, file).await? {
        parts[0].expect(Expected::new(&list));
    }
    let mut engine = Engine::new(puller, [file], parts.clone());
    for range in ranges {
        engine.want(MissingRange::new(0, range.clone()));
    }
    let size = run(&mut engine, &parts).await?.size;
    let reached = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let size = size.map_or(reached, |size| size.min(reached));
    let (parts, sync) = (parts.clone(), puller.options.sync);
    puller.pool.run(move || parts[0].finish(size, sync, None)).await??;
    Ok(size)
}

/// Resolves a target: behind a link, the file it points to, existing or not. Only regular files are ever replaced.
pub(crate) fn place_of(target: &Path) -> Result<PathBuf> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::Invalid, format!("{}: {why}", target.display())));
    match target.metadata() {
        Ok(found) if found.is_dir() => refuse("is a directory; name a file in it"),
        Ok(found) if !found.is_file() => refuse("is no regular file; write to standard output instead"),
        Ok(_) => target.canonicalize().map_err(|error| Error::io(target, error)),
        Err(_) if target.file_name().is_none() => refuse("names no file"),
        Err(_) => Ok(behind_links(target)),
    }
}

/// Target of a dangling link.
fn behind_links(target: &Path) -> PathBuf {
    let mut place = target.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&place) {
            Ok(link) => place = place.parent().unwrap_or(Path::new("")).join(link),
            Err(_) => break,
        }
    }
    place
}

/// The chunks of the target, and those of the request file, if the hub lists them.
async fn read_old_version(
    puller: &Puller,
    file: FileHash,
    target: &Path,
) -> Result<(OldVersion, Option<ChunkList>)> {
    let list = chunk_list(puller, file).await?;
    let options = CutOptions { threads: puller.options.threads, sha256: false };
    let path = target.to_owned();
    let cut = move || {
        let old = OldVersion::cut(&path, list.as_deref().unwrap_or_default(), &options);
        old.map(|old| (old, list))
    };
    puller.pool.run(cut).await?
}

/// The part of a file, with whatever an earlier pull left in it and proved to be right.
async fn open(puller: &Puller, file: FileHash, target: PathBuf) -> Result<Parts> {
    let (part, claims) = puller.pool.run(move || PartFile::open(file, target)).await??;
    puller.progress.leftovers.add(part.leftovers());
    puller.progress.resumed_files.add(u64::from(!claims.is_empty()));
    let parts = Arc::new(vec![part]);
    let mut jobs = Vec::new();
    for claim in claims {
        let parts = parts.clone();
        let verify = move || match parts[0].verify(&claim) {
            Ok(bytes) => (bytes, Ok(())),
            Err(error) => (0, Err(error)),
        };
        jobs.push(puller.pool.start(verify).await);
        if jobs.len() >= 64 {
            collect(puller, &mut jobs).await?;
        }
    }
    collect(puller, &mut jobs).await?;
    Ok(parts)
}

async fn collect(puller: &Puller, jobs: &mut Vec<tokio::task::JoinHandle<(u64, Result<()>)>>) -> Result<()> {
    for job in jobs.drain(..) {
        let (bytes, result) = super::cpu_pool::join(job).await?;
        result?;
        puller.progress.done_bytes.add(bytes);
        puller.progress.total_bytes.add(bytes);
        puller.progress.reused_bytes.add(bytes);
    }
    Ok(())
}

/// Copies what the old file has.
async fn copy(puller: &Puller, old: &OldVersion, list: &ChunkList, path: &Path, parts: &Parts) -> Result<()> {
    let file = Arc::new(File::open(path).map_err(|error| Error::io(path, error))?);
    let mut jobs = Vec::new();
    for copy in old.copies(list) {
        let (file, path, parts) = (file.clone(), path.to_owned(), parts.clone());
        let work = move || match copy.run(&path, &file, &*parts) {
            Ok(bytes) => (bytes, Ok(())),
            Err(error) => (0, Err(error)),
        };
        jobs.push(puller.pool.start(work).await);
        if jobs.len() >= 64 {
            collect(puller, &mut jobs).await?;
        }
    }
    collect(puller, &mut jobs).await
}

/// Fetches whatever is missing, from the cache and from the hub; returns the file's state without an error.
async fn fill(
    puller: &Puller,
    file: FileHash,
    parts: &Parts,
    mut known_size: Option<u64>,
) -> Result<FileState> {
    let mut engine = Engine::new(puller, [file], parts.clone());
    match Recipe::find(puller, &file) {
        Some(recipe) => {
            engine.want_cached(puller, &recipe, 0, &parts[0].missing(recipe.size()));
            known_size = Some(recipe.size());
        }
        None => engine.want_ranges(0, parts[0].missing(known_size.unwrap_or(u64::MAX))),
    }
    let mut state = run(&mut engine, parts).await?;
    if let (Some(cache), Some(size), None) = (&puller.cache, state.size, known_size) {
        keep_recipe(cache, &file, size, std::mem::take(&mut state.terms));
    }
    state.size = known_size.or(state.size);
    Ok(state)
}

/// Runs the engine; an error of the file or of the disk is the result.
async fn run(engine: &mut Engine<'_>, parts: &Parts) -> Result<FileState> {
    let state = engine.run().await.pop();
    if let Some(error) = parts[0].take_error() {
        return Err(error);
    }
    let mut state = state.ok_or_else(|| Error::new(ErrorKind::Internal, "no file was pulled"))?;
    state.error.take().map_or(Ok(state), Err)
}

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;

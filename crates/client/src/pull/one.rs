//! One file, from what is there of it already to its name.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xet::plan::PlanTerm;
use xet::{ChunkHash, FileHash};

use super::decode::Use;
use super::engine::{Engine, Todo};
use super::fetch::Unit;
use super::source::Old;
use super::write::{Expected, Part, remove_leftover};
use super::{Pulled, Puller, Wanted};
use crate::cut::CutOptions;
use crate::error::{Error, ErrorKind, Result};

type Parts = Arc<Vec<Part>>;
type ChunkList = Vec<(ChunkHash, u32)>;

pub(super) async fn pull(puller: &Puller, wanted: &Wanted) -> Result<Pulled> {
    let target = place_of(&wanted.target)?;
    let old = match puller.options.reuse && target.is_file() {
        true => Some(look_at(puller, wanted.file, &target).await?),
        false => None,
    };
    if let Some((old, _)) = &old
        && old.hash == wanted.file
    {
        puller.progress.files.add(1);
        puller.progress.leftovers.add(u64::from(remove_leftover(&target)));
        return Ok(Pulled { bytes: old.bytes, unchanged: true });
    }
    let parts = open(puller, wanted.file, target.clone()).await?;
    let mut size = None;
    if let Some((old, Some(list))) = old {
        size = Some(list.iter().map(|(_, bytes)| u64::from(*bytes)).sum());
        parts[0].expect(Expected::new(&list));
        copy(puller, &old, &list, &target, &parts).await?;
    }
    let size = fill(puller, wanted.file, &parts, size).await?;
    let size = match size {
        Some(size) if parts[0].is_right(size) => size,
        _ => repair(puller, wanted.file, &parts).await?,
    };
    finish(puller, &parts, size, wanted).await?;
    puller.progress.files.add(1);
    Ok(Pulled { bytes: size, unchanged: false })
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
        engine.want(Todo::new(0, range.clone()));
    }
    let size = run(&mut engine, &parts).await?;
    let reached = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let size = size.map_or(reached, |size| size.min(reached));
    let (parts, sync) = (parts.clone(), puller.options.sync);
    let settle = move || parts[0].settle(size, sync).and_then(|()| parts[0].rename(sync));
    puller.pool.run(settle).await??;
    Ok(size)
}

/// Where a target really is: behind a link, the file it points to, there or not. Only regular files are ever replaced.
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

/// What a link without a target points to.
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

/// What the target has, and what the wanted file is made of, if the hub tells.
async fn look_at(puller: &Puller, file: FileHash, target: &Path) -> Result<(Old, Option<ChunkList>)> {
    let list = chunk_list(puller, file).await?;
    let options = CutOptions { threads: puller.options.threads, sha256: false };
    let path = target.to_owned();
    let cut = move || {
        let old = Old::cut(&path, list.as_deref().unwrap_or_default(), &options);
        old.map(|old| (old, list))
    };
    puller.pool.run(cut).await?
}

/// The chunks of a file, where the hub tells and tells the truth.
pub(super) async fn chunk_list(puller: &Puller, file: FileHash) -> Result<Option<ChunkList>> {
    let Some(cas) = &puller.cas else { return Ok(None) };
    let list = cas.chunk_list(file).await?;
    Ok(list.filter(|list| {
        xet::merkle::file_hash(list.iter().map(|(hash, bytes)| (*hash, u64::from(*bytes)))) == file
    }))
}

/// The part of a file, with whatever an earlier pull left in it and proved to be right.
async fn open(puller: &Puller, file: FileHash, target: PathBuf) -> Result<Parts> {
    let (part, claims) = puller.pool.run(move || Part::open(file, target)).await??;
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
        let (bytes, result) = super::pool::join(job).await?;
        result?;
        puller.progress.done_bytes.add(bytes);
        puller.progress.total_bytes.add(bytes);
        puller.progress.reused_bytes.add(bytes);
    }
    Ok(())
}

/// Copies what the old file has.
async fn copy(puller: &Puller, old: &Old, list: &ChunkList, path: &Path, parts: &Parts) -> Result<()> {
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

/// Gets whatever is missing, from the cache and from the hub; returns the length of the file as far as it was seen.
async fn fill(
    puller: &Puller,
    file: FileHash,
    parts: &Parts,
    mut known_size: Option<u64>,
) -> Result<Option<u64>> {
    let mut engine = Engine::new(puller, [file], parts.clone());
    let recipe = puller.cache.as_ref().and_then(|cache| cache.recipe(&file));
    match recipe {
        Some(terms) => {
            let size = terms.iter().map(|term| u64::from(term.raw_bytes)).sum();
            let missing = parts[0].missing(size);
            let (units, todo) = from_recipe(puller, &terms, &missing);
            engine.push(units);
            todo.into_iter().for_each(|range| engine.want(Todo::new(0, range)));
            known_size = Some(size);
        }
        None => {
            let missing = parts[0].missing(known_size.unwrap_or(u64::MAX));
            merged(missing).into_iter().for_each(|range| engine.want(Todo::new(0, range)));
        }
    }
    let (size, terms) = run_for_terms(&mut engine, parts).await?;
    let size = known_size.or(size);
    if let (Some(cache), Some(size), None) = (&puller.cache, size, known_size) {
        keep_recipe(cache, &file, size, terms);
    }
    Ok(size)
}

/// What the cache has of the terms that are missing, and the ranges it has not.
pub(super) fn from_recipe(
    puller: &Puller,
    terms: &[PlanTerm],
    missing: &[Range<u64>],
) -> (Vec<Unit>, Vec<Range<u64>>) {
    let (mut units, mut rest): (Vec<Unit>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
    let mut at = 0;
    for term in terms {
        let bytes = at..at + u64::from(term.raw_bytes);
        at = bytes.end;
        let is_missing = |range: &Range<u64>| range.start < bytes.end && bytes.start < range.end;
        let is_cached =
            || puller.cache.as_ref().is_some_and(|cache| cache.has(&term.xorb, term.chunks.clone()));
        if missing.iter().any(is_missing) && is_cached() {
            puller.progress.total_bytes.add(bytes.end - bytes.start);
            units.push(Unit {
                xorb: term.xorb,
                chunks: term.chunks.clone(),
                stored: 0..u64::from(term.raw_bytes),
                url: None,
                uses: vec![Use { file: 0, chunks: term.chunks.clone(), bytes, failures: 0 }],
            });
            continue;
        }
        for range in missing.iter().filter(|range| is_missing(range)) {
            rest.push(range.start.max(bytes.start)..range.end.min(bytes.end));
        }
    }
    (units, merged(rest))
}

/// Ranges that touch, joined; and, where there are very many, those that are close.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut gap = 0;
    let mut ranges = join(ranges, gap);
    while ranges.len() > RANGES_MAX {
        gap = (2 * gap).max(64 * 1024);
        ranges = join(ranges, gap);
    }
    ranges
}

fn join(ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

async fn run(engine: &mut Engine<'_>, parts: &Parts) -> Result<Option<u64>> {
    Ok(run_for_terms(engine, parts).await?.0)
}

async fn run_for_terms(
    engine: &mut Engine<'_>,
    parts: &Parts,
) -> Result<(Option<u64>, Vec<(u64, PlanTerm)>)> {
    let state = engine.run().await.pop();
    if let Some(error) = parts[0].take_error() {
        return Err(error);
    }
    match state {
        Some(state) => match state.error {
            Some(error) => Err(error),
            None => Ok((state.size, state.terms)),
        },
        None => Ok((None, Vec::new())),
    }
}

pub(super) fn keep_recipe(
    cache: &crate::cache::Cache,
    file: &FileHash,
    size: u64,
    mut terms: Vec<(u64, PlanTerm)>,
) {
    terms.sort_by_key(|(at, _)| *at);
    let mut reached = 0;
    let is_whole = terms.iter().all(|(at, term)| {
        let follows = *at == reached;
        reached += u64::from(term.raw_bytes);
        follows
    });
    if is_whole && reached == size {
        let terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
        cache.keep_recipe(file, &terms);
    }
}

/// All bytes are there and are not the file. Gets again what is wrong if the hub tells what that is, or else everything, once.
async fn repair(puller: &Puller, file: FileHash, parts: &Parts) -> Result<u64> {
    let wrong = || {
        let message = format!(
            "file {file}: what the hub delivers has another hash; the target was not touched. Ask the hub's keeper to verify it"
        );
        Error::new(ErrorKind::Corrupt, message)
    };
    let Some(_) = &puller.cas else { return Err(wrong()) };
    puller.progress.retries.add(1);
    let list = chunk_list(puller, file).await?;
    let ranges = match list {
        Some(list) => {
            let size = list.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
            let expected = Expected::new(&list);
            parts[0].keep_only(&expected);
            parts[0].expect(expected);
            parts[0].missing(size)
        }
        None => {
            parts[0].forget()?;
            std::iter::once(0..u64::MAX).collect()
        }
    };
    let mut engine = Engine::new(puller, [file], parts.clone());
    let end = ranges.last().map_or(0, |range| range.end);
    merged(ranges).into_iter().for_each(|range| engine.want(Todo::new(0, range)));
    let seen = run(&mut engine, parts).await?;
    let size = seen.unwrap_or(end).max(parts[0].reached());
    if parts[0].is_right(size) {
        return Ok(size);
    }
    // Nobody could go on with this.
    parts[0].forget()?;
    Err(wrong())
}

async fn finish(puller: &Puller, parts: &Parts, size: u64, wanted: &Wanted) -> Result<()> {
    let (parts, sync, sha256) = (parts.clone(), puller.options.sync, wanted.sha256);
    let finish = move || {
        let part = &parts[0];
        part.settle(size, sync)?;
        if let Some(sha256) = sha256 {
            part.check_sha256(sha256)?;
        }
        part.rename(sync)
    };
    puller.pool.run(finish).await?
}

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;
/// So many ranges of one file are planned one by one.
const RANGES_MAX: usize = 4096;

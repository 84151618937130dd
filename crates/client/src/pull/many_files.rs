//! Many files: planned together, each range fetched once for all that use it, verified and renamed together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use xet::plan::PlanTerm;
use xet::wire::Reconstruction;
use xet::{FileHash, Sha256, limits};

use super::engine::{Engine, FileState, MissingRange, units};
use super::planner::{Recipe, TARGET_UNCHANGED, hash_mismatch, keep_recipe, refetch};
use super::single_file;
use super::writer::{PartFile, StagingDir, remove_leftover};
use super::{FileRequest, Pulled, Puller};
use crate::cut::{self, CutFile, CutOptions};
use crate::error::{Error, ErrorKind, Result};

type Outcome = (usize, Result<Pulled>);

pub(super) async fn pull(
    puller: &Puller,
    requests: &[FileRequest],
    root: &Path,
    each: &mut (dyn FnMut(usize, Result<Pulled>) + Send),
) -> Result<()> {
    let stage = Arc::new(StagingDir::new(root)?);
    puller.progress.leftovers.add(stage.removed());
    let FilesBySize { unchanged, small, mut large } = sort_by_size(puller, requests).await?;
    for (place, bytes) in unchanged {
        puller.progress.files.add(1);
        if let Some(request) = requests.get(place) {
            puller.progress.leftovers.add(u64::from(remove_leftover(&request.target)));
        }
        each(place, Ok(Pulled { bytes, unchanged: true }));
    }
    let groups: Vec<_> = small.chunks(limits::BATCH_FILES_MAX).map(<[usize]>::to_vec).collect();
    let stage = &stage;
    let mut groups = futures::stream::iter(groups)
        .map(|group| pull_group(puller, requests, group, stage))
        .buffer_unordered(GROUPS);
    while let Some(group) = groups.next().await {
        let (outcomes, too_large) = group?;
        large.extend(too_large);
        outcomes.into_iter().for_each(|(place, result)| each(place, result));
    }
    drop(groups);
    let one = |place: usize| async move {
        let result = match requests.get(place) {
            Some(request) => single_file::pull(puller, request).await,
            None => Err(Error::new(ErrorKind::Internal, "a file that is not in the list")),
        };
        (place, result)
    };
    let mut ones = futures::stream::iter(large).map(one).buffer_unordered(LARGE_AT_ONCE);
    while let Some((place, result)) = ones.next().await {
        each(place, result);
    }
    Ok(())
}

struct FilesBySize {
    /// Files that are on the disk already, and their lengths.
    unchanged: Vec<(usize, u64)>,
    small: Vec<usize>,
    large: Vec<usize>,
}

/// Sorts the files by what is at their targets: unchanged, small or large.
async fn sort_by_size(puller: &Puller, requests: &[FileRequest]) -> Result<FilesBySize> {
    let mut by_size = FilesBySize { unchanged: Vec::new(), small: Vec::new(), large: Vec::new() };
    let mut there = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        match request.target.symlink_metadata() {
            Ok(metadata) if puller.options.reuse && metadata.is_file() => there.push(place),
            // A link or a folder: one by one, with all that takes.
            Ok(metadata) if !metadata.is_file() => by_size.large.push(place),
            Ok(_) => by_size.small.push(place),
            Err(_) => by_size.small.push(place),
        }
    }
    if there.is_empty() {
        return Ok(by_size);
    }
    let paths: Vec<_> =
        there.iter().filter_map(|place| requests.get(*place)).map(|request| request.target.clone()).collect();
    let options = CutOptions { threads: puller.options.threads, sha256: false };
    let cut = move || {
        let mut found: Vec<Option<CutFile>> = Vec::new();
        cut::hash_files(paths.into_iter().map(Ok), &options, &cut::Progress::default(), |file| {
            found.push(file.ok());
        });
        found
    };
    for (place, found) in there.into_iter().zip(puller.pool.run(cut).await?) {
        let hash = requests.get(place).map(|request| request.file);
        match found {
            Some(found) if Some(found.hash) == hash => by_size.unchanged.push((place, found.bytes)),
            Some(found) if found.bytes >= LARGE_BYTES => by_size.large.push(place),
            _ => by_size.small.push(place),
        }
    }
    by_size.small.sort_unstable();
    Ok(by_size)
}

/// Pulls some small files; returns the result of each, and which are not small.
async fn pull_group(
    puller: &Puller,
    requests: &[FileRequest],
    places: Vec<usize>,
    stage: &Arc<StagingDir>,
) -> Result<(Vec<Outcome>, Vec<usize>)> {
    let group: Vec<&FileRequest> = places.iter().filter_map(|place| requests.get(*place)).collect();
    let hashes: Vec<_> = group.iter().map(|request| request.file).collect();
    let parts: Vec<_> =
        group.iter().map(|request| PartFile::staged(request.file, request.target.clone(), stage)).collect();
    let parts = Arc::new(parts);

    let mut engine = Engine::new(puller, hashes.iter().copied(), parts.clone());
    let too_large = plan(puller, &hashes, &mut engine).await?;
    let mut states = engine.run().await;
    drop(engine);
    let is_wrong = |(file, state): (usize, &FileState)| {
        let wrong = state.error.is_none()
            && !too_large.contains(&file)
            && !parts.get(file).is_some_and(|part| part.is_right(state.size.unwrap_or(0)));
        wrong.then_some(file)
    };
    let wrong: Vec<_> = states.iter().enumerate().filter_map(is_wrong).collect();
    refetch(puller, &parts, &mut states, &wrong).await;

    if puller.options.sync {
        let stage = stage.clone();
        puller.pool.run(move || stage.sync()).await??;
    }
    let digests: Vec<_> = group.iter().map(|request| request.sha256).collect();
    let outcomes = finalize(puller, parts, states, digests, &too_large).await?;
    let outcomes =
        outcomes.into_iter().filter_map(|(file, result)| Some((*places.get(file)?, result))).collect();
    let too_large = too_large.iter().filter_map(|file| places.get(*file).copied()).collect();
    Ok((outcomes, too_large))
}

/// Plans the files: from the cache, in one request for all, or one by one. Returns those that are too large for a batch.
async fn plan(puller: &Puller, hashes: &[FileHash], engine: &mut Engine<'_>) -> Result<Vec<usize>> {
    let mut rest = Vec::new();
    for (file, hash) in hashes.iter().enumerate() {
        let recipe = Recipe::find(puller, hash).map(|recipe| (recipe.size(), recipe));
        let cached =
            recipe.map(|(size, recipe)| (recipe.plan(puller, file, std::slice::from_ref(&(0..size))), size));
        match cached.filter(|(plan, _)| plan.rest.is_empty()) {
            Some((plan, size)) => {
                puller.progress.total_bytes.add(size);
                engine.push(plan.units);
                if let Some(state) = engine.file(file) {
                    state.size = Some(size);
                }
            }
            None => rest.push(file),
        }
    }
    let Some(mut batch) = query_batch(puller, hashes, &rest).await? else {
        rest.into_iter().for_each(|file| engine.want(MissingRange::new(file, 0..u64::MAX)));
        return Ok(Vec::new());
    };
    let size_of = |terms: &Vec<PlanTerm>| terms.iter().map(|term| u64::from(term.raw_bytes)).sum::<u64>();
    let is_large = |file: &usize| {
        let terms = hashes.get(*file).and_then(|hash| batch.0.get(hash));
        terms.is_some_and(|terms| size_of(terms) >= LARGE_BYTES)
    };
    let (too_large, rest): (Vec<usize>, Vec<usize>) = rest.into_iter().partition(is_large);
    if !too_large.is_empty() {
        // Ranges are joined over all files of a batch: those of the large ones would be fetched for the small ones, too.
        batch = match query_batch(puller, hashes, &rest).await? {
            Some(batch) => batch,
            None => {
                rest.into_iter().for_each(|file| engine.want(MissingRange::new(file, 0..u64::MAX)));
                return Ok(too_large);
            }
        };
    }
    let mut planned = Vec::new();
    for file in rest {
        let Some(terms) = hashes.get(file).and_then(|hash| batch.0.get(hash)) else { continue };
        let size = size_of(terms);
        puller.progress.total_bytes.add(size);
        if let Some(state) = engine.file(file) {
            state.size = Some(size);
            if puller.cache.is_some() {
                let mut at = 0;
                state.terms.extend(terms.iter().map(|term| {
                    at += u64::from(term.raw_bytes);
                    (at - u64::from(term.raw_bytes), term.clone())
                }));
            }
        }
        planned.push((file, 0, terms.as_slice()));
    }
    engine.push(units(&batch.1, 0, planned));
    Ok(too_large)
}

/// The terms of these files and what to fetch for all, from one request; `None` where that cannot be had.
async fn query_batch(puller: &Puller, hashes: &[FileHash], files: &[usize]) -> Result<Option<BatchTerms>> {
    // A file may be requested for two targets; it is queried once.
    let mut hashes_left: Vec<_> = files.iter().filter_map(|file| hashes.get(*file).copied()).collect();
    hashes_left.sort_unstable();
    hashes_left.dedup();
    let Some(cas) = puller.cas.as_ref().filter(|_| hashes_left.len() > 1) else { return Ok(None) };
    match cas.reconstructions(&hashes_left).await {
        Ok(None) => Ok(None),
        Ok(Some(batch)) => {
            let terms = hashes_left.into_iter().zip(batch.files).collect();
            Ok(Some((terms, batch.fetches)))
        }
        // One of them is not there: requested one by one, the others are.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

type BatchTerms = (HashMap<FileHash, Vec<PlanTerm>>, Reconstruction);

/// Verifies the files and gives them their names, many on each thread.
async fn finalize(
    puller: &Puller,
    parts: Arc<Vec<PartFile>>,
    states: Vec<FileState>,
    digests: Vec<Option<Sha256>>,
    too_large: &[usize],
) -> Result<Vec<Outcome>> {
    let digests = Arc::new(digests);
    let mut left: Vec<_> =
        states.into_iter().enumerate().filter(|(file, _)| !too_large.contains(file)).collect();
    let mut jobs = Vec::new();
    while !left.is_empty() {
        let some = left.split_off(left.len().saturating_sub(FINALIZED_AT_ONCE));
        let (parts, digests) = (parts.clone(), digests.clone());
        let (cache, progress) = (puller.cache.clone(), puller.progress.clone());
        let work = move || -> Vec<Outcome> {
            let outcomes = some.into_iter().map(|(file, state)| {
                let (hash, size) = (state.hash, state.size);
                let digest = digests.get(file).copied().flatten();
                let result = parts.get(file).map_or_else(
                    || Err(hash_mismatch(&hash, TARGET_UNCHANGED)),
                    |part| finalize_one(part, &state, digest),
                );
                match state.error {
                    Some(error) => (file, Err(error)),
                    None => {
                        if let (Ok(_), Some(cache), Some(size)) = (&result, &cache, size)
                            && !state.terms.is_empty()
                        {
                            keep_recipe(cache, &hash, size, state.terms);
                        }
                        progress.files.add(1);
                        if let (Ok(_), Some(part)) = (&result, parts.get(file)) {
                            progress.leftovers.add(u64::from(remove_leftover(part.target())));
                        }
                        (file, result)
                    }
                }
            });
            outcomes.collect()
        };
        jobs.push(puller.pool.start(work).await);
    }
    let mut outcomes = Vec::new();
    for job in jobs {
        outcomes.extend(super::cpu_pool::join(job).await?);
    }
    Ok(outcomes)
}

/// Gives a file its name, if it is what it should be.
fn finalize_one(part: &PartFile, state: &FileState, digest: Option<Sha256>) -> Result<Pulled> {
    if let Some(error) = part.take_error() {
        return Err(error);
    }
    let bytes = state.size.unwrap_or(0);
    if state.error.is_some() || !part.is_right(bytes) {
        return Err(hash_mismatch(&state.hash, TARGET_UNCHANGED));
    }
    part.finish(bytes, false, digest)?;
    Ok(Pulled { bytes, unchanged: false })
}

/// From this size on a file is pulled alone, with a journal.
const LARGE_BYTES: u64 = 32 << 20;
/// Groups on their way at once: one is planned while another is written.
const GROUPS: usize = 2;
const LARGE_AT_ONCE: usize = 4;
const FINALIZED_AT_ONCE: usize = 128;

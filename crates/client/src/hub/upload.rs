//! Upload of files into a repository: preflight, compare, push, commit.
//!
//! Files are processed in batches, and a batch is committed before the next one is read, so that neither memory nor what a
//! killed upload has to do again grows with their number. A file that the repository has already is not sent.

pub mod source_files;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, TryStreamExt as _};
use xet::FileHash;
use xet::wire::routes::TokenScope;

use super::calls::CANDIDATES_MAX;
use super::digest::{Expected, unchanged};
use super::{Candidate, Commit, Committed, Entry, Hub, RepoName, RepoPath, UploadMode};
use crate::cas::Cas;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use crate::push::{PushOptions, PushedFile, push};

pub use source_files::{SourceFile, SourceFiles};

/// How to upload.
#[derive(Debug, Clone, Default)]
pub struct UploadOptions {
    /// How large files are pushed.
    pub push: PushOptions,
    /// The commit message; by default it counts the files.
    pub message: Option<String>,
    /// The description of the commit.
    pub description: String,
    /// Whether to make the repository, and the branch, where they are missing; and then whether only some may see it.
    pub create: Option<Visibility>,
}

/// Visibility of a new repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Everyone.
    Public,
    /// Its owners.
    Private,
}

/// Outcome of a file.
#[derive(Debug)]
pub enum FileOutcome<'a> {
    /// It is in the repository now; or would be, of a dry run.
    Put(&'a SourceFile),
    /// The repository had it.
    Unchanged(&'a SourceFile),
    /// The repository does not want it.
    Ignored(&'a SourceFile),
    /// It could not be read. The others go on.
    Failed(&'a Error),
}

/// Summary of an upload.
#[derive(Debug, Default)]
pub struct Uploaded {
    /// Files that were put.
    pub files: u64,
    /// Files that the repository had already.
    pub unchanged: u64,
    /// Files the repository does not want.
    pub ignored: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Bytes of all files, uploaded or in the repository already.
    pub logical_bytes: u64,
    /// Bytes that were nowhere before.
    pub new_bytes: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// How many commits were made.
    pub commits: u64,
    /// The last of them.
    pub commit: Option<Committed>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Puts files into a repository, in the order they come, and reports the outcome of each.
///
/// Up to `COMMIT_FILES_MAX` files are one commit; more are several. Can be repeated: what the repository has is not sent again, also
/// when an earlier upload was killed halfway.
pub async fn upload(
    hub: &Hub,
    to: &RepoPath,
    files: SourceFiles,
    options: &UploadOptions,
    progress: &Arc<Progress>,
    each: &mut (dyn FnMut(FileOutcome<'_>) + Send),
) -> Result<Uploaded> {
    let started = Instant::now();
    let mut upload = Upload {
        hub,
        to,
        options,
        progress,
        each,
        cas: None,
        is_missing: prepare(hub, to, options).await?,
        commit: Commit::default(),
        uploaded: Uploaded::default(),
    };
    let mut files = Some(files);
    while let Some(mut left) = files.take() {
        let take = move || {
            let batch = source_files::batch(&mut left, COMMIT_FILES_MAX, BATCH_BYTES_MAX);
            (!batch.is_empty()).then_some((batch, left))
        };
        if let Some((batch, left)) = blocking(take).await? {
            upload.batch(batch).await?;
            files = Some(left);
        }
    }
    let mut uploaded = upload.uploaded;
    uploaded.elapsed = started.elapsed();
    Ok(uploaded)
}

/// Makes what is missing, if that is wanted. True when it is missing still, because of a dry run.
async fn prepare(hub: &Hub, to: &RepoPath, options: &UploadOptions) -> Result<bool> {
    let Some(visibility) = options.create else { return Ok(false) };
    let revision = to.revision();
    let missing = match hub.commit_id(&to.repo, revision).await {
        Ok(_) => return Ok(false),
        // A hub says the same of a repository that does not exist and of one that we may not see.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied) => error,
        Err(error) => return Err(error),
    };
    if options.push.dry_run {
        return Ok(true);
    }
    hub.create_repo(&to.repo, visibility == Visibility::Private).await?;
    match hub.commit_id(&to.repo, revision).await {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound && to.revision.is_some() => {
            hub.create_branch(&to.repo, revision).await.map(|_| false)
        }
        Err(_) => Err(missing),
    }
}

struct Upload<'a> {
    hub: &'a Hub,
    to: &'a RepoPath,
    options: &'a UploadOptions,
    progress: &'a Arc<Progress>,
    each: &'a mut (dyn FnMut(FileOutcome<'_>) + Send),
    /// Opened when the first large file comes.
    cas: Option<Arc<dyn Cas>>,
    /// The repository does not exist: everything is new.
    is_missing: bool,
    commit: Commit,
    uploaded: Uploaded,
}

/// A file that is to be put.
struct PlannedFile {
    local: SourceFile,
    mode: UploadMode,
    /// The file that is at its path now.
    base: Option<FileHash>,
}

impl Upload<'_> {
    async fn batch(&mut self, batch: Vec<Result<SourceFile>>) -> Result<()> {
        let mut locals = Vec::new();
        for local in batch {
            match local {
                Ok(local) => locals.push(local),
                Err(error) => self.fail(&error),
            }
        }
        let bytes: u64 = locals.iter().map(|local| local.bytes).sum();
        self.progress.total_bytes.add(bytes);
        let todo = match self.is_missing {
            true => locals
                .into_iter()
                .map(|local| PlannedFile { local, mode: UploadMode::Lfs, base: None })
                .collect(),
            false => self.sort(locals).await?,
        };
        let mut pushed = self.push(&todo).await?;
        for PlannedFile { local, mode, .. } in &todo {
            match (mode, pushed.remove(&local.path)) {
                (UploadMode::Lfs, Some(file)) => self.put_large(local, &file),
                (UploadMode::Regular, _) => self.put_small(local).await?,
                // It could not be read, which was reported.
                (UploadMode::Lfs, None) => {}
            }
        }
        self.finish_commit().await
    }

    /// Queries how each file is to be uploaded, and whether the repository has it already.
    async fn sort(&mut self, locals: Vec<SourceFile>) -> Result<Vec<PlannedFile>> {
        let groups: Vec<_> = locals.chunks(CANDIDATES_MAX).map(<[SourceFile]>::to_vec).collect();
        let (hub, to) = (self.hub, self.to);
        let preflights =
            futures::stream::iter(groups).map(|group| preflight(hub, &to.repo, to.revision(), group));
        let preflights: Vec<Vec<Result<Preflight>>> =
            preflights.buffered(PREFLIGHTS_AT_ONCE).try_collect().await?;
        let preflights: Vec<_> = preflights.into_iter().flatten().collect();

        let mut compare = Vec::new();
        for preflight in preflights.iter().filter_map(|preflight| preflight.as_ref().ok()) {
            let same = preflight
                .existing
                .as_ref()
                .filter(|existing| !existing.is_folder && existing.bytes == preflight.local.bytes);
            let expected = same.filter(|_| !preflight.ignored).map_or(Expected::Anything, Expected::of);
            compare.push((preflight.local.path.clone(), expected));
        }
        let mut same = unchanged(compare, self.options.push.threads).await?.into_iter();

        let mut todo = Vec::new();
        for preflight in preflights {
            let Preflight { local, mode, ignored, existing } = match preflight {
                Ok(preflight) => preflight,
                Err(error) => {
                    self.fail(&error);
                    continue;
                }
            };
            let is_same = same.next().unwrap_or(false);
            if ignored {
                self.uploaded.ignored += 1;
                (self.each)(FileOutcome::Ignored(&local));
                continue;
            }
            self.uploaded.logical_bytes += local.bytes;
            if is_same {
                self.uploaded.unchanged += 1;
                self.progress.done_bytes.add(local.bytes);
                self.progress.known_bytes.add(local.bytes);
                self.progress.files.add(1);
                (self.each)(FileOutcome::Unchanged(&local));
                continue;
            }
            let base =
                existing.and_then(|existing| existing.xet.filter(|_| existing.bytes >= BASE_BYTES_MIN));
            todo.push(PlannedFile { local, mode, base });
        }
        Ok(todo)
    }

    /// Pushes the large ones to the content store.
    async fn push(&mut self, todo: &[PlannedFile]) -> Result<HashMap<PathBuf, PushedFile>> {
        let is_large = |todo: &&PlannedFile| todo.mode == UploadMode::Lfs;
        let paths: Vec<_> = todo.iter().filter(is_large).map(|todo| todo.local.path.clone()).collect();
        if paths.is_empty() {
            return Ok(HashMap::new());
        }
        if self.is_missing {
            return self.count_as_new(todo);
        }
        let cas = match &self.cas {
            Some(cas) => cas.clone(),
            None => {
                let cas = self.hub.cas(&self.to.repo, self.to.revision(), TokenScope::Write).await?;
                self.cas.insert(Arc::new(cas)).clone()
            }
        };
        let bases = todo.iter().filter_map(|todo| todo.base).collect();
        let options = PushOptions { sha256: true, bases, ..self.options.push.clone() };
        let pushed = push(cas, paths, options, self.progress.clone()).await?;
        for error in &pushed.unread {
            self.fail(error);
        }
        self.uploaded.new_bytes += pushed.new_bytes;
        self.uploaded.sent_bytes += pushed.sent_bytes;
        Ok(pushed.files.into_iter().map(|file| (file.path.clone(), file)).collect())
    }

    /// Counts everything as new, for a dry run into a repository that does not exist yet.
    fn count_as_new(&mut self, todo: &[PlannedFile]) -> Result<HashMap<PathBuf, PushedFile>> {
        for PlannedFile { local, .. } in todo {
            self.uploaded.files += 1;
            self.uploaded.logical_bytes += local.bytes;
            self.uploaded.new_bytes += local.bytes;
            self.uploaded.sent_bytes += local.bytes;
            (self.each)(FileOutcome::Put(local));
        }
        Ok(HashMap::new())
    }

    fn put_large(&mut self, local: &SourceFile, file: &PushedFile) {
        if let Some(sha256) = &file.sha256 {
            self.commit.put_large(&local.to, sha256, file.bytes);
        }
        self.uploaded.files += 1;
        (self.each)(FileOutcome::Put(local));
    }

    async fn put_small(&mut self, local: &SourceFile) -> Result<()> {
        let path = local.path.clone();
        let content = match blocking(move || source_files::read(&path, REGULAR_BYTES_MAX)).await? {
            Ok(content) => content,
            Err(error) => {
                self.fail(&error);
                return Ok(());
            }
        };
        let bytes = content.len() as u64;
        if self.commit.bytes() + 2 * content.len() > COMMIT_BYTES_MAX {
            self.finish_commit().await?;
        }
        self.commit.put(&local.to, &content);
        self.uploaded.files += 1;
        self.uploaded.new_bytes += bytes;
        self.uploaded.sent_bytes += bytes;
        self.progress.done_bytes.add(bytes);
        self.progress.new_bytes.add(bytes);
        self.progress.wire_bytes.add(bytes);
        self.progress.files.add(1);
        (self.each)(FileOutcome::Put(local));
        Ok(())
    }

    async fn finish_commit(&mut self) -> Result<()> {
        let mut commit = std::mem::take(&mut self.commit);
        if commit.changes() == 0 || self.options.push.dry_run {
            return Ok(());
        }
        commit.summary = self.options.message.clone().unwrap_or_else(|| match commit.changes() {
            1 => "Upload a file".to_owned(),
            files => format!("Upload {files} files"),
        });
        commit.description.clone_from(&self.options.description);
        let committed = self.hub.commit(&self.to.repo, self.to.revision(), commit).await?;
        self.uploaded.commits += 1;
        self.uploaded.commit = Some(committed);
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        self.uploaded.failed += 1;
        (self.each)(FileOutcome::Failed(error));
    }
}

/// A file, and how the hub wants it uploaded.
struct Preflight {
    local: SourceFile,
    mode: UploadMode,
    ignored: bool,
    existing: Option<Entry>,
}

async fn preflight(
    hub: &Hub,
    repo: &RepoName,
    revision: &str,
    group: Vec<SourceFile>,
) -> Result<Vec<Result<Preflight>>> {
    let sample = move || -> Vec<(SourceFile, Result<Candidate>)> {
        let candidate = |local: &SourceFile| {
            let sample = STANDARD.encode(source_files::first_bytes(&local.path, SAMPLE_BYTES)?);
            Ok(Candidate { path: local.to.clone(), sample, size: local.bytes })
        };
        let with_candidate = |local: SourceFile| {
            let candidate = candidate(&local);
            (local, candidate)
        };
        group.into_iter().map(with_candidate).collect()
    };
    let mut locals = Vec::new();
    let mut candidates = Vec::new();
    for (local, candidate) in blocking(sample).await? {
        match candidate {
            Ok(candidate) => {
                candidates.push(candidate);
                locals.push(Ok(local));
            }
            Err(error) => locals.push(Err(error)),
        }
    }
    if candidates.is_empty() {
        return Ok(locals.into_iter().filter_map(|local| local.err().map(Err)).collect());
    }
    let paths: Vec<_> = candidates.iter().map(|candidate| candidate.path.as_str()).collect();
    let (decided, existing) = futures::future::try_join(
        hub.preupload(repo, revision, &candidates),
        hub.paths_info(repo, revision, &paths),
    )
    .await?;
    let decided: HashMap<_, _> = decided.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut existing: HashMap<_, _> = existing.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    let preflights = locals.into_iter().map(|local| {
        let local = local?;
        let decision = decided.get(&local.to).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("{}: the hub does not say how to upload it", local.to))
        })?;
        let mode = match local.bytes {
            0 => UploadMode::Regular,
            bytes if bytes > REGULAR_BYTES_MAX => UploadMode::Lfs,
            _ => decision.upload_mode,
        };
        // A large file that the hub lists and does not name here is damaged there, and must be uploaded again.
        let is_whole = |existing: &Entry| existing.sha256.is_none() || decision.oid.is_some();
        let existing = existing.remove(&local.to).filter(is_whole);
        Ok(Preflight { existing, mode, ignored: decision.should_ignore, local })
    });
    Ok(preflights.collect())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|source| Error::caused(ErrorKind::Internal, "work on a thread", source))
}

/// Files in one commit.
pub(crate) const COMMIT_FILES_MAX: usize = 10_000;
/// Small files in one commit, as they are sent: in base64. Hubs hold a commit in memory, and so do we.
const COMMIT_BYTES_MAX: usize = 24 << 20;
/// Bytes after which a commit is made, so that a killed upload can resume from there.
const BATCH_BYTES_MAX: u64 = 64 << 30;
/// Larger files go to the content store, whatever the hub says.
const REGULAR_BYTES_MAX: u64 = 10 << 20;
/// Of shorter files, asking what the old version is made of costs more than it saves.
const BASE_BYTES_MIN: u64 = 4 << 20;
const PREFLIGHTS_AT_ONCE: usize = 4;
/// Bytes by which hubs distinguish text from other files.
const SAMPLE_BYTES: u64 = 512;

//! Download of files from a repository: listed by pages, compared with local files, pulled, verified.
//!
//! One commit is pulled, whatever happens to the branch meanwhile. Large files come from the content store, chunk by chunk; small
//! ones, and those of hubs without one, as they are. Only a file with the right digest gets its name.

mod plain_files;

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use xet::wire::routes::TokenScope;

use super::digest::{Expected, unchanged};
use super::pattern::Selection;
use super::repo_path::is_path;
use super::{Entry, Hub, RepoName, RepoPath, below};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use crate::pull::{FileRequest, PullOptions, Puller, StagingDir, place_of, remove_leftover};

/// How to download.
#[derive(Debug, Clone, Default)]
pub struct DownloadOptions {
    /// How large files are pulled.
    pub pull: PullOptions,
    /// Which files.
    pub selection: Selection,
    /// Whether to only report what would be done.
    pub dry_run: bool,
}

/// Outcome of a file.
#[derive(Debug)]
pub enum FileOutcome<'a> {
    /// It is here now; or would be, of a dry run.
    Pulled(&'a Entry),
    /// It was here.
    Unchanged(&'a Entry),
    /// It could not be had. The others go on.
    Failed(&'a str, &'a Error),
}

/// Summary of a download.
#[derive(Debug, Clone, Default)]
pub struct Downloaded {
    /// The commit that was pulled.
    pub commit: String,
    /// Files that were pulled.
    pub files: u64,
    /// Files that were here.
    pub unchanged: u64,
    /// Files that could not be had.
    pub failed: u64,
    /// Bytes of all files, pulled or here.
    pub bytes: u64,
}

/// Pulls a repository, or the file or folder of it that is named, and reports the outcome of each.
///
/// The files of a folder are written below `to`. A single file gets that name, or its own in `to` where that is a folder or ends in a
/// slash. Can be repeated: what is here is not fetched again, and files that an earlier try left half done are gone on with.
pub async fn download(
    hub: &Hub,
    from: &RepoPath,
    to: &Path,
    options: &DownloadOptions,
    progress: &Arc<Progress>,
    each: &mut (dyn FnMut(FileOutcome<'_>) + Send),
) -> Result<Downloaded> {
    let commit = hub.commit_id(&from.repo, from.revision()).await?;
    let downloaded = Downloaded { commit: commit.clone(), ..Downloaded::default() };
    let mut download = Download {
        hub,
        repo: &from.repo,
        commit: &commit,
        options,
        progress,
        each,
        puller: None,
        downloaded,
    };
    let path = from.path.as_deref().map(|path| path.trim_end_matches('/'));
    let folder = match path {
        None => String::new(),
        Some(path) => {
            let entry = hub.entry(&from.repo, &commit, path).await?;
            if !entry.is_folder {
                let target = file_target(to, path);
                let root =
                    target.parent().filter(|root| !root.as_os_str().is_empty()).unwrap_or(Path::new("."));
                download.batch(vec![(entry, target.clone())], root).await?;
                return Ok(download.downloaded);
            }
            path.to_owned()
        }
    };
    if to.is_file() {
        let message = format!("{}: is a file, and there is a folder to pull", to.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut next = None;
    let mut batch = Vec::new();
    loop {
        let page = hub.tree(&from.repo, &commit, &folder, true, next.as_deref()).await?;
        for entry in page.entries.into_iter().filter(|entry| !entry.is_folder) {
            download.choose(entry, &folder, to, &mut batch);
        }
        next = page.next;
        if batch.len() >= BATCH_FILES || next.is_none() {
            download.batch(std::mem::take(&mut batch), to).await?;
        }
        if next.is_none() {
            return Ok(download.downloaded);
        }
    }
}

/// Writes a file's bytes, or a range of them, in order, and returns how many. What is written was verified, chunk by chunk where
/// the hub lists the chunks; a small file is verified at its end.
pub async fn cat<W: Write + Send>(
    hub: &Hub,
    from: &RepoPath,
    range: Range<u64>,
    options: PullOptions,
    out: &mut W,
) -> Result<u64> {
    let path = from.path.as_deref().unwrap_or_default();
    let entry = hub.entry(&from.repo, from.revision(), path).await?;
    if entry.is_folder {
        return Err(Error::new(ErrorKind::Invalid, format!("{from}: is a folder; name a file in it")));
    }
    if range.start > entry.bytes {
        let message = format!("{from}: has {} bytes, and none at {}", entry.bytes, range.start);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let range = range.start..range.end.min(entry.bytes);
    match entry.xet {
        Some(file) if !range.is_empty() => {
            puller(hub, &from.repo, from.revision(), options).await?.stream(file, range, out).await
        }
        _ => {
            let write = |piece: &[u8]| {
                out.write_all(piece)
                    .map_err(|error| Error::caused(ErrorKind::Io, "writing what was pulled", error))
            };
            plain_files::read(hub, &from.repo, from.revision(), &entry, range, write)
                .await
                .map(|read| read.bytes())
        }
    }
}

/// Pulls large files of a repository: from the hub's content store, or from the cache alone.
pub async fn puller(hub: &Hub, repo: &RepoName, revision: &str, options: PullOptions) -> Result<Puller> {
    if hub.is_offline() {
        return Ok(Puller::offline(options));
    }
    let cas = hub.cas(repo, revision, TokenScope::Read).await?;
    Ok(Puller::new(Arc::new(cas), options))
}

fn file_target(to: &Path, path: &str) -> PathBuf {
    let name = path.rsplit('/').next().unwrap_or(path);
    let means_folder = to.is_dir() || to.as_os_str().to_string_lossy().ends_with('/');
    if means_folder { to.join(name) } else { to.to_owned() }
}

struct Download<'a> {
    hub: &'a Hub,
    repo: &'a RepoName,
    commit: &'a str,
    options: &'a DownloadOptions,
    progress: &'a Arc<Progress>,
    each: &'a mut (dyn FnMut(FileOutcome<'_>) + Send),
    /// Made when the first large file comes.
    puller: Option<Puller>,
    downloaded: Downloaded,
}

type Targets = Vec<(Entry, PathBuf)>;

impl Download<'_> {
    /// Takes a file that is wanted, to where it shall be.
    fn choose(&mut self, entry: Entry, folder: &str, to: &Path, batch: &mut Targets) {
        // Paths of the hub are untrusted input: they must not lead out of the directory.
        match below(folder, &entry.path).filter(|path| is_path(path)) {
            Some(path) if !self.options.selection.takes(path) => {}
            Some(path) => {
                let target = path.split('/').fold(to.to_owned(), |target, name| target.join(name));
                batch.push((entry, target));
            }
            None => {
                let message = "is no path for a file on this disk";
                self.fail(&entry.path, &Error::new(ErrorKind::Invalid, message));
            }
        }
    }

    async fn batch(&mut self, batch: Targets, root: &Path) -> Result<()> {
        let batch = self.without_unchanged(batch).await?;
        if self.options.dry_run {
            batch.iter().for_each(|(entry, _)| self.done(entry));
            return Ok(());
        }
        let (stored, plain): (Targets, Targets) =
            batch.into_iter().partition(|(entry, _)| entry.xet.is_some() && entry.bytes > 0);
        self.pull(stored, root).await?;
        self.fetch(plain, root).await
    }

    /// Reports files that are here already, and returns the rest.
    async fn without_unchanged(&mut self, batch: Targets) -> Result<Targets> {
        let compare = batch.iter().map(|(entry, target)| {
            let same = self.options.pull.reuse
                && target.metadata().is_ok_and(|found| found.is_file() && found.len() == entry.bytes);
            (target.clone(), if same { Expected::of(entry) } else { Expected::Anything })
        });
        let same = unchanged(compare.collect(), self.options.pull.threads).await?;
        let mut rest = Vec::new();
        for ((entry, target), same) in batch.into_iter().zip(same) {
            match same {
                true => {
                    self.downloaded.unchanged += 1;
                    self.downloaded.bytes += entry.bytes;
                    for counter in [&self.progress.total_bytes, &self.progress.done_bytes] {
                        counter.add(entry.bytes);
                    }
                    self.progress.reused_bytes.add(entry.bytes);
                    self.progress.leftovers.add(u64::from(remove_leftover(&target)));
                    self.progress.files.add(1);
                    (self.each)(FileOutcome::Unchanged(&entry));
                }
                false => rest.push((entry, target)),
            }
        }
        Ok(rest)
    }

    /// Pulls files from the content store: short ones together, each long one with a journal of its own.
    async fn pull(&mut self, mut stored: Targets, root: &Path) -> Result<()> {
        if stored.is_empty() {
            return Ok(());
        }
        let request = |(entry, target): &(Entry, PathBuf)| {
            Some(FileRequest { file: entry.xet?, target: target.clone(), sha256: entry.sha256 })
        };
        stored.sort_by_key(|(entry, _)| entry.bytes >= JOURNAL_BYTES_MIN);
        let requests: Vec<_> = stored.iter().filter_map(request).collect();
        let short = stored.iter().filter(|(entry, _)| entry.bytes < JOURNAL_BYTES_MIN).count();
        let (short, long) = requests.split_at(short);
        let puller = match self.puller.take() {
            Some(puller) => puller,
            None => puller(self.hub, self.repo, self.commit, self.options.pull.clone())
                .await?
                .with_progress(self.progress.clone()),
        };
        let mut report = |place: usize, result: Result<_>| {
            let Some((entry, _)) = stored.get(place) else { return };
            match result {
                Ok(_) => self.done(entry),
                Err(error) => self.fail(&entry.path, &error),
            }
        };
        if !short.is_empty() {
            puller.files(short, root, &mut report).await?;
        }
        let one = |(place, request)| {
            let puller = &puller;
            async move { (place, puller.file(request).await) }
        };
        let mut ones =
            futures::stream::iter((short.len()..).zip(long)).map(one).buffer_unordered(LONG_AT_ONCE);
        while let Some((place, result)) = ones.next().await {
            report(place, result);
        }
        drop(ones);
        self.puller = Some(puller);
        Ok(())
    }

    /// Gets small files as they are: all of them staged, then made durable together, then named.
    async fn fetch(&mut self, plain: Targets, root: &Path) -> Result<()> {
        if plain.is_empty() {
            return Ok(());
        }
        let stage = StagingDir::new(root)?;
        self.progress.leftovers.add(stage.removed());
        let (hub, repo, commit, progress) = (self.hub, self.repo, self.commit, self.progress);
        let fetches = plain.into_iter().map(|(entry, target)| {
            let staged = stage.next();
            async move {
                let result = plain_files::fetch(hub, repo, commit, &entry, &staged, progress).await;
                (entry, target, staged, result)
            }
        });
        let mut fetched = Vec::new();
        let mut fetches = futures::stream::iter(fetches).buffer_unordered(PLAIN_AT_ONCE);
        while let Some(one) = fetches.next().await {
            fetched.push(one);
        }
        drop(fetches);
        if self.options.pull.sync {
            stage.sync()?;
        }
        for (entry, target, staged, result) in fetched {
            // A link stays, and nothing but a regular file is replaced.
            let named =
                result.and_then(|()| place_of(&target)).and_then(|place| plain_files::name(&staged, &place));
            match named {
                Ok(()) => {
                    self.progress.files.add(1);
                    self.progress.leftovers.add(u64::from(remove_leftover(&target)));
                    self.done(&entry);
                }
                Err(error) => self.fail(&entry.path, &error),
            }
        }
        Ok(())
    }

    fn done(&mut self, entry: &Entry) {
        self.downloaded.files += 1;
        self.downloaded.bytes += entry.bytes;
        (self.each)(FileOutcome::Pulled(entry));
    }

    fn fail(&mut self, path: &str, error: &Error) {
        self.downloaded.failed += 1;
        (self.each)(FileOutcome::Failed(path, error));
    }
}

/// Files that are compared and pulled together: a few pages of a listing.
const BATCH_FILES: usize = 4000;
const PLAIN_AT_ONCE: usize = 16;
/// From this size on a file is pulled alone, and a later pull resumes it.
const JOURNAL_BYTES_MIN: u64 = 32 << 20;
const LONG_AT_ONCE: usize = 4;

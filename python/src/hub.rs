//! Client: a hub as Python sees it.

use std::path::PathBuf;
use std::sync::Arc;

use client::Progress;
use client::cache::Cache;
use client::cas::http::HttpOptions;
use client::hub::download::{self, DownloadOptions, download};
use client::hub::pattern::Selection;
use client::hub::settings::Settings;
use client::hub::upload::{self, SourceFiles, UploadOptions, Visibility, upload};
use client::hub::{Commit, Entry, Hub, RepoPath};
use client::pull::PullOptions;
use client::push::PushOptions;
use client::token::Token;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::raise_client;
use crate::process::{PerProcess, wait};
use crate::remote::RemoteFile;

/// A hub, and who asks it.
///
/// >>> client = drystone.Client("https://hub.example.com", token=token)
/// >>> client.push("model/", "ann/model", create=True)
/// >>> client.pull("ann/model@v1:config.json", "config.json")
#[pyclass(frozen, subclass, module = "drystone")]
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// What a client shares with the files it opened.
#[derive(Debug)]
pub(crate) struct Inner {
    endpoint: String,
    token: Option<Token>,
    http: HttpOptions,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_bytes: u64,
    memory_bytes: Option<u64>,
    offline: bool,
    hub: PerProcess<Hub>,
}

impl Inner {
    pub(crate) fn hub(&self) -> client::Result<Arc<Hub>> {
        self.hub.of_this(|| {
            let hub = Hub::new(&self.endpoint, self.token.clone(), self.http.clone())?;
            Ok(match self.cache()? {
                Some(cache) => hub.with_cache(cache, self.offline),
                None => hub,
            })
        })
    }

    fn cache(&self) -> client::Result<Option<Arc<Cache>>> {
        let open = |folder: &PathBuf| Cache::open(&folder.join("chunks"), self.cache_bytes).map(Arc::new);
        self.cache_dir.as_ref().map(open).transpose()
    }

    pub(crate) fn pull_options(&self, keep_chunks: bool) -> client::Result<PullOptions> {
        let mut options = PullOptions::default();
        options.memory_bytes_max = self.memory_bytes.unwrap_or(options.memory_bytes_max);
        if keep_chunks {
            options.cache = self.cache()?;
        }
        Ok(options)
    }

    fn push_options(&self, to: &RepoPath) -> PushOptions {
        let mut options = PushOptions::default();
        options.memory_bytes = self.memory_bytes.unwrap_or(options.memory_bytes);
        // What one hub has, another may not; so each has a folder of its own.
        let name: String = format!("{} {}", self.endpoint, to.repo)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        options.cache = self.cache_dir.as_ref().map(|folder| folder.join("python").join(name));
        options
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (endpoint=None, token=None, *, cache_dir=None, cache_bytes=16 << 30, offline=false, memory_bytes=None, token_in_clear=false, proxy=None, ca_files=vec![], bandwidth=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        endpoint: Option<String>,
        token: Option<String>,
        cache_dir: Option<PathBuf>,
        cache_bytes: u64,
        offline: bool,
        memory_bytes: Option<u64>,
        token_in_clear: bool,
        proxy: Option<String>,
        ca_files: Vec<PathBuf>,
        bandwidth: Option<u64>,
    ) -> PyResult<Self> {
        if offline && cache_dir.is_none() {
            let message = "offline from where? say cache_dir";
            return Err(raise_client(&client::Error::new(client::ErrorKind::Invalid, message)));
        }
        client::kernels::select(std::env::var_os(client::kernels::VARIABLE).as_deref())
            .map_err(|error| raise_client(&error))?;
        let found = Settings::find(endpoint, token.map(Token::new), &|name| std::env::var_os(name))
            .map_err(|error| raise_client(&error))?;
        let http = HttpOptions {
            token_in_clear,
            proxy,
            ca_files,
            bandwidth_bytes_per_s: bandwidth,
            ..HttpOptions::default()
        };
        let inner = Inner {
            endpoint: found.endpoint,
            token: found.token,
            http,
            cache_dir,
            cache_bytes,
            memory_bytes,
            offline,
            hub: PerProcess::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where the hub is.
    #[getter]
    fn endpoint(&self) -> &str {
        &self.inner.endpoint
    }

    /// Puts files into a repository and returns what that came to.
    #[pyo3(signature = (paths, to, *, message=None, create=false, private=false, include=vec![], exclude=vec![], dry_run=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python method")]
    fn push<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        to: &str,
        message: Option<String>,
        create: bool,
        private: bool,
        include: Vec<String>,
        exclude: Vec<String>,
        dry_run: bool,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let to = parse(to)?;
        let visibility = if private { Visibility::Private } else { Visibility::Public };
        let push = PushOptions { dry_run, ..self.inner.push_options(&to) };
        let create = create.then_some(visibility);
        let options = UploadOptions { push, message, create, ..UploadOptions::default() };
        let (counters, told) =
            (Arc::new(Progress::default()), progress.map(|progress| progress.clone().unbind()));
        let mut failed = Vec::new();
        let uploaded = wait(py, &counters, told.as_ref(), async || {
            let files = SourceFiles::find(paths, to.path.as_deref(), Selection { include, exclude })?;
            let mut each = |told: upload::FileOutcome<'_>| {
                if let upload::FileOutcome::Failed(error) = told {
                    failed.push(error.to_string());
                }
            };
            upload(&*self.inner.hub()?, &to, files, &options, &counters, &mut each).await
        })?;
        let told = PyDict::new(py);
        told.set_item("commit", uploaded.commit.map(|commit| commit.oid))?;
        told.set_item("files", uploaded.files)?;
        told.set_item("unchanged", uploaded.unchanged)?;
        told.set_item("failed", failed)?;
        told.set_item("logical_bytes", uploaded.logical_bytes)?;
        told.set_item("new_bytes", uploaded.new_bytes)?;
        told.set_item("sent_bytes", uploaded.sent_bytes)?;
        Ok(told)
    }

    /// Pulls a repository, or the file or folder of it that is named, and returns what that came to.
    #[pyo3(signature = (place, to, *, include=vec![], exclude=vec![], progress=None))]
    fn pull<'py>(
        &self,
        py: Python<'py>,
        place: &str,
        to: PathBuf,
        include: Vec<String>,
        exclude: Vec<String>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let from = parse(place)?;
        let (counters, told) =
            (Arc::new(Progress::default()), progress.map(|progress| progress.clone().unbind()));
        let mut failed = Vec::new();
        let downloaded = wait(py, &counters, told.as_ref(), async || {
            let selection = Selection { include, exclude };
            let options = DownloadOptions { pull: self.inner.pull_options(true)?, selection, dry_run: false };
            let mut each = |told: download::FileOutcome<'_>| {
                if let download::FileOutcome::Failed(path, error) = told {
                    failed.push(format!("{path}: {error}"));
                }
            };
            let to = to;
            download(&*self.inner.hub()?, &from, &to, &options, &counters, &mut each).await
        })?;
        let told = PyDict::new(py);
        told.set_item("commit", downloaded.commit)?;
        told.set_item("files", downloaded.files)?;
        told.set_item("unchanged", downloaded.unchanged)?;
        told.set_item("failed", failed)?;
        told.set_item("bytes", downloaded.bytes)?;
        Ok(told)
    }

    /// What is in a folder of a repository, or everything below it: dicts of path, type, size, sha256 and xet.
    #[pyo3(signature = (place, recursive=false))]
    fn ls<'py>(&self, py: Python<'py>, place: &str, recursive: bool) -> PyResult<Bound<'py, PyList>> {
        let place = parse(place)?;
        let folder = place.path.as_deref().unwrap_or_default().trim_end_matches('/').to_owned();
        let entries = wait(py, &Arc::default(), None, async || {
            let hub = self.inner.hub()?;
            let (mut entries, mut next) = (Vec::new(), None);
            loop {
                let page =
                    hub.tree(&place.repo, place.revision(), &folder, recursive, next.as_deref()).await?;
                entries.extend(page.entries);
                next = page.next;
                if next.is_none() {
                    return Ok(entries);
                }
            }
        })?;
        let entries: Vec<_> = entries.iter().map(|entry| described(py, entry)).collect::<PyResult<_>>()?;
        PyList::new(py, entries)
    }

    /// What is at a path of a repository.
    fn info<'py>(&self, py: Python<'py>, place: &str) -> PyResult<Bound<'py, PyDict>> {
        let place = parse(place)?;
        let path = place.path.as_deref().unwrap_or_default().trim_end_matches('/');
        let entry = wait(py, &Arc::default(), None, async || {
            self.inner.hub()?.entry(&place.repo, place.revision(), path).await
        })?;
        described(py, &entry)
    }

    /// Deletes a file, or a folder with all in it, and returns the commit.
    #[pyo3(signature = (place, *, recursive=false, message=None))]
    fn rm(&self, py: Python<'_>, place: &str, recursive: bool, message: Option<String>) -> PyResult<String> {
        let place = parse(place)?;
        let path = place.path.as_deref().unwrap_or_default().trim_end_matches('/');
        let committed = wait(py, &Arc::default(), None, async || {
            let hub = self.inner.hub()?;
            let entry = hub.entry(&place.repo, place.revision(), path).await?;
            let mut commit = Commit::new(message.unwrap_or_else(|| format!("Delete {path}")));
            match (entry.is_folder, recursive) {
                (true, true) => commit.delete_folder(path),
                (true, false) => {
                    let message = format!("{place}: is a folder; recursive=True deletes it");
                    return Err(client::Error::new(client::ErrorKind::Invalid, message));
                }
                (false, _) => commit.delete(path),
            }
            hub.commit(&place.repo, place.revision(), commit).await
        })?;
        Ok(committed.oid)
    }

    /// A file of a repository as it is now, to be read by ranges. `drystone.open` makes a file object of it.
    fn file(&self, py: Python<'_>, place: &str) -> PyResult<RemoteFile> {
        let place = parse(place)?;
        wait(py, &Arc::default(), None, async || RemoteFile::find(&self.inner, place, false).await)
    }

    fn __repr__(&self) -> String {
        let who = if self.inner.token.is_some() { "with a token" } else { "without a token" };
        format!("<drystone.Client {:?}, {who}>", self.inner.endpoint)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Address)> {
        let inner = &slf.get().inner;
        let settings = PyDict::new(slf.py());
        settings.set_item("cache_dir", &inner.cache_dir)?;
        settings.set_item("cache_bytes", inner.cache_bytes)?;
        settings.set_item("offline", inner.offline)?;
        settings.set_item("memory_bytes", inner.memory_bytes)?;
        settings.set_item("token_in_clear", inner.http.token_in_clear)?;
        settings.set_item("proxy", &inner.http.proxy)?;
        settings.set_item("ca_files", &inner.http.ca_files)?;
        settings.set_item("bandwidth", inner.http.bandwidth_bytes_per_s)?;
        let make =
            slf.py().import("functools")?.getattr("partial")?.call((slf.get_type(),), Some(&settings))?;
        let token = inner.token.as_ref().map(|token| token.expose().to_owned());
        Ok((make, (inner.endpoint.clone(), token)))
    }
}

/// Endpoint and token.
type Address = (String, Option<String>);

pub(crate) fn parse(place: &str) -> PyResult<RepoPath> {
    place.parse().map_err(|error| raise_client(&error))
}

fn described<'py>(py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("path", &entry.path)?;
    told.set_item("type", if entry.is_folder { "directory" } else { "file" })?;
    told.set_item("size", entry.bytes)?;
    told.set_item("sha256", entry.sha256.map(|sha256| sha256.to_string()))?;
    told.set_item("xet", entry.xet.map(|hash| hash.to_string()))?;
    Ok(told)
}

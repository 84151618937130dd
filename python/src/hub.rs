//! Client: a hub as Python sees it.

use std::path::PathBuf;
use std::sync::Arc;

use client::Progress;
use client::cas::http::HttpOptions;
use client::hub::download::{self, DownloadOptions, download};
use client::hub::pattern::Selection;
use client::hub::settings::Settings;
use client::hub::upload::{self, SourceFiles, UploadOptions, Visibility, upload};
use client::hub::{Commit, Entry, RepoPath};
use client::push::PushOptions;
use client::token::Token;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::connection::Connection;
use crate::error::raise_client;
use crate::process::wait;
use crate::remote::RemoteFile;

/// A hub and the account used there.
///
/// >>> client = drystone.Client("https://hub.example.com", token=token)
/// >>> client.push("model/", "ann/model", create=True)
/// >>> client.pull("ann/model@v1:config.json", "config.json")
#[pyclass(frozen, subclass, module = "drystone")]
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) connection: Arc<Connection>,
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
            let message = "offline=True needs a cache; pass cache_dir";
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
        let connection = Connection::new(found.endpoint, found.token, http, memory_bytes);
        let connection = connection.with_cache(cache_dir, cache_bytes, offline);
        Ok(Self { connection: Arc::new(connection) })
    }

    /// Address of the hub.
    #[getter]
    fn endpoint(&self) -> &str {
        &self.connection.endpoint
    }

    /// Puts files into a repository and returns a summary.
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
        let push = PushOptions { dry_run, ..self.connection.push_options(&to) };
        let create = create.then_some(visibility);
        let options = UploadOptions { push, message, create, ..UploadOptions::default() };
        let (counters, callback) =
            (Arc::new(Progress::default()), progress.map(|progress| progress.clone().unbind()));
        let mut failed = Vec::new();
        let uploaded = wait(py, &counters, callback.as_ref(), async || {
            let files = SourceFiles::find(paths, to.path.as_deref(), Selection { include, exclude })?;
            let mut each = |outcome: upload::FileOutcome<'_>| {
                if let upload::FileOutcome::Failed(error) = outcome {
                    failed.push(error.to_string());
                }
            };
            upload(&*self.connection.hub()?, &to, files, &options, &counters, &mut each).await
        })?;
        let summary = PyDict::new(py);
        summary.set_item("commit", uploaded.commit.map(|commit| commit.oid))?;
        summary.set_item("files", uploaded.files)?;
        summary.set_item("unchanged", uploaded.unchanged)?;
        summary.set_item("failed", failed)?;
        summary.set_item("logical_bytes", uploaded.logical_bytes)?;
        summary.set_item("new_bytes", uploaded.new_bytes)?;
        summary.set_item("sent_bytes", uploaded.sent_bytes)?;
        Ok(summary)
    }

    /// Pulls a repository, or the file or folder of it that is named, and returns a summary.
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
        let (counters, callback) =
            (Arc::new(Progress::default()), progress.map(|progress| progress.clone().unbind()));
        let mut failed = Vec::new();
        let downloaded = wait(py, &counters, callback.as_ref(), async || {
            let selection = Selection { include, exclude };
            let options =
                DownloadOptions { pull: self.connection.pull_options(true)?, selection, dry_run: false };
            let mut each = |outcome: download::FileOutcome<'_>| {
                if let download::FileOutcome::Failed(path, error) = outcome {
                    failed.push(format!("{path}: {error}"));
                }
            };
            let to = to;
            download(&*self.connection.hub()?, &from, &to, &options, &counters, &mut each).await
        })?;
        let summary = PyDict::new(py);
        summary.set_item("commit", downloaded.commit)?;
        summary.set_item("files", downloaded.files)?;
        summary.set_item("unchanged", downloaded.unchanged)?;
        summary.set_item("failed", failed)?;
        summary.set_item("bytes", downloaded.bytes)?;
        Ok(summary)
    }

    /// Lists a folder of a repository, or everything below it: dicts of path, type, size, sha256 and xet.
    #[pyo3(signature = (place, recursive=false))]
    fn ls<'py>(&self, py: Python<'py>, place: &str, recursive: bool) -> PyResult<Bound<'py, PyList>> {
        let place = parse(place)?;
        let folder = place.path.as_deref().unwrap_or_default().trim_end_matches('/').to_owned();
        let entries = wait(py, &Arc::default(), None, async || {
            let hub = self.connection.hub()?;
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
        let entries: Vec<_> =
            entries.iter().map(|entry| describe_entry(py, entry)).collect::<PyResult<_>>()?;
        PyList::new(py, entries)
    }

    /// Describes the file or folder at a path of a repository.
    fn info<'py>(&self, py: Python<'py>, place: &str) -> PyResult<Bound<'py, PyDict>> {
        let place = parse(place)?;
        let path = place.path.as_deref().unwrap_or_default().trim_end_matches('/');
        let entry = wait(py, &Arc::default(), None, async || {
            self.connection.hub()?.entry(&place.repo, place.revision(), path).await
        })?;
        describe_entry(py, &entry)
    }

    /// Deletes a file, or a folder with all in it, and returns the commit.
    #[pyo3(signature = (place, *, recursive=false, message=None))]
    fn rm(&self, py: Python<'_>, place: &str, recursive: bool, message: Option<String>) -> PyResult<String> {
        let place = parse(place)?;
        let path = place.path.as_deref().unwrap_or_default().trim_end_matches('/');
        let committed = wait(py, &Arc::default(), None, async || {
            let hub = self.connection.hub()?;
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
        wait(py, &Arc::default(), None, async || RemoteFile::find(&self.connection, place, false).await)
    }

    fn __repr__(&self) -> String {
        let who = if self.connection.token.is_some() { "with a token" } else { "without a token" };
        format!("<drystone.Client {:?}, {who}>", self.connection.endpoint)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Address)> {
        let connection = &slf.get().connection;
        let settings = PyDict::new(slf.py());
        settings.set_item("cache_dir", &connection.cache_dir)?;
        settings.set_item("cache_bytes", connection.cache_bytes)?;
        settings.set_item("offline", connection.offline)?;
        settings.set_item("memory_bytes", connection.memory_bytes)?;
        settings.set_item("token_in_clear", connection.http.token_in_clear)?;
        settings.set_item("proxy", &connection.http.proxy)?;
        settings.set_item("ca_files", &connection.http.ca_files)?;
        settings.set_item("bandwidth", connection.http.bandwidth_bytes_per_s)?;
        let make =
            slf.py().import("functools")?.getattr("partial")?.call((slf.get_type(),), Some(&settings))?;
        let token = connection.token.as_ref().map(|token| token.expose().to_owned());
        Ok((make, (connection.endpoint.clone(), token)))
    }
}

/// Endpoint and token.
type Address = (String, Option<String>);

fn parse(place: &str) -> PyResult<RepoPath> {
    place.parse().map_err(|error| raise_client(&error))
}

fn describe_entry<'py>(py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyDict>> {
    let summary = PyDict::new(py);
    summary.set_item("path", &entry.path)?;
    summary.set_item("type", if entry.is_folder { "directory" } else { "file" })?;
    summary.set_item("size", entry.bytes)?;
    summary.set_item("sha256", entry.sha256.map(|sha256| sha256.to_string()))?;
    summary.set_item("xet", entry.xet.map(|hash| hash.to_string()))?;
    Ok(summary)
}

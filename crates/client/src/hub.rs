//! The Hub API as a client needs it: repositories, their files, and the tokens for the bytes.
//!
//! Small files go into a commit as they are; large ones are pushed to the content store first and named in the commit by
//! their SHA-256. [`upload`] and [`download`] do that for many files; [`Hub`] has the single calls.

mod answer_cache;
mod calls;
pub mod commit;
mod digest;
pub mod download;
mod entry;
pub mod pattern;
pub mod repo_path;
pub mod settings;
pub mod upload;

pub use calls::{Candidate, Committed, UploadDecision, UploadMode};
pub use commit::Commit;
pub use entry::{Entry, Page};
pub use repo_path::RepoPath;
pub use xet::wire::{RepoKind, RepoName};

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use xet::wire::routes::{TokenScope, segment, token};

use answer_cache::AnswerCache;

use crate::cache::Cache;
use crate::cas::connect_with;
use crate::cas::http::{HttpCas, HttpOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::http::Http;
use crate::token::{Token, Tokens};

/// A hub and the token for it.
#[derive(Debug, Clone)]
pub struct Hub {
    http: Arc<Http>,
    answers: Option<AnswerCache>,
}

impl Hub {
    /// The hub at `endpoint`, such as `https://hub.example.com`. Without a token, what is public.
    pub fn new(endpoint: &str, personal: Option<Token>, options: HttpOptions) -> Result<Self> {
        let tokens = personal.map(|token| Arc::new(Tokens::fixed(token)));
        Ok(Self { http: Arc::new(Http::new(endpoint, tokens, options)?), answers: None })
    }

    /// The same, with answers about files that are read stored in `cache`. `offline`, it sends no request and answers from the cache.
    pub fn with_cache(self, cache: Arc<Cache>, offline: bool) -> Self {
        let answers = AnswerCache::new(cache, offline, self.endpoint());
        Self { answers: Some(answers), ..self }
    }

    /// Whether answers come from the cache only.
    pub(crate) fn is_offline(&self) -> bool {
        self.answers.as_ref().is_some_and(|answers| answers.offline)
    }

    /// The cache, when answers come from there only.
    fn offline(&self) -> Option<&AnswerCache> {
        self.answers.as_ref().filter(|answers| answers.offline)
    }

    /// Address of the hub.
    pub fn endpoint(&self) -> &str {
        self.http.base()
    }

    /// The content store behind a repository. Its tokens are fetched again before they expire.
    pub(crate) async fn cas(&self, repo: &RepoName, revision: &str, scope: TokenScope) -> Result<HttpCas> {
        let path = token(repo.kind.plural(), &repo.id(), scope, Some(revision));
        connect_with(&self.http, &path).await
    }

    /// Bytes of a file as they arrive: exactly those, or an error at the end. One request, made once.
    pub(crate) async fn read(
        &self,
        repo: &RepoName,
        revision: &str,
        path: &str,
        bytes: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.http.stream(&web(repo, "resolve", revision, path), bytes).await
    }
}

/// A path of the API about a repository.
fn api(repo: &RepoName, rest: &str) -> String {
    let (kind, namespace, name) = (repo.kind.plural(), segment(&repo.namespace), segment(&repo.name));
    format!("/api/{kind}/{namespace}/{name}{rest}")
}

/// A file's path on the web.
fn web(repo: &RepoName, what: &str, revision: &str, path: &str) -> String {
    let prefix = match repo.kind {
        RepoKind::Model => String::new(),
        kind => format!("/{}", kind.plural()),
    };
    let (namespace, name) = (segment(&repo.namespace), segment(&repo.name));
    format!("{prefix}/{namespace}/{name}/{what}/{}/{}", segment(revision), segments(path))
}

/// Nothing is there.
fn no_entry(repo: &RepoName, revision: &str, path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{repo}: no file or folder {path:?} at {revision}"))
}

/// A path as it is seen from a folder; none when it is not below it. The root is the empty path.
fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// A path, its slashes left as they are.
fn segments(path: &str) -> String {
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

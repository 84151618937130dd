//! Answer cache: answers of a hub about repositories, stored beside the chunks, for offline use.
//!
//! Listings are stored page by page as they came. Folders and single files are found in a listing of everything below the
//! root, too.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use xet::wire::{encode_json, parse_json};

use super::entry::{Entry, Page};
use super::{RepoName, below, no_entry};
use crate::cache::Cache;
use crate::error::{Error, ErrorKind, Result};

/// Stored answers of one hub.
#[derive(Debug, Clone)]
pub(super) struct AnswerCache {
    pub(super) cache: Arc<Cache>,
    /// Whether no request may be sent.
    pub(super) offline: bool,
    endpoint: String,
}

/// Key of a stored answer. Never change how it is encoded: that names the files of the cache.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CacheKey<'a> {
    /// Of a revision: the id of the commit.
    Commit(&'a str),
    /// Of a revision and a path.
    Entry(&'a str, &'a str),
    /// Of a revision: the folder, whether everything below it, and which page.
    Page(&'a str, &'a str, bool, Option<&'a str>),
}

impl AnswerCache {
    pub(super) fn new(cache: Arc<Cache>, offline: bool, endpoint: &str) -> Self {
        Self { cache, offline, endpoint: endpoint.to_owned() }
    }

    pub(super) fn store<T: Serialize>(&self, repo: &RepoName, key: &CacheKey<'_>, answer: &T) {
        self.cache.keep_answer(&self.name(repo, key), &encode_json(answer));
    }

    fn find<T: DeserializeOwned>(&self, repo: &RepoName, key: &CacheKey<'_>) -> Option<T> {
        parse_json(&self.cache.answer(&self.name(repo, key))?).ok()
    }

    fn name(&self, repo: &RepoName, key: &CacheKey<'_>) -> Vec<u8> {
        encode_json(&(&self.endpoint, repo.kind.plural(), repo.id(), key))
    }

    /// The commit that a revision was.
    pub(super) fn commit_id(&self, repo: &RepoName, revision: &str) -> Result<String> {
        let is_id = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        let found = self.find(repo, &CacheKey::Commit(revision));
        found.or_else(|| is_id.then(|| revision.to_owned())).ok_or_else(|| unknown(repo, revision))
    }

    /// The stored entry of a path.
    pub(super) fn entry(&self, repo: &RepoName, revision: &str, path: &str) -> Result<Entry> {
        let commit = self.commit_id(repo, revision);
        let cached = |revision: &str| self.find(repo, &CacheKey::Entry(revision, path));
        if let Some(entry) = commit.as_deref().ok().and_then(cached).or_else(|| cached(revision)) {
            return Ok(entry);
        }
        let commit = commit?;
        let mut next = None;
        loop {
            let root = CacheKey::Page(&commit, "", true, next.as_deref());
            let page: Page = self.find(repo, &root).ok_or_else(|| unknown(repo, revision))?;
            if let Some(entry) = page.entries.into_iter().find(|entry| entry.path == path) {
                return Ok(entry);
            }
            next = page.next;
            if next.is_none() {
                return Err(no_entry(repo, revision, path));
            }
        }
    }

    /// A page of a listing, or what a page of the listing of everything has of it.
    pub(super) fn page(
        &self,
        repo: &RepoName,
        revision: &str,
        folder: &str,
        recursive: bool,
        next: Option<&str>,
    ) -> Result<Page> {
        let commit = self.commit_id(repo, revision);
        let cached = |folder: &str, recursive: bool| {
            let of = |revision: &str| self.find(repo, &CacheKey::Page(revision, folder, recursive, next));
            commit.as_deref().ok().and_then(of).or_else(|| of(revision))
        };
        if let Some(page) = cached(folder, recursive) {
            return Ok(page);
        }
        let all = cached("", true);
        let Page { mut entries, next } = all.ok_or_else(|| unknown(repo, revision))?;
        entries.retain(|entry| {
            below(folder, &entry.path).is_some_and(|below| recursive || !below.contains('/'))
        });
        Ok(Page { entries, next })
    }
}

fn unknown(repo: &RepoName, revision: &str) -> Error {
    let message = format!(
        "{repo}@{revision}: not all of it was seen here; pull it once with this cache and without --offline"
    );
    Error::new(ErrorKind::NotFound, message)
}

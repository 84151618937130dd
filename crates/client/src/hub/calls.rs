//! Calls of the Hub API, with their requests and answers.

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, LINK};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;
use xet::wire::routes::{content_type, segment};
use xet::wire::{encode_json, parse_json};

use super::answer_cache::CacheKey;
use super::commit::Commit;
use super::entry::{Entry, Page};
use super::{Hub, RepoKind, RepoName, api, no_entry, segments};
use crate::error::{Error, ErrorKind, Result};
use crate::http::Request;

/// A file that might be uploaded.
#[derive(Debug, Clone, Serialize)]
pub struct Candidate {
    /// Path in the repository.
    pub path: String,
    /// Its first bytes, in base64: the hub looks whether they are text.
    pub sample: String,
    /// Its length.
    pub size: u64,
}

/// How a file gets into a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadMode {
    /// As it is, in the commit.
    Regular,
    /// Through the content store.
    Lfs,
}

/// How the hub wants a file to be uploaded.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploadDecision {
    /// Which.
    pub path: String,
    /// How it gets there.
    pub upload_mode: UploadMode,
    /// Whether it should not.
    #[serde(default)]
    pub should_ignore: bool,
    /// The digest of the file that is at this path, if the hub has its bytes whole.
    #[serde(default)]
    pub oid: Option<String>,
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Committed {
    /// Its id.
    #[serde(rename(deserialize = "commitOid"))]
    pub oid: String,
    /// Address of its page.
    #[serde(rename(deserialize = "commitUrl"), default)]
    pub url: String,
}

impl Hub {
    /// Makes a repository. False when it is there already.
    pub(crate) async fn create_repo(&self, repo: &RepoName, private: bool) -> Result<bool> {
        #[derive(Serialize)]
        struct Create<'a> {
            name: &'a str,
            organization: &'a str,
            r#type: &'a str,
            private: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            sdk: Option<&'a str>,
        }
        let create = Create {
            name: &repo.name,
            organization: &repo.namespace,
            r#type: repo.kind.singular(),
            private,
            // Hubs require the SDK of a space; nothing is.
            sdk: (repo.kind == RepoKind::Space).then_some("static"),
        };
        self.create("/api/repos/create", &create).await
    }

    /// Makes a branch that begins where `main` is. False when it is there already.
    pub(crate) async fn create_branch(&self, repo: &RepoName, branch: &str) -> Result<bool> {
        self.create(&api(repo, &format!("/branch/{}", segment(branch))), &Empty {}).await
    }

    async fn create(&self, path: &str, body: &impl Serialize) -> Result<bool> {
        let request = json(path, body).accept_status(|status| status == StatusCode::CONFLICT);
        let answer = self.http.send(&request).await?;
        Ok(answer.status() != StatusCode::CONFLICT)
    }

    /// The id of the commit that a revision is now.
    pub async fn commit_id(&self, repo: &RepoName, revision: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Info {
            sha: String,
        }
        if let Some(answers) = self.offline() {
            return answers.commit_id(repo, revision);
        }
        // Only the id: by itself the answer would list every file.
        let path = api(repo, &format!("/revision/{}?expand=sha", segment(revision)));
        let info: Info = self.parsed(&Request::get(&path), &path).await?;
        self.store_answer(repo, &CacheKey::Commit(revision), &info.sha);
        Ok(info.sha)
    }

    /// A page of the entries in a folder, or of everything below it. `next` is of the page before.
    pub async fn tree(
        &self,
        repo: &RepoName,
        revision: &str,
        folder: &str,
        recursive: bool,
        next: Option<&str>,
    ) -> Result<Page> {
        if let Some(answers) = self.offline() {
            return answers.page(repo, revision, folder, recursive, next);
        }
        let key = CacheKey::Page(revision, folder, recursive, next);
        let folder = if folder.is_empty() { String::new() } else { format!("/{}", segments(folder)) };
        let path = api(repo, &format!("/tree/{}{folder}", segment(revision)));
        let path_of_page = match next {
            Some(query) => format!("{path}?{query}"),
            None => format!("{path}?recursive={recursive}&expand=false"),
        };
        let answer = self.http.send(&Request::get(&path_of_page)).await?;
        let link = answer.headers().get(LINK).and_then(|link| link.to_str().ok()).and_then(next_query);
        let bytes = self.http.read_body(&path, answer, JSON_BYTES_MAX).await?;
        let rows: Vec<EntryJson> = parse_json(&bytes).map_err(|source| Error::invalid(&path, source))?;
        let entries = rows.into_iter().map(EntryJson::into_entry).collect::<Result<_>>()?;
        let page = Page { entries, next: link };
        self.store_answer(repo, &key, &page);
        Ok(page)
    }

    /// Entries at these paths; missing paths are left out.
    pub async fn paths_info(&self, repo: &RepoName, revision: &str, paths: &[&str]) -> Result<Vec<Entry>> {
        #[derive(Serialize)]
        struct Paths<'a> {
            paths: &'a [&'a str],
            expand: bool,
        }
        let path = api(repo, &format!("/paths-info/{}", segment(revision)));
        let rows: Vec<EntryJson> = self.parsed(&json(&path, &Paths { paths, expand: false }), &path).await?;
        rows.into_iter().map(EntryJson::into_entry).collect()
    }

    /// The entry at this path.
    pub async fn entry(&self, repo: &RepoName, revision: &str, path: &str) -> Result<Entry> {
        if let Some(answers) = self.offline() {
            return answers.entry(repo, revision, path);
        }
        let found = self.paths_info(repo, revision, &[path]).await?;
        let found = found.into_iter().find(|entry| entry.path == path);
        let entry = found.ok_or_else(|| no_entry(repo, revision, path))?;
        self.store_answer(repo, &CacheKey::Entry(revision, path), &entry);
        Ok(entry)
    }

    fn store_answer<T: Serialize>(&self, repo: &RepoName, key: &CacheKey<'_>, answer: &T) {
        if let Some(answers) = &self.answers {
            answers.store(repo, key, answer);
        }
    }

    /// Asks how files get into a repository.
    pub(crate) async fn preupload(
        &self,
        repo: &RepoName,
        revision: &str,
        files: &[Candidate],
    ) -> Result<Vec<UploadDecision>> {
        #[derive(Serialize)]
        struct Files<'a> {
            files: &'a [Candidate],
        }
        #[derive(Deserialize)]
        struct Answer {
            files: Vec<UploadDecision>,
        }
        let path = api(repo, &format!("/preupload/{}", segment(revision)));
        let answer: Answer = self.parsed(&json(&path, &Files { files }), &path).await?;
        Ok(answer.files)
    }

    /// Makes a commit on a branch: all of it or nothing. Repeated, it changes nothing more.
    pub async fn commit(&self, repo: &RepoName, revision: &str, commit: Commit) -> Result<Committed> {
        let path = api(repo, &format!("/commit/{}", segment(revision)));
        let request = Request::post(&path, commit.into_lines()).header(CONTENT_TYPE, content_type::NDJSON);
        self.parsed(&request, &path).await
    }

    async fn parsed<T: DeserializeOwned>(&self, request: &Request<'_>, path: &str) -> Result<T> {
        let bytes = self.http.send_and_read(request, JSON_BYTES_MAX).await?;
        parse_json(&bytes).map_err(|source| Error::invalid(path, source))
    }
}

fn json<'a>(path: &'a str, body: &impl Serialize) -> Request<'a> {
    Request::post(path, vec![encode_json(body).into()]).header(CONTENT_TYPE, content_type::JSON)
}

#[derive(Serialize)]
struct Empty {}

/// An entry as hubs send it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryJson {
    r#type: String,
    path: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    lfs: Option<LfsRow>,
    xet_hash: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LfsRow {
    oid: String,
    size: Option<u64>,
}

impl EntryJson {
    fn into_entry(self) -> Result<Entry> {
        let Self { r#type, path, oid, size, lfs, xet_hash } = self;
        let wrong = |_| Error::new(ErrorKind::Invalid, format!("{path:?}: the hub names it by no SHA-256"));
        let sha256 = lfs.as_ref().map(|lfs| lfs.oid.parse().map_err(wrong)).transpose()?;
        let bytes = lfs.and_then(|lfs| lfs.size).unwrap_or(size);
        // Whatever else stands there, the file can be had without it.
        let xet = xet_hash.and_then(|hash| hash.parse().ok());
        Ok(Entry { is_folder: r#type == "directory", path, bytes, oid, sha256, xet })
    }
}

/// The query of the link to the next page. The rest of it is left: where the hub is, we know better.
fn next_query(link: &str) -> Option<String> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let url = next.split_once('<')?.1.split_once('>')?.0;
    let query = match Url::parse(url) {
        Ok(url) => url.query().map(str::to_owned),
        Err(_) => url.split_once('?').map(|(_, query)| query.to_owned()),
    };
    query.filter(|query| !query.is_empty())
}

/// Files in one key how they get there: what other clients ask at once.
pub(super) const CANDIDATES_MAX: usize = 256;

/// A page has a thousand entries of some 300 bytes, and paths may be long.
const JSON_BYTES_MAX: u64 = 32 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_wherever_the_hub_thinks_it_is() {
        let link =
            "<https://other.example.com/api/models/a/b/tree/main?recursive=true&cursor=x%2Fy>; rel=\"next\"";
        assert_eq!(next_query(link).unwrap(), "recursive=true&cursor=x%2Fy");
        assert_eq!(next_query("</api/x?cursor=1>; rel=\"next\", </>; rel=\"first\"").unwrap(), "cursor=1");
        for none in ["", "<http://a/b>; rel=\"next\"", "<http://a/b?c>; rel=\"prev\"", "rel=\"next\""] {
            assert_eq!(next_query(none), None, "{none}");
        }
    }

    #[test]
    fn entries_of_every_kind_are_read() {
        let sha256 = "ab".repeat(32);
        let rows = format!(
            r#"[{{"type":"directory","oid":"1","size":0,"path":"a"}},
                {{"type":"file","oid":"2","size":5,"path":"a/b","lastCommit":{{"id":"x"}}}},
                {{"type":"file","oid":"3","size":130,"path":"c","lfs":{{"oid":"{sha256}","size":9,"pointerSize":130}},"xetHash":"zz"}}]"#
        );
        let rows: Vec<EntryJson> = parse_json(rows.as_bytes()).unwrap();
        let entries: Vec<_> = rows.into_iter().map(|row| row.into_entry().unwrap()).collect();
        assert_eq!(entries.iter().map(|entry| entry.is_folder).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((entries[1].bytes, entries[1].sha256), (5, None));
        assert_eq!((entries[2].bytes, entries[2].sha256, entries[2].xet), (9, sha256.parse().ok(), None));
    }
}

//! Preupload: which files of an upload go into git and which into the content store.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use store::content::Need;
use store::hub::{Item, large_endings, pointer};
use store::ids::{Oid, RepoId};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::hub::gitignore::Ignore;
use crate::hub::json::small_json;
use crate::hub::request::HubRequest;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreuploadBody {
    files: Vec<Candidate>,
    /// The `.gitattributes` that comes along. What goes into git is decided here by size and content alone.
    #[serde(rename = "gitAttributes")]
    _git_attributes: Option<IgnoredAny>,
    /// The `.gitignore` that comes along; else that of the revision counts.
    #[serde(rename = "gitIgnore")]
    git_ignore: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Candidate {
    path: String,
    #[serde(default)]
    sample: String,
    size: u64,
}

#[derive(Serialize)]
struct Answer {
    files: Vec<Decided>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Decided {
    path: String,
    upload_mode: &'static str,
    should_ignore: bool,
    /// What is at the path now: clients leave out what has not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    oid: Option<String>,
    /// How long that is, for pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_size: Option<u64>,
}

/// `POST {repo}/preupload/{revision}`.
pub(crate) async fn decide(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    decided(request, body, false).await
}

/// The same for the upload page, which says what each file replaces.
pub(crate) async fn decide_for_page(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    decided(request, body, true).await
}

async fn decided(request: HubRequest, body: Body, is_page: bool) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let upload: PreuploadBody = small_json(body).await?;
    if upload.files.len() > FILES_MAX {
        return Err(ApiError::invalid(format!("at most {FILES_MAX} files at once")));
    }
    if upload.git_ignore.as_ref().is_some_and(|text| text.len() > IGNORE_BYTES_MAX) {
        return Err(ApiError::invalid(format!("gitIgnore: at most {IGNORE_BYTES_MAX} bytes")));
    }
    let commit = request.resolved(&repo).await?.commit;
    let paths: Vec<_> = upload.files.iter().map(|file| file.path.clone()).collect();
    let items = request.store.hub().find_paths(repo.id, commit, &paths).await?;
    let current: HashMap<_, _> =
        items.iter().filter(|item| item.mode.is_blob()).map(|item| (item.path.as_str(), item)).collect();
    // Clients leave out what has not changed, but what is damaged must be uploaded again.
    let linked: Vec<_> = items.iter().filter_map(|item| Some(item.linked.as_ref()?.file)).collect();
    let broken = request.store.content().broken_files(&linked).await?;
    // What seems new must fit: here clients show people why, and the content store's clients do not.
    let is_there = |file: &&Candidate| {
        let current = current.get(file.path.as_str());
        current.is_some_and(|item| item.linked.as_ref().is_none_or(|linked| linked.bytes == file.size))
    };
    let new = upload.files.iter().filter(|file| !is_there(file));
    let logical_bytes = new.fold(0, |sum: u64, file| sum.saturating_add(file.size));
    request
        .store
        .content()
        .expect_quota(&repo.name.scope()?, Need { logical_bytes, ..Need::default() })
        .await?;
    let ignore = match &upload.git_ignore {
        Some(text) => Ignore::parse(text),
        None => stored_ignore(&request, repo.id, commit).await?,
    };
    let found_of = |item: &&Item| {
        let oid = match &item.linked {
            Some(linked) => (!broken.contains(&linked.file)).then(|| pointer::hex(&linked.sha256)),
            None => Some(item.oid.to_string()),
        };
        (oid, is_page.then_some(item.bytes))
    };
    let found: Vec<_> = upload
        .files
        .iter()
        .map(|file| current.get(file.path.as_str()).map(found_of).unwrap_or_default())
        .collect();
    // Each file is compared with each rule of the `.gitignore`.
    let decide = move || -> Result<Vec<Decided>, ApiError> {
        let begin = Instant::now();
        let decided = |(file, (oid, current_size)): (Candidate, (Option<String>, Option<u64>))| {
            if begin.elapsed() > IGNORE_TIME_MAX {
                return Err(ApiError::invalid(
                    "gitIgnore: its patterns take too long to compare with these files",
                ));
            }
            let should_ignore = file.path.len() <= PATH_BYTES_MAX && ignore.matches(&file.path);
            Ok(Decided { upload_mode: mode(&file), should_ignore, oid, current_size, path: file.path })
        };
        upload.files.into_iter().zip(found).map(decided).collect()
    };
    let decided = tokio::task::spawn_blocking(decide).await;
    let failed = |_| ApiError::new(ErrorCode::Internal, "the files could not be compared with .gitignore");
    Ok(answer(&Answer { files: decided.map_err(failed)?? }))
}

/// The `.gitignore` of a commit.
async fn stored_ignore(request: &HubRequest, repo: RepoId, commit: Oid) -> Result<Ignore, ApiError> {
    let item = request.store.hub().find_path(repo, commit, ".gitignore").await?;
    let row =
        item.and_then(|item| item.row).filter(|row| row.linked.is_none() && row.bytes <= REGULAR_BYTES_MAX);
    let Some(row) = row else { return Ok(Ignore::default()) };
    Ok(Ignore::parse(&String::from_utf8_lossy(&request.store.hub().git_body(repo, &row).await?)))
}

/// Small text goes into git, where people can read it; everything else where it is deduplicated.
fn mode(file: &Candidate) -> &'static str {
    let is_large = || file.size > REGULAR_BYTES_MAX;
    let has_ending = || large_endings().any(|ending| file.path.to_ascii_lowercase().ends_with(ending));
    let is_binary = || STANDARD.decode(&file.sample).map_or(true, |sample| !is_text(&sample));
    match file.size > 0 && (is_large() || has_ending() || is_binary()) {
        true => "lfs",
        false => "regular",
    }
}

/// Whether the first bytes of a file look like text. The last character may be cut.
fn is_text(sample: &[u8]) -> bool {
    let valid = match std::str::from_utf8(sample) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && error.valid_up_to() + 4 > sample.len(),
    };
    valid && !sample.contains(&0)
}

/// Less than a commit may hold: clients put all regular files of a commit into one body.
const REGULAR_BYTES_MAX: u64 = 1 << 20;
/// Files in one upload. Clients send up to 256.
const FILES_MAX: usize = 10_000;
/// For how long files are compared with a `.gitignore`: patterns can be made to be slow.
const IGNORE_TIME_MAX: Duration = Duration::from_secs(2);
/// The longest path that can be committed.
const PATH_BYTES_MAX: usize = 4096;
/// A `.gitignore` that comes along.
const IGNORE_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &str, sample: &[u8], size: u64) -> &'static str {
        mode(&Candidate { path: path.to_owned(), sample: STANDARD.encode(sample), size })
    }

    #[test]
    fn small_text_goes_into_git_and_nothing_else() {
        assert_eq!(mode_of("README.md", b"# hello", 7), "regular");
        assert_eq!(mode_of("a.json", "grün".as_bytes().split_at(3).0, 500), "regular", "a cut character");
        assert_eq!(mode_of("empty.bin", b"", 0), "regular");
        assert_eq!(mode_of("a.txt", b"text", REGULAR_BYTES_MAX + 1), "lfs");
        assert_eq!(mode_of("weights.SafeTensors", b"text", 4), "lfs");
        assert_eq!(mode_of("a.dat", b"a\0b", 3), "lfs");
        assert_eq!(mode_of("a.dat", &[0xff, 0xfe, 0x41, 0x41, 0x41, 0x41], 6), "lfs");
    }
}

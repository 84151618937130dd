//! What a repository is: its info, at any revision, and lists of repositories.

use axum::body::Body;
use axum::http::Response;
use serde_json::{Value, json};
use store::hub::{Item, Page, RepoQuery, RepoRow, pointer};
use store::ids::Oid;

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::time::iso;
use crate::hub::json::{next_link, plain, set};
use crate::hub::request::HubRequest;

/// `GET {repo}` and `GET {repo}/revision/{revision}`.
pub(crate) async fn info(request: HubRequest) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let commit = request.resolved(&repo).await?.commit;
    let mut info = describe(&repo);
    let time_s = request.store.hub().commit_object(repo.id, commit).await?.author.time_s;
    set(&mut info, "sha", json!(commit.to_string()));
    set(&mut info, "lastModified", json!(iso(time_s)));
    // Who names what they want need not get the files.
    let expands: Vec<_> = request.query.words("expand").collect();
    let with_blobs = request.query.is_set("blobs");
    let with_files = expands.is_empty() || expands.contains(&"siblings");
    let with_used = with_blobs || expands.contains(&"usedStorage");
    if with_files || with_used {
        let files = files(&request, &repo, commit).await?;
        if with_files {
            let siblings = files.iter().map(|item| sibling(item, with_blobs)).collect();
            set(&mut info, "siblings", Value::Array(siblings));
        }
        if with_used {
            let used = files.iter().fold(0, |sum: u64, item| sum.saturating_add(item.bytes));
            set(&mut info, "usedStorage", json!(used));
        }
    }
    if expands.contains(&"xetEnabled") {
        set(&mut info, "xetEnabled", json!(true));
    }
    Ok(answer(&info))
}

/// `GET {repo}/auth-check`.
pub(crate) async fn auth_check(request: HubRequest) -> Result<Response<Body>, ApiError> {
    request.require_read().await?;
    Ok(answer(&json!({})))
}

/// `GET {repo}/auth-check/write`.
pub(crate) async fn auth_check_write(request: HubRequest) -> Result<Response<Body>, ApiError> {
    request.require_write().await?;
    Ok(answer(&json!({})))
}

/// `GET /api/models` and the like.
pub(crate) async fn list(request: HubRequest) -> Result<Response<Body>, ApiError> {
    if request.query.value("search").is_some_and(|text| text.len() > SEARCH_BYTES_MAX) {
        return Err(ApiError::invalid(format!("search: at most {SEARCH_BYTES_MAX} bytes")));
    }
    let limit = request.query.limit("limit", 100, LIST_REPOS_MAX);
    let after = cursor(&request)?;
    let expands: Vec<_> = request.query.words("expand").collect();
    let namespace = match request.query.value("author").map(plain) {
        Some(author) => Some(request.store.hub().spelled_namespace(&author).await?),
        None => None,
    };
    let query = RepoQuery {
        kind: request.kind(),
        namespace,
        search: request.query.value("search").map(plain),
        private_of: request.visible_private_namespaces(),
        after,
        limit: limit as u64 + 1,
    };
    let mut rows = request.store.hub().list_repos(&query).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut infos = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut info = describe(row);
        if expands.contains(&"xetEnabled") {
            set(&mut info, "xetEnabled", json!(true));
        }
        if expands.contains(&"sha") {
            let main = request.store.hub().ref_target(row.id, store::hub::refs::MAIN).await?;
            set(&mut info, "sha", json!(main.map(|commit| commit.to_string())));
        }
        infos.push(info);
    }
    let mut response = answer(&infos);
    if let Some(last) = rows.last().filter(|_| more) {
        let query = request.query.with("cursor", &last.name.id());
        let url = format!("{}/api/{}?{query}", request.state.base_url, request.kind().plural());
        next_link(&mut response, &url);
    }
    Ok(response)
}

/// The repository after which a page of a list begins, as `Link` of the page before names it.
pub(crate) fn cursor(request: &HubRequest) -> Result<Option<(String, String)>, ApiError> {
    let Some(text) = request.query.value("cursor") else { return Ok(None) };
    let name = text.split_once('/').map(|(namespace, name)| (plain(namespace), plain(name)));
    name.map(Some).ok_or_else(|| ApiError::invalid("cursor: expected the one of a Link header"))
}

/// Description of a repository without its files.
fn describe(repo: &RepoRow) -> Value {
    let id = repo.name.id();
    let mut info = json!({
        "_id": repo.id.to_string(),
        "id": id,
        "author": repo.name.namespace,
        "private": repo.private,
        "gated": false,
        "disabled": false,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "createdAt": iso(repo.created_s),
        "lastModified": iso(repo.updated_s),
    });
    if repo.name.kind == store::names::Kind::Model {
        set(&mut info, "modelId", json!(id));
    }
    info
}

/// Files of a commit, up to [`SIBLINGS_MAX`].
async fn files(request: &HubRequest, repo: &RepoRow, commit: Oid) -> Result<Vec<Item>, ApiError> {
    let mut files = Vec::new();
    let mut page = Page { recursive: true, after: None, limit: SIBLINGS_STEP };
    let mut path_bytes = 0;
    loop {
        let listing = request.store.hub().list_folder(repo.id, commit, "", &page).await?;
        let Some(listing) = listing else { break };
        path_bytes += listing.items.iter().map(|item| item.path.len()).sum::<usize>();
        files.extend(listing.items.into_iter().filter(|item| item.mode.is_blob()));
        page.after = listing.next;
        // Clients list more than these by pages.
        if page.after.is_none() || files.len() >= SIBLINGS_MAX || path_bytes >= SIBLINGS_BYTES_MAX {
            break;
        }
    }
    Ok(files)
}

fn sibling(item: &Item, with_blobs: bool) -> Value {
    let mut sibling = json!({"rfilename": item.path});
    if with_blobs {
        set(&mut sibling, "size", json!(item.bytes));
        set(&mut sibling, "blobId", json!(item.oid.to_string()));
        if let Some(linked) = &item.linked {
            let lfs = json!({"sha256": pointer::hex(&linked.sha256), "size": linked.bytes, "pointerSize": item.pointer_bytes});
            set(&mut sibling, "lfs", lfs);
        }
    }
    sibling
}

/// More than any name has, and less than databases take as a pattern.
pub(crate) const SEARCH_BYTES_MAX: usize = 1000;
const LIST_REPOS_MAX: usize = 1000;
const SIBLINGS_STEP: usize = 5000;
const SIBLINGS_MAX: usize = 50_000;
/// Bytes of their paths: one may have four thousand.
const SIBLINGS_BYTES_MAX: usize = 16 << 20;

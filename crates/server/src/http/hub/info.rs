//! What a repository is: its info, at any revision, and lists of repositories.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use store::hub::{Item, Page, RepoQuery, RepoRow, pointer};
use store::ids::Oid;

use super::access::Asked;
use super::clock::iso;
use super::error::HubError;
use crate::http::json as answer;

/// `GET {repo}` and `GET {repo}/revision/{revision}`.
pub(super) async fn info(asked: Asked) -> Result<Response<Body>, HubError> {
    let repo = asked.readable().await?;
    let commit = asked.resolved(&repo).await?.commit;
    let mut info = describe(&repo);
    let time_s = asked.store.hub().commit_object(repo.id, commit).await?.author.time_s;
    set(&mut info, "sha", json!(commit.to_string()));
    set(&mut info, "lastModified", json!(iso(time_s)));
    // Who names what they want need not get the files.
    let expands: Vec<_> = asked.query.words("expand").collect();
    let with_blobs = asked.query.is_set("blobs");
    let with_files = expands.is_empty() || expands.contains(&"siblings");
    let with_used = with_blobs || expands.contains(&"usedStorage");
    if with_files || with_used {
        let files = files(&asked, &repo, commit).await?;
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
pub(super) async fn auth_check(asked: Asked) -> Result<Response<Body>, HubError> {
    asked.readable().await?;
    Ok(answer(&json!({})))
}

/// `GET {repo}/auth-check/write`.
pub(super) async fn auth_check_write(asked: Asked) -> Result<Response<Body>, HubError> {
    asked.writable().await?;
    Ok(answer(&json!({})))
}

/// `GET /api/models` and the like.
pub(super) async fn list(asked: Asked) -> Result<Response<Body>, HubError> {
    if asked.query.value("search").is_some_and(|text| text.len() > SEARCH_BYTES_MAX) {
        return Err(HubError::invalid(format!("search: at most {SEARCH_BYTES_MAX} bytes")));
    }
    let limit = asked.query.limit("limit", 100, LIST_REPOS_MAX);
    let after = cursor(&asked)?;
    let expands: Vec<_> = asked.query.words("expand").collect();
    let namespace = match asked.query.value("author").map(plain) {
        Some(author) => Some(asked.store.hub().spelled_namespace(&author).await?),
        None => None,
    };
    let query = RepoQuery {
        kind: asked.kind(),
        namespace,
        search: asked.query.value("search").map(plain),
        private_of: asked.private_of(),
        after,
        limit: limit as u64 + 1,
    };
    let mut rows = asked.store.hub().list_repos(&query).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut infos = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut info = describe(row);
        if expands.contains(&"xetEnabled") {
            set(&mut info, "xetEnabled", json!(true));
        }
        if expands.contains(&"sha") {
            let main = asked.store.hub().ref_target(row.id, store::hub::refs::MAIN).await?;
            set(&mut info, "sha", json!(main.map(|commit| commit.to_string())));
        }
        infos.push(info);
    }
    let mut response = answer(&infos);
    if let Some(last) = rows.last().filter(|_| more) {
        let query = asked.query.with("cursor", &last.name.id());
        let url = format!("{}/api/{}?{query}", asked.state.base_url, asked.kind().plural());
        next_link(&mut response, &url);
    }
    Ok(response)
}

/// The repository after which a page of a list begins, as `Link` of the page before names it.
pub(super) fn cursor(asked: &Asked) -> Result<Option<(String, String)>, HubError> {
    let Some(text) = asked.query.value("cursor") else { return Ok(None) };
    let name = text.split_once('/').map(|(namespace, name)| (plain(namespace), plain(name)));
    name.map(Some).ok_or_else(|| HubError::invalid("cursor: expected the one of a Link header"))
}

/// Text without what no name has, and PostgreSQL does not take.
pub(super) fn plain(text: &str) -> String {
    text.replace(char::is_control, "")
}

/// Says where the next page is.
pub(super) fn next_link(response: &mut Response<Body>, url: &str) {
    if let Ok(link) = HeaderValue::from_str(&format!("<{url}>; rel=\"next\"")) {
        response.headers_mut().insert(header::LINK, link);
    }
}

/// What is known of a repository without looking into it.
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
async fn files(asked: &Asked, repo: &RepoRow, commit: Oid) -> Result<Vec<Item>, HubError> {
    let mut files = Vec::new();
    let mut page = Page { recursive: true, after: None, limit: SIBLINGS_STEP };
    loop {
        let listing = asked.store.hub().list_folder(repo.id, commit, "", &page).await?;
        let Some(listing) = listing else { break };
        files.extend(listing.items.into_iter().filter(|item| item.mode.is_blob()));
        page.after = listing.next;
        // Whoever has more lists them by pages.
        if page.after.is_none() || files.len() >= SIBLINGS_MAX {
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

/// Sets a field of an object.
pub(super) fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// More than any name has, and less than databases take as a pattern.
pub(crate) const SEARCH_BYTES_MAX: usize = 1000;
const LIST_REPOS_MAX: usize = 1000;
const SIBLINGS_STEP: usize = 5000;
const SIBLINGS_MAX: usize = 50_000;

//! Files and folders: listings by page, and what is at given paths.

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use serde::Deserialize;
use serde_json::{Value, json};
use store::hub::{Item, Page, Past, RepoRow, pointer};
use store::ids::Oid;
use xet::wire::routes::segment;

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::query::Query;
use crate::http::time::iso;
use crate::http::upload::read_small_body;
use crate::hub::json::{next_link, parse_small, set};
use crate::hub::request::HubRequest;

/// `GET {repo}/tree/{revision}[/{path}]`.
pub(crate) async fn list(request: HubRequest) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let commit = request.resolved(&repo).await?.commit;
    let folder = request.param("path").trim_matches('/');
    let expand = request.query.is_set("expand");
    // To find the last change of each costs a walk through the history.
    let most = if expand { EXPANDED_MAX } else { ITEMS_MAX };
    let page = Page {
        recursive: request.query.is_set("recursive"),
        after: request.query.value("cursor").map(str::to_owned),
        limit: request.query.limit("limit", most, most),
    };
    let listing = request.store.hub().list_folder(repo.id, commit, folder, &page).await?;
    let listing = listing.ok_or_else(|| ApiError::entry_not_found(folder).at(commit))?;
    let items = described(&request, &repo, commit, &listing.items, expand).await?;
    let mut response = answer(&items);
    if let Some(next) = listing.next {
        // The commit and not the branch: pages of one listing belong together.
        let path = folder.split('/').map(segment).collect::<Vec<_>>().join("/");
        let query = request.query.with("cursor", &next);
        let url = format!("{}/tree/{commit}/{path}?{query}", request.api_url(&repo.name));
        next_link(&mut response, &url);
    }
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Paths {
    paths: Vec<String>,
    #[serde(default)]
    expand: bool,
}

/// `POST {repo}/paths-info/{revision}`: a form or JSON.
pub(crate) async fn paths_info(
    request: HubRequest,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let commit = request.resolved(&repo).await?.commit;
    let bytes = read_small_body(body, PATHS_BYTES_MAX).await?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let paths = match content_type.is_some_and(|kind| kind.starts_with("application/json")) {
        true => parse_small::<Paths>(&bytes)?,
        false => paths_of_form(&bytes)?,
    };
    if paths.paths.len() > PATHS_MAX {
        return Err(ApiError::invalid(format!("at most {PATHS_MAX} paths at once")));
    }
    if paths.expand && paths.paths.len() > EXPANDED_PATHS_MAX {
        let message = format!(
            "at most {EXPANDED_PATHS_MAX} paths at once with expand: each is looked for in the history"
        );
        return Err(ApiError::invalid(message));
    }
    let items = request.store.hub().find_paths(repo.id, commit, &paths.paths).await?;
    Ok(answer(&described(&request, &repo, commit, &items, paths.expand).await?))
}

/// The same as a form: `paths` any number of times, `expand` at most once.
fn paths_of_form(bytes: &[u8]) -> Result<Paths, ApiError> {
    let form = Query::form(bytes);
    let other = form.pairs().find(|(key, _)| !matches!(*key, "paths" | "paths[]" | "expand"));
    if let Some((key, _)) = other {
        return Err(ApiError::invalid(format!("{key:.80}: a form has paths and expand")));
    }
    let expand = match form.values("expand").collect::<Vec<_>>().as_slice() {
        [] | ["false" | "False" | "0"] => false,
        ["" | "true" | "True" | "1"] => true,
        [_] => return Err(ApiError::invalid("expand: expected true or false")),
        _ => return Err(ApiError::invalid("expand: given more than once")),
    };
    Ok(Paths { paths: form.values("paths").map(str::to_owned).collect(), expand })
}

async fn described(
    request: &HubRequest,
    repo: &RepoRow,
    commit: Oid,
    items: &[Item],
    expand: bool,
) -> Result<Vec<Value>, ApiError> {
    let mut changes = HashMap::new();
    if expand {
        let paths: Vec<_> = items.iter().map(|item| item.path.clone()).collect();
        changes = request.store.hub().last_changes(repo.id, commit, &paths).await?;
    }
    Ok(items.iter().map(|item| describe(item, changes.get(&item.path))).collect())
}

fn describe(item: &Item, change: Option<&Past>) -> Value {
    let kind = if item.is_folder() { "directory" } else { "file" };
    let mut entry = json!({"type": kind, "oid": item.oid.to_string(), "size": item.bytes, "path": item.path});
    if let Some(linked) = &item.linked {
        let lfs = json!({
            "oid": pointer::hex(&linked.sha256), "size": linked.bytes, "pointerSize": item.pointer_bytes,
        });
        set(&mut entry, "lfs", lfs);
        set(&mut entry, "xetHash", json!(linked.file.to_string()));
    }
    if let Some(Past { oid, commit }) = change {
        let last = json!({"id": oid.to_string(), "title": commit.title(), "date": iso(commit.author.time_s)});
        set(&mut entry, "lastCommit", last);
    }
    entry
}

const ITEMS_MAX: usize = 1000;
const EXPANDED_MAX: usize = 50;
const PATHS_MAX: usize = 10_000;
const EXPANDED_PATHS_MAX: usize = 1000;
const PATHS_BYTES_MAX: usize = 4 << 20;

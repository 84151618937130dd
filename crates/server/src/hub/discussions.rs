//! Pull requests: open one, look at it, merge or close it.

use axum::body::Body;
use axum::http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use store::hub::{PullQuery, PullRow, PullState, RepoRow, refs};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::time::iso;
use crate::hub::json::{plain, set, small_json};
use crate::hub::request::HubRequest;
use crate::hub::unsupported::{self, Unsupported};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Open {
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    pull_request: bool,
}

/// `POST {repo}/discussions`.
pub(crate) async fn open(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let open: Open = small_json(body).await?;
    if !open.pull_request {
        return Err(ApiError::invalid("there are pull requests here, and no discussions without one"));
    }
    let main = request.resolved_revision(&repo, "main").await?.commit;
    let description = open.description.unwrap_or_default();
    let pull =
        request.store.hub().open_pull(&repo, main, &request.author()?, &open.title, &description).await?;
    let url = format!("{}/discussions/{}", request.web_url(&repo.name), pull.number);
    Ok(answer(&json!({"num": pull.number, "url": url, "pullRequest": true})))
}

/// `GET {repo}/discussions?p=&status=&type=&author=`.
pub(crate) async fn list(request: HubRequest) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let page = request.query.number("p").unwrap_or(0);
    let start = page.saturating_mul(PAGE);
    let is_open = match request.query.value("status") {
        Some("open") => Some(true),
        Some("closed") => Some(false),
        _ => None,
    };
    let author = request.query.value("author").map(plain);
    let query = PullQuery { is_open, author, skip: start, limit: PAGE };
    // There are none without a pull request.
    let (pulls, count) = match request.query.value("type") {
        Some("discussion") => (Vec::new(), 0),
        _ => request.store.hub().list_pulls(repo.id, &query).await?,
    };
    let pulls: Vec<_> = pulls.iter().map(|pull| describe(&repo, pull)).collect();
    Ok(answer(&json!({"discussions": pulls, "start": start, "count": count})))
}

const COMMENTS: &str = "comments: send the request without one";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Merge {
    #[serde(default)]
    comment: Unsupported,
}

/// `POST {repo}/discussions/{number}/merge`.
pub(crate) async fn merge(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let merge: Merge = small_json(body).await?;
    unsupported::refuse(&[("comment", &merge.comment, COMMENTS)])?;
    let pull = find(&request, &repo).await?;
    let merged = request.store.hub().merge_pull(&repo, &pull, &request.author()?).await?;
    Ok(answer(&json!({"success": true, "commitOid": merged.oid.to_string()})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetStatus {
    status: String,
    #[serde(default)]
    comment: Unsupported,
}

/// `POST {repo}/discussions/{number}/status`.
pub(crate) async fn set_status(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let pull = find(&request, &repo).await?;
    let change: SetStatus = small_json(body).await?;
    unsupported::refuse(&[("comment", &change.comment, COMMENTS)])?;
    let state = match change.status.as_str() {
        "open" => PullState::Open,
        "closed" => PullState::Closed,
        _ => return Err(ApiError::invalid("status should be open or closed")),
    };
    if !request.store.hub().set_pull(repo.id, pull.number, state).await? {
        return Err(ApiError::new(ErrorCode::Conflict, "the pull request is merged"));
    }
    let now = iso(request.state.now_s());
    let event = json!({
        "id": format!("{}-{}-{now}", repo.id, pull.number),
        "author": author(&request.author()?),
        "createdAt": now,
        "type": "status-change",
        "data": {"status": change.status},
    });
    Ok(answer(&json!({"newStatus": event})))
}

async fn find(request: &HubRequest, repo: &RepoRow) -> Result<PullRow, ApiError> {
    let number: u64 =
        request.param("number").parse().map_err(|_| ApiError::invalid("a number is expected"))?;
    let pull = request.store.hub().pulls(repo.id, &[number]).await?.into_iter().next();
    pull.ok_or_else(|| ApiError::new(ErrorCode::NotFound, format!("no pull request {number}")))
}

fn author(name: &str) -> Value {
    json!({"name": name, "type": "user", "fullname": name})
}

/// A pull request in a list.
fn describe(repo: &RepoRow, pull: &PullRow) -> Value {
    let status = match pull.state {
        PullState::Open => "open",
        PullState::Closed => "closed",
        PullState::Merged(_) => "merged",
    };
    json!({
        "num": pull.number,
        "title": pull.title,
        "status": status,
        "author": author(&pull.author),
        "repo": {"name": repo.name.id(), "type": repo.name.kind.singular()},
        "isPullRequest": true,
        "createdAt": iso(pull.created_s),
    })
}

/// `GET {repo}/discussions/{number}`.
pub(crate) async fn details(request: HubRequest) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let pull = find(&request, &repo).await?;
    let created = iso(pull.created_s);
    let author = author(&pull.author);
    let events = json!([{
        "id": format!("{}-{}", repo.id, pull.number),
        "author": author,
        "createdAt": created,
        "type": "comment",
        "data": {
            "edited": false, "hidden": false, "editorAvatarUrls": [],
            "latest": {"raw": pull.description, "html": "", "updatedAt": created, "author": author},
        },
    }]);
    let merged = match pull.state {
        PullState::Merged(oid) => Some(oid.to_string()),
        PullState::Open | PullState::Closed => None,
    };
    let mut details = describe(&repo, &pull);
    set(&mut details, "events", events);
    set(&mut details, "changes", json!({"base": refs::MAIN, "mergeCommitId": merged}));
    set(&mut details, "filesWithConflicts", json!([]));
    set(&mut details, "diff", json!(""));
    Ok(answer(&details))
}

const PAGE: u64 = 50;

//! Pull requests: open one, look at it, merge or close it.

use axum::body::Body;
use axum::http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use store::hub::{PullQuery, PullRow, PullState, RepoRow, refs};
use xet::wire::ErrorCode;

use super::access::Asked;
use super::admin::small_json;
use super::clock::iso;
use super::error::HubError;
use super::info::{plain, set};
use super::unsupported::{self, Unsupported};
use crate::http::json as answer;

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
pub(super) async fn open(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    let open: Open = small_json(body).await?;
    if !open.pull_request {
        return Err(HubError::invalid("there are pull requests here, and no discussions without one"));
    }
    let main = asked.resolved_revision(&repo, "main").await?.commit;
    let description = open.description.unwrap_or_default();
    let pull = asked.store.hub().open_pull(&repo, main, &asked.author()?, &open.title, &description).await?;
    let url = format!("{}/discussions/{}", asked.web_url(&repo.name), pull.number);
    Ok(answer(&json!({"num": pull.number, "url": url, "pullRequest": true})))
}

/// `GET {repo}/discussions?p=&status=&type=&author=`.
pub(super) async fn list(asked: Asked) -> Result<Response<Body>, HubError> {
    let repo = asked.readable().await?;
    let page = asked.query.number("p").unwrap_or(0);
    let start = page.saturating_mul(PAGE);
    let is_open = match asked.query.value("status") {
        Some("open") => Some(true),
        Some("closed") => Some(false),
        _ => None,
    };
    let author = asked.query.value("author").map(plain);
    let query = PullQuery { is_open, author, skip: start, limit: PAGE };
    // There are none without a pull request.
    let (pulls, count) = match asked.query.value("type") {
        Some("discussion") => (Vec::new(), 0),
        _ => asked.store.hub().list_pulls(repo.id, &query).await?,
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
pub(super) async fn merge(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    let merge: Merge = small_json(body).await?;
    unsupported::refuse(&[("comment", &merge.comment, COMMENTS)])?;
    let pull = find(&asked, &repo).await?;
    let merged = asked.store.hub().merge_pull(&repo, &pull, &asked.author()?).await?;
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
pub(super) async fn set_status(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    let pull = find(&asked, &repo).await?;
    let wanted: SetStatus = small_json(body).await?;
    unsupported::refuse(&[("comment", &wanted.comment, COMMENTS)])?;
    let state = match wanted.status.as_str() {
        "open" => PullState::Open,
        "closed" => PullState::Closed,
        _ => return Err(HubError::invalid("status should be open or closed")),
    };
    if !asked.store.hub().set_pull(repo.id, pull.number, state).await? {
        return Err(HubError::new(ErrorCode::Conflict, "the pull request is merged"));
    }
    let now = iso(asked.state.now_s());
    let event = json!({
        "id": format!("{}-{}-{now}", repo.id, pull.number),
        "author": author(&asked.author()?),
        "createdAt": now,
        "type": "status-change",
        "data": {"status": wanted.status},
    });
    Ok(answer(&json!({"newStatus": event})))
}

async fn find(asked: &Asked, repo: &RepoRow) -> Result<PullRow, HubError> {
    let number: u64 = asked.param("number").parse().map_err(|_| HubError::invalid("a number is expected"))?;
    let pull = asked.store.hub().pulls(repo.id, &[number]).await?.into_iter().next();
    pull.ok_or_else(|| HubError::new(ErrorCode::NotFound, format!("no pull request {number}")))
}

fn author(name: &str) -> Value {
    json!({"name": name, "type": "user", "fullname": name})
}

/// What a list says of each.
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
pub(super) async fn details(asked: Asked) -> Result<Response<Body>, HubError> {
    let repo = asked.readable().await?;
    let pull = find(&asked, &repo).await?;
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

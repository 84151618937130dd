//! Pull requests, as far as uploads need them: open one, and look at it.

use axum::body::Body;
use axum::http::Response;
use serde::Deserialize;
use serde_json::json;
use store::repo::refs;
use xet::wire::ErrorCode;

use super::access::Asked;
use super::admin::small_json;
use super::clock::iso;
use super::error::HubError;
use crate::http::json as answer;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
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
    let pull = asked.store.open_pull(&repo, main, asked.name()?, &open.title, &description).await?;
    let url = format!("{}/discussions/{}", asked.web_url(&repo.name), pull.number);
    Ok(answer(&json!({"num": pull.number, "url": url, "pullRequest": true})))
}

/// `GET {repo}/discussions/{number}`.
pub(super) async fn details(asked: Asked) -> Result<Response<Body>, HubError> {
    let repo = asked.readable().await?;
    let number: u64 = asked.param("number").parse().map_err(|_| HubError::invalid("a number is expected"))?;
    let pull = asked.store.hub().pulls(repo.id, &[number]).await?.into_iter().next();
    let pull = pull.ok_or_else(|| HubError::new(ErrorCode::NotFound, format!("no pull request {number}")))?;
    let created = iso(pull.created_s);
    let author = json!({"name": pull.author, "type": "user", "fullname": pull.author});
    let events = json!([{
        "id": format!("{}-{number}", repo.id),
        "author": author,
        "createdAt": created,
        "type": "comment",
        "data": {
            "edited": false, "hidden": false, "editorAvatarUrls": [],
            "latest": {"raw": pull.description, "html": "", "updatedAt": created, "author": author},
        },
    }]);
    Ok(answer(&json!({
        "num": number,
        "title": pull.title,
        "status": "open",
        "author": author,
        "repo": {"name": repo.name.id(), "type": repo.name.kind.singular()},
        "isPullRequest": true,
        "createdAt": created,
        "events": events,
        "changes": {"base": refs::MAIN, "mergeCommitId": null},
        "filesWithConflicts": [],
        "diff": "",
    })))
}

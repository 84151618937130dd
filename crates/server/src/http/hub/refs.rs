//! Branches, tags and the history.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use store::audit::Deed;
use store::hub::RefRow;
use store::hub::refs::{self, HEADS, PULLS, TAGS};
use xet::wire::routes::segment;

use super::access::Asked;
use super::admin::small_json;
use super::clock::iso;
use super::error::HubError;
use super::info::{next_link, set};
use super::unsupported::{self, NoFields, Unsupported};
use crate::http::json as answer;

/// `GET {repo}/refs`.
pub(super) async fn list(asked: Asked) -> Result<Response<Body>, HubError> {
    let repo = asked.readable().await?;
    let describe = |row: &RefRow| json!({"name": refs::short(&row.name), "ref": row.name, "targetCommit": row.target.to_string()});
    let all = |prefix: &'static str| async {
        let rows = asked.store.hub().refs(repo.id, prefix).await?;
        Ok::<_, HubError>(rows.iter().map(describe).collect::<Vec<Value>>())
    };
    let mut body = json!({"branches": all(HEADS).await?, "converts": [], "tags": all(TAGS).await?});
    if asked.query.is_set("include_prs") {
        set(&mut body, "pullRequests", Value::Array(all(PULLS).await?));
    }
    Ok(answer(&body))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewBranch {
    starting_point: Option<String>,
    #[serde(default)]
    overwrite: bool,
    #[serde(default)]
    empty_branch: Unsupported,
}

/// `POST {repo}/branch/{branch}`.
pub(super) async fn create_branch(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    let new: NewBranch = small_json(body).await?;
    unsupported::refuse(&[("emptyBranch", &new.empty_branch, "branches without a commit")])?;
    let start = new.starting_point.as_deref().unwrap_or("main");
    let commit = asked.resolved_revision(&repo, start).await?.commit;
    let name = asked.param("branch");
    if new.overwrite && asked.store.hub().ref_target(repo.id, &format!("{HEADS}{name}")).await?.is_some() {
        asked.store.hub().delete_ref(repo.id, HEADS, name).await?;
    }
    asked.store.hub().create_ref(repo.id, HEADS, name, commit).await?;
    Ok(created())
}

/// `DELETE {repo}/branch/{branch}`.
pub(super) async fn delete_branch(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    small_json::<NoFields>(body).await?;
    delete(&asked, repo.id, HEADS, asked.param("branch")).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTag {
    tag: String,
    message: Option<String>,
}

/// `POST {repo}/tag/{revision}`: what the path has is the revision here.
pub(super) async fn create_tag(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    let new: NewTag = small_json(body).await?;
    let commit = asked.resolved_revision(&repo, asked.param("tag")).await?.commit;
    let message = new.message.filter(|message| !message.trim().is_empty());
    if message.as_ref().is_some_and(|message| message.len() > TAG_MESSAGE_BYTES_MAX) {
        return Err(HubError::invalid(format!("message: at most {TAG_MESSAGE_BYTES_MAX} bytes for a tag")));
    }
    asked.store.hub().create_ref(repo.id, TAGS, &new.tag, commit).await?;
    if let Some(message) = message {
        // Tags are plain refs: what somebody said of one is in the audit log.
        let target = format!("{} {TAGS}{}", repo.name, new.tag);
        asked.store.hub().note_deed(&Deed::new("tag.message", target, message)).await?;
    }
    Ok(created())
}

/// `DELETE {repo}/tag/{tag}`.
pub(super) async fn delete_tag(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    small_json::<NoFields>(body).await?;
    delete(&asked, repo.id, TAGS, asked.param("tag")).await
}

async fn delete(
    asked: &Asked,
    repo: store::ids::RepoId,
    prefix: &str,
    name: &str,
) -> Result<Response<Body>, HubError> {
    if asked.store.hub().ref_target(repo, &format!("{prefix}{name}")).await?.is_none() {
        return Err(HubError::revision_not_found(name));
    }
    asked.store.hub().delete_ref(repo, prefix, name).await?;
    Ok(answer(&json!({})))
}

/// `GET {repo}/commits/{revision}`.
pub(super) async fn history(asked: Asked) -> Result<Response<Body>, HubError> {
    let repo = asked.readable().await?;
    let commit = asked.resolved(&repo).await?.commit;
    let limit = asked.query.limit("limit", 50, 1000) as u64;
    let page = asked.query.number("p").unwrap_or(0);
    let skip = page.saturating_mul(limit);
    let (past, total) = asked.store.hub().history(repo.id, commit, skip, limit).await?;
    let describe = |past: &store::hub::Past| {
        json!({
            "id": past.oid.to_string(),
            "title": past.commit.title(),
            "message": past.commit.description(),
            "authors": [{"user": past.commit.author.name}],
            "date": iso(past.commit.author.time_s),
        })
    };
    let mut response = answer(&past.iter().map(describe).collect::<Vec<_>>());
    response.headers_mut().insert(HeaderName::from_static("x-total-count"), HeaderValue::from(total));
    if skip.saturating_add(limit) < total {
        let query = asked.query.with("p", &page.saturating_add(1).to_string());
        let revision = segment(&commit.to_string());
        next_link(&mut response, &format!("{}/commits/{revision}?{query}", asked.api_url(&repo.name)));
    }
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Squash {
    message: Option<String>,
}

const TAG_MESSAGE_BYTES_MAX: usize = 4096;

/// `POST {repo}/super-squash/{branch}`.
pub(super) async fn squash(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let repo = asked.writable().await?;
    let squash: Squash = small_json(body).await?;
    let branch = asked.param("branch");
    let resolved = asked.resolved_revision(&repo, branch).await?;
    let ref_name = resolved.ref_name.filter(|name| !name.starts_with(TAGS));
    let ref_name = ref_name.ok_or_else(|| HubError::revision_not_found(branch))?;
    let message = squash.message.filter(|message| !message.trim().is_empty());
    let message = message.unwrap_or_else(|| format!("Super-squash branch '{branch}'"));
    let oid = asked.store.hub().squash(&repo, &ref_name, &asked.author()?, &message).await?;
    Ok(answer(&json!({"commitOid": oid.to_string()})))
}

fn created() -> Response<Body> {
    let mut response = answer(&json!({}));
    *response.status_mut() = StatusCode::CREATED;
    response
}

//! Branches, tags and the history.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use store::audit::AuditEvent;
use store::hub::RefRow;
use store::hub::refs::MESSAGE_BYTES_MAX;
use store::hub::refs::{self, HEADS, PULLS, TAGS};
use xet::wire::routes::segment;

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::time::iso;
use crate::hub::json::{next_link, set, small_json};
use crate::hub::request::HubRequest;
use crate::hub::unsupported::{self, NoFields, Unsupported};

/// `GET {repo}/refs`.
pub(crate) async fn list(request: HubRequest) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let describe = |row: &RefRow| json!({"name": refs::short(&row.name), "ref": row.name, "targetCommit": row.target.to_string()});
    let all = |prefix: &'static str| async {
        let rows = request.store.hub().refs(repo.id, prefix).await?;
        Ok::<_, ApiError>(rows.iter().map(describe).collect::<Vec<Value>>())
    };
    let mut body = json!({"branches": all(HEADS).await?, "converts": [], "tags": all(TAGS).await?});
    if request.query.is_set("include_prs") {
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
pub(crate) async fn create_branch(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let new: NewBranch = small_json(body).await?;
    unsupported::refuse(&[("emptyBranch", &new.empty_branch, "branches without a commit")])?;
    let start = new.starting_point.as_deref().unwrap_or("main");
    let commit = request.resolved_revision(&repo, start).await?.commit;
    let name = request.param("branch");
    if new.overwrite && request.store.hub().ref_target(repo.id, &format!("{HEADS}{name}")).await?.is_some() {
        request.store.hub().delete_ref(repo.id, HEADS, name).await?;
    }
    request.store.hub().create_ref(repo.id, HEADS, name, commit).await?;
    Ok(created())
}

/// `DELETE {repo}/branch/{branch}`.
pub(crate) async fn delete_branch(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    small_json::<NoFields>(body).await?;
    delete(&request, repo.id, HEADS, request.param("branch")).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTag {
    tag: String,
    message: Option<String>,
}

/// `POST {repo}/tag/{revision}`: what the path has is the revision here.
pub(crate) async fn create_tag(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let new: NewTag = small_json(body).await?;
    let commit = request.resolved_revision(&repo, request.param("tag")).await?.commit;
    let message = new.message.filter(|message| !message.trim().is_empty());
    if message.as_ref().is_some_and(|message| message.len() > TAG_MESSAGE_BYTES_MAX) {
        return Err(ApiError::invalid(format!("message: at most {TAG_MESSAGE_BYTES_MAX} bytes for a tag")));
    }
    request.store.hub().create_ref(repo.id, TAGS, &new.tag, commit).await?;
    if let Some(message) = message {
        // Tags are plain refs: the message of one is in the audit log.
        let target = format!("{} {TAGS}{}", repo.name, new.tag);
        request.store.hub().log_event(&AuditEvent::new("tag.message", target, message)).await?;
    }
    Ok(created())
}

/// `DELETE {repo}/tag/{tag}`.
pub(crate) async fn delete_tag(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    small_json::<NoFields>(body).await?;
    delete(&request, repo.id, TAGS, request.param("tag")).await
}

async fn delete(
    request: &HubRequest,
    repo: store::ids::RepoId,
    prefix: &str,
    name: &str,
) -> Result<Response<Body>, ApiError> {
    if request.store.hub().ref_target(repo, &format!("{prefix}{name}")).await?.is_none() {
        return Err(ApiError::revision_not_found(name));
    }
    request.store.hub().delete_ref(repo, prefix, name).await?;
    Ok(answer(&json!({})))
}

/// `GET {repo}/commits/{revision}`.
pub(crate) async fn history(request: HubRequest) -> Result<Response<Body>, ApiError> {
    let repo = request.require_read().await?;
    let commit = request.resolved(&repo).await?.commit;
    let limit = request.query.limit("limit", 50, 1000) as u64;
    let page = request.query.number("p").unwrap_or(0);
    let skip = page.saturating_mul(limit);
    // What was read, and the answer as it is made.
    let answers = &request.state.answers;
    let bytes = limit.saturating_mul(2 * MESSAGE_BYTES_MAX as u64).min(answers.usage().total_bytes);
    let _permit = answers.acquire(bytes).await?;
    let (past, total) = request.store.hub().history(repo.id, commit, skip, limit).await?;
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
        let query = request.query.with("p", &page.saturating_add(1).to_string());
        let revision = segment(&commit.to_string());
        next_link(&mut response, &format!("{}/commits/{revision}?{query}", request.api_url(&repo.name)));
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
pub(crate) async fn squash(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let squash: Squash = small_json(body).await?;
    let branch = request.param("branch");
    let resolved = request.resolved_revision(&repo, branch).await?;
    let ref_name = resolved.ref_name.filter(|name| !name.starts_with(TAGS));
    let ref_name = ref_name.ok_or_else(|| ApiError::revision_not_found(branch))?;
    let message = squash.message.filter(|message| !message.trim().is_empty());
    let message = message.unwrap_or_else(|| format!("Super-squash branch '{branch}'"));
    let oid = request.store.hub().squash(&repo, &ref_name, &request.author()?, &message).await?;
    Ok(answer(&json!({"commitOid": oid.to_string()})))
}

fn created() -> Response<Body> {
    let mut response = answer(&json!({}));
    *response.status_mut() = StatusCode::CREATED;
    response
}

//! Locks of git-lfs: who works on which file. Clients ask before they push; nothing is forced on them.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use store::hub::{LockQuery, LockRow};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::http::json as json_answer;
use crate::http::time::iso;
use crate::hub::json::{set, small_json};
use crate::hub::request::HubRequest;
use crate::lfs::LFS_JSON;

type Answer = Result<Response<Body>, ApiError>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    path: String,
    /// The branch that git-lfs is on: a lock is for all of the repository.
    #[serde(rename = "ref")]
    _ref: Option<IgnoredAny>,
}

/// `POST …/locks`.
pub(crate) async fn create(request: HubRequest, body: Body) -> Answer {
    let repo = request.require_write().await?;
    let create: Create = small_json(body).await?;
    let (lock, is_new) = request.store.hub().lock_path(repo.id, &create.path, request.name()?).await?;
    let mut body = json!({"lock": describe(&lock)});
    if is_new {
        return Ok(answer(StatusCode::CREATED, &body));
    }
    set(&mut body, "message", json!(format!("{} has locked it", lock.owner)));
    Ok(answer(StatusCode::CONFLICT, &body))
}

/// `GET …/locks?path=&id=&cursor=&limit=`.
pub(crate) async fn list(request: HubRequest) -> Answer {
    let repo = request.require_read().await?;
    let value = |key: &str| request.query.value(key).map(|value| value.replace(char::is_control, ""));
    let limit = request.query.limit("limit", LOCKS_MAX, LOCKS_MAX);
    let query =
        LockQuery { path: value("path"), id: value("id"), after: value("cursor"), limit: limit as u64 };
    let locks = request.store.hub().locks(repo.id, &query).await?;
    let mut body = json!({"locks": locks.iter().map(describe).collect::<Vec<_>>()});
    next(&mut body, &locks, limit);
    Ok(answer(StatusCode::OK, &body))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verify {
    cursor: Option<String>,
    limit: Option<u64>,
    #[serde(rename = "ref")]
    _ref: Option<IgnoredAny>,
}

/// `POST …/locks/verify`: those of the caller, and those of others, which keep them from pushing.
pub(crate) async fn verify(request: HubRequest, body: Body) -> Answer {
    let repo = request.require_write().await?;
    let verify: Verify = small_json(body).await?;
    let limit = verify.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LOCKS_MAX);
    // git-lfs sends zero for no limit of its own.
    let limit = if limit == 0 { LOCKS_MAX } else { limit.min(LOCKS_MAX) };
    let after = verify.cursor.filter(|cursor| !cursor.is_empty() && !cursor.contains(char::is_control));
    let query = LockQuery { after, limit: limit as u64, ..LockQuery::default() };
    let locks = request.store.hub().locks(repo.id, &query).await?;
    let me = request.name()?;
    let (ours, theirs): (Vec<_>, Vec<_>) = locks.iter().partition(|lock| lock.owner == me);
    let described = |locks: Vec<&LockRow>| locks.into_iter().map(describe).collect::<Vec<_>>();
    let mut body = json!({"ours": described(ours), "theirs": described(theirs)});
    next(&mut body, &locks, limit);
    Ok(answer(StatusCode::OK, &body))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unlock {
    #[serde(default)]
    force: bool,
    #[serde(rename = "ref")]
    _ref: Option<IgnoredAny>,
}

/// `POST …/locks/{id}/unlock`.
pub(crate) async fn unlock(request: HubRequest, body: Body) -> Answer {
    let repo = request.require_write().await?;
    let unlock: Unlock = small_json(body).await?;
    let query = LockQuery { id: Some(request.param("id").to_owned()), limit: 1, ..LockQuery::default() };
    let lock = request.store.hub().locks(repo.id, &query).await?.into_iter().next();
    let lock = lock.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "no such lock"))?;
    if lock.owner != request.name()? && !unlock.force {
        let message = format!("{} has locked it: unlock it with --force", lock.owner);
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    request.store.hub().remove_lock(repo.id, &lock.id).await?;
    Ok(answer(StatusCode::OK, &json!({"lock": describe(&lock)})))
}

fn describe(lock: &LockRow) -> Value {
    json!({
        "id": lock.id, "path": lock.path, "locked_at": iso(lock.created_s), "owner": {"name": lock.owner},
    })
}

/// Says where the next page begins.
fn next(body: &mut Value, locks: &[LockRow], limit: usize) {
    if let Some(last) = locks.last().filter(|_| locks.len() == limit) {
        set(body, "next_cursor", json!(last.path));
    }
}

fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = json_answer(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LFS_JSON));
    response
}

const LOCKS_MAX: usize = 1000;

//! Quotas, dedup policies, the audit log and the undelete log, for administrators.

use axum::body::Body;
use axum::http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use store::DedupPolicy;
use store::audit::{AuditQuery, AuditRow};
use store::content::{Limit, QuotaOf, QuotaRow, Usage};
use store::hub::{ReflogEntry, RepoRow};
use store::names::RepoName;
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::time::iso;
use crate::hub::json::{next_link, set, small_json};
use crate::hub::request::HubRequest;
use crate::hub::unsupported::NoFields;

type Answer = Result<Response<Body>, ApiError>;

/// `GET /api/admin/quotas`.
pub(crate) async fn quotas(request: HubRequest) -> Answer {
    request.require_admin()?;
    let rows = request.store.content().quota_usage().await?;
    Ok(answer(&rows.iter().map(|(row, usage)| quota_json(row, *usage)).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewQuota {
    of: String,
    logical_soft: Option<u64>,
    logical_hard: Option<u64>,
    physical_soft: Option<u64>,
    physical_hard: Option<u64>,
}

/// `PUT /api/admin/quotas`.
pub(crate) async fn set_quota(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let new: NewQuota = small_json(body).await?;
    let limits = [new.logical_soft, new.logical_hard, new.physical_soft, new.physical_hard];
    if limits.into_iter().flatten().any(|bytes| bytes > QUOTA_BYTES_MAX) {
        return Err(ApiError::invalid(format!("a quota has at most {QUOTA_BYTES_MAX} bytes")));
    }
    let of: QuotaOf = new.of.parse()?;
    let row = QuotaRow {
        of,
        logical: Limit { soft: new.logical_soft, hard: new.logical_hard },
        physical: Limit { soft: new.physical_soft, hard: new.physical_hard },
    };
    let row = request.store.hub().set_quota(&row).await?;
    Ok(answer(&quota_json(&row, request.store.hub().usage(&row.of).await?)))
}

/// `DELETE /api/admin/quotas?of=`.
pub(crate) async fn remove_quota(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    small_json::<NoFields>(body).await?;
    request.store.hub().remove_quota(&request.query.value("of").unwrap_or_default().parse()?).await?;
    Ok(answer(&json!({})))
}

/// `GET /api/admin/dedup`: what was set for namespaces and repositories.
pub(crate) async fn dedup_policies(request: HubRequest) -> Answer {
    request.require_admin()?;
    let mut values = Vec::new();
    for (of, policy) in request.store.hub().dedup_policies().await? {
        let effective = request.store.content().dedup_policy_of(&of).await?;
        values.push(dedup_json(&of, Some(policy), effective));
    }
    Ok(answer(&values))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDedupPolicy {
    of: String,
    dedup: String,
}

/// `PUT /api/admin/dedup`.
pub(crate) async fn set_dedup_policy(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let new: NewDedupPolicy = small_json(body).await?;
    let (of, policy): (QuotaOf, _) = (new.of.parse()?, DedupPolicy::parse_setting(&new.dedup)?);
    request.store.hub().set_dedup_policy(&of, policy).await?;
    dedup_answer(&request, &of).await
}

/// `GET {repo}/dedup`, for those who may write.
pub(crate) async fn repo_dedup_policy(request: HubRequest) -> Answer {
    let repo = request.require_write().await?;
    dedup_answer(&request, &QuotaOf::Repo(repo.name.scope()?)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RepoDedupPolicy {
    dedup: String,
}

/// `PUT {repo}/dedup`, for those who may write. They may narrow it; only an administrator may widen it again.
pub(crate) async fn set_repo_dedup_policy(request: HubRequest, body: Body) -> Answer {
    let repo = request.require_write().await?;
    let new: RepoDedupPolicy = small_json(body).await?;
    let policy = DedupPolicy::parse_setting(&new.dedup)?;
    let of = QuotaOf::Repo(repo.name.scope()?);
    let current = request.store.hub().dedup_setting(&of).await?;
    if policy < current && request.require_admin().is_err() {
        let current = current.map_or("default", DedupPolicy::name);
        let message = format!("dedup of {} is {current}: only an administrator may widen it", repo.name);
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    request.store.hub().set_dedup_policy(&of, policy).await?;
    dedup_answer(&request, &of).await
}

async fn dedup_answer(request: &HubRequest, of: &QuotaOf) -> Answer {
    let (policy, effective) =
        (request.store.hub().dedup_setting(of).await?, request.store.content().dedup_policy_of(of).await?);
    Ok(answer(&dedup_json(of, policy, effective)))
}

/// A dedup policy, and what counts: the narrowest of the server's, the namespace's and the repository's.
pub fn dedup_json(of: &QuotaOf, policy: Option<DedupPolicy>, effective: DedupPolicy) -> Value {
    let policy = policy.map_or("default", DedupPolicy::name);
    json!({"of": of.to_string(), "dedup": policy, "effective": effective.name()})
}

/// `GET /api/admin/audit?since=&before=&limit=`: the newest first, by pages.
pub(crate) async fn audit(request: HubRequest) -> Answer {
    request.require_admin()?;
    let number = |key: &str| match request.query.value(key).map(str::parse::<u64>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(ApiError::invalid(format!("{key} should be a number"))),
    };
    let limit = request.query.limit("limit", EVENTS_MAX, EVENTS_MAX);
    let query = AuditQuery {
        since_s: number("since")?.unwrap_or(0),
        before: number("before")?,
        limit: limit as u64,
        ..AuditQuery::default()
    };
    let rows = request.store.hub().audit_events(&query).await?;
    let mut response = answer(&rows.iter().map(audit_event_json).collect::<Vec<_>>());
    if let Some(last) = rows.last().filter(|_| rows.len() == limit) {
        let next = request.query.with("before", &last.id.to_string());
        next_link(&mut response, &format!("{}/api/admin/audit?{next}", request.state.base_url));
    }
    Ok(response)
}

/// `GET /api/admin/undelete?repo=`: what refs have left.
pub(crate) async fn reflog(request: HubRequest) -> Answer {
    request.require_admin()?;
    let repo = repo(&request, request.query.value("repo").unwrap_or_default()).await?;
    let rows = request.store.hub().reflog(repo.id).await?;
    Ok(answer(&rows.iter().map(reflog_json).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Undelete {
    repo: String,
    revision: Option<String>,
    #[serde(rename = "as")]
    branch: Option<String>,
    path: Option<String>,
}

/// `POST /api/admin/undelete`: a revision, or a file.
pub(crate) async fn undelete(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let undelete: Undelete = small_json(body).await?;
    let repo = repo(&request, &undelete.repo).await?;
    let branch = undelete.branch.as_deref();
    match (undelete.revision, undelete.path) {
        (Some(revision), None) => {
            let oid = revision.parse()?;
            let name = request.store.hub().undelete_revision(&repo, oid, branch).await?;
            Ok(answer(&json!({"ref": name, "revision": revision})))
        }
        (None, Some(path)) => {
            let branch = branch.unwrap_or("main");
            let undeleted =
                request.store.hub().undelete_file(&repo, branch, &path, &request.author()?).await?;
            let (committed, from) = undeleted;
            Ok(answer(&json!({"path": path, "commit": committed.oid.to_string(), "from": from.to_string()})))
        }
        _ => Err(ApiError::invalid("name a revision or a path")),
    }
}

async fn repo(request: &HubRequest, name: &str) -> Result<RepoRow, ApiError> {
    let found = request.store.hub().repo(&RepoName::parse(name)?).await?;
    found.ok_or_else(|| ApiError::new(ErrorCode::NotFound, format!("no repository {name:.200}")))
}

/// A quota and what is taken of it.
pub fn quota_json(row: &QuotaRow, usage: Usage) -> Value {
    let mut value = json!({
        "of": row.of.to_string(), "logicalBytes": usage.logical_bytes, "physicalBytes": usage.physical_bytes,
    });
    for (name, limit) in [
        ("logicalSoft", row.logical.soft),
        ("logicalHard", row.logical.hard),
        ("physicalSoft", row.physical.soft),
        ("physicalHard", row.physical.hard),
    ] {
        if let Some(bytes) = limit {
            set(&mut value, name, json!(bytes));
        }
    }
    value
}

/// A line of the audit log.
pub fn audit_event_json(row: &AuditRow) -> Value {
    json!({
        "number": row.id, "time": iso(row.time_s), "who": row.who, "action": row.event.action,
        "target": row.event.target, "detail": row.event.detail, "request": row.request,
    })
}

/// A revision that a ref has left.
pub fn reflog_json(row: &ReflogEntry) -> Value {
    json!({
        "revision": row.oid.to_string(), "ref": row.name, "leftAt": iso(row.left_s), "reclaimAt": iso(row.reclaim_s),
    })
}

const EVENTS_MAX: usize = 1000;
/// What a column of the catalog can hold.
const QUOTA_BYTES_MAX: u64 = i64::MAX as u64;

//! Users, organisations, members, all repositories and the trash, for administrators.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};
use store::hub::{MemberRow, NamespaceRow, RepoQuery, RepoRow};
use store::names::{Kind, RepoName};
use xet::wire::routes::segment;

use crate::auth::password;
use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::time::iso;
use crate::hub::info::cursor;
use crate::hub::json::{next_link, set, small_json};
use crate::hub::request::HubRequest;
use crate::hub::unsupported::NoFields;

type Answer = Result<Response<Body>, ApiError>;

/// `GET /api/admin/users`.
pub(crate) async fn users(request: HubRequest) -> Answer {
    namespaces(&request, false).await
}

/// `GET /api/admin/orgs`.
pub(crate) async fn orgs(request: HubRequest) -> Answer {
    namespaces(&request, true).await
}

async fn namespaces(request: &HubRequest, is_organisation: bool) -> Answer {
    request.require_admin()?;
    let rows = request.store.hub().namespaces(is_organisation).await?;
    Ok(answer(&rows.iter().map(namespace).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNamespace {
    name: String,
}

/// `POST /api/admin/users`.
pub(crate) async fn add_user(request: HubRequest, body: Body) -> Answer {
    add_namespace(&request, body, false).await
}

/// `POST /api/admin/orgs`.
pub(crate) async fn add_org(request: HubRequest, body: Body) -> Answer {
    add_namespace(&request, body, true).await
}

async fn add_namespace(request: &HubRequest, body: Body, is_organisation: bool) -> Answer {
    request.require_admin()?;
    let new: NewNamespace = small_json(body).await?;
    let row = request.store.hub().add_namespace(&new.name, is_organisation).await?;
    Ok((StatusCode::CREATED, answer(&namespace(&row))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserChange {
    disabled: bool,
}

/// `PUT /api/admin/users/{user}`: disables or enables a user.
pub(crate) async fn set_user(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let change: UserChange = small_json(body).await?;
    let name = request.param("user");
    let row = match change.disabled {
        true => request.store.hub().disable_user(name).await?,
        false => request.store.hub().enable_user(name).await?,
    };
    Ok(answer(&namespace(&row)))
}

/// `DELETE /api/admin/users/{user}`: deletes a user who owns no repository.
pub(crate) async fn delete_user(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    small_json::<NoFields>(body).await?;
    request.store.hub().delete_namespace(request.param("user"), false).await?;
    Ok(answer(&json!({})))
}

/// `DELETE /api/admin/orgs/{org}`: deletes an organisation that owns no repository.
pub(crate) async fn delete_org(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    small_json::<NoFields>(body).await?;
    request.store.hub().delete_namespace(request.param("org"), true).await?;
    Ok(answer(&json!({})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPassword {
    /// `null` removes the password.
    #[serde(deserialize_with = "Option::deserialize")]
    password: Option<String>,
}

/// `PUT /api/admin/users/{user}/password`: sets or removes a user's password and ends the user's browser sessions.
pub(crate) async fn set_password(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let new: NewPassword = small_json(body).await?;
    let hash = new.password.as_deref().map(password::hash).transpose().map_err(ApiError::invalid)?;
    request.store.hub().set_password(request.param("user"), hash.as_deref(), None).await?;
    Ok(answer(&json!({})))
}

/// `GET /api/admin/orgs/{org}/members`.
pub(crate) async fn members(request: HubRequest) -> Answer {
    request.require_admin()?;
    let rows = request.store.hub().members(request.param("org")).await?;
    Ok(answer(&rows.iter().map(member).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMember {
    role: String,
}

/// `PUT /api/admin/orgs/{org}/members/{user}`.
pub(crate) async fn set_member(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let new: NewMember = small_json(body).await?;
    let writes = match new.role.as_str() {
        "read" => false,
        "write" => true,
        _ => return Err(ApiError::invalid("role should be read or write")),
    };
    let row = request.store.hub().set_member(request.param("org"), request.param("user"), writes).await?;
    Ok(answer(&member(&row)))
}

/// `DELETE /api/admin/orgs/{org}/members/{user}`.
pub(crate) async fn remove_member(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    small_json::<NoFields>(body).await?;
    request.store.hub().remove_member(request.param("org"), request.param("user")).await?;
    Ok(answer(&json!({})))
}

/// `GET /api/admin/repos?type=&cursor=`: all of a kind, private or not, by pages.
pub(crate) async fn repos(request: HubRequest) -> Answer {
    request.require_admin()?;
    let kind = crate::hub::repos::kind_of(request.query.value("type"))?;
    let query = RepoQuery {
        kind,
        namespace: None,
        search: None,
        private_of: None,
        after: cursor(&request)?,
        limit: REPOS_MAX as u64,
    };
    let rows = request.store.hub().list_repos(&query).await?;
    let mut response = answer(&rows.iter().map(repo).collect::<Vec<_>>());
    if let Some(last) = rows.last().filter(|_| rows.len() == REPOS_MAX) {
        let cursor = segment(&last.name.id());
        let kind = kind.singular();
        next_link(
            &mut response,
            &format!("{}/api/admin/repos?type={kind}&cursor={cursor}", request.state.base_url),
        );
    }
    Ok(response)
}

/// `GET /api/admin/trash`.
pub(crate) async fn trash(request: HubRequest) -> Answer {
    request.require_admin()?;
    let rows = request.store.hub().trash().await?;
    Ok(answer(&rows.iter().map(repo).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    repo: Option<String>,
}

/// `POST /api/admin/trash/{id}`: takes a repository out of the trash, under another name if one is given.
pub(crate) async fn restore(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    let restore: Restore = small_json(body).await?;
    let row = request.store.hub().trashed_repo(request.param("id").parse()?).await?;
    let name = restore.repo.as_deref().map(RepoName::parse).transpose()?.unwrap_or_else(|| row.name.clone());
    let name = request.store.hub().restore_repo(&row, &name).await?;
    Ok(answer(&repo(&RepoRow { name, reclaim_s: None, ..row })))
}

/// `DELETE /api/admin/trash/{id}`: for good.
pub(crate) async fn reclaim(request: HubRequest, body: Body) -> Answer {
    request.require_admin()?;
    small_json::<NoFields>(body).await?;
    let row = request.store.hub().trashed_repo(request.param("id").parse()?).await?;
    request.store.hub().delete_repo(&row).await?;
    Ok(answer(&json!({})))
}

fn namespace(row: &NamespaceRow) -> Value {
    match row.is_organisation {
        true => json!({"name": row.name}),
        false => json!({"name": row.name, "state": row.state.as_str()}),
    }
}

fn member(row: &MemberRow) -> Value {
    json!({"org": row.namespace, "user": row.member, "role": if row.writes { "write" } else { "read" }})
}

fn repo(row: &RepoRow) -> Value {
    let kind: Kind = row.name.kind;
    let mut value = json!({
        "repo": row.name.to_string(), "type": kind.singular(), "private": row.private, "id": row.id.to_string(),
    });
    if let Some(reclaim_s) = row.reclaim_s {
        set(&mut value, "reclaimAt", json!(iso(reclaim_s)));
    }
    value
}

const REPOS_MAX: usize = 1000;

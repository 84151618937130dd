//! What whoever keeps the server does from afar: users, organisations, members, all repositories, the trash.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};
use store::hub::{MemberRow, NamespaceRow, RepoQuery, RepoRow};
use store::names::{Kind, RepoName};
use xet::wire::routes::segment;

use super::access::Asked;
use super::admin::small_json;
use super::clock::iso;
use super::error::HubError;
use super::info::{cursor, next_link, set};
use super::unsupported::NoFields;
use crate::auth::password;
use crate::http::json as answer;

type Answer = Result<Response<Body>, HubError>;

/// `GET /api/admin/users`.
pub(super) async fn users(asked: Asked) -> Answer {
    namespaces(&asked, false).await
}

/// `GET /api/admin/orgs`.
pub(super) async fn orgs(asked: Asked) -> Answer {
    namespaces(&asked, true).await
}

async fn namespaces(asked: &Asked, is_organisation: bool) -> Answer {
    asked.expect_admin()?;
    let rows = asked.store.hub().namespaces(is_organisation).await?;
    Ok(answer(&rows.iter().map(namespace).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNamespace {
    name: String,
}

/// `POST /api/admin/users`.
pub(super) async fn add_user(asked: Asked, body: Body) -> Answer {
    add_namespace(&asked, body, false).await
}

/// `POST /api/admin/orgs`.
pub(super) async fn add_org(asked: Asked, body: Body) -> Answer {
    add_namespace(&asked, body, true).await
}

async fn add_namespace(asked: &Asked, body: Body, is_organisation: bool) -> Answer {
    asked.expect_admin()?;
    let new: NewNamespace = small_json(body).await?;
    let row = asked.store.hub().add_namespace(&new.name, is_organisation).await?;
    Ok((StatusCode::CREATED, answer(&namespace(&row))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserChange {
    disabled: bool,
}

/// `PUT /api/admin/users/{user}`: disables or enables a user.
pub(super) async fn set_user(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    let change: UserChange = small_json(body).await?;
    let name = asked.param("user");
    let row = match change.disabled {
        true => asked.store.hub().disable_user(name).await?,
        false => asked.store.hub().enable_user(name).await?,
    };
    Ok(answer(&namespace(&row)))
}

/// `DELETE /api/admin/users/{user}`: deletes a user who owns no repository.
pub(super) async fn delete_user(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    small_json::<NoFields>(body).await?;
    asked.store.hub().delete_namespace(asked.param("user"), false).await?;
    Ok(answer(&json!({})))
}

/// `DELETE /api/admin/orgs/{org}`: deletes an organisation that owns no repository.
pub(super) async fn delete_org(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    small_json::<NoFields>(body).await?;
    asked.store.hub().delete_namespace(asked.param("org"), true).await?;
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
pub(super) async fn set_password(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    let new: NewPassword = small_json(body).await?;
    let hash = new.password.as_deref().map(password::hash).transpose().map_err(HubError::invalid)?;
    asked.store.hub().set_password(asked.param("user"), hash.as_deref(), None).await?;
    Ok(answer(&json!({})))
}

/// `GET /api/admin/orgs/{org}/members`.
pub(super) async fn members(asked: Asked) -> Answer {
    asked.expect_admin()?;
    let rows = asked.store.hub().members(asked.param("org")).await?;
    Ok(answer(&rows.iter().map(member).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMember {
    role: String,
}

/// `PUT /api/admin/orgs/{org}/members/{user}`.
pub(super) async fn set_member(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    let new: NewMember = small_json(body).await?;
    let writes = match new.role.as_str() {
        "read" => false,
        "write" => true,
        _ => return Err(HubError::invalid("role should be read or write")),
    };
    let row = asked.store.hub().set_member(asked.param("org"), asked.param("user"), writes).await?;
    Ok(answer(&member(&row)))
}

/// `DELETE /api/admin/orgs/{org}/members/{user}`.
pub(super) async fn remove_member(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    small_json::<NoFields>(body).await?;
    asked.store.hub().remove_member(asked.param("org"), asked.param("user")).await?;
    Ok(answer(&json!({})))
}

/// `GET /api/admin/repos?type=&cursor=`: all of a kind, private or not, by pages.
pub(super) async fn repos(asked: Asked) -> Answer {
    asked.expect_admin()?;
    let kind = super::admin::kind_of(asked.query.value("type"))?;
    let query = RepoQuery {
        kind,
        namespace: None,
        search: None,
        private_of: None,
        after: cursor(&asked)?,
        limit: REPOS_MAX as u64,
    };
    let rows = asked.store.hub().list_repos(&query).await?;
    let mut response = answer(&rows.iter().map(repo).collect::<Vec<_>>());
    if let Some(last) = rows.last().filter(|_| rows.len() == REPOS_MAX) {
        let cursor = segment(&last.name.id());
        let kind = kind.singular();
        next_link(
            &mut response,
            &format!("{}/api/admin/repos?type={kind}&cursor={cursor}", asked.state.base_url),
        );
    }
    Ok(response)
}

/// `GET /api/admin/trash`.
pub(super) async fn trash(asked: Asked) -> Answer {
    asked.expect_admin()?;
    let rows = asked.store.hub().trash().await?;
    Ok(answer(&rows.iter().map(repo).collect::<Vec<_>>()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    repo: Option<String>,
}

/// `POST /api/admin/trash/{id}`: takes a repository out of the trash, under another name if one is given.
pub(super) async fn restore(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    let restore: Restore = small_json(body).await?;
    let row = asked.store.hub().trashed_repo(asked.param("id").parse()?).await?;
    let name = restore.repo.as_deref().map(RepoName::parse).transpose()?.unwrap_or_else(|| row.name.clone());
    let name = asked.store.hub().restore_repo(&row, &name).await?;
    Ok(answer(&repo(&RepoRow { name, reclaim_s: None, ..row })))
}

/// `DELETE /api/admin/trash/{id}`: for good.
pub(super) async fn reclaim(asked: Asked, body: Body) -> Answer {
    asked.expect_admin()?;
    small_json::<NoFields>(body).await?;
    let row = asked.store.hub().trashed_repo(asked.param("id").parse()?).await?;
    asked.store.hub().delete_repo(&row).await?;
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

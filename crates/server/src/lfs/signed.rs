//! Signed URLs of objects: made for one action, and checked when they come back.

use serde::Deserialize;
use store::Scope;
use store::hub::{RepoRow, pointer};
use xet::Sha256;
use xet::wire::ErrorCode;
use xet::wire::routes::TokenScope;

use crate::auth::{Claims, Origin};
use crate::http::error::ApiError;
use crate::http::refusal_time;
use crate::hub::request::{HubRequest, wire_name};
use crate::urls::lfs_url::{Action, Signed, origin_text, parse_origin};

/// An object, as clients name it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Object {
    pub(crate) oid: String,
    pub(crate) size: u64,
}

/// What a signed URL is for, if it is good. It is signed for the id of its repository: another one of the name is not meant.
pub(crate) async fn checked(request: &HubRequest, action: Action) -> Result<Signed, ApiError> {
    let begin = tokio::time::Instant::now();
    let repo = request.store.hub().repo(&request.repo_name()?).await?;
    let refuse =
        || ApiError::new(ErrorCode::Forbidden, "the URL is not good, or no longer: ask for the batch again");
    let number = |key: &str| request.query.number(key);
    let signed = (|| {
        Some(Signed {
            action,
            repo: repo.as_ref()?.id.to_string(),
            origin: parse_origin(request.query.value("for")?)?,
            sha256: pointer::parse_sha256(request.param("oid"))?,
            bytes: number("size")?,
            expires_s: number("expires")?,
        })
    })();
    let tag = request.query.value("signature").unwrap_or_default();
    let is_good = |signed: &Signed| request.state.lfs_signer.is_good(signed, tag, request.state.now_s());
    if let Some((signed, repo)) = signed.zip(repo).filter(|(signed, _)| is_good(signed))
        && holds(request, &signed, &repo).await?
    {
        return Ok(signed);
    }
    refusal_time::wait(begin).await;
    Err(refuse())
}

/// Whether the access that a URL was made for still allows what it is for.
async fn holds(request: &HubRequest, signed: &Signed, repo: &RepoRow) -> Result<bool, ApiError> {
    if !request.state.auth.is_required() {
        return Ok(true);
    }
    let needed = match signed.action {
        Action::Download => TokenScope::Read,
        Action::Upload | Action::Verify | Action::Part { .. } | Action::Join { .. } => TokenScope::Write,
    };
    let claims = Claims {
        iat: signed.expires_s.saturating_sub(request.state.config.url_ttl_s),
        ..Claims::new("", signed.origin.clone(), needed, wire_name(&repo.name), 0, 0).for_repo(repo.id)
    };
    Ok(request.state.auth.access(&claims, needed).await?.is_some())
}

/// The repository of a signed URL; it may be gone.
pub(crate) async fn named(request: &HubRequest) -> Result<RepoRow, ApiError> {
    let name = request.repo_name()?;
    // The signature is for this very name, and not for others that differ in case.
    let found = request.store.hub().repo(&name).await?.filter(|repo| repo.name == name);
    found.ok_or_else(|| ApiError::repo_not_found(false))
}

pub(crate) async fn scope_of(request: &HubRequest) -> Result<Scope, ApiError> {
    Ok(named(request).await?.name.scope()?)
}

pub(crate) fn url(request: &HubRequest, repo: &RepoRow, action: Action, object: &Object) -> String {
    let expires_s = request.state.now_s().saturating_add(request.state.config.url_ttl_s);
    let sha256 = pointer::parse_sha256(&object.oid).unwrap_or(Sha256::new([0; 32]));
    let origin = request.who.as_ref().map_or(Origin::Anonymous, |who| who.origin.clone());
    let by = origin_text(&origin);
    let signed = Signed { action, repo: repo.id.to_string(), origin, sha256, bytes: object.size, expires_s };
    let tag = request.state.lfs_signer.sign(&signed);
    let (path, part) = match action {
        Action::Upload | Action::Download => (String::new(), String::new()),
        Action::Verify => ("/verify".to_owned(), String::new()),
        Action::Part { number, part_bytes } => (format!("/parts/{number}"), format!("&part={part_bytes}")),
        Action::Join { part_bytes } => ("/parts".to_owned(), format!("&part={part_bytes}")),
    };
    format!(
        "{}/lfs/{}/{}/{}{path}?size={}{part}&for={by}&expires={expires_s}&signature={tag}",
        request.state.base_url,
        repo.name.kind.plural(),
        repo.name.id(),
        object.oid,
        object.size,
    )
}

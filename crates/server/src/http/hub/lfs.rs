//! LFS: whole files for clients that do not cut them, and the way in for those that learn of the content store here.
//!
//! What arrives whole is cut by the server, so it is deduplicated like everything else. URLs are signed: clients send no
//! token along.

pub(super) mod locks;
pub(super) mod parts;
mod sign;

pub(crate) use sign::LfsSigner;

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};
use store::catalog::repo::RepoRow;
use store::content::stream_bytes;
use store::intake::intake_bytes;
use store::quota::Need;
use store::repo::{LinkedFile, pointer};
use store::{Grant, Scope};
use xet::Sha256;
use xet::wire::ErrorCode;
use xet::wire::routes::{TokenScope, header as names};

use self::sign::{Action, Signed};
use super::access::{Asked, repository};
use super::admin::small_json;
use super::error::HubError;
use super::resolve::linked_file;
use crate::auth::Claims;
use crate::http::{json as answer, upload};
use crate::ranges;

#[derive(Deserialize)]
struct Batch {
    operation: String,
    #[serde(default)]
    transfers: Vec<String>,
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    size: u64,
}

/// `POST /{repo}.git/info/lfs/objects/batch`.
pub(super) async fn batch(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let batch: Batch = small_json(body).await?;
    if batch.objects.len() > OBJECTS_MAX {
        return Err(HubError::invalid(format!("at most {OBJECTS_MAX} objects at once")));
    }
    let is_upload = match batch.operation.as_str() {
        "upload" => true,
        "download" => false,
        _ => return Err(HubError::invalid("operation should be upload or download")),
    };
    let repo = if is_upload { asked.writable().await? } else { asked.readable().await? };
    let stored = stored(&asked, &repo, &batch.objects, is_upload).await?;
    let scope = repo.name.scope()?;
    if is_upload {
        let new = batch.objects.iter().filter(|object| !stored.contains_key(&object.oid));
        let logical_bytes = new.fold(0, |sum: u64, object| sum.saturating_add(object.size));
        asked.store.expect_quota(&scope, Need { logical_bytes, ..Need::default() }).await?;
    }
    let offers = |name: &str| is_upload && batch.transfers.iter().any(|transfer| transfer == name);
    let xet = offers("xet");
    let by_parts = |object: &Object| offers("multipart") && parts::applies(&asked.state, object.size);
    let objects = batch.objects.iter().map(|object| {
        let found = stored.get(&object.oid).filter(|found| found.bytes == object.size);
        let mut entry = json!({"oid": object.oid, "size": object.size, "authenticated": true});
        let actions = match (is_upload, found) {
            // Nothing to do: it is here.
            (true, Some(_)) => None,
            (true, None) if pointer::parse_sha256(&object.oid).is_none() => {
                let error = json!({"code": 422, "message": "an oid should be a SHA-256"});
                super::info::set(&mut entry, "error", error);
                None
            }
            (true, None) if xet => Some(xet_upload(&asked, &repo)),
            (true, None) if by_parts(object) => Some(parts::actions(&asked, &repo, object)),
            (true, None) => Some(json!({
                "upload": {"href": url(&asked, &repo, Action::Upload, object)},
                "verify": {"href": url(&asked, &repo, Action::Verify, object)},
            })),
            (false, Some(_)) => {
                Some(json!({"download": {"href": url(&asked, &repo, Action::Download, object)}}))
            }
            (false, None) => {
                let error = json!({"code": 404, "message": "no such object in this repository"});
                super::info::set(&mut entry, "error", error);
                None
            }
        };
        if let Some(actions) = actions {
            super::info::set(&mut entry, "actions", actions);
        }
        entry
    });
    let objects: Vec<_> = objects.collect();
    let transfer = match batch.objects.iter().any(by_parts) {
        _ if xet => "xet",
        true => "multipart",
        false => "basic",
    };
    let mut response = answer(&json!({"transfer": transfer, "objects": objects, "hash_algo": "sha256"}));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LFS_JSON));
    if is_upload {
        asked.warn_of_quota(&scope, &mut response).await?;
    }
    Ok(response)
}

/// `PUT` of a whole file.
pub(super) async fn upload(asked: Asked, request: Request) -> Result<Response<Body>, HubError> {
    let (parts, body) = request.into_parts();
    let signed = checked(&asked, Action::Upload)?;
    let scope = scope_of(&asked).await?;
    asked.state.expect_room(signed.bytes)?;
    let memory = intake_bytes(signed.bytes).min(asked.state.budget.usage().total_bytes);
    let permit = asked.state.budget.acquire(memory).await?;
    let pieces = upload::flowing(&parts.headers, body, signed.bytes, asked.state.body_timeout());
    let taken = asked.store.take_in(&Grant::write(scope), signed.sha256, signed.bytes, pieces).await?;
    drop(permit);
    metrics::counter!("drystone_taken_in_bytes_total", "new" => "true").increment(taken.new_bytes);
    let mut response = StatusCode::OK.into_response();
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", pointer::hex(&signed.sha256))) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// `POST` of what the client believes it has uploaded.
pub(super) async fn verify(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let object: Object = small_json(body).await?;
    let signed = checked(&asked, Action::Verify)?;
    let found = asked.store.stored_files(&scope_of(&asked).await?, &[signed.sha256], None).await?;
    let is_here = found.iter().any(|found| found.bytes == signed.bytes);
    match is_here && object.oid == asked.param("oid") && object.size == signed.bytes {
        true => Ok(answer(&json!({}))),
        false => Err(HubError::new(ErrorCode::NotFound, "the object is not here")),
    }
}

/// `GET` of a whole file, or a range of it.
pub(super) async fn download(asked: Asked, request: Request) -> Result<Response<Body>, HubError> {
    let (parts, _) = request.into_parts();
    let signed = checked(&asked, Action::Download)?;
    let scope = scope_of(&asked).await?;
    let found = asked.store.linked_files(&scope, &[signed.sha256]).await?.into_iter().next();
    let found = found.ok_or_else(|| HubError::new(ErrorCode::NotFound, "no such object"))?;
    let bytes = stream_bytes(ranges::longest_bytes(&parts.headers, found.bytes));
    let permit = asked.state.answers.acquire(bytes).await?;
    let grant = Grant::read(scope);
    Ok(linked_file(&asked.store, grant, &found, &parts, Some(permit)))
}

/// What a signed URL is for, if it is good.
fn checked(asked: &Asked, action: Action) -> Result<Signed, HubError> {
    let name = asked.repo_name()?;
    let refuse =
        || HubError::new(ErrorCode::Forbidden, "the URL is not good, or no longer: ask for the batch again");
    let number = |key: &str| asked.query.value(key).and_then(|value| value.parse().ok());
    let signed = (|| {
        Some(Signed {
            action,
            repo: name.to_string(),
            sha256: pointer::parse_sha256(asked.param("oid"))?,
            bytes: number("size")?,
            expires_s: number("expires")?,
        })
    })();
    let signed = signed.ok_or_else(refuse)?;
    let tag = asked.query.value("signature").unwrap_or_default();
    match asked.state.lfs.is_good(&signed, tag, asked.state.now_s()) {
        true => Ok(signed),
        false => Err(refuse()),
    }
}

/// The repository of a signed URL; it may be gone.
async fn named(asked: &Asked) -> Result<RepoRow, HubError> {
    let found = asked.store.repo(&asked.repo_name()?).await?;
    found.ok_or_else(|| HubError::repo_not_found(false))
}

async fn scope_of(asked: &Asked) -> Result<Scope, HubError> {
    Ok(named(asked).await?.name.scope()?)
}

fn url(asked: &Asked, repo: &RepoRow, action: Action, object: &Object) -> String {
    let expires_s = asked.state.now_s().saturating_add(asked.state.config.url_ttl_s);
    let sha256 = pointer::parse_sha256(&object.oid).unwrap_or(Sha256::new([0; 32]));
    let signed = Signed { action, repo: repo.name.to_string(), sha256, bytes: object.size, expires_s };
    let tag = asked.state.lfs.sign(&signed);
    let (path, part) = match action {
        Action::Upload | Action::Download => (String::new(), String::new()),
        Action::Verify => ("/verify".to_owned(), String::new()),
        Action::Part { number, part_bytes } => (format!("/parts/{number}"), format!("&part={part_bytes}")),
        Action::Join { part_bytes } => ("/parts".to_owned(), format!("&part={part_bytes}")),
    };
    format!(
        "{}/lfs/{}/{}/{}{path}?size={}{part}&expires={expires_s}&signature={tag}",
        asked.state.base_url,
        repo.name.kind.plural(),
        repo.name.id(),
        object.oid,
        object.size,
    )
}

/// Where and with what to upload by parts.
fn xet_upload(asked: &Asked, repo: &RepoRow) -> Value {
    let state = &asked.state;
    let who = asked.who.as_ref().map_or("anonymous", |who| who.name.as_str());
    let claims =
        Claims::new(who, TokenScope::Write, repository(&repo.name), state.now_s(), state.config.token_ttl_s);
    let issued = state.tokens.issue(&claims);
    let href = format!("{}/{}/main", asked.api_url(&repo.name), TokenScope::Write.segment());
    let headers = json!({
        names::XET_CAS_URL: state.base_url,
        names::XET_ACCESS_TOKEN: issued.token.expose(),
        names::XET_TOKEN_EXPIRATION: issued.expires_s.to_string(),
    });
    // Clients look these up as they are spelled elsewhere.
    let spelled = |(name, value): (&String, &Value)| {
        let words = name.split('-').map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_ascii_uppercase())
        });
        (words.collect::<Vec<_>>().join("-"), value.clone())
    };
    let headers: serde_json::Map<_, _> = headers.as_object().into_iter().flatten().map(spelled).collect();
    json!({"upload": {"href": href, "header": headers}})
}

/// Those objects that this repository has under digests computed from the bytes. Of those that are damaged only the digest
/// counts for a download; an upload heals them.
async fn stored(
    asked: &Asked,
    repo: &RepoRow,
    objects: &[Object],
    is_upload: bool,
) -> Result<HashMap<String, LinkedFile>, HubError> {
    let digests: Vec<_> = objects.iter().filter_map(|object| pointer::parse_sha256(&object.oid)).collect();
    let scope = repo.name.scope()?;
    let found = match is_upload {
        true => asked.store.stored_files(&scope, &digests, Some(DIGEST_PATIENCE)).await?,
        false => asked.store.linked_files(&scope, &digests).await?,
    };
    Ok(found.into_iter().map(|file| (pointer::hex(&file.sha256), file)).collect())
}

const OBJECTS_MAX: usize = 1000;
/// How long an upload batch waits for digests that are being computed, before it has the client send the files.
const DIGEST_PATIENCE: Duration = Duration::from_secs(10);
const LFS_JSON: &str = "application/vnd.git-lfs+json";

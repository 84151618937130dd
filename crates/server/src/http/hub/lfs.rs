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
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use store::content::{FILE_BYTES_MAX, LinkedFile, Need, intake_bytes, stream_bytes};
use store::hub::{RepoRow, pointer};
use store::{Grant, Scope};
use xet::Sha256;
use xet::wire::ErrorCode;
use xet::wire::routes::{TokenScope, header as names};

use self::parts::Layout;
use self::sign::{Action, Signed, origin_text, parse_origin};
use super::access::{Asked, repository};
use super::admin::small_json;
use super::error::HubError;
use super::resolve::linked_file;
use crate::auth::{Claims, Origin};
use crate::http::{json as answer, refusal_time, upload};
use crate::ranges;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    operation: String,
    #[serde(default)]
    transfers: Vec<String>,
    objects: Vec<Object>,
    hash_algo: Option<String>,
    /// The branch: objects are of the repository, whatever refers to them.
    #[serde(rename = "ref")]
    _ref: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    oid: String,
    size: u64,
}

impl Batch {
    /// Whether objects are uploaded. Refuses what is asked for and not done here.
    fn is_upload(&self) -> Result<bool, HubError> {
        if self.objects.len() > OBJECTS_MAX {
            return Err(HubError::invalid(format!("objects: at most {OBJECTS_MAX} at once")));
        }
        // As git-lfs and huggingface.js spell it.
        if !matches!(self.hash_algo.as_deref(), None | Some("sha256" | "sha_256")) {
            return Err(HubError::invalid("hash_algo: objects are named by their SHA-256 here"));
        }
        let is_upload = match self.operation.as_str() {
            "upload" => true,
            "download" => false,
            _ => return Err(HubError::invalid("operation: expected upload or download")),
        };
        let offered: &[&str] = if is_upload { &["basic", "multipart", "xet"] } else { &["basic"] };
        let is_known = |transfer: &String| offered.contains(&transfer.as_str());
        match self.transfers.is_empty() || self.transfers.iter().any(is_known) {
            true => Ok(is_upload),
            false => Err(HubError::invalid(format!("transfers: expected one of {}", offered.join(", ")))),
        }
    }
}

/// What an object of a batch is answered with.
enum Reply {
    /// It is here: nothing to upload.
    Stored,
    Download,
    Xet,
    Parts(Layout),
    Whole,
    /// A status and why.
    Refused(u16, String),
}

/// `POST /{repo}.git/info/lfs/objects/batch`.
pub(super) async fn batch(asked: Asked, body: Body) -> Result<Response<Body>, HubError> {
    let batch: Batch = small_json(body).await?;
    let is_upload = batch.is_upload()?;
    let repo = if is_upload { asked.writable().await? } else { asked.readable().await? };
    let stored = stored(&asked, &repo, &batch.objects, is_upload).await?;
    let scope = repo.name.scope()?;
    let offers = |name: &str| is_upload && batch.transfers.iter().any(|transfer| transfer == name);
    let (xet, multipart) = (offers("xet"), offers("multipart"));
    let reply = |object: &Object| {
        let found = stored.get(&object.oid).is_some_and(|found| found.bytes == object.size);
        let bytes_max = if xet { XET_FILE_BYTES_MAX } else { FILE_BYTES_MAX };
        match (is_upload, found) {
            (true, true) => Reply::Stored,
            (false, true) => Reply::Download,
            (false, false) => Reply::Refused(404, "no such object in this repository".to_owned()),
            (true, false) if pointer::parse_sha256(&object.oid).is_none() => {
                Reply::Refused(422, "an oid should be a SHA-256".to_owned())
            }
            (true, false) if object.size > bytes_max => {
                Reply::Refused(422, format!("size: a file has at most {bytes_max} bytes this way"))
            }
            (true, false) if xet => Reply::Xet,
            (true, false) if multipart && parts::applies(&asked.state, object.size) => {
                Reply::Parts(Layout::of(&asked.state, object.size))
            }
            (true, false) => Reply::Whole,
        }
    };
    let replies: Vec<Reply> = batch.objects.iter().map(reply).collect();
    let parts = replies.iter().map(|reply| if let Reply::Parts(layout) = reply { layout.count } else { 0 });
    let parts = parts.fold(0_u64, u64::saturating_add);
    if parts > BATCH_PARTS_MAX {
        let message = format!(
            "objects: they have {parts} parts, and a batch at most {BATCH_PARTS_MAX}: send fewer at once"
        );
        return Err(HubError::invalid(message).with_status(StatusCode::UNPROCESSABLE_ENTITY));
    }
    if is_upload {
        let new = batch.objects.iter().zip(&replies);
        let new = new.filter(|(_, reply)| !matches!(reply, Reply::Stored | Reply::Refused(..)));
        let logical_bytes = new.fold(0, |sum: u64, (object, _)| sum.saturating_add(object.size));
        asked.store.content().expect_quota(&scope, Need { logical_bytes, ..Need::default() }).await?;
    }
    let answer_bytes = (batch.objects.len() as u64 + parts).saturating_mul(ENTRY_BYTES);
    let answers = &asked.state.answers;
    let _permit = answers.acquire(answer_bytes.min(answers.usage().total_bytes)).await?;
    let mut objects = Vec::with_capacity(batch.objects.len());
    for (object, reply) in batch.objects.iter().zip(&replies) {
        let mut entry = json!({"oid": object.oid, "size": object.size, "authenticated": true});
        let actions = match reply {
            Reply::Stored => None,
            Reply::Download => {
                Some(json!({"download": {"href": url(&asked, &repo, Action::Download, object)}}))
            }
            Reply::Xet => Some(xet_upload(&asked, &repo)),
            Reply::Parts(layout) => Some(parts::actions(&asked, &repo, object, layout)),
            Reply::Whole => Some(json!({
                "upload": {"href": url(&asked, &repo, Action::Upload, object)},
                "verify": {"href": url(&asked, &repo, Action::Verify, object)},
            })),
            Reply::Refused(code, message) => {
                super::info::set(&mut entry, "error", json!({"code": code, "message": message}));
                None
            }
        };
        if let Some(actions) = actions {
            super::info::set(&mut entry, "actions", actions);
        }
        objects.push(entry);
        // An object may have thousands of URLs to sign; other requests go on between two objects.
        tokio::task::yield_now().await;
    }
    let transfer = match replies.iter().any(|reply| matches!(reply, Reply::Parts(_))) {
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
    let signed = checked(&asked, Action::Upload).await?;
    let scope = scope_of(&asked).await?;
    asked.state.expect_room(signed.bytes)?;
    let memory = intake_bytes(signed.bytes).min(asked.state.budget.usage().total_bytes);
    let permit = asked.state.budget.acquire(memory).await?;
    let pieces = upload::flowing(&parts.headers, body, signed.bytes, asked.state.body_timeout());
    let taken =
        asked.store.content().take_in(&Grant::write(scope), signed.sha256, signed.bytes, pieces).await?;
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
    let signed = checked(&asked, Action::Verify).await?;
    let found = asked.store.content().stored_files(&scope_of(&asked).await?, &[signed.sha256], None).await?;
    let is_here = found.iter().any(|found| found.bytes == signed.bytes);
    match is_here && object.oid == asked.param("oid") && object.size == signed.bytes {
        true => Ok(answer(&json!({}))),
        false => Err(HubError::new(ErrorCode::NotFound, "the object is not here")),
    }
}

/// `GET` of a whole file, or a range of it.
pub(super) async fn download(asked: Asked, request: Request) -> Result<Response<Body>, HubError> {
    let (parts, _) = request.into_parts();
    let signed = checked(&asked, Action::Download).await?;
    let scope = scope_of(&asked).await?;
    let found = asked.store.content().linked_files(&scope, &[signed.sha256]).await?.into_iter().next();
    let found = found.ok_or_else(|| HubError::new(ErrorCode::NotFound, "no such object"))?;
    let bytes = stream_bytes(ranges::longest_bytes(&parts.headers, found.bytes));
    let permit = asked.state.answers.acquire(bytes).await?;
    let grant = Grant::read(scope);
    Ok(linked_file(&asked.store, grant, &found, &parts, Some(permit)))
}

/// What a signed URL is for, if it is good. It is signed for the id of its repository: another one of the name is not meant.
async fn checked(asked: &Asked, action: Action) -> Result<Signed, HubError> {
    let begin = tokio::time::Instant::now();
    let repo = asked.store.hub().repo(&asked.repo_name()?).await?;
    let refuse =
        || HubError::new(ErrorCode::Forbidden, "the URL is not good, or no longer: ask for the batch again");
    let number = |key: &str| asked.query.number(key);
    let signed = (|| {
        Some(Signed {
            action,
            repo: repo.as_ref()?.id.to_string(),
            origin: parse_origin(asked.query.value("for")?)?,
            sha256: pointer::parse_sha256(asked.param("oid"))?,
            bytes: number("size")?,
            expires_s: number("expires")?,
        })
    })();
    let tag = asked.query.value("signature").unwrap_or_default();
    let is_good = |signed: &Signed| asked.state.lfs.is_good(signed, tag, asked.state.now_s());
    if let Some((signed, repo)) = signed.zip(repo).filter(|(signed, _)| is_good(signed))
        && holds(asked, &signed, &repo).await?
    {
        return Ok(signed);
    }
    refusal_time::wait(begin).await;
    Err(refuse())
}

/// Whether the access that a URL was made for still allows what it is for.
async fn holds(asked: &Asked, signed: &Signed, repo: &RepoRow) -> Result<bool, HubError> {
    if !asked.state.config.auth {
        return Ok(true);
    }
    let needed = match signed.action {
        Action::Download => TokenScope::Read,
        Action::Upload | Action::Verify | Action::Part { .. } | Action::Join { .. } => TokenScope::Write,
    };
    let claims = Claims {
        iat: signed.expires_s.saturating_sub(asked.state.config.url_ttl_s),
        ..Claims::new("", signed.origin.clone(), needed, repository(&repo.name), 0, 0).for_repo(repo.id)
    };
    Ok(asked.state.content_access(&claims, needed).await?.is_some())
}

/// The repository of a signed URL; it may be gone.
async fn named(asked: &Asked) -> Result<RepoRow, HubError> {
    let name = asked.repo_name()?;
    // The signature is for this very name, and not for others that differ in case.
    let found = asked.store.hub().repo(&name).await?.filter(|repo| repo.name == name);
    found.ok_or_else(|| HubError::repo_not_found(false))
}

async fn scope_of(asked: &Asked) -> Result<Scope, HubError> {
    Ok(named(asked).await?.name.scope()?)
}

fn url(asked: &Asked, repo: &RepoRow, action: Action, object: &Object) -> String {
    let expires_s = asked.state.now_s().saturating_add(asked.state.config.url_ttl_s);
    let sha256 = pointer::parse_sha256(&object.oid).unwrap_or(Sha256::new([0; 32]));
    let origin = asked.who.as_ref().map_or(Origin::Anonymous, |who| who.origin.clone());
    let by = origin_text(&origin);
    let signed = Signed { action, repo: repo.id.to_string(), origin, sha256, bytes: object.size, expires_s };
    let tag = asked.state.lfs.sign(&signed);
    let (path, part) = match action {
        Action::Upload | Action::Download => (String::new(), String::new()),
        Action::Verify => ("/verify".to_owned(), String::new()),
        Action::Part { number, part_bytes } => (format!("/parts/{number}"), format!("&part={part_bytes}")),
        Action::Join { part_bytes } => ("/parts".to_owned(), format!("&part={part_bytes}")),
    };
    format!(
        "{}/lfs/{}/{}/{}{path}?size={}{part}&for={by}&expires={expires_s}&signature={tag}",
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
    let claims =
        crate::http::token::claims(state, asked.who.as_ref(), TokenScope::Write, repository(&repo.name));
    let issued = state.tokens.issue(&claims.for_repo(repo.id));
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
        true => asked.store.content().stored_files(&scope, &digests, Some(DIGEST_PATIENCE)).await?,
        false => asked.store.content().linked_files(&scope, &digests).await?,
    };
    Ok(found.into_iter().map(|file| (pointer::hex(&file.sha256), file)).collect())
}

const OBJECTS_MAX: usize = 1000;
/// How long an upload batch waits for digests that are being computed, before it has the client send the files.
const DIGEST_PATIENCE: Duration = Duration::from_secs(10);
/// Parts of all objects of a batch: each is a signed URL in the answer.
const BATCH_PARTS_MAX: u64 = 50_000;
/// Memory that an object or a part takes in an answer on its way.
const ENTRY_BYTES: u64 = 1024;
/// A file that is cut by its client, in bytes. Shards of larger ones cannot be checked.
const XET_FILE_BYTES_MAX: u64 = 5 << 40;
const LFS_JSON: &str = "application/vnd.git-lfs+json";

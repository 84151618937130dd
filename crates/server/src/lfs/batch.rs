//! Batches of git-lfs, and uploads and downloads of whole objects.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use store::Grant;
use store::content::{FILE_BYTES_MAX, LinkedFile, Need, put_file_memory, stream_bytes};
use store::hub::{RepoRow, pointer};
use xet::wire::ErrorCode;
use xet::wire::routes::{TokenScope, header as names};

use crate::http::error::ApiError;
use crate::http::{json as answer, ranges, upload};
use crate::hub::claims_for;
use crate::hub::json::{set, small_json};
use crate::hub::request::{HubRequest, wire_name};
use crate::hub::resolve::linked_file;
use crate::lfs::LFS_JSON;
use crate::lfs::parts::{self, Layout};
use crate::lfs::signed::{Object, checked, scope_of, url};
use crate::urls::lfs_url::Action;

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

impl Batch {
    /// Whether objects are uploaded. Refuses what is not supported here.
    fn is_upload(&self) -> Result<bool, ApiError> {
        if self.objects.len() > OBJECTS_MAX {
            return Err(ApiError::invalid(format!("objects: at most {OBJECTS_MAX} at once")));
        }
        // As git-lfs and huggingface.js spell it.
        if !matches!(self.hash_algo.as_deref(), None | Some("sha256" | "sha_256")) {
            return Err(ApiError::invalid("hash_algo: objects are named by their SHA-256 here"));
        }
        let is_upload = match self.operation.as_str() {
            "upload" => true,
            "download" => false,
            _ => return Err(ApiError::invalid("operation: expected upload or download")),
        };
        let offered: &[&str] = if is_upload { &["basic", "multipart", "xet"] } else { &["basic"] };
        let is_known = |transfer: &String| offered.contains(&transfer.as_str());
        match self.transfers.is_empty() || self.transfers.iter().any(is_known) {
            true => Ok(is_upload),
            false => Err(ApiError::invalid(format!("transfers: expected one of {}", offered.join(", ")))),
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
pub(crate) async fn batch(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let batch: Batch = small_json(body).await?;
    let is_upload = batch.is_upload()?;
    let repo = if is_upload { request.require_write().await? } else { request.require_read().await? };
    let stored = stored(&request, &repo, &batch.objects, is_upload).await?;
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
            (true, false) if multipart && parts::applies(&request.state, object.size) => {
                Reply::Parts(Layout::of(&request.state, object.size))
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
        return Err(ApiError::invalid(message).with_status(StatusCode::UNPROCESSABLE_ENTITY));
    }
    if is_upload {
        let new = batch.objects.iter().zip(&replies);
        let new = new.filter(|(_, reply)| !matches!(reply, Reply::Stored | Reply::Refused(..)));
        let logical_bytes = new.fold(0, |sum: u64, (object, _)| sum.saturating_add(object.size));
        request.store.content().expect_quota(&scope, Need { logical_bytes, ..Need::default() }).await?;
    }
    let answer_bytes = (batch.objects.len() as u64 + parts).saturating_mul(ENTRY_BYTES);
    let answers = &request.state.answers;
    let _permit = answers.acquire(answer_bytes.min(answers.usage().total_bytes)).await?;
    let mut objects = Vec::with_capacity(batch.objects.len());
    for (object, reply) in batch.objects.iter().zip(&replies) {
        let mut entry = json!({"oid": object.oid, "size": object.size, "authenticated": true});
        let actions = match reply {
            Reply::Stored => None,
            Reply::Download => {
                Some(json!({"download": {"href": url(&request, &repo, Action::Download, object)}}))
            }
            Reply::Xet => Some(xet_upload(&request, &repo)),
            Reply::Parts(layout) => Some(parts::actions(&request, &repo, object, layout)),
            Reply::Whole => Some(json!({
                "upload": {"href": url(&request, &repo, Action::Upload, object)},
                "verify": {"href": url(&request, &repo, Action::Verify, object)},
            })),
            Reply::Refused(code, message) => {
                set(&mut entry, "error", json!({"code": code, "message": message}));
                None
            }
        };
        if let Some(actions) = actions {
            set(&mut entry, "actions", actions);
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
        request.warn_of_quota(&scope, &mut response).await?;
    }
    Ok(response)
}

/// `PUT` of a whole file.
pub(crate) async fn upload(request: HubRequest, incoming: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = incoming.into_parts();
    let signed = checked(&request, Action::Upload).await?;
    let scope = scope_of(&request).await?;
    request.state.require_disk_space(signed.bytes)?;
    let memory = put_file_memory(signed.bytes).min(request.state.budget.usage().total_bytes);
    let permit = request.state.budget.acquire(memory).await?;
    let pieces = upload::flowing(&parts.headers, body, signed.bytes, request.state.body_timeout());
    let taken =
        request.store.content().put_file(&Grant::write(scope), signed.sha256, signed.bytes, pieces).await?;
    drop(permit);
    metrics::counter!("drystone_taken_in_bytes_total", "new" => "true").increment(taken.new_bytes);
    let mut response = StatusCode::OK.into_response();
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", pointer::hex(&signed.sha256))) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// `POST` of what the client believes it has uploaded.
pub(crate) async fn verify(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let object: Object = small_json(body).await?;
    let signed = checked(&request, Action::Verify).await?;
    let found =
        request.store.content().stored_files(&scope_of(&request).await?, &[signed.sha256], None).await?;
    let is_here = found.iter().any(|found| found.bytes == signed.bytes);
    match is_here && object.oid == request.param("oid") && object.size == signed.bytes {
        true => Ok(answer(&json!({}))),
        false => Err(ApiError::new(ErrorCode::NotFound, "the object is not here")),
    }
}

/// `GET` of a whole file, or a range of it.
pub(crate) async fn download(request: HubRequest, incoming: Request) -> Result<Response<Body>, ApiError> {
    let (parts, _) = incoming.into_parts();
    let signed = checked(&request, Action::Download).await?;
    let scope = scope_of(&request).await?;
    let found = request.store.content().linked_files(&scope, &[signed.sha256]).await?.into_iter().next();
    let found = found.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "no such object"))?;
    let bytes = stream_bytes(ranges::longest_bytes(&parts.headers, found.bytes));
    let permit = request.state.answers.acquire(bytes).await?;
    let grant = Grant::read(scope);
    Ok(linked_file(&request.store, grant, &found, &parts, Some(permit)))
}

/// Where and with what to upload by parts.
fn xet_upload(request: &HubRequest, repo: &RepoRow) -> Value {
    let state = &request.state;
    let claims = claims_for(state, request.who.as_ref(), TokenScope::Write, wire_name(&repo.name));
    let issued = state.cas_tokens().issue(&claims.for_repo(repo.id));
    let href = format!("{}/{}/main", request.api_url(&repo.name), TokenScope::Write.segment());
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
    request: &HubRequest,
    repo: &RepoRow,
    objects: &[Object],
    is_upload: bool,
) -> Result<HashMap<String, LinkedFile>, ApiError> {
    let digests: Vec<_> = objects.iter().filter_map(|object| pointer::parse_sha256(&object.oid)).collect();
    let scope = repo.name.scope()?;
    let found = match is_upload {
        true => request.store.content().stored_files(&scope, &digests, Some(DIGEST_PATIENCE)).await?,
        false => request.store.content().linked_files(&scope, &digests).await?,
    };
    Ok(found.into_iter().map(|file| (pointer::hex(&file.sha256), file)).collect())
}

const OBJECTS_MAX: usize = 1000;
/// How long an upload batch waits for digests that are being computed, before it has the client send the files.
const DIGEST_PATIENCE: Duration = Duration::from_secs(10);
/// Parts of all objects of a batch: each is a signed URL in the answer.
const BATCH_PARTS_MAX: u64 = 50_000;
/// Memory for an object or a part of a response.
const ENTRY_BYTES: u64 = 1024;
/// A file that is cut by its client, in bytes. Shards of larger ones cannot be checked.
const XET_FILE_BYTES_MAX: u64 = 5 << 40;

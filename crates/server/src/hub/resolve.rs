//! Files: `HEAD` describes one and says where its parts are, `GET` sends its bytes, all or a range.
//!
//! Never a redirect: clients follow one within this origin and then look for the headers on its target.

use std::io;
use std::ops::Range;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures::{StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream};
use serde_json::json;
use store::content::{LinkedFile, stream_bytes};
use store::hub::{Item, RepoRow, pointer};
use store::ids::Oid;
use store::{Grant, Store};
use xet::wire::ErrorCode;
use xet::wire::routes::{TokenScope, content_type, header as names, reconstruction_v1, segment};

use crate::budget::{Budget, Permit};
use crate::http::body::Pieces;
use crate::http::error::ApiError;
use crate::http::media_type::image_type;
use crate::http::ranges::{self, Cache, Representation};
use crate::hub::request::HubRequest;

/// `HEAD` and `GET` of `/{repo}/resolve/{revision}/{path}`.
pub(crate) async fn serve(request: HubRequest, incoming: Request) -> Result<Response<Body>, ApiError> {
    let (mut parts, _) = incoming.into_parts();
    let (repo, commit, item) = find(&request).await?;
    // huggingface.js requests the first byte and reads the length from the answer; an empty file has no first byte.
    let is_probe =
        item.bytes == 0 && wants_info(&parts.headers) && parts.headers.remove(header::RANGE).is_some();
    let mut response = match item.linked {
        Some(linked) if wants_info(&parts.headers) => file_info(&linked),
        Some(linked) => {
            let bytes = stream_bytes(ranges::longest_bytes(&parts.headers, linked.bytes));
            let permit = permit(&request.state.answers, &parts.method, bytes).await?;
            let grant = HubRequest::grant(&repo)?;
            linked_file(&request.store, grant, &linked, &parts, permit)
        }
        None => blob(&request, &repo, &item, &parts.method, &parts.headers).await?,
    };
    describe(&request, &repo, commit, &item, response.headers_mut());
    if is_probe {
        response.headers_mut().insert(header::CONTENT_RANGE, HeaderValue::from_static("bytes */0"));
    }
    Ok(response)
}

/// `HEAD` and `GET` of `/{repo}/raw/{revision}/{path}`: what git has, which for a large file is its pointer.
pub(crate) async fn raw(request: HubRequest, incoming: Request) -> Result<Response<Body>, ApiError> {
    let (parts, _) = incoming.into_parts();
    let (repo, commit, item) = find(&request).await?;
    let mut response = blob(&request, &repo, &item, &parts.method, &parts.headers).await?;
    put(response.headers_mut(), "x-repo-commit", commit.to_string());
    disarm(response.headers_mut());
    Ok(response)
}

async fn find(request: &HubRequest) -> Result<(RepoRow, Oid, Item), ApiError> {
    let (repo, commit) = request.require_read_at().await?;
    let path = request.param("path");
    let item = request.store.hub().find_path(repo.id, commit, path).await?.filter(|item| item.mode.is_blob());
    let item = item.ok_or_else(|| ApiError::entry_not_found(path).at(commit))?;
    Ok((repo, commit, item))
}

/// Bytes of a file of the content store.
pub(crate) fn linked_file(
    store: &Store,
    grant: Grant,
    linked: &LinkedFile,
    parts: &Parts,
    permit: Option<Permit>,
) -> Response<Body> {
    let representation = Representation {
        total_bytes: linked.bytes,
        etag: pointer::hex(&linked.sha256),
        content_type: content_type::BYTES,
        cache: Cache::Revalidate,
    };
    let (store, file) = (store.clone(), linked.file);
    ranges::answer(&parts.method, &parts.headers, &representation, move |range: Range<u64>| {
        // Held for as long as the body may open ranges.
        let _permit = &permit;
        let (store, grant) = (store.clone(), grant.clone());
        let bytes = range.end.saturating_sub(range.start);
        metrics::counter!("drystone_sent_bytes_total").increment(bytes);
        let pieces = async move { store.content().read_file(&grant, file, range).await };
        pieces.try_flatten_stream().map_err(broken).boxed()
    })
}

/// What git has.
async fn blob(
    request: &HubRequest,
    repo: &RepoRow,
    item: &Item,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let gone = || ApiError::new(ErrorCode::Corrupt, "the file's row is gone");
    let row = item.row.as_ref().ok_or_else(gone)?;
    let permit = permit(&request.state.answers, method, 2 * row.bytes).await?;
    let body = match *method == Method::HEAD {
        true => Bytes::new(),
        false => request.store.hub().git_body(repo.id, row).await?,
    };
    let representation = Representation {
        total_bytes: row.bytes,
        etag: item.oid.to_string(),
        content_type: TEXT,
        cache: Cache::Revalidate,
    };
    let open = move |range: Range<u64>| -> Pieces {
        let _permit = &permit;
        let span = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let span = span.filter(|(start, end)| start <= end && *end <= body.len());
        let piece = span.map(|(start, end)| body.slice(start..end));
        let piece = piece.ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        stream::iter([piece]).boxed()
    };
    Ok(ranges::answer(method, headers, &representation, open))
}

/// `HEAD` needs no memory.
async fn permit(budget: &Budget, method: &Method, bytes: u64) -> Result<Option<Permit>, ApiError> {
    match *method == Method::HEAD {
        true => Ok(None),
        false => Ok(Some(budget.acquire(bytes.max(1)).await?)),
    }
}

/// The headers downloads begin with.
fn describe(request: &HubRequest, repo: &RepoRow, commit: Oid, item: &Item, headers: &mut HeaderMap) {
    let name = item.path.rsplit('/').next().unwrap_or_default();
    let plain: String =
        name.chars().map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' { c } else { '_' }).collect();
    let kind = if request.query.is_set("download") { "attachment" } else { "inline" };
    let disposition = format!("{kind}; filename*=UTF-8''{}; filename=\"{plain}\";", segment(name));
    if !request.query.is_set("noContentDisposition") {
        put(headers, "content-disposition", disposition);
    }
    put(headers, "x-repo-commit", commit.to_string());
    disarm(headers);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    // Pages show pictures, and browsers only what says it is one.
    let plain = [content_type::BYTES, TEXT].map(HeaderValue::from_static);
    if let Some(image) = image_type(name)
        && headers.get(header::CONTENT_TYPE).is_some_and(|found| plain.contains(found))
    {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(image));
    }
    let Some(linked) = &item.linked else { return };
    let base = &request.state.base_url;
    let read_token = format!("{}/{}/{commit}", request.api_url(&repo.name), TokenScope::Read.segment());
    put(headers, names::LINKED_SIZE, linked.bytes.to_string());
    put(headers, names::LINKED_ETAG, format!("\"{}\"", pointer::hex(&linked.sha256)));
    put(headers, names::XET_HASH, linked.file.to_string());
    let link = format!(
        "<{read_token}>; rel=\"{}\", <{base}{}>; rel=\"{}\"",
        names::LINK_REL_AUTH,
        reconstruction_v1(&linked.file),
        names::LINK_REL_RECONSTRUCTION,
    );
    put(headers, "link", link);
}

/// Whatever is stored, a browser must not take it for a page of this site.
fn disarm(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
}

/// Whether the caller would rather learn how to fetch the parts.
fn wants_info(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with(FILE_INFO))
}

fn file_info(linked: &LinkedFile) -> Response<Body> {
    let etag = pointer::hex(&linked.sha256);
    let body = json!({"hash": linked.file.to_string(), "size": linked.bytes, "etag": etag});
    let mut response = body.to_string().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(FILE_INFO));
    put(response.headers_mut(), "etag", format!("\"{etag}\""));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

fn put(headers: &mut HeaderMap, name: &'static str, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// The answer has begun and can only break off; the log says why.
fn broken(error: store::Error) -> io::Error {
    tracing::error!(%error, "a file's answer broke off");
    io::Error::other(error)
}

const TEXT: &str = "text/plain; charset=utf-8";
const FILE_INFO: &str = "application/vnd.xet-fileinfo+json";

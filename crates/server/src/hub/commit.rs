//! Commits: one line of JSON with the message, and one for each change.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use store::ErrorKind;
use store::hub::{BLOB_BYTES_MAX, Operation, RepoRow, Request as Commit, pointer, refs};
use store::ids::Oid;

use crate::http::error::ApiError;
use crate::http::{json as answer, upload};
use crate::hub::json::{is_object, set};
use crate::hub::request::HubRequest;

/// One line.
#[derive(Deserialize)]
#[serde(tag = "key", content = "value", rename_all = "camelCase", deny_unknown_fields)]
enum Line {
    Header(Header),
    File(File),
    LfsFile(LfsFile),
    DeletedFile(Deleted),
    DeletedFolder(Deleted),
    CopyFile(Copied),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    summary: String,
    #[serde(default)]
    description: String,
    parent_commit: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    content: String,
    encoding: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LfsFile {
    path: String,
    algo: Option<String>,
    oid: String,
    size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deleted {
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Copied {
    path: String,
    src_path: String,
    src_revision: Option<String>,
}

/// `POST {repo}/commit/{revision}`.
pub(crate) async fn receive(request: HubRequest, incoming: Request) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let (parts, body) = incoming.into_parts();
    let bounds = upload::Bounds {
        bytes_max: request.state.config.limits.other_body_bytes_max,
        // The lines, their contents, and what is made of them.
        memory_factor: 4,
        held_bytes_max: u64::MAX,
        silence: request.state.body_timeout(),
    };
    let upload = upload::read(&parts.headers, body, &request.state.budget, bounds).await?;
    let (lines, _permit) = upload.into_contiguous();
    let (header, operations) = parse(&request, &repo, &lines).await?;
    drop(lines);

    let author = request.author()?;
    let (ref_name, pull) = target(&request, &repo, &author, &header).await?;
    let message = match header.description.trim() {
        "" => header.summary.clone(),
        description => format!("{}\n\n{description}", header.summary),
    };
    let parent = header.parent_commit.as_deref().filter(|parent| !parent.is_empty());
    let parent = parent.map(str::parse::<Oid>).transpose()?;
    let commit = Commit { ref_name, parent, author, message, operations };
    let committed = request.store.hub().commit(&repo, &commit).await.map_err(|error| match error.kind() {
        // Clients wait and try again on other statuses; here a user must decide first.
        ErrorKind::Conflict => ApiError::from(error).with_status(StatusCode::PRECONDITION_FAILED),
        _ => error.into(),
    })?;
    let web = request.web_url(&repo.name);
    let mut body = json!({
        "success": true,
        "commitOid": committed.oid.to_string(),
        "commitUrl": format!("{web}/commit/{}", committed.oid),
        "hookOutput": "",
    });
    if let Some(number) = pull {
        set(&mut body, "pullRequestUrl", json!(format!("{web}/discussions/{number}")));
    }
    let mut response = answer(&body);
    request.warn_of_quota(&repo.name.scope()?, &mut response).await?;
    Ok(response)
}

/// The ref to move: a branch, an open pull request, or one that is opened for this.
async fn target(
    request: &HubRequest,
    repo: &RepoRow,
    author: &str,
    header: &Header,
) -> Result<(String, Option<u64>), ApiError> {
    let resolved = request.resolved(repo).await?;
    if request.query.is_set("create_pr") {
        let pull = request.store.hub().open_pull(
            repo,
            resolved.commit,
            author,
            &header.summary,
            &header.description,
        );
        let number = pull.await?.number;
        return Ok((refs::pull_ref(number), Some(number)));
    }
    let movable = |name: &String| !name.starts_with(refs::TAGS);
    let ref_name = resolved.ref_name.filter(movable);
    ref_name.map(|name| (name, None)).ok_or_else(|| {
        ApiError::invalid("a commit goes to a branch or a pull request, not to a tag or a commit")
    })
}

async fn parse(
    request: &HubRequest,
    repo: &RepoRow,
    lines: &Bytes,
) -> Result<(Header, Vec<Operation>), ApiError> {
    let mut header = None;
    let mut operations = Vec::new();
    // Copies of a commit name few revisions, many times.
    let mut revisions: HashMap<String, Oid> = HashMap::new();
    for (n, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |what: String| ApiError::invalid(format!("line {}: {what}", n + 1));
        if operations.len() >= OPERATIONS_MAX {
            return Err(ApiError::invalid(format!(
                "at most {OPERATIONS_MAX} changes in a commit: make several"
            )));
        }
        if !is_object(line) {
            return Err(wrong("expected an object".to_owned()));
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
        operations.push(match line {
            Line::Header(_) if header.is_some() => return Err(wrong("a commit has one header".to_owned())),
            Line::Header(line) => {
                header = Some(line);
                continue;
            }
            Line::File(file) => {
                let content = content(file.encoding.as_deref(), file.content).map_err(wrong)?;
                Operation::Put { path: file.path, content }
            }
            Line::LfsFile(file) => {
                let sha256 = file.algo.as_deref().is_none_or(|algo| algo == "sha256");
                let sha256 = pointer::parse_sha256(&file.oid).filter(|_| sha256);
                let sha256 =
                    sha256.ok_or_else(|| wrong("an lfsFile needs the SHA-256 of its bytes".into()))?;
                Operation::PutLinked { path: file.path, sha256, bytes: file.size }
            }
            Line::DeletedFile(deleted) => Operation::Delete { path: deleted.path },
            Line::DeletedFolder(deleted) => Operation::DeleteFolder { path: deleted.path },
            Line::CopyFile(copied) => {
                let revision = match copied.src_revision {
                    Some(revision) => Some(match revisions.get(&revision) {
                        Some(known) => *known,
                        None => {
                            let commit = request.resolved_revision(repo, &revision).await?.commit;
                            revisions.insert(revision, commit);
                            commit
                        }
                    }),
                    None => None,
                };
                Operation::Copy { from: copied.src_path, revision, to: copied.path }
            }
        });
    }
    let header = header.ok_or_else(|| ApiError::invalid("a commit needs a header line"))?;
    Ok((header, operations))
}

/// Changes in one commit. Clients send a thousand at a time.
const OPERATIONS_MAX: usize = 100_000;

fn content(encoding: Option<&str>, text: String) -> Result<Bytes, String> {
    let bytes = match encoding {
        Some("base64") => STANDARD.decode(text).map_err(|error| format!("content: {error}"))?,
        None | Some("utf-8") => text.into_bytes(),
        Some(_) => return Err("encoding should be base64 or utf-8".to_owned()),
    };
    match bytes.len() as u64 > BLOB_BYTES_MAX {
        true => Err(format!("a regular file has at most {BLOB_BYTES_MAX} bytes: upload it as an lfsFile")),
        false => Ok(bytes.into()),
    }
}

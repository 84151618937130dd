//! What refs of a repository have left, and the way back, for those who may write to it.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::hub::{ReflogEntry, refs};
use store::names::RepoName;

use crate::http::error::ApiError;
use crate::web::page::{Frame, answer};
use crate::web::repo::{self, url};
use crate::web::session::{SubmittedForm, see_other};
use crate::web::text;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "undelete.html")]
struct Undelete {
    frame: Frame,
    name: RepoName,
    now_s: u64,
    revisions: Vec<LostRevision>,
    /// How many there are.
    total: u64,
}

/// A revision that can be had back.
struct LostRevision {
    row: ReflogEntry,
    title: String,
}

impl LostRevision {
    /// The branch or tag that left it.
    fn by(&self) -> &str {
        refs::short(&self.row.name)
    }
}

/// Where the page of a repository is.
pub(super) fn page_of(name: &RepoName) -> String {
    format!("/{name}/undelete")
}

/// `GET /{repo}/undelete`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let repo = visit.require_write().await?;
    let rows = visit.store.hub().reflog(repo.id).await?;
    let total = rows.len() as u64;
    let mut revisions = Vec::new();
    // The newest first: users look for what they lost last.
    for row in rows.into_iter().rev().take(REVISIONS_MAX) {
        let (past, _) = visit.store.hub().history(repo.id, row.oid, 0, 1).await?;
        let title = past.into_iter().next().map(|past| repo::CommitLine::from(past).title);
        revisions.push(LostRevision { row, title: title.unwrap_or_default() });
    }
    let (name, now_s) = (repo.name, visit.state.now_s());
    let frame = Frame::new(&visit, name.kind.plural(), format!("Undelete in {}", name.id()));
    Ok(answer(&Undelete { frame, name, now_s, revisions, total }))
}

/// `POST /{repo}/undelete`: a revision, as the branch that is named or where it was; or a file.
pub(super) async fn act(sent: SubmittedForm) -> Result<Response<Body>, ApiError> {
    let visit = &sent.visit;
    let repo = visit.require_write().await?;
    if sent.form.value("revision").is_some() && sent.form.value("path").is_some() {
        return Err(ApiError::invalid("name a revision or a path"));
    }
    let branch = sent.form.value("as").map(str::trim).filter(|branch| !branch.is_empty());
    let target = match sent.form.value("path").map(str::trim).filter(|path| !path.is_empty()) {
        Some(path) => {
            let branch = branch.unwrap_or("main");
            visit.store.hub().undelete_file(&repo, branch, path, &visit.author()?).await?;
            url(&repo.name, "blob", branch, path)
        }
        None => {
            let revision = sent.field("revision")?;
            let oid = revision.parse().map_err(|_| ApiError::invalid("not a revision"))?;
            let name = visit.store.hub().undelete_revision(&repo, oid, branch).await?;
            url(&repo.name, "commits", refs::short(&name), "")
        }
    };
    Ok(see_other(&target))
}

const REVISIONS_MAX: usize = 100;

//! The history of a revision.

use askama::Template;
use axum::body::Body;
use axum::http::Response;

use crate::http::error::ApiError;
use crate::web::page::{Frame, answer};
use crate::web::repo::{self, CommitLine, RepoView};
use crate::web::visit::Visit;
use crate::web::{text, undelete};

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    place: RepoView,
    now_s: u64,
    total: u64,
    commits: Vec<CommitLine>,
    newer: Option<String>,
    older: Option<String>,
    /// Where those who may write bring back what refs have left.
    undelete: Option<String>,
}

/// `GET /{repo}/commits/{revision}`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = RepoView::of(&visit).await?;
    let page: u64 = visit.query.number("p").unwrap_or(0);
    let skip = page.saturating_mul(COMMITS_MAX);
    let (past, total) = visit.store.hub().history(place.repo.id, place.commit, skip, COMMITS_MAX).await?;
    let url = |page: u64| format!("{}?p={page}", place.url("commits", ""));
    let newer = page.checked_sub(1).map(url);
    let older = (skip.saturating_add(COMMITS_MAX) < total).then(|| url(page.saturating_add(1)));
    let frame = Frame::new(&visit, place.section(), format!("History of {}", place.name().id()));
    let undelete = visit.require_create(place.name()).is_ok().then(|| undelete::page_of(place.name()));
    let commits = past.into_iter().map(CommitLine::from).collect();
    let now_s = visit.state.now_s();
    Ok(answer(&HistoryPage { frame, place, now_s, total, commits, newer, older, undelete }))
}

const COMMITS_MAX: u64 = 50;

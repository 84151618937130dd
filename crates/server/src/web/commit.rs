//! The page of a commit: what it changed, file by file.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::repo::diff::Change;
use store::repo::listing::Item;
use store::repo::oid::Oid;

use super::page::{Frame, answer};
use super::repo::{CommitLine, Place, short, url};
use super::{PageError, Visit, content, lines, repo, text};
use crate::http::HubError;

#[derive(Template)]
#[template(path = "commit.html")]
struct CommitPage {
    frame: Frame,
    place: Place,
    now_s: u64,
    line: CommitLine,
    description: String,
    parents: Vec<Oid>,
    changes: Vec<Changed>,
    next: Option<String>,
}

/// A change as the page shows it.
struct Changed {
    change: Change,
    /// Lines, of a small text.
    hunks: Option<Vec<lines::Hunk>>,
}

impl Changed {
    fn what(&self) -> &'static str {
        match (&self.change.before, &self.change.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        }
    }

    /// `1.2 MB` or `1.2 MB → 1.3 MB`.
    fn sizes(&self) -> String {
        let bytes = |item: &Option<Item>| item.as_ref().map(|item| text::bytes(item.bytes));
        match (bytes(&self.change.before), bytes(&self.change.after)) {
            (Some(before), Some(after)) => format!("{before} → {after}"),
            (before, after) => before.or(after).unwrap_or_default(),
        }
    }
}

impl CommitPage {
    /// The file at the commit that has it.
    fn file_url(&self, changed: &Changed) -> String {
        let at = match (&changed.change.after, self.parents.first()) {
            (None, Some(parent)) => parent,
            _ => &self.line.oid,
        };
        url(self.place.name(), "blob", &at.to_string(), &changed.change.path)
    }
}

/// `GET /{repo}/commit/{revision}`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, PageError> {
    let place = Place::of(&visit).await?;
    let repo = &place.repo;
    let commit = visit.store.commit_object(repo.id, place.commit).await?;
    let before = match commit.parents.first() {
        Some(parent) => Some(visit.store.commit_object(repo.id, *parent).await?.tree),
        None => None,
    };
    let page = usize::try_from(visit.query.number("p").unwrap_or(0)).unwrap_or(usize::MAX);
    if page > PAGES_MAX {
        return Err(HubError::invalid("there are not so many pages").into());
    }
    let skip = page * CHANGES_MAX;
    let (found, is_more) = visit.store.changes(repo.id, before, commit.tree, skip, CHANGES_MAX).await?;
    let mut left_bytes = DIFF_BYTES_MAX;
    let mut changes = Vec::with_capacity(found.len());
    for change in found {
        let hunks = hunks(&visit, &place, &change, &mut left_bytes).await?;
        changes.push(Changed { change, hunks });
    }
    let next = is_more.then(|| format!("{}?p={}", place.commit_url(&place.commit), page + 1));
    let title = format!("{} in {}", short(&place.commit), place.name().id());
    Ok(answer(&CommitPage {
        frame: Frame::new(&visit, place.section(), title),
        now_s: visit.state.now_s(),
        description: commit.description().to_owned(),
        parents: commit.parents.clone(),
        line: CommitLine::from(store::repo::history::Past { oid: place.commit, commit }),
        changes,
        next,
        place,
    }))
}

/// The lines that differ, where both sides are small texts and the page has room.
async fn hunks(
    visit: &Visit,
    place: &Place,
    change: &Change,
    left_bytes: &mut u64,
) -> Result<Option<Vec<lines::Hunk>>, PageError> {
    let sides = [&change.before, &change.after];
    let bytes: u64 = sides.iter().copied().flatten().map(|item| item.bytes).sum();
    let is_small = |item: &Item| item.mode.is_blob() && item.linked.is_none() && item.bytes <= SIDE_BYTES_MAX;
    if bytes > *left_bytes || !sides.iter().copied().flatten().all(is_small) {
        return Ok(None);
    }
    let mut texts = Vec::new();
    for side in sides {
        let body = match side {
            Some(item) => content::read(visit, &place.repo, item, 0..item.bytes).await?,
            None => bytes::Bytes::new(),
        };
        let Ok(text) = String::from_utf8(body.to_vec()) else { return Ok(None) };
        if text.contains('\0') {
            return Ok(None);
        }
        texts.push(text);
    }
    *left_bytes -= bytes;
    let [before, after] = texts.as_slice() else { return Ok(None) };
    Ok(Some(lines::hunks(before, after)))
}

/// Files on one page.
const CHANGES_MAX: usize = 50;
const PAGES_MAX: usize = 2000;
/// A file with a longer side is not compared line by line.
const SIDE_BYTES_MAX: u64 = 64 * 1024;
/// Of all files of a page together.
const DIFF_BYTES_MAX: u64 = 128 * 1024;

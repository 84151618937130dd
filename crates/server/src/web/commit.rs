//! The page of a commit: what it changed, file by file.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::hub::{Change, Item};
use store::ids::Oid;
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::web::page::{Frame, answer};
use crate::web::repo::{self, CommitLine, RepoView, short, url};
use crate::web::visit::Visit;
use crate::web::{line_diff, read_file, text};

#[derive(Template)]
#[template(path = "commit.html")]
struct CommitPage {
    frame: Frame,
    place: RepoView,
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
    hunks: Option<Vec<line_diff::Hunk>>,
}

/// A change, and both sides of one that is compared line by line.
type Compared = (Change, Option<[String; 2]>);

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
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = RepoView::of(&visit).await?;
    let repo = &place.repo;
    let commit = visit.store.hub().commit_object(repo.id, place.commit).await?;
    let before = match commit.parents.first() {
        Some(parent) => Some(visit.store.hub().commit_object(repo.id, *parent).await?.tree),
        None => None,
    };
    let page = usize::try_from(visit.query.number("p").unwrap_or(0)).unwrap_or(usize::MAX);
    if page > PAGES_MAX {
        return Err(ApiError::invalid("there are fewer pages"));
    }
    let skip = page * CHANGES_MAX;
    let (found, is_more) = visit.store.hub().changes(repo.id, before, commit.tree, skip, CHANGES_MAX).await?;
    let mut left_bytes = DIFF_BYTES_MAX;
    let mut compared: Vec<Compared> = Vec::with_capacity(found.len());
    for change in found {
        let texts = texts(&visit, &place, &change, &mut left_bytes).await?;
        compared.push((change, texts));
    }
    let rendered = visit.state.renderer.run(move || compare(compared)).await;
    let changes = rendered.map_err(|why| ApiError::new(ErrorCode::Unavailable, why.to_string()))?;
    let next = is_more.then(|| format!("{}?p={}", place.commit_url(&place.commit), page + 1));
    let title = format!("{} in {}", short(&place.commit), place.name().id());
    Ok(answer(&CommitPage {
        frame: Frame::new(&visit, place.section(), title),
        now_s: visit.state.now_s(),
        description: commit.description().to_owned(),
        parents: commit.parents.clone(),
        line: CommitLine::from(store::hub::Past { oid: place.commit, commit }),
        changes,
        next,
        place,
    }))
}

/// The lines that differ in each change.
fn compare(compared: Vec<Compared>) -> Vec<Changed> {
    let mut cells_left = line_diff::PAGE_CELLS_MAX;
    let hunks = |(change, texts): Compared| Changed {
        change,
        hunks: texts.map(|[before, after]| line_diff::hunks(&before, &after, &mut cells_left)),
    };
    compared.into_iter().map(hunks).collect()
}

/// Both sides of a change, where they are small texts and the page has room.
async fn texts(
    visit: &Visit,
    place: &RepoView,
    change: &Change,
    left_bytes: &mut u64,
) -> Result<Option<[String; 2]>, ApiError> {
    let sides = [&change.before, &change.after];
    let bytes: u64 = sides.iter().copied().flatten().map(|item| item.bytes).sum();
    let is_small = |item: &Item| item.mode.is_blob() && item.linked.is_none() && item.bytes <= SIDE_BYTES_MAX;
    if bytes > *left_bytes || !sides.iter().copied().flatten().all(is_small) {
        return Ok(None);
    }
    let mut texts = [String::new(), String::new()];
    for (text, side) in texts.iter_mut().zip(sides) {
        let Some(item) = side else { continue };
        let body = read_file::read(visit, &place.repo, item, 0..item.bytes).await?;
        *left_bytes = left_bytes.saturating_sub(item.bytes);
        match text::as_text(&body, false) {
            Some(body) => body.clone_into(text),
            None => return Ok(None),
        }
    }
    Ok(Some(texts))
}

/// Files on one page.
const CHANGES_MAX: usize = 50;
const PAGES_MAX: usize = 2000;
/// A file with a longer side is not compared line by line.
const SIDE_BYTES_MAX: u64 = 64 * 1024;
/// Of all files of a page together.
const DIFF_BYTES_MAX: u64 = 128 * 1024;

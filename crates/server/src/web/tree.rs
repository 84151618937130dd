//! The page of a repository or one of its folders: files, README, how to fetch it.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::hub::{Item, Page};

use crate::http::error::ApiError;
use crate::web::page::{Frame, answer};
use crate::web::repo::{self, CommitLine, RepoView};
use crate::web::visit::Visit;
use crate::web::{card, text};

#[derive(Template)]
#[template(path = "tree.html")]
struct TreePage {
    frame: Frame,
    place: RepoView,
    now_s: u64,
    last: Option<CommitLine>,
    commits: u64,
    items: Vec<Item>,
    next: Option<String>,
    readme: Option<card::RenderedCard>,
    may_upload: bool,
}

impl TreePage {
    fn name_of<'a>(&self, item: &'a Item) -> &'a str {
        item.path.rsplit('/').next().unwrap_or_default()
    }

    fn readme_url(&self) -> String {
        let folder = &self.place.path;
        let path = if folder.is_empty() { "README.md".to_owned() } else { format!("{folder}/README.md") };
        self.place.url("resolve", &path)
    }

    fn item_url(&self, item: &Item) -> String {
        self.place.url(if item.is_folder() { "tree" } else { "blob" }, &item.path)
    }
}

/// `GET /{repo}`, `GET /{repo}/tree/{revision}[/{path}]`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = RepoView::of(&visit).await?;
    let after = visit.query.value("after").map(str::to_owned);
    let page = Page { recursive: false, after: after.clone(), limit: ITEMS_MAX };
    let listing = visit.store.hub().list_folder(place.repo.id, place.commit, &place.path, &page).await?;
    let listing = listing.ok_or_else(|| ApiError::entry_not_found(&place.path))?;
    let (last, commits) = visit.store.hub().history(place.repo.id, place.commit, 0, 1).await?;
    let next = listing
        .next
        .map(|cursor| format!("{}?{}", place.url("tree", &place.path), visit.query.with("after", &cursor)));
    let readme = match after {
        None => card::of_folder(&visit, &place).await?,
        Some(_) => None,
    };
    let frame = Frame::new(&visit, place.section(), place.name().id());
    let last = last.into_iter().next().map(CommitLine::from);
    let now_s = visit.state.now_s();
    let may_upload = place.is_branch() && visit.require_create(place.name()).is_ok();
    Ok(answer(&TreePage {
        frame,
        place,
        now_s,
        last,
        commits,
        items: listing.items,
        next,
        readme,
        may_upload,
    }))
}

/// Files of a folder on one page.
const ITEMS_MAX: usize = 100;

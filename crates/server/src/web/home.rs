//! The home page: repositories the visitor may see, with what they have and what that takes.

use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::http::{Response, Uri};
use store::hub::{BrowseQuery, Order, RepoSize, SizedRepo};
use store::names::Kind;
use url::form_urlencoded::Serializer;

use crate::http::error::ApiError;
use crate::hub::info::SEARCH_BYTES_MAX;
use crate::web::page::{Frame, answer};
use crate::web::text;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    frame: Frame,
    title: &'static str,
    now_s: u64,
    path: String,
    search: String,
    order: Order,
    page: u64,
    total: u64,
    size: RepoSize,
    repos: Vec<SizedRepo>,
}

impl Home {
    /// This list in an order, at a page.
    fn url(&self, sort: &str, page: u64) -> String {
        let mut query = Serializer::new(String::new());
        if !self.search.is_empty() {
            query.append_pair("search", &self.search);
        }
        query.append_pair("sort", sort);
        if page > 0 {
            query.append_pair("p", &page.to_string());
        }
        format!("{}?{}", self.path, query.finish())
    }

    fn sort(&self) -> &'static str {
        match self.order {
            Order::Name => "name",
            Order::Updated => "updated",
            Order::Size => "size",
        }
    }

    /// How a column says that it sorts.
    fn sorted(&self, sort: &str) -> &'static str {
        match self.sort() == sort {
            true if sort == "name" => "ascending",
            true => "descending",
            false => "none",
        }
    }

    fn saved(&self) -> String {
        text::saved(self.size.logical_bytes, self.size.stored_bytes)
    }

    fn first(&self) -> u64 {
        self.page * REPOS_MAX + 1
    }

    fn last(&self) -> u64 {
        self.page * REPOS_MAX + self.repos.len() as u64
    }

    fn pages(&self) -> u64 {
        self.total.div_ceil(REPOS_MAX)
    }
}

/// `GET /`, `GET /models` and the like.
pub(super) async fn show(visit: Visit, uri: Uri) -> Result<Response<Body>, ApiError> {
    if visit.query.value("search").is_some_and(|text| text.len() > SEARCH_BYTES_MAX) {
        return Err(ApiError::invalid(format!("search: at most {SEARCH_BYTES_MAX} bytes")));
    }
    measure(&visit).await;
    let kind = Kind::ALL.into_iter().find(|kind| uri.path().trim_start_matches('/') == kind.plural());
    let search =
        visit.query.value("search").map(|text| text.replace(char::is_control, "")).unwrap_or_default();
    let order = match visit.query.value("sort") {
        Some("name") => Order::Name,
        Some("size") => Order::Size,
        _ => Order::Updated,
    };
    let page = visit.query.number("p").unwrap_or(0).min(PAGE_MAX);
    let query = BrowseQuery {
        kind,
        search: Some(search.clone()).filter(|search| !search.is_empty()),
        private_of: visit.visible_private_namespaces(),
        order,
        skip: page * REPOS_MAX,
        limit: REPOS_MAX,
    };
    let repos = visit.store.hub().repo_page(&query).await?;
    let (total, size) = visit.store.hub().repo_totals(&query).await?;
    let (section, title) = match kind {
        None => ("home", "Repositories"),
        Some(Kind::Model) => ("models", "Models"),
        Some(Kind::Dataset) => ("datasets", "Datasets"),
        Some(Kind::Space) => ("spaces", "Spaces"),
    };
    let mut frame = Frame::new(&visit, section, title);
    frame.search.clone_from(&search);
    let (now_s, path) = (visit.state.now_s(), uri.path().to_owned());
    Ok(answer(&Home { frame, title, now_s, path, search, order, page, total, size, repos }))
}

/// Has what changed measured, and waits for it no longer than nobody notices.
pub(super) async fn measure(visit: &Visit) {
    let store = visit.store.clone();
    let measured = tokio::spawn(async move {
        if let Err(error) = store.hub().measure_repos().await {
            tracing::warn!(%error, "repositories could not be measured");
        }
    });
    let _ = tokio::time::timeout(PATIENCE, measured).await;
}

/// Repositories on one page.
const REPOS_MAX: u64 = 50;
const PAGE_MAX: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_millis(100);

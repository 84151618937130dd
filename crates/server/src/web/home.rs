//! The home page: repositories the visitor may see.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::catalog::repo::{RepoQuery, RepoRow};
use store::repo::Kind;

use super::page::{Frame, answer};
use super::{PageError, Visit, text};

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    frame: Frame,
    now_s: u64,
    repos: Vec<RepoRow>,
}

/// `GET /`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, PageError> {
    let mut repos = Vec::new();
    for kind in Kind::ALL {
        let query = RepoQuery {
            kind,
            namespace: None,
            search: visit.query.value("search").map(|text| text.replace(char::is_control, "")),
            private_of: visit.private_of(),
            after: None,
            limit: 50,
        };
        repos.extend(visit.store.list_repos(&query).await?);
    }
    let frame = Frame::new(&visit, "home", "Repositories");
    Ok(answer(&Home { frame, now_s: visit.state.now_s(), repos }))
}

//! Pages for browsers, made by the server from templates; small scripts only add comfort.
//!
//! A page reads what the Hub API reads, with the same rights. Nothing that is stored becomes script: templates escape,
//! Markdown is sanitised, and the policy of every page lets no script run but the server's own.

mod account;
mod admin;
mod assets;
mod card;
mod commit;
mod csrf;
mod dedup;
pub(crate) mod error_page;
mod file;
mod file_map;
mod forms;
mod history;
mod home;
mod html_limits;
mod line_diff;
mod pack;
mod pack_source;
mod page;
mod preview;
mod read_file;
mod repo;
mod session;
mod text;
mod tree;
mod undelete;
mod upload;
mod visit;

use axum::routing::{get, post, put};
use store::names::Kind;

use crate::http::router::{REPO_PAGE, Route};

/// All pages.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = vec![
        ("/".to_owned(), get(home::show)),
        ("/-/assets/{asset}".to_owned(), get(assets::serve)),
        ("/-/sign-in".to_owned(), get(session::show).post(session::enter)),
        ("/-/sign-out".to_owned(), post(session::leave)),
        ("/-/account".to_owned(), get(account::show)),
        ("/-/account/{action}".to_owned(), post(account::act)),
        ("/-/admin".to_owned(), get(admin::show)),
        ("/-/admin/audit".to_owned(), get(admin::audit)),
        ("/-/admin/{action}".to_owned(), post(admin::act)),
        ("/-/dedup".to_owned(), get(dedup::show)),
    ];
    routes.extend(Kind::ALL.into_iter().flat_map(of_kind));
    routes
}

/// The pages of one kind of repository, under the paths they have on huggingface.co where they are there.
fn of_kind(kind: Kind) -> Vec<Route> {
    let page = |rest: &str| page_path(kind, rest);
    vec![
        (format!("/{}", kind.plural()), get(home::show)),
        (page(""), get(tree::show)),
        (page("/tree/{revision}"), get(tree::show)),
        (page("/tree/{revision}/{*path}"), get(tree::show)),
        (page("/blob/{revision}/{*path}"), get(file::show)),
        (page("/entry/{revision}/{*path}"), get(pack::entry)),
        (page("/commits/{revision}"), get(history::show)),
        (page("/commit/{revision}"), get(commit::show)),
        (page("/undelete"), get(undelete::show).post(undelete::act)),
        (page("/upload/{revision}"), get(upload::show)),
    ]
}

/// The routes that the script of the upload page uses. They answer with JSON.
pub(crate) fn upload_routes() -> Vec<Route> {
    let of_kind = |kind| {
        let path = |rest| page_path(kind, &format!("/upload/{{revision}}/-/{rest}"));
        [
            (path("decide"), post(upload::decide)),
            (path("file"), put(upload::file).get(upload::progress)),
            (path("commit"), post(upload::commit)),
        ]
    };
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

/// A page of repositories of one kind, as a route.
fn page_path(kind: Kind, rest: &str) -> String {
    match kind {
        Kind::Model => format!("{REPO_PAGE}{rest}"),
        _ => format!("/{}/{{namespace}}/{{name}}{rest}", kind.plural()),
    }
}

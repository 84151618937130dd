//! Pages: what a browser shows of a hub. Made by the server from templates; small scripts only add comfort.
//!
//! A page reads what the Hub API reads, with the same rights. Nothing that is stored becomes script: templates escape,
//! Markdown is sanitised, and the policy of every page lets no script run but the server's own.

mod account;
mod admin;
mod assets;
mod commit;
mod content;
mod dedup;
mod error;
mod file;
mod forms;
mod history;
mod home;
mod lines;
mod map;
mod markup;
mod pack;
mod pack_source;
mod page;
mod preview;
mod readme;
mod repo;
pub(crate) mod running;
pub(crate) mod session;
mod text;
mod tree;
mod undelete;
mod upload;

use std::ops::Deref;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, header};
use axum::response::IntoResponse as _;
use axum::routing::{get, post, put};
use store::names::{Kind, RepoName};
use xet::wire::ErrorCode;

use crate::http::error::Refused;
use crate::http::{Asked, Route};
use crate::state::AppState;
pub(crate) use error::{PageError, Viewer};
pub(crate) use preview::image_type;
pub(crate) use readme::Card;

/// The page of a model: the one that paths of two parts may only look like.
pub(crate) const REPO_PAGE: &str = "/{namespace}/{name}";

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
    let plural = kind.plural();
    let page = |rest: &str| match kind {
        Kind::Model => format!("{REPO_PAGE}{rest}"),
        _ => format!("/{plural}/{{namespace}}/{{name}}{rest}"),
    };
    vec![
        (format!("/{plural}"), get(home::show)),
        (page(""), get(tree::show)),
        (page("/tree/{revision}"), get(tree::show)),
        (page("/tree/{revision}/{*path}"), get(tree::show)),
        (page("/blob/{revision}/{*path}"), get(file::show)),
        (page("/entry/{revision}/{*path}"), get(pack::entry)),
        (page("/commits/{revision}"), get(history::show)),
        (page("/commit/{revision}"), get(commit::show)),
        (page("/undelete"), get(undelete::show).post(undelete::act)),
        (page("/upload/{revision}"), get(upload::show)),
        (page("/upload/{revision}/-/decide"), post(upload::decide)),
        (page("/upload/{revision}/-/file"), put(upload::file).get(upload::progress)),
        (page("/upload/{revision}/-/commit"), post(upload::commit)),
    ]
}

/// A request for a page.
pub(crate) struct Visit {
    asked: Asked,
    /// What the browser was signed in with.
    session: Option<String>,
}

impl Visit {
    /// A request by whoever is signed in, which its caller must have reason to believe.
    async fn by_session(parts: &mut Parts, state: &AppState) -> Result<Self, PageError> {
        let session = session::of(&parts.headers);
        // Tokens in headers are for programs, and outweigh a cookie.
        let who = match state.who(&parts.headers).await? {
            None => match &session {
                Some(token) => state.identify(token).await.ok(),
                None => None,
            },
            who => who,
        };
        Ok(Self { asked: Asked::by(who, parts, state).await?, session })
    }

    /// Shows the page as to a stranger.
    fn forget(&mut self) {
        self.asked.who = None;
        self.session = None;
    }

    fn into_asked(self) -> Asked {
        self.asked
    }
}

impl Deref for Visit {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

impl FromRequestParts<AppState> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, PageError> {
        if is_nothing(parts.uri.path()) {
            let nothing = Refused::new(ErrorCode::NotFound, "there is nothing at this path");
            return Err(match wants_page(&parts.headers) {
                true => nothing.into(),
                false => PageError::json(nothing),
            });
        }
        Self::by_session(parts, state).await
    }
}

/// A refusal in the words of whoever asks: a page for browsers, JSON for programs.
pub(crate) fn refuse(headers: &HeaderMap, refused: Refused) -> Response<Body> {
    match wants_page(headers) {
        true => PageError::from(refused).into_response(),
        false => refused.into_response(),
    }
}

/// Browsers name pages first when they go somewhere; programs ask for anything or for JSON.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.trim_start().starts_with("text/html"))
}

/// Whether a path of two parts only looks like a repository: their pages must not make `/api/none` another thing than
/// nothing. Pages of the server itself begin with a dash.
pub(crate) fn is_nothing(path: &str) -> bool {
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(namespace), Some(name), None) if namespace != "-" => {
            RepoName::new(Kind::Model, namespace, name).is_err()
        }
        _ => false,
    }
}

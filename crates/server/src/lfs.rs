//! LFS: whole files for clients that do not cut them, and the way in for those that learn of the content store here.
//!
//! What arrives whole is cut by the server, so it is deduplicated like everything else. URLs are signed: clients send no
//! token along.

mod batch;
mod locks;
mod parts;
mod signed;

use axum::routing::{get, post, put};
use store::names::Kind;

use crate::http::router::Route;

/// All routes of git-lfs.
pub(crate) fn routes() -> Vec<Route> {
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

/// The routes of one kind of repository.
fn of_kind(kind: Kind) -> Vec<Route> {
    let plural = kind.plural();
    let web = |rest: &str| match kind {
        Kind::Model => format!("/{{namespace}}/{{name}}/info/lfs{rest}"),
        _ => format!("/{plural}/{{namespace}}/{{name}}/info/lfs{rest}"),
    };
    let signed = |rest: &str| format!("/lfs/{plural}/{{namespace}}/{{name}}/{{oid}}{rest}");
    vec![
        (web("/objects/batch"), post(batch::batch)),
        (web("/locks"), get(locks::list).post(locks::create)),
        (web("/locks/verify"), post(locks::verify)),
        (web("/locks/{id}/unlock"), post(locks::unlock)),
        (signed(""), get(batch::download).put(batch::upload)),
        (signed("/verify"), post(batch::verify)),
        (signed("/parts"), post(parts::join)),
        (signed("/parts/{number}"), put(parts::receive)),
    ]
}

/// Media type of the answers of git-lfs.
const LFS_JSON: &str = "application/vnd.git-lfs+json";

//! The Hub API: what the tools of the Hugging Face Hub ask for, answered as they expect it.
//!
//! Every path, header and body here is one that real clients were seen to send or need. Errors carry `X-Error-Code`:
//! clients decide by it, and on plain HTTP by nothing else.

mod access;
mod admin;
mod clock;
mod commit;
mod discussion;
mod error;
mod info;
mod lfs;
mod preupload;
mod query;
mod refs;
mod resolve;
mod tree;

pub(super) use access::Asked;
pub(super) use error::HubError;
pub(crate) use lfs::LfsSigner;

use axum::Router;
use axum::routing::{delete, get, post, put};
use store::repo::Kind;

use crate::state::AppState;

/// Adds all routes of the Hub API.
pub(super) fn routes(mut routes: Router<AppState>) -> Router<AppState> {
    routes = routes
        .route("/api/whoami-v2", get(admin::whoami))
        .route("/api/repos/create", post(admin::create))
        .route("/api/repos/delete", delete(admin::delete))
        .route("/api/repos/move", post(admin::rename))
        .route("/api/validate-yaml", post(admin::validate_yaml));
    for kind in Kind::ALL {
        let plural = kind.plural();
        let repo = format!("/api/{plural}/{{namespace}}/{{name}}");
        let at = |rest: &str| format!("{repo}{rest}");
        routes = routes
            .route(&format!("/api/{plural}"), get(info::list))
            .route(&repo, get(info::info))
            .route(&at("/revision/{revision}"), get(info::info))
            .route(&at("/settings"), put(admin::settings))
            .route(&at("/auth-check"), get(info::auth_check))
            .route(&at("/auth-check/write"), get(info::auth_check))
            .route(&at("/preupload/{revision}"), post(preupload::decide))
            .route(&at("/commit/{revision}"), post(commit::receive))
            .route(&at("/tree/{revision}"), get(tree::list))
            .route(&at("/tree/{revision}/"), get(tree::list))
            .route(&at("/tree/{revision}/{*path}"), get(tree::list))
            .route(&at("/paths-info/{revision}"), post(tree::paths_info))
            .route(&at("/refs"), get(refs::list))
            .route(&at("/branch/{branch}"), post(refs::create_branch).delete(refs::delete_branch))
            .route(&at("/tag/{tag}"), post(refs::create_tag).delete(refs::delete_tag))
            .route(&at("/commits/{revision}"), get(refs::history))
            .route(&at("/super-squash/{branch}"), post(refs::squash))
            .route(&at("/discussions"), post(discussion::open))
            .route(&at("/discussions/{number}"), get(discussion::details))
            .route(
                &format!("/api/resolve-cache/{plural}/{{namespace}}/{{name}}/{{revision}}/{{*path}}"),
                get(resolve::serve),
            );
        let web = match kind {
            Kind::Model => "/{namespace}/{name}".to_owned(),
            _ => format!("/{plural}/{{namespace}}/{{name}}"),
        };
        routes = routes
            .route(&format!("{web}/resolve/{{revision}}/{{*path}}"), get(resolve::serve))
            .route(&format!("{web}/raw/{{revision}}/{{*path}}"), get(resolve::raw))
            .route(&format!("{web}/info/lfs/objects/batch"), post(lfs::batch))
            .route(
                &format!("/lfs/{plural}/{{namespace}}/{{name}}/{{oid}}"),
                get(lfs::download).put(lfs::upload),
            )
            .route(&format!("/lfs/{plural}/{{namespace}}/{{name}}/{{oid}}/verify"), post(lfs::verify));
    }
    routes
}

/// A part of a path or query, as URLs spell it.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

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
mod ignore;
mod info;
mod keep;
mod keeping;
mod lfs;
mod preupload;
mod query;
mod refs;
mod resolve;
mod tree;
mod unsupported;

pub(crate) use access::{Asked, repository};
pub use clock::iso;
pub(crate) use commit::receive as hub_commit;
pub(crate) use error::HubError;
pub(crate) use info::SEARCH_BYTES_MAX;
pub use keeping::{dedup_json, deed_json, left_json, quota_json};
pub(crate) use lfs::LfsSigner;
pub(crate) use preupload::decide_for_page as hub_decide;
pub(crate) use query::Query;

use axum::routing::{delete, get, post, put};
use store::names::Kind;

use super::Route;

/// All routes of the Hub API, and those of whoever keeps the server.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![
        ("/api/whoami-v2".to_owned(), get(admin::whoami)),
        ("/api/repos/create".to_owned(), post(admin::create)),
        ("/api/repos/delete".to_owned(), delete(admin::delete)),
        ("/api/repos/move".to_owned(), post(admin::rename)),
        ("/api/validate-yaml".to_owned(), post(admin::validate_yaml)),
        ("/api/admin/users".to_owned(), get(keep::users).post(keep::add_user)),
        ("/api/admin/orgs".to_owned(), get(keep::orgs).post(keep::add_org)),
        ("/api/admin/users/{user}".to_owned(), put(keep::set_user).delete(keep::delete_user)),
        ("/api/admin/users/{user}/password".to_owned(), put(keep::set_password)),
        ("/api/admin/orgs/{org}".to_owned(), delete(keep::delete_org)),
        ("/api/admin/orgs/{org}/members".to_owned(), get(keep::members)),
        (
            "/api/admin/orgs/{org}/members/{user}".to_owned(),
            put(keep::set_member).delete(keep::remove_member),
        ),
        ("/api/admin/repos".to_owned(), get(keep::repos)),
        ("/api/admin/trash".to_owned(), get(keep::trash)),
        ("/api/admin/trash/{id}".to_owned(), post(keep::restore).delete(keep::reclaim)),
        (
            "/api/admin/quotas".to_owned(),
            get(keeping::quotas).put(keeping::set_quota).delete(keeping::remove_quota),
        ),
        ("/api/admin/dedup".to_owned(), get(keeping::dedup_policies).put(keeping::set_dedup_policy)),
        ("/api/admin/audit".to_owned(), get(keeping::audit)),
        ("/api/admin/undelete".to_owned(), get(keeping::left).post(keeping::undelete)),
    ];
    routes.extend(Kind::ALL.into_iter().flat_map(of_kind));
    routes
}

/// The routes of one kind of repository.
fn of_kind(kind: Kind) -> Vec<Route> {
    let plural = kind.plural();
    let api = |rest: &str| format!("/api/{plural}/{{namespace}}/{{name}}{rest}");
    let web = |rest: &str| match kind {
        Kind::Model => format!("/{{namespace}}/{{name}}{rest}"),
        _ => format!("/{plural}/{{namespace}}/{{name}}{rest}"),
    };
    let signed = |rest: &str| format!("/lfs/{plural}/{{namespace}}/{{name}}/{{oid}}{rest}");
    vec![
        (format!("/api/{plural}"), get(info::list)),
        (api(""), get(info::info)),
        (api("/revision/{revision}"), get(info::info)),
        (api("/settings"), put(admin::settings)),
        (api("/dedup"), get(keeping::repo_dedup_policy).put(keeping::set_repo_dedup_policy)),
        (api("/auth-check"), get(info::auth_check)),
        (api("/auth-check/write"), get(info::auth_check_write)),
        (api("/preupload/{revision}"), post(preupload::decide)),
        (api("/commit/{revision}"), post(commit::receive)),
        (api("/tree/{revision}"), get(tree::list)),
        (api("/tree/{revision}/"), get(tree::list)),
        (api("/tree/{revision}/{*path}"), get(tree::list)),
        (api("/paths-info/{revision}"), post(tree::paths_info)),
        (api("/refs"), get(refs::list)),
        (api("/branch/{branch}"), post(refs::create_branch).delete(refs::delete_branch)),
        (api("/tag/{tag}"), post(refs::create_tag).delete(refs::delete_tag)),
        (api("/commits/{revision}"), get(refs::history)),
        (api("/super-squash/{branch}"), post(refs::squash)),
        (api("/discussions"), get(discussion::list).post(discussion::open)),
        (api("/discussions/{number}"), get(discussion::details)),
        (api("/discussions/{number}/merge"), post(discussion::merge)),
        (api("/discussions/{number}/status"), post(discussion::set_status)),
        (
            format!("/api/resolve-cache/{plural}/{{namespace}}/{{name}}/{{revision}}/{{*path}}"),
            get(resolve::serve),
        ),
        (web("/resolve/{revision}/{*path}"), get(resolve::serve)),
        (web("/raw/{revision}/{*path}"), get(resolve::raw)),
        (web("/info/lfs/objects/batch"), post(lfs::batch)),
        (web("/info/lfs/locks"), get(lfs::locks::list).post(lfs::locks::create)),
        (web("/info/lfs/locks/verify"), post(lfs::locks::verify)),
        (web("/info/lfs/locks/{id}/unlock"), post(lfs::locks::unlock)),
        (signed(""), get(lfs::download).put(lfs::upload)),
        (signed("/verify"), post(lfs::verify)),
        (signed("/parts"), post(lfs::parts::join)),
        (signed("/parts/{number}"), put(lfs::parts::receive)),
    ]
}

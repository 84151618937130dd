//! The Hub API: what the tools of the Hugging Face Hub ask for, answered as they expect it.
//!
//! Every path, header and body here is one that real clients were seen to send or need. Errors carry `X-Error-Code`:
//! clients decide by it, and on plain HTTP by nothing else.

pub(crate) mod admin;
mod cas_token;
pub(crate) mod commit;
mod discussions;
mod gitignore;
pub(crate) mod info;
pub(crate) mod json;
pub(crate) mod preupload;
mod refs;
mod repos;
pub(crate) mod request;
pub(crate) mod resolve;
mod tree;
mod unsupported;

use admin::{quotas, users};
use axum::routing::{delete, get, post, put};
use store::names::Kind;

use crate::http::router::Route;

pub(crate) use cas_token::claims_for;

/// All routes of the Hub API, and those for administrators.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = vec![
        ("/api/whoami-v2".to_owned(), get(repos::whoami)),
        ("/api/repos/create".to_owned(), post(repos::create)),
        ("/api/repos/delete".to_owned(), delete(repos::delete)),
        ("/api/repos/move".to_owned(), post(repos::rename)),
        ("/api/validate-yaml".to_owned(), post(repos::validate_yaml)),
        ("/api/admin/users".to_owned(), get(users::users).post(users::add_user)),
        ("/api/admin/orgs".to_owned(), get(users::orgs).post(users::add_org)),
        ("/api/admin/users/{user}".to_owned(), put(users::set_user).delete(users::delete_user)),
        ("/api/admin/users/{user}/password".to_owned(), put(users::set_password)),
        ("/api/admin/orgs/{org}".to_owned(), delete(users::delete_org)),
        ("/api/admin/orgs/{org}/members".to_owned(), get(users::members)),
        (
            "/api/admin/orgs/{org}/members/{user}".to_owned(),
            put(users::set_member).delete(users::remove_member),
        ),
        ("/api/admin/repos".to_owned(), get(users::repos)),
        ("/api/admin/trash".to_owned(), get(users::trash)),
        ("/api/admin/trash/{id}".to_owned(), post(users::restore).delete(users::reclaim)),
        (
            "/api/admin/quotas".to_owned(),
            get(quotas::quotas).put(quotas::set_quota).delete(quotas::remove_quota),
        ),
        ("/api/admin/dedup".to_owned(), get(quotas::dedup_policies).put(quotas::set_dedup_policy)),
        ("/api/admin/audit".to_owned(), get(quotas::audit)),
        ("/api/admin/undelete".to_owned(), get(quotas::reflog).post(quotas::undelete)),
    ];
    routes.extend(cas_token::paths().map(|path| (path, get(cas_token::issue))));
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
    vec![
        (format!("/api/{plural}"), get(info::list)),
        (api(""), get(info::info)),
        (api("/revision/{revision}"), get(info::info)),
        (api("/settings"), put(repos::settings)),
        (api("/dedup"), get(quotas::repo_dedup_policy).put(quotas::set_repo_dedup_policy)),
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
        (api("/discussions"), get(discussions::list).post(discussions::open)),
        (api("/discussions/{number}"), get(discussions::details)),
        (api("/discussions/{number}/merge"), post(discussions::merge)),
        (api("/discussions/{number}/status"), post(discussions::set_status)),
        (
            format!("/api/resolve-cache/{plural}/{{namespace}}/{{name}}/{{revision}}/{{*path}}"),
            get(resolve::serve),
        ),
        (web("/resolve/{revision}/{*path}"), get(resolve::serve)),
        (web("/raw/{revision}/{*path}"), get(resolve::raw)),
    ]
}
